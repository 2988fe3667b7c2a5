"""The index beside the ledger: whatever happens to either, a recall answers as if all had just been read.

The oracle is `fresh`: a catalog made from nothing. Engines are real unless a test is about the catalog alone.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from cyberos.core import layout, ledger, reader
from cyberos.core.episode import log
from cyberos.core.files import Files
from cyberos.core.lock import lock
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from cyberos.index import bodies, changes, sync, upkeep
from cyberos.index.catalog import NAME, Catalog
from cyberos.index.entry import GONE, READY
from cyberos.index.fulltext import IndexDamaged
from cyberos.index.fulltext_whoosh import WhooshFullText
from support import Repo, episode, fact, in_fresh_process

GOOD = Path(__file__).parents[1] / "good"


def log_one(root, task="ship the login form", **fields):
    return log(Writer(root, durability="none"), episode(task, **fields)).as_posix()


def put_fact(root, text, name=""):
    path, body = fact(text, name)
    Writer(root, durability="none").put(path, body)
    return path


def entries(root, catalog):
    """Everything that an answer depends on. A file that was changed since it was read counts as changed already."""
    found = {}
    for one in catalog.entries():
        if one.state != GONE:
            is_there = not one.live or bodies.find(Files(root), one.path, one.digests) is not None
            found[one.path] = (
                one if is_there else bodies.enter(Files(root), one.path, changes.standing_of(one))
            )._replace(status="")
    return found


def synced(root, stores=()):
    with sync.sync(root, stores) as index:
        assert index.reason is None
        return entries(root, index.catalog)


def fresh(root):
    with closing(Catalog(None)) as catalog:
        upkeep.bring_up(Files(root), catalog, ())
        return entries(root, catalog)


def ready(root):
    return {path for path, one in synced(root).items() if one.state == READY}


def recalled(root, query="ship", kind=None, **options):
    """The answer as a caller sees it."""
    return [
        (hit.path, round(hit.relevance, 9), hit.last_seen_at)
        for hit in reader.recall(root, query, 50, 0.0, kind, **options)
    ]


def paths(root, query="ship", **options):
    return {path for path, *_ in recalled(root, query, **options)}


@pytest.fixture
def no_rescan(monkeypatch):
    """Fail a test in which the whole ledger is read again."""

    def refuse(*_):
        raise AssertionError("the whole ledger was read")

    return lambda: monkeypatch.setattr(changes, "_whole", refuse)


# --- what is new ----------------------------------------------------------------------------------------------------


def test_a_new_episode_is_found_without_reading_the_ledger_again(root, no_rescan):
    first = log_one(root)
    assert paths(root) == {first}
    no_rescan()
    second = log_one(root)
    assert paths(root) == {first, second}


def test_only_what_is_new_is_indexed(root, monkeypatch):
    log_one(root)
    recalled(root)
    added = []
    apply = WhooshFullText.apply

    def counting(self, adds, removes, **options):
        adds = list(adds)
        added.extend(document.path for document in adds)
        return apply(self, adds, removes, **options)

    monkeypatch.setattr(WhooshFullText, "apply", counting)
    second = log_one(root)
    recalled(root)
    recalled(root)
    assert added == [second]


def test_nothing_new_takes_no_lock_and_writes_nothing(root, monkeypatch):
    log_one(root)
    recalled(root)
    time.sleep(2.1)  # folders that changed within two seconds are looked at again
    recalled(root)
    before = {file: file.stat().st_mtime_ns for file in (root / ".cyberos" / "index").rglob("*")}
    with lock(str(root / sync.LOCK), 1):
        done = in_fresh_process(
            "import sys; from cyberos.core import reader; print(len(reader.recall(sys.argv[1], 'ship', 5, 0.0)))",
            str(root),
        )
    assert done.stdout.strip() == "1", done.stderr
    assert {file: file.stat().st_mtime_ns for file in before if file.name != "lock"} == {
        file: at for file, at in before.items() if file.name != "lock"
    }


def test_an_empty_vault_has_an_empty_index(root):
    assert recalled(root) == []
    assert synced(root) == {}


def test_the_index_folder_is_hidden_from_git(repo):
    shutil.rmtree(repo.root / ".cyberos", ignore_errors=True)
    assert recalled(repo.root) == []
    assert repo.git("status", "--porcelain", "--ignored=no") == ""


def test_a_fact_put_again_is_found_by_its_new_text_only(root, no_rescan):
    path = put_fact(root, "the deploy script lives at bin/deploy", "deploy")
    assert paths(root, "deploy script") == {path}
    no_rescan()
    put_fact(root, "releases are made by the robot", "deploy")
    assert paths(root, "releases robot") == {path}
    hits = reader.recall(root, "bin/deploy", 5, 0.0)
    assert hits == []


def test_forgotten_and_quarantined_memories_are_not_found(root, no_rescan):
    gone, hidden, kept = (log_one(root, f"ship {name}") for name in ("one", "two", "three"))
    assert paths(root) == {gone, hidden, kept}
    no_rescan()
    Writer(root).forget(gone, "private")
    Writer(root).quarantine(hidden, "poisoned")
    assert paths(root) == {kept}


def test_what_the_ledger_does_not_know_is_not_found(root):
    path, body = fact("ship by hand")
    file = root / path
    file.parent.mkdir(parents=True)
    file.write_text(body)
    assert paths(root) == set()
    Writer(root).adopt(path)
    assert paths(root) == {path}


# --- files that change ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["edited", "edited in the same size and time", "deleted", "link", "folder", "swapped"])
def test_a_file_that_is_not_what_was_logged_is_dropped_and_counted(root, harm):
    path, other = log_one(root, "ship one"), log_one(root, "ship two")
    assert paths(root) == {path, other}
    file = root / path
    status, blob = file.stat(), file.read_bytes()
    damage(file, harm, root / other)
    for _ in range(2):
        left = {other} if harm != "swapped" else set()
        assert paths(root) == left
        with sync.sync(root) as index:
            assert index.unseen("episode") == 2 - len(left)
            assert index.unseen("facts") == 0
    mend(file, harm, blob, root / other)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert paths(root) == {path, other}


def damage(file, harm, other):
    status, blob = file.stat(), file.read_bytes()
    if harm.startswith("edited"):
        file.write_bytes(blob.replace(b"wrote it", b"wrote IT"))
    if harm == "edited in the same size and time":
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    if harm in ("deleted", "link", "folder"):
        shutil.rmtree(file.parents[3] / "x", ignore_errors=True)
        file.unlink()
        shutil.rmtree(file.parents[4] / ".cyberos" / "stage")  # where its body may still wait
        (file.parents[4] / ".cyberos" / "stage").mkdir()
    if harm == "link":
        file.symlink_to("/etc/passwd")
    if harm == "folder":
        file.mkdir()
    if harm == "swapped":
        shutil.rmtree(file.parents[4] / ".cyberos" / "stage")
        spare = file.with_suffix(".tmp")
        os.rename(file, spare)
        os.rename(other, file)
        os.rename(spare, other)
    if harm.startswith("edited"):
        shutil.rmtree(file.parents[4] / ".cyberos" / "stage")


def mend(file, harm, blob, other):
    if harm == "swapped":
        spare = file.with_suffix(".tmp")
        os.rename(file, spare)
        os.rename(other, file)
        os.rename(spare, other)
        return
    if harm == "folder":
        file.rmdir()
    file.unlink(missing_ok=True)
    file.write_bytes(blob)


def test_a_body_that_waits_in_the_stage_is_found(root):
    path = log_one(root)
    (root / path).unlink()
    assert paths(root) == {path}


def test_a_deleted_file_that_comes_back_is_found_again(root):
    path = put_fact(root, "how we ship", "ship")
    for entry in (root / layout.STAGE).iterdir():
        entry.unlink()
    blob = (root / path).read_bytes()
    (root / path).unlink()
    assert paths(root) == set()
    (root / path).write_bytes(blob)
    assert paths(root) == {path}


# --- git ------------------------------------------------------------------------------------------------------------


def test_a_branch_switch_there_and_back(repo: Repo):
    repo.log("ship base", 2)
    repo.commit()
    base = recalled(repo.root)
    repo.branch("side")
    repo.log("ship side", 3)
    repo.put(*fact("how we ship on the side"))
    repo.commit()
    side = recalled(repo.root)
    assert len(base) == 2
    assert len(side) == 6
    for name, expected in (("main", base), ("side", side), ("main", base)):
        repo.switch(name)
        assert {path for path, *_ in recalled(repo.root)} == {path for path, *_ in expected}
        assert synced(repo.root) == fresh(repo.root)


def test_a_switch_indexes_only_the_documents_that_differ(repo: Repo, monkeypatch):
    repo.log("ship base", 5)
    repo.commit()
    repo.branch("side")
    repo.log("ship side", 2)
    repo.commit()
    recalled(repo.root)
    touched = []
    apply = WhooshFullText.apply

    def counting(self, adds, removes, **options):
        adds, removes = list(adds), list(removes)
        touched.append((len(adds), len(removes)))
        return apply(self, adds, removes, **options)

    monkeypatch.setattr(WhooshFullText, "apply", counting)
    repo.switch("main")
    recalled(repo.root)
    repo.switch("side")
    recalled(repo.root)
    assert touched == [(0, 2), (2, 0)]


def test_a_merge_of_two_branches_is_a_delta(repo: Repo, no_rescan):
    repo.log("ship base")
    repo.commit()
    repo.branch("side")
    repo.log("ship side", 2)
    repo.commit()
    repo.switch("main")
    repo.log("ship main", 2)
    repo.commit()
    assert len(paths(repo.root)) == 3
    no_rescan()
    repo.git("merge", "-q", "-m", "merge", "side")
    assert len(paths(repo.root)) == 5
    repo.log("ship after")
    assert len(paths(repo.root)) == 6


def test_two_branches_that_put_one_fact(repo: Repo):
    path = put_fact(repo.root, "we ship on monday", "ship")
    repo.commit()
    recalled(repo.root)
    repo.branch("side")
    put_fact(repo.root, "we ship on tuesday", "ship")
    repo.commit()
    repo.switch("main")
    put_fact(repo.root, "we ship on friday", "ship")
    repo.commit()
    assert paths(repo.root, "friday") == {path}
    repo.git("merge", "-q", "-s", "recursive", "-X", "theirs", "-m", "merge", "side", may_fail=True)
    assert synced(repo.root) == fresh(repo.root)
    assert paths(repo.root, "tuesday") == {path}


def test_a_pull_of_a_forgetting(repo: Repo, tmp_path):
    path = min(put_paths(repo, "ship it"))
    repo.commit()
    repo.git("clone", "-q", str(repo.top), str(tmp_path / "clone"))
    clone = Repo(tmp_path / "clone")
    assert paths(clone.root) == {path}
    Writer(repo.root).forget(path, "private")
    repo.commit()
    clone.git("pull", "-q")
    assert paths(clone.root) == set()
    assert synced(clone.root) == fresh(clone.root)


def put_paths(repo, task):
    before = ready(repo.root)
    repo.log(task)
    return ready(repo.root) - before


@pytest.mark.parametrize(
    "command", [("reset", "-q", "--hard", "HEAD~1"), ("checkout", "-q", "HEAD~1"), ("clean", "-fdxq")]
)
def test_history_that_is_taken_back(repo: Repo, command):
    repo.log("ship one")
    repo.commit()
    repo.log("ship two")
    repo.commit()
    repo.log("ship three")
    assert len(paths(repo.root)) == 3
    repo.git(*command)
    assert synced(repo.root) == fresh(repo.root)
    repo.log("ship four")
    assert synced(repo.root) == fresh(repo.root)
    assert paths(repo.root) == ready(repo.root)


def test_a_segment_that_was_put_back_to_an_earlier_state(repo: Repo):
    repo.log("ship one")
    repo.git("add", "-A")
    repo.log("ship two")
    recalled(repo.root)
    repo.git("checkout", "--", "audit")
    assert synced(repo.root) == fresh(repo.root)


def test_a_cherry_pick_leaves_a_gap_that_a_merge_closes(repo: Repo):
    path = put_fact(repo.root, "we ship on monday", "ship")
    repo.commit()
    repo.branch("side")
    repo.log("ship unseen")
    repo.commit()
    put_fact(repo.root, "we ship on tuesday", "ship")
    picked = repo.commit()
    repo.switch("main")
    recalled(repo.root)
    repo.git("cherry-pick", "-x", picked)
    assert synced(repo.root) == fresh(repo.root)
    repo.git("merge", "-q", "-m", "merge", "side")
    assert synced(repo.root) == fresh(repo.root)
    assert paths(repo.root, "tuesday") == {path}


def test_another_vaults_rows_come_in_only_when_adopted(repo: Repo, tmp_path):
    other = init(tmp_path / "other").root
    theirs = log_one(other, "ship foreign")
    ours = log_one(repo.root, "ship ours")
    recalled(repo.root)
    for folder in ("audit", "memories"):
        shutil.copytree(other / folder, repo.root / folder, dirs_exist_ok=True)
    assert paths(repo.root) == {ours}
    assert synced(repo.root) == fresh(repo.root)
    Writer(repo.root).adopt_vault(ledger.scan(other).vault)
    assert paths(repo.root) == {ours, theirs}
    assert synced(repo.root) == fresh(repo.root)


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_events_gives_what_a_fresh_reading_gives(repo: Repo, seed):
    """Random work on random branches, synced at random moments, against the oracle."""
    chance = random.Random(seed)
    names = ["main"]
    for step in range(22):
        work(repo, chance, names, step)
        if chance.random() < 0.7:
            assert synced(repo.root) == fresh(repo.root), f"step {step}"
    assert synced(repo.root, ("whoosh",)) == fresh(repo.root)
    assert paths(repo.root, "ship") <= ready(repo.root)


def work(repo, chance, names, step):
    writer = Writer(repo.root, durability="none")
    known = sorted(ready(repo.root))
    event = chance.choice(
        ["log", "log", "fact", "fact", "forget", "quarantine", "branch", "switch", "merge", "tamper", "pick"]
    )
    if event == "log":
        repo.log(f"ship {step}", chance.randint(1, 3))
    elif event == "fact":
        put_if_possible(writer, *fact(f"we ship in {step}", f"fact{chance.randint(0, 2)}"))
    elif event == "forget" and known:
        writer.forget(chance.choice(known), "why not")
    elif event == "quarantine" and known:
        writer.quarantine(chance.choice(known), "why not")
    elif event == "tamper" and known:
        (repo.root / chance.choice(known)).unlink(missing_ok=True)
    elif event in ("branch", "switch", "merge", "pick"):
        repo.git("add", "-A")
        repo.git("commit", "-q", "-m", f"step {step}", may_fail=True)
        target = chance.choice(names)
        if event == "branch":
            names.append(f"b{step}")
            repo.branch(f"b{step}", target)
        elif event == "switch":
            repo.git("checkout", "-q", target)
        elif event == "merge":
            repo.git("merge", "-q", "-X", "ours", "-m", "merge", target, may_fail=True)
            repo.git("merge", "--abort", may_fail=True)
        else:
            repo.git("cherry-pick", "-X", "theirs", target, may_fail=True)
            repo.git("cherry-pick", "--abort", may_fail=True)


def put_if_possible(writer, path, body):
    from cyberos.core.errors import MemoryChanged

    try:
        writer.put(path, body)
    except MemoryChanged:
        return


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(root):
    """A vault with an index, and the answer that it must go on giving."""
    with Writer(root, durability="none").transaction() as writer:
        for number in range(30):
            log(writer, episode(f"ship part {number} of the login form", notes=f"note {number}"))
        writer.put(*fact("how we ship"))
    return root, recalled(root)


def index_files(root):
    folder = root / ".cyberos" / "index"
    return sorted(
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*")
        if file.is_file() and "lock" not in file.name.lower()
    )


def test_an_index_has_the_files_that_the_next_tests_harm(filled):
    names = index_files(filled[0])
    assert "catalog.sqlite" in names
    assert len(names) >= 4


@pytest.mark.parametrize(
    "harm", ["deleted", "emptied", "cut in half", "overwritten", "one byte", "many bytes", "a folder"]
)
def test_a_damaged_index_file_changes_no_answer(filled, harm):
    root, expected = filled
    for number in range(len(index_files(root))):
        damage_index(root / ".cyberos" / "index" / index_files(root)[number], harm, random.Random(number))
        assert recalled(root) == expected
        if harm == "a folder":
            shutil.rmtree(root / ".cyberos" / "index")
        assert recalled(root) == expected


@pytest.mark.parametrize("harm", ["cut in half", "many bytes"])
def test_another_process_sees_the_damage_too(filled, harm):
    root, expected = filled
    for number in range(len(index_files(root))):
        damage_index(root / ".cyberos" / "index" / index_files(root)[number], harm, random.Random(number))
        done = in_fresh_process(ANSWER, str(root))
        assert done.stdout == f"{expected}\n", done.stderr


def damage_index(file, harm, chance):
    blob = bytearray(file.read_bytes())
    if harm in ("deleted", "a folder"):
        file.unlink()
    if harm == "a folder":
        file.mkdir()
    if harm in ("one byte", "many bytes"):
        for _ in range(1 if harm == "one byte" else 40):
            blob[chance.randrange(len(blob))] ^= 0x20
    changed = {"emptied": b"", "cut in half": blob[: len(blob) // 2], "overwritten": chance.randbytes(len(blob))}
    if not harm.startswith(("deleted", "a ")):
        file.write_bytes(changed.get(harm, blob))


ANSWER = """
import sys
from cyberos.core import reader
print([(h.path, round(h.relevance, 9), h.last_seen_at) for h in reader.recall(sys.argv[1], 'ship', 50, 0.0)])
"""


def test_the_whole_index_may_be_deleted_at_any_time(filled):
    root, expected = filled
    shutil.rmtree(root / ".cyberos" / "index")
    assert recalled(root) == expected
    shutil.rmtree(root / ".cyberos")
    assert recalled(root) == expected


def test_an_index_of_another_vault_is_not_believed(filled, tmp_path):
    root, expected = filled
    other = init(tmp_path / "other").root
    log_one(other, "ship something else")
    recalled(other)
    shutil.rmtree(root / ".cyberos" / "index")
    shutil.copytree(other / ".cyberos" / "index", root / ".cyberos" / "index")
    assert recalled(root) == expected


def test_damage_that_only_a_search_meets_is_mended(filled, monkeypatch):
    root, expected = filled
    search = WhooshFullText.search
    failures = [IndexDamaged("whoosh", "a bad block"), IndexDamaged("whoosh", "again")]

    def failing(self, *arguments, **options):
        if failures:
            raise failures.pop()
        return search(self, *arguments, **options)

    monkeypatch.setattr(WhooshFullText, "search", failing)
    assert recalled(root) == expected


@pytest.mark.parametrize("step", ["apply", "confirm", "before apply"])
def test_a_crash_between_the_two_stores_loses_nothing(filled, monkeypatch, step):
    root, _ = filled

    class CrashError(BaseException):
        pass

    def crash(*_, **__):
        raise CrashError

    apply = WhooshFullText.apply

    def apply_then_crash(self, adds, removes, **options):
        apply(self, adds, removes, **options)
        raise CrashError

    new = log_one(root, "ship the zebra")
    Writer(root).forget(min(ready(root) - {new}), "private")
    with monkeypatch.context() as patch:
        if step == "apply":
            patch.setattr(WhooshFullText, "apply", apply_then_crash)
        elif step == "before apply":
            patch.setattr(WhooshFullText, "apply", crash)
        else:
            patch.setattr(Catalog, "confirm", crash)
        with pytest.raises(CrashError):
            recalled(root)
    assert paths(root, "zebra", kind="episode") == {new}
    assert paths(root) == ready(root)


def test_a_rebuild_keeps_the_counts_of_uses(filled):
    root, expected = filled
    path = expected[0][0]
    with sync.sync(root) as index:
        sync.note_uses(index, [path])
    with sync.rebuild(root) as index:
        assert index.catalog.all_uses() == {path: 1}
        assert index.catalog.count(READY) == 31
    assert recalled(root) == expected


# --- others at work -------------------------------------------------------------------------------------------------


def test_while_another_process_writes_the_answer_is_what_was_there(filled):
    root, expected = filled
    new = log_one(root, "ship the zebra")
    with lock(str(root / sync.LOCK), 1):
        # a thread that holds the lock may take it again, so another one asks
        answer = in_thread(lambda: ask_impatiently(root))
    assert answer == (expected, 1, True)
    assert new in paths(root)


def ask_impatiently(root):
    with sync.sync(root, wait_s=0.05) as index:
        query = reader.Query("ship", 50, 0.0)
        found = reader.search(index, query)
        hits = [(hit.path, round(hit.relevance, 9), hit.last_seen_at) for hit in found.hits][:50]
        return hits, index.unseen("episode"), "pid" in str(index.reason) or "thread" in str(index.reason)


def in_thread(call):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_while_another_process_builds_the_first_index_all_is_unseen(root):
    log_one(root)
    (root / layout.INDEX).mkdir(parents=True)
    with lock(str(root / sync.LOCK), 1):
        assert in_thread(lambda: ask_impatiently(root)) == ([], 1, True)


RECALLS = """
import sys
from cyberos.core import reader
least = 0
for _ in range(25):
    hits = reader.recall(sys.argv[1], 'ship', 500, 0.0)
    assert len(hits) >= least, (len(hits), least)
    least = len(hits)
print(least)
"""
LOGS = """
import sys
from cyberos.core.episode import Episode, log
from cyberos.core.writer import Writer
for number in range(40):
    log(Writer(sys.argv[1]), Episode(f'ship part {number}', 'a', 'success', 1))
"""


def test_two_processes_recall_while_a_third_logs(root):
    sources = (RECALLS, LOGS, RECALLS)
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", source, str(root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for source in sources
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert errors == ""
    assert len(paths(root)) == 40


def test_threads_of_one_process_may_ask_together(filled):
    from concurrent.futures import ThreadPoolExecutor

    root, expected = filled
    with ThreadPoolExecutor(4) as pool:
        assert all(answer == expected for answer in pool.map(lambda _: recalled(root), range(12)))


# --- media that take no writes --------------------------------------------------------------------------------------


def readonly_answer(root):
    """Ask in a process that sees the vault on a read-only mount."""
    script = f'mount --bind "{root}" "{root}" && mount -o remount,bind,ro "{root}" && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-W", "error", "-c", ANSWER, str(root)],
        capture_output=True,
        text=True,
    )
    if "Operation not permitted" in done.stderr or "permission denied" in done.stderr.lower():
        pytest.skip("no read-only mount can be made here")
    assert done.stderr == ""
    return done.stdout


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="no read-only mount can be made here")
@pytest.mark.parametrize("state", ["current", "behind", "absent", "damaged", "no private folder"])
def test_a_readonly_vault_is_recalled_whatever_its_index(filled, state):
    root, _ = filled
    if state == "behind":
        log_one(root, "ship the zebra")
    expected = recalled(root)
    index = root / ".cyberos" / "index"
    if state == "behind":
        shutil.rmtree(index)
        others = sorted(ready(root))
        assert others
        log_one(root, "ship the zebra again")
        expected = None
    if state == "absent":
        shutil.rmtree(index)
    if state == "damaged":
        (index / "catalog.sqlite").write_bytes(b"x")
    if state == "no private folder":
        shutil.rmtree(root / ".cyberos")
    before = sorted(root.rglob("*"))
    answer = readonly_answer(root)
    assert sorted(root.rglob("*")) == before
    assert answer == f"{expected if expected is not None else recalled(root)}\n"


def test_an_index_that_may_not_be_written_is_made_in_memory(filled):
    root, expected = filled
    shutil.rmtree(root / ".cyberos" / "index")
    for _ in range(2):
        assert recalled(root, writable=False) == expected
    assert not (root / ".cyberos" / "index").exists()
    new = log_one(root, "ship the zebra")
    assert new in {path for path, *_ in recalled(root, writable=False)}
    with sync.sync(root, writable=False) as index:
        assert "memory" in index.reason


def test_a_link_in_the_place_of_the_index_is_not_followed(filled, tmp_path):
    root, expected = filled
    shutil.rmtree(root / ".cyberos" / "index")
    (tmp_path / "elsewhere").mkdir()
    (root / ".cyberos" / "index").symlink_to(tmp_path / "elsewhere")
    assert recalled(root) == expected
    assert list((tmp_path / "elsewhere").iterdir()) == []


# --- forgetting -----------------------------------------------------------------------------------------------------


def private_bytes(root):
    return b"".join(file.read_bytes() for file in (root / ".cyberos").rglob("*") if file.is_file()).lower()


@pytest.mark.parametrize("by", ["purge", "next recall", "rebuild"])
def test_forgetting_leaves_no_bytes_of_the_text(filled, by):
    root, _ = filled
    path = log_one(root, "ship the Quetzalcoatlus", notes="Xylophonist 3133731337313373")
    assert paths(root, "Quetzalcoatlus", kind="episode") == {path}
    assert b"quetzalcoatlus" in private_bytes(root)
    Writer(root).forget(path, "private")
    if by == "purge":
        sync.purge(root)
    elif by == "rebuild":
        sync.rebuild(root).catalog.close()
    else:
        recalled(root)
    for word in (b"quetzalcoatlu", b"xylophonist", b"3133731337313373"):
        assert word not in private_bytes(root)
    assert len(paths(root)) == 31


def test_forgetting_what_another_branch_had_indexed_leaves_no_bytes(repo: Repo):
    repo.log("ship base")
    repo.commit()
    repo.branch("side")
    path = log_one(repo.root, "ship the Quetzalcoatlus")
    repo.commit()
    recalled(repo.root)
    repo.switch("main")
    recalled(repo.root)  # the catalog has dropped the path by now
    repo.switch("side")
    Writer(repo.root).forget(path, "private")
    sync.purge(repo.root)
    assert b"quetzalcoatlu" not in private_bytes(repo.root)


def test_purging_a_vault_without_an_index_makes_none(root):
    path = log_one(root)
    Writer(root).forget(path, "private")
    sync.purge(root)
    assert not (root / ".cyberos" / "index").exists()


def test_purging_with_the_catalog_alone(root):
    path = log_one(root, "ship the Quetzalcoatlus")
    synced(root)
    Writer(root).forget(path, "private")
    sync.purge(root)
    assert b"quetzalcoatlu" not in private_bytes(root)


def test_purging_a_damaged_index(filled):
    root, _ = filled
    path = log_one(root, "ship the Quetzalcoatlus")
    recalled(root)
    Writer(root).forget(path, "private")
    file = root / NAME
    file.write_bytes(file.read_bytes()[:3000])
    sync.purge(root)
    assert b"quetzalcoatlu" not in private_bytes(root)
    assert len(paths(root)) == 31


# --- whole vaults ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(case.name for case in GOOD.iterdir() if case.is_dir()) if GOOD.is_dir() else [])
def test_every_good_vault_can_be_indexed(name, tmp_path):
    root = tmp_path / name
    shutil.copytree(GOOD / name, root)
    for folder in ("audit", "memories"):
        (root / folder).mkdir(exist_ok=True)
    found = ledger.scan(root)
    live = {path for path, memory in found.memories.items() if not memory.is_forgotten and not memory.is_quarantined}
    assert ready(root) == live
    recalled(root)
    assert synced(root) == fresh(root)
