"""What is known of the ledger at HEAD without reading it: each row's seq, the paths it speaks of, its heads.

A whole examination keeps it under `.cyberos/`, for the id of HEAD's `audit` tree; segments that HEAD has got since are
read and added. So a commit of ten files is judged by ten files and not by a hundred thousand.

    {"tree": "…", "vaults": ["…"], "heads": ["…"], "rows": 41, "paths": 20}
    41 of (first 16 bytes of a row's hash, its seq in 8 bytes), sorted;  20 of (first 8 bytes of SHA-256(path)), sorted

Source: DESIGN section 5.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from hashlib import sha256
from typing import TYPE_CHECKING

from cyberos.core import layout, segments
from cyberos.core.ledger import Ledger
from cyberos.doctor import keeping

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cyberos.core.repository import Blobs, Repository
    from cyberos.core.rows import Row

PATH = f"{layout.PRIVATE}/ledger-at-head"
_HASH, _SEQ, _NAME = 16, 8, 8
_MANY = 2_000  # rows to read anew at each run before what is kept is written again


class Known:
    """The rows of the ledger at HEAD, as far as `--staged` asks for them."""

    def __init__(self, vaults: list[str], heads: set[str], rows: _Sorted, paths: _Sorted) -> None:
        self.vaults, self.heads = vaults, heads
        self._rows, self._paths = rows, paths
        self._new: dict[str, int] = {}
        self._new_paths: set[str] = set()

    def seq_of(self, name: str) -> int | None:
        """Give the seq of the row of this hash."""
        if name in self._new:
            return self._new[name]
        found = self._rows.find(bytes.fromhex(name)[:_HASH])
        return None if found is None else int.from_bytes(found)

    def speaks_of(self, path: str) -> bool:
        """Report whether a row may name this path."""
        return path in self._new_paths or self._paths.find(_short(path)) is not None

    def add(self, rows: Iterable[Row]) -> None:
        """Take rows in that came later."""
        added = list(rows)
        self.heads |= {row["hash"] for row in added}
        self.heads.difference_update(parent for row in added for parent in row["prev"])
        self._new |= {row["hash"]: row["seq"] for row in added}
        self._new_paths.update(path for row in added if isinstance(path := row["payload"].get("path"), str))


class _Sorted:
    """Records of one size, sorted, each a key and what belongs to it."""

    def __init__(self, blob: memoryview, key: int, rest: int) -> None:
        self._blob, self._key, self._size = blob, key, key + rest

    def __len__(self) -> int:
        return len(self._blob) // self._size

    def __getitem__(self, number: int) -> bytes:
        begin = number * self._size
        return bytes(self._blob[begin : begin + self._key])

    def find(self, key: bytes) -> bytes | None:
        number = bisect_left(self, key)
        if number >= len(self) or self[number] != key:
            return None
        begin = number * self._size
        return bytes(self._blob[begin + self._key : begin + self._size])


def _short(path: str) -> bytes:
    return sha256(path.encode("utf-8", "surrogatepass")).digest()[:_NAME]


def load(repository: Repository, blobs: Blobs, head: str) -> Known | None:
    """Give what is known of the ledger at HEAD, or None when it must be read."""
    tree = repository.tree(f"{head}:{layout.AUDIT}")
    rest = keeping.kept(repository.root, PATH) if tree else None
    if rest is None or tree is None:
        return None
    end = rest.find(b"\n") + 1
    try:
        head_line = json.loads(rest[:end])
        known = _unpack(head_line, memoryview(rest)[end:])
        return (
            known if head_line["tree"] == tree or _catch_up(repository, blobs, known, head_line["tree"], tree) else None
        )
    except (ValueError, KeyError, TypeError):
        return None


def _unpack(head: dict[str, list[str]], body: memoryview) -> Known:
    cut = int(str(head["rows"])) * (_HASH + _SEQ)
    rows, paths = _Sorted(body[:cut], _HASH, _SEQ), _Sorted(body[cut:], _NAME, 0)
    return Known(list(head["vaults"]), set(head["heads"]), rows, paths)


def _catch_up(repository: Repository, blobs: Blobs, known: Known, old: str, new: str) -> bool:
    """Add the segments that came between two trees; report whether that is all that happened."""
    output = repository.run("diff-tree", "-r", old, new, "-z", "--raw", "--no-renames", "--no-abbrev")
    if output is None:
        return False
    added = []
    for change in repository.read_changes(output, ""):
        blob = blobs.read(change.new)
        if change.status != "A" or blob is None:
            return False
        added.append(segments.read(f"{layout.AUDIT}/{change.path}", blob))
    known.add(Ledger(added, known.vaults).rows)
    return not any(fault for segment in added for fault in segment.faults)


def save(root: str, tree: str, ledger: Ledger) -> None:
    """Keep what this ledger, which is that of `tree`, says."""
    rows = sorted(bytes.fromhex(row["hash"])[:_HASH] + row["seq"].to_bytes(_SEQ) for row in ledger.rows)
    paths = sorted(map(_short, ledger.events))
    heads = [row["hash"] for row in ledger.heads]
    head = {"tree": tree, "vaults": ledger.vaults, "heads": heads, "rows": len(rows), "paths": len(paths)}
    keeping.keep(root, PATH, b"".join((json.dumps(head).encode(), b"\n", *rows, *paths)))


def part(ledger: Ledger, without: set[str]) -> Ledger:
    """Give the ledger without some segments."""
    if without.isdisjoint(segment.path for segment in ledger.segments):
        return ledger
    return Ledger([segment for segment in ledger.segments if segment.path not in without])
