"""What `codex exec --json` prints: items as they begin and end, without times and without the prompt.

    {"type":"thread.started","thread_id":…}
    {"type":"item.completed","item":{"id":"item_2","type":"command_execution","command":"/bin/bash -lc 'pytest -q'",
     "aggregated_output":…,"exit_code":1,"status":"failed"}}
    {"type":"turn.completed","usage":{"input_tokens":5000,"cached_input_tokens":4000,"output_tokens":200}}

Source: Codex 0.171, `codex exec --help`; codex-rs, exec_events.rs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyberos.record import tools
from cyberos.record.codex import patched
from cyberos.record.draft import Draft
from cyberos.record.loose import count, integer, mapping, milliseconds, string
from cyberos.record.transcript import ASSISTANT, USER, Command, Edit, clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyberos.record.stream import Piece
    from cyberos.record.transcript import Run

NAME = "codex-exec"
_TYPES = {"thread.started", "turn.started", "turn.completed", "turn.failed"}
_TYPES |= {"item.started", "item.updated", "item.completed"}


def matches(head: Sequence[Piece]) -> bool:
    """Report whether these are the first events of such a stream."""
    return any(string(mapping(value).get("type")) in _TYPES for _, value, _ in head)


def read(pieces: Iterable[Piece]) -> list[Run]:
    """Read each thread of the stream as a run."""
    drafts = [Draft()]
    for _, event, line in pieces:
        kind, at = string(event.get("type")), milliseconds(event.get("timestamp"))
        if kind == "thread.started":
            name = string(event.get("thread_id"))
            if drafts[-1].run.steps and name != drafts[-1].run.session:
                drafts.append(Draft())
            drafts[-1].run.session = name
        draft = drafts[-1]
        draft.tick(at)
        if kind.startswith("item."):
            _item(draft, mapping(event.get("item")), at, line, is_over=kind == "item.completed")
        elif kind == "turn.completed":
            usage = mapping(event.get("usage"))
            fresh = max(count(usage.get("input_tokens")) - count(usage.get("cached_input_tokens")), 0)
            draft.meter(fresh + count(usage.get("output_tokens")))
        elif kind in ("turn.failed", "error"):
            error = event.get("error")
            text = string(mapping(error).get("message")) or string(error) or string(event.get("message"))
            draft.stop("failed", f"{kind}: {text}", at, line)
    return [draft.finish() for draft in drafts]


def _item(draft: Draft, item: dict[str, Any], at: int | None, line: int, *, is_over: bool) -> None:
    kind, key = string(item.get("type")) or string(item.get("item_type")), string(item.get("id"))
    if kind in ("agent_message", "assistant_message") and is_over:
        draft.say(ASSISTANT, string(item.get("text")), at, line)
    elif kind == "user_message" and is_over:
        draft.say(USER, string(item.get("text")), at, line)
    elif kind == "command_execution":
        _command(draft, item, key, at, line)
    elif kind == "file_change" and is_over and item.get("status") != "failed":
        for path in patched(item.get("changes"))[:100]:
            draft.add(Edit(clip(path, 300), at, line))
    elif kind == "mcp_tool_call" and is_over and not item.get("error"):
        for step in tools.steps(string(item.get("tool")), item.get("arguments"), at, line):
            draft.add(step)


def _command(draft: Draft, item: dict[str, Any], key: str, at: int | None, line: int) -> None:
    known = draft.called(key)
    if not isinstance(known, Command) or known.state != "running":  # ids begin anew in a stream that was appended to
        draft.add(Command(clip(tools.bare(string(item.get("command")).strip())), at_ms=at, line=line), key)
    output, status = string(item.get("aggregated_output")), item.get("status")
    if integer(item.get("exit_code")) is not None:
        draft.result(key, tools.result(output, exit_code=item["exit_code"]))
    elif status in ("failed", "declined"):
        draft.result(key, tools.Result(None, output, "refused" if status == "declined" else "failed"))
