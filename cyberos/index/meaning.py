"""Bringing the vectors up to what the catalog holds, as far as the time allows: the newest memories first.

    .cyberos/index/vectors.lock     held by the one process that embeds; others answer from what is there

Embedding takes long, so it happens outside the index's lock, which is taken only to commit; what was forgotten or
changed meanwhile is then left out. The roster remembers which state of the catalog it was compared with, so that an
index in which nothing is new costs one comparison of two stamps.

Source: DESIGN section 6.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import layout
from cyberos.core.errors import UnsafePath, VaultLocked
from cyberos.core.lock import lock
from cyberos.embed.base import EmbedderUnavailable
from cyberos.index import bodies, sync
from cyberos.index.catalog import Reach
from cyberos.index.entry import READY
from cyberos.index.roster import Held, key_of, text_key
from cyberos.index.vectors import Vectors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from cyberos.embed.base import Embedder
    from cyberos.index.nearest import View
    from cyberos.index.synced import Synced
    from cyberos.index.upkeep import Progress

LOCK = f"{layout.INDEX}/vectors.lock"
COMMIT_S = 2.0  # how much embedding a crash may cost
_FIRST, _MOST = 2, 64  # texts at once
_KEPT = 8
_TOLERANCE = 1e-3

_open: dict[tuple[str, str], Vectors] = {}
_aside: dict[tuple[str, str], Vectors] = {}
_guard = threading.Lock()


class Meaning(NamedTuple):
    """The vectors to ask; `missing` counts by kind the memories that have none yet."""

    view: View
    missing: Mapping[str, int]


class _Wanted(NamedTuple):
    path: str
    key: bytes
    scope: str


def embed(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed, and refuse what no sound model gives. Raises: EmbedderUnavailable."""
    import numpy as np

    rows = embedder.embed(texts)
    lengths = np.linalg.norm(rows, axis=1)
    # a comparison with no number is false
    if rows.shape != (len(texts), embedder.dim) or not bool(np.all(np.abs(lengths - 1) < _TOLERANCE)):
        reason = "its vectors are not of unit length, so its weights are damaged"
        raise EmbedderUnavailable(embedder.name, reason, "install its weights again")
    return rows


def bring_up(
    index: Synced,
    embedder: Embedder,
    *,
    budget_s: float | None,
    progress: Progress | None = None,
    wait_s: float = sync.WAIT_S,
) -> Meaning:
    """Embed what is new, for at most about `budget_s` seconds; without a bound all of it, told to `progress`.

    Another process that embeds is waited for as long as the bound, or `wait_s` where there is none. Raises:
    EmbedderUnavailable; VaultLocked where there is no bound.
    """
    store = _store(index, embedder)
    view = store.view()
    stamp = index.catalog.stores().get(index.stores[0], Reach()).stamp
    if index.behind is not None or stamp is None:
        return _Work(index, store, embedder, "").result()
    if view.roster.head.seen == stamp and not view.roster.head.missing:
        return Meaning(view, {})
    deadline = None if budget_s is None else time.monotonic() + budget_s
    try:
        with _embedding(index, wait_s if budget_s is None else budget_s):
            work = _Work(index, store, embedder, stamp)
            work.do(deadline, progress)
            return work.result()
    except VaultLocked:
        if budget_s is None:
            raise
        return _Work(index, store, embedder, stamp).result()


class _Work:
    """One comparison of vectors and catalog, and the embedding that it calls for."""

    def __init__(self, index: Synced, store: Vectors, embedder: Embedder, stamp: str) -> None:
        self._index = index
        self._store = store
        self._embedder = embedder
        self._stamp = stamp
        wanted = {path: _Wanted(path, key, scope) for path, key, scope in index.catalog.wanted()}
        view = store.view()
        held = {path: key for path, key, _, _ in view.roster.entries()}
        self._removes = [path for path, key in held.items() if path not in wanted or wanted[path].key != key]
        self._todo = [each for each in wanted.values() if held.get(each.path) != each.key]
        self._texts = set(view.texts())

    def result(self) -> Meaning:
        return Meaning(self._store.view(), Counter(layout.kind_of(each.path) for each in self._todo))

    def do(self, deadline: float | None, progress: Progress | None) -> None:
        """Embed and commit until all is done or the time is over; an interruption keeps what was embedded."""
        adds: list[Held] = []
        fresh: dict[bytes, NDArray[np.float32]] = {}
        total, begun = len(self._todo), time.monotonic()
        try:
            for batch in self._batches(deadline):
                self._embed(batch, adds, fresh)
                if progress is not None:
                    progress(total - len(self._todo), total)
                if time.monotonic() - begun > COMMIT_S:
                    self._commit(adds, fresh)
                    begun = time.monotonic()
        finally:
            self._commit(adds, fresh)

    def _batches(self, deadline: float | None) -> Iterator[list[_Wanted]]:
        """Yield what is to be embedded next, as much as the time that is left should suffice for."""
        size = _FIRST
        while self._todo:
            begun = time.monotonic()
            if deadline is not None and begun >= deadline:
                return
            batch = self._todo[:size]
            yield batch
            del self._todo[: len(batch)]
            now = time.monotonic()
            left = _MOST if deadline is None else int((deadline - now) / max(now - begun, 1e-9) * len(batch))
            size = min(_MOST, left)
            if size < 1:
                return

    def _embed(self, batch: list[_Wanted], adds: list[Held], fresh: dict[bytes, NDArray[np.float32]]) -> None:
        new: dict[bytes, str] = {}
        lost = []
        for path, key, scope in batch:
            entry = self._index.catalog.entry(path)
            document = bodies.document(self._index.files, entry) if entry is not None else None
            if document is None:
                lost.append(path)
                continue
            text = text_key(document.text)
            adds.append(Held(path, key, scope, text))
            if text not in self._texts and text not in fresh:
                new[text] = document.text
        if new:
            fresh |= zip(new, embed(self._embedder, list(new.values())), strict=True)
        if lost:
            sync.look_again(self._index, lost)

    def _commit(self, adds: list[Held], fresh: dict[bytes, NDArray[np.float32]]) -> None:
        """Give what was embedded to the store; where the disk cannot be written, to one in memory."""
        head = self._store.view().roster.head
        if not adds and not self._removes and (head.seen, head.missing) == (self._stamp, len(self._todo)):
            return
        try:
            if self._index.kept is None:
                with lock(os.path.join(self._index.files.root, sync.LOCK), sync.WAIT_S):
                    self._give(adds, fresh)
            else:
                self._give(adds, fresh)
        except (OSError, UnsafePath):
            self._store = _beside(self._index, self._embedder)
            self._give(adds, fresh)
        except VaultLocked:
            self._store = self._store.aside()
            self._give(adds, fresh)
        self._texts |= fresh.keys()
        adds.clear()
        fresh.clear()
        self._removes.clear()

    def _give(self, adds: list[Held], fresh: dict[bytes, NDArray[np.float32]]) -> None:
        still = [held for held in adds if self._is_wanted(held)]
        texts = {held.text for held in still}
        # others may have purged rows meanwhile that this batch counted on
        known = self._store.view().texts()
        still = [held for held in still if held.text in fresh or held.text in known]
        fresh = {text: row for text, row in fresh.items() if text in texts}
        self._store.commit(still, fresh, self._removes, seen=self._stamp, missing=len(self._todo))

    def _is_wanted(self, held: Held) -> bool:
        entry = self._index.catalog.entry(held.path)
        return entry is not None and entry.state == READY and key_of(entry.digest) == held.key


@contextmanager
def _embedding(index: Synced, wait_s: float) -> Iterator[None]:
    """Be the one that embeds; where no lock can be made nothing can be kept either. Raises: VaultLocked."""
    with ExitStack() as stack:
        if index.kept is None:
            with suppress(OSError, UnsafePath):
                stack.enter_context(lock(os.path.join(index.files.root, LOCK), wait_s))
        yield


def _store(index: Synced, embedder: Embedder) -> Vectors:
    """Give the vectors of a vault, opened once in a process."""
    key = index.files.root, embedder.stamp
    if index.kept is not None:
        return _beside(index, embedder)
    with _guard:
        store = _aside.get(key) or _open.pop(key, None) or Vectors(index.files, embedder.stamp, embedder.dim)
        _open[key] = store
        for other in list(_open)[:-_KEPT]:
            del _open[other]
        return store


def _beside(index: Synced, embedder: Embedder) -> Vectors:
    """Give vectors in memory, which this process keeps from now on, since the disk cannot be written."""
    with _guard:
        key = index.files.root, embedder.stamp
        if key not in _aside:
            _aside[key] = Vectors(index.files, embedder.stamp, embedder.dim).aside()
        return _aside[key]
