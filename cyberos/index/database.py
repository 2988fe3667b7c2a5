"""A SQLite file of the index: opened, asked and written in one way, its errors turned into ours.

Deleted rows are overwritten with zeros, and nothing that a file brings along (triggers, views) is trusted.

Source: sqlite.org/pragma.html (secure_delete, cell_size_check, trusted_schema); sqlite.org/uri.html.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cyberos.core.errors import VaultLocked
from cyberos.index.fulltext import IndexDamaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BUSY_S = 5.0
_PRAGMAS = ("secure_delete = ON", "cell_size_check = ON", "trusted_schema = OFF", "synchronous = NORMAL")


class Database:
    """An open database; `path` is absolute, or None for one in memory. Close it.

    Raises, from each method: IndexDamaged, VaultLocked when another process writes for longer than we may wait.
    """

    def __init__(self, path: str | None, name: str, *, readonly: bool = False) -> None:
        import sqlite3

        self.path = path
        self.name = name
        where = ":memory:" if path is None else f"file:{_quoted(path)}?mode={'ro' if readonly else 'rwc'}"
        with self.faults():
            self._db = sqlite3.connect(where, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                for pragma in _PRAGMAS:
                    self._db.execute(f"PRAGMA {pragma}")
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        self._db.close()

    def all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Give all rows of a question."""
        with self.faults():
            return self._db.execute(statement, values).fetchall()

    def write(self, statement: str, rows: Iterable[tuple[Any, ...]] | None = None) -> None:
        """Do a statement, once or for each row of values."""
        with self.faults():
            if rows is None:
                self._db.execute(statement)
            else:
                self._db.executemany(statement, rows)

    def make(self, schema: str) -> None:
        """Make tables: all of them, or none."""
        with self.faults():
            self._db.executescript(f"BEGIN; {schema} COMMIT;")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Commit all that is written inside at once, or nothing."""
        self.write("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self.write("ROLLBACK")
            raise
        self.write("COMMIT")

    def vacuum(self) -> None:
        """Write the whole file anew, so that nothing of what was deleted stays in it."""
        self.write("VACUUM")

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Turn sqlite's errors into ours: neither another process's lock nor a disk that takes no writes is damage."""
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise VaultLocked(str(self.path), BUSY_S, "another process that writes the index") from None
            if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM):
                raise OSError(errno.EROFS, str(error), self.path) from None
            raise IndexDamaged(self.name, str(error)) from None
        except (ValueError, TypeError, OverflowError) as error:
            raise IndexDamaged(self.name, str(error)) from None


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
