"""The real Gemini CLI, offline: it connects to the server, and its hooks reach the model."""

from __future__ import annotations

import subprocess

import pytest
from model_server import Call
from project import EPISODE, LESSON, TASK, Project, need

from cyberos.agents.hooks import HOW_TO_LOG, REMINDER

pytestmark = pytest.mark.clients


@pytest.fixture(autouse=True)
def _needs() -> None:
    need("gemini")


@pytest.fixture
def ready(project: Project) -> Project:
    project.run("cyberos", "init", "--agent", "gemini")
    (project.home / ".gemini").mkdir()
    (project.home / ".gemini" / "settings.json").write_text(
        '{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}'
    )
    return project


def gemini(project: Project, *arguments: str) -> str:
    project.model.forget()
    return project.run(
        "gemini", *arguments, GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=project.model.url,
        GEMINI_CLI_TRUST_WORKSPACE="true",
    )  # fmt: skip


def test_gemini_connects_to_the_server(ready):
    done = subprocess.run(
        ["gemini", "mcp", "list"], cwd=ready.root, env=ready.environment | {"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    assert "cyberos: cyberos mcp (stdio) - Connected" in done.stdout + done.stderr


def test_the_next_session_recalls_what_the_last_one_learned(ready):
    ready.model.call = Call("log_episode", EPISODE)
    gemini(ready, "--yolo", "-m", "gemini-2.5-pro", "-p", f"Please {TASK}")
    assert HOW_TO_LOG.split("\n")[0] in ready.model.heard
    assert ready.logged() == [LESSON]
    ready.model.call = None
    gemini(ready, "--yolo", "-m", "gemini-2.5-pro", "-p", "The login test is flaky again, fix it")
    assert f"Lesson: {LESSON}" in ready.model.heard


def test_a_session_that_worked_and_logged_nothing_is_reminded_once(ready):
    ready.model.call = Call("list_directory", {"dir_path": "."})
    gemini(ready, "--yolo", "-m", "gemini-2.5-pro", "-p", "Please look around")
    assert REMINDER in ready.model.heard
    found = ready.recorded(".gemini/tmp/*/chats/*.jsonl")
    assert (found["task"], found["label"]) == ("Please look around", "claimed_success"), found
