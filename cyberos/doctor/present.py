"""What git says of the vault as it stands: HEAD against the index, the index against the working tree.

Git is asked instead of walking, which is faster. What it would pass over by its own flags (skip-worktree,
assume-unchanged) is named, so that it is read all the same; that a file's times say nothing is left to it, with every
setting at its strictest.

Source: DESIGN section 5; git-ls-files(1), git-diff-files(1).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from cyberos.core import layout
from cyberos.core.repository import Change
from cyberos.doctor import anchors, checks_git, walker
from cyberos.doctor.anchors import Lost
from cyberos.doctor.findings import finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyberos.core.repository import Repository
    from cyberos.doctor.asking import Present
    from cyberos.doctor.findings import Finding


def compare(repository: Repository, present: Present, ids: dict[str, bytes]) -> Present:
    """Add the files whose bytes, by these ids, are not the index's though git takes them for unchanged.

    Git goes by a file's size, times and inode; whoever puts the old times back within a second gets past that.
    """
    told = {one.path for one in present.files}.union(path for path, _ in present.hidden)
    blobs = {path: blob for path, blob in unlike(repository, present, ids) if path not in told}
    if not blobs:
        return present
    added = repository.ids_as_added(list(blobs))
    files = [Change("M", path, blobs[path], "", "") for path, made in added.items() if made != blobs[path]]
    return present._replace(files=present.files + files, unfiltered=len(blobs) - len(added))


def unlike(repository: Repository, present: Present, ids: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield what of these files is in the index by another id, with that."""
    cut = len(repository.prefix.encode())
    for entry in _ENTRY.finditer(present.listing) if ids else ():
        path, blob = os.fsdecode(entry[2][cut:]), entry[1].decode()
        digest = ids.get(path)
        if digest is not None and digest.hex() != blob:
            yield path, blob


_ENTRY = re.compile(rb"\S \d+ ([0-9a-f]+) 0\t([^\0]+)\0")


def lost(present: Present) -> tuple[list[Lost], list[Lost]]:
    """Give what HEAD has and the index, and what HEAD has and the working tree, has not as it was."""
    head = present.head
    if head is None:
        return [], []
    at_head = {change.path: change.old for change in present.staged}
    changed = [(change.path, change.old) for change in present.files if change.status != "U"]
    work = [(path, at_head.get(path, blob)) for path, blob in (*changed, *present.hidden)]
    work += [(change.path, change.old) for change in present.staged if change.status in "DMT"]
    in_work = [Lost(path, blob, "since HEAD", head) for path, blob in work if blob.strip("0")]
    in_index = [Lost(one.path, one.old, "in the index", head) for one in present.staged if one.status in "DMT"]
    return in_work, in_index


def uncommitted(repository: Repository, present: Present) -> set[str]:
    """Name the files that HEAD does not have as they stand."""
    read = walker.reader(repository.root)
    found = {change.path for change in present.staged} | set(present.others)
    for path, blob in [(change.path, change.old) for change in present.files] + present.hidden:
        held = read(path)
        if held is None or repository.digest_of(held).hex() != blob:
            found.add(path)
    return found


def dirty(present: Present) -> set[str]:
    """Name the files whose bytes may not be those of HEAD."""
    changed = {change.path for change in (*present.staged, *present.files)}
    return changed.union(present.others, (path for path, _ in present.hidden))


def check(judge: checks_git.Judge, present: Present, *, reference: str | None, is_full: bool) -> list[Finding]:
    """Apply the git rules to HEAD, the index and the working tree; remember HEAD when all of it is sound."""
    repository, head = judge.repository, present.head
    found: list[Finding] = []
    if head is not None:
        past = anchors.collect(repository, head, reference=reference, is_full=is_full)
        found += checks_git.check_history(judge, past, judge.blobs.at(f"{head}:"))
        if checks_git.is_sound(found) and (not is_full or _is_open(repository)):
            anchors.save_verified(repository, head, past.below)
        in_work, in_index = lost(present)
        for these, standing in ((in_work, walker.reader(repository.root)), (in_index, judge.blobs.at(":0:"))):
            told = {one.path for one in found}
            found += [one for one in checks_git.check_against(judge, these, standing) if one.path not in told]
    if present.unfiltered:
        message = f"a clean filter stands before {present.unfiltered:,} files: whether they are those of the index"
        found.append(finding("anchor-blind", layout.AUDIT, f"{message} only their times tell", hint=_HINT_FILTER))
    return found + checks_git.check_uncommitted(uncommitted(repository, present), head)


def _is_open(repository: Repository) -> bool:
    """Report whether it is kept that a part of history waits for a full examination."""
    known = anchors.load_verified(repository)
    return known is not None and known.below is not None


_HINT_FILTER = "take the filter from memories/ and audit/ in .gitattributes: `memories/** -text -filter`"
