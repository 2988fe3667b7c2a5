"""What every full-text engine is: one interface, one scale. An engine brings the postings, the maths are here.

    plan = make_plan(query, frequency, documents)   which terms to ask the engine for, and their weights
    scores = add_up(plan, postings, limit)          BM25 of documents that hold one of them, of the best at least
    ranked = best(scores, path_of, limit)           the highest BM25 sums, in an order that a rebuild keeps
    ratios(ranked, plan, present)                   the same on the scale [0, 1]

The formulas (q the query, d a document, n(t) the number of documents with term t, N of all):

    weight(t)   = occurrences of t in q * idf(t)            idf: see `background`
    BM25(q, d)  = sum over t in q and d of weight(t) * (k1 + 1) * f / (f + k1 * (1 - b + b * |d| / mean |d|))
    told(q)     = sum over t in q, each once, of idf(t), at least LEAST for a word that not any task may have
    cover(q, d) = sum over t in q and d of weight(t) / sum over t in q of weight(t)  *  min(1, told(q) / ENOUGH)
    ratio(q, d) = BM25(q, d) / best(q),  best(q) = BM25(q, d0) / cover(q, d0),  d0 the hit of highest BM25

best(q) is the highest BM25 that the query could have had: what the best hit would score if it held the whole query.
ENOUGH is about the idf of one word that one episode of a small vault holds: a query that tells less, `the`, `fix` or
one word again and again, reaches no high ratio even where it is found whole, while the number of one error does. In a
vault of one task no word tells anything by its idf, yet some together name that task: hence LEAST.
The plain bound, sum of weight(t) * (k1 + 1), is never nearly reached, and by long documents least; with it fewer true
repeats stand above the same rate of false answers (`bench/calibrate.py --plain`). The order is BM25's alone.

Source: Robertson and Zaragoza, The probabilistic relevance framework, 2009.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cyberos.core.errors import CyberosError
from cyberos.index.background import ENOUGH, idf, least
from cyberos.index.tokens import content, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

K1 = 1.2
B = 0.75

# Twenty lose no recall@3 on the probes, twelve do on long ones (`bench/calibrate.py --asked`). The bound on postings is
# for large vaults: on the probes' 10,000 episodes no query reaches it.
ASKED = 20
ALWAYS_ASKED = 4
POSTINGS = 60_000


class Document(NamedTuple):
    path: str
    kind: str
    scope: str
    text: str


class Scored(NamedTuple):
    """A hit; `ratio` is in [0, 1] and means something only beside other ratios of its own engine."""

    path: str
    ratio: float


class IndexDamaged(CyberosError):
    """An index on disk cannot be read, or was made by another version. Nothing is lost: `clear`, then apply it all."""

    def __init__(self, engine: str, reason: str) -> None:
        super().__init__(engine, reason)
        self.engine = engine
        self.reason = reason

    def __str__(self) -> str:
        return f"the {self.engine} index cannot be used: {self.reason}"

    @property
    def hint(self) -> str:
        return "it is rebuilt at the next recall; if not, delete .cyberos/index"


class EngineUnavailable(CyberosError):
    """An engine cannot be used by this Python."""

    def __init__(self, engine: str, reason: str) -> None:
        super().__init__(engine, reason)
        self.engine = engine
        self.reason = reason

    def __str__(self) -> str:
        return f"the {self.engine} engine cannot be used: {self.reason}"

    @property
    def hint(self) -> str:
        return 'use another: --backend whoosh, or fallback = "whoosh" in cyberos.toml'


class Store(Protocol):
    """An engine's index. One object may be shared by threads; writers are kept apart by the caller's lock."""

    name: str

    def stamp(self) -> str | None:
        """Return the stamp of the last commit, or None when there is no index, or none that can be used."""

    def apply(
        self,
        adds: Iterable[Document],
        removes: Iterable[str],
        *,
        stamp: str,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Remove, then add, in one commit that carries the stamp: either all of it is seen or nothing.

        A path that is there already, or comes twice, is replaced by the last; so doing it again changes nothing.
        `progress` is told how many documents have been added. Raises: IndexDamaged, VaultLocked.
        """

    def count(self) -> int:
        """Return how many documents the index holds. Raises: IndexDamaged."""

    def purge(self) -> None:
        """Rewrite what holds removed documents, so that nothing of their text stays on disk. Raises: IndexDamaged."""

    def clear(self) -> None:
        """Delete the whole index, damaged or not."""

    def close(self) -> None:
        """Let go of open files; the next call opens them again."""


class FullText(Store, Protocol):
    """A store that is asked by words."""

    def search(self, query: str, *, kind: str | None, scope: str | None, limit: int) -> list[Scored]:
        """Return the best hits, best first, equal ones by path; none when the index is empty or absent.

        Raises: IndexDamaged.
        """

    def compare(
        self, query: str, *, kind: str | None, scope: str | None, limit: int, also: Collection[str]
    ) -> Compared:
        """Search, and add those of `also` that are not among the best and share a term with the query.

        Raises: IndexDamaged.
        """


class Plan(NamedTuple):
    """`asked` holds (term, weight), the heaviest first; `whole` is the weight of these and of the terms never seen.

    `told` is how much the query tells at all, in nats: each of its terms once.
    """

    asked: tuple[tuple[str, float], ...]
    whole: float
    told: float


class Compared(NamedTuple):
    """What a query asks for, and its hits: the best, best first, and then those that were named."""

    plan: Plan
    hits: list[Scored]


def make_plan(query: str, frequency: Callable[[str], int], documents: int) -> Plan:
    """Choose the query's terms worth asking for; `frequency` gives the number of documents that hold a term.

    Common terms beyond the bounds are left out of both sides of the ratio. No terms: an empty plan.
    """
    counts = Counter(content(terms(query)))
    found = {term: frequency(term) for term in counts}
    weights = {term: times * idf(term, found[term], documents) for term, times in counts.items()}
    asked: list[tuple[str, float]] = []
    postings = 0
    for term in sorted((term for term in found if found[term]), key=lambda term: (-weights[term], term))[:ASKED]:
        postings += found[term]
        if len(asked) >= ALWAYS_ASKED and postings > POSTINGS:
            break
        asked.append((term, weights[term]))
    unseen = sum(weights[term] for term in found if not found[term])
    told = sum(max(idf(term, found[term], documents), least(term)) for term in found)
    return Plan(tuple(asked), unseen + sum(weight for _, weight in asked), told)


def saturation(length: float, mean: float) -> float:
    """Return BM25's length term of a document."""
    # k1 * (1 - b + b * |d| / mean |d|)
    return K1 * (1 - B + B * length / mean)


class Postings(Protocol):
    """What an engine brings to a question: the documents of one commit that pass its filters, by numbers of its own.

    A posting is (number, times); `frequency` and `documents` count those that do not pass, too.
    """

    @property
    def documents(self) -> int:
        """How many documents there are."""

    def frequency(self, term: str) -> int:
        """Count the documents that hold a term."""

    def of(self, term: str) -> Iterable[tuple[int, float]]:
        """Give the postings of a term."""

    def among(self, term: str, numbers: Collection[int]) -> Iterable[tuple[int, float]]:
        """Give the postings of a term in these documents; those of others may come too."""

    def saturation(self, number: int) -> float:
        """Give BM25's length term of a document."""

    def path(self, number: int) -> str:
        """Give the path of a document."""

    def numbers(self, paths: Collection[str]) -> Collection[int]:
        """Give the numbers of these paths, as far as they are there and pass."""


def compare(query: str, postings: Postings, limit: int, also: Collection[str] = ()) -> Compared:
    """Search: the `limit` best, and of the paths in `also` those that share a term with the query and are not among."""
    plan = make_plan(query, postings.frequency, postings.documents)
    ranked = best(add_up(plan, postings, limit), postings.path, limit)
    first = [number for *_, number in ranked[:1]]
    present = {term for term, _ in plan.asked if any(number in first for number, _ in postings.among(term, first))}
    pairs = {path: score for path, score, _ in ranked}
    others = set(postings.numbers(also)).difference(number for *_, number in ranked)
    more = _add_among(plan, postings, dict.fromkeys(others, 0.0))
    pairs |= {postings.path(number): score for number, score in more.items() if score}
    return Compared(plan, ratios(list(pairs.items()), plan, present))


def add_up(plan: Plan, postings: Postings, limit: int) -> dict[int, float]:
    """Return the BM25 of documents that hold a term asked for: of the `limit` best at least, equal ones too.

    Once the common terms that are left could not lift a new document among the best, only those that can still be
    among them are looked at.
    """
    scores: dict[int, float] = {}
    left = sum(weight for _, weight in plan.asked)
    for place, (term, weight) in enumerate(plan.asked):
        # the most that a term can give is less than its weight, so a document below the bar minus `left` is out
        bar = _bar(scores, limit, left)
        if bar is not None:
            scores = {number: score for number, score in scores.items() if score + left >= bar}
            return _add_among(plan._replace(asked=plan.asked[place:]), postings, scores)
        for number, times in postings.of(term):
            # weight(t) * f / (f + saturation); the factor k1 + 1 of all cancels in the ratio
            scores[number] = scores.get(number, 0.0) + weight * times / (times + postings.saturation(number))
        left -= weight
    return scores


def _add_among(plan: Plan, postings: Postings, scores: dict[int, float]) -> dict[int, float]:
    """Add the BM25 of these documents alone."""
    for term, weight in plan.asked if scores else ():
        for number, times in postings.among(term, scores):
            if number in scores:
                scores[number] += weight * times / (times + postings.saturation(number))
    return scores


def _bar(scores: Mapping[int, float], limit: int, left: float) -> float | None:
    """Return the score of the last of the best, or None while documents without a score could still reach it."""
    if len(scores) < limit or limit < 1 or max(scores.values()) <= left:
        return None
    bar = heapq.nlargest(limit, scores.values())[-1]
    return bar if bar > left else None


def best(scores: Mapping[int, float], path_of: Callable[[int], str], limit: int) -> list[tuple[str, float, int]]:
    """Return (path, score, number) of the highest scores, best first, equal ones by path: also at the cut."""
    if not scores or limit < 1:
        return []
    least = heapq.nlargest(limit, scores.values())[-1]
    among = [(-score, path_of(number), number) for number, score in scores.items() if score >= least]
    return [(path, -score, number) for score, path, number in sorted(among)[:limit]]


def ratios(ranked: Sequence[tuple[str, float]], plan: Plan, present: Container[str]) -> list[Scored]:
    """Scale (path, BM25), best first, to [0, 1]; `present` are the asked terms that the first of them holds."""
    if not ranked:
        return []
    # ratio = BM25 / best(q), best(q) = BM25(q, d0) / cover(q, d0)
    cover = min(1.0, sum(weight for term, weight in plan.asked if term in present) / plan.whole)
    cover *= min(1.0, plan.told / ENOUGH)
    return [Scored(path, cover * score / ranked[0][1]) for path, score in ranked]
