"""What the ledger says that the catalog has not seen.

`is_seen` is the cheap question of every recall: a handful of stats. `read` then gives a delta: only segments that are
new or have grown are read, from where they were left. A row that follows all that is known is simply applied; rows of
another branch are, too, as long as each touches a path that nothing else touches. Everything else (segments gone or
shorter, another vault's rows, a gap, two branches on one path) is judged by reading the whole ledger.

Source: DESIGN sections 3 and 6; the racy-clean rule of git's index (Documentation/technical/racy-git.txt).
"""

from __future__ import annotations

import json
import os
import time
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import layout, segments
from cyberos.core.ledger import Ledger, folder_times
from cyberos.core.recovery import DAMAGE
from cyberos.core.rows import PUTS, is_known
from cyberos.index.catalog import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cyberos.core.files import Files
    from cyberos.core.rows import Row
    from cyberos.core.segments import Segment
    from cyberos.index.catalog import Catalog
    from cyberos.index.entry import Entry

_RACY_NS = 2_000_000_000
_FORGET, _QUARANTINE, _RELEASE = "memory.forgotten", "memory.quarantined", "memory.released"
_VAULTS = ("vault.created", "vault.adopted")


class Standing(NamedTuple):
    """What the ledger says of one path; `live` are the digests that may stand there, none when it is forgotten."""

    live: tuple[str, ...] = ()
    seq: int = 0
    last_seen_at: str = ""
    is_quarantined: bool = False
    actor: str = ""


class Changes(NamedTuple):
    """What the catalog must take over. `is_whole`: the ledger knows nothing but what stands here."""

    standings: dict[str, Standing]
    marks: dict[str, Mark]
    joints: list[str]
    meta: dict[str, Any]
    is_whole: bool


class _Doubt(Exception):
    """No error: the ledger has to be read whole."""


def standing_of(entry: Entry) -> Standing:
    """Give what the ledger said when the entry was made."""
    return Standing(tuple(entry.digests), entry.seq, entry.last_seen_at, bool(entry.is_quarantined), entry.actor)


def is_seen(files: Files, catalog: Catalog) -> bool:
    """Report whether the ledger is as it was when the catalog last read it."""
    if catalog.get("folders") != folder_times(files.root) or catalog.get("head") != _head(files):
        return False
    return all(_status(files, path) == tuple(mark[:2]) for path, mark in catalog.get("open").items())


def read(files: Files, catalog: Catalog, *, whole: bool = False) -> Changes:
    """Read what is new, or with `whole` everything."""
    # both before any listing, so that what changes meanwhile is seen next time
    look = {"folders": folder_times(files.root), "head": _head(files)}
    if not whole and catalog.get("folders") is not None:
        try:
            return _delta(files, catalog, look)
        except _Doubt:
            pass
    return _whole(files, look)


def _whole(files: Files, look: dict[str, Any]) -> Changes:
    found: list[Segment] = []
    marks: dict[str, Mark] = {}
    for path in segments.iter_paths(files.root):
        if layout.is_segment_path(path) and (news := _read(files, path, None)) is not None:
            found.append(news[0])
            marks[path] = news[1]
    ledger = Ledger(found)
    standings = {path: _standing(ledger, path) for path in ledger.events if layout.path_problem(path) is None}
    known = {row["hash"] for row in ledger.rows}
    meta = {
        "heads": [row["hash"] for row in ledger.heads],
        "vaults": ledger.vaults,
        "gaps": not all(known.issuperset(row["prev"]) for row in ledger.rows),
        "damage": next(iter(_damage(found)), None),
        "open": _open(marks, look["head"]),
        "folders": _steady(look["folders"]),
        "head": look["head"],
    }
    said = {path: standing for path, standing in standings.items() if standing != Standing()}
    return Changes(said, marks, _joints(ledger.rows), meta, is_whole=True)


def _damage(found: list[Segment]) -> list[str]:
    """Name the places where rows cannot be read, so that what they say is missing here."""
    return [
        f"{fault.segment}:{fault.line}"
        for segment in found
        for fault in segment.faults
        if fault.rule in DAMAGE and not fault.is_torn
    ]


def _standing(ledger: Ledger, path: str) -> Standing:
    memory = ledger.memories.get(path)
    if memory is None:  # rows about a path whose put stands on another branch, or in a gap
        events = ledger.events[path]
        is_told = any(row["kind"] in (_FORGET, _QUARANTINE, _RELEASE) for row in events)
        return Standing(seq=1, is_quarantined=ledger.is_quarantined(events)) if is_told else Standing()
    live = tuple(dict.fromkeys(row["payload"]["sha256"] for row in memory.puts if is_known(row)))
    last = memory.last_put
    return Standing(live, last["seq"], last["ts"], memory.is_quarantined, last["actor"])


def _delta(files: Files, catalog: Catalog, look: dict[str, Any]) -> Changes:
    marks, found = _news(files, catalog, look["folders"])
    if _damage(found):
        raise _Doubt
    rows = _unknown_rows(found, catalog)
    gaps = _has_gap(rows, catalog)
    heads, is_chain = _follow(set(catalog.get("heads")), rows)
    if not is_chain and (gaps or catalog.get("gaps") or not _is_disjoint(rows, catalog)):
        raise _Doubt
    standings: dict[str, Standing] = {}
    for row in rows:
        _apply(row, standings, catalog)
    near = {path: Mark(*mark) for path, mark in catalog.get("open").items()} | marks
    if look["head"] not in near and look["head"] in (of_day := catalog.marks(os.path.dirname(look["head"]))):
        near[look["head"]] = of_day[look["head"]]
    meta = {
        "heads": sorted(heads),
        "gaps": gaps or catalog.get("gaps"),
        "open": _open(near, look["head"]),
        "folders": _steady(look["folders"]),
        "head": look["head"],
    }
    return Changes(standings, marks, _joints(rows), meta, is_whole=False)


def _news(files: Files, catalog: Catalog, folders: dict[str, int]) -> tuple[dict[str, Mark], list[Segment]]:
    """Read the segments that came or grew: those in folders whose time changed, and those that were open."""
    before = catalog.get("folders")
    changed = [day for day in {**before, **folders} if day.count("/") == 2 and before.get(day) != folders.get(day)]  # noqa: PLR2004
    known = {path: Mark(*mark) for path, mark in catalog.get("open").items()}
    paths = set(known)
    for day in changed:
        of_day = catalog.marks(day)
        present = {path for name in files.names(day) if layout.is_segment_path(path := f"{day}/{name}")}
        if of_day.keys() - present:
            raise _Doubt
        known |= of_day
        paths |= present
    marks: dict[str, Mark] = {}
    found = []
    for path in sorted(paths):
        mark = known.get(path)
        if mark is not None and _status(files, path) == mark[:2]:
            continue
        news = _read(files, path, mark)
        if news is not None:
            found.append(news[0])
            marks[path] = news[1]
        elif mark is not None:
            raise _Doubt
    return marks, found


def _read(files: Files, path: str, mark: Mark | None) -> tuple[Segment, Mark] | None:
    """Read what a segment holds beyond its mark; None where nothing can be read. Raises: _Doubt."""
    status = _status(files, path)
    try:
        blob = files.read(path)
    except (OSError, ValueError):
        return None
    start = mark.whole if mark is not None else 0
    if mark is not None and (len(blob) < start or sha256(blob[:start]).hexdigest() != mark.digest):
        raise _Doubt
    segment = segments.read(path, blob[start:])
    whole = start + segment.whole_bytes
    return segment, Mark(*status, whole, sha256(blob[:whole]).hexdigest())


def _status(files: Files, path: str) -> tuple[int, int]:
    try:
        found = files.stat(path)
    except (OSError, ValueError):
        found = None
    return (found.st_size, found.st_mtime_ns) if found is not None else (-1, -1)


def _unknown_rows(found: list[Segment], catalog: Catalog) -> list[Row]:
    """Give this vault's rows that were not applied, parents first. Raises: _Doubt where the vault itself changes."""
    rows: dict[str, Row] = {}
    for transaction in chain.from_iterable(map(_transactions, found)):
        if not catalog.has_joint(transaction[-1]["hash"]):
            rows |= {row["hash"]: row for row in transaction}
    if any(row["kind"] in _VAULTS for row in rows.values()):
        raise _Doubt
    vaults = catalog.get("vaults")
    return sorted((row for row in rows.values() if row["vault"] in vaults), key=lambda row: (row["seq"], row["hash"]))


def _transactions(segment: Segment) -> Iterator[list[Row]]:
    pending: list[Row] = []
    for row in segment.rows:
        pending.append(row)
        if row["tx"][0] == row["tx"][1]:
            yield pending
            pending = []


def _joints(rows: Iterable[Row]) -> list[str]:
    return [row["hash"] for row in rows if row["tx"][0] == row["tx"][1]]


def _has_gap(rows: list[Row], catalog: Catalog) -> bool:
    known = {row["hash"] for row in rows}
    return any(parent not in known and not catalog.has_joint(parent) for row in rows for parent in row["prev"])


def _follow(heads: set[str], rows: list[Row]) -> tuple[set[str], bool]:
    """Give the heads after these rows, and whether each row came after all that was there before it."""
    is_chain = True
    for row in rows:
        is_chain = is_chain and heads.issubset(row["prev"])
        heads = heads.difference(row["prev"]) | {row["hash"]}
    return heads, is_chain


def _is_disjoint(rows: list[Row], catalog: Catalog) -> bool:
    """Report whether each path is touched by one row alone, so that the order of branches says nothing.

    Quarantines need no order among themselves.
    """
    touched = [row["payload"].get("path") for row in rows if row["kind"] in (*PUTS, _FORGET, _RELEASE)]
    return len(touched) == len(set(touched)) and all(catalog.entry(str(path)) is None for path in touched)


def _apply(row: Row, standings: dict[str, Standing], catalog: Catalog) -> None:
    kind, path = row["kind"], row["payload"].get("path")
    if (
        not is_known(row)
        or kind not in (*PUTS, _FORGET, _QUARANTINE, _RELEASE)
        or layout.path_problem(path) is not None
    ):
        return
    if path not in standings:
        entry = catalog.entry(path)
        standings[path] = standing_of(entry) if entry is not None else Standing(seq=1)
    if kind in PUTS:
        digest = (row["payload"]["sha256"],)
        told = {"seq": row["seq"], "last_seen_at": row["ts"], "actor": row["actor"]}
        standings[path] = standings[path]._replace(live=digest, **told)
    elif kind == _FORGET:
        standings[path] = standings[path]._replace(live=())
    else:
        standings[path] = standings[path]._replace(is_quarantined=kind == _QUARANTINE)


def _head(files: Files) -> str:
    """Name the segment that the next writer may append to, as the last one left word; empty when it did not."""
    try:
        found = json.loads(files.read(layout.HEAD))["segment"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) and layout.is_segment_path(found) else ""


def _open(marks: dict[str, Mark], head: str) -> dict[str, Mark]:
    """Choose the segments that may still grow: the one that HEAD names, and the one written last."""
    newest = max(marks, key=lambda path: marks[path].mtime_ns, default=head)
    return {path: marks[path] for path in {head, newest} if path in marks}


def _steady(folders: dict[str, int]) -> dict[str, int]:
    """Void the times that a change in the same tick could repeat: young ones that no writer of ours has set."""
    now = time.time_ns()
    return {
        folder: 0 if now - at < _RACY_NS and (at % 1_000 or not at % 1_000_000_000) else at
        for folder, at in folders.items()
    }
