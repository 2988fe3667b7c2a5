"""What git has seen of the vault, read from git's own files: no subprocess stands on the write path.

A ledger segment may be appended to only until git has seen it. It counts as seen when the tail of its name stands in
the raw bytes of this worktree's index (or a shared index beside it), when an index lock says that git is at work, or
when HEAD has moved since the segment was opened: the size of `logs/HEAD`, or, without reflogs, HEAD, its ref and the
packed refs. Anything missing or in doubt counts as seen: a new segment costs little, a merge conflict much.

Source: DESIGN section 3; gitrepository-layout(5); gitformat-index(5).
"""

from __future__ import annotations

import os
from typing import NamedTuple

# the last ten hex digits of a segment's name and its ending; index version 4 may cut off a shared beginning
_TAIL = 10 + len(".jsonl")


class GitDir(NamedTuple):
    """The git folders of one worktree: `private` holds its HEAD and index, `common` the refs. Absolute paths."""

    private: str
    common: str


def find(root: str) -> GitDir | None:
    """Find the git folder of the worktree that holds `root`, or None outside git."""
    folder = os.path.realpath(root)  # a vault reached through a link belongs to the repository that holds it
    while True:
        found = _at(os.path.join(folder, ".git"))
        if found is not None:
            return found
        parent = os.path.dirname(folder)
        if parent == folder:
            return _from_environment()
        folder = parent


def _at(path: str) -> GitDir | None:
    if os.path.isdir(path):
        return _complete(path) if os.path.exists(os.path.join(path, "HEAD")) else None
    text = _text(path)
    if not text.startswith("gitdir:"):
        return None
    target = text.removeprefix("gitdir:").strip()
    return _complete(os.path.normpath(os.path.join(os.path.dirname(path), target)))


def _from_environment() -> GitDir | None:
    named = os.environ.get("GIT_DIR")
    return _complete(os.path.abspath(named)) if named and os.path.isdir(named) else None


def _complete(private: str) -> GitDir:
    common = _text(os.path.join(private, "commondir")).strip()
    return GitDir(private, os.path.normpath(os.path.join(private, common)) if common else private)


def token(git: GitDir | None) -> str:
    """Give a text that changes whenever HEAD moves; compare for equality only."""
    if git is None:
        return "no git"
    try:
        return f"{git.private} log {os.stat(os.path.join(git.private, 'logs', 'HEAD')).st_size}"
    except OSError:
        pass
    head = _text(os.path.join(git.private, "HEAD"))
    reference = head.removeprefix("ref:").strip() if head.startswith("ref:") else ""
    parts = [git.private, head, *(_text(os.path.join(base, reference)) for base in set(git) if reference)]
    parts += [_status(os.path.join(base, name)) for base in sorted(set(git)) for name in _REFS]
    return " ".join(" ".join(parts).split())


_REFS = ("packed-refs", os.path.join("reftable", "tables.list"))


def has_seen(git: GitDir | None, segment: str) -> bool:
    """Report whether git's index names the segment, or may do so before we have written."""
    if git is None:
        return False
    if os.path.exists(os.path.join(git.private, "index.lock")):
        return True
    return segment[-_TAIL:].encode() in index_bytes(git)


def index_bytes(git: GitDir | None) -> bytes:
    """Give the raw bytes of every index that may name this worktree's files."""
    if git is None:
        return b""
    paths = [os.path.join(git.private, "index")]
    paths += [os.path.join(git.private, name) for name in _names(git.private) if name.startswith("sharedindex.")]
    if named := os.environ.get("GIT_INDEX_FILE"):
        paths.append(os.path.abspath(named))
    return b"\n".join(_bytes(path) for path in paths)


def is_tracked(index: bytes, segment: str) -> bool:
    """Report whether an index's raw bytes name the segment."""
    return segment[-_TAIL:].encode() in index


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return b""


def _text(path: str) -> str:
    return _bytes(path).decode("utf-8", "surrogateescape") if os.path.isfile(path) else ""


def _status(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "-"
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"
