"""Full text in Whoosh: the fallback that needs nothing but Python. The only module that imports whoosh, and lazily.

    <folder>/_MAIN_<n>.toc      whoosh's table of segments; getting this name is the commit, n counts them
    <folder>/MAIN_<id>.seg      a segment: postings, lengths, stored paths; never changed once written
    <folder>/cyberos-<n>.json   our sheet of commit n, written before it: {"files": {name: [size, mtime_ns, inode,
                                sha256]}, "made_by": [sheet, whoosh, tokenizer version], "stamp": …}

An index is usable when its newest table has a sheet, made by the same versions, and each file is as the sheet says; a
file whose size, time or inode differ is read against its checksum. Texts are not stored, only paths.

Scoring is ours, term by term over whoosh's postings: whoosh's own collector breaks ties by the order of insertion, so
that a rebuilt index would answer otherwise, and it takes twice as long (ADR 0001).

Whoosh keeps its files as pickles, and a cloned repository may bring an index of its own: in this process whoosh
unpickles only the classes that it writes for us.

Source: whoosh3 3.54, `whoosh/index.py` (table of segments) and `whoosh/codec/whoosh3.py` (segments).
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
import re
import stat
import struct
import threading
import zlib
from collections import defaultdict
from contextlib import closing, contextmanager
from functools import cache, partial
from typing import IO, TYPE_CHECKING, Any

from cyberos.core.errors import VaultLocked
from cyberos.index import tokens
from cyberos.index.fulltext import IndexDamaged, Plan, Scored, best, make_plan, ratios, saturation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from cyberos.index.fulltext import Document

SHEET_VERSION = 1
LOCK_WAIT_S = 5.0
OPEN_TRIES = 5
# Postings kept in memory before they are spilled to disk, by whoosh's own estimate.
POOL_MB = 64
# A segment with more than this share of removed documents is rewritten: they still count in its statistics.
STALE = 0.1

_TABLE = re.compile(r"_MAIN_(\d+)\.toc")
_OURS = re.compile(r"_?MAIN_.*|cyberos-\d+\.json")
_PICKLED = {("whoosh.codec.whoosh3", "W3Segment"), ("whoosh.codec.whoosh3", "W3Codec"), ("builtins", "set")}


class WhooshFullText:
    """A FullText in a folder of its own, or in memory when `folder` is None."""

    name = "whoosh"

    def __init__(self, folder: Path | None, *, readonly: bool = False) -> None:
        self._readonly = readonly
        self._guard = threading.RLock()
        self._shelf = _Shelf(folder)
        self._view: _View | None = None

    def stamp(self) -> str | None:
        try:
            with self._guard, _damage():
                sheet = self._shelf.sheet(self._shelf.newest())
        except IndexDamaged:
            return None
        return sheet and sheet["stamp"]

    def count(self) -> int:
        with self._guard, _damage():
            view = self._open()
            return 0 if view is None else int(view.reader.doc_count())

    def search(self, query: str, *, kind: str | None, scope: str | None, limit: int) -> list[Scored]:
        with self._guard, _damage():
            view = self._open()
            return [] if view is None else view.search(query, kind, scope, limit)

    def apply(
        self,
        adds: Iterable[Document],
        removes: Iterable[str],
        *,
        stamp: str,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        with self._guard, self._writer(stamp, STALE) as writer:
            remove = _make_remover(writer)
            for path in removes:
                remove(path)
            numbers: dict[str, int] = {}
            for number, (path, kind, scope, text) in enumerate(adds):
                remove(path)
                if path in numbers:
                    writer.get_segment().delete_document(numbers[path])
                numbers[path] = number
                fields = {"path": [path], "_stored_path": path, "kind": [kind], "scope": [scope]}
                writer.add_document(text=tokens.terms(text), **fields)
                if progress is not None:
                    progress(number + 1)

    def purge(self) -> None:
        with self._guard:
            with _damage():
                sheet = self._shelf.sheet(self._shelf.newest())
            if sheet is not None:
                with self._writer(sheet["stamp"], 0.0):
                    pass

    def clear(self) -> None:
        with self._guard:
            self._refuse_readonly()
            self.close()
            self._shelf.clear()

    def close(self) -> None:
        with self._guard:
            if self._view is not None:
                self._view.reader.close()
                self._view = None

    def _open(self) -> _View | None:
        """Return a view of the newest commit, the one already open if it is that; None when there is no index."""
        for _ in range(OPEN_TRIES):
            number = self._shelf.newest()
            try:
                identity = self._shelf.identity(number)
                if self._view is None or self._view.identity != identity:
                    self.close()
                    if self._shelf.sheet(number) is None:
                        return None
                    self._view = _View(self._shelf.index().reader(), identity)
            except OSError:
                # A writer may have committed meanwhile and removed what we were about to read.
                if self._shelf.newest() == number:
                    raise
                continue
            if self._view.reader.generation() in (number, None):
                return self._view
        raise IndexDamaged(self.name, "its files do not stay as they are")

    @contextmanager
    def _writer(self, stamp: str, stale: float) -> Iterator[Any]:
        """Open whoosh's writer; at the end commit with the stamp, or cancel when the body raises."""
        from whoosh.index import LockError

        self._refuse_readonly()
        with _damage(spare=OSError):
            index = self._shelf.index(create=True)
            try:
                writer = index.writer(timeout=LOCK_WAIT_S, delay=0.05, limitmb=POOL_MB)
            except LockError:
                raise VaultLocked(self._shelf.name, LOCK_WAIT_S, "another writer of this index") from None
        done = False
        try:
            yield writer
            done = True
        finally:
            if not done:
                writer.cancel()
        self.close()
        with _damage(spare=OSError):
            self._shelf.commit(writer, stamp, stale)

    def _refuse_readonly(self) -> None:
        if self._readonly:
            raise PermissionError(errno.EROFS, "the index was opened for reading only", self._shelf.name)


class _View:
    """One commit, opened for searching."""

    def __init__(self, reader: Any, identity: object) -> None:
        self.reader = reader
        self.identity = identity
        mean = reader.field_length("text") / max(1, reader.doc_count_all()) or 1.0
        self._leaves = [(leaf, base, _Saturations(leaf, mean)) for leaf, base in reader.leaf_readers()]
        self._path_of = cache(lambda number: str(reader.stored_fields(number)["path"]))
        self._holders = cache(lambda field, value: frozenset(m.all_ids() if (m := _postings(reader, field, value)) else ()))

    def search(self, query: str, kind: str | None, scope: str | None, limit: int) -> list[Scored]:
        plan = make_plan(query, partial(self.reader.doc_frequency, "text"), self.reader.doc_count_all())
        scores = self._scores(plan)
        for field, value in (("kind", kind), ("scope", scope)):
            if value is not None:
                holders = self._holders(field, value)
                scores = {number: score for number, score in scores.items() if number in holders}
        ranked = best(scores, self._path_of, limit)
        present = {term for term, _ in plan.asked if ranked and self._has(ranked[0][2], term)}
        return ratios([(path, score) for path, score, _ in ranked], plan, present)

    def _scores(self, plan: Plan) -> dict[int, float]:
        """Return the BM25 of every document that holds a term asked for."""
        scores: dict[int, float] = defaultdict(float)
        for leaf, base, saturations in self._leaves:
            for term, weight in plan.asked:
                matcher = _postings(leaf, "text", term)
                while matcher is not None and matcher.is_active():
                    number, times = matcher.id(), matcher.weight()
                    # sum of weight(t) * f / (f + k1 * (1 - b + b * |d| / mean |d|))
                    scores[base + number] += weight * times / (times + saturations[number])
                    matcher.next()
        return scores

    def _has(self, number: int, term: str) -> bool:
        matcher = _postings(self.reader, "text", term)
        if matcher is not None:
            matcher.skip_to(number)
        return matcher is not None and matcher.is_active() and bool(matcher.id() == number)


class _Saturations(dict[int, float]):
    """BM25's length term of each document of a leaf, computed when first asked for."""

    def __init__(self, leaf: Any, mean: float) -> None:
        super().__init__()
        self._leaf, self._mean = leaf, mean

    def __missing__(self, number: int) -> float:
        value = self[number] = saturation(self._leaf.doc_field_length(number, "text"), self._mean)
        return value


class _Shelf:
    """The files of one index and the sheets that vouch for them."""

    def __init__(self, folder: Path | None) -> None:
        self.name = "memory" if folder is None else str(folder)
        self._on_disk = folder is not None
        self._stamp: str | None = None
        self._segments: set[str] = set()

    @cached_property
    def storage(self) -> Any:
        return _make_storage(self.name if self._on_disk else None, self._write_sheet)

    def newest(self) -> int:
        """Return the number of the newest commit, -1 when there is none."""
        return max((int(found[1]) for name in self.storage.list() if (found := _TABLE.fullmatch(name))), default=-1)

    def identity(self, number: int) -> object:
        """Return what differs between two commits, even of one number: an index may be cleared and made again."""
        return (number, self._look(f"_MAIN_{number}.toc")) if self._on_disk and number >= 0 else number

    def index(self, *, create: bool = False) -> Any:
        from whoosh.index import FileIndex

        if create and self.newest() < 0:
            self._stamp, self._segments = None, set()
            if self._on_disk:
                self.storage.create()
            return FileIndex.create(self.storage, _make_schema())
        self.sheet(self.newest())
        return FileIndex(self.storage, _make_schema())

    def commit(self, writer: Any, stamp: str, stale: float) -> None:
        self._stamp = stamp
        writer.commit(mergetype=partial(self._merge, stale=stale))
        newest = f"cyberos-{self.newest()}.json"
        for name in self.storage.list():
            if name.startswith("cyberos-") and name != newest:
                self.storage.delete_file(name)

    def _merge(self, writer: Any, segments: list[Any], *, stale: float) -> list[Any]:
        """Rewrite, as whoosh's merge policy, the stale segments and then those that whoosh finds too small."""
        from whoosh.reading import SegmentReader
        from whoosh.writing import MERGE_SMALL

        worn = [segment for segment in segments if segment.deleted_count() > stale * segment.doc_count_all()]
        for segment in worn:
            with closing(SegmentReader(writer.storage, writer.schema, segment)) as reader:
                writer.add_reader(reader)
        kept: list[Any] = MERGE_SMALL(writer, [segment for segment in segments if segment not in worn])
        self._segments = {segment.segment_id() for segment in (*kept, writer.get_segment())}
        return kept

    def sheet(self, number: int) -> dict[str, Any] | None:
        """Return a commit's sheet when the files are as it says; None when nothing was committed yet."""
        if number < 0:
            return None
        with closing(self.storage.open_file(f"cyberos-{number}.json")) as file:
            sheet: dict[str, Any] = json.loads(file.read())
        if sheet["made_by"] != _made_by():
            raise IndexDamaged(WhooshFullText.name, "another version made it")
        for name, (*look, digest) in sheet["files"].items():
            seen = self._look(name)
            if seen != look and (seen[0] != look[0] or self._digest(name) != digest):
                raise IndexDamaged(WhooshFullText.name, f"{name} is not as it was written")
        return sheet if sheet["stamp"] is not None else None
