"""One memory file, judged by its bytes alone.

The checks stand in the order in which a fault hides what comes after it: bytes that are no text are not parsed, a
frontmatter that is not sound is not compared with the body. So one fault makes one finding, and not five.

Source: DESIGN sections 2 and 5.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import contract, frontmatter, layout, secrets, text
from cyberos.core.episode import body_of, unknown_field
from cyberos.core.errors import InvalidMemory
from cyberos.doctor import plain
from cyberos.doctor.findings import Finding, finding, of_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyberos.core.contract import Problem
    from cyberos.core.frontmatter import Parsed

CHECKS = (
    "text-encoding",
    "no-conflict-markers",
    "frontmatter-parse",
    "frontmatter-double",
    "layout-kind-directory-match",
    "layout-hash-shard",
    "episode-unknown-key",
    "episode-body-matches-frontmatter",
    "frontmatter-canonical",
)
_BLOCK_LINE = 2  # the line on which the frontmatter's text begins
_JSON_ESCAPE = re.compile(r"\\[bfru]")  # \n, \t, \" and \\ spell what any text may hold


class Judged(NamedTuple):
    """What a file's bytes say.

    `told` is (outcome, duration_ms, token_cost, quality_score) as the episode.logged row must repeat it; None for what
    is no sound episode. `parsed` is there when the frontmatter could be read; where it says all, `content` is empty.
    """

    findings: list[Finding]
    content: str
    parsed: Parsed | None = None
    told: tuple[Any, ...] | None = None


def judge(path: str, blob: bytes) -> Judged:
    """Apply every rule that needs nothing but the file's path and bytes."""
    sound = plain.read(path, blob)
    if sound is not None:
        return Judged([], "", sound, _told(sound.frontmatter))
    try:
        content = text.decode(blob)
    except InvalidMemory as error:
        return Judged([of_error(error, path)], blob.decode("utf-8", "replace"))
    marks = text.conflict_line(content)
    try:
        parsed = frontmatter.parse(content)
        frontmatter.check_size(parsed.block, content)
    except InvalidMemory as error:
        return Judged([_conflict(path, marks) if marks else of_error(error, path)], content)
    if _is_sound(path, parsed, content):
        return Judged([], content, parsed, _told(parsed.frontmatter))
    if marks and not _is_quoting(parsed, content):
        return Judged([_conflict(path, marks)], content, parsed)
    return _explain(path, parsed, content)


def _is_sound(path: str, parsed: Parsed, content: str) -> bool:
    """Report whether this is an episode with nothing wrong at all, which is what nearly every file is."""
    values = parsed.frontmatter
    return (
        parsed.is_json
        and layout.is_episode_path(path)
        and not ("\\" in parsed.block and _JSON_ESCAPE.search(parsed.block))
        and values.get("kind") == layout.EPISODE
        and contract.is_valid(values)
        and _fields().issuperset(values)
        and path.startswith(layout.episode_stem(values["task"]))
        and frontmatter.serialise(values, body_of(values)) == content
    )


def _explain(path: str, parsed: Parsed, content: str) -> Judged:
    """Judge a file that is no sound episode rule by rule."""
    hidden = list(_hidden_characters(path, parsed))
    problems = _problems(parsed.frontmatter)
    found = hidden + [_of_problem(path, parsed, problem) for problem in problems]
    found += _check_kind(path, parsed, problems)
    if hidden or not layout.is_episode_path(path) or parsed.frontmatter.get("kind") != layout.EPISODE:
        return Judged(found, content, parsed)
    found += _check_episode(path, parsed, content, is_sound=not problems)
    return Judged(found, content, parsed, None if problems else _told(parsed.frontmatter))


def _conflict(path: str, line: int) -> Finding:
    return finding("no-conflict-markers", path, "an unresolved merge conflict begins here", line=line)


def _is_quoting(parsed: Parsed, content: str) -> bool:
    # an episode may quote a conflict; a merge that left one has broken the frontmatter or parted it from the body
    values = parsed.frontmatter
    if not parsed.is_json or values.get("kind") != layout.EPISODE or not contract.is_valid(values):
        return False
    try:
        return frontmatter.serialise(values, body_of(values)) == content
    except InvalidMemory:
        return False


def _hidden_characters(path: str, parsed: Parsed) -> Iterator[Finding]:
    """Find what `\\u` and other escapes bring into the values though the file's text may not hold it."""
    if not (_JSON_ESCAPE.search(parsed.block) if parsed.is_json else "\\" in parsed.block):
        return
    for pointer, value in strings(parsed.frontmatter):
        found = text.find_forbidden(value)
        if found is not None:
            message = f"{pointer.removeprefix('/') or 'a name'} holds {found[1]} at character {found[0]}"
            yield finding("text-encoding", path, message, line=line_of(parsed, pointer), pointer=pointer)


def strings(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Give every string below `value`, names included, with its pointer (that of the mapping for a name)."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield pointer, key
            yield from strings(item, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list | tuple | set):
        for number, item in enumerate(value):
            yield from strings(item, f"{pointer}/{number}")


def _problems(values: dict[str, Any]) -> list[Problem]:
    """List the breaches of the data law, one for each rule and field; what only follows from another is left out."""
    found = {(problem.rule, problem.pointer): problem for problem in reversed(contract.problems(values))}
    if any(pointer == "/outcome" for _, pointer in found) and "error" not in values:
        found.pop(("episode-error-required", "/error"), None)  # what is no outcome requires no error
    return list(reversed(found.values()))


def _of_problem(path: str, parsed: Parsed, problem: Problem) -> Finding:
    line = line_of(parsed, problem.pointer)
    return finding(problem.rule, path, problem.message, line=line, pointer=problem.pointer)


def line_of(parsed: Parsed, pointer: str) -> int:
    """Give the file's line on which the pointer's field stands; 1 where the field is missing."""
    if not pointer:
        return _BLOCK_LINE
    key = re.escape(pointer.split("/")[1].replace("~1", "/").replace("~0", "~"))
    spelled = rf'(?<!\\)"{key}"\s*:' if parsed.is_json else rf"^[\"']?{key}[\"']?\s*:"
    found = re.search(spelled, parsed.block, re.MULTILINE)
    return 1 if found is None else _BLOCK_LINE + parsed.block.count("\n", 0, found.start())


def _check_kind(path: str, parsed: Parsed, problems: list[Problem]) -> Iterator[Finding]:
    kind, promised = parsed.frontmatter.get("kind"), layout.kind_of(path)
    if kind != promised and not any(problem.pointer == "/kind" for problem in problems):
        message = f"kind is {kind!r}, the folder is that of {promised!r}"
        line = line_of(parsed, "/kind")
        yield finding("layout-kind-directory-match", path, message, line=line, pointer="/kind")


def _check_episode(path: str, parsed: Parsed, content: str, *, is_sound: bool) -> Iterator[Finding]:
    values = parsed.frontmatter
    for key in values.keys() - _fields():
        error = unknown_field(str(key))
        pointer = f"/{key}"
        line = line_of(parsed, pointer)
        yield finding("episode-unknown-key", path, error.message, line=line, pointer=pointer, hint=error.hint)
    task = values.get("task")
    if isinstance(task, str) and not path.startswith(layout.episode_stem(task)):
        stem = layout.episode_stem(task)
        message = f"by its task this episode's path begins with {stem}"
        yield finding("layout-hash-shard", path, message, line=line_of(parsed, "/task"), pointer="/task")
    if is_sound:
        yield from _check_spelling(path, parsed, content)


@cache
def _fields() -> frozenset[str]:
    return frozenset(contract.episode_fields())


def _check_spelling(path: str, parsed: Parsed, content: str) -> Iterator[Finding]:
    """Compare an episode's text with what cyberos writes for its values, frontmatter and body apart."""
    document = body_of(parsed.frontmatter)
    try:
        wanted = frontmatter.serialise(parsed.frontmatter, document) if parsed.is_json else ""
    except InvalidMemory as error:
        yield of_error(error, path, line=line_of(parsed, error.pointer))
        return
    if wanted == content:
        return
    body = f"\n{document}\n"
    head = wanted[: -len(body)]
    if parsed.body != body:
        line = content.count("\n", 0, len(content) - len(parsed.body)) + _first_difference(parsed.body, body)
        message = "the body is not the searchable document of the frontmatter"
        yield finding("episode-body-matches-frontmatter", path, message, line=line)
    if not head:
        message = "the frontmatter is YAML; cyberos writes an episode's as JSON"
        yield finding("frontmatter-canonical", path, message, line=_BLOCK_LINE)
    elif head + parsed.body != content:
        line = _first_difference(content, head)
        yield finding("frontmatter-canonical", path, "the frontmatter is not spelled as cyberos writes it", line=line)


def _first_difference(left: str, right: str) -> int:
    """Count, from 1, the first line in which two texts differ."""
    ours, theirs = left.split("\n"), right.split("\n")
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), 1):
        if one != other:
            return number
    return min(len(ours), len(theirs))


def _told(values: dict[str, Any]) -> tuple[Any, ...]:
    score = float(values.get("quality_score", 0.5))  # DEC-181: absent is the literal 0.5
    told = (values["outcome"], values["duration_ms"], values.get("token_cost"), score)
    return _TOLD.setdefault(told, told)


_TOLD: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # few differ, and each is kept for as many files as say it


class Suspect(NamedTuple):
    """The texts of a file that may hold a known credential, by field; `parsed` tells the lines of a sound episode's."""

    texts: dict[str, str]
    parsed: Parsed | None


def suspect(path: str, judged: Judged) -> Suspect | None:
    """Give what may hold a known credential, if anything may; `checks_memory` asks which, and what was allowed.

    A sound episode is searched field by field, as when it was written; of anything else the text as it stands.
    """
    if judged.told is None or judged.parsed is None or any(one.severity == "error" for one in judged.findings):
        found = secrets.scan(f"{judged.content}\n{path}")
        return Suspect({"body": judged.content, "path": path}, None) if found else None
    values = judged.parsed.frontmatter
    if not secrets.is_possible(" ".join(_texts(values))):
        return None
    texts = {pointer[1:]: text for pointer, text in strings(values)}
    is_found = any(secrets.is_possible(text) and secrets.scan(text) for text in texts.values())
    return Suspect(texts, judged.parsed) if is_found else None


def _texts(values: dict[str, Any]) -> list[str]:
    found = []
    for value in values.values():
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            found += value
    return found
