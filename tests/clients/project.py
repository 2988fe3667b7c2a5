"""A fresh repository with one agent in it, and what is said and asked there.

`make test-clients` installs the programs. CYBEROS_CLIENTS is the folder with npm's `node_modules`; CYBEROS_MCP_SDKS
holds the Pythons with the official SDK, the older major first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cyberos.core.reader import recall
from support import git

if TYPE_CHECKING:
    from model_server import Model

# read before the walls of the other tests take every CYBEROS_ away
BIN = Path(os.environ.get("CYBEROS_CLIENTS", "")) / "node_modules" / ".bin"
SDKS = os.environ.get("CYBEROS_MCP_SDKS", "").split()
TOP = Path(__file__).parents[2]
PATIENCE_S = 240
TASK = "fix the flaky login test"
LESSON = "freeze the clock in the fixture before the server starts"
EPISODE = {
    "task": TASK,
    "approach": "replaced sleep by a fake clock in tests/test_login.py",
    "outcome": "success",
    "duration_ms": 61000,
    "lesson": LESSON,
}


class Project:
    """A fresh repository that is a vault, somebody's empty home, and `cyberos` on the PATH."""

    def __init__(self, folder: Path, model: Model) -> None:
        self.root, self.home, self.model = folder / "project", folder / "home", model
        for made in (self.root, self.home, folder / "bin"):
            made.mkdir()
        program = folder / "bin" / "cyberos"
        # an agent hands its servers a few variables only; and no answer may depend on how busy the machine is
        program.write_text(
            f'#!/bin/sh\nPYTHONPATH="{TOP}" CYBEROS_HOOK_SECONDS=9 exec "{sys.executable}" -m cyberos "$@"\n'
        )
        program.chmod(0o755)
        self.environment = os.environ | {
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(folder / "bin"), str(BIN), os.environ["PATH"]]),
            "TERM": "dumb",
        }
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "commit", "-q", "--allow-empty", "-m", "begin")

    def run(self, *command: str, code: int | None = 0, **environment: str) -> str:
        """Run a program in the repository; give what it prints on stdout."""
        done = subprocess.run(
            command, cwd=self.root, env=self.environment | environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert code is None or done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def recorded(self, pattern: str) -> dict[str, Any]:
        """Give what would be stored of the one transcript in the home that a pattern finds."""
        (file,) = self.home.glob(pattern)
        return json.loads(self.run("cyberos", "episode", "record", str(file), "--dry-run", "--no-llm", "--json"))

    def logged(self) -> list[str]:
        """Give the lessons that the vault holds, after the doctor has looked at it."""
        self.run("cyberos", "doctor", "--ignore", "vault-uncommitted")
        hits = recall(self.root, TASK, k=20, min_relevance=0.0, memory_kind="episode")
        return [hit.frontmatter.get("lesson", "") for hit in hits]


def need(program: str) -> None:
    """Skip where a program is not installed."""
    if not (BIN / program).exists():
        pytest.skip(f"no {program}: `make test-clients` installs it")
