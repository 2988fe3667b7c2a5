"""Full text in SQLite's FTS5: nothing is installed, a cold start is short, and it is always there.

    <folder>/fts5.sqlite   words       a contentless FTS5 table: the postings
                           documents   id -> path, its terms with a space between; needed to take it out again
                           blocks      1,024 ids -> a byte each for the length, four for the shelf; 0 for none
                           shelves     number -> kind, scope
                           meta        stamp, commits, documents, words
    <folder>/sheet         vouches for the file: version, size, time, inode, SHA-256 (`voucher`), written after it

FTS5 gets terms that our tokenizer made: its own splits at the space and, told that all our signs are letters, alters
nothing. It is asked for one term at a time, never to parse a query. Scoring is ours, over its postings: its own cannot
be told our weights, and takes longer over many rows.

Source: sqlite.org/fts5.html, sections 4.3 (tokenizers), 4.4 (contentless tables), 6.3 (delete) and 7 (fts5vocab).
"""

from __future__ import annotations

import os
import threading
from array import array
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from cyberos.index import fulltext, tokens, voucher
from cyberos.index.database import Database
from cyberos.index.fts5_view import Meta, View, length_code
from cyberos.index.fulltext import EngineUnavailable, IndexDamaged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

FORMAT = 1
_FILE, _SHEET = "fts5.sqlite", "sheet"
_BLOCK = 1024
_SCHEMA = """
CREATE VIRTUAL TABLE words USING fts5(terms, content='', columnsize=0, tokenize="ascii tokenchars '_.-+#'''");
CREATE VIRTUAL TABLE frequency USING fts5vocab(words, row);
CREATE VIRTUAL TABLE postings USING fts5vocab(words, instance);
CREATE TABLE documents (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, terms TEXT NOT NULL);
CREATE TABLE blocks (block INTEGER PRIMARY KEY, lengths BLOB NOT NULL, shelves BLOB NOT NULL);
CREATE TABLE shelves (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, scope TEXT NOT NULL, UNIQUE (kind, scope));
CREATE TABLE meta (stamp TEXT, commits INTEGER NOT NULL, documents INTEGER NOT NULL, words INTEGER NOT NULL);
INSERT INTO meta VALUES (NULL, 0, 0, 0);
"""


@cache
def why_not() -> str | None:
    """Say why FTS5 cannot be used in this Python, or give None."""
    import sqlite3

    with suppress(sqlite3.Error):
        probe = sqlite3.connect(":memory:")
        try:
            if probe.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone() != (1,):
                probe.execute("CREATE VIRTUAL TABLE probe USING fts5(terms)")  # it may have been loaded
            return None
        finally:
            probe.close()
    return "this Python's SQLite was built without FTS5"


class Fts5FullText:
    """A FullText in a folder of its own, or in memory when `folder` is None. Raises: EngineUnavailable."""

    name = "fts5"

    def __init__(self, folder: Path | None, *, readonly: bool = False) -> None:
        if (reason := why_not()) is not None:
            raise EngineUnavailable(self.name, reason)
        self._folder = None if folder is None else str(folder)
        self._readonly = readonly
        self._guard = threading.RLock()
        self._view: View | None = None

    def stamp(self) -> str | None:
        with suppress(IndexDamaged), self._guard:
            view = self._open()
            return None if view is None else view.meta.stamp
        return None

    def count(self) -> int:
        with self._guard:
            view = self._open()
            return 0 if view is None else view.meta.documents

    def search(self, query: str, *, kind: str | None, scope: str | None, limit: int) -> list[fulltext.Scored]:
        return self.compare(query, kind=kind, scope=scope, limit=limit, also=()).hits

    def compare(
        self, query: str, *, kind: str | None, scope: str | None, limit: int, also: Collection[str]
    ) -> fulltext.Compared:
        with self._guard:
            view = self._open()
            if view is None:
                return fulltext.Compared(fulltext.Plan((), 0.0, 0.0), [])
            with view.asked() as asked:
                return fulltext.compare(query, asked.postings(kind, scope), limit, also)

    def apply(
        self,
        adds: Iterable[fulltext.Document],
        removes: Iterable[str],
        *,
        stamp: str,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        with self._guard:
            self._refuse_readonly()
            view = self._open() or self._create()
            with view.db.writing():
                _Commit(view.db).write(adds, removes, stamp, progress)
            self._vouch(stamp)

    def purge(self) -> None:
        with self._guard:
            self._refuse_readonly()
            view = self._open()
            if view is not None:
                view.db.write("INSERT INTO words (words) VALUES ('optimize')")
                view.db.vacuum()
                self._vouch(view.meta.stamp)

    def clear(self) -> None:
        with self._guard:
            self._refuse_readonly()
            self._let_go()
            if self._folder is not None and os.path.islink(self._folder):
                os.unlink(self._folder)
            for name in (_SHEET, _FILE, f"{_FILE}-journal", f"{_FILE}-wal", f"{_FILE}-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(self._path(name))

    def close(self) -> None:
        with self._guard:
            if self._folder is not None:  # what is in memory would be gone
                self._let_go()

    def _let_go(self) -> None:
        if self._view is not None:
            self._view.db.close()
            self._view = None

    def _open(self) -> View | None:
        """Return the index, verified, the one already open if it is that; None when there is none."""
        sheet = self._read_sheet()
        is_there = self._folder is not None and os.path.lexists(self._path(_FILE))
        if self._view is not None and self._view.sheet != sheet:
            self._let_go()
        if self._view is None and (is_there or sheet):
            if not is_there or not sheet:
                raise IndexDamaged(self.name, "a part of it is missing")
            self._view = self._verified(sheet)
        if self._view is not None:
            self._view.refresh()
        return self._view

    def _verified(self, sheet: bytes) -> View:
        db = Database(self._path(_FILE), self.name)
        try:
            view = View(db, sheet)
            view.refresh()  # a commit that was cut off is rolled back by this first look
            voucher.read_sheet(self._folder, sheet, _made_by(), self.name)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            db.close()
            raise IndexDamaged(self.name, f"its sheet is not ours: {error}") from None
        except BaseException:
            db.close()
            raise
        return view

    def _create(self) -> View:
        if self._folder is not None:
            os.makedirs(self._folder, exist_ok=True)
        db = Database(None if self._folder is None else self._path(_FILE), self.name)
        self._view = View(db, b"")
        db.make(_SCHEMA)
        return self._view

    def _vouch(self, stamp: str | None) -> None:
        """Write the sheet of what was committed; a crash before that leaves an index that is made again."""
        if self._folder is None or self._view is None:
            return
        self._view.sheet = voucher.write_sheet(self._folder, {_FILE: _FILE}, _made_by(), stamp)
        spare = self._path(f"{_SHEET}.new")
        with open(spare, "wb") as file:
            file.write(self._view.sheet)
        os.replace(spare, self._path(_SHEET))

    def _read_sheet(self) -> bytes:
        if self._folder is None:
            return b""
        try:
            with open(self._path(_SHEET), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise IndexDamaged(self.name, str(error)) from None

    def _path(self, name: str) -> str:
        return os.path.join(self._folder or "", name)

    def _refuse_readonly(self) -> None:
        if self._readonly:
            raise PermissionError(f"the {self.name} index was opened for reading only")


def _made_by() -> list[object]:
    return [FORMAT, tokens.VERSION]


class _Commit:
    """What one commit changes, written in a transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._meta = Meta(*db.all("SELECT * FROM meta")[0])
        self._shelves: dict[tuple[str, str], int] = {
            (kind, scope): number for number, kind, scope in db.all("SELECT * FROM shelves")
        }
        self._blocks: dict[int, tuple[bytearray, array[int]]] = {}
        self._waiting: dict[str, tuple[int, str]] = {}

    def write(
        self,
        adds: Iterable[fulltext.Document],
        removes: Iterable[str],
        stamp: str,
        progress: Callable[[int], None] | None,
    ) -> None:
        for path in removes:
            self._remove(path)
        number = self._db.all("SELECT coalesce(max(id), 0) FROM documents")[0][0]
        for done, (path, kind, scope, text) in enumerate(adds, 1):
            if path in self._waiting or len(self._waiting) >= _BLOCK:
                self._flush()
            self._remove(path)
            found = tokens.terms(text)
            number += 1
            self._waiting[path] = (number, " ".join(found))
            self._count(1, len(found))
            self._note(number, len(found), self._shelf(kind, scope))
            if progress is not None:
                progress(done)
        self._flush()
        for block, (lengths, shelves) in self._blocks.items():
            row = (block, bytes(lengths), shelves.tobytes())
            self._db.write("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?)", [row])
        meta = self._meta._replace(stamp=stamp, commits=self._meta.commits + 1)
        self._db.write("UPDATE meta SET stamp = ?, commits = ?, documents = ?, words = ?", [meta])

    def _flush(self) -> None:
        rows = [(number, path, words) for path, (number, words) in self._waiting.items()]
        self._db.write("INSERT INTO documents VALUES (?, ?, ?)", rows)
        self._db.write("INSERT INTO words (rowid, terms) VALUES (?, ?)", [(number, words) for number, _, words in rows])
        self._waiting.clear()

    def _remove(self, path: str) -> None:
        for number, words in self._db.all("SELECT id, terms FROM documents WHERE path = ?", path):
            self._db.write("INSERT INTO words (words, rowid, terms) VALUES ('delete', ?, ?)", [(number, words)])
            self._db.write("DELETE FROM documents WHERE id = ?", [(number,)])
            self._count(-1, -len(words.split()))
            self._note(number, 0, 0)

    def _count(self, documents: int, words: int) -> None:
        meta = self._meta
        self._meta = meta._replace(documents=meta.documents + documents, words=meta.words + words)

    def _note(self, number: int, length: int, shelf: int) -> None:
        block, place = divmod(number, _BLOCK)
        if block not in self._blocks:
            found = self._db.all("SELECT lengths, shelves FROM blocks WHERE block = ?", block)
            old = found[0] if found else (bytes(_BLOCK), bytes(4 * _BLOCK))
            self._blocks[block] = bytearray(old[0]), array("I", old[1])
        lengths, shelves = self._blocks[block]
        lengths[place], shelves[place] = length_code(length), shelf

    def _shelf(self, kind: str, scope: str) -> int:
        number = self._shelves.setdefault((kind, scope), len(self._shelves) + 1)
        self._db.write("INSERT OR IGNORE INTO shelves VALUES (?, ?, ?)", [(number, kind, scope)])
        return number
