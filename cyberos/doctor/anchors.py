"""What git remembers of the vault: every blob that HEAD, the index or the working tree must still hold.

In git history files under `audit/` and `memories/episodes/` are only ever added. So whatever a commit has there, each
later one has too, and only what is gone, changed or no file any more is of interest: `git diff-tree` names it for many
commits at once, and in an honest vault it names next to nothing.

Source: DESIGN section 3 ("Against git"); git-rev-list(1), git-diff-tree(1).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import gitdir, layout
from cyberos.core.errors import UnsafePath
from cyberos.core.files import Files
from cyberos.core.repository import RAW
from cyberos.doctor import ci

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cyberos.core.repository import Change, Repository

ADD_ONLY = (layout.AUDIT, f"{layout.MEMORIES}/{layout.EPISODES}")
WITHOUT_FULL = 100  # commits looked at below HEAD
VERIFIED = f"{layout.PRIVATE}/verified"
_VERSION = 2


class Lost(NamedTuple):
    """A blob that a commit had at a path and a later one has not; `since` says in words where it went."""

    path: str
    blob: str
    since: str
    commit: str


class Blind(NamedTuple):
    """Where git could not look, and what helps if it is not the usual."""

    message: str
    hint: str | None = None


class Past(NamedTuple):
    """What must still be there, what other lines of history say of the same paths, and where git could not look.

    `lost` is to be held against HEAD strictly. `apart` comes from commits that HEAD does not build on: a path that
    only they have says nothing, one that both have must agree. `below` is the newest commit that nobody has looked at
    in this clone yet, None when all were.
    """

    lost: list[Lost]
    apart: list[Lost]
    blind: list[Blind]
    below: str | None = None


class Verified(NamedTuple):
    """The last commit that this clone found sound, and the newest below it that it has not looked at."""

    commit: str
    below: str | None


def collect(repository: Repository, head: str, *, reference: str | None, is_full: bool) -> Past:
    """Ask git what HEAD's history, and in CI the target branch, has had; `reference` is compared strictly too."""
    past = Past([], [], [])
    known = load_verified(repository)
    if known is not None and repository.commit(known.commit) != known.commit:
        known = None
    verified = known.commit if known else None
    below = _walk(repository, head, None if is_full else verified, past, is_full=is_full)
    if not is_full:
        past = past._replace(below=below or (known.below if known else None))
    if reference is not None:
        past.lost.extend(_between(repository, reference, head, f"since {reference}"))
    others = {verified: "which this clone had verified", repository.commit("@{upstream}"): "of the upstream branch"}
    target = ci.target()
    if target is not None:
        commit = _resolve(repository, target.branch) or (repository.commit(target.base) if target.base else None)
        if commit is None:
            past.blind.append(_unfetched(target.branch))
        others[commit] = f"of the target branch {target.branch}"
    for commit, what in others.items():
        if commit is not None and commit != head:
            _beside(repository, commit, head, what, past)
    return past


def _walk(repository: Repository, head: str, verified: str | None, past: Past, *, is_full: bool) -> str | None:
    """Hold each commit against every one of its parents; name the first that is one too many to look at."""
    limit = [] if is_full else [f"--max-count={WITHOUT_FULL + 1}"]
    stop = [f"^{verified}"] if verified else []
    listed = repository.run("rev-list", *limit, head, *stop, "--")
    if listed is None:
        past.blind.append(Blind("history below HEAD cannot be read"))
        return None
    commits = listed.decode().split()
    below = commits.pop() if not is_full and len(commits) > WITHOUT_FULL else None
    if not shallow(repository).isdisjoint(commits):
        past.blind.append(Blind("this clone is shallow: what came before its oldest commit cannot be compared"))
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    output = repository.run(
        "diff-tree", "--stdin", "-r", "-m", *RAW, "--diff-filter=DMT", "--", *repository.below(ADD_ONLY), stdin=asked
    )
    if output is None:
        past.blind.append(Blind("a commit below HEAD has a parent that is not in this clone"))
        return below
    for commit, change in _by_commit(repository, output):
        past.lost.append(Lost(change.path, change.old, f"since commit {commit[:10]}", commit))
    return below


def _by_commit(repository: Repository, output: bytes) -> Iterable[tuple[str, Change]]:
    commit, begun = "", b""
    for field in output.split(b"\0"):
        if begun:
            for change in repository.read_changes(begun + b"\0" + field + b"\0"):
                yield commit, change
            begun = b""
        elif field.startswith(b":"):
            begun = field
        elif field:
            commit = field.decode().strip()


def _between(repository: Repository, old: str, new: str, since: str) -> list[Lost]:
    found = repository.changes(("diff-tree", "-r", old, new, "--diff-filter=DMT"), ADD_ONLY)
    return [Lost(change.path, change.old, since, old) for change in found or ()]


def _beside(repository: Repository, commit: str, head: str, what: str, past: Past) -> None:
    """Compare HEAD with a commit that it may not build on: strictly what both began from, the rest for accord."""
    base = repository.run("merge-base", commit, head)
    if base is None:
        past.apart.extend(_between(repository, commit, head, f"of {commit[:10]}, {what}"))
        return
    begun = base.decode().split()[0]
    if begun != head:  # else HEAD is only behind
        past.lost.extend(_between(repository, begun, head, f"since {begun[:10]}"))
    if begun not in (commit, head):
        past.apart.extend(_between(repository, commit, head, f"in {commit[:10]}, {what}"))


def _resolve(repository: Repository, branch: str) -> str | None:
    for name in (f"refs/remotes/origin/{branch}", f"refs/heads/{branch}", branch):
        if not branch.startswith("-") and (commit := repository.commit(name)) is not None:
            return commit
    return None


def _unfetched(branch: str) -> Blind:
    import shlex

    name = shlex.quote(f"+refs/heads/{branch}:refs/remotes/origin/{branch}")
    message = f"the target branch {branch} of this CI job is not in this clone"
    return Blind(message, f"fetch it before the doctor runs: `git fetch origin {name}`")


def shallow(repository: Repository) -> set[str]:
    folders = gitdir.find(repository.root)
    try:
        with open(os.path.join(folders.common if folders else "", "shallow"), encoding="ascii") as handle:
            return set(handle.read().split())
    except (OSError, ValueError):
        return set()


def load_verified(repository: Repository) -> Verified | None:
    """Give the last commit that this clone found sound, which may be gone since."""
    try:
        found = json.loads(Files(repository.root).read(VERIFIED))
        commit, below = found["commit"], found["below"]
        if found["v"] != _VERSION or not isinstance(commit, str) or not isinstance(below, str | None):
            return None
    except (OSError, UnsafePath, ValueError, TypeError, KeyError):
        return None
    return Verified(commit, below) if commit.isalnum() else None


def save_verified(repository: Repository, commit: str, below: str | None) -> None:
    """Remember that this commit is sound; a failure only costs the next run its time."""
    from cyberos.doctor import keeping

    found = {"v": _VERSION, "commit": commit, "below": below}
    keeping.save(repository.root, VERIFIED, json.dumps(found).encode() + b"\n")
