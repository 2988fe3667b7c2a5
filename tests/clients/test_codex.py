"""The real Codex, offline: one command, and its next session knows what the last one learned."""

from __future__ import annotations

import pytest
from model_server import Call
from project import EPISODE, LESSON, TASK, Project, need

from cyberos.agents.hooks import HOW_TO_LOG, REMINDER

pytestmark = pytest.mark.clients
FIRST = HOW_TO_LOG.split("\n")[0]


@pytest.fixture(autouse=True)
def _needs() -> None:
    need("codex")


@pytest.fixture
def ready(project: Project) -> Project:
    """Give a project that is set up, and in which the user has done what is still to do."""
    project.run("cyberos", "init", "--agent", "codex")
    (project.home / ".codex").mkdir()
    (project.home / ".codex" / "config.toml").write_text(f"""\
model = "gpt-5.1-codex"
model_provider = "loopback"

[model_providers.loopback]
name = "loopback"
base_url = "{project.model.url}/v1"
wire_api = "responses"
env_key = "LOOPBACK_KEY"

[projects."{project.root}"]
trust_level = "trusted"
""")
    return project


def ask(project: Project, prompt: str) -> str:
    project.model.forget()
    flags = ("--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox")
    project.run("codex", "exec", *flags, prompt, CODEX_HOME=str(project.home / ".codex"), LOOPBACK_KEY="x")
    return project.model.heard


def test_the_next_session_recalls_what_the_last_one_learned(ready):
    ready.model.call = Call("log_episode", EPISODE)
    heard = ask(ready, f"Please {TASK}")
    assert FIRST in heard
    assert "Past events" not in heard
    assert REMINDER not in heard
    assert ready.logged() == [LESSON]
    ready.model.call = None
    heard = ask(ready, "The login test is flaky again, fix it")
    assert f"Lesson: {LESSON}" in heard


def test_a_session_that_worked_and_logged_nothing_is_reminded_once(ready):
    ready.model.call = Call("exec_command", {"cmd": "true"})
    heard = ask(ready, "Please run true")
    assert REMINDER in heard
    found = ready.recorded(".codex/sessions/*/*/*/*.jsonl")
    assert (found["task"], found["label"]) == ("Please run true", "claimed_success"), found


def test_codex_sees_the_server_and_the_skill(ready):
    listed = ready.run("codex", "mcp", "list", CODEX_HOME=str(ready.home / ".codex"), LOOPBACK_KEY="x")
    assert "cyberos" in listed
    assert "memory of past work" in ask(ready, "Hello")
