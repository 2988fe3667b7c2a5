"""Adding to a user's JSON file, and taking it out again, without touching another byte of it.

    {"a": 1}         + ("mcpServers", "cyberos")  ->  {"a": 1, "mcpServers": {
                                                          "cyberos": {…}
                                                        }}
    the same, minus                               ->  {"a": 1}

A file is edited as text, so that what its owner wrote keeps its spaces, order and spelling of numbers. Which empty
containers are ours is told by where they close: those that we made close on a line of their own, while one of the
user's that was empty closes right behind what we put into it.

Source: RFC 8259.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SPACE = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"\n([ \t]+)\S")
_VALUE = json.JSONDecoder()


class Entry(NamedTuple):
    """What is to stand in a file: a member `key` of the object at `path`, or with no key an item of the array there.

    `is_ours` tells it from what is the user's, whatever has been changed in it since.
    """

    path: tuple[str, ...]
    key: str | None
    value: Any
    is_ours: Callable[[Any], bool]


class _Child(NamedTuple):
    key: str | None
    start: int  # of the key, or of an item's value
    span: _Span


class _Span(NamedTuple):
    """A value in the text, from `start` to before `end`; `children` of what is no container is None."""

    start: int
    end: int
    children: tuple[_Child, ...] | None


def parse(text: str) -> dict[str, Any]:
    """Read a whole file. Raises: ValueError, with what is wrong, for what is no JSON object with each key once."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is no JSON ({error.msg})") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")  # noqa: TRY004 - of a file, as the others
    return value


def has(text: str, entry: Entry) -> bool:
    """Report whether the entry, or one like it, is there. Raises: ValueError."""
    return _find(parse(text), text, entry) is not None


def add(text: str | None, entry: Entry) -> str:
    """Add an entry to a file, or to none; give the file's text.

    Raises: ValueError, also where something else stands in the place of a container.
    """
    if text is None:
        return "{\n" + _line(entry, 0, 1, "  ") + "\n}\n"
    values = parse(text)
    if _find(values, text, entry) is not None:
        return text
    span, depth = _scan(text, _skip(text, 0)), 0
    for step in entry.path:
        child = _child(span, step)
        if child is None:
            break
        span, depth = child.span, depth + 1
        values = values[step]
    is_item = depth == len(entry.path) and entry.key is None
    if not isinstance(values, list if is_item else dict):
        raise ValueError(f"{'.'.join(entry.path[:depth])} is no {'list' if is_item else 'object'}")  # noqa: TRY004
    return _insert(text, span, entry, depth)


def remove(text: str, entry: Entry) -> str | None:
    """Take an entry out, and each container that was made for it; None when nothing is left of a file that was made.

    Raises: ValueError.
    """
    while (found := _find(parse(text), text, entry)) is not None:
        while found:
            number = found.pop()
            span = _walk(text, found)
            was_made = len(span.children or ()) == 1 and "\n" in _tail(text, span)
            text = _cut(text, span, number)
            if not was_made:
                break
        else:
            return None
    return text


def _tail(text: str, span: _Span) -> str:
    """Give the space between a container's last child and its end."""
    return text[span.children[-1].span.end : span.end - 1] if span.children else ""


def _walk(text: str, numbers: Sequence[int]) -> _Span:
    """Give the container that is reached by going to the child of each number in turn."""
    span = _scan(text, _skip(text, 0))
    for number in numbers:
        span = (span.children or ())[number].span
    return span


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _find(values: Any, text: str, entry: Entry) -> list[int] | None:
    """Give the numbers of the children that lead to the entry, or None where there is none."""
    trail = []
    span = _scan(text, _skip(text, 0))
    for step in entry.path:
        if not isinstance(values, dict) or step not in values:
            return None
        number = next(number for number, child in enumerate(span.children or ()) if child.key == step)
        trail.append(number)
        values, span = values[step], (span.children or ())[number].span
    for number, child in enumerate(span.children or ()):
        if entry.key is not None:
            is_it = isinstance(values, dict) and child.key == entry.key
        else:
            is_it = isinstance(values, list) and entry.is_ours(values[number])
        if is_it:
            return [*trail, number]
    return None


def _child(span: _Span, key: str) -> _Child | None:
    return next((child for child in span.children or () if child.key == key), None)


def _insert(text: str, span: _Span, entry: Entry, depth: int) -> str:
    unit = min(_INDENT.findall(text), key=len, default="  ")
    if span.children:
        at = span.children[-1].span.end
        is_spread = "\n" in text[span.start : span.children[-1].start]
        line = _line(entry, depth, depth + 1, unit)
        new = f",\n{line}" if is_spread else f", {line.lstrip()}"
    else:
        at = span.end - 1
        new = _line(entry, depth, depth + 1, unit).lstrip()
    if "\r\n" in text:
        new = new.replace("\n", "\r\n")
    return text[:at] + new + text[at:]


def _line(entry: Entry, depth: int, level: int, unit: str) -> str:
    """Spell the entry from the container at `depth` of its path on, indented by `level` units."""
    value = [entry.value] if entry.key is None else {entry.key: entry.value}
    names = [*entry.path[depth:]]
    if not names:
        spelled = json.dumps(entry.value, indent=unit, ensure_ascii=False)
        spelled = spelled if entry.key is None else f"{json.dumps(entry.key)}: {spelled}"
    else:
        for name in reversed(names[1:]):
            value = {name: value}
        spelled = f"{json.dumps(names[0])}: {json.dumps(value, indent=unit, ensure_ascii=False)}"
    return "\n".join(unit * level + part for part in spelled.split("\n"))


def _cut(text: str, span: _Span, number: int) -> str:
    """Take one child out of a container, with the comma and the space that came with it."""
    children = span.children or ()
    child = children[number]
    if number:
        return text[: children[number - 1].span.end] + text[child.span.end :]
    if len(children) > 1:
        return text[: child.start] + text[children[1].start :]
    before, after = text[span.start + 1 : child.start], _tail(text, span)
    return text[: span.start + 1] + (after or before) + text[span.end - 1 :]


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _scan(text: str, at: int) -> _Span:
    """Find the spans of the value that begins here, in a text that is known to be JSON."""
    if text[at] not in "{[":
        return _Span(at, _VALUE.raw_decode(text, at)[1], None)
    is_object = text[at] == "{"
    children: list[_Child] = []
    here = _skip(text, at + 1)
    while text[here] not in "}]":
        if text[here] == ",":
            here = _skip(text, here + 1)
        start, key = here, None
        if is_object:
            key, here = _VALUE.raw_decode(text, here)
            here = _skip(text, _skip(text, here) + 1)
        span = _scan(text, here)
        children.append(_Child(key, start, span))
        here = _skip(text, span.end)
    return _Span(at, here + 1, tuple(children))
