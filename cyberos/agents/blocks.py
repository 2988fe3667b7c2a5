"""A block of ours in a text file of the user's: in markdown, and in TOML.

    <!-- BEGIN CYBEROS v1 3f2a91bc +1 -->          # BEGIN CYBEROS v1 3f2a91bc +0
    …                                              …
    <!-- END CYBEROS -->                           # END CYBEROS

The eight digits begin the SHA-256 of the lines between the marks, so that a block of another version, or one that was
edited, is known. `+n` is how many line ends were put before it; with them it goes without a trace.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

MARKDOWN = ("<!-- ", " -->")
HASH = ("# ", "")


class Found(NamedTuple):
    """A block in a text, with its marks and the line ends before and behind it; `is_whole`: as it was written."""

    start: int
    end: int
    inside: str
    is_whole: bool


def find(text: str, style: tuple[str, str]) -> Found | None:
    """Find our block. Raises: ValueError where a mark stands alone or twice."""
    opening, closing = (re.escape(part) for part in style)
    begins = list(re.finditer(rf"{opening}BEGIN CYBEROS v1 ([0-9a-f]{{8}}) \+([0-2]){closing}\r?\n", text))
    ends = list(re.finditer(rf"{opening}END CYBEROS{closing}(\r?\n|\Z)", text))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].end():
        raise ValueError("the marks of its CYBEROS block are not one pair")
    begin, end = begins[0], ends[0]
    inside = text[begin.end() : end.start()].replace("\r\n", "\n")
    ended = text[: begin.start()]
    for _ in range(int(begin[2])):
        ended = ended.removesuffix("\n").removesuffix("\r")
    return Found(len(ended), end.end(), inside, _digest(inside) == begin[1])


def add(text: str | None, inside: str, style: tuple[str, str]) -> str:
    """Put the block at the end of a text, or in the place of the one that is there. Raises: ValueError."""
    present = text or ""
    found = find(present, style)
    if found is not None:
        mark = re.search(r" \+([0-2])", present[found.start : found.end])
        ends = int(mark[1]) if mark else 0
        return present[: found.start] + _spell(present, inside, style, ends) + present[found.end :]
    ends = 0 if not present else 1 if present.endswith("\n") else 2
    return present + _spell(present, inside, style, ends)


def remove(text: str, style: tuple[str, str]) -> str:
    """Take the block out. Raises: ValueError."""
    found = find(text, style)
    return text if found is None else text[: found.start] + text[found.end :]


def _spell(present: str, inside: str, style: tuple[str, str], ends: int) -> str:
    opening, closing = style
    begin = f"{opening}BEGIN CYBEROS v1 {_digest(inside)} +{ends}{closing}\n"
    made = "\n" * ends + begin + inside + f"{opening}END CYBEROS{closing}\n"
    return made.replace("\n", "\r\n") if "\r\n" in present else made


def _digest(inside: str) -> str:
    return sha256(inside.encode("utf-8", "surrogatepass")).hexdigest()[:8]
