"""What a Writer promises when nothing goes wrong but its caller. Crashes, full disks and crowds: test_writer_*.py."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from cyberos.core import commit, ledger, syscalls
from cyberos.core import rows as rows_module
from cyberos.core.episode import log
from cyberos.core.errors import (
    BrokenLedger,
    CyberosError,
    EpisodeImmutable,
    InvalidMemory,
    MemoryChanged,
    MemoryNotFound,
    UnsafePath,
    VaultNotFound,
)
from cyberos.core.layout import episode_stem, segment_path
from cyberos.core.rows import PAYLOADS
from cyberos.core.writer import Writer
from support import check, episode, fact, files, hashes, rows, staged, write_raw


def last(root, count=1):
    return rows(root)[-count:]


def everything(root) -> dict[str, bytes]:
    """Give every file of the vault but the lock and the cache."""
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in sorted(root.rglob("*"))
        if file.is_file() and file.name not in ("lock", "HEAD")
    }


# --- one episode ----------------------------------------------------------------------------------------------------


def test_a_logged_episode_raises_seq_by_exactly_two_ac_4(tmp_memory):
    for seq in (1, 3, 5):
        assert tmp_memory.head_seq() == seq
        log(tmp_memory, episode(), actor="ada")
    assert [row["kind"] for row in rows(tmp_memory.path)] == ["vault.created", *["put", "episode.logged"] * 3]
    check(tmp_memory.path, heads=1)


def test_both_rows_are_one_transaction(tmp_memory):
    log(tmp_memory, episode(), actor="ada")
    put, logged = last(tmp_memory.path, 2)
    assert (put["tx"], logged["tx"]) == ([1, 2], [2, 2])
    assert put["ts"] == logged["ts"] == logged["payload"]["logged_at"]
    assert logged["prev"] == [put["hash"]]
    assert logged["seq"] == put["seq"] + 1
    assert put["actor"] == logged["actor"] == "ada"
    assert put["vault"] == logged["vault"] == rows(tmp_memory.path)[0]["payload"]["vault"][:16]


def test_the_put_row_names_the_body_by_its_digest_and_does_not_contain_it(tmp_memory):
    path = log(tmp_memory, episode("a telling task"))
    blob = (tmp_memory.path / path).read_bytes()
    assert tmp_memory.read_audit_row(2)["payload"] == {
        "memory_kind": "episode",
        "path": path.as_posix(),
        "sha256": sha256(blob).hexdigest(),
        "size": len(blob),
    }
    assert not any(b"telling" in file.read_bytes() for file in tmp_memory.path.glob("audit/*/*/*"))


def test_the_projection_holds_these_six_ac_18(tmp_memory):
    path = log(tmp_memory, episode(outcome="partial", error="e", token_cost=7, quality_score=1, duration_ms=0))
    row = tmp_memory.read_audit_row(3)
    assert row["payload"] == {
        "path": path.as_posix(),
        "outcome": "partial",
        "duration_ms": 0,
        "token_cost": 7,
        "quality_score": 1.0,
        "logged_at": row["ts"],
    }


def test_what_an_episode_lacks_is_null_and_the_literal_half_ac_18(tmp_memory):
    log(tmp_memory, episode())
    payload = tmp_memory.read_audit_row(3)["payload"]
    assert (payload["token_cost"], payload["quality_score"]) == (None, 0.5)
    assert json.loads((tmp_memory.path / payload["path"]).read_text().split("---\n")[1]).keys() == {
        *("approach", "duration_ms", "kind", "outcome", "task")
    }


def test_put_writes_the_pair_itself_whoever_calls_it(tmp_memory):
    made = episode()
    path = f"{episode_stem(made.task)}0123456789.md"
    assert tmp_memory.put(Path(path), made.render()) == Path(path)
    assert [row["kind"] for row in last(tmp_memory.path, 2)] == ["put", "episode.logged"]


def test_a_put_of_another_kind_is_one_row(tmp_memory):
    tmp_memory.put(*fact("x"))
    assert tmp_memory.head_seq() == 2
    assert last(tmp_memory.path)[0]["payload"]["memory_kind"] == "facts"


def test_a_row_that_is_not_there_is_a_key_error(tmp_memory):
    with pytest.raises(KeyError):
        tmp_memory.read_audit_row(2)


def test_a_folder_that_is_no_vault_is_refused_and_init_is_named(tmp_path):
    with pytest.raises(VaultNotFound) as caught:
        Writer(tmp_path)
    assert "cyberos init" in caught.value.hint


def test_a_vault_whose_ledger_is_empty_is_none(tmp_path):
    (tmp_path / "audit").mkdir()
    (tmp_path / "memories").mkdir()
    with pytest.raises(VaultNotFound):
        Writer(tmp_path).put(*fact("x"))
    assert files(tmp_path) == {}


# --- immutability and names -----------------------------------------------------------------------------------------


def test_an_episode_is_never_written_over(tmp_memory):
    path = log(tmp_memory, episode())
    before = everything(tmp_memory.path)
    for made in (episode(), episode(outcome="failure", error="e")):
        with pytest.raises(EpisodeImmutable) as caught:
            tmp_memory.put(path, made.render())
        assert "log a new episode" in caught.value.hint
    assert everything(tmp_memory.path) == before


def test_not_even_within_one_transaction(tmp_memory):
    path = f"{episode_stem(episode().task)}012345.md"
    with tmp_memory.transaction():
        tmp_memory.put(path, episode().render())
        with pytest.raises(EpisodeImmutable):
            tmp_memory.put(path, episode().render())
    assert tmp_memory.head_seq() == 3


def test_not_even_over_a_file_that_no_row_knows(tmp_memory):
    path = f"{episode_stem(episode().task)}012345.md"
    write_raw(tmp_memory.path / path, "mine")
    with pytest.raises(EpisodeImmutable):
        tmp_memory.put(path, episode().render())
    assert (tmp_memory.path / path).read_text() == "mine"


def draws(monkeypatch, *drawn: bytes):
    """Let os.urandom give these, then repeat the last."""
    asked = []

    def urandom(size):
        asked.append(size)
        return drawn[min(len(asked), len(drawn)) - 1][:size]

    monkeypatch.setattr(os, "urandom", urandom)
    return asked


def test_a_taken_name_is_drawn_again(tmp_memory, monkeypatch):
    draws(monkeypatch, b"aaa", b"aaa", b"aaa", b"bbb")
    first, second = log(tmp_memory, episode()), log(tmp_memory, episode())
    assert (first.stem[-6:], second.stem[-6:]) == (b"aaa".hex(), b"bbb".hex())
    check(tmp_memory.path, heads=1)


def test_after_sixteen_taken_names_a_longer_one_is_drawn(tmp_memory, monkeypatch):
    asked = draws(monkeypatch, b"aaaaaaaa")
    paths = [log(tmp_memory, episode()) for _ in range(2)]
    assert asked == [3] + [3] * 16 + [8]
    assert [len(path.stem) - 9 for path in paths] == [6, 16]


def test_names_that_never_come_free_are_an_error_and_nothing_is_written(tmp_memory, monkeypatch):
    draws(monkeypatch, b"aaaaaaaa")
    for _ in range(2):
        log(tmp_memory, episode())
    before = everything(tmp_memory.path)
    with pytest.raises(EpisodeImmutable):
        log(tmp_memory, episode())
    assert everything(tmp_memory.path) == before


def test_thousands_of_episodes_may_share_one_task(tmp_memory):
    made = episode()
    with tmp_memory.transaction():
        paths = {log(tmp_memory, made) for _ in range(3_000)}
    assert len(paths) == 3_000
    assert tmp_memory.head_seq() == 6_001
    assert {path.as_posix() for path in paths} == set(files(tmp_memory.path))
    assert len(check(tmp_memory.path, heads=1).memories) == 3_000


REFUSED = {
    "text-encoding": lambda text: text.replace("wrote it", "wrote\x07it"),
    "frontmatter-parse": lambda text: text.removeprefix("---\n"),
    "episode-outcome-closed-enum": lambda text: text.replace('"success"', '"kinda"'),
    "episode-duration-non-negative": lambda text: text.replace('"duration_ms": 10', '"duration_ms": 1.0'),
    "episode-frontmatter-required-field": lambda text: text.replace('  "task": "ship the login form"', '  "x": 1'),
    "episode-body-matches-frontmatter": lambda text: text.replace("Outcome: success", "Outcome: failure"),
    "frontmatter-canonical": lambda text: text.replace('"duration_ms": 10', '"duration_ms":  10'),
    "layout-hash-shard": lambda text: text.replace("the login form", "another form"),
    "layout-kind-directory-match": lambda text: text.replace('"episode"', '"facts"'),
    "frontmatter-double": lambda text: text.replace("\n\nTask", '\n\n---\n{"kind": "facts"}\n---\nTask'),
    "layout-file-size": lambda text: text + "x" * 300_000,
}


@pytest.mark.parametrize("rule", REFUSED)
def test_an_episode_that_breaks_a_rule_is_refused_and_nothing_is_written(rule, tmp_memory):
    before = everything(tmp_memory.path)
    with pytest.raises(InvalidMemory) as caught:
        tmp_memory.put(f"{episode_stem(episode().task)}012345.md", REFUSED[rule](episode().render()))
    assert caught.value.rule == rule
    assert caught.value.path
    assert everything(tmp_memory.path) == before


@pytest.mark.parametrize("actor", ["", "Ada", "a b", "a" * 65, "ada\n"])
def test_an_actor_that_no_row_can_hold_is_refused(actor, tmp_memory):
    before = everything(tmp_memory.path)
    path, _ = fact("x")
    write_raw(tmp_memory.path / path, fact("x")[1])
    for call in (
        lambda: log(tmp_memory, episode(), actor=actor),
        lambda: tmp_memory.adopt(path, actor=actor),
        lambda: tmp_memory.emit_aux("x.y", {}, actor=actor),
        lambda: tmp_memory.forget(path, "r", actor=actor),
    ):
        with pytest.raises(InvalidMemory, match="actor"):
            call()
    (tmp_memory.path / path).unlink()
    assert everything(tmp_memory.path) == before


# --- transactions ---------------------------------------------------------------------------------------------------


def test_a_transaction_commits_all_its_puts_at_once(tmp_memory):
    with tmp_memory.transaction():
        for number in range(5):
            log(tmp_memory, episode(f"task {number}"))
            tmp_memory.put(*fact(f"fact {number}"))
        tmp_memory.emit_aux("x.y", {"n": 1})
        assert len(hashes(tmp_memory.path)) == 1
        assert files(tmp_memory.path) == {}
    found = last(tmp_memory.path, 16)
    assert [row["tx"] for row in found] == [[number, 16] for number in range(1, 17)]
    assert len({row["ts"] for row in found}) == 1
    check(tmp_memory.path, heads=1)


def test_an_error_that_leaves_a_transaction_leaves_nothing(tmp_memory):
    before = everything(tmp_memory.path)
    with pytest.raises(ZeroDivisionError), tmp_memory.transaction():
        log(tmp_memory, episode())
        tmp_memory.put(*fact("x"))
        tmp_memory.emit_aux("x.y", {})
        raise ZeroDivisionError
    assert everything(tmp_memory.path) == before
    log(tmp_memory, episode())
    assert tmp_memory.head_seq() == 3


def test_a_refused_put_within_a_transaction_costs_only_itself(tmp_memory):
    with tmp_memory.transaction():
        log(tmp_memory, episode("one"))
        with pytest.raises(InvalidMemory):
            tmp_memory.put(fact("x")[0], "no memory")
        log(tmp_memory, episode("two"))
    assert tmp_memory.head_seq() == 5
    check(tmp_memory.path, heads=1)


def test_nested_transactions_join(tmp_memory):
    with tmp_memory.transaction(), tmp_memory.transaction():
        tmp_memory.put(*fact("x"))
        with tmp_memory.transaction():
            tmp_memory.put(*fact("y"))
    assert [row["tx"] for row in last(tmp_memory.path, 2)] == [[1, 2], [2, 2]]


def test_an_empty_transaction_writes_nothing(tmp_memory):
    before = everything(tmp_memory.path)
    with tmp_memory.transaction():
        pass
    assert everything(tmp_memory.path) == before


def test_a_memory_put_twice_in_one_transaction_ends_as_the_last(tmp_memory):
    for _ in range(2):
        with tmp_memory.transaction():
            tmp_memory.put(*fact("one", "name"))
            path = tmp_memory.put(*fact("two", "name"))
        assert (tmp_memory.path / path).read_text() == fact("two")[1]
        check(tmp_memory.path, heads=1)


def test_forgetting_and_putting_in_one_transaction_ends_as_the_last_said(tmp_memory):
    path, _ = fact("", "name")
    tmp_memory.put(*fact("one", "name"))
    with tmp_memory.transaction():
        tmp_memory.forget(path, "r")
        tmp_memory.put(*fact("two", "name"))
    assert (tmp_memory.path / path).read_text() == fact("two")[1]
    check(tmp_memory.path, heads=1)
    with tmp_memory.transaction():
        tmp_memory.put(*fact("three", "name"))
        tmp_memory.forget(path, "r")
    assert files(tmp_memory.path) == {}
    assert staged(tmp_memory.path) == set()
    check(tmp_memory.path, heads=1)


# --- other kinds ----------------------------------------------------------------------------------------------------


def test_a_memory_of_another_kind_may_be_put_again(tmp_memory):
    for number, text in enumerate(["one", "two", "one", "three"], 2):
        path = tmp_memory.put(*fact(text, "name"))
        assert (tmp_memory.path / path).read_text() == fact(text)[1]
        assert tmp_memory.head_seq() == number
    memory = check(tmp_memory.path, heads=1).memories[str(path)]
    assert [row["seq"] for row in memory.puts] == [5]
    assert memory.last_seen_at == tmp_memory.read_audit_row(5)["ts"]


def test_a_put_over_an_edit_by_hand_is_refused_and_loses_nothing(tmp_memory):
    path = tmp_memory.put(*fact("one", "name"))
    edited = (tmp_memory.path / path).read_text() + "an edit\n"
    (tmp_memory.path / path).write_text(edited)
    with pytest.raises(MemoryChanged) as caught:
        tmp_memory.put(*fact("two", "name"))
    assert f"cyberos adopt {path}" in caught.value.hint
    assert tmp_memory.head_seq() == 2
    log(tmp_memory, episode())
    assert (tmp_memory.path / path).read_text() == edited
    assert tmp_memory.head_seq() == 4


def test_a_put_over_a_file_that_no_row_knows_is_refused(tmp_memory):
    path, text = fact("one", "name")
    write_raw(tmp_memory.path / path, text)
    with pytest.raises(MemoryChanged):
        tmp_memory.put(*fact("two", "name"))
    assert (tmp_memory.path / path).read_text() == text


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_a_put_over_a_link_is_refused_and_its_target_untouched(plant, tmp_memory, tmp_path):
    path, _ = fact("one", "name")
    (tmp_path / "precious").write_text("precious")
    (tmp_memory.path / path).parent.mkdir(parents=True)
    plant(tmp_path / "precious", tmp_memory.path / path)
    with pytest.raises((UnsafePath, MemoryChanged)):
        tmp_memory.put(*fact("two", "name"))
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("component", ["memories", "memories/facts", ".cyberos", ".cyberos/stage", "audit"])
def test_no_write_passes_a_symbolic_link(component, tmp_memory, tmp_path):
    tmp_memory.put(*fact("one", "name"))
    outside = tmp_path / "outside"
    os.rename(tmp_memory.path / component, outside)
    (tmp_memory.path / component).symlink_to(outside)
    before = {str(file): file.read_bytes() for file in outside.rglob("*") if file.is_file()}
    with pytest.raises((UnsafePath, CyberosError)):
        tmp_memory.put(*fact("two", "name"))
    assert {str(file): file.read_bytes() for file in outside.rglob("*") if file.is_file()} == before


# --- adopt ----------------------------------------------------------------------------------------------------------


def test_adopt_logs_what_stands_there_once(tmp_memory):
    path, text = fact("by hand")
    write_raw(tmp_memory.path / path, text)
    assert tmp_memory.adopt(path, actor="ada") is True
    assert tmp_memory.adopt(path) is False
    row = last(tmp_memory.path)[0]
    assert (row["kind"], row["actor"], row["seq"]) == ("memory.adopted", "ada", 2)
    assert row["payload"]["sha256"] == sha256(text.encode()).hexdigest()
    check(tmp_memory.path, heads=1)


@pytest.mark.parametrize("is_in_place", [True, False])
def test_adopt_keeps_an_edit_however_the_editor_saved_it(is_in_place, tmp_memory):
    path, text = fact("one", "name")
    tmp_memory.put(path, text)
    if not is_in_place:
        (tmp_memory.path / path).unlink()
    (tmp_memory.path / path).write_text(text + "edited\n")
    assert tmp_memory.adopt(path) is True
    assert (tmp_memory.path / path).read_text() == text + "edited\n"
    tmp_memory.put(*fact("two", "name"))
    assert (tmp_memory.path / path).read_text() == fact("two")[1]
    check(tmp_memory.path, heads=1)


def test_adopt_refuses_an_episode(tmp_memory):
    path = f"{episode_stem(episode().task)}012345.md"
    write_raw(tmp_memory.path / path, episode().render())
    with pytest.raises(EpisodeImmutable):
        tmp_memory.adopt(path)


def test_adopt_refuses_what_is_not_there_broken_or_linked(tmp_memory, tmp_path):
    path, text = fact("x")
    with pytest.raises(MemoryNotFound):
        tmp_memory.adopt(path)
    write_raw(tmp_memory.path / path, b"---\nkind: facts\n---\n\xff")
    with pytest.raises(InvalidMemory) as caught:
        tmp_memory.adopt(path)
    assert (caught.value.rule, caught.value.path) == ("text-encoding", path)
    write_raw(tmp_memory.path / path, text.replace("facts", "drift"))
    with pytest.raises(InvalidMemory):
        tmp_memory.adopt(path)
    write_raw(tmp_memory.path / path, text + "x" * 300_000)
    with pytest.raises(InvalidMemory):
        tmp_memory.adopt(path)
    write_raw(tmp_path / "outside", text)
    for plant in (os.symlink, os.link):
        (tmp_memory.path / path).unlink()
        plant(tmp_path / "outside", tmp_memory.path / path)
        with pytest.raises(UnsafePath):
            tmp_memory.adopt(path)
    assert tmp_memory.head_seq() == 1


# --- forgetting -----------------------------------------------------------------------------------------------------


def assert_nowhere(root, text):
    for file in root.rglob("*"):
        assert not (file.is_file() and text.encode() in file.read_bytes()), file


def test_a_forgotten_body_is_nowhere_and_the_ledger_verifies(tmp_memory):
    root = tmp_memory.path
    path = log(tmp_memory, episode("keep my secret name"))
    log(tmp_memory, episode("another"))
    tmp_memory.forget(path, "it names somebody", actor="ada")
    assert_nowhere(root, "secret name")
    found = check(root, heads=1)
    assert found.memories[path.as_posix()].is_forgotten
    row = last(root)[0]
    assert (row["kind"], row["actor"]) == ("memory.forgotten", "ada")
    assert row["payload"] == {"path": path.as_posix(), "reason": "it names somebody"}
    log(tmp_memory, episode("one more"))
    assert_nowhere(root, "secret name")
    check(root, heads=1)


def test_every_version_is_forgotten_also_in_lost_and_found(tmp_memory):
    root = tmp_memory.path
    for text in ("hushed one", "hushed two"):
        tmp_memory.put(*fact(text, "name"))
    path, _ = fact("", "name")
    (root / ".cyberos" / "lost+found").mkdir()
    (root / ".cyberos" / "lost+found" / "name.md").write_text(fact("hushed one", "name")[1])
    (root / ".cyberos" / "lost+found" / "other.md").write_text("of somebody else")
    tmp_memory.forget(path, "r")
    assert_nowhere(root, "hushed")
    assert os.listdir(root / ".cyberos" / "lost+found") == ["other.md"]


def test_an_edited_memory_can_be_forgotten(tmp_memory):
    path, text = fact("hushed", "name")
    tmp_memory.put(path, text)
    (tmp_memory.path / path).write_text("hushed edit")
    tmp_memory.forget(path, "r")
    log(tmp_memory, episode())
    assert_nowhere(tmp_memory.path, "hushed")


def test_a_memory_whose_file_is_gone_can_be_forgotten_once(tmp_memory):
    path = log(tmp_memory, episode())
    os.unlink(tmp_memory.path / path)
    tmp_memory.forget(path, "r")
    with pytest.raises(MemoryNotFound, match="forgotten already"):
        tmp_memory.forget(path, "r")
    assert tmp_memory.head_seq() == 4


def test_a_forgotten_memory_that_came_back_can_be_forgotten_again(tmp_memory):
    path, text = fact("x")
    tmp_memory.put(path, text)
    tmp_memory.forget(path, "r")
    write_raw(tmp_memory.path / path, text)
    tmp_memory.forget(path, "again")
    assert files(tmp_memory.path) == {}
    check(tmp_memory.path, heads=1)


def test_a_forgotten_memory_may_be_put_anew(tmp_memory):
    path, text = fact("x")
    tmp_memory.put(path, text)
    tmp_memory.forget(path, "r")
    tmp_memory.put(path, text)
    assert not check(tmp_memory.path, heads=1).memories[path].is_forgotten
    tmp_memory.forget(path, "r")
    write_raw(tmp_memory.path / path, text)
    assert tmp_memory.adopt(path) is True
    assert not check(tmp_memory.path, heads=1).memories[path].is_forgotten


@pytest.mark.parametrize("name", ["forget", "quarantine"])
@pytest.mark.parametrize("reason", ["", " \n", "x" * 2_001, "a\x00b"])
def test_a_reason_is_a_few_words(name, reason, tmp_memory):
    path = tmp_memory.put(*fact("x"))
    with pytest.raises(InvalidMemory):
        getattr(tmp_memory, name)(path.as_posix(), reason)
    assert tmp_memory.head_seq() == 2


@pytest.mark.parametrize("name", ["forget", "quarantine"])
def test_what_the_ledger_does_not_know_can_be_neither_forgotten_nor_quarantined(name, tmp_memory):
    path, text = fact("x")
    write_raw(tmp_memory.path / path, text)
    with pytest.raises(MemoryNotFound):
        getattr(tmp_memory, name)(path, "r")
    assert (tmp_memory.path / path).exists()


def test_quarantine_is_a_row_and_the_file_stays(tmp_memory):
    path = log(tmp_memory, episode()).as_posix()
    tmp_memory.quarantine(path, "it was wrong", actor="ada")
    memory = check(tmp_memory.path, heads=1).memories[path]
    assert (memory.is_quarantined, memory.is_forgotten) == (True, False)
    assert last(tmp_memory.path)[0]["payload"] == {"path": path, "reason": "it was wrong"}


# --- rows of others -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PAYLOADS)
def test_nobody_else_writes_the_writers_own_rows(kind, tmp_memory):
    with pytest.raises(InvalidMemory) as caught:
        tmp_memory.emit_aux(kind, {})
    assert caught.value.rule == "ledger-row-parse"
    assert tmp_memory.head_seq() == 1


def test_a_row_of_another_kind_is_appended(tmp_memory):
    tmp_memory.emit_aux("consolidation.published", {"paths": ["a"], "rate": 1e-07, "text": "ü"}, actor="dream")
    row = tmp_memory.read_audit_row(2)
    assert row["payload"] == {"paths": ["a"], "rate": 1e-07, "text": "ü"}
    check(tmp_memory.path, heads=1)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("Kind", {}),
        ("", {}),
        ("a b", {}),
        ("x.y", []),
        ("x.y", None),
        ("x.y", {"n": float("nan")}),
        ("x.y", {"n": 2**53}),
        ("x.y", {"n": set()}),
        ("x.y", {"n": b"x"}),
        ("x.y", {1: 1, "1": 1}),
        ("x.y", {"n": {"n": {"n": [1]}}}),
        ("x.y", {"text": "x" * 65_536}),
    ],
    ids=str,
)
def test_what_no_row_can_hold_is_refused(kind, payload, tmp_memory):
    with pytest.raises(InvalidMemory) as caught:
        tmp_memory.emit_aux(kind, payload)
    assert caught.value.rule == "ledger-row-parse"
    assert tmp_memory.head_seq() == 1


# --- damage ---------------------------------------------------------------------------------------------------------


DAMAGE = {
    "a byte changed": lambda blob: blob.replace(b'"facts"', b'"fActs"', 1),
    "a space added": lambda blob: blob.replace(b'"seq":3', b'"seq": 3', 1),
    "a line end lost": lambda blob: blob.replace(b"\n", b"", 1),
    "a byte zeroed": lambda blob: blob.replace(b"facts", b"f\0cts", 1),
    "rows swapped": lambda blob: b"".join(blob.splitlines(keepends=True)[::-1]),
    "a row doubled": lambda blob: blob + blob,
    "a conflict": lambda blob: b"<<<<<<< ours\n" + blob,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_ledger_is_not_written_to_and_says_what_to_run(damage, tmp_memory):
    for number in range(4):
        tmp_memory.put(*fact(str(number)))
    segment = max(tmp_memory.path.glob("audit/*/*/*.jsonl"), key=lambda file: file.stat().st_size)
    blob = segment.read_bytes()
    segment.write_bytes(DAMAGE[damage](blob))
    assert segment.read_bytes() != blob
    os.unlink(tmp_memory.path / ".cyberos" / "HEAD")
    before = everything(tmp_memory.path)
    with pytest.raises(BrokenLedger) as caught:
        tmp_memory.put(*fact("x"))
    assert caught.value.segment == segment.relative_to(tmp_memory.path).as_posix()
    assert "cyberos doctor" in caught.value.hint
    assert everything(tmp_memory.path) == before


def test_gaps_are_acknowledged_once(tmp_memory):
    for number in range(2):
        tmp_memory.put(*fact(str(number)))
        os.unlink(tmp_memory.path / ".cyberos" / "HEAD")  # so that the next row begins a segment
    gone = next(file for file in tmp_memory.path.glob("audit/*/*/*.jsonl") if b'"seq":2' in file.read_bytes())
    missing = [row["hash"] for row in rows(tmp_memory.path) if row["seq"] == 2]
    gone.unlink()
    os.unlink(tmp_memory.path / fact("0")[0])
    assert list(ledger.scan(tmp_memory.path).missing) == missing
    assert tmp_memory.acknowledge_gap("the branch is gone") == missing
    assert tmp_memory.acknowledge_gap("the branch is gone") == []
    found = check(tmp_memory.path, heads=1)
    assert found.missing == {}
    assert found.rows[-1]["payload"] == {"missing": missing, "reason": "the branch is gone"}


@pytest.mark.parametrize("vault", ["", "a" * 15, "g" * 16, "a" * 65, None])
def test_a_vaults_id_is_hex(vault, tmp_memory):
    with pytest.raises(InvalidMemory):
        tmp_memory.adopt_vault(vault)


# --- segments and heads ---------------------------------------------------------------------------------------------


def segments_of(root):
    return sorted(root.glob("audit/*/*/*.jsonl"))


def test_a_segment_grows_to_its_limit_and_then_another_begins(tmp_memory, monkeypatch):
    monkeypatch.setattr(commit, "MAX_SEGMENT_BYTES", 5_000)
    for number in range(30):
        log(tmp_memory, episode(str(number)))
    sizes = [file.stat().st_size for file in segments_of(tmp_memory.path)]
    assert len(sizes) > 5
    assert max(sizes) <= 5_000
    with tmp_memory.transaction():
        for number in range(20):
            log(tmp_memory, episode(str(number)))
    assert max(file.stat().st_size for file in segments_of(tmp_memory.path)) > 5_000, "a transaction is in one segment"
    check(tmp_memory.path, heads=1)


def test_more_heads_than_a_row_can_name_are_joined_by_the_next_rows(tmp_memory, monkeypatch):
    monkeypatch.setattr(rows_module, "MAX_PARENTS", 3)
    head = rows(tmp_memory.path)[-1]
    for number in range(8):
        row = {
            "actor": "a",
            "kind": "x.y",
            "payload": {"n": number},
            "prev": [head["hash"]],
            "seq": 2,
            "ts": head["ts"],
        }
        line = rows_module.format_row(row | {"tx": [1, 1], "v": 1, "vault": head["vault"]})
        write_raw(tmp_memory.path / segment_path(line[-66:-2].decode(), head["ts"]), line + b"\n")
    for heads in (6, 4, 2, 1, 1):
        tmp_memory.put(*fact(str(heads)))
        check(tmp_memory.path, heads=heads)


def test_a_clock_that_goes_backwards_changes_nothing_but_the_times(tmp_memory, monkeypatch):
    class Clock(datetime):
        now_ = datetime(2031, 1, 1, tzinfo=UTC)

        @classmethod
        def now(cls, tz=None):
            cls.now_ -= timedelta(days=40)
            return cls.now_

    monkeypatch.setattr(commit, "datetime", Clock)
    for number in range(5):
        tmp_memory.put(*fact(str(number), "name"))
        os.unlink(tmp_memory.path / ".cyberos" / "HEAD")
    found = check(tmp_memory.path, heads=1)
    assert [row["seq"] for row in found.rows] == [1, 2, 3, 4, 5, 6]
    assert len(os.listdir(tmp_memory.path / "audit")) > 4
    memory = found.memories[fact("", "name")[0]]
    assert [row["seq"] for row in memory.puts] == [6]
    assert memory.last_seen_at == found.rows[-1]["ts"]


# --- syncs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def syncs(monkeypatch):
    """Count the syncs; of whole file systems apart."""
    counted = {"fsync": 0, "syncfs": 0}
    fsync = os.fsync

    def count(fd):
        counted["fsync"] += 1
        fsync(fd)

    def count_all(root):
        counted["syncfs"] += 1
        return True

    monkeypatch.setattr(os, "fsync", count)
    monkeypatch.setattr(syscalls, "syncfs", count_all)

    def taken():
        found = dict(counted)
        counted.update(fsync=0, syncfs=0)
        return found

    return taken


def test_a_log_to_an_open_segment_takes_at_most_five_syncs(tmp_memory, syncs):
    log(tmp_memory, episode())
    assert syncs()["fsync"] <= 8
    for number in range(70):
        log(tmp_memory, episode(str(number)))
        found = syncs()
        assert found["fsync"] <= 5
        assert found["syncfs"] <= 1
        assert len(staged(tmp_memory.path)) <= 33


def test_what_is_acknowledged_was_synced(tmp_memory, monkeypatch):
    """The body, the stage folder and the segment: each of the three is load-bearing."""
    log(tmp_memory, episode("one"))
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    log(tmp_memory, episode("two"))
    names = [os.path.relpath(name, tmp_memory.path) for name in synced]
    assert names[0].startswith(".cyberos/stage/")
    assert names[1] == ".cyberos/stage"
    assert names[2].startswith("audit/")
    assert names[2].endswith(".jsonl")


def test_a_batch_shares_its_syncs(tmp_memory, syncs):
    log(tmp_memory, episode())
    syncs()
    with tmp_memory.transaction():
        for number in range(10):
            log(tmp_memory, episode(str(number)))
    assert syncs()["fsync"] == 12
    with tmp_memory.transaction():
        for number in range(500):
            log(tmp_memory, episode(str(number)))
    found = syncs()
    assert found["fsync"] <= 4
    assert found["syncfs"] <= 2


@pytest.mark.parametrize(("durability", "single", "several"), [("none", 0, 0), ("batch", 0, 1), ("full", 1, 1)])
def test_durability_says_which_writes_wait_for_the_disk(durability, single, several, root, syncs):
    writer = Writer(root, durability=durability)
    syncs()
    for number in range(40):
        log(writer, episode(str(number)))
        writer.put(*fact("x", "name"))
        assert bool(syncs()["fsync"]) == bool(single)
    with writer.transaction():
        log(writer, episode("a"))
        log(writer, episode("b"))
    assert bool(syncs()["fsync"]) == bool(several)


def test_durability_is_a_setting_of_the_vault(root, syncs):
    (root / "cyberos.toml").write_text('durability = "none"\n')
    log(Writer(root), episode())
    assert syncs() == {"fsync": 0, "syncfs": 0}


def test_a_memory_with_conflict_markers_is_refused(tmp_memory):
    path, body = fact("<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n", "config")
    with pytest.raises(InvalidMemory) as caught:
        tmp_memory.put(path, body)
    assert (caught.value.rule, caught.value.line) == ("no-conflict-markers", 7)


def test_an_episode_is_not_put_again_where_its_file_was_deleted_or_forgotten(tmp_memory):
    made = episode("once")
    paths = [log(tmp_memory, made), log(tmp_memory, made)]
    (tmp_memory.path / paths[0]).unlink()
    for entry in (tmp_memory.path / ".cyberos" / "stage").iterdir():
        entry.unlink()
    tmp_memory.forget(paths[1], "by mistake")
    before = tmp_memory.head_seq()
    for path in paths:
        with pytest.raises(EpisodeImmutable):
            tmp_memory.put(path, made.render())
    assert tmp_memory.head_seq() == before
