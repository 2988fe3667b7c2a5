"""The plugin and the action of this repository: what is committed is what is made, and it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cyberos.agents.clients import plugin
from cyberos.cli.version import __version__
from cyberos.core.episode import log
from support import episode, git

TOP = Path(__file__).parents[2]
ACTION = yaml.safe_load((TOP / "action.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("path", "text"), plugin(__version__).items(), ids=lambda value: value.split("\n")[0])
def test_what_is_committed_is_what_is_made(path, text):
    assert (TOP / path).read_text(encoding="utf-8") == text, "run `make plugin`"


def test_the_plugin_says_what_it_brings():
    manifest = json.loads((TOP / "plugins/cyberos/.claude-plugin/plugin.json").read_bytes())
    assert manifest["mcpServers"] == {"cyberos": {"command": "cyberos", "args": ["mcp"]}}
    hooks = json.loads((TOP / "plugins/cyberos/hooks/hooks.json").read_bytes())["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["command"].startswith("cyberos hook stop")


def step(name: str) -> str:
    return next(each["run"] for each in ACTION["runs"]["steps"] if each["name"] == name)


@pytest.mark.parametrize("is_good", [True, False])
def test_the_steps_of_the_action_run(tmp_memory, tmp_path, is_good):
    root = tmp_memory.path
    git(root, "init", "-q")
    path = log(tmp_memory, episode())
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "a vault")
    if not is_good:
        file = root / path
        file.write_text(file.read_text(encoding="utf-8").replace("success", "failure"), encoding="utf-8")
    program = tmp_path / "cyberos" / "bin" / "cyberos"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cyberos "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environment = os.environ | {
        "RUNNER_TEMP": str(tmp_path),
        "VAULT": str(root),
        "OPTIONS": "--ignore vault-uncommitted",
        "SARIF": str(tmp_path / "out.sarif"),
    }
    done = [
        subprocess.run(["bash", "-e", "-c", step(name)], env=environment, capture_output=True, text=True, check=False)
        for name in ("Write SARIF", "Check the vault")
    ]
    results = json.loads((tmp_path / "out.sarif").read_bytes())["runs"][0]["results"]
    assert [each.returncode for each in done] == [0, 0 if is_good else 1]
    assert bool(results) is not is_good
    assert ("::error file=" in done[1].stdout) is not is_good
