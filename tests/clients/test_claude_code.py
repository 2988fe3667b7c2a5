"""The real Claude Code, offline: one command, and its next session knows what the last one learned."""

from __future__ import annotations

import json
import time

import pytest
from model_server import Call
from project import EPISODE, LESSON, PATIENCE_S, TASK, TOP, Project, need

from cyberos.agents.hooks import HOW_TO_LOG, REMINDER

pytestmark = pytest.mark.clients
FIRST = HOW_TO_LOG.split("\n")[0]


@pytest.fixture(autouse=True)
def _needs() -> None:
    need("claude")


def approve(project: Project) -> None:
    """Do what the user is told to do: trust the folder, approve the server."""
    approved = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["cyberos"]}
    known = {"projects": {str(project.root): approved}, "hasCompletedOnboarding": True}
    (project.home / ".claude.json").write_text(json.dumps(known))


def claude(project: Project, *arguments: str, code: int | None = 0) -> str:
    return project.run(
        "claude", *arguments, code=code,
        ANTHROPIC_BASE_URL=project.model.url, ANTHROPIC_API_KEY="x", MCP_CONNECTION_NONBLOCKING="0",
        DISABLE_TELEMETRY="1", DISABLE_AUTOUPDATER="1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", IS_SANDBOX="1",
    )  # fmt: skip


def ask(project: Project, prompt: str, *tools: str) -> str:
    project.model.forget()
    claude(project, "-p", prompt, *(["--allowedTools", *tools] if tools else []))
    assert "persisted-output" not in project.model.heard
    return project.model.heard


def test_the_next_session_recalls_what_the_last_one_learned(project):
    project.run("cyberos", "init", "--agent", "claude-code")
    approve(project)
    project.model.call = Call("mcp__cyberos__log_episode", EPISODE)
    heard = ask(project, f"Please {TASK}", "mcp__cyberos__log_episode")
    assert FIRST in heard
    assert "Past events" not in heard
    assert project.logged() == [LESSON]
    assert REMINDER not in heard
    project.model.call = None
    heard = ask(project, "The login test is flaky again, fix it")
    assert f"Lesson: {LESSON}" in heard
    assert FIRST in heard


def test_a_session_that_worked_and_logged_nothing_is_reminded_once(project):
    project.run("cyberos", "init", "--agent", "claude-code")
    approve(project)
    project.model.call = Call("Bash", {"command": "true", "description": "Do nothing"})
    heard = ask(project, "Please run true", "Bash")
    assert REMINDER in heard
    assert [REMINDER in body for body in project.model.requests].count(True) == 1
    found = project.recorded(".claude/projects/*/*.jsonl")
    assert (found["task"], found["label"]) == ("Please run true", "claimed_success"), found


def test_what_failed_is_told_at_the_start(project):
    project.run("cyberos", "init", "--agent", "claude-code")
    approve(project)
    failed = ("--outcome", "failure", "--error", "the lock timed out", "--duration-ms", "5")
    project.run("cyberos", "episode", "log", "--task", "migrate the billing schema", "--approach", "in one go", *failed)
    heard = ask(project, "Hello there")
    assert "Error: the lock timed out" in heard


def test_claude_sees_the_server(project):
    project.run("cyberos", "init", "--agent", "claude-code")
    approve(project)
    listed = claude(project, "mcp", "list")
    assert "cyberos: cyberos mcp" in listed
    assert "Connected" in listed


@pytest.mark.parametrize("path", ["plugins/cyberos", "."])
def test_its_own_validator_passes_the_plugin(project, path):
    assert "passed" in claude(project, "plugin", "validate", str(TOP / path))


def test_the_plugin_installs_and_is_silent_beside_the_hooks(project):
    claude(project, "plugin", "marketplace", "add", str(TOP))
    claude(project, "plugin", "install", "cyberos@cyberos")
    details = claude(project, "plugin", "details", "cyberos")
    assert all(word in details for word in ("cyberos", "SessionStart", "UserPromptSubmit"))
    project.run("cyberos", "init")
    approve(project)
    project.model.call = Call("log_episode", EPISODE)
    heard = ask(project, f"Please {TASK}", "mcp__plugin_cyberos_cyberos__log_episode")
    assert heard.count(FIRST) >= 1
    assert project.logged() == [LESSON]
    project.model.call = None
    project.run("cyberos", "init", "--agent", "claude-code")
    heard = ask(project, "The login test is flaky again, fix it")
    assert [body.count(f"Lesson: {LESSON}") for body in project.model.requests if "flaky again" in body] == [1]


def test_what_is_compacted_is_recorded(project):
    project.run("cyberos", "init", "--agent", "claude-code")
    approve(project)
    project.model.call = Call("Bash", {"command": "true", "description": "Do nothing"})
    ask(project, "Please run true", "Bash")
    project.model.call = None
    claude(project, "-p", "--continue", "/compact")
    until = time.monotonic() + PATIENCE_S
    while not list(project.root.glob("memories/episodes/*/*/*.md")) and time.monotonic() < until:
        time.sleep(0.1)
    (file,) = project.root.glob("memories/episodes/*/*/*.md")
    assert '"task": "Please run true"' in file.read_text(encoding="utf-8")
    project.logged()


def test_the_server_of_the_plugin_is_not_started_beside_that_of_the_repository(project):
    claude(project, "plugin", "marketplace", "add", str(TOP))
    claude(project, "plugin", "install", "cyberos@cyberos")
    project.run("cyberos", "init", "--agent", "claude-code")
    approve(project)
    assert claude(project, "mcp", "list").count("cyberos mcp") == 1
