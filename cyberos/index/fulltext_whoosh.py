"""Full text in Whoosh: the fallback that needs nothing but Python. The only module that imports whoosh, and lazily.

    <folder>/_MAIN_<n>.toc      whoosh's table of segments; getting this name is the commit, n counts them
    <folder>/MAIN_<id>.seg      a segment: postings, lengths, stored paths; never changed once written
    <folder>/_MAIN_<n>.toc.json the sheet that vouches for commit n, written before it: versions, files, stamp

Texts are not stored, only paths. Scoring is ours, over whoosh's postings: its own collector breaks ties by the order of
insertion, so that a rebuilt index would answer otherwise, and takes twice as long (ADR 0001). Its files are pickles and
a cloned repository may bring an index of its own: in this process whoosh unpickles only the classes it writes for us.

Source: whoosh3 3.54, `whoosh/index.py` (table of segments) and `whoosh/codec/whoosh3.py` (segments).
"""

from __future__ import annotations

import pickle
import re
import struct
import threading
import zlib
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

from cyberos.core.errors import VaultLocked
from cyberos.index import fulltext, tokens, unpickling, voucher
from cyberos.index.fulltext import IndexDamaged
from cyberos.index.whoosh_view import View, iter_postings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

FORMAT = 1
LOCK_WAIT_S = 5.0
OPEN_TRIES = 10
POOL_MB = 64  # of postings in memory before they are spilled to disk, by whoosh's own estimate
STALE = 0.1  # share of removed documents above which all is rewritten: they still count in the statistics

_TABLE = re.compile(r"_MAIN_(\d+)\.toc")
_PICKLED = {("whoosh.codec.whoosh3", "W3Segment"), ("whoosh.codec.whoosh3", "W3Codec")}
_PICKLED |= {("collections", "defaultdict"), ("builtins", "int"), ("builtins", "set")}


class WhooshFullText:
    """A FullText in a folder of its own, or in memory when `folder` is None."""

    name = "whoosh"

    def __init__(self, folder: Path | None, *, readonly: bool = False) -> None:
        self._folder = None if folder is None else str(folder)
        self._readonly = readonly
        self._guard = threading.RLock()
        self._view: View | None = None
        self._next_stamp: str | None = None
        self._storage = _make_storage(self._folder, self._write_sheet)

    def stamp(self) -> str | None:
        with suppress(IndexDamaged), self._guard, self._damage():
            view = self._open()
            return None if view is None else view.stamp
        return None

    def count(self) -> int:
        with self._guard, self._damage():
            view = self._open()
            return 0 if view is None else int(view.reader.doc_count())

    def search(self, query: str, *, kind: str | None, scope: str | None, limit: int) -> list[fulltext.Scored]:
        return self.compare(query, kind=kind, scope=scope, limit=limit, also=()).hits

    def compare(
        self, query: str, *, kind: str | None, scope: str | None, limit: int, also: Collection[str]
    ) -> fulltext.Compared:
        with self._guard, self._damage():
            view = self._open()
            if view is None:
                return fulltext.Compared(fulltext.Plan((), 0.0, 0.0), [])
            return fulltext.compare(query, view.postings(kind, scope), limit, also)

    def apply(
        self,
        adds: Iterable[fulltext.Document],
        removes: Iterable[str],
        *,
        stamp: str,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        with self._guard, self._writer(stamp) as writer, closing(writer.reader()) as old:
            for path in removes:
                self._remove(writer, old, path)
            numbers: dict[str, int] = {}
            for number, (path, kind, scope, text) in enumerate(adds):
                self._remove(writer, old, path)
                if path in numbers:
                    writer.get_segment().delete_document(numbers[path])
                numbers[path] = number
                words = tokens.terms(text)
                writer.add_document(path=[path], _stored_path=path, kind=[kind], scope=[scope], text=words)
                if progress is not None:
                    progress(number + 1)

    def _remove(self, writer: Any, old: Any, path: str) -> None:
        with self._damage(spare=OSError):
            for number, _ in iter_postings(old, "path", path):
                writer.delete_document(number)

    def purge(self) -> None:
        with self._guard:
            with self._damage():
                view = self._open()
            if view is not None and view.stamp is not None:
                with self._writer(view.stamp, rewrite=view.reader.has_deletions()):
                    pass

    def clear(self) -> None:
        with self._guard:
            self._refuse_readonly()
            self.close()
            for name in self._storage.list():
                if name == "MAIN.tmp":
                    self._storage.temp_storage(name).destroy()
                elif name.startswith(("_MAIN_", "MAIN_")):
                    self._storage.delete_file(name)

    def close(self) -> None:
        with self._guard:
            if self._view is not None:
                self._view.reader.close()
                self._view = None

    def _newest(self) -> int:
        """Return the number of the newest commit, -1 when there is none."""
        return max((int(found[1]) for name in self._storage.list() if (found := _TABLE.fullmatch(name))), default=-1)

    def _open(self) -> View | None:
        """Return a view of the newest commit, the one already open if it is that; None when there is no index."""
        _limit_pickles()
        for _ in range(OPEN_TRIES):
            number = self._newest()
            if number < 0:
                return None
            try:
                with closing(self._storage.open_file(f"_MAIN_{number}.toc.json")) as file:
                    sheet = file.read()
                if self._view is None or self._view.sheet != sheet:
                    self.close()
                    stamp = voucher.read_sheet(self._folder, sheet, _made_by(), self.name)
                    self._view = View(_make_index(self._storage).reader(), sheet, stamp)
            except OSError:
                # A writer may have committed meanwhile and removed what we were about to read.
                if self._newest() == number:
                    raise
                continue
            if self._view.reader.generation() in (number, None):
                return self._view
        raise IndexDamaged(self.name, "its files do not stay as they are")

    @contextmanager
    def _writer(self, stamp: str, *, rewrite: bool = False) -> Iterator[Any]:
        """Open whoosh's writer; at the end commit with the stamp, or cancel when the body raises."""
        from whoosh.index import LockError

        self._refuse_readonly()
        self._next_stamp = None
        with self._damage():
            if self._open() is None:
                _make_index(self._storage.create(), new=True)
        with self._damage(spare=OSError):
            try:
                index = self._newest_index()
                writer = index.writer(timeout=LOCK_WAIT_S, delay=0.05, limitmb=POOL_MB)
            except LockError:
                raise VaultLocked(self._folder or "memory", LOCK_WAIT_S, "another writer of this index") from None
        with ExitStack() as undo:
            undo.callback(writer.cancel)
            yield writer
            undo.pop_all()
        self.close()
        self._next_stamp = stamp
        with self._damage(spare=OSError):
            writer.commit(optimize=rewrite or writer.deleted_count() > STALE * index.doc_count_all())
        for name in self._storage.list():
            if name.endswith(".toc.json") and name != f"_MAIN_{self._newest()}.toc.json":
                self._storage.delete_file(name)

    def _newest_index(self) -> Any:
        """Open whoosh's index; another writer may commit meanwhile, and remove what we were about to read."""
        for _ in range(OPEN_TRIES - 1):
            number = self._newest()
            try:
                return _make_index(self._storage)
            except OSError:
                if self._newest() == number:
                    raise
        return _make_index(self._storage)

    @contextmanager
    def _damage(self, spare: type[BaseException] | tuple[()] = ()) -> Iterator[None]:
        """Turn what whoosh raises on files that are not as it wrote them into IndexDamaged."""
        try:
            yield
        except _broken() as error:
            for file in self._storage.opened:
                if not file.is_closed:
                    file.close()
            if isinstance(error, spare):
                raise
            raise IndexDamaged(self.name, f"{type(error).__name__}: {error}") from error

    def _write_sheet(self, temporary: str, table: str) -> None:
        files = {name: name for name in self._storage.list() if name.endswith(".seg")} | {table: temporary}
        with closing(self._storage.create_file(f"{table}.json")) as file:
            file.write(voucher.write_sheet(self._folder, files, _made_by(), self._next_stamp))

    def _refuse_readonly(self) -> None:
        if self._readonly:
            raise PermissionError(f"the {self.name} index was opened for reading only")


def _make_storage(folder: str | None, before_commit: Callable[[str, str], None]) -> Any:
    """Return whoosh's storage, made to tell (temporary name, final name) before a table is renamed."""
    from whoosh.filedb.filestore import FileStorage, RamStorage

    base: Any = RamStorage if folder is None else FileStorage

    class Storage(base):  # type: ignore[misc]
        opened: ClassVar[WeakSet[Any]] = WeakSet()  # whoosh leaves open what it fails to read

        def open_file(self, name: str, **options: Any) -> Any:
            file = super().open_file(name, **options)
            self.opened.add(file)
            return file

        def rename_file(self, oldname: str, newname: str, safe: bool = False) -> None:
            before_commit(oldname, newname)
            super().rename_file(oldname, newname, safe=safe)

    return Storage() if folder is None else Storage(folder)


def _make_index(storage: Any, *, new: bool = False) -> Any:
    from whoosh.analysis.tokenizers import IDTokenizer
    from whoosh.fields import ID, TEXT, Schema
    from whoosh.index import FileIndex

    text = TEXT(analyzer=IDTokenizer(), phrase=False)  # never asked: texts come as lists of terms
    schema = Schema(path=ID(unique=True, stored=True), kind=ID(), scope=ID(), text=text)
    make: Any = FileIndex.create if new else FileIndex
    return make(storage, schema)


def _made_by() -> list[object]:
    from whoosh import __version_str__

    return [FORMAT, __version_str__, tokens.VERSION]


@cache
def _limit_pickles() -> None:
    """Give whoosh our unpickler under each name by which its reading code knows pickle."""
    from whoosh import columns
    from whoosh.codec import whoosh3
    from whoosh.filedb import structfile

    for module, name in ((structfile, "load"), (whoosh3, "loads"), (columns, "loads")):
        getattr(module, name)  # gone in another version of whoosh: then nothing may be read
        setattr(module, name, partial(unpickling.unpickle, allowed=_PICKLED))


@cache
def _broken() -> tuple[type[Exception], ...]:
    from whoosh import index, reading, writing
    from whoosh.filedb import filestore, filetables

    python = (ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, NameError, OSError)
    formats = (RuntimeError, TypeError, ValueError, pickle.PickleError, struct.error, zlib.error)
    readers = (reading.CorruptIndexError, reading.TermNotFound, index.IndexError, writing.IndexingError)
    return (*python, *formats, *readers, filestore.StorageError, filetables.FileFormatError)
