"""The demo is the first thing that anybody sees: it runs to its end and shows what it promises."""

import os
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[1] / "examples" / "demo.sh"


def test_demo_shows_what_it_promises(tmp_path):
    environment = dict(os.environ, TMPDIR=str(tmp_path))
    environment["CYBEROS_EMBEDDER"] = "minilm"
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(["bash", str(DEMO)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout + done.stderr
    for promised in (
        "logged 161 episodes",
        "indexed by minilm",
        "Change the database passwords of every service",
        "Stop the nightly backup job from filling the disk",
        "memory-modified",
        "ledger-",
        "exit code 1",
        "exec cyberos doctor --staged",
        "memory-missing",
        "That is all",
    ):
        assert promised in shown
    assert list(tmp_path.iterdir()) == []
