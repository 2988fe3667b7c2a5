"""The promises, and what shows each: `@promise(TEXT)` over a function of the scale that gives (figure, is it kept).

    @promise("no acknowledged write is lost")
    def kills(scale: float) -> tuple[str, bool]:
        points = share(10_000, scale)
        ...
        return f"{points:,} kills: {lost} lost", not lost

The scale is 1.0 for the full run (`make prove`) and SAMPLE for the one within `pytest`. An AssertionError is a miss too.
A row that cannot run here raises Skipped with the reason, which is printed; a skip is never counted as kept.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAMPLE = 0.1
MODULES: tuple[str, ...] = (
    "kills",
    "power",
    "injections",
    "branches",
    "writers",
    "stores",
)


class Skipped(Exception):
    """What a row needs is not on this machine; the text says what."""


class Row(NamedTuple):
    promise: str
    run: Callable[[float], tuple[str, bool]]


_rows: list[Row] = []


def promise(text: str):
    """Enter the decorated function into the table."""

    def enter(run: Callable[[float], tuple[str, bool]]) -> Callable[[float], tuple[str, bool]]:
        _rows.append(Row(text, run))
        return run

    return enter


def rows() -> list[Row]:
    """Give every row, in the order of MODULES and of their lines."""
    for name in MODULES:
        importlib.import_module(f"prove.{name}")
    return list(_rows)


def share(full: int, scale: float) -> int:
    """Give how many of `full` to do at this scale: at least one."""
    return max(1, round(full * scale))


@contextmanager
def folder() -> Iterator[Path]:
    """Give an empty folder, in memory where the system has such a place, and take it away again."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="prove-", dir=base))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
