"""SWE-agent trajectories: one JSON document, `<instance>.traj`.

    {"environment":…,
     "trajectory":[{"action":"pytest -q","observation":"1 failed","response":…,"thought":…,"execution_time":0.4}],
     "history":[{"role":"user","content":"…ISSUE:…","is_demo":false}],
     "info":{"exit_status":"submitted","model_stats":{"tokens_sent":122612,"tokens_received":1369}}}

There are no exit codes and no times, only how long each action took. `submitted` is the agent's own word. A file with
a history alone is a list of messages.

Source: SWE-agent 0.7 to 1.1, docs/usage/trajectories.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cyberos.record import human, openai
from cyberos.record.draft import Draft
from cyberos.record.loose import count, mapping, spoken, string
from cyberos.record.transcript import ASSISTANT, USER, Command, Edit, Turn, clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyberos.record.stream import Piece
    from cyberos.record.transcript import Run

NAME = "swe-agent"
_EDITS = re.compile(
    r"\A\s*(?:edit|create|insert|append)\s+(\S+)|\A\s*str_replace_editor\s+(?:create|str_replace|insert|undo_edit)\s+(\S+)"
)
_LOOKS = re.compile(
    r"\A\s*(?:open|goto|scroll_(?:up|down)|search_\w+|find_file|str_replace_editor\s+view|submit|exit_\w+)\b"
)
_FILE = re.compile(r"\(Current file: |\[File: (\S+)")
_LOST = re.compile(
    r"(?i)your proposed edit has introduced new syntax error|edit was not applied|no replacement was performed"
)


def matches(head: Sequence[Piece]) -> bool:
    """Report whether this is the beginning of a trajectory."""
    keys = {key for key, _, _ in head}
    steps = [mapping(value) for key, value, _ in head if key == "trajectory"]
    return any("action" in step and "observation" in step for step in steps) or "history" in keys


def read(pieces: Iterable[Piece]) -> list[Run]:
    """Read the trajectory as one run."""
    draft, history = Draft(), Draft()
    task, info = "", {}
    has_steps = False
    taken_s = 0.0
    for key, value, number in pieces:
        found = mapping(value)
        if key == "trajectory":
            has_steps = True
            taken_s += _step(draft, found, number)
        elif key == "history":
            if found.get("role") == "user" and not found.get("is_demo") and not task:
                task = human.unwrapped(human.typed(spoken(found.get("content"))))
            if not found.get("is_demo"):
                openai.message(history, found, number)
        elif key == "info":
            info = found
    if not has_steps:
        draft = history
    elif task:
        draft.run.steps.insert(0, Turn(USER, clip(task)))
    ended(draft, info)
    if taken_s:
        draft.run.stated_ms = round(taken_s * 1000)
    return [draft.finish()]


def _step(draft: Draft, step: dict[str, Any], number: int) -> float:
    draft.say(ASSISTANT, string(step.get("thought")) or string(step.get("response")), None, number)
    action, observation = string(step.get("action")).strip(), string(step.get("observation"))
    edited = _EDITS.match(action)
    if edited:
        if not _LOST.search(observation):
            path = edited.group(2) or edited.group(1)
            opened = _FILE.search(observation)
            is_lines = path[:1].isdigit()  # `edit 10:12`, of the file that is open
            draft.add(Edit((opened and opened.group(1)) or "the open file" if is_lines else path, None, number))
    elif action and not _LOOKS.match(action):
        draft.add(Command(clip(action), output=clip(observation, 4_000), line=number, state="done"))
    taken = step.get("execution_time")
    return float(taken) if isinstance(taken, int | float) and 0 <= taken < 86_400 else 0.0  # noqa: PLR2004 - a day


def ended(draft: Draft, info: dict[str, Any]) -> None:
    """Take how the run ended, and what it cost."""
    status = string(info.get("exit_status"))
    if status.lower() == "submitted":
        draft.stop("claimed", f"exit_status {status}", None, len(draft.run.steps))
    elif status:
        is_limit = re.search(r"(?i)cost|limit|context|time|step|format", status)
        draft.stop("limit" if is_limit else "failed", f"exit_status {status}", None, len(draft.run.steps))
    stats = mapping(info.get("model_stats"))
    if "tokens_sent" in stats or "tokens_received" in stats:
        draft.meter(count(stats.get("tokens_sent")) + count(stats.get("tokens_received")))
