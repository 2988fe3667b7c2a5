"""A block of ours in a text file of the user's: in markdown, and in TOML.

    <!-- BEGIN CYBEROS v1 3f2a91bc +1 -->          # BEGIN CYBEROS v1 3f2a91bc +0
    …                                              …
    <!-- END CYBEROS -->                           # END CYBEROS

The eight digits begin the SHA-256 of the lines between the marks, so that a block of another version, or one that was
edited, is known. `+n` is how many line ends were put before it, `+new` stands in a file that was made for it; with
them it goes without a trace.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

MARKDOWN = ("<!-- ", " -->")
HASH = ("# ", "")


class Found(NamedTuple):
    """A block in a text, with its marks and the line ends before it; `is_whole`: it is as it was written."""

    start: int
    end: int
    inside: str
    is_whole: bool
    joint: str


def find(text: str, style: tuple[str, str]) -> Found | None:
    """Find our block. Raises: ValueError where a mark stands alone or twice."""
    opening, closing = (re.escape(part) for part in style)
    begins = list(re.finditer(rf"{opening}BEGIN CYBEROS v1 ([0-9a-f]{{8}}) \+([0-2]|new){closing}\r?\n", text))
    ends = list(re.finditer(rf"{opening}END CYBEROS{closing}(\r?\n|\Z)", text))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].end():
        raise ValueError("the marks of its CYBEROS block are not one pair")
    begin, end = begins[0], ends[0]
    inside = text[begin.end() : end.start()].replace("\r\n", "\n")
    ended = text[: begin.start()]
    for _ in range(_ends(begin[2])):
        ended = ended.removesuffix("\n").removesuffix("\r")
    return Found(len(ended), end.end(), inside, _digest(inside) == begin[1], begin[2])


def add(text: str | None, inside: str, style: tuple[str, str]) -> str:
    """Put the block at the end of a text, or in the place of the one that is there. Raises: ValueError."""
    present = text or ""
    found = find(present, style)
    if found is not None:
        return present[: found.start] + _spell(present, inside, style, found.joint) + present[found.end :]
    joint = "new" if text is None else "0" if not text else "1" if text.endswith("\n") else "2"
    return present + _spell(present, inside, style, joint)


def remove(text: str, style: tuple[str, str]) -> str | None:
    """Take the block out; None when the file was made for it and holds nothing else. Raises: ValueError."""
    found = find(text, style)
    if found is None:
        return text
    left = text[: found.start] + text[found.end :]
    return None if found.joint == "new" and not left else left


def _ends(joint: str) -> int:
    return 0 if joint == "new" else int(joint)


def _spell(present: str, inside: str, style: tuple[str, str], joint: str) -> str:
    opening, closing = style
    begin = f"{opening}BEGIN CYBEROS v1 {_digest(inside)} +{joint}{closing}\n"
    made = "\n" * _ends(joint) + begin + inside + f"{opening}END CYBEROS{closing}\n"
    return made.replace("\n", "\r\n") if "\r\n" in present else made


def _digest(inside: str) -> str:
    return sha256(inside.encode("utf-8", "surrogatepass")).hexdigest()[:8]
