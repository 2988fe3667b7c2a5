"""An import of 10,000 episodes, beside writing the same files unsynced."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from measure import CYBEROS, ENVIRONMENT, Line, command, interleaved

if TYPE_CHECKING:
    from collections.abc import Callable


def lines(rows: Path, rounds: int = 5) -> list[Line]:
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source")
        _init(source)
        subprocess.run([*CYBEROS, "episode", "log", "--from-json", str(rows)], cwd=source, check=True, env=ENVIRONMENT)
        memories = {path.relative_to(source): path.read_bytes() for path in Path(source).glob("memories/**/*.md")}
        vault, plain = os.path.join(folder, "vault"), os.path.join(folder, "plain")
        works = {
            "empty": _fresh(vault),
            "import": command([*CYBEROS, "episode", "log", "--from-json", str(rows)], vault),
            "clear": lambda: shutil.rmtree(plain, ignore_errors=True),
            "plain": lambda: _write(Path(plain), memories),
        }
        os.mkdir(vault)
        took = interleaved(works, rounds)
    work = f"import of {len(memories):,} episodes, one commit point"
    return [Line(work, took["import"], "writing the same files, unsynced", took["plain"], 5, 3)]


def _init(folder: str) -> None:
    subprocess.run([*CYBEROS, "init", folder], check=True, capture_output=True, env=ENVIRONMENT)


def _fresh(folder: str) -> Callable[[], None]:
    def make() -> None:
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        _init(folder)

    return make


def _write(root: Path, memories: dict[Path, bytes]) -> None:
    for path, blob in memories.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(blob)
