"""`.cyberos/index/catalog.sqlite`: what the index knows of each memory, and how much of the ledger it has seen.

    memories   path -> kind, scope, state, the digests that may stand there, fields, times; one row a path
    segments   path -> size, time, whole bytes applied and their SHA-256
    joints     hashes of the last row of each transaction: all that another row can name as its parent
    uses       path -> how often it was recalled with an intent; the one table that the ledger cannot give back
    meta       version, heads, vaults, folder times, the full-text engine's stamp

`wanted` begins the digest of the document that the engine should hold and `held` of the one it does, empty for none:
where they differ there is work left, so that a crash between the two stores loses nothing. All of it is derived; on
any doubt it is made again.

Source: DESIGN section 6; sqlite.org/pragma.html#pragma_secure_delete.
"""

from __future__ import annotations

import errno
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import layout
from cyberos.core.errors import VaultLocked
from cyberos.index.entry import FORGOTTEN, GONE, READY, Entry, seal, task_key
from cyberos.index.fulltext import IndexDamaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION = 1
NAME = f"{layout.INDEX}/catalog.sqlite"
_BUSY_S = 5.0
_SHORT = 16  # hex digits of a digest that tell one document of a path from another


class Mark(NamedTuple):
    """How far a segment was applied: its `whole` first bytes, of this SHA-256, when it had this size and time."""

    size: int
    mtime_ns: int
    whole: int
    digest: str


_COLUMNS = ", ".join(Entry._fields)
_SCHEMA = f"""
CREATE TABLE memories (
    {_COLUMNS.replace("path,", "path PRIMARY KEY,")},
    wanted TEXT NOT NULL, held TEXT NOT NULL DEFAULT '', seal INTEGER NOT NULL
);
CREATE INDEX memories_pending ON memories (path) WHERE wanted <> held;
CREATE INDEX memories_state ON memories (state, kind);
CREATE INDEX memories_newest ON memories (last_seen_at, seq);
CREATE TABLE segments (path TEXT PRIMARY KEY, size, mtime_ns, whole, digest) WITHOUT ROWID;
CREATE TABLE joints (hash BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE uses (path TEXT PRIMARY KEY, uses INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class Catalog:
    """An open catalog; `path` is absolute, or None for one in memory. Close it.

    Raises, from each method: IndexDamaged, VaultLocked when another process writes for longer than we may wait.
    """

    def __init__(self, path: str | None, *, readonly: bool = False) -> None:
        import sqlite3

        self.path = path
        where = ":memory:" if path is None else f"file:{quoted(path)}?mode={'ro' if readonly else 'rwc'}"
        with _faults(path):
            self._db = sqlite3.connect(where, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                self._open(readonly=readonly)
            except BaseException:
                self._db.close()
                raise

    def _open(self, *, readonly: bool) -> None:
        for pragma in ("secure_delete = ON", "cell_size_check = ON", "synchronous = NORMAL"):
            self._db.execute(f"PRAGMA {pragma}")
        found = self._db.execute("SELECT name FROM sqlite_master WHERE name = 'meta'").fetchone()
        if found is None and not readonly:
            self._db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            self.set(version=VERSION)
        if self.get("version") != VERSION:
            raise IndexDamaged("catalog", "it was made by another version")

    def close(self) -> None:
        self._db.close()

    def get(self, key: str) -> Any:
        """Give a value of `meta`, or None."""
        found = self._all("SELECT value FROM meta WHERE key = ?", key)
        with _faults(self.path):
            return json.loads(found[0][0]) if found else None

    def set(self, **values: Any) -> None:
        self._write("INSERT OR REPLACE INTO meta VALUES (?, ?)", [(key, json.dumps(values[key])) for key in values])

    # memories

    def entry(self, path: str) -> Entry | None:
        """Give what is known of a path."""
        return next(iter(self._entries("path = ?", path)), None)

    def entries(self) -> list[Entry]:
        """Give every memory, in no order."""
        return self._entries("1")

    def check(self) -> None:
        """Read all that answers are made of."""
        self.entries()
        self._all("SELECT sum(uses) FROM uses")

    def in_state(self, state: str) -> list[Entry]:
        return self._entries("state = ?", state)

    def newest(self, kind: str | None, limit: int) -> list[Entry]:
        """Give the memories that live, of one kind or of all, the last put first."""
        where = "state NOT IN ('forgotten', 'gone') AND (?1 IS NULL OR kind = ?1)"
        return self._entries(f"{where} ORDER BY last_seen_at DESC, seq DESC, path LIMIT ?2", kind, limit)

    def _entries(self, where: str, *values: Any) -> list[Entry]:
        return [_unsealed(row) for row in self._all(f"SELECT {_COLUMNS}, seal FROM memories WHERE {where}", *values)]  # noqa: S608

    def count(self, state: str, kind: str | None = None) -> int:
        """Count the memories in this state, of one kind or of all."""
        if kind is None:
            found = self._all("SELECT count(*) FROM memories WHERE state = ?", state)
        else:
            found = self._all("SELECT count(*) FROM memories WHERE state = ? AND kind = ?", state, kind)
        return int(found[0][0])

    def has_ready(self, kind: str) -> bool:
        """Report whether any memory of this kind can be recalled."""
        return bool(self._all("SELECT 1 FROM memories WHERE state = 'ready' AND kind = ? LIMIT 1", kind))

    def history(self, task: str) -> dict[str, int]:
        """Count the episodes of exactly this task by label."""
        stem = layout.episode_stem(task)
        found = self._all(
            # the plus keeps sqlite from the index on the state, which would read nearly every memory
            "SELECT label, count(*) FROM memories WHERE path > ? AND path < ? AND task = ? AND +state = 'ready' "
            "GROUP BY label ORDER BY label",
            *(stem, stem + "~", task_key(task)),
        )
        return {str(label): int(count) for label, count in found}

    def save(self, entries: Iterable[Entry]) -> None:
        """Write entries over those of the same paths."""
        entries = list(entries)
        marks = ", ".join("?" * (len(Entry._fields) + 2))
        renew = ", ".join(f"{name} = excluded.{name}" for name in (*Entry._fields[1:], "wanted", "seal"))
        self._write(
            f"INSERT INTO memories ({_COLUMNS}, wanted, seal) VALUES ({marks}) "  # noqa: S608
            f"ON CONFLICT (path) DO UPDATE SET {renew}",
            [(*entry, entry.digest[:_SHORT] if entry.state == READY else "", seal(entry)) for entry in entries],
        )
        left = [(entry.path,) for entry in entries if entry.state in (FORGOTTEN, GONE)]
        self._write("DELETE FROM uses WHERE path = ?", left)

    # the engine

    def pending(self) -> list[tuple[Entry, bool]]:
        """Give the memories that the engine must take (True) or drop (False)."""
        found = self._all(f"SELECT {_COLUMNS}, seal, wanted FROM memories WHERE wanted <> held")  # noqa: S608
        return [(_unsealed(row[:-1]), bool(row[-1])) for row in found]

    def has_pending(self) -> bool:
        return bool(self._all("SELECT 1 FROM memories WHERE wanted <> held LIMIT 1"))

    def confirm(self, stamp: str) -> None:
        """Record that the engine now holds what was wanted, under this stamp; drop what is gone."""
        with self.writing():
            self._write("UPDATE memories SET held = wanted WHERE wanted <> held")
            self._write("DELETE FROM memories WHERE state = 'gone'")
            self.set(stamp=stamp, purge=False)

    def forget_engine(self) -> None:
        """Record that the engine holds nothing."""
        with self.writing():
            self._write("UPDATE memories SET held = ''")
            self.set(stamp=None, attempt=None)

    # the ledger

    def marks(self, folder: str) -> dict[str, Mark]:
        """Give the segments applied of one day's folder."""
        found = self._all("SELECT * FROM segments WHERE path > ? AND path < ?", f"{folder}/", f"{folder}0")
        return {path: Mark(*rest) for path, *rest in found}

    def save_marks(self, marks: dict[str, Mark], *, whole: bool) -> None:
        """Write segments' marks; `whole`: these are all that there are."""
        if whole:
            self._write("DELETE FROM segments")
        rows = [(path, *mark) for path, mark in marks.items()]
        self._write("INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?)", rows)

    def has_joint(self, name: str) -> bool:
        """Report whether a transaction that ends in the row of this hash was applied."""
        return bool(self._all("SELECT 1 FROM joints WHERE hash = ?", bytes.fromhex(name)))

    def save_joints(self, names: Iterable[str], *, whole: bool) -> None:
        if whole:
            self._write("DELETE FROM joints")
        self._write("INSERT OR IGNORE INTO joints VALUES (?)", [(bytes.fromhex(name),) for name in names])

    # uses

    def uses(self, path: str) -> int:
        """Give how often a memory was recalled with an intent."""
        found = self._all("SELECT uses FROM uses WHERE path = ?", path)
        return int(found[0][0]) if found else 0

    def note_uses(self, uses: dict[str, int]) -> None:
        """Add to the counts."""
        with self.writing():
            self._write(
                "INSERT INTO uses VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET uses = uses + excluded.uses",
                list(uses.items()),
            )

    # sqlite

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Commit all that is written inside at once, or nothing."""
        self._write("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._write("ROLLBACK")
            raise
        self._write("COMMIT")

    def vacuum(self) -> None:
        """Write the whole file anew, so that nothing of what was deleted stays in it."""
        self._write("VACUUM")

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with _faults(self.path):
            return self._db.execute(statement, values).fetchall()

    def _write(self, statement: str, rows: list[tuple[Any, ...]] | None = None) -> None:
        with _faults(self.path):
            if rows is None:
                self._db.execute(statement)
            else:
                self._db.executemany(statement, rows)


def _unsealed(row: tuple[Any, ...]) -> Entry:
    entry = Entry(*row[:-1])
    if seal(entry) != row[-1]:
        raise IndexDamaged("catalog", "a row is not as it was written")
    return entry


def quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


@contextmanager
def _faults(path: str | None) -> Iterator[None]:
    """Turn sqlite's errors into ours: neither another process's lock nor a disk that takes no writes is damage."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise VaultLocked(str(path), _BUSY_S, "another process that writes the index") from None
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM):
            raise OSError(errno.EROFS, str(error), path) from None
        raise IndexDamaged("catalog", str(error)) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise IndexDamaged("catalog", str(error)) from None
