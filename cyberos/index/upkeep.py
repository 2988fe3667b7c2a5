"""The work of a sync: what is new goes into the catalog, and what the catalog wants goes into the stores asked for.

Each step can be done again: the catalog records in one transaction what it has read and what a store should hold,
the store commits under a stamp, and only then does the catalog record that it holds it. A store that is not asked for
stays behind until it is, but for what was forgotten: that it lets go of at once.

Source: DESIGN section 6.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cyberos.index import bodies, changes
from cyberos.index.catalog import Catalog, Reach
from cyberos.index.entry import ABSENT, FORGOTTEN, GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cyberos.core.files import Files
    from cyberos.index.changes import Changes
    from cyberos.index.entry import Entry
    from cyberos.index.fulltext import Document, Store

    Progress = Callable[[int, int], None]


def is_current(files: Files, catalog: Catalog, stores: Sequence[Store]) -> bool:
    """Report whether nothing is new and these stores have nothing left to do; without any, for the catalog alone."""
    if not changes.is_seen(files, catalog) or _moved(files, catalog):
        return False
    if not stores:
        return True
    reached = catalog.stores()
    return not catalog.get("purge") and all(
        _is_fed(catalog, store, reached.get(store.name, Reach())) for store in stores
    )


def _is_fed(catalog: Catalog, store: Store, reach: Reach) -> bool:
    return not catalog.has_pending(store.name) and store.stamp() == reach.stamp is not None


def _moved(files: Files, catalog: Catalog) -> list[Entry]:
    """Give the memories that had no file and whose place has changed since."""
    return [entry for entry in catalog.in_state(ABSENT) if bodies.look(files, entry.path) != entry.status]


def bring_up(files: Files, catalog: Catalog, stores: Sequence[Store], progress: Progress | None = None) -> None:
    """Apply what is new to the catalog, then to these stores. Raises: IndexDamaged, OSError."""
    if not changes.is_seen(files, catalog):
        _take(files, catalog, changes.read(files, catalog))
    moved = [bodies.enter(files, entry.path, changes.standing_of(entry)) for entry in _moved(files, catalog)]
    if moved:
        with catalog.writing():
            catalog.save(moved)
    for store in stores:
        feed(files, catalog, store, progress)


def _take(files: Files, catalog: Catalog, news: Changes) -> None:
    """Write what the ledger says into the catalog, reading the files of the memories that changed."""
    before = {entry.path: entry for entry in _entries(catalog, news)}
    entries = []
    for path, standing in news.standings.items():
        if path not in before or changes.standing_of(before[path]) != standing or before[path].state == GONE:
            entries.append(bodies.enter(files, path, standing))
    if news.is_whole:
        entries += [before[path]._replace(state=GONE) for path in before.keys() - news.standings.keys()]
    # a store may hold bytes of a path that the catalog has dropped since, so any forgetting that is new counts
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


def feed(files: Files, catalog: Catalog, store: Store, progress: Progress | None = None) -> None:
    """Bring a store to what the catalog wants of it."""
    if _reach(catalog, store).stamp is not None and not catalog.has_pending(store.name):
        return
    adds = _documents(files, catalog, store.name)
    removes = [entry.path for entry, wanted in catalog.pending(store.name) if not wanted]
    stamp = os.urandom(8).hex()
    catalog.attempt(store.name, stamp)
    told = (lambda done: progress(done, len(adds))) if progress is not None else None
    store.apply(adds, removes, stamp=stamp, progress=told)
    catalog.confirm(store.name, stamp)


def _reach(catalog: Catalog, store: Store) -> Reach:
    """Give how far a store is; one whose stamp is not what the catalog knows is cleared, and begins from nothing."""
    reach = catalog.stores().get(store.name, Reach())
    stamp = store.stamp()
    if stamp is None or stamp not in (reach.stamp, reach.attempt):
        store.clear()
        catalog.forget_store(store.name)
        return Reach()
    # committed, but not confirmed: it is done again
    return reach if stamp == reach.stamp else reach._replace(stamp=None)


def purge(catalog: Catalog, stores: Iterable[Store]) -> None:
    """Leave no bytes of what was forgotten: each store drops what is out of date, and adds nothing, then is rewritten.

    It needs all stores that hold anything: those that are not asked today too.
    """
    for store in stores:
        reach = _reach(catalog, store)
        if reach != Reach():
            stale = [entry.path for entry, _ in catalog.pending(store.name)]
            store.apply((), stale, stamp=reach.stamp or str(reach.attempt))
            store.purge()
    catalog.vacuum()
    catalog.set(purge=False)


def _documents(files: Files, catalog: Catalog, store: str) -> list[Document]:
    """Make the documents that a store lacks; a file that changed under our hands becomes absent."""
    found, lost = [], []
    for entry, wanted in catalog.pending(store):
        if wanted:
            made = bodies.document(files, entry)
            found += [made] if made is not None else []
            lost += [entry] if made is None else []
    if lost:
        with catalog.writing():
            catalog.save(entry._replace(state=ABSENT, digest="", status="") for entry in lost)
    return found
