"""Cold starts: what a person types and what an agent starts, beside `python -c pass` and click alone.

The server is timed to its first answer, before it is closed; the prompt of the hook has a match in a warm index.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from measure import CYBEROS, ENVIRONMENT, PASS, Line, command, interleaved

if TYPE_CHECKING:
    from collections.abc import Callable

DISCOVER = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n'
PROMPT = json.dumps({"session_id": "s", "prompt": "fix the login"}).encode()
PATIENT = ENVIRONMENT | {"CYBEROS_HOOK_SECONDS": "30"}  # what is slow is timed, not cut off


def answer(cwd: str) -> Callable[[], object]:
    """Make a work of the server's first answer."""

    def work() -> None:
        with subprocess.Popen(
            [*CYBEROS, "mcp"], cwd=cwd, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as server:
            server.stdin.write(DISCOVER)
            server.stdin.flush()
            assert b"recall_similar" in server.stdout.readline()
            server.kill()

    return work


def hooked(event: str, cwd: str) -> Callable[[], object]:
    """Make a work of a hook that has something to say."""

    def work() -> None:
        done = subprocess.run([*CYBEROS, "hook", event], cwd=cwd, env=PATIENT, input=PROMPT, capture_output=True)
        assert b"additionalContext" in done.stdout

    return work


def lines(rounds: int = 21) -> list[Line]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        subprocess.run([*CYBEROS, "init", folder], check=True, capture_output=True, env=ENVIRONMENT)
        log = [*CYBEROS, "episode", "log", "--task", "fix the login", "--approach", "freeze the clock"]
        log += ["--outcome", "success", "--duration-ms", "1000"]
        subprocess.run(log, cwd=folder, check=True, capture_output=True, env=ENVIRONMENT)
        subprocess.run([*CYBEROS, "index"], cwd=folder, check=True, capture_output=True, env=ENVIRONMENT)
        asked = {
            "pass": command(PASS, folder),
            "mcp": answer(folder),
            "hook prompt": hooked("prompt", folder),
            "hook session-start": hooked("session-start", folder),
        }
        agents = interleaved(asked, rounds)
        works = {
            "pass": command(PASS, folder),
            "click": command([sys.executable, "-c", "import click"], folder),
            "--version": command([*CYBEROS, "--version"], folder),
            "--help": command([*CYBEROS, "--help"], folder),
            "episode log": command(log, folder),
        }
        took = interleaved(works, rounds)
    floor = "python -c pass"
    return [
        Line("click alone, cold", took["click"], floor, took["pass"], None, None),
        Line("cyberos --version, cold", took["--version"], floor, took["pass"], 5.5, 4.2),
        Line("cyberos --help, cold", took["--help"], floor, took["pass"], 5.5, 4.2),
        Line("episode log, cold, durability full", took["episode log"], floor, took["pass"], 9, 6),
        Line("cyberos mcp, to the first answer", agents["mcp"], floor, agents["pass"], 6, 3),
        Line("cyberos hook prompt, one match", agents["hook prompt"], floor, agents["pass"], None, None),
        Line("cyberos hook session-start", agents["hook session-start"], floor, agents["pass"], None, None),
    ]
