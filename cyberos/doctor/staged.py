"""`doctor --staged`: what git's index holds, as it would be committed; the working tree is not looked at.

Judged are the blobs that differ from HEAD and what they refer to; where the team's own rules differ, every memory is
held against these. What the rest of the ledger says is taken from what
an earlier examination kept (`knowledge`), as long as that can settle it (`enough`). Where it cannot, the index's whole
ledger is read.

Source: DESIGN sections 3 and 5.
"""

from __future__ import annotations

import os
import shlex
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from cyberos.core import gitdir, layout, segments
from cyberos.core.ledger import Ledger
from cyberos.core.repository import GITLINK, LINK, Blobs
from cyberos.doctor import anchors, checks_file, checks_git, checks_ledger, checks_memory, knowledge, team, walker
from cyberos.doctor.anchors import ADD_ONLY, Lost
from cyberos.doctor.checks_ledger import Damage
from cyberos.doctor.checks_memory import Seen
from cyberos.doctor.enough import Enough
from cyberos.doctor.examination import CHECKS, Examination, uncollected
from cyberos.doctor.findings import Finding, Report, finding
from cyberos.doctor.stage import Stage
from cyberos.doctor.walker import Entry, guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cyberos.core.repository import Change, Repository
    from cyberos.core.segments import Segment
    from cyberos.doctor.anchors import Past
    from cyberos.doctor.knowledge import Known
    from cyberos.doctor.team import Team

_BOTH = "stage both sides: `git add memories audit`"
_BACK = "bring it back with `git restore {}-- {}`, or say so with `cyberos forget {} --reason R` and stage that"
_BOTH_SIDES = ("memory-missing", "memory-modified", "memory-unlogged", "ledger-tx", "episode-logged-pair")


def examine(repository: Repository, *, anchor: str = "auto", is_full: bool = False) -> Report:
    """Check what is staged in the vault that the repository was opened at."""
    if repository.run("ls-files", "--", layout.AUDIT) is None:
        message = "git cannot read its index, so nothing that is staged was judged"
        blind = finding("anchor-blind", layout.AUDIT, message, hint="`git status` says why", severity="error")
        return Report([blind], 0, 0)
    with Blobs(repository) as blobs, uncollected():
        return Staged(repository, blobs, anchor, is_full=is_full).report()


def load_team(repository: Repository, blobs: Blobs) -> tuple[Team, list[Finding]]:
    """Read the team's rules in git's index; with any finding there are none."""
    for path, mode, blob in _listed(repository, team.PATH):
        problem = _mode_problem(mode)
        if path != team.PATH or problem is not None:
            return team.unusable(problem or "is a folder")
        held = blobs.read(blob, team.MAX_BYTES)
        return team.unusable("its blob is not in this clone") if held is None else team.read(held, CHECKS)
    return team.NONE, []


class Staged(Examination):
    def __init__(self, repository: Repository, blobs: Blobs, anchor: str, *, is_full: bool) -> None:
        super().__init__(repository.root, None)
        self.repository, self.blobs, self.anchor, self.is_full = repository, blobs, anchor, is_full
        self.head = repository.commit("HEAD")
        self.base = self.head or repository.empty_tree
        self.changes = self._changes(self.base)
        self.stage = Stage("")  # what waits in the stage is not in the index
        self.index = blobs.at(":0:")
        self.damaged = Damage({}, set(), {})
        self.past = anchors.Past([], [], [])
        self.lost: list[Lost] = []

    def _changes(self, base: str) -> list[Change]:
        places = (layout.MEMORIES, layout.AUDIT)
        return self.repository.changes(("diff-index", "--cached", base), places) or []

    def _load_team(self) -> Iterator[Finding]:
        self.team, found = load_team(self.repository, self.blobs)
        yield from found
        if self.team.laws and self.repository.changes(("diff-index", "--cached", self.base), [team.PATH]):
            yield from self._judge_unchanged()

    def _judge_unchanged(self) -> Iterator[Finding]:
        """Hold what stays as it is against the team's rules, which do not."""
        changed = {change.path for change in self.changes} | {walker.KEEP}
        for path, _, blob in _listed(self.repository, layout.MEMORIES):
            held = self.blobs.read(blob, layout.MAX_FILE_BYTES) if path not in changed else None
            parsed = checks_file.judge(path, held).parsed if held is not None else None
            if parsed is not None:
                yield from self._ask_team(path, parsed)

    def _walk(self) -> Iterator[Finding]:
        """Look at what is staged alone: no working tree is walked, however large it is."""
        self._walked(self._entries())
        yield from ()

    def _entries(self) -> Iterator[Entry]:
        for change in self.changes:
            is_memory = change.path.startswith(f"{layout.MEMORIES}/") and change.path != walker.KEEP
            if is_memory and change.status in "AMT":
                yield self._entry(change)

    def _entry(self, change: Change) -> Entry:
        problem = _mode_problem(change.mode) or layout.path_problem(change.path)
        if problem is not None:
            rule = "layout-file-regular" if _mode_problem(change.mode) else "layout-path-safe"
            return Entry(change.path, None, (rule, problem))
        blob = self.blobs.read(change.new, layout.MAX_FILE_BYTES)
        if blob is None:
            return Entry(change.path, None, ("layout-file-regular", "its blob is not in this clone"))
        if len(blob) > layout.MAX_FILE_BYTES:
            message = f"the file takes more than the {layout.MAX_FILE_BYTES:,} bytes that are allowed"
            return Entry(change.path, None, ("layout-file-size", message))
        return Entry(change.path, blob, None, size=len(blob))

    def _read_ledger(self) -> Iterator[Finding]:
        changed = [change for change in self.changes if change.path.startswith(f"{layout.AUDIT}/")]
        partial = []
        for change in changed:
            problem = _mode_problem(change.mode)
            if change.status in "AMT" and problem is not None:
                yield finding("layout-file-regular", change.path, problem)
            elif change.status in "AMT":
                partial.append(self._segment(change.path, change.new))
        staged = {segment.path for segment in partial}
        known = knowledge.load(self.repository, self.blobs, self.head) if self.head and not self.is_full else None
        self.past = self._history()
        self.lost = self._lost()
        self.read = Ledger(partial, list(known.vaults) if known else None)
        if known is None or not Enough(known, self.read, self).settles():
            known, self.read = None, Ledger(self._all_segments(staged))
        paths = self.touched(self.read, staged)
        self._look_up(paths)
        self.rows = sum(len(segment.rows) for segment in partial)
        about = {*paths, *(change.path for change in changed), layout.AUDIT}
        found = [one for one in self._judge_all(self.read, known, sorted(paths)) if one.path in about]
        yield from (self._with_hint(one) for one in found)

    def _with_hint(self, one: Finding) -> Finding:
        """Give the finding the hint that mends the index: what is not staged, or what was taken out of it."""
        if one.rule not in _BOTH_SIDES:
            return one
        gone = next((lost for lost in self._taken if lost.path == one.path), None)
        if one.rule == "memory-missing" and gone is not None:
            options = "--staged " if os.path.lexists(os.path.join(self.root, one.path)) else "--staged --worktree "
            options = options if gone.commit == self.head else f"--source={gone.commit[:10]} {options}"
            place = shlex.quote(f":/{self.repository.prefix}{one.path}" if self.repository.prefix else one.path)
            return one._replace(hint=_BACK.format(options, place, one.path))
        return one._replace(hint=_BOTH) if self._is_work_open else one

    @cached_property
    def _is_work_open(self) -> bool:
        """Whether the working tree has anything of the vault that the index has not."""
        places = (layout.MEMORIES, layout.AUDIT)
        others = self.repository.run("ls-files", "-z", "-o", "--", *self.repository.below(places))
        return bool(others or self.repository.changes(("diff-files",), places))

    def _segment(self, path: str, blob: str) -> Segment:
        return segments.read(path, self.blobs.read(blob) or b"")

    def _all_segments(self, staged: set[str]) -> Iterator[Segment]:
        """Read the index's ledger; what is staged comes last: of a row that stands twice, it is the second."""
        for path, mode, blob in sorted(_listed(self.repository, layout.AUDIT), key=lambda one: one[0] in staged):
            if _mode_problem(mode) is None:
                yield self._segment(path, blob)

    def touched(self, read: Ledger, changed: set[str]) -> set[str]:
        """Name the memories that differ from HEAD, or that rows do which differ."""
        paths = {one.path for one in self.changes if one.path.startswith(f"{layout.MEMORIES}/")} - {walker.KEEP}
        for path, events in read.events.items():
            if any(read.places[row["hash"]].segment in changed for row in events):
                paths.add(path)
        return paths

    def _look_up(self, paths: Iterable[str]) -> None:
        """Take in what the index holds, unchanged since HEAD, at paths that rows now speak of."""
        changed = {change.path for change in self.changes}
        for path in sorted(set(paths) - changed - self.seen.keys()):
            blob = self.index(path) if layout.path_problem(path) is None else None
            if blob is not None:
                self.seen[path] = Seen(b"", len(blob), sha256(blob).hexdigest())

    def _judge_all(self, read: Ledger, known: Known | None, paths: list[str]) -> list[Finding]:
        seen, damaged, seq_of = self.seen, self.damaged, known.seq_of if known else None
        checks: tuple[tuple[str, Callable[[], Iterable[Finding]]], ...] = (
            ("the segments", lambda: checks_ledger.check_faults(read, self.index, damaged, "error")),
            ("the first row", lambda: checks_ledger.check_root(read) if known is None else ()),
            ("parents and seq", lambda: checks_ledger.check_parents(read, seq_of)),
            ("gaps", lambda: checks_ledger.check_gaps(read, damaged, seq_of)),
            ("rows twice", lambda: _doubled(read, known) if known else ()),
            ("other vaults", lambda: checks_ledger.check_foreign(read)),
            ("unknown rows", lambda: checks_ledger.check_unknown(read)),
            ("put rows", lambda: checks_memory.check_puts(read, seen)),
            ("episode.logged rows", lambda: checks_memory.check_pairs(read, seen)),
            ("files and rows", lambda: checks_memory.check_memories(paths, seen, read, damaged, self.stage)),
            ("secrets", lambda: checks_memory.check_secrets(seen, read)),
        )
        return [one for name, check in checks for one in guarded(name, layout.AUDIT, check)]

    # --- against git ----------------------------------------------------------------------------------------------

    def _history(self) -> Past:
        if self.head is None or self.anchor == "none":
            return anchors.Past([], [], [])
        reference = None if self.anchor == "auto" else self.anchor
        return anchors.collect(self.repository, self.head, reference=reference, is_full=self.is_full)

    def _lost(self) -> list[Lost]:
        """Give what was taken out of the index, or changed in it, and is only ever added."""
        folders = tuple(f"{name}/" for name in ADD_ONLY)
        return [one for one in self._taken if one.path.startswith(folders)] if self.anchor != "none" else []

    @cached_property
    def _taken(self) -> list[Lost]:
        """What HEAD has, or a commit that is being merged, and the index has not as it was."""
        if self.head is None:
            return []
        lost = [Lost(one.path, one.old, "since HEAD", self.head) for one in self.changes if one.status in "DMT"]
        for commit in _merged(self.repository.root):
            lost += [
                Lost(one.path, one.old, f"in the merge of {commit[:10]}", commit)
                for one in self._changes(commit)
                if one.status in "DMT"
            ]
        return lost

    def _ask_git(self) -> Iterator[Finding]:
        if self.read is None or self.head is None or self.anchor == "none":
            return
        judge = checks_git.Judge(self.repository, self.blobs, self.read)
        found = checks_git.check_history(judge, self.past, self.index)
        is_sound = checks_git.is_sound(found)
        if is_sound and (self.past.lost or self.past.apart):
            is_sound = checks_git.is_sound(checks_git.check_history(judge, self.past, self.blobs.at(f"{self.head}:")))
        if is_sound and not self.is_full:
            anchors.save_verified(self.repository, self.head, self.past.below)
        told = {one.path for one in found}
        found += [one for one in checks_git.check_against(judge, self.lost, self.index) if one.path not in told]
        yield from found


def _doubled(read: Ledger, known: Known) -> Iterator[Finding]:
    for row in read.rows:
        if known.seq_of(row["hash"]) is not None:
            place = read.places[row["hash"]]
            yield finding("ledger-duplicate-row", place.segment, "HEAD has this row elsewhere", line=place.line)


def _listed(repository: Repository, place: str) -> Iterator[tuple[str, str, str]]:
    """Give (path, mode, blob) of what the index holds, merged, at a path or below it."""
    listed = repository.run("ls-files", "-z", "-s", "--", *repository.below([place])) or b""
    for field in listed.split(b"\0")[:-1]:
        entry, _, path = os.fsdecode(field).partition("\t")
        mode, blob, stage = entry.split(" ")
        if stage == "0":
            yield path[len(repository.prefix) :], mode, blob


def _mode_problem(mode: str) -> str | None:
    return {LINK: "is a symbolic link", GITLINK: "is no regular file"}.get(mode)


def _merged(root: str) -> list[str]:
    """Give the commits that a merge under way takes in."""
    folders = gitdir.find(root)
    try:
        with open(os.path.join(folders.private if folders else "", "MERGE_HEAD"), encoding="ascii") as handle:
            return handle.read().split()
    except (OSError, ValueError):
        return []
