"""Many writers of one vault at once, and a lock whose holder was killed or stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from cyberos.core.episode import log
from cyberos.core.lock import lock
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from prove.table import folder, promise, share
from support import check, episode, files, hashes

PROCESSES, THREADS, EACH, HOLDERS, FREE_MS = 8, 8, 250, 20, 100
SOURCE = str(Path(__file__).parents[2])
LOG = """
import sys
from cyberos.core.episode import Episode, log
from cyberos.core.writer import Writer
for number in range(int(sys.argv[2])):
    made = Episode(task=f"task {number % 7}", approach="a", outcome="success", duration_ms=0)
    print(log(Writer(sys.argv[1], lock_wait_s=60), made), flush=True)
"""
HOLD = """
import sys
from cyberos.core.lock import lock
with lock(sys.argv[1], 0):
    print("held", flush=True)
    sys.stdin.read()
"""


def python(source: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", source, *arguments]


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": SOURCE} | more


@promise("many writers at once: no write is lost, the ledger has one head")
def crowd(scale: float) -> tuple[str, bool]:
    each, paths = share(EACH, scale), []
    with folder() as place:
        root = init(place / "vault").root
        shared = Writer(root, lock_wait_s=60)

        def process():
            done = subprocess.run(python(LOG, str(root), str(each)), capture_output=True, text=True, env=environment())
            assert done.returncode == 0, done.stderr
            paths.extend(done.stdout.split())

        def thread():
            for number in range(each):
                paths.append(log(shared, episode(f"task {number % 7}")).as_posix())

        with ThreadPoolExecutor(PROCESSES + THREADS) as pool:
            for running in [pool.submit(work) for work in [process] * PROCESSES + [thread] * THREADS]:
                running.result()
        found = check(root, heads=1)
        lost = set(paths) - set(files(root))
        extra = len(hashes(root)) - 1 - 2 * len(paths)
    figure = f"{PROCESSES} processes and {THREADS} threads, {each} puts each, {len(paths):,} acknowledged"
    is_kept = not lost and not extra and found.head_seq == 1 + 2 * len(paths) == 1 + 2 * each * (PROCESSES + THREADS)
    return f"{figure}: {len(lost)} lost, {extra} rows too many, {len(found.heads)} head", is_kept


@contextmanager
def holder(path: str):
    """Give a process that holds the lock until it is told to end."""
    process = subprocess.Popen(
        python(HOLD, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), text=True
    )
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@promise("the lock of a killed holder is free within 100 ms (timed in the full run only)")
def killed_holder(scale: float) -> tuple[str, bool]:
    took = []
    with folder() as place:
        path = str(place / "lock")
        for _ in range(share(HOLDERS, scale)):
            with holder(path) as process:
                began = time.monotonic()
                process.kill()
                with lock(path, 60):
                    took.append((time.monotonic() - began) * 1000)
    soon = sum(each < FREE_MS for each in took)
    figure = f"{len(took)} of {len(took)} taken over, {soon} of them within {FREE_MS} ms (longest {max(took):.0f} ms)"
    return figure, scale < 1 or soon == len(took)


@promise("a stopped holder: the next one ends with exit 75 and names its pid; nothing is written until it goes on")
def stopped_holder(scale: float) -> tuple[str, bool]:
    times, good = share(HOLDERS, scale), 0
    verb = ["episode", "log", "--task", "t", "--approach", "a", "--outcome", "success", "--duration-ms", "1"]
    with folder() as place:
        root = init(place / "vault").root
        command = [sys.executable, "-m", "cyberos", "--store", str(root), *verb]
        for _ in range(times):
            before = hashes(root)
            with holder(str(root / ".cyberos" / "lock")) as process:
                os.kill(process.pid, signal.SIGSTOP)
                refused = subprocess.run(
                    command, capture_output=True, text=True, env=environment(CYBEROS_LOCK_WAIT="0.1")
                )
                is_told = refused.returncode == 75 and f"pid {process.pid} " in refused.stderr
                is_told &= hashes(root) == before
                os.kill(process.pid, signal.SIGCONT)
            after = subprocess.run(command, capture_output=True, env=environment())
            good += is_told and after.returncode == 0 and len(hashes(root)) == len(before) + 2
        check(root, heads=1)
    return f"{good} of {times} named it and wrote afterwards", good == times
