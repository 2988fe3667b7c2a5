"""Bringing the index up to date with the ledger: the catalog first, then the stores that are asked for.

    .cyberos/index/lock             held while any is written; readers take it only when something is new
    .cyberos/index/catalog.sqlite   see `catalog`
    .cyberos/index/<store>/         see `engines`; there only if it was ever asked for
    .cyberos/index/vectors-*        see `vectors`, which `meaning` brings up to date

The catalog records what a store should hold and how far it has come, so a crash between the two is made good by the
next sync. Damage in any is no error: it is made again from the ledger and the files. When another process holds
the lock for long, the answer comes from what is there; when the folder cannot be written, from an index in memory.

Source: DESIGN section 6.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cyberos.core import layout
from cyberos.core.errors import UnsafePath, VaultLocked
from cyberos.core.files import Files
from cyberos.core.lock import lock
from cyberos.index import bodies, changes, engines, salvage, upkeep, vectors
from cyberos.index.catalog import NAME, Catalog
from cyberos.index.fulltext import IndexDamaged
from cyberos.index.synced import Synced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cyberos.index.fulltext import FullText
    from cyberos.index.upkeep import Progress

LOCK = f"{layout.INDEX}/lock"
WAIT_S = 3.0
_BRIEFLY_S = 0.5

_aside: dict[str, tuple[Catalog, dict[str, FullText]]] = {}
_guard = threading.RLock()


def sync(
    root: str | os.PathLike[str],
    stores: Sequence[str] = (engines.WHOOSH,),
    *,
    writable: bool = True,
    careful: bool = False,
    afresh: bool = False,
    progress: Progress | None = None,
    wait_s: float = WAIT_S,
) -> Synced:
    """Bring the index up to date as far as that can be done, and give it; without stores the catalog alone.

    `careful` looks at everything under the lock even if nothing seems new, `afresh` begins from nothing. `progress` is
    told (done, all) documents.
    """
    files = _files(root)
    found = None if careful or afresh else _current(files, stores)
    if found is not None:
        return found
    if not writable:
        return _in_memory(files, stores, "the index may not be written", progress)
    try:
        return _update(files, stores, progress, wait_s=wait_s, afresh=afresh)
    except VaultLocked as error:
        reason = f"the index is being written by {error.holder}, so the answer is from what was there before"
        return _as_it_is(files, stores, reason)
    except (OSError, UnsafePath, IndexDamaged) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return _in_memory(files, stores, f"the index cannot be written ({reason})", progress)


def _current(files: Files, stores: Sequence[str]) -> Synced | None:
    """Give the index on disk if nothing is new and nothing is left to do."""
    with suppress(IndexDamaged, OSError, VaultLocked):
        catalog = Catalog(_full(files, NAME), readonly=True)
        with suppress(IndexDamaged, OSError, VaultLocked):
            if upkeep.is_current(files, catalog, [engines.of(files, name) for name in stores]):
                return Synced(files, catalog, stores)
        catalog.close()
    return None


def _update(
    files: Files, stores: Sequence[str], progress: Progress | None, *, wait_s: float, afresh: bool = False
) -> Synced:
    _make_folder(files)
    with lock(_full(files, LOCK), wait_s):
        if afresh:
            _discard_all(files)
        for is_last in (False, True):
            try:
                return _open_updated(files, stores, progress)
            except IndexDamaged as error:
                if is_last:
                    raise
                _discard(files, error.engine)
    raise AssertionError("unreachable")


def _open_updated(files: Files, stores: Sequence[str], progress: Progress | None, *, is_purge: bool = False) -> Synced:
    catalog = Catalog(_full(files, NAME))
    try:
        upkeep.bring_up(files, catalog, [engines.of(files, name) for name in stores], progress)
        if is_purge or (stores and catalog.get("purge")):
            vectors.purge(files, {path: key for path, key, _ in catalog.wanted()})
            upkeep.purge(catalog, [engines.of(files, name) for name in engines.present(files)])
    except BaseException:
        catalog.close()
        raise
    return Synced(files, catalog, stores)


def _discard(files: Files, store: str) -> None:
    """Take away the store that is damaged: it is derived. Of the catalog, a new one keeps the counts of uses."""
    if store != "catalog":
        engines.of(files, store).clear()
        return
    uses = salvage.uses(_full(files, NAME))
    for ending in ("", "-journal", "-wal", "-shm"):
        files.remove(NAME + ending)
    if uses:
        with closing(Catalog(_full(files, NAME))) as made:
            made.note_uses(uses)


def _discard_all(files: Files) -> None:
    for store in ("catalog", *engines.present(files)):
        _discard(files, store)


def _as_it_is(files: Files, stores: Sequence[str], reason: str) -> Synced:
    """Give the index on disk though it is behind, with what it has not seen; an empty one when there is none."""
    for path in (_full(files, NAME), None):
        with suppress(IndexDamaged, OSError, VaultLocked):
            catalog = Catalog(path, readonly=path is not None)
            try:
                return Synced(files, catalog, stores, changes.read(files, catalog), reason)
            except BaseException:
                catalog.close()
                raise
    raise AssertionError("unreachable")


def _in_memory(files: Files, stores: Sequence[str], reason: str, progress: Progress | None) -> Synced:
    """Give an index of this process alone, kept for its next question."""
    with _guard:
        if files.root not in _aside:
            _aside[files.root] = (Catalog(None), {})
        catalog, kept = _aside[files.root]
        for name in stores:
            kept[name] = kept.get(name) or engines.make(name, None)
        upkeep.bring_up(files, catalog, [kept[name] for name in stores], progress)
    return Synced(files, catalog, stores, None, f"{reason}, so one was built in memory", kept)


def rebuild(
    root: str | os.PathLike[str],
    stores: Sequence[str] = (engines.WHOOSH,),
    *,
    progress: Progress | None = None,
    wait_s: float = WAIT_S,
) -> Synced:
    """Make the index again from nothing; only the counts of uses are kept. Raises: VaultLocked, OSError."""
    files = _files(root)
    _make_folder(files)
    with lock(_full(files, LOCK), wait_s):
        vectors.discard(files)
    return _update(files, stores, progress, wait_s=wait_s, afresh=True)


def damage(root: str | os.PathLike[str]) -> str | None:
    """Say what is damaged in the index on disk, or give None; one that is absent, or being written, is sound."""
    files = _files(root)
    if files.stat(NAME) is None:
        return None
    try:
        with closing(Catalog(_full(files, NAME), readonly=True)) as catalog:
            catalog.check()
        for store in engines.present(files):
            engines.of(files, store).count()
    except IndexDamaged as error:
        return str(error)
    except (OSError, VaultLocked):
        return None
    return None


def discard(root: str | os.PathLike[str], *, wait_s: float = WAIT_S) -> None:
    """Take the index away but for the counts of uses; the next recall makes it again. Raises: VaultLocked, OSError."""
    files = _files(root)
    with lock(_full(files, LOCK), wait_s):
        _discard_all(files)
        vectors.discard(files)


def purge(root: str | os.PathLike[str], *, wait_s: float = WAIT_S) -> None:
    """Leave no bytes of what was forgotten in any index. Raises: VaultLocked, OSError."""
    files = _files(root)
    if files.stat(layout.INDEX) is None:
        return
    _make_folder(files)
    with lock(_full(files, LOCK), wait_s):
        try:
            _open_updated(files, (), None, is_purge=True).catalog.close()
        except IndexDamaged:
            _discard_all(files)
            vectors.discard(files)


def look_again(index: Synced, paths: Iterable[str]) -> bool:
    """Note that the files of these memories are not what the catalog holds; report whether that could be written."""
    with suppress(VaultLocked, OSError, IndexDamaged), _writable(index) as catalog:
        known = [entry for path in paths if (entry := catalog.entry(path)) is not None]
        news = [bodies.enter(index.files, entry.path, changes.standing_of(entry)) for entry in known]
        with catalog.writing():
            catalog.save(news)
        return True
    return False


def note_uses(index: Synced, paths: Iterable[str]) -> None:
    """Count one more use of each memory; silent where that cannot be written."""
    with suppress(VaultLocked, OSError, IndexDamaged), _writable(index) as catalog:
        catalog.note_uses(dict.fromkeys(paths, 1))


@contextmanager
def _writable(index: Synced) -> Iterator[Catalog]:
    """Give a catalog of the same index that can be written, under the lock. Raises: VaultLocked, OSError."""
    if index.kept is not None:
        yield index.catalog
        return
    with lock(_full(index.files, LOCK), _BRIEFLY_S), closing(Catalog(_full(index.files, NAME))) as catalog:
        yield catalog


def _files(root: str | os.PathLike[str]) -> Files:
    return Files(Path(os.path.abspath(root)))


def _full(files: Files, path: str) -> str:
    return os.path.join(files.root, path)


def _make_folder(files: Files) -> None:
    if files.make_folder(layout.INDEX):
        from cyberos.core.writer import ignore_private

        ignore_private(files)
