"""What a tool's call does, by its name and its arguments, and what its result says.

    Bash {"command": "pytest -q"}                    -> Command("pytest -q")
    shell {"command": ["bash", "-lc", "pytest"]}     -> Command("bash -lc pytest")
    Edit {"file_path": "a.py", …}                    -> Edit("a.py")
    apply_patch {"input": "*** Update File: a.py"}   -> Edit("a.py")
    Read, grep, web_search, update_plan …            -> nothing

Every agent has its own tools, and people add more, so names are read by their words.

Source: the tools of Claude Code, Codex, Gemini CLI, opencode, SWE-agent and OpenHands.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, NamedTuple

from cyberos.record.loose import integer, items, mapping, string
from cyberos.record.transcript import Command, Edit, clip

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_RUNS = {"bash", "shell", "exec", "terminal", "command", "cmd", "powershell", "execute", "run"}
_CHANGES = {"edit", "write", "create", "patch", "replace", "insert", "delete", "remove", "move", "rename", "multiedit"}
_CHANGES |= {"editor", "modify", "append", "undo"}
# of what is no file in the tree that is worked on
_ELSEWHERE = {
    "todo",
    "todos",
    "plan",
    "task",
    "tasks",
    "memory",
    "issue",
    "pull",
    "comment",
    "branch",
    "stdin",
    "message",
}
_PATHS = ("file_path", "filePath", "absolute_path", "path", "notebook_path", "filename", "file", "target_file")
_LINES = ("command", "cmd", "script", "code")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\+\+\+ (?:b/)?(\S+)", re.MULTILINE)
_LOOKS = {"view", "read", "undo_edit_view"}  # what an editor tool's `command` may be without changing anything

_SHELL = re.compile(r"\S*\b(?:ba|z|da)?sh\s+-l?c\s")

_EXIT = r"(?i:process |command |script )?(?i:exited|completed|finished|failed)(?i: with)?(?i: exit)? (?i:code|status)"
_FIRST = re.compile(
    rf"\s*(?:<returncode>(-?\d+)</returncode>|(?:Error: )?Exit code:?\s*(-?\d+)\b|\[?exit(?: code)?:? (-?\d+)\]?\s*$|"
    rf"\[?{_EXIT}:? (-?\d+))",
    re.MULTILINE,
)
_LAST = re.compile(
    rf"(?:^|\n)\s*(?:[\[(](?:[^\n\[\]]{{0,60}} )?(?:{_EXIT}|[Ee]xit [Cc]ode)[: ]+(-?\d+)[^\n\d]{{0,3}}|"
    rf"(?:Process|Command) exited with code (-?\d+)\.?)\s*\Z"
)
_SESSION = re.compile(r"^Process exited with code (-?\d+)$", re.MULTILINE)
_REFUSED = re.compile(
    r"(?i)the user doesn.t want to (?:proceed|take)|user rejected|haven.t granted|permission .{0,80}(?:denied|required)"
    r"|<tool_use_error>|not allowed|was denied|tool use was rejected|operation was cancelled|declined|blocked by"
)
_CUT_OFF = re.compile(
    r"(?i)command timed out|timed? ?out after|interrupted by user|command was (?:aborted|interrupted)"
)


class Result(NamedTuple):
    """What came of a call. `state` as in `Command`."""

    exit_code: int | None
    output: str
    state: str


def steps(name: str, given: Any, at_ms: int | None, line: int) -> list[Command | Edit]:
    """Give the commands and edits of one call, in order."""
    words = {word.lower() for word in _WORDS.findall(name)}
    if isinstance(given, str):
        given = _parsed(given)
    values = mapping(given)
    if words & _ELSEWHERE:
        return []
    if words & _CHANGES or name == "apply_patch":
        return _edits(values, at_ms, line)
    text = command_text(values)
    if words & _RUNS and text:
        is_background = values.get("run_in_background") is True or values.get("is_background") is True
        return [Command(clip(text), at_ms=at_ms, line=line, state="background" if is_background else "running")]
    return []


def command_text(values: dict[str, Any]) -> str:
    """Give the command line of a call's arguments; an array is quoted so that it can be read again."""
    for key in _LINES:
        value = values.get(key)
        if isinstance(value, str):
            return bare(value.strip())
        if isinstance(value, list):
            return bare(shlex.join(part for part in value if isinstance(part, str)))
    return ""


def bare(line: str) -> str:
    """Take the shell away that an agent puts around every command: `bash -lc 'make test'` is `make test`."""
    if _SHELL.match(line) is None:
        return line
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    return words[2].strip() if len(words) == 3 else line  # noqa: PLR2004


def _parsed(given: str) -> Any:
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"input": given}


def _edits(values: dict[str, Any], at_ms: int | None, line: int) -> list[Command | Edit]:
    if string(values.get("command")) in _LOOKS:
        return []
    paths = [string(values.get(key)) for key in _PATHS if string(values.get(key))][:1]
    for key in ("input", "patch", "patchText", "diff"):
        paths += [one or other for one, other in _PATCHED.findall(string(values.get(key)))[:100]]
    paths += [string(mapping(each).get("path")) for each in items(values.get("changes"))]
    return [Edit(clip(path, 300), at_ms, line) for path in dict.fromkeys(paths) if path] or [Edit("?", at_ms, line)]


def result(output: str, *, exit_code: Any = None, is_error: bool | None = None, is_cut: bool = False) -> Result:
    """Read what a tool gave back; an exit code in its text counts only where the tool itself writes it.

    `is_error` is what the transcript says of the call, None when it says nothing.
    """
    code = integer(exit_code)
    if code is None:
        code, output = unwrap(output)
    if code is None:
        code = exit_in(output)
    if is_cut or (code is None and _CUT_OFF.search(output[:500])):
        return Result(None, output, "interrupted")
    if code is None and is_error and _REFUSED.search(output[:500]):
        return Result(None, output, "refused")
    return Result(code, output, "failed" if is_error and code is None else "done")


def unwrap(output: str) -> tuple[int | None, str]:
    """Read an output that is a JSON object with the exit code beside the text: Codex's and mini-swe-agent's."""
    if output[:1] != "{" or '"output"' not in output[:200] + output[-200:]:
        return None, output
    try:
        found = mapping(json.loads(output, strict=False))
    except (ValueError, RecursionError):
        return None, output
    code = mapping(found.get("metadata")).get("exit_code", found.get("returncode", found.get("exit_code")))
    return integer(code), string(found.get("output")) or output


def exit_in(output: str) -> int | None:
    """Find the exit code that a tool wrote above or below a command's output."""
    found = _FIRST.match(output) or _LAST.search(output[-200:])
    if found is None:
        head = output[:400].partition("\nOutput:")[0]
        found = _SESSION.search(head) if head.startswith(("Chunk ID:", "Wall time:")) else None
    digits = next((group for group in found.groups() if group), None) if found else None
    return int(digits) if digits is not None and len(digits) < 8 else None  # noqa: PLR2004
