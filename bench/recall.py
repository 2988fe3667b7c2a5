"""Recall by words: cold as a command, warm in one process, and after a pull that brings 100 episodes.

Cold and after a pull on FTS5, warm on Whoosh and FTS5. `lines` takes 10,000 rows, `large` the cold row of 100,000.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from measure import CYBEROS, ENVIRONMENT, PASS, Line, command, interleaved, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ASKED = 100
PULLED = 100
AGAIN = 3


@contextmanager
def vault(rows: Path) -> Iterator[tuple[str, list[str]]]:
    """Give a vault of these rows and tasks to ask it for."""
    tasks = [json.loads(line)["task"] for line in rows.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "vault")
        subprocess.run([*CYBEROS, "init", folder], check=True, capture_output=True, env=ENVIRONMENT)
        log(folder, rows)
        yield folder, tasks[:: max(1, len(tasks) // ASKED)][:ASKED]


def log(folder: str, rows: Path) -> None:
    command([*CYBEROS, "--store", folder, "episode", "log", "--from-json", os.path.abspath(rows)], folder)()


def lines(rows: Path, rounds: int = 21) -> list[Line | str]:
    with vault(rows) as (folder, tasks):
        made: list[Line | str] = []
        for backend in ("whoosh", "fts5"):
            made += warm(folder, tasks, backend)
        made.append(cold(folder, tasks, rounds, 8, 6))
        made.append(pulled(folder, tasks, rows))
    return made


def large(rows: Path, rounds: int = 21) -> list[Line | str]:
    with vault(rows) as (folder, tasks):
        return [cold(folder, tasks, rounds, 12, 8)]


def warm(folder: str, tasks: list[str], backend: str) -> list[Line | str]:
    from cyberos.cli.recall import run

    def ask(task: str) -> Callable[[], object]:
        return lambda: run(folder, SimpleNamespace(task=task, min_relevance=0.0, backend=backend))

    built = seconds(ask(tasks[0]))
    took = [seconds(ask(task)) for task in tasks]
    p50, p95 = statistics.median(took) * 1000, statistics.quantiles(took, n=20)[-1] * 1000
    return [
        f"first recall on {backend}, which builds its index: {built:.1f} s",
        f"recall on {backend}, warm, {len(took)} tasks: p50 {p50:.0f} ms, p95 {p95:.0f} ms (at most 150)",
    ]


def cold(folder: str, tasks: list[str], rounds: int, at_most: float, aim: float) -> Line:
    ask = [*CYBEROS, "recall-similar", "--backend", "fts5", tasks[1]]
    command(ask, folder)()
    took = interleaved({"pass": command(PASS, folder), "recall": command(ask, folder)}, rounds)
    work = "recall-similar on fts5, cold"
    return Line(work, took["recall"], "python -c pass", took["pass"], at_most, aim)


def pulled(folder: str, tasks: list[str], rows: Path) -> Line:
    """Ask cold with nothing new, then with 100 episodes that a copy of the vault has logged meanwhile."""
    ask = command([*CYBEROS, "recall-similar", "--backend", "fts5", tasks[1]], folder)
    part = Path(folder).parent / "part.jsonl"
    read = rows.read_text(encoding="utf-8").splitlines(keepends=True)
    nothing, news = [], []
    for number in range(AGAIN):
        part.write_text("".join(read[number * PULLED : (number + 1) * PULLED]), encoding="utf-8")
        copy = os.path.join(os.path.dirname(folder), "copy")
        shutil.copytree(folder, copy)
        log(copy, part)
        for name in ("audit", "memories"):
            shutil.copytree(os.path.join(copy, name), os.path.join(folder, name), dirs_exist_ok=True)
        shutil.rmtree(copy)
        news.append(seconds(ask))
        nothing.append(seconds(ask))
    took, floor = (statistics.median(values) * 1000 for values in (news, nothing))
    return Line(f"recall after a pull of {PULLED} episodes, fts5", took, "the same with nothing new", floor, None, None)
