"""The catalog alone: rows in and out, damage seen, nothing of the deleted left."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from cyberos.core.errors import VaultLocked
from cyberos.core.layout import episode_stem
from cyberos.index import catalog as module
from cyberos.index import database
from cyberos.index.catalog import Catalog, Mark
from cyberos.index.entry import ABSENT, FORGOTTEN, GONE, READY, Entry, task_key
from cyberos.index.fulltext import IndexDamaged


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "catalog.sqlite")


@pytest.fixture
def catalog(file):
    with closing(Catalog(file)) as opened:
        yield opened


def entry(path="memories/facts/aa/bb/x.md", state=READY, **fields):
    base = Entry(
        path, "facts", state, "d1", 3, "2026-11-30T12:00:00.000000Z", 5, digest="d1" * 32, fields='{"kind": "facts"}'
    )
    return base._replace(**fields)


def save(catalog, *entries):
    with catalog.writing():
        catalog.save(entries)


def test_entries_come_back_as_they_went_in(catalog):
    one = entry(fields='{"kind": "facts", "t": "naïve 🦓 \\u2028"}', is_quarantined=1, live="d1 d2", status="1 2 3")
    save(catalog, one)
    assert catalog.entry(one.path) == one
    assert catalog.entries() == [one]
    assert catalog.entry("memories/facts/aa/bb/y.md") is None
    assert one.digests == ["d1", "d2"]
    assert one.frontmatter["t"] == "naïve 🦓 \u2028"


def test_a_later_entry_replaces_the_earlier(catalog):
    save(catalog, entry())
    save(catalog, entry(state=FORGOTTEN, digest="", fields=""))
    assert catalog.entry(entry().path).state == FORGOTTEN
    assert catalog.count(FORGOTTEN) == 1
    assert catalog.count(READY) == 0


def hold(catalog, store, stamp="s1", **options):
    """Do what a sync does with a store."""
    catalog.attempt(store, stamp)
    catalog.confirm(store, stamp, **options)


def wanted(catalog, store="whoosh"):
    return [(one.path[-4:-3], is_wanted) for one, is_wanted in catalog.pending(store)]


def test_pending_is_what_the_store_lacks_or_must_drop(catalog):
    save(catalog, entry())
    assert catalog.pending("whoosh") == [(entry(), True)]
    hold(catalog, "whoosh")
    assert not catalog.has_pending("whoosh")
    save(catalog, entry())
    assert not catalog.has_pending("whoosh"), "the same document need not be indexed again"
    save(catalog, entry(digest="d2" * 32))
    assert [is_wanted for _, is_wanted in catalog.pending("whoosh")] == [True]
    save(catalog, entry(state=ABSENT))
    assert [is_wanted for _, is_wanted in catalog.pending("whoosh")] == [False]
    hold(catalog, "whoosh", "s2")
    assert catalog.stores()["whoosh"].stamp == "s2"
    catalog.forget_store("whoosh")
    assert catalog.stores() == {}
    assert not catalog.has_pending("whoosh"), "the store holds nothing of it, and should not"


def test_each_store_has_its_own_reach(catalog):
    save(catalog, entry("memories/facts/aa/bb/a.md"))
    hold(catalog, "whoosh")
    save(catalog, entry("memories/facts/aa/bb/b.md"))
    assert (wanted(catalog, "whoosh"), wanted(catalog, "fts5")) == ([("b", True)], [("a", True), ("b", True)])
    hold(catalog, "fts5", "f1")
    assert (wanted(catalog, "whoosh"), wanted(catalog, "fts5")) == ([("b", True)], [])
    catalog.forget_store("fts5")
    assert (wanted(catalog, "whoosh"), wanted(catalog, "fts5")) == ([("b", True)], [("a", True), ("b", True)])
    assert set(catalog.stores()) == {"whoosh"}


def test_a_store_may_follow_in_parts(catalog):
    save(catalog, *(entry(f"memories/facts/aa/bb/{name}.md") for name in "cab"))
    assert wanted(catalog) == [("c", True), ("a", True), ("b", True)]
    hold(catalog, "vectors", last="memories/facts/aa/bb/a.md")
    assert wanted(catalog, "vectors") == [("b", True)]
    save(catalog, entry("memories/facts/aa/bb/c.md", state=FORGOTTEN, digest=""))
    assert wanted(catalog, "vectors") == [("b", True), ("c", False)]
    hold(catalog, "vectors", "s2")
    assert not catalog.has_pending("vectors")


def test_an_attempt_is_known_before_it_is_confirmed(catalog):
    save(catalog, entry())
    catalog.attempt("whoosh", "s1")
    assert catalog.stores()["whoosh"] == (None, "s1", 0)
    catalog.confirm("whoosh", "s1")
    catalog.attempt("whoosh", "s2")
    assert catalog.stores()["whoosh"] == ("s1", "s2", 1)


def test_what_is_gone_leaves_once_every_store_let_go(catalog):
    save(catalog, entry())
    hold(catalog, "whoosh")
    hold(catalog, "fts5")
    save(catalog, entry(state=GONE))
    assert catalog.entry(entry().path) is not None
    hold(catalog, "whoosh", "s2")
    assert catalog.entry(entry().path) is not None
    hold(catalog, "fts5", "s2")
    assert catalog.entry(entry().path) is None
    save(catalog, entry("memories/facts/aa/bb/new.md"))
    assert catalog.has_pending("whoosh"), "numbers of changes are never given twice"


def test_a_transaction_is_all_or_nothing(catalog):
    with pytest.raises(RuntimeError), catalog.writing():
        catalog.save([entry()])
        raise RuntimeError
    assert catalog.entries() == []


def test_history_tells_tasks_apart_that_share_eight_digits(catalog):
    stem = episode_stem("deploy")
    same = [
        entry(f"{stem}{n}aaaaa.md", task=task_key("deploy"), label=label)
        for n, label in enumerate(("success", "failure", "failure"))
    ]
    twin = entry(f"{stem}9aaaaa.md", task=task_key("another task"), label="success")
    hidden = entry(f"{stem}8aaaaa.md", task=task_key("deploy"), label="success", state=ABSENT)
    save(catalog, *same, twin, hidden)
    assert catalog.history("deploy") == {"failure": 2, "success": 1}
    assert catalog.history("another task") == {}


def test_newest_first_and_limited(catalog):
    for number in range(5):
        save(catalog, entry(f"memories/facts/aa/bb/{number}.md", seq=number, last_seen_at=f"2026-11-3{number % 2}"))
    save(catalog, entry("memories/facts/aa/bb/gone.md", state=FORGOTTEN, seq=99, last_seen_at="2027"))
    assert [one.seq for one in catalog.newest(None, 3)] == [3, 1, 4]
    assert catalog.newest("people", 3) == []


def test_uses_add_up_and_leave_with_the_memory(catalog):
    save(catalog, entry())
    catalog.note_uses({entry().path: 1})
    catalog.note_uses({entry().path: 2})
    assert catalog.uses(entry().path) == 3
    assert catalog.uses("another") == 0
    assert catalog.all_uses() == {entry().path: 3}
    save(catalog, entry(state=FORGOTTEN))
    assert catalog.all_uses() == {}


def test_marks_are_found_by_day(catalog):
    one, other = "audit/2026-11/30/aa.jsonl", "audit/2026-11/31/bb.jsonl"
    catalog.save_marks({one: Mark(1, 2, 3, "d"), other: Mark(4, 5, 6, "e")}, whole=True)
    assert catalog.marks("audit/2026-11/30") == {one: Mark(1, 2, 3, "d")}
    catalog.save_marks({one: Mark(9, 9, 9, "f")}, whole=False)
    assert catalog.marks("audit/2026-11/30") == {one: Mark(9, 9, 9, "f")}
    catalog.save_marks({}, whole=True)
    assert catalog.marks("audit/2026-11/31") == {}


def test_joints(catalog):
    catalog.save_joints(["ab" * 32], whole=False)
    assert catalog.has_joint("ab" * 32)
    assert not catalog.has_joint("cd" * 32)
    catalog.save_joints([], whole=True)
    assert not catalog.has_joint("ab" * 32)


def test_a_row_that_was_changed_behind_our_back_is_damage(catalog, file):
    save(catalog, entry())
    with closing(sqlite3.connect(file)) as other:
        other.execute("UPDATE memories SET fields = replace(fields, 'facts', 'fakes')")
        other.commit()
    with pytest.raises(IndexDamaged):
        catalog.entry(entry().path)


def test_another_version_is_not_used(file):
    with closing(Catalog(file)) as made:
        made.set(version=module.VERSION + 1)
    with pytest.raises(IndexDamaged):
        Catalog(file)


@pytest.mark.parametrize("blob", [b"not a database at all", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_damage(file, blob):
    with open(file, "wb") as handle:
        handle.write(blob)
    with pytest.raises(IndexDamaged):
        Catalog(file)


def test_no_file_to_read_is_damage_and_makes_none(tmp_path):
    with pytest.raises(IndexDamaged):
        Catalog(str(tmp_path / "none.sqlite"), readonly=True)
    assert list(tmp_path.iterdir()) == []


def test_another_writer_is_waited_for_and_is_no_damage(catalog, file, monkeypatch):
    monkeypatch.setattr(database, "BUSY_S", 0.05)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with closing(Catalog(None)), pytest.raises(VaultLocked):
            Catalog(file)


def test_a_catalog_that_may_only_be_read_takes_no_writes(catalog, file):
    with closing(Catalog(file, readonly=True)) as reading, pytest.raises(OSError, match="readonly"):
        save(reading, entry())


def test_names_with_odd_characters_are_fine(tmp_path):
    file = tmp_path / "a?b%20c#d"
    with closing(Catalog(str(file))) as made:
        save(made, entry())
    assert file.stat().st_size > 0


def test_nothing_of_a_forgotten_memory_stays_in_the_file(catalog, file):
    words = [f"ZEBRA{number:05}" for number in range(300)]
    save(catalog, *(entry(f"memories/facts/aa/bb/{word}.md", fields=f'{{"t": "{word * 9} secret"}}') for word in words))
    save(catalog, *(entry(f"memories/facts/aa/bb/{word}.md", state=FORGOTTEN, fields="", digest="") for word in words))
    catalog.vacuum()
    with open(file, "rb") as handle:
        assert b"secret" not in handle.read()
