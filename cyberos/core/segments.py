"""A ledger segment: rows one per line, in whole transactions, ending in LF.

`read` judges the bytes of one segment. Rows of an incomplete transaction are visible to nobody. What stands after the
last whole transaction and could be what a crash leaves (a beginning of rows, cut off anywhere, or blocks of zeros) is
the torn tail; everything else that is wrong is damage.

Source: DESIGN section 3; the torn-write model of LazyFS and ALICE (OSDI 2014).
"""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import pairs
from cyberos.core.layout import AUDIT, is_segment_path, segment_path
from cyberos.core.rows import Row, RowError, parse_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_SEGMENT_BYTES = 1024 * 1024


class Fault(NamedTuple):
    """Something wrong in a segment. `line` counts from 1; `is_torn` marks what a crash may leave."""

    segment: str
    line: int
    rule: str
    message: str
    is_torn: bool = False


class Segment(NamedTuple):
    """What a segment's bytes say: the visible rows and the line of each, the faults, and where its whole part ends."""

    path: str
    rows: list[Row]
    lines: Sequence[int]
    faults: list[Fault]
    whole_bytes: int
    size: int

    @property
    def is_torn(self) -> bool:
        return any(fault.is_torn for fault in self.faults)


def iter_paths(root: str) -> Iterator[str]:
    """Name every file below `audit/`, sorted, following no links."""
    pending = [AUDIT]
    while pending:
        folder = pending.pop()
        try:
            entries = sorted(os.scandir(os.path.join(root, folder)), key=lambda entry: entry.name, reverse=True)
        except (FileNotFoundError, NotADirectoryError):
            continue
        files = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(f"{folder}/{entry.name}")
            else:
                files.append(f"{folder}/{entry.name}")
        yield from reversed(files)


def read(path: str, blob: bytes) -> Segment:
    """Judge the bytes of the segment at `path`."""
    if not is_segment_path(path):
        message = "no segment: not audit/<yyyy-mm>/<dd>/<16 hex digits>.jsonl"
        return Segment(path, [], [], [Fault(path, 1, "ledger-segment-name", message)], 0, len(blob))
    reading = _Reading(path)
    number, offset, text = 1, 0, blob.decode("latin-1")
    while offset < len(blob):
        number, offset = reading.take_pairs(number, offset, blob, text)
        end = blob.find(b"\n", offset)
        if end < 0:
            break
        reading.take(number, blob[offset:end], end + 1)
        number, offset = number + 1, end + 1
    reading.finish(number, blob[offset:])
    if reading.rows:
        reading.check_name()
    count = len(reading.rows)
    is_whole = count and reading.lines[-1] == count  # they only rise
    lines: Sequence[int] = range(1, count + 1) if is_whole else reading.lines
    return Segment(path, reading.rows, lines, reading.faults, reading.whole, len(blob))


class _Reading:
    """The state of reading one segment, line by line."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows: list[Row] = []
        self.lines = array("L")
        self.faults: list[Fault] = []
        self.whole = 0
        self.pending: list[tuple[int, Row]] = []
        self.torn_from: int | None = None

    def fault(self, line: int, rule: str, message: str, *, is_torn: bool = False) -> None:
        self.faults.append(Fault(self.path, line, rule, message, is_torn))

    @property
    def last(self) -> Row | None:
        """The row after which the next one stands."""
        return self.pending[-1][1] if self.pending else self.rows[-1] if self.rows else None

    def take_pairs(self, number: int, offset: int, blob: bytes, text: str) -> tuple[int, int]:
        """Take the rows of logged episodes as far as one stands behind the other with nothing wrong about them.

        `text` is the bytes read as Latin-1. Gives the line and the offset of what comes then.
        """
        before = self.last
        if before is None or self.torn_from is not None:  # what a first row may be is for `take` to say
            return number, offset
        form = pairs.pattern()
        while (found := form.match(text, offset)) and (pair := pairs.read(found, blob)):
            put, length = pair.put, pair.put["tx"][1]
            if put["tx"][0] != len(self.pending) + 1 or length <= put["tx"][0]:
                break
            _share(before, put)
            if _discord(before, put) is not None if self.pending else put["seq"] <= before["seq"]:
                break
            self.pending += ((number, put), (number + 1, pair.logged))
            number, offset, before = number + 2, pair.end, pair.logged
            if length == put["tx"][0] + 1:
                self.close(offset)
        return number, offset

    def take(self, number: int, line: bytes, end: int) -> None:
        has_zeros = b"\0" in line
        if has_zeros:
            self.torn_from = number if self.torn_from is None else self.torn_from
            line = line.rpartition(b"\0")[2]
        try:
            row = parse_row(line)
        except RowError as error:
            if self.torn_from is None:
                self.drop("followed by a line that is no row")
                self.fault(number, error.rule, str(error))
            return
        if self.torn_from is not None:
            if row["tx"][0] != 1:
                return
            # one append is one transaction, so a later one shows that no crash left these zeros
            self.drop("followed by zeros")
            self.fault(self.torn_from, "ledger-row-parse", "zeros, and a later transaction behind them")
            self.torn_from = None
        if not has_zeros:
            self.add(number, row, end)

    def add(self, number: int, row: Row, end: int) -> None:
        position, length = row["tx"]
        if position != len(self.pending) + 1:
            self.drop("followed by a row of another transaction")
            if position != 1:
                self.fault(number, "ledger-tx", f"row {position} of {length} without those before it")
                return
        before = self.last
        if before is not None:
            _share(before, row)
        if before is not None and self.pending:
            problem = _discord(before, row)
            if problem is not None:
                self.drop("its rows do not belong together")
                self.fault(number, "ledger-tx", problem)
                return
        elif before is not None and row["seq"] <= before["seq"]:
            self.fault(number, "ledger-seq", f"seq {row['seq']} stands after seq {before['seq']}")
        self.pending.append((number, row))
        if position == length:
            self.close(end)

    def close(self, end: int) -> None:
        """End a transaction, which makes its rows visible."""
        for number, row in self.pending:
            self.lines.append(number)
            self.rows.append(row)
        self.pending = []
        self.whole = end

    def drop(self, why: str) -> None:
        if self.pending:
            number, row = self.pending[0]
            self.fault(number, "ledger-tx", f"transaction of {row['tx'][1]} rows is incomplete, {why}")
            self.pending = []

    def finish(self, number: int, rest: bytes) -> None:
        if rest and not rest.endswith(b"\0") and self.torn_from is None and _is_whole_row(rest[:-1]):
            self.drop("followed by a damaged line")
            self.fault(number, "ledger-row-parse", "the line end after this row was altered")
            return
        is_begun = bool(rest) or number == 1  # an empty file is a segment whose first write never came
        first = self.pending[0][0] if self.pending else self.torn_from or (number if is_begun else None)
        if first is not None:
            self.fault(first, "ledger-tx", "an incomplete transaction at the segment's end", is_torn=True)

    def check_name(self) -> None:
        first = self.rows[0]
        expected = segment_path(first["hash"], first["ts"])
        if self.path != expected:
            self.fault(1, "ledger-segment-name", f"by its first row this segment is {expected}")


def _share(before: Row, row: Row) -> None:
    """Let two rows that follow each other hold one copy of what they both say: it halves the memory of a ledger."""
    parents, tx, ts, payload = row["prev"], row["tx"], before["ts"], row["payload"]
    if len(parents) == 1 and parents[0] == before["hash"]:
        parents[0] = before["hash"]
    if tx[1] == before["tx"][1]:
        tx[1] = before["tx"][1]
    if row["ts"] == ts:
        row["ts"] = ts
    path = payload.get("path")
    if path is not None and path == before["payload"].get("path"):
        payload["path"] = before["payload"]["path"]
        if payload.get("logged_at") == ts:
            payload["logged_at"] = ts


def _discord(before: Row, row: Row) -> str | None:
    """Say how a row does not continue the transaction of the row before it."""
    if row["tx"][1] != before["tx"][1] or row["ts"] != before["ts"] or row["seq"] != before["seq"] + 1:
        return "rows of one transaction have one length, one ts and consecutive seq"
    if row["prev"] != [before["hash"]]:
        return "a row of a transaction has the row before it as its one parent"
    return None


def _is_whole_row(line: bytes) -> bool:
    try:
        parse_row(line)
    except RowError:
        return False
    return True
