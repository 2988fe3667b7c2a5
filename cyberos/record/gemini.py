"""Gemini CLI chats: `~/.gemini/tmp/<project>/chats/session-*`, one JSON document, or (since 2026) JSON lines.

    {"sessionId":…,"projectHash":…,"startTime":…,"messages":[
      {"id":…,"timestamp":…,"type":"user","content":"Fix it"},
      {"type":"gemini","content":"Done.","toolCalls":[{"name":"run_shell_command","args":{"command":"make test"},
       "status":"success","result":[{"functionResponse":{"response":{"output":"…\\nExit Code: 1\\nProcess…"}}}]}],
       "tokens":{"input":1000,"cached":800,"output":40,"thoughts":5,"tool":0,"total":1045}}]}

In lines the header stands alone, a message is written again as it grows, and `{"$set":{…}}` amends the header. A
shell command says its exit code in the last lines of its output, since 2026 only when it is not 0.

Source: chats of versions 0.1 to 0.61.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.record import human, tools
from cyberos.record.draft import Draft
from cyberos.record.loose import count, items, mapping, milliseconds, spoken, string
from cyberos.record.transcript import ASSISTANT, USER, clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyberos.record.stream import Piece
    from cyberos.record.transcript import Run

NAME = "gemini"
_TAIL = re.compile(r"(?:^(?:Exit Code|Signal|Error|Background PIDs|Process Group PGID): .*\n?)+\Z", re.MULTILINE)
_CODE = re.compile(r"^Exit Code: (-?\d{1,6})$", re.MULTILINE)
_SIGNAL = re.compile(r"^Signal: (?!\(none\)|null|0$)", re.MULTILINE)


def matches(head: Sequence[Piece]) -> bool:
    """Report whether this is the beginning of a chat."""
    keys = {key for key, _, _ in head}
    if "projectHash" in keys or ("sessionId" in keys and "messages" in keys):
        return True
    return any(
        isinstance(value, dict) and ("projectHash" in value or (value.get("type") == "gemini" and "id" in value))
        for _, value, _ in head
    )


def read(pieces: Iterable[Piece]) -> list[Run]:
    """Read a chat as one run; lines of another session begin another."""
    drafts = [Draft()]
    latest: list[dict[str, _Message]] = [{}]
    for key, value, line in pieces:
        header = {key: value} if key else mapping(value)
        name = string(header.get("sessionId"))
        if name and drafts[-1].run.session not in ("", name):
            drafts.append(Draft())
            latest.append({})
        drafts[-1].run.session = name or drafts[-1].run.session
        record = mapping(value)
        messages = [record] if key in ("", "messages") else []
        messages += items(mapping(record.get("$set")).get("messages")) if not key else []
        for each in messages:
            message = mapping(each)
            if message.get("type") in ("user", "gemini", "error"):
                identity = string(message.get("id")) or f"line {line}"
                first = latest[-1][identity].line if identity in latest[-1] else line
                latest[-1][identity] = _message(message, first)
    for draft, found in zip(drafts, latest, strict=True):
        for identity, last in found.items():
            _take(draft, identity, last)
    return [draft.finish() for draft in drafts]


class _Message(NamedTuple):
    """What is kept of a message until its last version is known."""

    line: int
    kind: str
    text: str
    at_ms: int | None
    tokens: dict[str, Any]
    calls: list[tuple[str, dict[str, Any], int | None, tools.Result]]


def _message(message: dict[str, Any], line: int) -> _Message:
    calls = []
    for call in map(mapping, items(message.get("toolCalls"))):
        given = {
            name: clip(value) if isinstance(value, str) else value for name, value in mapping(call.get("args")).items()
        }
        result = _result(call)
        calls.append(
            (
                string(call.get("name")),
                given,
                milliseconds(call.get("timestamp")),
                result._replace(output=clip(result.output)),
            )
        )
    text = clip(spoken(message.get("content")))
    at = milliseconds(message.get("timestamp"))
    return _Message(line, message["type"], text, at, mapping(message.get("tokens")), calls)


def _take(draft: Draft, identity: str, message: _Message) -> None:
    draft.tick(message.at_ms)
    if message.kind == "user":
        draft.say(USER, human.typed(message.text), message.at_ms, message.line)
        return
    if message.kind == "error":
        draft.stop("failed", message.text, message.at_ms, message.line)
        return
    draft.say(ASSISTANT, message.text, message.at_ms, message.line)
    for number, (name, given, at, result) in enumerate(message.calls):
        key = f"{identity} {number}"
        draft.call(key, name, given, message.at_ms, message.line)
        draft.tick(at)
        draft.result(key, result)
    if message.tokens:
        fresh = max(count(message.tokens.get("input")) - count(message.tokens.get("cached")), 0)
        draft.spend(identity, {**message.tokens, "fresh": fresh}, "fresh", "output", "thoughts", "tool")


def _result(call: dict[str, Any]) -> tools.Result:
    response = mapping(
        mapping(mapping(next(iter(items(call.get("result"))), None)).get("functionResponse")).get("response")
    )
    output = string(response.get("output")) or string(response.get("error"))
    output = output.strip().removeprefix("<untrusted_context>").removesuffix("</untrusted_context>").strip()
    if call.get("status") not in ("success", "error"):
        return tools.Result(None, output, "refused" if call.get("status") == "cancelled" else "running")
    tail = _TAIL.search(output)
    ends = tail.group() if tail else ""
    codes = _CODE.findall(ends)
    if _SIGNAL.search(ends) or "Command was cancelled" in output[:200] or "timed out" in output[:200]:
        return tools.Result(None, output, "interrupted")
    if codes:
        return tools.Result(int(codes[-1]), output, "done")
    if call.get("status") == "error":
        return tools.Result(None, output, "failed")
    # a shell command that went well; other tools have no such last lines and no exit code
    is_quiet = "Process Group PGID:" in ends and "Background PIDs:" not in ends and "Error:" not in ends
    return tools.Result(0 if is_quiet else None, output, "done")
