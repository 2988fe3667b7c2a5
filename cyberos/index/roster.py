"""`.cyberos/index/vectors-<stamp>.roster`: whose vector each row of the matrix is. Getting this name is the commit.

    <8 hex: CRC-32 of all that follows> {"dim": 384, "embedder": "…", "entries": n, "matrix": …, "rows": m, …}
    n paths, sorted, each ended by LF
    n x 8 bytes    begin the digest of the memory's file
    n x uint32     its row
    n x uint32     its scope, a place in `scopes`
    m x 8 bytes    begin the digest of the text that the row was made of
    m x uint32     CRC-32 of the row

Two memories of one text share a row, and a row that nobody has any more stays until the matrix is written anew: a
branch that comes back, or a catalog that was lost, costs no embedding. Numbers have the byte order that the head names.

Source: DESIGN section 6.
"""

from __future__ import annotations

import json
import sys
from array import array
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

FORMAT = 1
KEY = 8  # bytes of a digest that tell one text from another

Look = tuple[int, int, int]
NO_LOOK: Look = (0, 0, 0)


class Held(NamedTuple):
    """A memory that is to have a row; `key` begins the digest of its file, `text` that of what is embedded."""

    path: str
    key: bytes
    scope: str
    text: bytes


class Head(NamedTuple):
    """`seen` is the catalog's stamp that this was compared with, `missing` how many memories had no row then.

    `matrix` names the file of the rows, `look` is its size, mtime in ns and inode when it was last known to be sound.
    """

    embedder: str
    dim: int
    seen: str = ""
    missing: int = 0
    matrix: str = ""
    look: Look = NO_LOOK


class Roster(NamedTuple):
    """Columns: `paths`, `keys`, `rows`, `scopes` have one place an entry, `texts` and `checks` one a row."""

    head: Head
    scope_names: list[str]
    paths: list[str]
    keys: bytes
    rows: array[int]
    scopes: array[int]
    texts: bytes
    checks: array[int]

    def key(self, place: int) -> bytes:
        return self.keys[place * KEY : place * KEY + KEY]

    def text(self, row: int) -> bytes:
        return self.texts[row * KEY : row * KEY + KEY]

    def entries(self) -> Iterator[tuple[str, bytes, int, str]]:
        """Yield (path, key, row, scope)."""
        for place, path in enumerate(self.paths):
            yield path, self.key(place), self.rows[place], self.scope_names[self.scopes[place]]


def key_of(digest: str) -> bytes:
    """Shorten a digest in hex."""
    return bytes.fromhex(digest[: 2 * KEY])


def text_key(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:KEY]


def column(values: bytes = b"") -> array[int]:
    """Make a column of unsigned 32-bit numbers."""
    made = array("I" if array("I").itemsize == 4 else "L")  # noqa: PLR2004 - C says at least 16 bits, and 32 for a long
    made.frombytes(values)
    return made


def empty(embedder: str, dim: int) -> Roster:
    return Roster(Head(embedder, dim), [], [], b"", column(), column(), b"", column())


def changed(
    roster: Roster,
    adds: Iterable[Held],
    removes: Iterable[str],
    known: Mapping[bytes, int],
    fresh: Mapping[bytes, int],
) -> Roster:
    """Remove entries, then add; `known` gives the row of a text, `fresh` the checksums of those that come behind."""
    entries = {path: (path, key, row, scope) for path, key, row, scope in roster.entries()}
    for path in removes:
        entries.pop(path, None)
    row_of = dict(known) | {text: len(roster.checks) + number for number, text in enumerate(fresh)}
    entries |= {held.path: (held.path, held.key, row_of[held.text], held.scope) for held in adds}
    checks = column(roster.checks.tobytes())
    checks.extend(fresh.values())
    made = roster._replace(texts=roster.texts + b"".join(fresh), checks=checks)
    return _filled(made, [entries[path] for path in sorted(entries)])


def only(roster: Roster, kept: Sequence[int]) -> Roster:
    """Keep these rows, in this order, and the entries that have one of them."""
    place = {row: number for number, row in enumerate(kept)}
    checks = column()
    checks.extend(roster.checks[row] for row in kept)
    made = roster._replace(texts=b"".join(roster.text(row) for row in kept), checks=checks)
    return _filled(made, [(path, key, place[row], scope) for path, key, row, scope in roster.entries() if row in place])


def _filled(roster: Roster, entries: Sequence[tuple[str, bytes, int, str]]) -> Roster:
    names = sorted({scope for *_, scope in entries})
    code = {name: number for number, name in enumerate(names)}
    rows, scopes = column(), column()
    rows.extend(row for _, _, row, _ in entries)
    scopes.extend(code[scope] for *_, scope in entries)
    paths, keys = [path for path, *_ in entries], b"".join(key for _, key, *_ in entries)
    return roster._replace(scope_names=names, paths=paths, keys=keys, rows=rows, scopes=scopes)


def format_roster(roster: Roster) -> bytes:
    """Give the bytes of the file; the inverse is `parse_roster`."""
    head = roster.head._asdict() | {
        "format": FORMAT,
        "order": sys.byteorder,
        "scopes": roster.scope_names,
        "entries": len(roster.paths),
        "rows": len(roster.checks),
    }
    rest = b"".join(
        (
            json.dumps(head, sort_keys=True).encode(),
            b"\n",
            "".join(f"{path}\n" for path in roster.paths).encode(),
            roster.keys,
            roster.rows.tobytes(),
            roster.scopes.tobytes(),
            roster.texts,
            roster.checks.tobytes(),
        )
    )
    return b"%08x " % crc32(rest) + rest


def parse_roster(blob: bytes) -> Roster:
    """Read what `format_roster` gave. Raises: ValueError, KeyError, TypeError for anything else."""
    if blob[:9] != b"%08x " % crc32(memoryview(blob)[9:]):
        raise ValueError("its checksum is wrong")
    end = blob.index(b"\n")
    values = json.loads(blob[9:end])
    if (values.pop("format"), values.pop("order")) != (FORMAT, sys.byteorder):
        raise ValueError("another version or machine wrote it")
    names, count, rows = values.pop("scopes"), values.pop("entries"), values.pop("rows")
    head = Head(**values)._replace(look=tuple(values["look"]))
    columns = len(blob) - count * (KEY + 8) - rows * (KEY + 4)
    *paths, rest = blob[end + 1 : columns].decode().split("\n")
    sizes = (count * KEY, count * 4, count * 4, rows * KEY, rows * 4)
    parts = []
    for size in sizes:
        parts.append(blob[columns : columns + size])
        columns += size
    made = Roster(head, names, paths, parts[0], column(parts[1]), column(parts[2]), parts[3], column(parts[4]))
    is_sound = (
        not rest and count == len(paths) == len(made.rows) == len(made.scopes) and max(made.rows, default=-1) < rows
    )
    if not is_sound or max(made.scopes, default=-1) >= len(names):
        raise ValueError("its columns do not fit each other")
    return made
