"""Values of any shape, read as the shape that is wanted; what has another shape is empty.

Transcripts are written by many versions of many programs, and damaged by crashes: no reader trusts one.
"""

from __future__ import annotations

from typing import Any

_FIRST_MS, _LAST_MS = 946_684_800_000, 4_102_444_800_000  # the years 2000 to 2100
_MOST = 2**53 - 1


def mapping(value: Any) -> dict[str, Any]:
    """Give the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Give the value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def string(value: Any) -> str:
    """Give the value if it is a string, else the empty one."""
    return value if isinstance(value, str) else ""


def integer(value: Any) -> int | None:
    """Give the value if it is a whole number that JSON readers agree on."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and abs(value) <= _MOST else None


def count(value: Any) -> int:
    """Give the value if it is a whole number from 0 up, else 0."""
    return max(integer(value) or 0, 0)


def milliseconds(value: Any) -> int | None:
    """Give a point in time: ISO 8601 (UTC where no zone is said), or seconds or milliseconds since 1970."""
    if isinstance(value, str):
        from datetime import UTC, datetime

        try:
            moment = datetime.fromisoformat(value)
            value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not -_MOST < value < _MOST:  # NaN too
        return None
    found = round(value * 1000 if value < _LAST_MS / 1000 else value)
    return found if _FIRST_MS <= found < _LAST_MS else None


def spoken(content: Any) -> str:
    """Give the text of a message's content: a string, or a list of strings and of blocks that have a text."""
    if isinstance(content, str):
        return content
    parts = []
    for block in items(content):
        if isinstance(block, str):
            parts.append(block)
        elif string(mapping(block).get("type")) in ("", "text", "input_text", "output_text"):
            parts.append(string(mapping(block).get("text")))
    return "\n".join(part for part in parts if part)
