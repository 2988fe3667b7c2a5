"""Bringing the index up to date with the ledger: the catalog first, then the full-text engine.

    .cyberos/index/lock             held while either is written; readers take it only when something is new
    .cyberos/index/catalog.sqlite   see `catalog`
    .cyberos/index/whoosh/          see `fulltext_whoosh`

The catalog records what the engine should hold and what it does hold, so a crash between the two is made good by the
next sync. Damage in either is no error: it is made again from the ledger and the files. When another process holds
the lock for long, the answer comes from what is there; when the folder cannot be written, from an index in memory.

Source: DESIGN section 6.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from cyberos.core import layout
from cyberos.core.errors import UnsafePath, VaultLocked
from cyberos.core.files import Files
from cyberos.core.lock import lock
from cyberos.index import bodies, changes, engines, salvage, upkeep
from cyberos.index.catalog import NAME, Catalog
from cyberos.index.entry import ABSENT, GONE, READY
from cyberos.index.fulltext import FullText, IndexDamaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cyberos.index.changes import Changes, Standing
    from cyberos.index.upkeep import Progress

LOCK = f"{layout.INDEX}/lock"
WAIT_S = 3.0
_BRIEFLY_S = 0.5

_aside: dict[str, tuple[Catalog, FullText]] = {}
_guard = threading.RLock()


class Synced(NamedTuple):
    """An index ready to be asked; a context manager that closes its catalog.

    `behind` is what it has not seen, when another process was writing it; `reason` says why it is not the index on
    disk or not up to date, or is None; `kept` is the engine of an index in memory, which this process keeps.
    """

    files: Files
    catalog: Catalog
    behind: Changes | None = None
    reason: str | None = None
    kept: FullText | None = None

    @property
    def engine(self) -> FullText:
        """The full-text engine; not up to date where the catalog alone was asked for."""
        return self.kept or engines.of(self.files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.kept is None:
            self.catalog.close()

    @property
    def warning(self) -> str | None:
        """What makes the answers of this index doubtful, in a sentence; None where nothing does."""
        place = self.catalog.get("damage")
        damage = (
            f"the ledger is damaged at {place}, so memories may be missing: run `cyberos doctor`" if place else None
        )
        return "; ".join(filter(None, (self.reason, damage))) or None

    def standing(self, path: str) -> Standing | None:
        """Give what the ledger says of a path, as far as it was read; None when it says nothing."""
        if self.behind is not None and (path in self.behind.standings or self.behind.is_whole):
            return self.behind.standings.get(path)
        entry = self.catalog.entry(path)
        return changes.standing_of(entry) if entry is not None and entry.state != GONE else None

    def unseen(self, kind: str | None) -> int:
        """Count the memories that live but cannot be found: no file holds their bytes, or they are not indexed yet."""
        count = self.catalog.count(ABSENT, kind)
        count += sum(1 for entry, wanted in self.catalog.pending() if wanted and kind in (None, entry.kind))
        for path, standing in (self.behind.standings if self.behind is not None else {}).items():
            if standing.live and not standing.is_quarantined and kind in (None, layout.kind_of(path)):
                entry = self.catalog.entry(path)
                count += entry is None or entry.state not in (READY, ABSENT)
        return count


def sync(
    root: str | os.PathLike[str],
    *,
    writable: bool = True,
    full_text: bool = True,
    careful: bool = False,
    afresh: bool = False,
    progress: Progress | None = None,
    wait_s: float = WAIT_S,
) -> Synced:
    """Bring the index up to date as far as that can be done, and give it; without `full_text` the catalog alone.

    `careful` looks at everything under the lock even if nothing seems new, `afresh` begins from nothing. `progress` is
    told (done, all) documents.
    """
    files = _files(root)
    found = None if careful or afresh else _current(files, full_text=full_text)
    if found is not None:
        return found
    if not writable:
        return _in_memory(files, "the index may not be written", full_text=full_text, progress=progress)
    try:
        return _update(files, full_text=full_text, progress=progress, wait_s=wait_s, afresh=afresh)
    except VaultLocked as error:
        return _as_it_is(
            files, f"the index is being written by {error.holder}, so the answer is from what was there before"
        )
    except (OSError, UnsafePath, IndexDamaged) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return _in_memory(files, f"the index cannot be written ({reason})", full_text=full_text, progress=progress)


def _current(files: Files, *, full_text: bool) -> Synced | None:
    """Give the index on disk if nothing is new and nothing is left to do."""
    with suppress(IndexDamaged, OSError, VaultLocked):
        catalog = Catalog(_full(files, NAME), readonly=True)
        with suppress(IndexDamaged, OSError, VaultLocked):
            if upkeep.is_current(files, catalog, engines.of(files) if full_text else None):
                return Synced(files, catalog)
        catalog.close()
    return None


def _update(files: Files, *, full_text: bool, progress: Progress | None, wait_s: float, afresh: bool = False) -> Synced:
    _make_folder(files)
    with lock(_full(files, LOCK), wait_s):
        if afresh:
            _discard(files, "catalog")
            engines.of(files).clear()
        for is_last in (False, True):
            try:
                return _open_updated(files, full_text=full_text, progress=progress)
            except IndexDamaged as error:
                if is_last:
                    raise
                _discard(files, error.engine)
    raise AssertionError("unreachable")


def _open_updated(files: Files, *, full_text: bool, progress: Progress | None) -> Synced:
    catalog = Catalog(_full(files, NAME))
    try:
        upkeep.bring_up(files, catalog, engines.of(files) if full_text else None, progress)
    except BaseException:
        catalog.close()
        raise
    return Synced(files, catalog)


def _discard(files: Files, engine: str) -> None:
    """Take away the store that is damaged: it is derived. Of the catalog, a new one keeps the counts of uses."""
    if engine != "catalog":
        engines.of(files).clear()
        return
    uses = salvage.uses(_full(files, NAME))
    for ending in ("", "-journal", "-wal", "-shm"):
        files.remove(NAME + ending)
    if uses:
        with closing(Catalog(_full(files, NAME))) as made:
            made.note_uses(uses)


def _as_it_is(files: Files, reason: str) -> Synced:
    """Give the index on disk though it is behind, with what it has not seen; an empty one when there is none."""
    for path in (_full(files, NAME), None):
        with suppress(IndexDamaged, OSError, VaultLocked):
            catalog = Catalog(path, readonly=path is not None)
            try:
                return Synced(files, catalog, changes.read(files, catalog), reason)
            except BaseException:
                catalog.close()
                raise
    raise AssertionError("unreachable")


def _in_memory(files: Files, reason: str, *, full_text: bool, progress: Progress | None) -> Synced:
    """Give an index of this process alone, kept for its next question."""
    with _guard:
        if files.root not in _aside:
            _aside[files.root] = (Catalog(None), engines.make(None))
        catalog, engine = _aside[files.root]
        upkeep.bring_up(files, catalog, engine if full_text else None, progress)
    return Synced(files, catalog, None, f"{reason}, so one was built in memory", engine)


def rebuild(root: str | os.PathLike[str], *, progress: Progress | None = None, wait_s: float = WAIT_S) -> Synced:
    """Make the index again from nothing; only the counts of uses are kept. Raises: VaultLocked, OSError."""
    return _update(_files(root), full_text=True, progress=progress, wait_s=wait_s, afresh=True)


def damage(root: str | os.PathLike[str]) -> str | None:
    """Say what is damaged in the index on disk, or give None; one that is absent, or being written, is sound."""
    files = _files(root)
    if files.stat(NAME) is None:
        return None
    try:
        with closing(Catalog(_full(files, NAME), readonly=True)) as catalog:
            catalog.check()
        engines.of(files).count()
    except IndexDamaged as error:
        return str(error)
    except (OSError, VaultLocked):
        return None
    return None


def discard(root: str | os.PathLike[str], *, wait_s: float = WAIT_S) -> None:
    """Take the index away but for the counts of uses; the next recall makes it again. Raises: VaultLocked, OSError."""
    files = _files(root)
    with lock(_full(files, LOCK), wait_s):
        _discard(files, "catalog")
        engines.of(files).clear()


def purge(root: str | os.PathLike[str], *, wait_s: float = WAIT_S) -> None:
    """Leave no bytes of what was forgotten in any index. Raises: VaultLocked, OSError."""
    files = _files(root)
    if files.stat(layout.INDEX) is None:
        return
    _make_folder(files)
    with lock(_full(files, LOCK), wait_s):
        try:
            with _open_updated(files, full_text=False, progress=None) as index:
                index.catalog.set(purge=True)
                if index.engine.stamp() is not None:
                    upkeep.feed(files, index.catalog, index.engine)
                else:
                    index.engine.clear()
                    index.catalog.vacuum()
        except IndexDamaged:
            _discard(files, "catalog")
            engines.of(files).clear()


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
