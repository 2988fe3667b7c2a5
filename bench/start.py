"""Cold starts: `--version`, `--help` and `episode log`, beside `python -c pass` and click alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile

from measure import CYBEROS, ENVIRONMENT, PASS, Line, command, interleaved


def lines(rounds: int = 21) -> list[Line]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        subprocess.run([*CYBEROS, "init", folder], check=True, capture_output=True, env=ENVIRONMENT)
        log = [*CYBEROS, "episode", "log", "--task", "fix the login", "--approach", "freeze the clock"]
        log += ["--outcome", "success", "--duration-ms", "1000"]
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
    ]
