"""Recall: the memories of a vault that are like a text, by the words they share, or by what a `Judge` makes of them.

A hit is a promise that its file was read just now and holds what the ledger says: one that was edited, swapped or
deleted since it was indexed is dropped and counted. No lock is needed, and nothing is written where nothing is new.

Source: TASK-MEMORY-112 section 3 (`recall`); DESIGN sections 4 (readers) and 6.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from cyberos.core import backends, layout, ranking, settings
from cyberos.core.errors import VaultNotFound
from cyberos.index import bodies, engines, sync
from cyberos.index.calibration import relevance
from cyberos.index.entry import READY
from cyberos.index.fulltext import IndexDamaged, Scored

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cyberos.index.entry import Entry
    from cyberos.index.fulltext import FullText
    from cyberos.index.synced import Synced
    from cyberos.index.upkeep import Progress

    Answer = TypeVar("Answer")

LEAST_ASKED = 50  # candidates that the engine is asked for at least
_MORE = 16
_MOST_ASKED = 3_000  # candidates after which a preference asks for no more
_TRIES = 6


class RecallHit(NamedTuple):
    """A memory that answers a query. `relevance` is in [0, 1]; `moment_us` is the event's time since 1970."""

    path: str
    frontmatter: dict[str, Any]
    relevance: float
    last_seen_at: str
    moment_us: int
    actor: str = ""


class Query(NamedTuple):
    """What is asked: `k` hits of at least this relevance; `since_us` bounds the event's time from below.

    `accepts` says of a candidate whether it may be a hit at all. With `prefers`, which scores one of a relevance, the
    pool is the best by that score among the near-equals and what tried the same tasks as the k most relevant.
    """

    text: str
    k: int
    min_relevance: float
    kind: str | None = None
    scope: str | None = None
    since_us: int | None = None
    accepts: Callable[[Entry], bool] | None = None
    prefers: Callable[[Entry, float], float] | None = None


class Found(NamedTuple):
    """The pool of hits, the most relevant or preferred first; how many candidates were under the cut; dropped paths."""

    hits: list[RecallHit]
    below_cutoff: int
    dropped: list[str]


class Judge(Protocol):
    """What finds candidates and says how relevant they are."""

    def relevant(self, query: str, *, kind: str | None, scope: str | None, limit: int) -> list[Scored]:
        """Return the best candidates with their relevance in [0, 1], best first. Raises: IndexDamaged."""


class Words:
    """The judge that a full-text engine makes: its own signal on the scale of all engines."""

    def __init__(self, engine: FullText) -> None:
        self._engine = engine

    def relevant(self, query: str, *, kind: str | None, scope: str | None, limit: int) -> list[Scored]:
        """Keep the promise of `Judge.relevant`."""
        found = self._engine.search(query, kind=kind, scope=scope, limit=limit)
        return [Scored(hit.path, relevance(self._engine.name, hit.ratio)) for hit in found]


def recall(
    store_path: str | os.PathLike[str],
    query: str,
    k: int = 5,
    min_relevance: float = 0.65,
    memory_kind: str | None = None,
    *,
    scope: str | None = None,
    writable: bool = True,
) -> list[RecallHit]:
    """Give the k most relevant memories of a kind, or of all kinds; equal ones newer first, then by path.

    Raises: VaultNotFound; ValueError for k below 1 or a cut-off outside [0, 1].
    """
    asked = Query(query, k, min_relevance, memory_kind, scope)
    chosen = backends.choose(backends.AUTO, settings.load(store_path)["fallback"].value)
    return ask(store_path, lambda index: search(index, asked), stores=(chosen.store,), writable=writable).hits[:k]


def ask(
    root: str | os.PathLike[str],
    question: Callable[[Synced], Answer],
    *,
    stores: Sequence[str] = (engines.WHOOSH,),
    writable: bool = True,
    progress: Progress | None = None,
) -> Answer:
    """Put a question to an index that is up to date; where that turns out to be damaged, mend it and ask again."""
    if not all(os.path.isdir(os.path.join(root, name)) for name in (layout.AUDIT, layout.MEMORIES)):
        raise VaultNotFound(str(root))
    damages = 0
    for _ in range(_TRIES):
        with suppress(_FilesChanged):
            try:
                with sync.sync(
                    root, stores, writable=writable, careful=damages > 0, afresh=damages > 1, progress=progress
                ) as index:
                    return question(index)
            except IndexDamaged:
                damages += 1
    raise IndexDamaged("whole", "it does not stay as it is")


class _FilesChanged(Exception):
    """No error: the index has noted it and is to be asked again."""


def search(index: Synced, query: Query, judge: Judge | None = None) -> Found:
    """Ask the index, inside `ask`; its first engine where no judge is named.

    Raises: ValueError for k below 1 or a cut-off outside [0, 1].
    """
    if query.k < 1 or not 0 <= query.min_relevance <= 1:
        raise ValueError("k is at least 1 and min_relevance in [0, 1]")
    found = _search(index, query, judge or Words(index.engine))
    if found.dropped and sync.look_again(index, found.dropped):
        raise _FilesChanged
    return found


def _search(index: Synced, query: Query, judge: Judge) -> Found:
    candidates, below = _candidates(index, query, judge)
    if query.prefers is not None:
        candidates = _preferred(candidates, query.k, query.prefers)
    hits: list[RecallHit] = []
    dropped = []
    for value, entry in candidates:
        if query.prefers is None and not ranking.is_in_pool(value, [hit.relevance for hit in hits], query.k):
            break
        body = bodies.find(index.files, entry.path, entry.digests)
        if body is None:
            dropped.append(entry.path)
            continue
        hits.append(
            RecallHit(entry.path, body.parsed.frontmatter, value, entry.last_seen_at, entry.moment_us, entry.actor)
        )
        if len(hits) == ranking.OVERFETCH * query.k:
            break
    return Found(hits, below, dropped)


def _preferred(
    candidates: list[tuple[float, Entry]], k: int, prefers: Callable[[Entry, float], float]
) -> list[tuple[float, Entry]]:
    """Give what may be in the pool of a query that prefers, the preferred first."""
    best = [value for value, _ in candidates[:k]]
    tasks = {entry.task for _, entry in candidates[:k] if entry.task}
    near = [pair for pair in candidates if pair[1].task in tasks or ranking.is_near(pair[0], best, k)]
    return sorted(near, key=lambda pair: ranking.order(prefers(pair[1], pair[0]), pair[1].moment_us, pair[1].path))


def _candidates(index: Synced, query: Query, judge: Judge) -> tuple[list[tuple[float, Entry]], int]:
    """Give the candidates above the cut, in order, as many as decide the pool; and how many were below it."""
    limit = max(LEAST_ASKED, ranking.OVERFETCH * query.k + 1)
    while True:
        scored = judge.relevant(query.text, kind=query.kind, scope=query.scope, limit=limit)
        known = index.catalog.entries_of([hit.path for hit in scored])
        kept = []
        below = 0
        for path, value in scored:
            entry = known.get(path)
            if entry is None and index.behind is None and isinstance(judge, Words):
                # an engine keeps nothing that the catalog has let go of: it lost a row, or another process was quicker
                raise IndexDamaged("catalog", f"it does not know {path}")
            if entry is None or entry.state != READY:
                continue
            if query.since_us is not None and entry.moment_us < query.since_us:
                continue
            if query.accepts is not None and not query.accepts(entry):
                continue
            if value < query.min_relevance:
                below += 1
                continue
            kept.append((value, entry))
        if len(scored) < limit or _is_decided([value for value, _ in kept], scored[-1].ratio, limit, query):
            kept.sort(key=lambda pair: ranking.order(ranking.log_odds(pair[0]), pair[1].moment_us, pair[1].path))
            return kept, below
        limit *= _MORE


def _is_decided(kept: list[float], last: float, limit: int, query: Query) -> bool:
    """Report whether no candidate that was not asked for, none above `last`, could belong to the pool."""
    if query.prefers is not None:
        return last < query.min_relevance or (limit >= _MOST_ASKED and len(kept) >= query.k)
    most = ranking.OVERFETCH * query.k
    is_far = len(kept) >= query.k and not ranking.is_in_pool(last, kept[: query.k], query.k)
    return last < query.min_relevance or is_far or (len(kept) >= most and last < kept[most - 1])
