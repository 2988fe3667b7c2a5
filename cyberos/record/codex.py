"""Codex rollouts: `~/.codex/sessions/<yyyy>/<mm>/<dd>/rollout-<time>-<id>.jsonl`.

    {"timestamp":…,"type":"session_meta","payload":{"id":…,"cwd":…}}
    {"timestamp":…,"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{…}",
     "call_id":"c1"}}
    {"timestamp":…,"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"…"}}
    {"timestamp":…,"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{…}}}}

What is said stands there twice, as an item and as an event. Arguments are JSON in a string, and so are old outputs:
`{"output":…,"metadata":{"exit_code":2}}`; new ones say `Process exited with code 2`. Token counters only go up, but
begin anew when a session is resumed. The oldest files have the items without an envelope.

Source: rollouts of versions 0.40 to 0.171; codex-rs, protocol.rs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cyberos.record import human, tools
from cyberos.record.draft import Draft
from cyberos.record.loose import count, integer, items, mapping, milliseconds, spoken, string
from cyberos.record.transcript import ASSISTANT, USER, Command, Edit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyberos.record.stream import Piece
    from cyberos.record.transcript import Run

NAME = "codex"
_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_GOES_ON = re.compile(r"^Process running with session ID (\d+)$", re.MULTILINE)
_TAKES = ("write_stdin",)  # tools that talk to a command that still runs


def matches(head: Sequence[Piece]) -> bool:
    """Report whether these are the first records of a rollout."""
    values = [value for _, value, _ in head if isinstance(value, dict)]
    if any(value.get("type") in _TYPES and isinstance(value.get("payload"), dict) for value in values):
        return True
    return any({"id", "timestamp", "instructions"} <= value.keys() for value in values)


def read(pieces: Iterable[Piece]) -> list[Run]:
    """Read each session of the file as a run; what a fork copied from its parent belongs to the fork."""
    sessions = [_Session("")]
    for _, record, line in pieces:
        kind, payload = string(record.get("type")), mapping(record.get("payload"))
        at = milliseconds(record.get("timestamp"))
        if kind == "session_meta" and sessions[-1].draft.run.steps and string(payload.get("id")) != sessions[-1].name:
            sessions.append(_Session(""))
        session = sessions[-1]
        if kind == "session_meta":
            session.name = session.name or string(payload.get("id"))
            session.draft.run.session = session.name
        session.draft.tick(at)
        if kind == "response_item":
            session.item(payload, at, line)
        elif kind == "event_msg":
            session.event(payload, at, line)
        elif not payload and kind:
            session.item(record, at, line)
    return [session.draft.finish() for session in sessions]


class _Session:
    def __init__(self, name: str) -> None:
        self.name = name
        self.draft = Draft(name)
        self._going: dict[str, str] = {}  # the number of a command that still runs -> the call that began it
        self._talks: dict[str, str] = {}  # a call that talks to it -> the call that began it

    def item(self, item: dict[str, Any], at: int | None, line: int) -> None:
        kind, key = string(item.get("type")), string(item.get("call_id")) or string(item.get("id"))
        if kind == "message" and item.get("role") == USER:
            self.draft.say(USER, human.typed(spoken(item.get("content"))), at, line)
        elif kind == "message" and item.get("role") == ASSISTANT:
            self.draft.say(ASSISTANT, spoken(item.get("content")), at, line)
        elif kind == "function_call":
            name, given = string(item.get("name")), item.get("arguments")
            if name in _TAKES:
                number = re.search(r'"session_id"\s*:\s*"?(\d+)', string(given))
                self._talks[key] = self._going.get(number.group(1), "") if number else ""
            else:
                self.draft.call(key, name, given, at, line)
        elif kind == "custom_tool_call":
            self.draft.call(key, string(item.get("name")), item.get("input"), at, line)
        elif kind == "local_shell_call":
            self.draft.call(key, "shell", mapping(item.get("action")), at, line)
        elif kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
            self._output(self._talks.get(key, key), item.get("output"))

    def _output(self, key: str, output: Any) -> None:
        content = mapping(output)  # {"content": …, "success": …}, or a list of blocks, or the text
        text = string(output) or spoken(output) or spoken(content.get("content"))
        step = self.draft.called(key)
        if isinstance(step, Command) and step.exit_code is not None:
            return  # the event has said it already, in a field of its own
        going = _GOES_ON.search(text[:400])
        if going is not None:
            self._going[going.group(1)] = key
            return
        if isinstance(step, Edit):
            code = tools.result(text).exit_code
            is_lost = content.get("success") is False or bool(code) or "verification failed" in text[:400]
            self.draft.result(key, tools.Result(code, text, "failed" if is_lost else "done"))
            return
        self.draft.result(key, tools.result(text, is_error=None if content.get("success") is None else False))

    def event(self, event: dict[str, Any], at: int | None, line: int) -> None:
        kind = string(event.get("type"))
        if kind == "user_message":
            self.draft.say(USER, human.typed(string(event.get("message"))), at, line)
        elif kind == "agent_message":
            self.draft.say(ASSISTANT, string(event.get("message")), at, line)
        elif kind == "exec_command_end":
            self._ended(string(event.get("call_id")), event)
        elif kind == "patch_apply_end" and event.get("success") is False:
            self.draft.result(string(event.get("call_id")), tools.Result(None, "", "failed"))
        elif kind == "item_completed":
            self._completed(mapping(event.get("item")), at, line)
        elif kind == "token_count":
            self._meter(mapping(mapping(event.get("info")).get("total_token_usage")))
        elif kind == "turn_aborted":
            self.draft.stop("interrupted", f"turn aborted: {string(event.get('reason')) or 'no reason'}", at, line)
        elif kind == "error":
            self.draft.stop("failed", f"error: {string(event.get('message'))}", at, line)

    def _completed(self, item: dict[str, Any], at: int | None, line: int) -> None:
        if item.get("type") == "CommandExecution":
            self._ended(string(item.get("id")), item)
        elif item.get("type") == "FileChange" and item.get("status") == "completed":
            key = string(item.get("id"))
            if self.draft.called(key) is None:
                for path in patched(item.get("changes"))[:100]:
                    self.draft.add(Edit(path[:300], at, line), key)

    def _ended(self, key: str, event: dict[str, Any]) -> None:
        output = string(event.get("aggregated_output")) or string(event.get("stdout")) + string(event.get("stderr"))
        if integer(event.get("exit_code")) is not None:
            self.draft.result(key, tools.result(output, exit_code=event["exit_code"]))
        elif event.get("status") == "declined":
            self.draft.result(key, tools.Result(None, output, "refused"))

    def _meter(self, usage: dict[str, Any]) -> None:
        if usage:
            fresh = max(count(usage.get("input_tokens")) - count(usage.get("cached_input_tokens")), 0)
            self.draft.meter(fresh + count(usage.get("output_tokens")))


def patched(changes: Any) -> list[str]:
    """Give the paths of a change to files: a list of `{path, kind}`, or an object with the paths as keys."""
    if isinstance(changes, dict):
        return [path for path in changes if path]
    return [path for path in (string(mapping(change).get("path")) for change in items(changes)) if path]
