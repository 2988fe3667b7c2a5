"""opencode: what `opencode run --format json` prints, and what `opencode export` writes.

    {"type":"tool_use","timestamp":…,"sessionID":…,"part":{"type":"tool","tool":"bash","callID":"c1","state":{
     "status":"completed","input":{"command":"make test"},"output":…,"metadata":{"exit":0},"time":{"start":…,"end":…}}}}

    {"info":{"id":"ses_…"},"messages":[{"info":{"role":"user","time":{"created":…}},"parts":[{"type":"text",…}]}]}

The stream lacks the prompt; times are in milliseconds.

Source: opencode 1.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyberos.record import human, tools
from cyberos.record.draft import Draft
from cyberos.record.loose import count, items, mapping, milliseconds, string
from cyberos.record.transcript import ASSISTANT, USER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyberos.record.stream import Piece
    from cyberos.record.transcript import Run

NAME = "opencode"
_TYPES = ("step_start", "step_finish", "tool_use", "text", "error", "reasoning")


def matches(head: Sequence[Piece]) -> bool:
    """Report whether this is the beginning of a stream or an export."""
    for key, value, _ in head:
        found = mapping(value)
        if not key and found.get("type") in _TYPES and "sessionID" in found:
            return True
        if key in ("messages", "") and isinstance(found.get("parts"), list) and isinstance(found.get("info"), dict):
            return True
    return False


def read(pieces: Iterable[Piece]) -> list[Run]:
    """Read each session as a run."""
    drafts: dict[str, Draft] = {}
    name = ""
    for key, value, line in pieces:
        found = mapping(value)
        info = mapping(found.get("info"))
        if key not in ("", "messages"):
            continue
        name = string(found.get("sessionID")) or string(info.get("sessionID")) or name
        draft = drafts.setdefault(name, Draft(name))
        if "parts" in found:
            _message(draft, info, items(found["parts"]), line)
        else:
            _event(draft, found, line)
    return [draft.finish() for draft in drafts.values()]


def _event(draft: Draft, event: dict[str, Any], line: int) -> None:
    at, part = milliseconds(event.get("timestamp")), mapping(event.get("part"))
    draft.tick(at)
    if event.get("type") == "error":
        draft.stop("failed", _error(event.get("error")), at, line)
    else:
        _part(draft, part, ASSISTANT, at, line)


def _message(draft: Draft, info: dict[str, Any], parts: list[Any], line: int) -> None:
    times = mapping(info.get("time"))
    at = milliseconds(times.get("created"))
    role = USER if info.get("role") == "user" else ASSISTANT
    draft.tick(at, is_human=role == USER)
    draft.tick(milliseconds(times.get("completed")))
    for part in parts:
        _part(draft, mapping(part), role, at, line)
    if info.get("error"):
        is_aborted = "Aborted" in string(mapping(info["error"]).get("name"))
        draft.stop("interrupted" if is_aborted else "failed", _error(info["error"]), at, line)


def _error(error: Any) -> str:
    found = mapping(error)
    more = mapping(found.get("data"))
    status = f" {more['statusCode']}" if isinstance(more.get("statusCode"), int) else ""
    return f"{string(found.get('name')) or 'error'}{status}: {string(more.get('message')) or string(error)}"


def _part(draft: Draft, part: dict[str, Any], role: str, at: int | None, line: int) -> None:
    kind = string(part.get("type")).replace("_", "-")
    if kind == "text" and part.get("synthetic") is not True:
        text = string(part.get("text"))
        draft.say(role, human.typed(text.strip('"')) if role == USER else text, at, line)
    elif kind == "tool":
        _tool(draft, part, at, line)
    elif kind == "step-finish":
        tokens = mapping(part.get("tokens"))
        usage = {**tokens, "cached": count(mapping(tokens.get("cache")).get("write"))}
        draft.spend(string(part.get("id")) or f"line {line}", usage, "input", "output", "reasoning", "cached")


def _tool(draft: Draft, part: dict[str, Any], at: int | None, line: int) -> None:
    state, key = mapping(part.get("state")), string(part.get("callID")) or string(part.get("id"))
    times, more = mapping(state.get("time")), mapping(state.get("metadata"))
    began = milliseconds(times.get("start"))
    draft.tick(began)
    draft.tick(milliseconds(times.get("end")))
    draft.call(key, string(part.get("tool")), state.get("input"), began if began is not None else at, line)
    output = string(state.get("output")) or string(state.get("error"))
    if state.get("status") == "completed":
        code = more.get("exit", more.get("exitCode"))
        is_cut = "terminated command after exceeding timeout" in output[-400:]
        draft.result(key, tools.result(output, exit_code=code, is_cut=is_cut))
    elif state.get("status") == "error":
        draft.result(key, tools.result(output, exit_code=more.get("exit"), is_error=True))
