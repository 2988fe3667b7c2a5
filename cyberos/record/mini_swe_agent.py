"""mini-swe-agent trajectories: messages, with the commands in tool calls or, before version 2, in a block of text.

    {"info":{"exit_status":"Submitted","model_stats":…},"trajectory_format":"mini-swe-agent-1.1","messages":[
      {"role":"user","content":"Please solve this issue: …"},
      {"role":"assistant","content":"…","tool_calls":[…]},
      {"role":"tool","tool_call_id":…,"content":"{\\"returncode\\": 1, …}","extra":{"returncode":1,"timestamp":…}},
      {"role":"exit","content":"","extra":{"exit_status":"Submitted"}}]}

    [{"role":"assistant","content":"THOUGHT: …\\n```bash\\nmake test\\n```"},
     {"role":"user","content":"<returncode>2</returncode>\\n<output>\\n…"}]

`Submitted` is the agent's own word.

Source: mini-swe-agent 1 and 2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cyberos.record import human, openai, tools
from cyberos.record.draft import Draft
from cyberos.record.loose import mapping, milliseconds, spoken, string
from cyberos.record.swe_agent import ended
from cyberos.record.transcript import ASSISTANT, USER, Command, Turn, clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyberos.record.stream import Piece
    from cyberos.record.transcript import Run

NAME = "mini-swe-agent"
_BLOCK = re.compile(r"^```(?:bash|sh|shell|mswea_bash_command)\s*\n(.*?)\n```", re.DOTALL | re.MULTILINE)
_OBSERVED = re.compile(r"\A\s*<returncode>")
_LOST = ("action was not executed",)


def matches(head: Sequence[Piece]) -> bool:
    """Report whether this is the beginning of a trajectory."""
    for key, value, _ in head:
        found = mapping(value)
        if key == "trajectory_format" and string(value).startswith("mini-swe-agent"):
            return True
        if key == "info" and "mini_version" in found:
            return True
        if key in ("", "messages") and found.get("role") == "user" and _OBSERVED.match(spoken(found.get("content"))):
            return True
    return False


def read(pieces: Iterable[Piece]) -> list[Run]:
    """Read the trajectory as one run."""
    draft, info = Draft(), {}
    for key, value, line in pieces:
        found = mapping(value)
        if key == "info":
            info = found
        elif key in ("", "messages"):
            _message(draft, found, line)
    ended(draft, info)
    return [draft.finish()]


def _message(draft: Draft, found: dict[str, Any], line: int) -> None:
    role, text, extra = found.get("role"), spoken(found.get("content")), mapping(found.get("extra"))
    at = milliseconds(extra.get("timestamp"))
    draft.tick(at)
    last = draft.run.steps[-1] if draft.run.steps else None
    if role == USER and isinstance(last, Command) and last.state == "running" and not found.get("tool_call_id"):
        _observe(draft, text)
    elif role == USER and not any(isinstance(step, Turn) for step in draft.run.steps):
        draft.say(USER, human.unwrapped(human.typed(text)), at, line)
    elif role == USER and not _is_scolding(text):
        draft.say(USER, human.typed(text), at, line)
    elif role == "tool" and extra.get("exception_info") in _LOST:
        draft.result(string(found.get("tool_call_id")), tools.Result(None, "", "refused"))
    elif role in (ASSISTANT, "tool"):
        openai.message(draft, found, line)
        block = _BLOCK.search(text) if role == ASSISTANT and not found.get("tool_calls") else None
        if block:
            draft.add(Command(clip(block.group(1).strip()), at_ms=at, line=line), "block")


def _observe(draft: Draft, text: str) -> None:
    if _OBSERVED.match(text):
        draft.result("block", tools.result(text))
    elif "timed out" in text[:300]:
        draft.result("block", tools.Result(None, text, "interrupted"))
    else:
        draft.result("block", tools.Result(None, text, "done"))


def _is_scolding(text: str) -> bool:
    """Report whether the harness says that an answer had no command in it."""
    return "EXACTLY ONE" in text[:400] or "format error" in text[:200].lower() or "No tool calls found" in text[:400]
