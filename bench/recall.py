"""Recall on Whoosh at 10,000 episodes: warm in one process, and cold as a command."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from types import SimpleNamespace
from typing import TYPE_CHECKING

from measure import CYBEROS, ENVIRONMENT, PASS, Line, command, interleaved, seconds

if TYPE_CHECKING:
    from pathlib import Path

ASKED = 100


def lines(rows: Path, rounds: int = 9) -> list[Line | str]:
    from cyberos.cli.recall import run

    tasks = [json.loads(line)["task"] for line in rows.read_text(encoding="utf-8").splitlines()]
    tasks = tasks[:: max(1, len(tasks) // ASKED)][:ASKED]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*CYBEROS, "init", folder], check=True, capture_output=True, env=ENVIRONMENT)
        subprocess.run(
            [*CYBEROS, "episode", "log", "--from-json", os.path.abspath(rows)],
            cwd=folder,
            check=True,
            capture_output=True,
            env=ENVIRONMENT,
        )
        built = seconds(lambda: run(folder, SimpleNamespace(task=tasks[0])))
        took = [seconds(lambda task=task: run(folder, SimpleNamespace(task=task, min_relevance=0.0))) for task in tasks]
        p50, p95 = statistics.median(took) * 1000, statistics.quantiles(took, n=20)[-1] * 1000
        cold = interleaved(
            {"pass": command(PASS, folder), "recall": command([*CYBEROS, "recall-similar", tasks[1]], folder)}, rounds
        )
    return [
        f"first recall, which builds the index: {built:.1f} s",
        f"recall on whoosh, warm, {len(took)} tasks: p50 {p50:.0f} ms, p95 {p95:.0f} ms (at most 150)",
        Line("recall-similar on whoosh, cold", cold["recall"], "python -c pass", cold["pass"], None, None),
    ]
