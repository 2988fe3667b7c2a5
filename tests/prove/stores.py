"""The harness can tell: the same kills and the same crowd over other stores, one of which must fail.

`jsonl` is what a memory kept as one file of lines commonly does: read all, add, write all. `sqlite` commits both rows
of a put in one transaction, in WAL mode, synchronous FULL. Each is killed by strace ahead of a random call that
touches it, and written by 8 processes at once. A put is lost when it was acknowledged and is not there, half when only
one of its two rows is.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cyberos.core import ledger
from cyberos.core.vault import init
from prove.injections import has_strace, in_vault
from prove.table import Skipped, folder, promise, share

KILLS, PROCESSES, EACH, PUTS = 150, 8, 250, 4
FEWEST = 20  # one death in some five is at the call that loses a JSONL store
CALLS = "openat,write,pwrite64,fsync,fdatasync,ftruncate,rename,renameat,linkat,mkdirat,unlink,unlinkat"
PUT = {
    "jsonl": """
import json, os
def put(place, key):
    path = os.path.join(place, "memory.jsonl")
    try:
        with open(path) as file:
            rows = [json.loads(line) for line in file]
    except FileNotFoundError:
        rows = []
    rows += [{"key": key, "row": "put"}, {"key": key, "row": "logged"}]
    with open(path, "w") as file:
        for row in rows:
            print(json.dumps(row), file=file)
        file.flush()
        os.fsync(file.fileno())
""",
    "sqlite": """
import os, sqlite3
def put(place, key):
    base = sqlite3.connect(os.path.join(place, "memory.db"), timeout=60, isolation_level=None)
    base.execute("pragma journal_mode = wal")
    base.execute("pragma synchronous = full")
    base.execute("create table if not exists rows (key text, row text)")
    base.execute("begin immediate")
    base.executemany("insert into rows values (?, ?)", [(key, "put"), (key, "logged")])
    base.execute("commit")
    base.close()
""",
    "cyberos": """
from cyberos.core.episode import Episode, log
from cyberos.core.writer import Writer
def put(place, key):
    made = Episode(task=key, approach="a", outcome="success", duration_ms=0, scope=key)
    log(Writer(place, lock_wait_s=60), made)
""",
}
MAIN = """
import sys
for number in range(int(sys.argv[3])):
    key = f"{sys.argv[2]} {number}"
    put(sys.argv[1], key)
    print(key, flush=True)
"""


def read_jsonl(place: Path) -> Counter[str]:
    path = place / "memory.jsonl"
    text = path.read_text() if path.exists() else ""
    return Counter(json.loads(line)["key"] for line in text.splitlines())


def read_sqlite(place: Path) -> Counter[str]:
    base = sqlite3.connect(place / "memory.db")
    try:
        return Counter(key for (key,) in base.execute("select key from rows"))
    except sqlite3.OperationalError:
        return Counter()  # killed before the table was made
    finally:
        base.close()


def read_cyberos(place: Path) -> Counter[str]:
    """Count the rows of each task: a put and its episode.logged, by the path of their episode."""
    tasks: Counter[str] = Counter()
    for path, memory in ledger.scan(place).memories.items():
        staged = place / ".cyberos" / "stage" / f"{memory.last_put['payload']['sha256']}-0"
        body = place / path if (place / path).exists() else staged
        tasks[json.loads(body.read_text().split("---")[1])["task"]] = len(memory.events)
    return tasks


class Store(NamedTuple):
    read: Callable[[Path], Counter[str]]
    make: Callable[[Path], object]


STORES = {
    "jsonl": Store(read_jsonl, Path.mkdir),
    "sqlite": Store(read_sqlite, Path.mkdir),
    "cyberos": Store(read_cyberos, init),
}


def command(name: str, place: Path, who: str, count: int) -> list[str]:
    return [sys.executable, "-c", PUT[name] + MAIN, str(place), who, str(count)]


def environment() -> dict[str, str]:
    more = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    return os.environ | more


def bad_of(name: str, place: Path, said: list[str]) -> int:
    """Count the puts that are lost or half there; all of them when the store cannot be read."""
    try:
        found = STORES[name].read(place)
    except (ValueError, sqlite3.DatabaseError):
        return max(1, len(said))
    return sum(found[key] != 2 for key in {*said, *found})


def kills(name: str, points: int) -> int:
    """Kill at so many random calls; give how many of the deaths lost or halved a put."""
    chosen, bad = random.Random(12), 0
    with folder() as base:
        place, trace = base / "store", base / "trace"

        def run(*options: str) -> list[str]:
            subprocess.run(["rm", "-rf", str(place)], check=True)
            STORES[name].make(place)
            traced = ["strace", "-qq", "-y", "-o", str(trace), "-e", f"trace={CALLS}", *options]
            done = subprocess.run(
                [*traced, *command(name, place, "k", PUTS)], capture_output=True, text=True, env=environment()
            )
            return done.stdout.splitlines()

        assert len(run()) == PUTS
        calls = in_vault(place, trace.read_text(errors="replace").splitlines())
        for _ in range(points):
            call, number = chosen.choice(calls)
            said = run("-e", f"inject={call}:signal=KILL:when={number}")
            bad += bad_of(name, place, said) > 0
    return bad


def crowd(name: str, each: int) -> int:
    """Let 8 processes put at once; give how many puts are lost or half there."""
    with folder() as base:
        place = base / "store"
        STORES[name].make(place)
        running = [
            subprocess.Popen(
                command(name, place, f"p{number}", each),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment(),
            )
            for number in range(PROCESSES)
        ]
        said = [line for process in running for line in process.communicate()[0].splitlines()]
        return bad_of(name, place, said)


@promise("the harness can tell: a plain JSONL store fails it, SQLite WAL and cyberos pass")
def others(scale: float) -> tuple[str, bool]:
    if not has_strace():
        raise Skipped("strace is not here, or may not trace: the other stores cannot be killed at a call")
    points, each = max(FEWEST, share(KILLS, scale)), share(EACH, scale)
    found = {name: (kills(name, points), crowd(name, each)) for name in STORES}
    figure = "; ".join(
        f"{name}: {killed} of {points} kills and {lost:,} of {PROCESSES * each:,} crowded puts bad"
        for name, (killed, lost) in found.items()
    )
    return figure, min(found["jsonl"]) > 0 and found["sqlite"] == found["cyberos"] == (0, 0)
