"""Recall by meaning at 10,000 episodes: cold as a command, warm in one process, and what it takes in memory.

    python bench/meaning.py [--count 100000] ROWS.jsonl

The query is embedded by the real model. The episodes' vectors are drawn at random: a comparison takes as long with
any numbers, and to embed 10,000 episodes takes minutes.
"""

from __future__ import annotations

import argparse
import heapq
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from measure import CYBEROS, ENVIRONMENT, Line, command, peak_mib, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyberos.embed.base import Embedder

TRIALS = 100
NUMPY = [sys.executable, "-c", "import numpy"]


def lines(rows: Path, count: int = 10_000, trials: int = TRIALS) -> list[Line | str]:
    from cyberos.embed import choice

    if not choice.available("minilm"):
        return ["recall by meaning: not measured, since the extra `local` is not installed"]
    with tempfile.TemporaryDirectory() as folder:
        tasks = _fill(folder, rows, count)
        embedder = choice.make("minilm")
        _plant(folder, embedder)
        return [*_cold(folder, tasks, trials), *_warm(folder, tasks, trials, embedder)]


def _fill(folder: str, rows: Path, count: int) -> list[str]:
    """Log `count` episodes, the rows again and again; give some of their tasks."""
    found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    subprocess.run([*CYBEROS, "init", folder], check=True, capture_output=True, env=ENVIRONMENT)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for number in range(count):
            row = found[number % len(found)]
            again = f" ({number // len(found)})" if number >= len(found) else ""
            file.write(json.dumps(row | {"task": row["task"] + again}) + "\n")
        file.flush()
        logging = [*CYBEROS, "episode", "log", "--from-json", file.name]
        subprocess.run(logging, cwd=folder, check=True, capture_output=True, env=ENVIRONMENT)
    return [row["task"] for row in found[:: max(1, len(found) // 100)]][:100]


def _plant(folder: str, embedder: Embedder) -> None:
    """Give each episode a vector of unit length, drawn at random, as if the embedder had made it."""
    import numpy as np

    from cyberos.index import meaning, sync

    chance = np.random.default_rng(0)

    def drawn(_: Embedder, texts: Sequence[str]) -> object:
        found = chance.normal(size=(len(texts), embedder.dim)).astype(np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    real, meaning.embed = meaning.embed, drawn
    try:
        with sync.sync(folder, ("fts5",)) as index:
            meaning.bring_up(index, embedder, budget_s=None)
    finally:
        meaning.embed = real


def _cold(folder: str, tasks: Sequence[str], trials: int) -> list[Line | str]:
    took: dict[str, list[float]] = {"numpy": [], "recall": []}
    most = 0
    for number in range(trials):
        recall = [*CYBEROS, "recall-similar", tasks[number % len(tasks)], "--backend", "semantic"]
        took["numpy"].append(seconds(command(NUMPY, folder)) * 1000)
        took["recall"].append(seconds(command(recall, folder)) * 1000)
    for number in range(3):
        recall = [*CYBEROS, "recall-similar", tasks[number % len(tasks)], "--backend", "semantic"]
        most = max(most, peak_mib(recall, folder))
    medians = {name: statistics.median(values) for name, values in took.items()}
    p95 = statistics.quantiles(took["recall"], n=20)[-1]
    return [
        Line(
            "recall-similar by meaning, cold", medians["recall"], "python -c 'import numpy'", medians["numpy"], 2.5, 1.8
        ),
        f"  {trials} trials: p95 {p95:.0f} ms (at most 500), least {min(took['recall']):.0f} ms",
        f"  memory of the process: {most} MiB (at most 200, aim 110)",
    ]


def _warm(folder: str, tasks: Sequence[str], trials: int, embedder: Embedder) -> list[Line | str]:
    import numpy as np

    from cyberos.cli.recall import run
    from cyberos.core.files import Files
    from cyberos.index.vectors import Vectors

    matrix = np.array(Vectors(Files(folder), embedder.stamp, embedder.dim).view().matrix)
    run(folder, SimpleNamespace(task=tasks[0], backend="semantic"))

    def floor(task: str) -> object:
        return heapq.nlargest(3, (matrix @ embedder.embed([task])[0]).tolist())

    took: dict[str, list[float]] = {"floor": [], "recall": []}
    for number in range(trials):
        task = tasks[number % len(tasks)]
        asked = SimpleNamespace(task=task, backend="semantic", min_relevance=0.0)
        took["floor"].append(seconds(lambda task=task: floor(task)) * 1000)
        took["recall"].append(seconds(lambda asked=asked: run(folder, asked)) * 1000)
    medians = {name: statistics.median(values) for name, values in took.items()}
    name = f"recall by meaning, warm, {len(matrix):,} rows"
    return [Line(name, medians["recall"], "one embed, product and top-k", medians["floor"], 2.5, 1.5)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=TRIALS)
    arguments = parser.parse_args()
    for line in lines(arguments.rows, arguments.count, arguments.trials):
        print(line)


if __name__ == "__main__":
    main()
