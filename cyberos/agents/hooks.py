"""What the hooks of an agent say: at the start of a session, at a prompt, at the end of a turn, before compaction.

    -> {"session_id": "…", "transcript_path": "…", "hook_event_name": "UserPromptSubmit", "prompt": "Fix the login"}
    <- {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "Past events …"}}

A hook says something only where it has something to say, and never more than 9,000 characters: beyond 10,000 an agent
puts the whole aside and shows two kilobytes of it.

Source: DESIGN section 9; the hook references of each agent (docs/agents.md).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from cyberos.agents import sessions

if TYPE_CHECKING:
    from collections.abc import Callable

    from cyberos.core.files import Files

EVENTS = ("session-start", "prompt", "stop", "pre-compact")
_NAMES = {"session-start": "SessionStart", "prompt": "UserPromptSubmit", "stop": "Stop", "pre-compact": "PreCompact"}
MOST = 9_000  # characters

FAILED = 3  # episodes that a session is told of at its start
SIMILAR = 3
_WORDS = 2  # a prompt of fewer words that mean something ("yes, go on") is no task
_PROMPT = 4_000  # characters of a prompt that are searched for
_CONTEXT = re.compile(r"<hook_context>.*?</hook_context>", re.DOTALL)  # what a hook said before, in Gemini's prompt
_COMMAND = re.compile(r"/[\w:.-]+(\s|$)")  # of the agent's own, which is no task; a path is part of one

HOW_TO_LOG = """\
This repository keeps a memory of what was done in it. Before a task, `cyberos recall-similar "TASK"` says how similar
ones went. When a task ends, whatever its outcome, log it once: `cyberos episode log --task … --approach … --outcome
success|partial|failure --duration-ms N [--error …] [--evidence test --evidence-ref …] [--lesson …]` (or the tool
log_episode), then commit memories/ and audit/.
"""
REMINDER = (
    "Nothing was logged in this session. If a task has ended, log it now, whatever its outcome: `cyberos episode log "
    "--task … --approach … --outcome success|partial|failure --duration-ms N …` (or the tool log_episode). Ambiguous "
    "means partial; give evidence only for a check that ran. If no task has ended, just stop: you are not asked again."
)


class Memory(Protocol):
    """What a hook asks of the vault. Texts are framed for a model to read, and empty where there is nothing."""

    files: Files

    def failed(self, most: int) -> str:
        """Give the newest episodes that did not succeed."""

    def similar(self, task: str, most: int) -> str:
        """Give episodes like a task, above the cut-off."""

    def newest_us(self) -> int:
        """Give when the newest episode was logged, in microseconds since 1970; 0 for none."""

    def record(self, transcript: str, session: str) -> None:
        """Record a transcript, without waiting for it."""


def answer(event: str, agent: str, given: dict[str, Any], memory: Memory) -> dict[str, Any] | None:
    """Give what a hook prints, or None for nothing."""
    said = _BODIES[event](given, memory)
    if not said:
        return None
    if event == "stop":
        return {"followup_message": said} if agent == "cursor" else {"decision": "block", "reason": said}
    name = given.get("hook_event_name")
    context = {"hookEventName": name if isinstance(name, str) else _NAMES[event], "additionalContext": said}
    if agent == "cursor":
        return {"additional_context": said}
    beside = {"additionalContext": said} if agent == "copilot" else {}
    return beside | {"hookSpecificOutput": context}


def _session_start(given: dict[str, Any], memory: Memory) -> str:
    sessions.begin(memory.files, _session(given))
    failed = memory.failed(FAILED)
    if not failed:
        return HOW_TO_LOG
    whole = f"{HOW_TO_LOG}\nWhat did not succeed here lately:\n{failed}"
    return whole if len(whole) <= MOST else HOW_TO_LOG


def _prompt(given: dict[str, Any], memory: Memory) -> str:
    from cyberos.index.tokens import content, terms

    sessions.begin(memory.files, _session(given))
    asked = given.get("prompt")
    if not isinstance(asked, str) or _COMMAND.match(asked):
        return ""
    task = _CONTEXT.sub("", asked)[:_PROMPT]
    return memory.similar(task, SIMILAR) if len(content(terms(task))) >= _WORDS else ""


def _stop(given: dict[str, Any], memory: Memory) -> str:
    """Remind once in a session that has worked and logged nothing; an agent that was just reminded may stop."""
    name = _session(given)
    known = sessions.load(memory.files, name) or sessions.Session(0)
    is_again = bool(given.get("stop_hook_active") or given.get("loop_count"))
    if is_again or known.is_reminded or not _has_worked(given):
        return ""
    if known.began_us and memory.newest_us() >= known.began_us:
        return ""
    # where it cannot be kept that this was said, it is not said: else it would be said at every turn
    return REMINDER if sessions.save(memory.files, name, known._replace(is_reminded=True)) else ""


def _pre_compact(given: dict[str, Any], memory: Memory) -> str:
    transcript = given.get("transcript_path")
    if isinstance(transcript, str) and transcript:
        memory.record(transcript, _session(given))
    return ""


_BODIES: dict[str, Callable[[dict[str, Any], Memory], str]] = {
    "session-start": _session_start,
    "prompt": _prompt,
    "stop": _stop,
    "pre-compact": _pre_compact,
}


def _session(given: dict[str, Any]) -> str:
    for key in ("session_id", "conversation_id", "sessionId"):
        if isinstance(given.get(key), str):
            return str(given[key])
    return ""


_TOOLS = (b'"tool_use"', b'"function_call"', b'"custom_tool_call"', b'"local_shell_call"', b'"toolCalls"')
_READ = 4 << 20  # bytes at the end of a transcript that are looked at


def _has_worked(given: dict[str, Any]) -> bool:
    """Report whether the transcript shows that a tool was used; one that cannot be read shows nothing."""
    path = given.get("transcript_path")
    if not isinstance(path, str):
        return False
    try:
        with open(path, "rb") as handle:
            handle.seek(max(0, handle.seek(0, 2) - _READ))
            tail = handle.read(_READ)
    except (OSError, ValueError):
        return False
    return any(mark in tail for mark in _TOOLS)
