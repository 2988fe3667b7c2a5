"""Embedding beside its floors: a cold query beside importing numpy, and texts a second beside sentence-transformers.

    python bench/embed.py [MODEL-FOLDER]

The folder holds all-MiniLM-L6-v2 as sentence-transformers reads it; without one that line is left out. Throughput is
of 200 made texts of about 60 pieces, each runner once a round; CPU seconds are given too, for machines that are busy.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import TYPE_CHECKING

from measure import Line, command, interleaved, peak_mib

from cyberos.embed import choice, minilm

if TYPE_CHECKING:
    from collections.abc import Callable

QUERY = "from cyberos.embed import choice; choice.make('minilm').embed(['fix the login test'])"
WORDS = (
    *("ship", "the", "login", "test", "for", "every", "tenant", "after", "review", "and", "freeze", "clock", "so"),
    *("that", "retries", "never", "hide", "a", "failure"),
)
TEXTS = [" ".join(WORDS[(n * 7 + i * (1 + n % 5)) % len(WORDS)] for i in range(25 + n % 60)) for n in range(200)]


def lines(rounds: int = 15) -> list[Line]:
    works = {
        "numpy": command([sys.executable, "-c", "import numpy"], "."),
        "query": command([sys.executable, "-c", QUERY], "."),
    }
    took = interleaved(works, rounds)
    return [Line("one embedding by minilm, cold process", took["query"], "import numpy", took["numpy"], 2.5, 1.8)]


def throughput(runners: dict[str, Callable[[], object]], rounds: int = 5) -> None:
    """Print texts a second, by the clock and by the CPU."""
    wall: dict[str, list[float]] = {name: [] for name in runners}
    busy: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            begun, spent = time.perf_counter(), time.process_time()
            run()
            wall[name].append(len(TEXTS) / (time.perf_counter() - begun))
            busy[name].append(len(TEXTS) / (time.process_time() - spent))
    for name in runners:
        print(
            f"{name:<24} {statistics.median(wall[name]):7.1f} texts/s {statistics.median(busy[name]):7.1f} texts/CPU-s"
        )


def by(many: int) -> Callable[[], object]:
    """Embed with the bulk's runner from `many` texts up."""

    embedder = choice.make("minilm")  # loaded once, as the other is

    def run() -> object:
        minilm.MANY = many
        return embedder.embed(TEXTS)

    run()
    return run


def main(model: str | None = None) -> None:
    """Print all of it; `model` is a folder for sentence-transformers."""
    for line in lines():
        print(line)
    memory = peak_mib([sys.executable, "-c", QUERY], ".")
    print(f"peak memory of that process: {memory} MiB, at most 200, aim 110")
    runners = {"minilm, numpy": by(10**9), "minilm, onnxruntime": by(1)}
    if model is not None:
        other = choice.make(f"sentence-transformers:{model}")
        runners["sentence-transformers"] = lambda: other.embed(TEXTS)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    throughput(runners)


if __name__ == "__main__":
    main(*sys.argv[1:2])
