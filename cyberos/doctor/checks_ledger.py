"""The ledger's rows among themselves: what the reader of segments found, parents, seq, gaps, other vaults.

What follows from a fault is left out where the fault itself is told: the rest of a transaction of which one row is
damaged, the parent that stood in a damaged line.

Source: DESIGN sections 3 and 5.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import segments
from cyberos.core.layout import AUDIT
from cyberos.core.rows import is_known
from cyberos.core.text import conflict_line
from cyberos.doctor.findings import Finding, finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cyberos.core.ledger import Ledger
    from cyberos.core.rows import Row
    from cyberos.core.segments import Fault, Segment

CHECKS = (
    "ledger-row-parse",
    "ledger-row-unknown",
    "ledger-hash",
    "ledger-prev",
    "ledger-seq",
    "ledger-tx",
    "ledger-duplicate-row",
    "ledger-segment-name",
    "ledger-root",
    "ledger-gap",
    "ledger-foreign-vault",
)
_NAMED = re.compile(rb'path":"(memories/[^"\\]+)|sha256":"([0-9a-f]{64})')
_HASH = re.compile(rb'"hash":"([0-9a-f]{64})"')


class Damage(NamedTuple):
    """What the lines that damage hides still say.

    `named` gives the segment for each path and each digest of a body that such a line names, `hashes` are those of
    hidden rows, `conflicts` gives the line of a segment's first conflict marker.
    """

    named: dict[str, str]
    hashes: set[str]
    conflicts: dict[str, int]


def check_faults(
    ledger: Ledger, read: Callable[[str], bytes | None], damaged: Damage, torn: str = "warning"
) -> Iterator[Finding]:
    """Tell what reading the segments found, each fault once; fill `damaged` from the lines that nobody could read.

    `read` gives a segment's bytes again, `torn` is the severity of what a crash may leave.
    """
    for segment in ledger.segments:
        if any(not fault.is_torn for fault in segment.faults):
            _read_hidden(segment, read(segment.path), damaged)
    doubled = {(fault.segment, fault.line) for fault in ledger.faults if fault.rule == "ledger-duplicate-row"}
    for path, line in damaged.conflicts.items():
        yield finding("no-conflict-markers", path, "an unresolved merge conflict begins here", line=line)
    beheaded = {segment.path for segment in ledger.segments if segment.lines and segment.lines[0] > 1}
    before: Fault | None = None
    for fault in sorted(ledger.faults, key=lambda one: (one.segment, one.line)):
        is_rest = before is not None and _continues(before, fault)
        before = fault
        if is_rest or (fault.rule == "ledger-seq" and (fault.segment, fault.line) in doubled):
            continue
        if fault.rule == "ledger-segment-name" and fault.segment in beheaded:
            continue
        if fault.segment in damaged.conflicts and fault.rule in ("ledger-row-parse", "ledger-tx", "ledger-seq"):
            continue
        severity, hint = (torn, _TORN_HINT) if fault.is_torn else ("", None)
        yield finding(fault.rule, fault.segment, fault.message, line=fault.line, severity=severity, hint=hint)


_TORN_HINT = (
    "a crash left this: the next write takes it away, and where git tracks the file `cyberos doctor --fix` does"
)


def _read_hidden(segment: Segment, blob: bytes | None, damaged: Damage) -> None:
    if blob is None:
        return
    conflict = conflict_line(blob.decode("latin-1"))
    if conflict:
        damaged.conflicts[segment.path] = conflict
    visible = set(segment.lines)
    torn = min((fault.line for fault in segment.faults if fault.is_torn), default=None)
    for number, line in enumerate(blob.split(b"\n"), 1):
        if torn is not None and number >= torn:
            return
        if number not in visible:
            damaged.hashes.update(name.decode() for name in _HASH.findall(line))
            for path, digest in _NAMED.findall(line):
                damaged.named.setdefault((path or digest).decode("utf-8", "replace"), segment.path)


def _continues(before: Fault, fault: Fault) -> bool:
    # after a damaged row, each later row of its transaction is one without those before it
    return (
        fault.rule == "ledger-tx"
        and not fault.is_torn
        and before.rule in ("ledger-tx", "ledger-hash", "ledger-row-parse")
        and before.segment == fault.segment
        and fault.line - before.line <= 1
    )


def check_links(ledger: Ledger, root: str) -> Iterator[Finding]:
    """Look for segments that have a second name."""
    for segment in ledger.segments:
        try:
            links = os.lstat(os.path.join(root, segment.path)).st_nlink
        except OSError:
            continue
        if links > 1:
            yield finding("layout-file-regular", segment.path, "has a second name (a hard link)")


def check_root(ledger: Ledger) -> Iterator[Finding]:
    """Check how the ledger begins; a damaged ledger may have lost its beginning to the damage."""
    if any(not fault.is_torn for fault in ledger.faults):
        return
    if not ledger.rows:
        yield finding("ledger-root", AUDIT, "the ledger holds no rows")
        return
    created = [row for row in ledger.rows if row["kind"] == "vault.created"]
    if not created:
        yield _at(ledger, "ledger-root", ledger.rows[0], "no vault.created row begins the ledger")
    for row in created:
        if is_known(row) and row["payload"]["vault"][:16] != row["vault"]:
            message = f"the row is of vault {row['vault']} and begins vault {row['payload']['vault'][:16]}"
            yield _at(ledger, "ledger-root", row, message)


def check_parents(ledger: Ledger, seq_of: Callable[[str], int | None] | None = None) -> Iterator[Finding]:
    """Check each row's parents and seq. A parent that comes no earlier makes seq wrong too, and is told alone.

    `seq_of` knows the rows that the ledger given here does not hold.
    """
    seqs = {name: row["seq"] for name, row in ledger.named_by(ledger.joints).items()}
    if seq_of is not None:
        named = {parent for row in ledger.joints for parent in row["prev"]} - seqs.keys()
        seqs |= {parent: seq for parent in named if (seq := seq_of(parent)) is not None}
    for row in ledger.joints:
        parents, seq = row["prev"], row["seq"]
        if not parents:
            if row["kind"] != "vault.created":
                yield _at(ledger, "ledger-prev", row, f"a {row['kind']} row has parents; this one has none")
            elif seq != 1:
                yield _at(ledger, "ledger-seq", row, f"seq is {seq}; the first row's is 1")
            continue
        if len(parents) == 1 and seqs.get(parents[0]) == seq - 1:
            continue  # as nearly every row
        known = [seqs[parent] for parent in parents if parent in seqs]
        highest = max(known, default=0)
        if highest >= seq:
            yield _at(ledger, "ledger-prev", row, f"seq is {seq}, and a parent has seq {highest}")
        elif seq != highest + 1 and len(known) == len(parents):
            yield _at(ledger, "ledger-seq", row, f"seq is {seq}; one more than its largest parent's is {highest + 1}")


def check_gaps(ledger: Ledger, damaged: Damage, seq_of: Callable[[str], int | None] | None = None) -> Iterator[Finding]:
    """Tell of each parent that is not there; `seq_of` as for `check_parents`."""
    for parent, place in ledger.missing.items():
        if parent not in damaged.hashes and (seq_of is None or seq_of(parent) is None):
            message = f"the parent {parent[:16]}… is not in the ledger"
            yield finding("ledger-gap", place.segment, message, line=place.line)


def check_foreign(ledger: Ledger) -> Iterator[Finding]:
    """Tell of other vaults' rows, once for each segment and vault."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in ledger.foreign:
        found.setdefault((ledger.places[row["hash"]].segment, row["vault"]), []).append(row)
    for (_, vault), rows in found.items():
        first = min(rows, key=lambda row: ledger.places[row["hash"]].line)
        count = "a row" if len(rows) == 1 else f"{len(rows):,} rows"
        hint = f"take the segment away, or accept the other vault's rows with `cyberos audit adopt {vault}`"
        made = _at(ledger, "ledger-foreign-vault", first, f"{count} of vault {vault}; this is vault {ledger.vault}")
        yield made._replace(hint=hint)


def check_unknown(ledger: Ledger) -> Iterator[Finding]:
    """Tell of rows that a newer cyberos, or another tool, has written."""
    for row in ledger.rows:
        if not is_known(row):
            yield _at(ledger, "ledger-row-unknown", row, f"version {row['v']}, kind {row['kind']}")


def _at(ledger: Ledger, rule: str, row: Row, message: str) -> Finding:
    place = ledger.places[row["hash"]]
    return finding(rule, place.segment, message, line=place.line)


def has_grown(read: Ledger, root: str) -> bool:
    """Report whether a segment came, went or changed its size since the ledger was read."""
    known = {segment.path: segment.size for segment in read.segments}
    now = {}
    for path in segments.iter_paths(root):
        try:
            now[path] = os.lstat(os.path.join(root, path)).st_size
        except OSError:
            return True
    return now != known
