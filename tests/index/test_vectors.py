"""The matrix and its roster: what is found is what numpy finds over everything, and what is damaged is not there."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from cyberos.core import layout
from cyberos.core.files import Files
from cyberos.index import roster as rosters
from cyberos.index import vectors as module
from cyberos.index.roster import Held, text_key
from cyberos.index.vectors import Vectors

np = pytest.importorskip("numpy")

DIM = 8
STAMP = "ab" * 32
KINDS = ("episodes", "facts", "people")


@pytest.fixture
def files(root):
    made = Files(root)
    made.make_folder(layout.INDEX)
    return made


@pytest.fixture
def store(files):
    return Vectors(files, STAMP, DIM)


def reopened(files):
    return Vectors(files, STAMP, DIM)


def unit(seed):
    row = np.random.default_rng(seed).normal(size=DIM)
    return (row / np.linalg.norm(row)).astype(np.float32)


def held(number, *, scope="default", text=None):
    path = f"memories/{KINDS[number % 3]}/aa/bb/{number:04}.md"
    return Held(path, bytes([number % 256]) * 8, scope, text_key(text or f"text {number}"))


def commit(store, numbers, removes=(), **options):
    adds = [held(number) for number in numbers]
    fresh = {one.text: unit(number) for one, number in zip(adds, numbers, strict=True)}
    return store.commit(adds, fresh, removes, seen="s", missing=0, **options)


def answers(store, query=None, kind=None, scope=None, limit=1000):
    return store.view().ask(unit(7) if query is None else query).nearest(kind=kind, scope=scope, limit=limit)


def on_disk(files, ending):
    return sorted(name for name in files.names(layout.INDEX) if name.endswith(ending))


def matrix_of(files):
    (name,) = on_disk(files, ".f32")
    return f"{files.root}/{layout.INDEX}/{name}"


def roster_of(files):
    (name,) = on_disk(files, ".roster")
    return f"{files.root}/{layout.INDEX}/{name}"


# --- what is found ---------------------------------------------------------------------------------------------------


def test_the_nearest_are_those_of_a_whole_comparison(files, store):
    commit(store, range(300))
    for seed in range(5):
        query = unit(1000 + seed)
        cosines = {held(number).path: float(query @ unit(number)) for number in range(300)}
        for limit in (1, 7, 300, 10**9):
            found = answers(reopened(files), query, limit=limit)
            best = sorted(cosines, key=lambda path: (-round(cosines[path], 6), path))[:limit]
            assert [near.path for near in found] == best
            assert [near.cosine for near in found] == pytest.approx([cosines[path] for path in best], abs=2e-6)


@pytest.mark.parametrize("kind", ["episode", "facts", "people", "decisions"])
def test_kind_and_scope_are_filtered_inside(store, kind):
    adds = [held(number, scope=f"s{number % 4}") for number in range(60)]
    store.commit(adds, {one.text: unit(number) for number, one in enumerate(adds)}, [], seen="", missing=0)
    of_kind = {one.path for one in adds if layout.kind_of(one.path) == kind}
    assert {near.path for near in answers(store, kind=kind)} == of_kind
    both = {one.path for one in adds if one.path in of_kind and one.scope == "s1"}
    assert {near.path for near in answers(store, kind=kind, scope="s1")} == both
    assert len(answers(store, kind=kind, scope="s1", limit=2)) == min(2, len(both))
    assert answers(store, scope="no such scope") == []


def test_equal_ones_come_by_path_also_at_the_cut(store):
    adds = [held(number, text="the same") for number in (9, 3, 6, 0, 12)]
    store.commit(adds, {text_key("the same"): unit(1)}, [], seen="", missing=0)
    ordered = sorted(one.path for one in adds)
    for limit in range(1, 7):
        assert [near.path for near in answers(store, limit=limit)] == ordered[:limit]
    assert len(store.view().matrix) == 1, "one text has one row"


def test_of_gives_the_same_cosines_and_keys(store):
    commit(store, range(20))
    asked = store.view().ask(unit(5))
    assert sorted(asked.of([held(n).path for n in range(20)] + ["memories/facts/aa/bb/none.md"]).values()) == sorted(
        asked.nearest(kind=None, scope=None, limit=99)
    )


def test_nothing_is_found_in_nothing(files, store):
    assert answers(store) == []
    commit(store, [])
    assert answers(reopened(files)) == []
    assert reopened(files).view().roster.head.seen == "s"


def test_a_row_that_is_no_number_is_far_from_everything(store):
    store.commit([held(0)], {held(0).text: np.full(DIM, np.nan, np.float32)}, [], seen="", missing=0)
    assert [near.cosine for near in answers(store)] == [-1.0]


# --- what changes ----------------------------------------------------------------------------------------------------


def test_adding_does_not_write_what_is_there_again(files, store):
    commit(store, range(10))
    before = os.stat(matrix_of(files))
    commit(store, range(10, 13))
    after = os.stat(matrix_of(files))
    assert (after.st_ino, after.st_size) == (before.st_ino, 13 * DIM * 4)
    assert {near.path for near in answers(reopened(files))} == {held(number).path for number in range(13)}


def test_any_sequence_of_commits_is_what_a_dictionary_holds(files, store):
    chance = random.Random(5)
    model = {}
    for step in range(60):
        numbers = chance.sample(range(40), chance.randint(0, 6))
        removes = chance.sample(range(40), chance.randint(0, 6))
        writer = store if chance.random() < 0.5 else reopened(files)
        commit(writer, numbers, [held(number).path for number in removes], is_purge=chance.random() < 0.2)
        model = {number: None for number in model if number not in removes} | dict.fromkeys(numbers)
        for reader in (store, reopened(files)):
            assert {near.path for near in answers(reader)} == {held(number).path for number in model}, step
        cosines = {held(number).path: float(unit(7) @ unit(number)) for number in model}
        assert all(abs(near.cosine - cosines[near.path]) < 2e-6 for near in answers(store))
        assert len(on_disk(files, ".f32")) <= 1


def test_a_text_that_comes_back_has_its_row_still(store):
    commit(store, range(10))
    commit(store, [], [held(3).path])
    assert held(3).text in store.view().texts()
    store.commit([held(3)], {}, [], seen="", missing=0)
    assert answers(store, unit(3), limit=1)[0].path == held(3).path


def test_rows_that_nobody_has_go_when_they_are_many(store, monkeypatch):
    monkeypatch.setattr(module, "IDLE", 4)
    commit(store, range(20))
    for left, there in ((16, 20), (12, 20), (9, 9), (4, 4), (3, 4)):
        commit(store, [], [held(number).path for number in range(left, 20)])
        assert (len(store.view().matrix), len(answers(store))) == (there, left)


def test_a_purge_leaves_no_bytes(files, store):
    commit(store, range(50))
    secret = unit(3).tobytes()
    commit(store, [], [held(3).path])
    with open(matrix_of(files), "rb") as file:
        assert secret in file.read(), "else this test shows nothing"
    commit(store, [], [], is_purge=True)
    everything = b"".join(files.read(f"{layout.INDEX}/{name}") for name in files.names(layout.INDEX))
    assert secret not in everything
    assert held(3).text not in everything
    assert held(3).path.encode() not in everything


def test_a_view_stays_as_it_is_while_others_write(files, store):
    commit(store, range(10))
    view = store.view()
    before = view.ask(unit(7)).nearest(kind=None, scope=None, limit=99)
    commit(reopened(files), range(10, 20), [held(number).path for number in range(10)], is_purge=True)
    assert view.ask(unit(7)).nearest(kind=None, scope=None, limit=99) == before
    assert {near.path for near in answers(store)} == {held(number).path for number in range(10, 20)}


def test_another_embedders_vectors_are_never_compared(files, store):
    commit(store, range(5))
    assert answers(Vectors(files, "cd" * 32, DIM)) == []
    # the same first digits, or another width, under the same name
    assert answers(Vectors(files, STAMP[:16] + "cd" * 24, DIM)) == []
    assert answers(Vectors(files, STAMP, DIM * 2), np.ones(DIM * 2, np.float32)) == []
    os.rename(roster_of(files), roster_of(files).replace(STAMP[:16], "cd" * 8))
    os.rename(matrix_of(files), matrix_of(files).replace(STAMP[:16], "cd" * 8))
    assert answers(Vectors(files, "cd" * 32, DIM)) == []


def test_what_cannot_be_written_is_held_in_memory(files, store):
    commit(store, range(5))
    aside = store.aside()
    commit(aside, range(5, 8), [held(0).path])
    assert {near.path for near in answers(aside)} == {held(number).path for number in range(1, 8)}
    assert {near.path for near in answers(store)} == {held(number).path for number in range(5)}


# --- damage ----------------------------------------------------------------------------------------------------------


def flip(file, at):
    with open(file, "r+b") as handle:
        handle.seek(at)
        (byte,) = handle.read(1)
        handle.seek(at)
        handle.write(bytes([byte ^ 0x40]))


def test_a_damaged_row_is_left_out_and_the_others_stay(files, store):
    commit(store, range(10))
    flip(matrix_of(files), 4 * DIM * 4 + 5)
    for reader in (reopened(files), store):
        assert {near.path for near in answers(reader)} == {held(n).path for n in range(10) if n != 4}
        assert reader.view().roster.head.seen == "", "so it is compared with the catalog again"
    commit(store, [4])
    assert {near.path for near in answers(reopened(files))} == {held(number).path for number in range(10)}
    assert reopened(files).view().roster.head.matrix, "written anew, and sound"


@pytest.mark.parametrize("size", [0, 1, DIM * 4 * 3, DIM * 4 * 3 + 7, DIM * 4 * 10 - 1])
def test_of_a_matrix_cut_short_the_whole_rows_stay(files, store, size):
    commit(store, range(10))
    # a copy is cut: what has been mapped must never shrink under its reader
    shutil.copy(matrix_of(files), f"{files.root}/copy")
    os.replace(f"{files.root}/copy", matrix_of(files))
    os.truncate(matrix_of(files), size)
    assert {near.path for near in answers(reopened(files))} == {held(n).path for n in range(size // (DIM * 4))}


def test_a_matrix_that_is_gone_a_link_or_a_pipe_holds_nothing(files, store, tmp_path):
    commit(store, range(10))
    file = matrix_of(files)
    os.rename(file, tmp_path / "elsewhere")
    assert answers(reopened(files)) == []
    os.symlink(tmp_path / "elsewhere", file)
    assert answers(reopened(files)) == []
    os.unlink(file)
    os.mkfifo(file)
    assert answers(reopened(files)) == []
    commit(store, range(10))
    assert len(answers(reopened(files))) == 10
    assert (tmp_path / "elsewhere").stat().st_size == 10 * DIM * 4, "and nothing was written through the link"


def test_a_copied_or_touched_vault_answers_as_before(files, store):
    commit(store, range(10))
    os.utime(matrix_of(files), (1, 1))
    assert len(answers(reopened(files))) == 10
    commit(store, [10])
    assert len(answers(reopened(files))) == 11
    assert reopened(files).view().roster.head.look[1] != 10**9


def test_rows_behind_those_that_count_are_of_a_writer_that_was_killed(files, store):
    commit(store, range(10))
    with open(matrix_of(files), "ab") as file:
        file.write(unit(99).tobytes() + b"torn")
    assert {near.path for near in answers(reopened(files))} == {held(number).path for number in range(10)}
    commit(store, [10])
    assert {near.path for near in answers(reopened(files))} == {held(number).path for number in range(11)}
    assert os.stat(matrix_of(files)).st_size == 11 * DIM * 4


def test_any_byte_of_the_roster_matters(files, store):
    commit(store, range(3))
    whole = len(answers(store))
    size = os.stat(roster_of(files)).st_size
    for at in range(size):
        flip(roster_of(files), at)
        assert answers(reopened(files)) == [], at
        flip(roster_of(files), at)
    for length in range(size):
        blob = files.read(f"{layout.INDEX}/{os.path.basename(roster_of(files))}")[:length]
        with pytest.raises((ValueError, LookupError, TypeError)):
            rosters.parse_roster(blob)
    assert len(answers(reopened(files))) == whole == 3


def test_a_roster_whose_columns_do_not_fit_is_refused(store):
    roster = commit(store, range(3)).roster
    assert rosters.parse_roster(rosters.format_roster(roster)) == roster
    rows = rosters.column()
    rows.extend([0, 1, 3])
    for bad in (
        roster._replace(rows=rows),
        roster._replace(scopes=rows),
        roster._replace(paths=roster.paths[:2]),
        roster._replace(keys=roster.keys[:-1]),
        roster._replace(texts=roster.texts + b"x"),
    ):
        with pytest.raises((ValueError, LookupError, TypeError)):
            rosters.parse_roster(rosters.format_roster(bad))


def test_a_matrix_that_others_took_away_meanwhile_is_looked_for_again(files, store, monkeypatch):
    commit(store, range(5))
    reader = reopened(files)
    read = Vectors._read
    raced = []

    def racing(self, files):
        found = read(self, files)
        if not raced:
            raced.append(1)
            commit(store, range(5, 9), is_purge=True)
        return found

    monkeypatch.setattr(Vectors, "_read", racing)
    assert len(answers(reader)) == 9


def test_what_cannot_be_written_leaves_what_was_there(files, store, monkeypatch):
    commit(store, range(5))

    def full(self, path, blob):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Files, "overwrite", full)
    with pytest.raises(OSError, match="No space"):
        commit(store, [5])
    monkeypatch.undo()
    for reader in (store, reopened(files)):
        assert len(answers(reader)) == 5
    commit(store, [6])
    assert len(answers(reopened(files))) == 6
