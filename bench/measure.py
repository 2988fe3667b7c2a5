"""Ratios measured side by side: each round runs every command once, so that a noisy machine disturbs all alike."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CYBEROS = [sys.executable, "-m", "cyberos"]
PASS = [sys.executable, "-c", "pass"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


class Line(NamedTuple):
    """One line of the table: medians in ms, and the bounds of their ratio."""

    work: str
    took_ms: float
    floor: str
    floor_ms: float
    at_most: float | None
    aim: float | None

    def __str__(self) -> str:
        ratio = self.took_ms / self.floor_ms
        bounds = "" if self.at_most is None else f"  at most {self.at_most:g}x, aim {self.aim:g}x"
        verdict = "" if self.at_most is None else ("  OK" if ratio <= self.at_most else "  OVER")
        floor = f"{ratio:6.2f}x of {self.floor} ({self.floor_ms:.1f} ms)"
        return f"{self.work:<44} {self.took_ms:9.1f} ms  {floor}{bounds}{verdict}"


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def interleaved(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Give the median of each work in ms, all works once a round."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            taken[name].append(seconds(work))
    return {name: statistics.median(values) * 1000 for name, values in taken.items()}


def command(arguments: Sequence[str], cwd: str) -> Callable[[], object]:
    """Make a work of a command that must succeed."""
    return lambda: subprocess.run(arguments, cwd=cwd, env=ENVIRONMENT, check=True, capture_output=True)


# Linux counts what the parent held when it started a process as that one's own, so a small one stands between
_PEAK = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
_PEAK += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"


def peak_mib(arguments: Sequence[str], cwd: str) -> int:
    """Give the most memory that a command, or the largest of its processes, had at once."""
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, *arguments], cwd=cwd, env=ENVIRONMENT, check=True, capture_output=True, text=True
    )
    return int(done.stdout) // 1024
