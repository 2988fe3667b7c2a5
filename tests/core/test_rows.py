from __future__ import annotations

import json
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cyberos.core import canonical, rows
from cyberos.core.episode import log
from cyberos.core.rows import MAX_ROW_BYTES, PAYLOADS, RowError, format_row, is_known, parse_row
from cyberos.core.writer import Writer
from support import episode

GOLDEN = Path(__file__).parents[1] / "golden" / "audit.jsonl"
LINES = GOLDEN.read_bytes().splitlines()
HASH = "0f" * 32
ROW = {
    "actor": "agent",
    "kind": "put",
    "payload": {"memory_kind": "facts", "path": "memories/facts/aa/bb/x.md", "sha256": HASH, "size": 0},
    "prev": [HASH],
    "seq": 2,
    "ts": "2026-11-30T17:08:03.123456Z",
    "tx": [1, 1],
    "v": 1,
    "vault": "3f9c1d2e4b5a6978",
}
LOGGED = {
    "path": "memories/episodes/aa/bb/x.md",
    "outcome": "success",
    "duration_ms": 1,
    "token_cost": None,
    "quality_score": 0.5,
    "logged_at": ROW["ts"],
}


def spell(row: dict, text: str | None = None) -> bytes:
    """Spell a row without cyberos; `text` stands for the JSON that the hash is taken of."""
    head = (text or json.dumps(row, sort_keys=True, separators=(",", ":"))[:-1]).encode()
    return head + b',"hash":"' + sha256(head).hexdigest().encode() + b'"}'


# --- the golden bytes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", LINES)
def test_golden_rows_come_back_byte_for_byte(line):
    assert format_row(parse_row(line)) == line


def test_golden_rows_hold_what_they_were_written_with():
    created, put, logged, foreign, forgotten, released = map(parse_row, LINES)
    assert created["payload"] == {"vault": "3f9c1d2e4b5a69788796a5b4c3d2e1f00f1e2d3c"}
    assert (put["actor"], put["tx"], put["prev"]) == ("stephen", [1, 2], [created["hash"]])
    assert logged["payload"]["quality_score"] == 0.5
    assert foreign["payload"]["note"] == 'prüfen 😀 \u2028 "x" \\ /\n'
    assert foreign["payload"]["rate"] == 1e-05
    assert forgotten["seq"] == 5
    assert released["payload"] == {"path": "memories/facts/ab/cd/deploy.md", "reason": "checked again"}


def test_only_known_kinds_of_version_1_are_ours_to_judge():
    assert [is_known(parse_row(line)) for line in LINES] == [True, True, True, False, True, True]
    assert not is_known(parse_row(spell(ROW | {"v": 2})))


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")
def test_anyone_can_check_a_row_with_sha256sum():
    for number, line in enumerate(LINES, 1):
        command = f"sed -n {number}p {GOLDEN} | head -c -76 | sha256sum"
        said = subprocess.run(["sh", "-c", command], capture_output=True, check=True, text=True).stdout
        assert said.split()[0] == parse_row(line)["hash"]


def test_a_rows_hash_is_the_digest_of_all_that_stands_before_it():
    line = format_row(ROW)
    assert line[-75:] == b',"hash":"' + sha256(line[:-75]).hexdigest().encode() + b'"}'


# --- what is no row -------------------------------------------------------------------------------------------------

GOOD = json.dumps(ROW, sort_keys=True, separators=(",", ":"))[:-1]
BAD_SPELLING = {
    "a space": GOOD.replace('"seq":2', '"seq": 2'),
    "a second key": GOOD.replace('"seq":2', '"seq":2,"seq":2'),
    "a second key of another value": GOOD.replace('"seq":2', '"seq":1,"seq":2'),
    "a second key in the payload": GOOD.replace('"size":0', '"size":0,"size":0'),
    "keys out of order": '{"kind":"put",' + GOOD[1:].replace('"kind":"put",', ""),
    "keys out of order within": GOOD.replace('{"memory_kind":"facts",', "{").replace(
        '"size":0}', '"size":0,"memory_kind":"facts"}'
    ),
    "an exponent": GOOD.replace('"size":0', '"size":0e0'),
    "an integer with a point": GOOD.replace('"seq":2', '"seq":2.0'),
    "a negative zero": GOOD.replace('"size":0', '"size":-0'),
    "a plus": GOOD.replace('"size":0', '"size":+1'),
    "a leading zero": GOOD.replace('"size":0', '"size":00'),
    "NaN": GOOD.replace('"size":0', '"size":NaN'),
    "Infinity": GOOD.replace('"size":0', '"size":-Infinity'),
    "an integer of 2^53": GOOD.replace('"size":0', '"size":9007199254740992'),
    "an integer of 9,000 digits": GOOD.replace('"size":0', '"size":' + "9" * 9_000),
    "upper-case escapes": GOOD.replace("aa/bb", "\\u00FC"),
    "an escape of what needs none": GOOD.replace("aa/bb", "\\u0061a/bb"),
    "an escaped slash": GOOD.replace("aa/bb", "aa\\/bb"),
    "text that is not ASCII": GOOD.replace("aa/bb", "ü"),
    "a control character": GOOD.replace("aa/bb", "a\tb"),
    "two values": GOOD.replace('"seq":2', '"seq":2}{"seq":2'),
    "a list": "[1",
    "nothing": "{",
    "too deep": GOOD.replace('"put"', '"x.y"').replace('"size":0', '"size":[[["x"]]]'),
    "deeper than Python": GOOD.replace('"put"', '"x.y"').replace('"size":0', '"size":' + "[" * 9_000 + "]" * 9_000),
}
BAD_VALUES = [
    {"actor": "Agent"},
    {"actor": ""},
    {"actor": "a" * 65},
    {"actor": "a b"},
    {"actor": "a\n"},
    {"actor": None},
    {"kind": "Put"},
    {"kind": ""},
    {"kind": "put."},
    {"kind": "a.b.c.d.e"},
    {"payload": []},
    {"payload": None},
    {"prev": None},
    {"prev": HASH},
    {"prev": [HASH, HASH]},
    {"prev": ["ff" * 32, HASH]},
    {"prev": [HASH.upper()]},
    {"prev": [HASH[:-1]]},
    {"prev": [HASH + "\n"]},
    {"prev": [1]},
    {"seq": 0},
    {"seq": -1},
    {"seq": True},
    {"seq": "2"},
    {"ts": "2026-11-30T17:08:03.123456"},
    {"ts": "2026-11-30T17:08:03Z"},
    {"ts": "2026-11-30 17:08:03.123456Z"},
    {"ts": "2026-13-30T17:08:03.123456Z"},
    {"ts": "2026-11-30T24:08:03.123456Z"},
    {"ts": "2026-11-30T17:08:60.123456Z"},
    {"ts": "٢٠٢٦-11-30T17:08:03.123456Z"},
    {"ts": "2026-11-30T17:08:03.123456Z\n"},
    {"tx": [1]},
    {"tx": [0, 1]},
    {"tx": [2, 1]},
    {"tx": [1, 1, 1]},
    {"tx": [1, True]},
    {"tx": "1,1"},
    {"v": 0},
    {"v": True},
    {"v": "1"},
    {"vault": "3f9c"},
    {"vault": "3F9C1D2E4B5A6978"},
    {"vault": None},
    {"extra": 1},
    {"payload": ROW["payload"] | {"extra": 1}},
    {"payload": {}},
    {"payload": ROW["payload"] | {"size": -1}},
    {"payload": ROW["payload"] | {"size": 1.5}},
    {"payload": ROW["payload"] | {"size": True}},
    {"payload": ROW["payload"] | {"size": None}},
    {"payload": ROW["payload"] | {"sha256": "0f"}},
    {"payload": ROW["payload"] | {"path": None}},
    {"kind": "memory.adopted", "payload": ROW["payload"] | {"sha256": "g" * 64}},
    {"kind": "episode.logged", "payload": LOGGED | {"quality_score": 1}},
    {"kind": "episode.logged", "payload": LOGGED | {"duration_ms": 1.5}},
    {"kind": "episode.logged", "payload": LOGGED | {"duration_ms": True}},
    {"kind": "episode.logged", "payload": LOGGED | {"token_cost": "1"}},
    {"kind": "episode.logged", "payload": {key: LOGGED[key] for key in LOGGED if key != "logged_at"}},
    {"kind": "vault.created", "payload": {"vault": "xyz"}},
    {"kind": "vault.adopted", "payload": {"vault": "a" * 15}},
    {"kind": "gap.acknowledged", "payload": {"missing": ["b", "a"], "reason": "r"}},
    {"kind": "gap.acknowledged", "payload": {"missing": HASH, "reason": "r"}},
    {"kind": "memory.forgotten", "payload": {"path": "p"}},
]


@pytest.mark.parametrize("text", BAD_SPELLING.values(), ids=BAD_SPELLING)
def test_refuses_a_row_that_is_not_spelled_canonically_though_its_hash_is_true(text):
    with pytest.raises(RowError) as caught:
        parse_row(spell({}, text))
    assert caught.value.rule == "ledger-row-parse"


@pytest.mark.parametrize("change", BAD_VALUES, ids=str)
def test_refuses_a_row_that_lacks_its_form(change):
    with pytest.raises(RowError) as caught:
        parse_row(spell(ROW | change))
    assert caught.value.rule == "ledger-row-parse"


@pytest.mark.parametrize("key", ROW)
def test_refuses_a_row_without_one_of_its_keys(key):
    with pytest.raises(RowError, match=f"lacks {key}"):
        parse_row(spell({name: ROW[name] for name in ROW if name != key}))


@pytest.mark.parametrize("kind", PAYLOADS)
def test_refuses_a_kind_with_an_empty_payload_or_one_key_more(kind):
    with pytest.raises(RowError):
        parse_row(spell(ROW | {"kind": kind, "payload": {}}))
    with pytest.raises(RowError):
        parse_row(spell(ROW | {"kind": kind, "payload": ROW["payload"] | LOGGED}))


LINE = spell(ROW)
BAD_LINES = {
    "empty": b"",
    "a line end": LINE + b"\n",
    "a carriage return": LINE + b"\r",
    "a blank before": b" " + LINE,
    "its beginning": LINE[:-1],
    "its end": LINE[1:],
    "two rows": LINE + LINE,
    "an upper-case hash": LINE[:-66] + LINE[-66:-2].upper() + b'"}',
    "the hash of another row": LINE[:-66] + b"0" * 64 + b'"}',
    "another key for the hash": LINE.replace(b'"hash"', b'"hasx"'),
    "zeros": b"\0" * 200,
    "a BOM": b"\xef\xbb\xbf" + LINE,
    "bytes that are no text": b"{\xff" + LINE[1:],
    "a conflict marker": b"<<<<<<< HEAD",
    "too long": spell(ROW | {"kind": "x.y", "payload": {"text": "x" * MAX_ROW_BYTES}}),
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_refuses_a_line_that_is_no_row(line):
    with pytest.raises(RowError) as caught:
        parse_row(line)
    assert caught.value.rule in ("ledger-row-parse", "ledger-hash")


def test_names_the_hash_when_it_is_that_which_does_not_fit():
    with pytest.raises(RowError) as caught:
        parse_row(LINE.replace(b"facts", b"drift"))
    assert caught.value.rule == "ledger-hash"


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_refuses_every_row_with_any_one_byte_changed(line):
    for offset in range(len(line)):
        for flip in (0x01, 0x20, 0x80, line[offset]):
            with pytest.raises(RowError):
                parse_row(line[:offset] + bytes([line[offset] ^ flip]) + line[offset + 1 :])


# --- odd, but a row -------------------------------------------------------------------------------------------------

ODD = [
    {"prev": []},
    {"prev": [HASH, "ff" * 32]},
    {"prev": [f"{number:064x}" for number in range(900)]},
    {"seq": 2**53 - 1},
    {"tx": [7, 20_000]},
    {"ts": "0000-01-01T00:00:00.000000Z"},
    {"ts": "2026-02-30T23:59:59.999999Z"},
    {"actor": "@"},
    {"actor": "a" * 64},
    {"kind": "consolidation.published", "payload": {}},
    {"kind": "x.y", "payload": {"a": {"b": ["c"]}}},
    {"kind": "x.y", "payload": {"": "", "é": "é", "😀": "\ud800"}},
    {"v": 2, "payload": {"anything": 1}, "more": "keys"},
    {"kind": "vault.created", "payload": {"vault": "a" * 64}},
    {"kind": "vault.adopted", "payload": {"vault": "a" * 16}},
    {"kind": "episode.logged", "payload": LOGGED | {"token_cost": 0, "quality_score": 0.0}},
    {"kind": "gap.acknowledged", "payload": {"missing": [], "reason": ""}},
    {"kind": "memory.quarantined", "payload": {"path": "", "reason": "r"}},
    {"kind": "memory.released", "payload": {"path": "", "reason": "r"}},
]


@pytest.mark.parametrize("change", ODD, ids=lambda change: str(change)[:60])
def test_takes_an_odd_row(change):
    line = spell(ROW | change)
    assert format_row(parse_row(line)) == line


def test_a_row_of_the_greatest_length_is_one():
    room = MAX_ROW_BYTES - len(spell(ROW | {"kind": "x.y", "payload": {"text": ""}}))
    line = spell(ROW | {"kind": "x.y", "payload": {"text": "x" * room}})
    assert len(line) == MAX_ROW_BYTES
    assert parse_row(line)["payload"]["text"] == "x" * room


# --- both ways ------------------------------------------------------------------------------------------------------

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)
payloads = st.dictionaries(st.text(max_size=8), st.one_of(scalars, st.lists(scalars, max_size=3)), max_size=4)


@given(payloads, st.integers(1, 2**53 - 1))
def test_what_is_written_is_read_back_the_same(payload, seq):
    row = ROW | {"kind": "x.y", "payload": payload, "seq": seq}
    line = format_row(row)
    read = parse_row(line)
    assert {key: read[key] for key in row} == row
    assert format_row(read) == line
    assert line.isascii()
    assert line == line.splitlines()[0]


@given(payloads)
def test_another_json_reader_reads_the_same(payload):
    row = ROW | {"kind": "x.y", "payload": payload}
    assert json.loads(format_row(row))["payload"] == payload


@given(st.binary(max_size=300))
def test_any_bytes_are_a_row_or_a_row_error(blob):
    with pytest.raises(RowError):
        parse_row(blob)


def test_rows_that_are_read_quickly_are_read_as_any_other(root):
    log(Writer(root), episode("quickly", quality_score=0.25, token_cost=7))
    for path in sorted((root / "audit").rglob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            row = rows.parse_row(line)
            assert row == canonical.load(line.decode())
            assert rows.format_row(row) == line
            if row["kind"] != "vault.created":
                assert rows._plain(line) == row


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"quality_score":0.5', b'"quality_score":0.50'),
        (b'"quality_score":0.5', b'"quality_score":00.5'),
        (b'"duration_ms":10', b'"duration_ms":010'),
        (b'"duration_ms":10', b'"duration_ms":1e1'),
        (b'"tx":[2,2]', b'"tx":[3,2]'),
        (b'"seq":3', b'"seq":03'),
    ],
)
def test_what_is_not_spelled_so_is_not_read_quickly(root, old, new):
    log(Writer(root), episode("quickly"))
    line = next(
        line
        for path in (root / "audit").rglob("*.jsonl")
        for line in path.read_bytes().splitlines()
        if b"episode.logged" in line
    )
    head = line[:-75].replace(old, new)
    assert head != line[:-75]
    with pytest.raises(rows.RowError):
        rows.parse_row(head + b',"hash":"' + sha256(head).hexdigest().encode() + b'"}')
