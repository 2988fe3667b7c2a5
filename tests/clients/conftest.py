"""A model on loopback and a fresh repository for each test of a real client, and the versions that were run."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from model_server import Model, serving
from project import BIN, SDKS, Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGES = (
    "@anthropic-ai/claude-code", "@openai/codex", "@google/gemini-cli", "@modelcontextprotocol/inspector", "opencode-ai",
    "lefthook", "husky",
)  # fmt: skip


@pytest.fixture
def model() -> Iterator[Model]:
    with serving() as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, model: Model) -> Project:
    return Project(tmp_path, model)


def pytest_terminal_summary(terminalreporter) -> None:
    """Name the versions that were run, for the record in docs/agents.md."""
    if not BIN.is_dir():
        return
    packages = BIN.parent
    for name in PACKAGES:
        manifest = packages / name / "package.json"
        if manifest.is_file():
            terminalreporter.write_line(f"{name} {json.loads(manifest.read_bytes())['version']}")
    for python in SDKS:
        code = "from importlib.metadata import version; print('mcp', version('mcp'))"
        done = subprocess.run([python, "-c", code], capture_output=True, text=True)
        terminalreporter.write_line(done.stdout.strip() or f"{python}: no mcp")
