"""What `claude -p --output-format stream-json` prints: Claude Code's messages without times, and a last word.

    {"type":"system","subtype":"init","session_id":…}
    {"type":"assistant","message":{…},"parent_tool_use_id":null,"session_id":…}
    {"type":"result","subtype":"success","is_error":false,"duration_ms":9120,"usage":{…},"session_id":…}

The prompt is not among them, so the task has to be given. The usage of the result is that of the whole turn; without
a result (the stream was cut) it is that of the messages.

Source: Claude Code 2.1, `claude --help`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyberos.record import claude
from cyberos.record.draft import Draft
from cyberos.record.loose import integer, items, mapping, milliseconds, spoken, string
from cyberos.record.transcript import ASSISTANT, USER, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyberos.record.stream import Piece
    from cyberos.record.transcript import Run

NAME = "claude-stream"
_LIMITS = ("error_max_turns", "error_max_budget_usd", "error_max_structured_output_retries")


def matches(head: Sequence[Piece]) -> bool:
    """Report whether these are the first records of such a stream."""
    for _, value, _ in head:
        kind = value.get("type") if isinstance(value, dict) else None
        if kind in ("system", "result") and "subtype" in value and "session_id" in value:
            return True
        if kind in (USER, ASSISTANT) and "message" in value and "session_id" in value:
            return True
    return False


def read(pieces: Iterable[Piece]) -> list[Run]:
    """Read each session of the stream as a run."""
    drafts: dict[str, Draft] = {}
    messages: dict[str, list[tuple[str, Any]]] = {}
    current = ""
    for _, record, line in pieces:
        current = string(record.get("session_id")) or current
        draft = drafts.setdefault(current, Draft(current))
        at, kind, message = milliseconds(record.get("timestamp")), record.get("type"), mapping(record.get("message"))
        draft.tick(at)
        if kind == ASSISTANT:
            key = string(message.get("id")) or f"line {line}"
            messages.setdefault(current, []).append((key, message.get("usage")))
            claude.answer(draft, message.get("content"), at, line)
        elif kind == USER:
            _input(draft, record, message.get("content"), at, line)
        elif kind == "result":
            _end(draft, record, at, line)
    for session, draft in drafts.items():
        if not draft.is_metered:
            for key, usage in messages.get(session, []):
                draft.spend(key, usage, *claude.USAGE)
    return [draft.finish() for draft in drafts.values()]


def _input(draft: Draft, record: dict[str, Any], content: Any, at: int | None, line: int) -> None:
    for block in items(content):
        if mapping(block).get("type") == "tool_result":
            claude.result(draft, block, record.get("tool_use_result", record.get("toolUseResult")))
    is_own = record.get("parent_tool_use_id") or record.get("isSynthetic") or record.get("isMeta")
    if not is_own:
        claude.hear(draft, spoken(content), at, line)


def _end(draft: Draft, record: dict[str, Any], at: int | None, line: int) -> None:
    run, usage = draft.run, mapping(record.get("usage"))
    taken = integer(record.get("duration_ms"))
    if taken is not None and taken >= 0:
        run.stated_ms = (run.stated_ms or 0) + taken
    if usage:
        draft.spend(f"result {line}", usage, *claude.USAGE)
    kind, text = string(record.get("subtype")), string(record.get("result"))
    if kind in _LIMITS:
        draft.stop("limit", f"result {kind}", at, line)
    elif record.get("is_error") is True or kind.startswith("error"):
        draft.stop("failed", f"result {kind}: {text}".strip(": "), at, line)
    elif not any(isinstance(step, Turn) and step.role == ASSISTANT for step in run.steps[-1:]):
        draft.say(ASSISTANT, text, at, line)
