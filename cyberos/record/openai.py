"""Plain lists of OpenAI chat messages: one array, `{"messages": […]}`, one message a line, or one such list a line.

    [{"role":"system","content":"You are …"},
     {"role":"user","content":"Fix it"},
     {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
      "function":{"name":"bash","arguments":"{\\"command\\":\\"make test\\"}"}}]},
     {"role":"tool","tool_call_id":"c1","content":"Exit code: 0\\n…"}]

Content may be a list of blocks, Anthropic's too. There are no times, and an exit code only where the tool writes one.

Source: OpenAI's chat completions reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyberos.record import claude, tools
from cyberos.record.draft import Draft
from cyberos.record.loose import count, items, mapping, milliseconds, spoken, string

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyberos.record.stream import Piece
    from cyberos.record.transcript import Run

NAME = "openai"
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_LEGACY = "function"


def matches(head: Sequence[Piece]) -> bool:
    """Report whether these are messages."""
    for key, value, _ in head:
        found = mapping(value)
        if key in ("", "messages") and found.get("role") in _ROLES and ("content" in found or "tool_calls" in found):
            return True
        if not key and any(mapping(each).get("role") in _ROLES for each in items(found.get("messages"))[:3]):
            return True
    return False


def read(pieces: Iterable[Piece]) -> list[Run]:
    """Read all messages as one run; a line that is a whole list is a run of its own."""
    drafts: list[Draft] = []
    is_open = False
    for key, value, line in pieces:
        found = mapping(value)
        if not key and isinstance(found.get("messages"), list):
            drafts.append(Draft(string(found.get("id"))))
            is_open = False
            for each in found["messages"]:
                message(drafts[-1], mapping(each), line)
        elif key in ("", "messages"):
            if not is_open:
                drafts.append(Draft())
                is_open = True
            message(drafts[-1], found, line)
    return [draft.finish() for draft in drafts]


def message(draft: Draft, found: dict[str, Any], line: int) -> None:
    """Take one message."""
    role, content = found.get("role"), found.get("content")
    at = milliseconds(found.get("timestamp", found.get("created_at")))
    draft.tick(at)
    if role == "user":
        for block in items(content):
            if mapping(block).get("type") == "tool_result":
                claude.result(draft, block, None)
        claude.hear(draft, spoken(content), at, line)
    elif role == "assistant":
        claude.answer(draft, content, at, line)
        for call in items(found.get("tool_calls")):
            asked = mapping(mapping(call).get("function")) or mapping(call)
            key = string(mapping(call).get("id"))
            draft.call(key, string(asked.get("name")), asked.get("arguments", asked.get("input")), at, line)
        legacy = mapping(found.get("function_call"))
        if legacy:
            # calls of old have no id: the next message is the result
            draft.forget(_LEGACY)
            draft.call(_LEGACY, string(legacy.get("name")), legacy.get("arguments"), at, line)
    elif role in ("tool", "function"):
        key = string(found.get("tool_call_id")) or _LEGACY
        draft.result(key, tools.result(spoken(content), exit_code=mapping(found.get("extra")).get("returncode")))
    usage = mapping(mapping(mapping(found.get("extra")).get("response")).get("usage")) or mapping(found.get("usage"))
    if usage:
        spend(draft, usage, f"line {line} {len(draft.run.steps)}")


def spend(draft: Draft, usage: dict[str, Any], key: str) -> None:
    """Note OpenAI's usage, in which the prompt holds what was read from the cache."""
    cached = count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    fresh = max(count(usage.get("prompt_tokens")) - cached, 0)
    draft.spend(key, {"fresh": fresh, "output": usage.get("completion_tokens")}, "fresh", "output")
