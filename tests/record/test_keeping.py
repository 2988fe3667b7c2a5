"""Whatever a run said, its episode is stored, and holds neither a credential nor a character that no memory may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cyberos.core import secrets
from cyberos.core.episode import Episode
from cyberos.record.keeping import MOST, keep, last_lines, made_storable
from support import check, rows

TOKEN = "ghp_" + "0123456789abcdefghij0123456789abcdef"
PIECES = st.sampled_from(
    ["\x1b[31m", "\x1b", "\r", "\r\n", "\n", "\x00", "\x9b", "\ud800", "\ufeff", "\u2028", '"', "\\", "é", "修", "🦓", "\t",
     TOKEN, TOKEN[:20], "AKIA" + "ABCDEFGHIJKLMNOP", "x" * 700, "\u2028" * 900, "🦓" * 900]
)  # fmt: skip
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=12).map("".join)
LONG = ("task", "approach", "notes", "error", "lesson", "evidence_ref", "commit", "transcript_ref", "scope")


@given(st.lists(TEXTS, min_size=9, max_size=9))
def test_any_text_can_be_stored(texts):
    shown = [f"x{text}" for text in texts]  # what is blank is refused before a run begins
    values = dict(zip(LONG, shown, strict=True)) | {"outcome": "failure", "duration_ms": 1, "tags": shown[:1]}
    storable, _ = made_storable(values)
    made = Episode(**storable)
    assert all(len(storable[name]) <= MOST + 20 for name in LONG)
    assert [found for name in LONG for found in secrets.scan(storable[name])] == []
    assert secrets.scan(made.render()) == []


@pytest.mark.parametrize("piece", ["a", "\u2028", "🦓", "\n", '"', "修"])
def test_nine_fields_of_any_length_fit_into_one_file(root, tmp_memory, piece):
    values = dict.fromkeys(LONG, f"x{piece * 50_000}x") | {"outcome": "failure", "duration_ms": 1}
    kept = keep(tmp_memory, values, "agent")
    check(root, is_settled=False)
    assert (root / kept.path).stat().st_size > 4_000


def test_a_short_text_stays_as_it_is_and_a_long_one_is_cut_once():
    values, redacted = made_storable({"task": "a" * MOST, "notes": "b" * (MOST + 1), "duration_ms": 3, "tags": ["c"]})
    assert values == {"task": "a" * MOST, "notes": "b" * (MOST - 4) + " […]", "duration_ms": 3, "tags": ["c"]}
    assert redacted == []


def test_a_credential_at_the_cut_leaves_nothing_of_itself(root, tmp_memory):
    kept = keep(
        tmp_memory,
        {
            "task": "x" * (MOST - 15) + " " + TOKEN,
            "approach": "a",
            "outcome": "success",
            "duration_ms": 1,
            "tags": [TOKEN],
        },
        "agent",
    )
    assert kept.redacted == [("github-token", "task"), ("github-token", "tags/0")]
    assert "ghp_" not in (root / kept.path).read_text()
    told = [row["payload"] for row in rows(root) if row["kind"] == "secret.redacted"]
    assert [(row["path"], row["secret"], row["field"]) for row in told] == [(kept.path, *one) for one in kept.redacted]


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (b"", ""),
        (b"\n\n", ""),
        (b"one\n\ntwo\n", "one\ntwo"),
        (b"10%\r50%\r100%\ndone\r\n", "100%\ndone"),
        (b"\x1b[1mbold\x1b[0m\x07", "bold"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"".join(b"%d\n" % number for number in range(50)), "\n".join(map(str, range(30, 50)))),
        (b"x" * 5_000, "…" + "x" * 1_999),
    ],
)
def test_the_last_lines_are_what_a_reader_would_have_seen(output, shown):
    assert last_lines(output) == shown
