"""The work of a sync: what is new goes into the catalog, and what the catalog wants goes into the engine.

Each step can be done again: the catalog records in one transaction what it has read and what the engine should hold,
the engine commits under a stamp, and only then does the catalog record that it holds it.

Source: DESIGN section 6.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cyberos.index import bodies, changes
from cyberos.index.entry import ABSENT, FORGOTTEN, GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cyberos.core.files import Files
    from cyberos.index.catalog import Catalog
    from cyberos.index.changes import Changes
    from cyberos.index.entry import Entry
    from cyberos.index.fulltext import Document, FullText

    Progress = Callable[[int, int], None]


def is_current(files: Files, catalog: Catalog, engine: FullText | None) -> bool:
    """Report whether nothing is new and nothing is left to do; for the catalog alone without an engine."""
    if not changes.is_seen(files, catalog) or _moved(files, catalog):
        return False
    if engine is None:
        return True
    stamp = catalog.get("stamp")
    return not catalog.has_pending() and not catalog.get("purge") and engine.stamp() == stamp is not None


def _moved(files: Files, catalog: Catalog) -> list[Entry]:
    """Give the memories that had no file and whose place has changed since."""
    return [entry for entry in catalog.in_state(ABSENT) if bodies.look(files, entry.path) != entry.status]


def bring_up(files: Files, catalog: Catalog, engine: FullText | None, progress: Progress | None = None) -> None:
    """Apply what is new to the catalog, then to the engine unless that is None. Raises: IndexDamaged, OSError."""
    if not changes.is_seen(files, catalog):
        _take(files, catalog, changes.read(files, catalog))
    moved = [bodies.enter(files, entry.path, changes.standing_of(entry)) for entry in _moved(files, catalog)]
    if moved:
        with catalog.writing():
            catalog.save(moved)
    if engine is not None:
        feed(files, catalog, engine, progress)


def _take(files: Files, catalog: Catalog, news: Changes) -> None:
    """Write what the ledger says into the catalog, reading the files of the memories that changed."""
    before = {entry.path: entry for entry in _entries(catalog, news)}
    entries = []
    for path, standing in news.standings.items():
        if path not in before or changes.standing_of(before[path]) != standing or before[path].state == GONE:
            entries.append(bodies.enter(files, path, standing))
    if news.is_whole:
        entries += [before[path]._replace(state=GONE) for path in before.keys() - news.standings.keys()]
    # the engine may hold bytes of a path that the catalog has dropped since, so any forgetting that is new counts
    is_purge = catalog.get("folders") is not None and any(entry.state == FORGOTTEN for entry in entries)
    with catalog.writing():
        catalog.save(entries)
        catalog.save_marks(news.marks, whole=news.is_whole)
        catalog.save_joints(news.joints, whole=news.is_whole)
        catalog.set(**news.meta)
        if is_purge:
            catalog.set(purge=True)


def _entries(catalog: Catalog, news: Changes) -> Iterable[Entry]:
    if news.is_whole:
        return catalog.entries()
    return filter(None, map(catalog.entry, news.standings))


def feed(files: Files, catalog: Catalog, engine: FullText, progress: Progress | None = None) -> None:
    """Bring the engine to what the catalog wants of it; what was forgotten leaves no bytes behind."""
    stamp = engine.stamp()
    if stamp is None or stamp not in (catalog.get("stamp"), catalog.get("attempt")):
        engine.clear()
        catalog.forget_engine()
    elif stamp == catalog.get("stamp") and not catalog.has_pending() and not catalog.get("purge"):
        return
    adds = _documents(files, catalog)
    removes = [entry.path for entry, wanted in catalog.pending() if not wanted]
    stamp = os.urandom(8).hex()
    catalog.set(attempt=stamp)
    told = (lambda done: progress(done, len(adds))) if progress is not None else None
    engine.apply(adds, removes, stamp=stamp, progress=told)
    if catalog.get("purge"):
        engine.purge()
        catalog.vacuum()
    catalog.confirm(stamp)


def _documents(files: Files, catalog: Catalog) -> list[Document]:
    """Make the documents that the engine lacks; a file that changed under our hands becomes absent."""
    found, lost = [], []
    for entry, wanted in catalog.pending():
        if wanted:
            made = bodies.document(files, entry)
            found += [made] if made is not None else []
            lost += [entry] if made is None else []
    if lost:
        with catalog.writing():
            catalog.save(entry._replace(state=ABSENT, digest="", status="") for entry in lost)
    return found
