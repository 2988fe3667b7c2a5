"""The vectors beside the catalog: each memory once, the newest first, in the time there is, whatever happens meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from cyberos.core import layout
from cyberos.core.episode import log
from cyberos.core.errors import VaultLocked
from cyberos.core.files import Files
from cyberos.core.lock import lock
from cyberos.core.writer import Writer
from cyberos.embed.base import EmbedderUnavailable
from cyberos.embed.hashing import Hashing
from cyberos.index import meaning, sync
from support import Repo, episode, fact, in_fresh_process

np = pytest.importorskip("numpy")


class Counting(Hashing):
    """The embedder for tests, which tells what it was given and can be slow."""

    def __init__(self, slow_s=0.0):
        super().__init__()
        self.given = []
        self.slow_s = slow_s

    def embed(self, texts, *, progress=None):
        self.given += texts
        time.sleep(self.slow_s * len(texts))
        return super().embed(texts)


@pytest.fixture(autouse=True)
def no_memory_of_other_tests():
    meaning._aside.clear()
    meaning._open.clear()


def log_one(root, task="ship the login form", **fields):
    return log(Writer(root, durability="none"), episode(task, **fields)).as_posix()


def put_fact(root, text, name):
    path, body = fact(text, name)
    Writer(root, durability="none").put(path, body)
    return path


def brought_up(root, embedder=None, *, budget_s=60.0, progress=None, **options):
    with sync.sync(root, **options) as index:
        return meaning.bring_up(index, embedder or Hashing(), budget_s=budget_s, progress=progress)


def held(root, embedder=None, **options):
    return set(brought_up(root, embedder, **options).view.roster.paths)


def index_bytes(root, prefix="vectors"):
    return b"".join(file.read_bytes() for file in (root / layout.INDEX).glob(f"{prefix}*") if file.is_file())


# --- what is new ----------------------------------------------------------------------------------------------------


def test_each_memory_is_embedded_once(root):
    counting = Counting()
    paths = {log_one(root, f"task {number}") for number in range(5)}
    assert held(root, counting) == paths
    assert len(counting.given) == 5
    paths.add(log_one(root, "task 5"))
    assert held(root, counting) == paths
    assert held(root, counting) == paths
    assert len(counting.given) == 6
    assert counting.given[-1].startswith("Task: task 5\nApproach: ")


def test_one_text_is_embedded_once_however_many_have_it(root):
    counting = Counting()
    with Writer(root, durability="none").transaction() as writer:
        for number in range(1000):
            log(writer, episode("the same", duration_ms=number))
    found = brought_up(root, counting)
    assert (len(found.view.roster.paths), len(found.view.matrix), len(counting.given)) == (1000, 1, 1)


def test_the_text_is_the_whole_document(root):
    counting = Counting()
    log_one(root, "a", approach="b", notes="c", lesson="d")
    put_fact(root, "the deploy key is kept in the safe", "deploy")
    brought_up(root, counting)
    assert "Task: a\nApproach: b\nOutcome: success\nNotes: c\nLesson: d" in counting.given
    assert any("the deploy key is kept in the safe" in text for text in counting.given)


def test_nothing_new_writes_nothing_and_asks_nothing_of_the_embedder(root, monkeypatch):
    log_one(root)
    brought_up(root)
    before = {file: file.stat().st_mtime_ns for file in (root / layout.INDEX).glob("vectors-*")}
    meaning._open.clear()
    monkeypatch.setattr(meaning, "_Work", None)
    counting = Counting()
    assert len(held(root, counting)) == 1
    assert counting.given == []
    assert {file: file.stat().st_mtime_ns for file in (root / layout.INDEX).glob("vectors-*")} == before


def test_an_empty_vault_has_no_vectors(root):
    assert brought_up(root)[1] == {}
    assert held(root) == set()


def test_a_changed_fact_loses_its_vector_and_gets_another(root):
    path = put_fact(root, "the port is 80", "port")
    first = brought_up(root).view
    put_fact(root, "the door is green", "port")
    second = brought_up(root).view
    assert first.roster.paths == second.roster.paths == [path]
    assert first.roster.key(0) != second.roster.key(0)
    query = Hashing().embed(["door green"])[0]
    assert second.ask(query).nearest(kind=None, scope=None, limit=1)[0].cosine > 0.3


def test_branches_come_and_go_and_what_comes_back_costs_nothing(tmp_path):
    repo = Repo.begin(tmp_path / "repo")
    here = {log_one(repo.root, "on main")}
    repo.commit()
    repo.branch("side")
    there = here | {log_one(repo.root, "on the side")}
    repo.commit()
    counting = Counting()
    assert held(repo.root, counting) == there
    repo.switch("main")
    assert held(repo.root, counting) == here
    repo.switch("side")
    assert held(repo.root, counting) == there
    assert len(counting.given) == 2


def test_a_lost_catalog_costs_no_embedding(root):
    for number in range(4):
        log_one(root, f"task {number}")
    counting = Counting()
    brought_up(root, counting)
    os.unlink(root / layout.INDEX / "catalog.sqlite")
    assert len(held(root, counting)) == 4
    assert len(counting.given) == 4


def test_what_is_forgotten_leaves_no_bytes(root):
    kept, gone = log_one(root, "keep this"), log_one(root, "a word nobody should see")
    brought_up(root)
    row = (
        Hashing().embed(["Task: a word nobody should see\nApproach: wrote it\nOutcome: success\nNotes: "])[0].tobytes()
    )
    assert row in index_bytes(root), "else this test shows nothing"
    Writer(root).forget(gone, "it names a customer")
    sync.purge(root)
    assert row not in index_bytes(root)
    assert gone.encode() not in index_bytes(root)
    assert held(root) == {kept}


@pytest.mark.parametrize("keeper", ["another embedder", "a damaged roster"])
def test_a_purge_reaches_the_vectors_that_nobody_uses_today(root, keeper):
    gone = log_one(root, "a word nobody should see")
    brought_up(root)
    (roster,) = (root / layout.INDEX).glob("vectors-*.roster")
    if keeper == "a damaged roster":
        roster.write_bytes(roster.read_bytes()[:-1])
    Writer(root).forget(gone, "it names a customer")
    sync.purge(root)
    assert gone.encode() not in index_bytes(root)
    assert b"".join(file.read_bytes() for file in (root / layout.INDEX).glob("*.f32")) == b""


def test_rebuilding_begins_from_nothing(root):
    log_one(root)
    counting = Counting()
    brought_up(root, counting)
    sync.rebuild(root).catalog.close()
    brought_up(root, counting)
    assert len(counting.given) == 2


# --- the time that there is -----------------------------------------------------------------------------------------


def test_with_little_time_the_newest_come_first_and_the_rest_is_counted(root):
    paths = [log_one(root, f"task {number}") for number in range(12)]
    put_fact(root, "older than none", "fact")
    found = brought_up(root, Counting(slow_s=0.05), budget_s=0.2)
    count = len(found.view.roster.paths)
    assert 0 < count < 12
    assert found.missing == {"episode": 13 - count}
    assert set(found.view.roster.paths) >= set(paths[13 - count :])
    while found.missing:
        found = brought_up(root, Counting(slow_s=0.02), budget_s=0.1)
    assert len(found.view.roster.paths) == 13


def test_without_time_nothing_is_embedded_but_what_is_gone_goes(root):
    first, second = log_one(root, "one"), log_one(root, "two")
    brought_up(root)
    Writer(root).forget(first, "no more")
    log_one(root, "three")
    counting = Counting()
    found = brought_up(root, counting, budget_s=0.0)
    assert counting.given == []
    assert found.view.roster.paths == [second]
    assert found.missing == {"episode": 1}


def test_progress_is_told_of_all(root):
    for number in range(70):
        log_one(root, f"task {number}")
    told = []
    brought_up(root, budget_s=None, progress=lambda done, total: told.append((done, total)))
    assert told[-1][1] == 70
    assert told == sorted(told)


def test_an_interruption_keeps_what_was_embedded(root):
    for number in range(20):
        log_one(root, f"task {number}")

    class Interrupted(Counting):
        def embed(self, texts, *, progress=None):
            if self.given:
                raise KeyboardInterrupt
            return super().embed(texts)

    with pytest.raises(KeyboardInterrupt):
        brought_up(root, Interrupted(), budget_s=None)
    counting = Counting()
    assert len(held(root, counting)) == 20
    assert 0 < len(counting.given) < 20


_INDEXING = """
import sys, time
from cyberos.embed.hashing import Hashing
from cyberos.index import meaning, sync
meaning.COMMIT_S = 0.0
class Slow(Hashing):
    def embed(self, texts, *, progress=None):
        print("begun", flush=True)
        time.sleep(0.01)
        return super().embed(texts)
with sync.sync(sys.argv[1]) as index:
    meaning.bring_up(index, Slow(), budget_s=None)
"""


def test_killed_at_any_moment_it_goes_on_where_it_was(root):
    with Writer(root, durability="none").transaction() as writer:
        paths = {log(writer, episode(f"task {number}")).as_posix() for number in range(2000)}
    sync.sync(root).catalog.close()
    counts = []
    for number in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", _INDEXING, str(root)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout.readline() == "begun\n"
            time.sleep(0.02 + 0.013 * number)
            os.kill(process.pid, signal.SIGKILL)
        found = brought_up(root, budget_s=0.0)
        counts.append(len(found.view.roster.paths))
        assert set(found.view.roster.paths) <= paths
        query = Hashing().embed(["task 7"])[0]
        for near in found.view.ask(query).nearest(kind=None, scope=None, limit=5):
            assert near.path in paths
    assert counts == sorted(counts)
    assert 0 < counts[-1] < 2000, counts
    counting = Counting()
    assert held(root, counting) == paths
    assert len(counting.given) == 2000 - counts[-1]


def test_two_processes_index_at_once(root):
    with Writer(root, durability="none").transaction() as writer:
        paths = {log(writer, episode(f"task {number}")).as_posix() for number in range(300)}
    processes = [
        subprocess.Popen([sys.executable, "-c", _INDEXING, str(root)], stdout=subprocess.DEVNULL) for _ in range(2)
    ]
    assert [process.wait() for process in processes] == [0, 0]
    counting = Counting()
    assert held(root, counting) == paths
    assert counting.given == []


def test_while_another_embeds_the_answer_is_what_is_there(root):
    first = log_one(root, "one")
    brought_up(root)
    log_one(root, "two")
    sync.sync(root).catalog.close()
    with lock(str(root / meaning.LOCK), 1):
        code = (
            "import sys; from cyberos.embed.hashing import Hashing; from cyberos.index import meaning, sync\n"
            "with sync.sync(sys.argv[1]) as index:\n"
            "    found = meaning.bring_up(index, Hashing(), budget_s=0.05)\n"
            "    print(found.view.roster.paths, dict(found.missing))"
        )
        done = in_fresh_process(code, str(root))
        assert done.stdout.strip() == f"['{first}'] {{'episode': 1}}", done.stderr


def test_an_index_that_nobody_may_write_is_kept_in_memory(root):
    log_one(root, "one")
    with sync.sync(root, writable=False) as index:
        found = meaning.bring_up(index, Hashing(), budget_s=9.0)
        assert len(found.view.roster.paths) == 1
    assert list((root / layout.INDEX).glob("vectors*")) == [] if (root / layout.INDEX).exists() else True
    counting = Counting()
    with sync.sync(root, writable=False) as index:
        meaning.bring_up(index, counting, budget_s=9.0)
    assert counting.given == [], "this process keeps it"


def test_a_disk_that_takes_no_more_is_no_reason_not_to_answer(root, monkeypatch):
    log_one(root, "one")
    sync.sync(root).catalog.close()

    def full(self, path, blob):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Files, "overwrite", full)
    counting = Counting()
    assert len(held(root, counting)) == 1
    assert len(held(root, counting)) == 1
    assert len(counting.given) == 1


def test_what_was_forgotten_while_it_was_embedded_is_not_kept(root):
    log_one(root, "stays")
    gone = log_one(root, "goes")

    class Meanwhile(Counting):
        def embed(self, texts, *, progress=None):
            rows = super().embed(texts)
            if (root / gone).exists():
                Writer(root).forget(gone, "no more")
                sync.purge(root)
            return rows

    assert gone not in held(root, Meanwhile())
    assert gone.encode() not in index_bytes(root)


def test_an_unlocked_index_is_not_emptied_by_a_catalog_that_cannot_be_read(root, monkeypatch):
    log_one(root, "one")
    brought_up(root)
    (root / layout.INDEX / "catalog.sqlite").write_bytes(b"no database")
    monkeypatch.setattr(sync, "WAIT_S", 0.1)
    with lock(str(root / sync.LOCK), 1):
        done = in_fresh_process(
            "import sys; from cyberos.embed.hashing import Hashing; from cyberos.index import meaning, sync\n"
            "with sync.sync(sys.argv[1], wait_s=0.1) as index:\n"
            "    meaning.bring_up(index, Hashing(), budget_s=9.0)",
            str(root),
        )
        assert done.returncode == 0, done.stderr
    counting = Counting()
    assert len(held(root, counting)) == 1
    assert counting.given == []


# --- what no sound model gives ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 3.0])
def test_vectors_that_are_no_directions_are_refused(root, value):
    log_one(root)

    class Broken(Hashing):
        def embed(self, texts, *, progress=None):
            return np.full((len(texts), self.dim), value, np.float32)

    with pytest.raises(EmbedderUnavailable, match="unit length"):
        brought_up(root, Broken())
    assert len(held(root)) == 1


def test_indexing_everything_says_so_when_another_does(root):
    log_one(root)
    sync.sync(root).catalog.close()
    with lock(str(root / meaning.LOCK), 1):
        code = (
            "import sys; from cyberos.embed.hashing import Hashing; from cyberos.index import meaning, sync\n"
            "sync.WAIT_S = 0.05\n"
            "with sync.sync(sys.argv[1]) as index:\n"
            "    meaning.bring_up(index, Hashing(), budget_s=None)"
        )
        done = in_fresh_process(code, str(root))
        assert VaultLocked.__name__ in done.stderr
