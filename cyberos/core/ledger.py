"""The ledger as a whole: a Merkle DAG of rows, read from all segments.

Each row names all heads that its writer saw as its parents (`prev`), so one branch is a plain chain and a git merge
leaves several heads that the next row joins. Heads are the visible rows of this vault that no such row names. The
vault's own id is that of the vault.created row with the lowest (ts, hash), and every id that its rows adopted; rows
of other ids are foreign and take no part.

Source: DESIGN section 3; Merkle DAGs as in git itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import segments
from cyberos.core.dag import Dag
from cyberos.core.files import Files
from cyberos.core.rows import PUTS, VERSION, is_known
from cyberos.core.segments import Fault, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from cyberos.core.rows import Row


class Place(NamedTuple):
    """Where a row stands."""

    segment: str
    line: int


class Memory(NamedTuple):
    """What the ledger says of one path. `puts` are the rows whose bytes may stand there now: none when forgotten."""

    path: str
    events: list[Row]
    puts: list[Row]
    is_forgotten: bool
    is_quarantined: bool

    @property
    def last_put(self) -> Row:
        return max((row for row in self.events if row["kind"] in PUTS), key=_order)

    @property
    def last_seen_at(self) -> str:
        """The `ts` of the newest put."""
        return str(self.last_put["ts"])


class Ledger:
    """All rows of a vault. Build it with `scan`, or from segments already read."""

    def __init__(self, read: Iterable[Segment], vaults: list[str] | None = None) -> None:
        """Take segments; `vaults` are the vault's ids where these are only a part of its ledger."""
        self.segments = list(read)
        self.faults: list[Fault] = [fault for segment in self.segments for fault in segment.faults]
        every: list[Row] = []
        known: set[str] = set()
        for segment in self.segments:
            for line, row in zip(segment.lines, segment.rows, strict=True):
                if row["hash"] in known:
                    first = self.places[row["hash"]]
                    message = f"the row of {first.segment}:{first.line} stands here again"
                    self.faults.append(Fault(segment.path, line, "ledger-duplicate-row", message))
                    continue
                known.add(row["hash"])
                every.append(row)
        every.sort(key=_order)
        self.vaults = _own_vaults(every) if vaults is None else vaults
        self.rows = [row for row in every if row["vault"] in self.vaults]
        self.foreign = [row for row in every if row["vault"] not in self.vaults]
        self.dag = Dag(self.rows)

    @property
    def vault(self) -> str | None:
        """The vault's own id, 16 hex digits; None for a ledger without rows."""
        return self.vaults[0] if self.vaults else None

    @property
    def heads(self) -> list[Row]:
        """The rows that the next row will have as parents, sorted by hash."""
        return self.dag.heads

    @property
    def head_seq(self) -> int:
        """The largest seq; 0 for an empty ledger."""
        return max((row["seq"] for row in self.heads), default=0)

    def row(self, seq: int) -> Row | None:
        """Give the row of this seq; the lowest hash where branches have several."""
        return next((row for row in self.rows if row["seq"] == seq), None)

    @cached_property
    def places(self) -> dict[str, Place]:
        """Where each row stands, by its hash; of one that stands several times, the first."""
        found: dict[str, Place] = {}
        for segment in self.segments:
            for line, row in zip(segment.lines, segment.rows, strict=True):
                found.setdefault(row["hash"], Place(segment.path, line))
        return found

    @cached_property
    def joints(self) -> list[Row]:
        """The rows that do not simply follow the row before them, in the order of `rows`."""
        found = []
        name, seq = "", 0
        for row in self.rows:
            if row["prev"] != [name] or row["seq"] != seq + 1:
                found.append(row)
            name, seq = row["hash"], row["seq"]
        return found

    def named_by(self, rows: Iterable[Row]) -> dict[str, Row]:
        """Give the parents of these rows that are here, by their hashes."""
        named = {parent for row in rows for parent in row["prev"]}
        return {row["hash"]: row for row in self.rows if row["hash"] in named}

    @cached_property
    def missing(self) -> dict[str, Place]:
        """Parents that no row has and no gap.acknowledged row names, each with the place of a row that names it."""
        known = set(self.named_by(self.joints))
        for row in self.rows:
            if row["kind"] == "gap.acknowledged" and is_known(row):
                known.update(row["payload"]["missing"])
        return {
            parent: self.places[row["hash"]]
            for row in reversed(self.joints)
            for parent in row["prev"]
            if parent not in known
        }

    @cached_property
    def events(self) -> dict[str, list[Row]]:
        """Every row that names a path in its payload, by path, in the order of (seq, hash)."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            path = row["payload"].get("path")
            if isinstance(path, str) and row["v"] == VERSION:  # what another version's payload means nobody can say
                found.setdefault(path, []).append(row)
        return found

    @property
    def memories(self) -> Memories:
        """What the ledger says of each path that was ever put."""
        return Memories(self)

    def memory(self, path: str, events: list[Row]) -> Memory:
        """Say what these rows, all that there are of a path, make of it."""
        if is_logged(events):
            return Memory(path, events, events[:1], False, False)
        puts = [row for row in events if row["kind"] in PUTS]
        forgets = [row for row in events if row["kind"] == "memory.forgotten"]
        if len(puts) > 1 or (puts and forgets):
            # a put lives if no later put descends from it, and if it descends from every forgetting of its path
            last = [row for row in puts if not any(self._descends(other, row) for other in puts)]
            puts = [row for row in last if all(self._descends(row, forget) for forget in forgets)]
        return Memory(path, events, puts, not puts, self.is_quarantined(events))

    def is_quarantined(self, events: list[Row]) -> bool:
        """Report whether among the rows of one path there is a quarantine that no release descends from."""
        releases = [row for row in events if row["kind"] == "memory.released"]
        hidden = [row for row in events if row["kind"] == "memory.quarantined"]
        return any(not any(self._descends(release, row) for release in releases) for row in hidden)

    def _descends(self, row: Row, ancestor: Row) -> bool:
        return self.dag.descends(row["hash"], ancestor["hash"])


class Memories(Mapping[str, Memory]):
    """The memories of a ledger by path, each made when it is asked for: a doctor looks at every one of them once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getitem__(self, path: str) -> Memory:
        events = self._ledger.events[path]
        if not _is_put(events):
            raise KeyError(path)
        return self._ledger.memory(path, events)

    def __contains__(self, path: object) -> bool:
        events = self._ledger.events.get(path) if isinstance(path, str) else None
        return events is not None and _is_put(events)

    def __iter__(self) -> Iterator[str]:
        return (path for path, events in self._ledger.events.items() if _is_put(events))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _is_put(events: list[Row]) -> bool:
    return events[0]["kind"] in PUTS or any(row["kind"] in PUTS for row in events)


def scan(root: Path | str, noted: Callable[[str, bytes], None] | None = None) -> Ledger:
    """Read every segment below `audit/`. A file that cannot be read safely is a fault, not an error.

    `noted` is told the bytes of each.
    """
    return Ledger(iter_segments(root, noted))


def iter_segments(root: Path | str, noted: Callable[[str, bytes], None] | None = None) -> Iterable[Segment]:
    """Read the segments one by one, in the order of their names; `noted` as for `scan`."""
    files = Files(root)
    for path in segments.iter_paths(str(root)):
        try:
            blob = files.read(path)
        except FileNotFoundError:
            continue  # git took it away while we were looking
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
            yield Segment(path, [], [], [Fault(path, 1, "layout-file-regular", str(reason))], 0, 0)
            continue
        if noted is not None:
            noted(path, blob)
        yield segments.read(path, blob)


def is_logged(events: Sequence[Row]) -> bool:
    """Report whether these rows of one path are those of an episode that was logged, as nearly all are."""
    return len(events) == len(_LOGGED) and (events[0]["kind"], events[1]["kind"]) == _LOGGED


_LOGGED = ("put", "episode.logged")


def _order(row: Row) -> tuple[int, str]:
    return row["seq"], row["hash"]


def _own_vaults(every: list[Row]) -> list[str]:
    """Give the vault's own id first, then the adopted ones."""
    created = [row for row in every if row["kind"] == "vault.created"] or every
    if not created:
        return []
    own = [min(created, key=lambda row: (row["ts"], row["hash"]))["vault"]]
    adoptions = [row for row in every if row["kind"] == "vault.adopted" and is_known(row)]
    found = True
    while found:
        news = [_short(row) for row in adoptions if row["vault"] in own and _short(row) not in own]
        own += dict.fromkeys(news)
        found = bool(news)
    return own


def _short(row: dict[str, Any]) -> str:
    return str(row["payload"]["vault"])[:16]


def folder_times(root: Path | str) -> dict[str, int]:
    """Give the modification times, in ns, of `audit/` and the folders below it.

    They change when a segment comes or goes.
    """
    found = {}
    pending = ["audit"]
    while pending:
        folder = pending.pop()
        full = os.path.join(root, folder)
        try:
            found[folder] = os.stat(full).st_mtime_ns
            if folder.count("/") < 2:  # noqa: PLR2004 - audit/<month>/<day> has no folders of its own
                pending += [
                    f"{folder}/{entry.name}" for entry in os.scandir(full) if entry.is_dir(follow_symlinks=False)
                ]
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found
