"""The questions put to git about a vault as it stands, all at once: they take as long as the slowest.

Source: git-ls-files(1), git-diff-files(1), git-diff-index(1).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import layout
from cyberos.core.repository import RAW, Change, finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from cyberos.core.repository import Repository

PLACES = (layout.AUDIT, layout.MEMORIES)
_FLAGGED = re.compile(rb"\0(?:[a-z]|S) \d+ ([0-9a-f]+) 0\t([^\0]+)")  # it begins with what is seldom


class Present(NamedTuple):
    """HEAD's id (None: unborn) and its upstream's, what the index has changed since HEAD, the working tree since it.

    `hidden` are (path, blob) of entries that git was told not to look at, `others` the paths that it does not track,
    `listing` is the whole index below the vault, as git lists it. `unfiltered` counts files that only git's own look
    at their times takes for unchanged, since a clean filter stands before them.
    """

    head: str | None
    upstream: str | None
    staged: list[Change]
    files: list[Change]
    hidden: list[tuple[str, str]]
    others: list[str]
    listing: bytes
    unfiltered: int = 0


def ask(repository: Repository) -> Callable[[], Present | None]:
    """Begin to ask git; give what waits for the answer, which is None when git does not answer."""
    places = repository.below(PLACES)
    asked = [
        repository.start("ls-files", "-z", "-o", "-s", "-v", "--", *places),  # the slowest
        repository.start("-c", "core.preloadIndex=false", "diff-files", *RAW, "--", *places),
    ]
    head, upstream = repository.commits("HEAD", "@{upstream}")
    asked.append(repository.start("diff-index", "--cached", head or repository.empty_tree, *RAW, "--", *places))

    def answer() -> Present | None:
        listed, files, index = (finish(process) for process in asked)
        if listed is None or files is None or index is None:
            return None
        others, listing = _split(listed)
        cut = len(repository.prefix.encode())
        return Present(
            head,
            upstream,
            list(repository.read_changes(index)),
            list(repository.read_changes(files)),
            [(os.fsdecode(path[cut:]), blob.decode()) for blob, path in _FLAGGED.findall(b"\0" + listing)],
            [os.fsdecode(path[cut:]) for path in others],
            listing,
        )

    return answer


def _split(listed: bytes) -> tuple[list[bytes], bytes]:
    """Part what git does not track, which comes first and has the tag `?`, from what the index has."""
    others, begin = [], 0
    while listed.startswith(b"? ", begin):
        end = listed.index(b"\0", begin)
        others.append(listed[begin + 2 : end])
        begin = end + 1
    return others, listed[begin:]
