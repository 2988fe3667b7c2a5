"""`cyberos hook` as an agent calls it: a real process, JSON in, JSON or nothing out, exit code 0 whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cyberos.agents.clients import CLIENTS
from cyberos.agents.hooks import EVENTS, HOW_TO_LOG, MOST, REMINDER
from cyberos.core.episode import log
from cyberos.core.lock import lock
from support import episode

REAL = Path(__file__).parents[1] / "record" / "transcripts" / "real"


def hook(root: Path, event: str, agent: str = "claude-code", raw: bytes | None = None, **given: Any):
    """Call a hook; give what it printed as a value (None for nothing) and what it said on stderr."""
    blob = json.dumps({"session_id": "s1", "cwd": str(root)} | given).encode() if raw is None else raw
    command = [sys.executable, "-m", "cyberos", "hook", event, "--agent", agent]
    done = subprocess.run(command, cwd=root, input=blob, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return (json.loads(done.stdout) if done.stdout else None), done.stderr.decode()


def said(answer: dict[str, Any] | None) -> str:
    return (answer or {}).get("hookSpecificOutput", {}).get("additionalContext", "")


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Let a hook take longer than its second where many tests run at once."""
    monkeypatch.setenv("CYBEROS_HOOK_WAIT", "30")


@pytest.fixture
def failed(tmp_memory) -> str:
    made = episode("migrate the events table", outcome="failure", error="lock timeout", lesson="set lock_timeout first")
    return log(tmp_memory, made).as_posix()


@pytest.fixture
def transcript(tmp_path) -> str:
    return str(shutil.copy(REAL / "claude-code.jsonl", tmp_path / "session.jsonl"))


def test_a_session_begins_with_what_failed_and_how_to_log(root, failed):
    answer, _ = hook(root, "session-start", hook_event_name="SessionStart", source="startup")
    assert answer["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert said(answer).startswith(HOW_TO_LOG)
    assert "| Lesson: set lock_timeout first" in said(answer)


def test_in_an_empty_vault_a_session_is_told_how_to_log(root):
    assert said(hook(root, "session-start")[0]) == HOW_TO_LOG


def test_what_succeeded_or_is_quarantined_is_no_failure(root, tmp_memory, failed):
    log(tmp_memory, episode("paint the fence"))
    tmp_memory.quarantine(failed, "a test")
    assert said(hook(root, "session-start")[0]) == HOW_TO_LOG


def test_a_prompt_recalls_what_is_like_it(root, failed):
    answer, _ = hook(root, "prompt", prompt="migrate the events table to bigint")
    assert failed in said(answer)
    assert hook(root, "prompt", prompt="bake a chocolate cake")[0] is None


@pytest.mark.parametrize("prompt", ["", "yes", "go on", "/compact", 3, None, "the of and"])
def test_a_prompt_that_is_no_task_recalls_nothing(root, failed, prompt):
    assert hook(root, "prompt", prompt=prompt)[0] is None


def test_what_is_said_is_never_too_long(root, tmp_memory):
    for number in range(6):
        log(tmp_memory, episode(f"ship the form {number} " + "x y " * 3000, outcome="failure", error="e " * 9000))
    for event in ("session-start", "prompt"):
        answer, _ = hook(root, event, prompt="ship the form x y")
        assert 0 < len(said(answer)) <= MOST


@pytest.mark.parametrize("agent", [*CLIENTS, "of tomorrow"])
def test_each_agent_is_answered_in_its_own_form(root, failed, transcript, agent):
    answer, _ = hook(root, "prompt", agent, prompt="migrate the events table")
    key = {"cursor": "additional_context", "copilot": "additionalContext"}.get(agent, "hookSpecificOutput")
    assert "set lock_timeout first" in json.dumps(answer[key])
    asked = hook(root, "stop", agent, transcript_path=transcript)[0]
    assert asked == ({"followup_message": REMINDER} if agent == "cursor" else {"decision": "block", "reason": REMINDER})


def test_a_session_that_worked_is_reminded_once(root, transcript):
    hook(root, "session-start")
    assert hook(root, "stop", transcript_path=transcript, stop_hook_active=False)[0]["reason"] == REMINDER
    assert hook(root, "stop", transcript_path=transcript)[0] is None
    assert hook(root, "stop", session_id="s2", transcript_path=transcript)[0]["reason"] == REMINDER


def test_who_just_was_reminded_or_did_nothing_or_logged_is_not(root, tmp_path, tmp_memory, transcript):
    hook(root, "session-start")
    assert hook(root, "stop", transcript_path=transcript, stop_hook_active=True)[0] is None
    talk = tmp_path / "talk.jsonl"
    talk.write_text('{"type": "user", "message": {"role": "user", "content": "hello"}}\n', encoding="utf-8")
    assert hook(root, "stop", transcript_path=str(talk))[0] is None
    assert hook(root, "stop", transcript_path=str(tmp_path / "none"))[0] is None
    assert hook(root, "stop")[0] is None
    log(tmp_memory, episode())
    assert hook(root, "stop", transcript_path=transcript)[0] is None


def episodes(root: Path, count: int) -> list[str]:
    """Wait until so many episodes are there."""
    for _ in range(300):
        found = [file.read_text(encoding="utf-8") for file in root.glob("memories/episodes/*/*/*.md")]
        if len(found) >= count:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{len(found)} of {count} episodes")


def test_before_compaction_what_is_new_is_recorded(root, transcript):
    assert hook(root, "pre-compact", transcript_path=transcript, trigger="auto")[0] is None
    assert '"evidence": "test"' in episodes(root, 1)[0]
    assert hook(root, "pre-compact", transcript_path=transcript)[0] is None
    with open(transcript, "ab") as handle:
        handle.write((REAL / "claude-code.jsonl").read_bytes().replace(b"calc.py", b"tool.py"))
    hook(root, "pre-compact", transcript_path=transcript)
    texts = episodes(root, 2)
    assert len(texts) == 2
    assert any("tool.py" in text and "calc.py" not in text for text in texts)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"\xff", b"null", b'{"prompt": "' + b"a" * 100_000, b'{"session_id": 7}']
)
@pytest.mark.parametrize("event", EVENTS)
def test_bad_input_is_no_hindrance(root, event, raw):
    hook(root, event, raw=raw)


def test_without_a_vault_nothing_is_printed(tmp_path):
    answer, noise = hook(tmp_path, "prompt", prompt="migrate the events table")
    assert answer is None
    assert "cyberos init" in noise


def test_an_event_that_there_is_not_is_told_and_harmless(root):
    assert "usage: cyberos hook" in hook(root, "tool-use")[1]


def test_settings_that_cannot_be_read_are_no_hindrance(root, failed):
    (root / "cyberos.toml").write_text("min_relevance = [", encoding="utf-8")
    answer, noise = hook(root, "prompt", prompt="migrate the events table")
    assert answer is None
    assert "cyberos.toml" in noise


def test_a_damaged_index_is_made_again(root, failed):
    hook(root, "prompt", prompt="migrate the events table")
    for file in (root / ".cyberos" / "index").rglob("*"):
        if file.is_file():
            file.write_bytes(b"garbage")
    assert failed in said(hook(root, "prompt", prompt="migrate the events table")[0])


def test_an_index_that_another_builds_is_not_waited_for(root, failed, monkeypatch):
    monkeypatch.delenv("CYBEROS_HOOK_WAIT")
    (root / ".cyberos" / "index").mkdir()
    with lock(str(root / ".cyberos" / "index" / "lock"), 10):
        begun = time.monotonic()
        hook(root, "prompt", prompt="migrate the events table")
        assert time.monotonic() - begun < 9  # the lock would be waited for longer


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else False, reason="root may write everywhere")
def test_a_vault_that_cannot_be_written_is_read(root, failed):
    for folder in (root / ".cyberos", root):
        folder.chmod(0o555)
    try:
        assert failed in said(hook(root, "prompt", prompt="migrate the events table")[0])
    finally:
        for folder in (root, root / ".cyberos"):
            folder.chmod(0o755)


def test_a_setting_of_the_session_lives_in_the_private_folder(root):
    hook(root, "session-start")
    assert len(list((root / ".cyberos" / "hooks").iterdir())) == 1
