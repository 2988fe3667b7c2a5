"""The doctor on a whole vault, on one in which nothing changed, and on what is staged, beside their floors and git's.

python bench/doctor.py [--data FOLDER] [--large]    # 10,000 episodes, or also 100,000, which are imported first
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from measure import CYBEROS, ENVIRONMENT, PASS, Line, command, interleaved, peak_mib

if TYPE_CHECKING:
    from collections.abc import Callable

_READ = """
import hashlib, os
for base in ("memories", "audit"):
    for folder, _, names in os.walk(base):
        for name in names:
            with open(os.path.join(folder, name), "rb") as handle:
                hashlib.sha256(handle.read()).digest()
"""
_STAGED = 10
_REAL = 10_000  # rows of the real data


def lines(rows: Path, rounds: int = 5) -> list[Line | str]:
    """Measure a vault made of these rows."""
    with tempfile.TemporaryDirectory() as folder:
        _make(folder, rows)
        count = f"{sum(1 for _ in Path(folder).glob('memories/**/*.md')):,}"
        whole = interleaved(_whole(folder), rounds)
        _run([*CYBEROS, "doctor"], folder)  # so that there is something kept
        same = interleaved(_same(folder), rounds)
        for number in range(_STAGED):
            _run([*CYBEROS, "episode", "log", *_FIELDS, "--task", f"stage it {number}"], folder)
        _run(["git", "add", "memories", "audit"], folder)
        staged = interleaved(_staged(folder), rounds)
        memory = peak_mib([*CYBEROS, "doctor", "--full"], folder)
    read, status = "python walk + read + sha256", "git status"
    both = staged["diff-index"] + staged["pass"]
    return [
        Line(f"doctor, whole vault, {count}", whole["doctor"], read, whole["read"], 4, 2.5),
        Line(f"git status, {count}", whole["status"], read, whole["read"], None, None),
        Line(f"git fsck --full, {count}", whole["fsck"], read, whole["read"], None, None),
        Line(f"doctor, nothing changed, {count}", same["doctor"], status, same["status"], 2, 1.2),
        Line(f"doctor --staged, {_STAGED} of {count}", staged["doctor"], "git diff-index + python", both, 5, 2),
        f"  memory of the doctor's larger process: {memory} MiB (at most 300)",
    ]


_FIELDS = ["--approach", "as before", "--outcome", "success", "--duration-ms", "1000"]


def _make(folder: str, rows: Path) -> None:
    _run(["git", "init", "-q"], folder)
    _run(["git", "config", "gc.auto", "0"], folder)  # else it goes on in the background while we measure
    _run([*CYBEROS, "init"], folder)
    _run([*CYBEROS, "episode", "log", "--from-json", str(rows)], folder)
    _run(["git", "add", "-A"], folder)
    _run(["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-qm", "all"], folder)
    _run(["git", "gc", "-q"], folder)
    _run(["git", "status"], folder)


def _run(arguments: list[str], cwd: str) -> None:
    subprocess.run(arguments, cwd=cwd, check=True, capture_output=True, env=ENVIRONMENT)


def _whole(folder: str) -> dict[str, Callable[[], object]]:
    return {
        "read": command([sys.executable, "-c", _READ], folder),
        "doctor": command([*CYBEROS, "doctor", "--full"], folder),
        "status": command(["git", "status", "--short"], folder),
        "fsck": command(["git", "fsck", "--full", "--no-progress"], folder),
    }


def _same(folder: str) -> dict[str, Callable[[], object]]:
    return {
        "status": command(["git", "status", "--short"], folder),
        "doctor": command([*CYBEROS, "doctor"], folder),
    }


def _staged(folder: str) -> dict[str, Callable[[], object]]:
    return {
        "diff-index": command(["git", "diff-index", "HEAD"], folder),
        "pass": command(PASS, folder),
        "doctor": command([*CYBEROS, "doctor", "--staged"], folder),
    }


def main() -> None:
    import run

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also 100,000 episodes, which takes minutes")
    parser.add_argument("--data", default=os.environ.get("CYBEROS_BENCH_DATA"), help="folder with real episodes")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for count in (10_000, 100_000) if arguments.large else (10_000,):
        with tempfile.TemporaryDirectory() as folder:
            real = Path(arguments.data, "nl2bash.episodes.jsonl") if arguments.data and count == _REAL else None
            rows = real if real and real.is_file() else run.expand(count, Path(folder, "rows.jsonl"))
            for line in lines(rows, arguments.rounds):
                print(line, flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    main()
