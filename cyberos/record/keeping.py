"""The last step of what cannot be repeated: whatever the texts hold, the episode is stored.

A run is over and a transcript is closed, so nothing is refused for its text: escape sequences and characters that no
memory may hold are dropped, known credentials are replaced by `[redacted:<kind>]` with a `secret.redacted` row for
each kind and field, and what is too long is cut.

Source: DESIGN sections 2 (characters) and 8 (secrets).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import frontmatter, secrets, text
from cyberos.core.episode import Episode, log

if TYPE_CHECKING:
    from cyberos.core.writer import Writer

MOST = 4_000  # characters of one field
_MOST_BYTES = 6_000  # of one field as it is spelled, so that all of them fit into the frontmatter's 64 KiB
_CUT = " […]"
_MARK = re.compile(r"\[redacted:([a-z-]+)\]")


class Kept(NamedTuple):
    """A stored episode; `redacted` are (kind of credential, field)."""

    path: str
    redacted: list[tuple[str, str]]


def keep(writer: Writer, values: dict[str, Any], actor: str) -> Kept:
    """Store an episode of these fields, made storable; a row tells of each redaction, all of it or none.

    Raises: InvalidMemory for what no text can mend, VaultLocked, BrokenLedger, WriteFailed.
    """
    storable, redacted = made_storable(values)
    with writer.transaction():
        path = log(writer, Episode(**storable), actor).as_posix()
        for kind, field in redacted:
            writer.tell_redacted(path, kind, field, actor)
    return Kept(path, redacted)


def made_storable(values: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Give the fields as they may be stored, and the (kind, field) of each credential that was in them."""
    found: dict[str, Any] = {}
    redacted: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, str):
            found[name] = _storable(value, name, redacted)
        elif isinstance(value, list | tuple):
            found[name] = [_storable(item, f"{name}/{place}", redacted) for place, item in enumerate(value)]
        else:
            found[name] = value
    return found, list(dict.fromkeys(redacted))


def _storable(value: str, field: str, redacted: list[tuple[str, str]]) -> str:
    # redacted before it is cut, or the cut could leave the beginning of a credential that no pattern knows; and after,
    # since it may have taken away what told a sample from a credential
    clean, _ = secrets.redact(text.strip(value))
    # those that went before the text was laid on one line or cut have left their marks too
    marked = [kind for kind in _MARK.findall(clean) if kind in secrets.KINDS]
    if len(clean) > MOST:
        clean = _cut(clean, MOST)
    while _spelled_bytes(clean) > _MOST_BYTES:
        clean = _cut(clean, len(clean) * 9 // 10)
    clean, more = secrets.redact(clean)
    redacted += [(kind, field) for kind in (*marked, *more)]
    return clean


def _cut(value: str, most: int) -> str:
    return f"{value[: most - len(_CUT)]}{_CUT}"


def _spelled_bytes(value: str) -> int:
    return len(frontmatter.serialise({"field": value}, "").encode())


def flat(value: str) -> str:
    """Give a text on one line. Credentials go first: a blank where a line ended would hide one."""
    clean, _ = secrets.redact(value)
    return " ".join(text.ANSI.sub("", clean).split())


def last_lines(output: bytes, most: int = 20, characters: int = 2_000) -> str:
    """Give the last lines of a command's output as they were to be read: escape sequences gone, overwritten text too.

    At most so many lines, and so many characters of the end.
    """
    clean, _ = secrets.redact(output.decode("utf-8", "replace"))  # of a long one only the end would be left
    shown = text.ANSI.sub("", clean).replace("\r\n", "\n")
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1].rstrip() for line in shown.split("\n")]
    kept = text.strip("\n".join([line for line in lines if line][-most:]))
    return kept if len(kept) <= characters else f"…{kept[1 - characters :]}"
