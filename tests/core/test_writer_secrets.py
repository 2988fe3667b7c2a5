"""No credential reaches the disk by any way of writing, unless its kind was allowed, and then a row says so."""

from __future__ import annotations

import random
import string

import pytest

from cyberos.core.episode import log
from cyberos.core.errors import InvalidMemory, SecretFound
from cyberos.core.layout import episode_stem
from cyberos.core.writer import Writer
from support import check, episode, fact, hashes, rows, write_raw

# made here, so that a hosting scanner finds none in this repository
TOKEN = "gh" + "p_" + "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=36))
KIND = "github-token"
BROKEN = f"{TOKEN[:12]}\n{TOKEN[12:]}"
FIELDS = ["task", "approach", "notes", "lesson", "error", "evidence_ref", "scope", "commit", "transcript_ref"]


def assert_refused(writer, call, field=None):
    before = hashes(writer.path)
    with pytest.raises(SecretFound) as caught:
        call()
    assert caught.value.secret == KIND
    assert field is None or caught.value.field == field
    assert TOKEN not in str(caught.value) + str(caught.value.hint) + repr(caught.value)
    assert hashes(writer.path) == before
    for file in writer.path.rglob("*"):
        assert not (file.is_file() and TOKEN[:12].encode() in file.read_bytes()), file


@pytest.mark.parametrize("text", [TOKEN, f"export T={TOKEN}", BROKEN, TOKEN[:9] + "\u200b" + TOKEN[9:]], ids=ascii)
@pytest.mark.parametrize("field", FIELDS)
def test_no_field_of_an_episode_may_hold_one(field, text, tmp_memory):
    made = episode(**({"outcome": "failure", "error": "e"} | {field: text}))
    assert_refused(tmp_memory, lambda: log(tmp_memory, made), field)


def test_no_tag_may_hold_one(tmp_memory):
    assert_refused(tmp_memory, lambda: log(tmp_memory, episode(tags=["a", TOKEN])), "tags/1")


def test_no_unknown_key_or_value_of_an_episode_may_hold_one(tmp_memory):
    path = f"{episode_stem(episode().task)}012345.md"
    text = episode().render()
    for line in (f'"{TOKEN}": 1', f'"zz": "{TOKEN}"', f'"zz": [\n    "{TOKEN}"\n  ]'):
        assert_refused(tmp_memory, lambda line=line: tmp_memory.put(path, zz(text, line)))


def zz(text, line):
    """Add a line to an episode's frontmatter, where the order of keys puts it."""
    lines = [*text.split("\n}\n")[0].removeprefix("---\n{\n").split(",\n"), f"  {line}"]
    lines.sort(key=lambda entry: entry.split('"')[1])
    return "---\n{\n" + ",\n".join(lines) + "\n}\n" + text.split("\n}\n", 1)[1]


OLD = {
    "in the body": fact(f"it is {TOKEN}")[1],
    "over two lines of the body": fact(BROKEN)[1],
    "in a value": f'---\n{{"kind": "facts", "a": "{TOKEN}"}}\n---\n',
    "in a value of YAML": f"---\nkind: facts\na: {TOKEN}\n---\n",
    "in a key": f"---\nkind: facts\n{TOKEN}: a\n---\n",
    "deep in a value": f'---\n{{"kind": "facts", "a": {{"b": ["{TOKEN}"]}}}}\n---\n',
    "spelled with escapes": f'---\n{{"kind": "facts", "a": "\\u0067{TOKEN[1:]}"}}\n---\n',
    "over two lines of a value": f'---\n{{"kind": "facts", "a": "{TOKEN[:12]}\\n{TOKEN[12:]}"}}\n---\n',
    "folded in YAML": f'---\nkind: facts\na: "{TOKEN[:12]}\\\n  {TOKEN[12:]}"\n---\n',
}


@pytest.mark.parametrize("text", OLD.values(), ids=OLD)
def test_no_memory_of_another_kind_may_hold_one_put_or_adopted(text, tmp_memory):
    path = fact("x")[0]
    assert_refused(tmp_memory, lambda: tmp_memory.put(path, text))
    write_raw(tmp_memory.path / path, text)
    with pytest.raises(SecretFound):
        tmp_memory.adopt(path)
    assert len(hashes(tmp_memory.path)) == 1


def test_no_path_may_hold_one(tmp_memory):
    assert_refused(tmp_memory, lambda: tmp_memory.put(f"memories/facts/aa/bb/{TOKEN}.md", fact("x")[1]), "path")


def test_no_actor_may_hold_one(tmp_memory):
    actor = "gl" + "pat-" + "".join(random.Random(7).choices(string.ascii_lowercase + string.digits, k=20))
    path, text = fact("x")
    tmp_memory.put(path, text)
    for call in (
        lambda: log(tmp_memory, episode(), actor=actor),
        lambda: tmp_memory.adopt(path, actor=actor),
        lambda: tmp_memory.forget(path, "r", actor=actor),
        lambda: tmp_memory.quarantine(path, "r", actor=actor),
        lambda: tmp_memory.emit_aux("x.y", {}, actor=actor),
        lambda: tmp_memory.acknowledge_gap("r", actor=actor),
        lambda: tmp_memory.adopt_vault("a" * 16, actor=actor),
    ):
        with pytest.raises((SecretFound, InvalidMemory)):
            call()
    assert tmp_memory.head_seq() == 2


@pytest.mark.parametrize("text", [TOKEN, BROKEN], ids=["whole", "broken"])
@pytest.mark.parametrize("allowed", [(), (KIND,)], ids=["", "not even allowed: no row could name its place"])
def test_no_reason_and_no_row_may_hold_one(text, allowed, root):
    writer = Writer(root, allow_secrets=allowed)
    path, body = fact("x")
    writer.put(path, body)
    assert_refused(writer, lambda: writer.forget(path, text), "reason")
    assert_refused(writer, lambda: writer.quarantine(path, text), "reason")
    assert_refused(writer, lambda: writer.acknowledge_gap(text), "reason")
    assert_refused(writer, lambda: writer.emit_aux("x.y", {"a": {"b": [text]}}))
    assert_refused(writer, lambda: writer.emit_aux("x.y", {TOKEN: 1}))


def test_one_in_a_transaction_stops_all_of_it(tmp_memory):
    def call():
        with tmp_memory.transaction():
            log(tmp_memory, episode())
            log(tmp_memory, episode(notes=TOKEN))

    assert_refused(tmp_memory, call, "notes")


def test_what_is_allowed_is_written_and_recorded_as_a_row(root):
    writer = Writer(root, allow_secrets=(KIND,))
    path = log(writer, episode(notes=f"{TOKEN} {TOKEN}", lesson=TOKEN), actor="ada")
    put, logged, *allowed = rows(root)[1:]
    assert [row["kind"] for row in (put, logged)] == ["put", "episode.logged"]
    assert [(row["kind"], row["actor"], row["payload"]) for row in allowed] == [
        ("secret.allowed", "ada", {"path": path.as_posix(), "secret": KIND, "field": field})
        for field in ("lesson", "notes")
    ]
    assert [row["tx"] for row in rows(root)[1:]] == [[number, 4] for number in range(1, 5)]
    writer.put(*fact(TOKEN))
    assert rows(root)[-1]["payload"]["field"] == "body"
    write_raw(root / fact("y")[0], fact(TOKEN)[1])
    writer.adopt(fact("y")[0])
    assert [row["kind"] for row in rows(root)[-2:]] == ["memory.adopted", "secret.allowed"]
    check(root, heads=1)


def test_another_kind_is_not_allowed_with_it(root):
    writer = Writer(root, allow_secrets=("gitlab-token",))
    assert_refused(writer, lambda: log(writer, episode(notes=TOKEN)), "notes")


def test_what_is_none_needs_no_row(tmp_memory):
    log(tmp_memory, episode(notes="the token is in 1Password; sha256 " + "ab" * 32))
    assert tmp_memory.head_seq() == 3
