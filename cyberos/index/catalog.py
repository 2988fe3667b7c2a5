"""`.cyberos/index/catalog.sqlite`: what the index knows of each memory, and how much of the ledger it has seen.

    memories   path -> kind, scope, state, the digests that may stand there, fields, times; one row a path
    stores     name -> how far a store (an engine's index) has followed the memories, and its stamp; those in use
    segments   path -> size, time, whole bytes applied and their SHA-256
    joints     hashes of the last row of each transaction: all that another row can name as its parent
    uses       path -> how often it was recalled with an intent; the one table that the ledger cannot give back
    meta       version, heads, vaults, folder times, the number of the last change

`wanted` begins the digest of the document that every store should hold, empty for none. A row whose `wanted` changes
gets the next number as its `change`; a store holds all that was wanted up to the number that it has `seen`, so what
lies above is its work left, and a crash between catalog and store loses nothing. A store that was never asked has no
row and costs nothing. All of it is derived; on any doubt it is made again.

Source: DESIGN section 6.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import layout
from cyberos.index.database import Database
from cyberos.index.entry import FORGOTTEN, GONE, READY, Entry, seal, task_key
from cyberos.index.fulltext import IndexDamaged

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 2
NAME = f"{layout.INDEX}/catalog.sqlite"
_SHORT = 16  # hex digits of a digest that tell one document of a path from another


class Mark(NamedTuple):
    """How far a segment was applied: its `whole` first bytes, of this SHA-256, when it had this size and time."""

    size: int
    mtime_ns: int
    whole: int
    digest: str


class Reach(NamedTuple):
    """How far a store is: the stamp of its last confirmed commit, of the last one begun, and the change it has seen."""

    stamp: str | None = None
    attempt: str | None = None
    seen: int = 0


_COLUMNS = ", ".join(Entry._fields)
_SCHEMA = f"""
CREATE TABLE memories (
    {_COLUMNS.replace("path,", "path PRIMARY KEY,")},
    wanted TEXT NOT NULL, change INTEGER NOT NULL, seal INTEGER NOT NULL
);
CREATE INDEX memories_change ON memories (change);
CREATE INDEX memories_state ON memories (state, kind);
CREATE INDEX memories_newest ON memories (last_seen_at, seq);
CREATE TABLE stores (name TEXT PRIMARY KEY, stamp, attempt, seen INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE segments (path TEXT PRIMARY KEY, size, mtime_ns, whole, digest) WITHOUT ROWID;
CREATE TABLE joints (hash BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE uses (path TEXT PRIMARY KEY, uses INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class Catalog(Database):
    """An open catalog; `path` is absolute, or None for one in memory. Close it.

    Raises, from each method: IndexDamaged, VaultLocked when another process writes for longer than we may wait.
    """

    def __init__(self, path: str | None, *, readonly: bool = False) -> None:
        super().__init__(path, "catalog", readonly=readonly)
        try:
            self._open(readonly=readonly)
        except BaseException:
            self.close()
            raise

    def _open(self, *, readonly: bool) -> None:
        if not self.all("SELECT name FROM sqlite_master WHERE name = 'meta'") and not readonly:
            self.make(_SCHEMA)
            self.set(version=VERSION)
        if self.get("version") != VERSION:
            raise IndexDamaged("catalog", "it was made by another version")

    def get(self, key: str) -> Any:
        """Give a value of `meta`, or None."""
        found = self.all("SELECT value FROM meta WHERE key = ?", key)
        with self.faults():
            return json.loads(found[0][0]) if found else None

    def set(self, **values: Any) -> None:
        self.write("INSERT OR REPLACE INTO meta VALUES (?, ?)", [(key, json.dumps(values[key])) for key in values])

    # memories

    def entry(self, path: str) -> Entry | None:
        """Give what is known of a path."""
        return next(iter(self._entries("path = ?", path)), None)

    def entries_of(self, paths: list[str]) -> dict[str, Entry]:
        """Give what is known of these paths."""
        found = self._entries("path IN (SELECT value FROM json_each(?))", json.dumps(paths))
        return {entry.path: entry for entry in found}

    def entries(self) -> list[Entry]:
        """Give every memory, in no order."""
        return self._entries("1")

    def in_state(self, state: str) -> list[Entry]:
        return self._entries("state = ?", state)

    def newest(self, kind: str | None, limit: int) -> list[Entry]:
        """Give the memories that live, of one kind or of all, the last put first."""
        where = "state NOT IN ('forgotten', 'gone') AND (?1 IS NULL OR kind = ?1)"
        return self._entries(f"{where} ORDER BY last_seen_at DESC, seq DESC, path LIMIT ?2", kind, limit)

    def _entries(self, where: str, *values: Any) -> list[Entry]:
        return [_unsealed(row) for row in self.all(f"SELECT {_COLUMNS}, seal FROM memories WHERE {where}", *values)]  # noqa: S608

    def count(self, state: str, kind: str | None = None) -> int:
        """Count the memories in this state, of one kind or of all."""
        if kind is None:
            found = self.all("SELECT count(*) FROM memories WHERE state = ?", state)
        else:
            found = self.all("SELECT count(*) FROM memories WHERE state = ? AND kind = ?", state, kind)
        return int(found[0][0])

    def has_ready(self, kind: str | None) -> bool:
        """Report whether any memory of this kind, or of any, can be recalled."""
        found = "SELECT 1 FROM memories WHERE state = 'ready'"
        return bool(self.all(f"{found} LIMIT 1") if kind is None else self.all(f"{found} AND kind = ? LIMIT 1", kind))

    def history(self, task: str) -> dict[str, int]:
        """Count the episodes of exactly this task by label."""
        stem = layout.episode_stem(task)
        found = self.all(
            # the plus keeps sqlite from the index on the state, which would read nearly every memory
            "SELECT label, count(*) FROM memories WHERE path > ? AND path < ? AND task = ? AND +state = 'ready' "
            "GROUP BY label ORDER BY label",
            *(stem, stem + "~", task_key(task)),
        )
        return {str(label): int(count) for label, count in found}

    def save(self, entries: Iterable[Entry]) -> None:
        """Write entries over those of the same paths, inside `writing`."""
        entries = list(entries)
        last = self.get("change") or 0
        rows = [
            (*entry, entry.digest[:_SHORT] if entry.state == READY else "", last + number, seal(entry))
            for number, entry in enumerate(entries, 1)
        ]
        marks = ", ".join("?" * (len(Entry._fields) + 3))
        renew = ", ".join(f"{name} = excluded.{name}" for name in (*Entry._fields[1:], "wanted", "seal"))
        renew += ", change = CASE wanted WHEN excluded.wanted THEN change ELSE excluded.change END"
        self.write(
            f"INSERT INTO memories ({_COLUMNS}, wanted, change, seal) VALUES ({marks}) "  # noqa: S608
            f"ON CONFLICT (path) DO UPDATE SET {renew}",
            rows,
        )
        self.set(change=last + len(entries))
        left = [(entry.path,) for entry in entries if entry.state in (FORGOTTEN, GONE)]
        self.write("DELETE FROM uses WHERE path = ?", left)

    # the stores

    def wanted(self) -> list[tuple[str, bytes, str]]:
        """Give (path, the bytes that begin its digest, scope) of all that a store should hold, the last put first."""
        asked = "SELECT path, wanted, scope FROM memories WHERE wanted <> '' ORDER BY last_seen_at DESC, seq DESC, path"
        found = self.all(asked)
        with self.faults():
            return [(path, bytes.fromhex(digest), scope) for path, digest, scope in found]

    def stores(self) -> dict[str, Reach]:
        """Give the stores in use: those that were told to hold anything."""
        return {name: Reach(*rest) for name, *rest in self.all("SELECT * FROM stores")}

    def pending(self, store: str) -> list[tuple[Entry, bool]]:
        """Give the memories that a store must take (True) or drop (False), in the order of their changes."""
        found = self.all(
            f"SELECT {_COLUMNS}, seal, wanted FROM memories WHERE change > ?1 AND (wanted <> '' OR ?1) ORDER BY change",  # noqa: S608
            self._seen(store),
        )
        return [(_unsealed(row[:-1]), bool(row[-1])) for row in found]

    def has_pending(self, store: str) -> bool:
        found = "SELECT 1 FROM memories WHERE change > ?1 AND (wanted <> '' OR ?1) LIMIT 1"
        return bool(self.all(found, self._seen(store)))

    def _seen(self, store: str) -> int:
        return max((number for (number,) in self.all("SELECT seen FROM stores WHERE name = ?", store)), default=0)

    def attempt(self, store: str, stamp: str) -> None:
        """Record that the store is about to commit under this stamp; it is in use from now on."""
        insert = "INSERT INTO stores (name, attempt) VALUES (?, ?)"
        self.write(f"{insert} ON CONFLICT (name) DO UPDATE SET attempt = excluded.attempt", [(store, stamp)])

    def confirm(self, store: str, stamp: str, *, last: str | None = None) -> None:
        """Record that the store, under this stamp, holds what was wanted: all, or up to the change of the path `last`.

        What is gone is dropped once every store in use let go of it.
        """
        asked = (
            "SELECT value FROM meta WHERE key = 'change'"
            if last is None
            else "SELECT change FROM memories WHERE path = ?"
        )
        found = self.all(asked, *([] if last is None else [last]))
        with self.writing():
            seen = int(found[0][0]) if found else 0
            self.write("UPDATE stores SET stamp = ?, seen = ? WHERE name = ?", [(stamp, seen, store)])
            self.write("DELETE FROM memories WHERE state = 'gone' AND change <= (SELECT min(seen) FROM stores)")

    def forget_store(self, store: str) -> None:
        """Record that the store holds nothing, and is not in use until it is told to hold something."""
        self.write("DELETE FROM stores WHERE name = ?", [(store,)])

    # the ledger

    def marks(self, folder: str) -> dict[str, Mark]:
        """Give the segments applied of one day's folder."""
        found = self.all("SELECT * FROM segments WHERE path > ? AND path < ?", f"{folder}/", f"{folder}0")
        return {path: Mark(*rest) for path, *rest in found}

    def save_marks(self, marks: dict[str, Mark], *, whole: bool) -> None:
        """Write segments' marks; `whole`: these are all that there are."""
        if whole:
            self.write("DELETE FROM segments")
        rows = [(path, *mark) for path, mark in marks.items()]
        self.write("INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?)", rows)

    def has_joint(self, name: str) -> bool:
        """Report whether a transaction that ends in the row of this hash was applied."""
        return bool(self.all("SELECT 1 FROM joints WHERE hash = ?", bytes.fromhex(name)))

    def save_joints(self, names: Iterable[str], *, whole: bool) -> None:
        if whole:
            self.write("DELETE FROM joints")
        self.write("INSERT OR IGNORE INTO joints VALUES (?)", [(bytes.fromhex(name),) for name in names])

    # uses

    def uses(self, path: str) -> int:
        """Give how often a memory was recalled with an intent."""
        found = self.all("SELECT uses FROM uses WHERE path = ?", path)
        return int(found[0][0]) if found else 0

    def all_uses(self) -> dict[str, int]:
        return dict(self.all("SELECT path, uses FROM uses"))

    def note_uses(self, uses: dict[str, int]) -> None:
        """Add to the counts."""
        with self.writing():
            self.write(
                "INSERT INTO uses VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET uses = uses + excluded.uses",
                list(uses.items()),
            )


def _unsealed(row: tuple[Any, ...]) -> Entry:
    entry = Entry(*row[:-1])
    if seal(entry) != row[-1]:
        raise IndexDamaged("catalog", "a row is not as it was written")
    return entry
