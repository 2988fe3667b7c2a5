"""`cyberos hook` as an agent calls it: a process with JSON on stdin, JSON or nothing on stdout, exit code 0 always."""

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

from cyberos.agents import sessions
from cyberos.agents.clients import CLIENTS, plugin
from cyberos.agents.hooks import EVENTS, HOW_TO_LOG, MOST, REMINDER
from cyberos.core.episode import log
from cyberos.core.files import Files
from cyberos.core.lock import lock
from cyberos.index import sync
from support import episode, files

TASK = "fix the flaky login test"
LESSON = "freeze the clock in the fixture"
PROMPTS = {"cursor": "beforeSubmitPrompt", "gemini": "BeforeAgent"}
WORK = '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}]}}\n'
PATIENCE_S = 60  # nothing is timed: only what hangs is found


def hook(root: Path, *arguments: str, code: int = 0, **given: Any) -> subprocess.CompletedProcess[bytes]:
    return raw(root, json.dumps({"cwd": str(root), "session_id": "s1"} | given).encode(), *arguments)


def raw(root: Path, stdin: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "cyberos", "hook", *arguments]
    done = subprocess.run(command, cwd=root, input=stdin, capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done


def said(done: subprocess.CompletedProcess[bytes]) -> Any:
    """Give the one JSON document on stdout, or None; a hook complains of nothing here."""
    assert done.stderr == b""
    return json.loads(done.stdout) if done.stdout else None


def context(done: subprocess.CompletedProcess[bytes]) -> str:
    found = said(done)
    return found["hookSpecificOutput"]["additionalContext"] if found else ""


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Let no answer depend on how busy the machine is."""
    monkeypatch.setenv("CYBEROS_HOOK_SECONDS", str(PATIENCE_S / 2))


@pytest.fixture
def experienced(tmp_memory) -> Path:
    """Give a vault with a success and a failure, and an index that is up to date."""
    log(tmp_memory, episode(TASK, lesson=LESSON))
    log(tmp_memory, episode("migrate the billing schema", outcome="failure", error="the lock timed out"))
    subprocess.run(
        [sys.executable, "-m", "cyberos", "index", "--backend", "fts5"],
        cwd=tmp_memory.path,
        check=True,
        capture_output=True,
    )
    return tmp_memory.path


@pytest.fixture
def transcript(tmp_path) -> Path:
    file = tmp_path / "session.jsonl"
    file.write_text(WORK)
    return file


# --- what is said ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", CLIENTS)
def test_a_session_begins_with_what_failed_and_how_to_log(experienced, agent):
    found = said(hook(experienced, "session-start", "--agent", agent, hook_event_name="SessionStart"))
    text = found["additional_context"] if agent == "cursor" else found["hookSpecificOutput"]["additionalContext"]
    assert text.startswith(HOW_TO_LOG)
    assert "migrate the billing schema" in text
    assert TASK not in text
    shape = {"cursor": {"additional_context"}, "copilot": {"additionalContext", "hookSpecificOutput"}}
    assert found.keys() == shape.get(agent, {"hookSpecificOutput"})


@pytest.mark.parametrize("agent", CLIENTS)
def test_a_prompt_recalls_what_is_like_it(experienced, agent):
    name = PROMPTS.get(agent, "UserPromptSubmit")
    done = hook(
        experienced, "prompt", f"--agent={agent}", hook_event_name=name, prompt="The login test is flaky, fix it"
    )
    found = said(done)
    assert LESSON in done.stdout.decode()
    if agent != "cursor":
        assert found["hookSpecificOutput"]["hookEventName"] == name


@pytest.mark.parametrize("agent", CLIENTS)
def test_the_stop_reminds_once_in_the_form_of_its_agent(experienced, transcript, agent):
    ask = {"hook_event_name": "Stop", "transcript_path": str(transcript)}
    found = said(hook(experienced, "stop", "--agent", agent, **ask))
    form = {"followup_message": REMINDER} if agent == "cursor" else {"decision": "block", "reason": REMINDER}
    assert found == form
    assert said(hook(experienced, "stop", "--agent", agent, **ask)) is None


def test_a_vault_without_failures_says_how_to_log_and_no_more(root):
    assert context(hook(root, "session-start")) == HOW_TO_LOG


@pytest.mark.parametrize("prompt", ["bake a chocolate cake", "yes, go on", "", "/compact", "/model opus", None, 7])
def test_a_prompt_without_a_like_gets_nothing(experienced, prompt):
    assert said(hook(experienced, "prompt", prompt=prompt)) is None


def test_a_path_at_the_head_of_a_prompt_is_no_command(experienced):
    assert LESSON in context(hook(experienced, "prompt", prompt="/src/login_test.py: fix the flaky login test"))


def test_what_a_hook_said_before_is_no_part_of_the_prompt(experienced):
    before = f"<hook_context>{HOW_TO_LOG * 3}</hook_context>\n"
    assert LESSON in context(hook(experienced, "prompt", prompt=f"{before}Fix the flaky login test"))


def test_huge_episodes_stay_below_what_an_agent_takes(tmp_memory):
    root, words = tmp_memory.path, "the clock of the login test is frozen in the fixture "
    huge = {"approach": words * 300, "lesson": words * 300, "notes": words * 300}
    with tmp_memory.transaction():
        for number in range(8):
            made = episode(f"{words * 8} {number}", outcome="failure", error=words * 200, **huge)
            log(tmp_memory, made)
    for event in ("session-start", "prompt"):
        text = context(hook(root, event, prompt=words * 500))
        assert 1_000 < len(text) <= MOST


# --- the reminder ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{"stop_hook_active": True}, {"loop_count": 1}, {"transcript_path": "/nowhere"}, {"transcript_path": 5}])  # fmt: skip
def test_no_reminder_for_a_reminded_agent_or_one_that_shows_no_work(experienced, transcript, more):
    assert said(hook(experienced, "stop", **({"transcript_path": str(transcript)} | more))) is None


def test_no_reminder_after_words_alone(experienced, transcript):
    transcript.write_text('{"type":"assistant","message":{"content":[{"type":"text","text":"Hello"}]}}\n')
    assert said(hook(experienced, "stop", transcript_path=str(transcript))) is None


def test_no_reminder_once_something_was_logged_in_the_session(experienced, tmp_memory, transcript):
    hook(experienced, "session-start")
    hook(experienced, "session-start", session_id="s2")
    assert said(hook(experienced, "stop", transcript_path=str(transcript), session_id="s2"))["reason"] == REMINDER
    log(tmp_memory, episode("ship it", occurred_at="2020-01-01T00:00:00Z"))
    assert said(hook(experienced, "stop", transcript_path=str(transcript))) is None
    time.sleep(0.01)
    hook(experienced, "prompt", session_id="s3", prompt="yes")
    assert said(hook(experienced, "stop", transcript_path=str(transcript), session_id="s3"))["reason"] == REMINDER


def test_sessions_that_nobody_comes_back_to_are_forgotten(experienced):
    hook(experienced, "session-start", session_id="old")
    (old,) = (experienced / sessions.FOLDER).iterdir()
    os.utime(old, (0, 0))
    hook(experienced, "session-start", session_id="new")
    assert old not in (experienced / sessions.FOLDER).iterdir()


# --- compaction -----------------------------------------------------------------------------------------------------


def turns(number: int, *, task: str | None = None) -> str:
    """Give the records of a little work, begun by a user or going on."""
    shared = {"sessionId": "s1", "timestamp": f"2026-11-30T10:0{number}:00.000Z"}
    asked = (
        [shared | {"type": "user", "uuid": f"u{number}", "message": {"role": "user", "content": task}}] if task else []
    )
    texts = [
        shared | {"type": "assistant", "uuid": f"a{number}{part}", "message": {"id": f"m{number}{part}", "content": [{"type": "text", "text": f"Step {number}{part}"}]}}
        for part in "xy"
    ]  # fmt: skip
    return "".join(json.dumps(record) + "\n" for record in (*asked, *texts))


def recorded(root: Path, count: int) -> list[dict[str, Any]]:
    """Wait for the process that records, and give the fields of each episode in the order of their times."""
    until = time.monotonic() + PATIENCE_S
    while len(files(root)) < count and time.monotonic() < until:
        time.sleep(0.05)
    texts = [(root / path).read_text(encoding="utf-8") for path in files(root)]
    return sorted((json.loads(text.split("---")[1]) for text in texts), key=lambda values: values["occurred_at"])


def settled(root: Path, transcript: Path) -> int:
    """Give how much of the transcript is known to be recorded."""
    known = sessions.load(Files(root), "s1")
    assert known is not None
    assert known.recorded == transcript.stat().st_size
    return known.recorded


def test_each_new_part_of_a_transcript_is_recorded_once(root, transcript):
    transcript.write_text(turns(1, task="Fix the login"))
    ask = {"transcript_path": str(transcript), "trigger": "auto"}
    assert said(hook(root, "pre-compact", **ask)) is None
    (first,) = recorded(root, 1)
    hook(root, "pre-compact", **ask)
    settled(root, transcript)
    with transcript.open("a") as handle:
        handle.write(turns(2, task="Now write the docs"))
    hook(root, "pre-compact", **ask)
    again, second = recorded(root, 2)
    assert again == first
    assert (first["task"], second["task"]) == ("Fix the login", "Now write the docs")
    assert str(transcript) in second["transcript_ref"]
    with transcript.open("a") as handle:
        handle.write(turns(3))
    hook(root, "pre-compact", **ask)
    assert [values["task"] for values in recorded(root, 3)] == [
        "Fix the login",
        "Now write the docs",
        "Now write the docs",
    ]
    settled(root, transcript)


def test_a_part_of_fewer_than_two_turns_makes_no_episode(root, transcript):
    transcript.write_text(turns(1, task="Fix the login"))
    hook(root, "pre-compact", transcript_path=str(transcript))
    recorded(root, 1)
    before = transcript.stat().st_size
    with transcript.open("a") as handle:
        handle.write(turns(2).splitlines(keepends=True)[0])
    command = [sys.executable, "-m", "cyberos", "episode", "record", str(transcript), "--no-llm", "--skip-bytes", str(before)]  # fmt: skip
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 1
    assert "fewer than two turns" in done.stderr
    assert len(files(root)) == 1


@pytest.mark.parametrize("path", ["", "/nowhere/x.jsonl", None, "a\0b"])
def test_a_transcript_that_is_not_there_is_no_matter(root, path):
    assert hook(root, "pre-compact", transcript_path=path).stdout == b""


# --- whatever happens -----------------------------------------------------------------------------------------------


def no_vault(root: Path) -> None:
    shutil.rmtree(root / "audit")


def broken_ledger(root: Path) -> None:
    for file in root.glob("audit/*/*/*.jsonl"):
        file.write_bytes(b"\xff{broken\n")


def damaged_index(root: Path) -> None:
    for file in (root / ".cyberos" / "index").rglob("*"):
        if file.is_file():
            file.write_bytes(b"damaged" * 500)


def broken_settings(root: Path) -> None:
    (root / "cyberos.toml").write_text("min_relevance = 'much'")


def folder_for_an_index(root: Path) -> None:
    shutil.rmtree(root / ".cyberos")
    (root / ".cyberos").write_text("a file")


BREAKS = (no_vault, broken_ledger, damaged_index, broken_settings, folder_for_an_index)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
def test_whatever_is_broken_the_agent_goes_on(experienced, transcript, broken, event):
    broken(experienced)
    done = hook(experienced, event, prompt=TASK, transcript_path=str(transcript))
    assert len(done.stdout) <= MOST + 200
    if done.stdout:
        json.loads(done.stdout)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("stdin", [b"", b"no json", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"cwd": 3, "prompt": [], "session_id": {}}'])  # fmt: skip
def test_input_that_is_none_is_as_no_input(experienced, event, stdin):
    done = raw(experienced, stdin, event)
    assert bool(done.stdout) is (event == "session-start")


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["--agent"], ["--agent", "codex"], ["session-start", "--agent", "nobody"]])  # fmt: skip
def test_unknown_words_are_told_and_harm_nothing(experienced, arguments):
    done = raw(experienced, b"{}", *arguments)
    assert b"usage:" in done.stderr or "session-start" in arguments


@pytest.mark.parametrize("event", [*EVENTS, "nonsense"])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "| true", ">/dev/full"])
def test_closed_and_broken_streams(experienced, event, closed):
    line = f"'{sys.executable}' -m cyberos hook {event} {closed}"
    script = f"set -o pipefail; sleep 0 | {line}" if closed == "| true" else line
    done = subprocess.run(["bash", "-c", script], cwd=experienced, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)  # fmt: skip
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def test_an_input_that_does_not_end_is_not_waited_for(experienced, monkeypatch):
    monkeypatch.delenv("CYBEROS_HOOK_SECONDS")
    process = subprocess.Popen([sys.executable, "-m", "cyberos", "hook", "prompt"], cwd=experienced, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert process.wait(PATIENCE_S) == 0
    assert process.stdout.read() == b""
    process.stdin.close()
    process.stdout.close()


@pytest.mark.parametrize(
    ("event", "seconds"), [*((event, None) for event in EVENTS), ("prompt", "0"), ("prompt", "soon")]
)
def test_a_locked_index_is_not_waited_for(experienced, tmp_memory, transcript, event, seconds, monkeypatch):
    log(tmp_memory, episode("something new, so that the index is to be written"))
    monkeypatch.delenv("CYBEROS_HOOK_SECONDS")
    if seconds is not None:
        monkeypatch.setenv("CYBEROS_HOOK_SECONDS", seconds)
    with lock(str(experienced / sync.LOCK), 1):
        hook(experienced, event, prompt=TASK, transcript_path=str(transcript))


def test_a_locked_index_answers_what_it_holds_to_whoever_waits(experienced, tmp_memory):
    log(tmp_memory, episode("something new, so that the index is to be written"))
    with lock(str(experienced / sync.LOCK), 1):
        assert LESSON in hook(experienced, "prompt", prompt=TASK).stdout.decode()


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="no read-only mount can be made here")
@pytest.mark.parametrize("event", EVENTS)
def test_a_vault_that_cannot_be_written(experienced, transcript, event):
    given = json.dumps({"cwd": str(experienced), "session_id": "s", "prompt": TASK, "transcript_path": str(transcript)})
    script = f"mount --bind {experienced} {experienced} && mount -o remount,ro,bind {experienced} && cd {experienced} && '{sys.executable}' -m cyberos hook {event}"
    done = subprocess.run(["unshare", "-m", "bash", "-c", script], input=given.encode(), capture_output=True, timeout=PATIENCE_S)  # fmt: skip
    assert done.returncode == 0, done.stderr
    # without a place to note that it reminded, it would remind at each turn: so it does not
    assert bool(done.stdout) is (event in ("session-start", "prompt"))


# --- where it is asked ----------------------------------------------------------------------------------------------


def test_an_agent_may_stand_below_the_vault(experienced):
    below = experienced / "src" / "deep"
    below.mkdir(parents=True)
    assert LESSON in context(hook(experienced, "prompt", prompt=TASK, cwd=str(below)))


def test_a_vault_named_from_the_top_is_found_from_below(experienced):
    below = experienced.parent / "src" / "deep"
    below.mkdir(parents=True)
    command = [sys.executable, "-m", "cyberos", "--store", experienced.name, "hook", "prompt"]
    given = json.dumps({"session_id": "s", "prompt": TASK}).encode()
    for cwd in (below, experienced.parent):
        done = subprocess.run(command, cwd=cwd, input=given, capture_output=True, timeout=PATIENCE_S)
        assert LESSON in context(done)


@pytest.mark.parametrize("event", EVENTS[:2])
def test_the_plugin_is_silent_where_the_repository_has_the_hooks(experienced, event):
    made = json.loads(plugin("0")["plugins/cyberos/hooks/hooks.json"])["hooks"]
    commands = [group["hooks"][0]["command"] for (group,) in made.values()]
    (mine,) = [command for command in commands if f" {event} " in command]
    arguments = mine.removeprefix("cyberos hook ").split()
    assert TASK.split()[2] in context(hook(experienced, *arguments, prompt=TASK)) or event == "session-start"
    init = [sys.executable, "-m", "cyberos", "init", "--agent", "claude-code"]
    subprocess.run(init, cwd=experienced, check=True, capture_output=True)
    assert said(hook(experienced, *arguments, prompt=TASK)) is None
    assert context(hook(experienced, *[word for word in arguments if word != "--plugin"], prompt=TASK))
