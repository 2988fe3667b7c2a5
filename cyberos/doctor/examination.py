"""One examination of a vault: walk the files, read the ledger, hold them against each other, report.

Nothing is locked and nothing is written, so others may write meanwhile. The files are walked first, or by a second
process while the ledger is read. What then looks wrong is looked at again, and the ledger is read again when it has
grown, until nothing moves or twice the same is found: whatever the walk saw was logged before it came to its place.

Source: DESIGN section 5.
"""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import chain, islice
from typing import TYPE_CHECKING

from cyberos.core import layout, ledger
from cyberos.core.errors import UnsafePath
from cyberos.doctor import apart, checks_file, checks_git, checks_ledger, checks_memory, remembered, team, walker
from cyberos.doctor.against import Against
from cyberos.doctor.checks_ledger import Damage
from cyberos.doctor.checks_memory import Seen
from cyberos.doctor.findings import CRASHED, Finding, Report, finding, of_rule
from cyberos.doctor.stage import Stage, has_other_name
from cyberos.doctor.walker import Entry, guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from cyberos.core.frontmatter import Parsed
    from cyberos.core.ledger import Ledger

    _Walked = tuple[dict[str, Seen], dict[str, list[Finding]], dict[str, bytes]]

CHECKS = (
    *walker.CHECKS,
    *checks_file.CHECKS,
    *checks_memory.CHECKS,
    *checks_ledger.CHECKS,
    *checks_git.CHECKS,
    *team.CHECKS,
)
_AT_ONCE = 128  # files read before they are judged: a fourth faster than turn by turn
_ROUNDS = 8  # of looking again, while others write


def examine(
    root: str | os.PathLike[str],
    chosen: Collection[str] | None = None,
    *,
    anchor: str = "none",
    is_full: bool = False,
) -> Report:
    """Check a vault, or only the `chosen` files and folders of it and the rows about them.

    `anchor` is `none`, `auto` (against git, where there is one), or a revision that is compared besides. Unless
    `is_full`, what git shows to be as it was in the last examination is not judged again.
    """
    full = os.fspath(root)
    against = Against.git(full, anchor, is_full=is_full) if anchor != "none" else None
    before = against.key() if against is not None and chosen is None else None
    known = remembered.load(full, before) if before is not None else None
    if known is not None:
        return known
    examination = Examination(full, chosen, against)
    with uncollected():
        report = examination.report()
    # where git took a changed file for unchanged, it would not notice that it is mended either
    if against is not None and before is not None and examination.against == against:
        again = against.look_again()
        after = again.key(is_new=True)
        if after is not None and again.key() == before:  # nothing moved while we looked
            remembered.save(full, after, report)
    return report


@contextmanager
def uncollected() -> Iterator[None]:
    # all that is read stays until the end and holds no cycles: looking for them would take a third of the time
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Examination:
    """The state of one examination; `staged` has another one, of the index."""

    def __init__(self, root: str, chosen: Collection[str] | None, against: Against | None = None) -> None:
        self.root = root
        self.chosen = chosen
        self.against = against
        self.read: Ledger | None = None
        self.early: Ledger | None = None  # as it was while the files were walked
        self.stage = Stage(root)
        self.team = team.NONE
        self.seen: dict[str, Seen] = {}
        self.ids: dict[str, bytes] = {}  # by which git knows the bytes that were read
        self.of_file: dict[str, list[Finding]] = {}
        self.rows = 0

    def report(self) -> Report:
        found = guarded("the team's rules", team.PATH, self._load_team)
        found += guarded("the walk", layout.MEMORIES, self._walk)
        found += guarded("the ledger", layout.AUDIT, self._read_ledger)
        found += guarded("git", layout.AUDIT, self._ask_git)
        found += walker.case_twins(self.seen)
        for one in self.of_file.values():
            found += one
        found += self.team.echo(found)
        found = sorted(dict.fromkeys(found), key=lambda one: (one.path, one.line, one.rule, one.pointer, one.message))
        return Report(found, len(self.seen), self.rows)

    def _load_team(self) -> Iterator[Finding]:
        self.team, found = team.load(self.root, CHECKS)
        yield from found

    def _walk(self) -> Iterator[Finding]:
        claims = apart.Claims() if self.chosen is None and apart.is_large(self.root) else None
        other = apart.begin(lambda: self._walked(walker.walk(self.root, enters=claims))) if claims else None
        if other is None:
            self._walked(self._entries())
            return
        guarded("the ledger", layout.AUDIT, self._look_ahead)  # if it crashes, it will do so again in its turn
        self._walked(walker.walk(self.root, enters=claims, is_backward=True))
        seen, of_file, ids = other() or self._walked(self._entries())
        self.seen |= seen
        self.of_file |= of_file
        self.ids |= ids
        if self.against is not None:
            self.ids = self.against.unlike(self.ids)
        yield from ()  # what is found is kept by file, since a file may be looked at again

    def _look_ahead(self) -> Iterator[Finding]:
        """Do what need not wait for the walk, while another process is at it."""
        if self.against is not None:
            self.against = self.against.looked()
        with suppress(OSError, UnsafePath):
            self.early = self._scan()
        yield from ()

    def _walked(self, entries: Iterator[Entry]) -> _Walked:
        while some := list(islice(entries, _AT_ONCE)):
            for entry in some:
                self._take(entry)
        return self.seen, self.of_file, self.ids

    def _entries(self) -> Iterator[Entry]:
        if self.chosen is None:
            yield from walker.walk(self.root)
            return
        for path in sorted(self.chosen):
            if path.split("/")[0] != layout.MEMORIES or path == walker.KEEP:
                continue
            full = os.path.join(self.root, path)
            if os.path.isdir(full) and not os.path.islink(full):
                yield from walker.walk(self.root, path)
            elif (entry := walker.look(self.root, path)) is not None:
                yield entry

    def _take(self, entry: Entry) -> None:
        """Judge a file, in place of what was known of its path."""
        path = entry.path
        if entry.fault is not None:
            self.seen[path] = Seen(entry.identity, entry.size, None)
            rule, message = entry.fault
            self.of_file[path] = [finding(rule, path, message)]
            return
        self.of_file.pop(path, None)
        blob = entry.blob or b""
        self._note(path, blob)
        digest = sha256(blob).hexdigest()
        found = guarded("the file", path, lambda: self._judge(entry, digest))
        self.seen.setdefault(path, Seen(entry.identity, entry.size, digest))  # when the check crashed
        if entry.links > 1 and has_other_name(self.root, path, self.stage):
            found.append(finding("layout-file-regular", path, "has a second name (a hard link)"))
        if found:
            self.of_file[path] = found

    def _note(self, path: str, blob: bytes) -> None:
        if self.against is not None and self.against.repository is not None:
            self.ids[path] = self.against.repository.digest_of(blob)

    def _judge(self, entry: Entry, digest: str) -> Iterator[Finding]:
        path = entry.path
        self.seen.pop(path, None)
        judged = checks_file.judge(path, entry.blob or b"")
        yield from judged.findings
        suspect = checks_file.suspect(path, judged)
        self.seen[path] = Seen(entry.identity, entry.size, digest, judged.told, suspect)
        if judged.parsed is not None and self.team.laws:
            yield from self._ask_team(path, judged.parsed)

    def _ask_team(self, path: str, parsed: Parsed) -> Iterator[Finding]:
        for rule, pointer, message in self.team.judge(parsed.frontmatter):
            line = checks_file.line_of(parsed, pointer)
            yield of_rule(rule, path, message, line=line, pointer=pointer)

    def _read_ledger(self) -> Iterator[Finding]:
        paths: set[str] | None = None
        before: set[Finding] = set()
        for _ in range(_ROUNDS):
            try:
                read, self.early = self.early or self._scan(), None
            except (OSError, UnsafePath) as error:
                reason = getattr(error, "strerror", None) or str(error)
                yield finding("layout-file-regular", layout.AUDIT, f"cannot be read: {reason}")
                return
            self.stage = Stage(self.root)  # after the rows: a body is staged before its rows are written
            damaged = Damage({}, set(), {})
            found = self._hold_together(read, damaged, paths)
            paths = {one.path for one in found if one.rule in checks_memory.CHECKS} | set(self.of_file)
            is_same = not self._look_again(paths)
            if is_same and (set(found) == before or not checks_ledger.has_grown(read, self.root)):
                break
            before = set(found)
        self.read = read
        yield from self._about_chosen(read, damaged, found)

    def _scan(self) -> Ledger:
        return ledger.scan(self.root, self._note)

    def _ask_git(self) -> Iterator[Finding]:
        if self.against is not None and self.read is not None:
            self.against = self.against.looked().compare(self.ids)
            self.ids.clear()
            yield from (one for one in self.against.check(self.read) if self._is_chosen(one.path))

    def _hold_together(self, read: Ledger, damaged: Damage, only: set[str] | None) -> list[Finding]:
        """Run every check that needs the ledger, each guarded; the first fills `damaged` for the others.

        `only` names the files to compare: those that seemed wrong before, when this is not the first time.
        """
        root, seen = self.root, self.seen
        memories = read.memories
        every: Iterable[str] = chain(memories, (path for path in seen if path not in memories))
        if only is not None or self.chosen is not None:
            every = (path for path in every if self._is_chosen(path) and (only is None or path in only))
        paths = sorted(every)
        checks: tuple[tuple[str, Callable[[], Iterable[Finding]]], ...] = (
            ("the segments", lambda: checks_ledger.check_faults(read, walker.reader(root), damaged)),
            ("names of segments", lambda: checks_ledger.check_links(read, root)),
            ("the first row", lambda: checks_ledger.check_root(read)),
            ("parents and seq", lambda: checks_ledger.check_parents(read)),
            ("gaps", lambda: checks_ledger.check_gaps(read, damaged)),
            ("other vaults", lambda: checks_ledger.check_foreign(read)),
            ("unknown rows", lambda: checks_ledger.check_unknown(read)),
            ("put rows", lambda: checks_memory.check_puts(read, seen)),
            ("episode.logged rows", lambda: checks_memory.check_pairs(read, seen)),
            ("files and rows", lambda: checks_memory.check_memories(paths, seen, read, damaged, self.stage)),
            ("secrets", lambda: checks_memory.check_secrets(seen, read)),
        )
        return [one for name, check in checks for one in guarded(name, layout.AUDIT, check)]

    def _look_again(self, paths: set[str]) -> bool:
        """Look again at files that seem wrong; report whether any has changed since it was read."""
        is_changed = False
        for path in paths:
            before = self.seen.get(path)
            if path.split("/")[0] != layout.MEMORIES or (before is not None and before.digest is None):
                continue  # a segment, or what could not be read as a memory
            entry = walker.look_again(self.root, path, before.identity if before else None)
            if entry is walker.SAME:
                continue
            is_changed = True
            self.seen.pop(path, None)
            self.of_file.pop(path, None)
            if entry is not None:
                self._take(entry)
        return is_changed

    def _is_chosen(self, path: str) -> bool:
        if self.chosen is None or path in self.chosen:
            return True
        parts = path.split("/")
        return any("/".join(parts[:depth]) in self.chosen for depth in range(1, len(parts)))

    def _about_chosen(self, read: Ledger, damaged: Damage, found: list[Finding]) -> list[Finding]:
        """Keep what is about the chosen files: findings on them and their rows, and the damage that hides rows."""
        if self.chosen is None:
            self.rows = len(read.rows) + len(read.foreign)
            return found
        rows = [row for path, events in read.events.items() if self._is_chosen(path) for row in events]
        places = {tuple(read.places[row["hash"]]) for row in rows}
        digests = {seen.digest for path, seen in self.seen.items() if self._is_chosen(path)}
        hiding = {segment for name, segment in damaged.named.items() if name in digests or self._is_chosen(name)}
        self.rows = len(rows)
        return [
            one
            for one in found
            if self._is_chosen(one.path) or (one.path, one.line) in places or one.path in hiding or one.rule == CRASHED
        ]
