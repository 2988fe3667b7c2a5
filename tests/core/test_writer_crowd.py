"""Many writers at once: every acknowledged write is there, in one chain, whoever else was writing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from cyberos.core.episode import log
from cyberos.core.errors import CyberosError
from cyberos.core.writer import Writer
from support import check, episode, fact, files, hashes, in_fresh_process

THREADS, PROCESSES, EACH = 8, 4, 50


def run(*works):
    """Run each in a thread of its own; raise what any of them raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        for running in [pool.submit(work) for work in works]:
            running.result()


def assert_all_there(root, paths, count):
    assert len(paths) == count
    assert {path.as_posix() for path in paths} == set(files(root))
    found = check(root, heads=1)
    assert found.head_seq == len(found.rows) == len(hashes(root)) == 1 + 2 * count
    log(Writer(root), episode("the next write"))
    check(root, heads=1)


@pytest.mark.parametrize("is_shared", [True, False], ids=["one writer", "a writer each"])
def test_eight_threads_log_fifty_each(is_shared, root):
    shared = Writer(root, durability="none", lock_wait_s=60)
    paths = []

    def work():
        writer = shared if is_shared else Writer(root, durability="none", lock_wait_s=60)
        for number in range(EACH):
            paths.append(log(writer, episode(f"task {number % 7}")))

    run(*[work] * THREADS)
    assert_all_there(root, paths, THREADS * EACH)


def test_readers_of_a_shared_writer_see_a_seq_that_only_goes_up(root):
    writer = Writer(root, durability="none", lock_wait_s=60)
    done = threading.Event()
    seen = []

    def write():
        for number in range(100):
            log(writer, episode(str(number)))
        done.set()

    def read():
        while not done.is_set():
            seen.append(writer.head_seq())

    run(write, read, read)
    assert set(seen) <= {1 + 2 * number for number in range(101)}
    check(root, heads=1)


def test_transactions_of_threads_do_not_mix(root):
    writer = Writer(root, durability="none", lock_wait_s=60)

    def work(name):
        for _ in range(10):
            with writer.transaction():
                for number in range(5):
                    writer.put(*fact(f"{name} {number}", f"{name}{number}"))

    run(*[lambda name=name: work(name) for name in "abcd"])
    found = check(root, heads=1)
    by_time = {}
    for row in found.rows[1:]:
        by_time.setdefault((row["ts"], row["seq"] - row["tx"][0]), []).append(row["payload"]["path"].split("/")[-1][0])
    assert [len(set(names)) for names in by_time.values()] == [1] * 40
    assert [len(names) for names in by_time.values()] == [5] * 40


LOG = f"""
import sys
from cyberos.core.episode import Episode, log
from cyberos.core.writer import Writer
for number in range({EACH}):
    writer = Writer(sys.argv[1], durability="none", lock_wait_s=120)
    print(log(writer, Episode(task=f"task {{number % 7}}", approach="a", outcome="success", duration_ms=0)))
"""


def test_four_processes_log_fifty_each(root):
    said = []

    def work():
        done = in_fresh_process(LOG, str(root))
        assert done.returncode == 0, done.stderr
        said.extend(map(Path, done.stdout.split()))

    run(*[work] * PROCESSES)
    assert_all_there(root, said, PROCESSES * EACH)


def test_processes_that_are_killed_lose_nothing_that_they_acknowledged(root):
    """Each says a path only after log has given it; then it is killed somewhere in a later one."""
    acknowledged = set()
    for round_ in range(3):
        running = [
            subprocess.Popen([sys.executable, "-uc", LOG, str(root)], stdout=subprocess.PIPE, text=True)
            for _ in range(PROCESSES)
        ]
        for number, process in enumerate(running):
            acknowledged |= {Path(process.stdout.readline().strip()) for _ in range(1 + 3 * number + round_)}
            process.kill()
        for process in running:
            acknowledged |= {Path(line.strip()) for line in process.stdout if line.endswith(".md\n")}
            process.stdout.close()
            process.wait()
    log(Writer(root), episode("the next write"))
    check(root, heads=1)
    assert {path.as_posix() for path in acknowledged} <= set(files(root))


def test_a_vault_cleaned_under_its_writers_goes_on(root):
    """What `git clean -fdx` does while others write: everything derived goes, at any moment."""
    writer = Writer(root, durability="none", lock_wait_s=60)
    done = threading.Event()
    paths = []

    def work():
        for number in range(60):
            with suppress(CyberosError):  # refused is allowed; half done is not
                paths.append(log(writer, episode(str(number))))

    def clean():
        while not done.is_set():
            shutil.rmtree(root / ".cyberos", ignore_errors=True)

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    try:
        run(work)
    finally:
        done.set()
        cleaner.join()
    log(writer, episode("the next write"))
    check(root, heads=1)
    assert {path.as_posix() for path in paths} <= set(files(root))
    assert os.listdir(root / ".cyberos" / "stage")
