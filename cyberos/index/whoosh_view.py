"""Asking one commit of a Whoosh index: postings from its reader, which `fulltext_whoosh` opens.

Source: whoosh3 3.54, `whoosh/reading.py` (leaf readers) and `whoosh/matching/mcore.py` (matchers).
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.index import fulltext

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


class View:
    """One commit, opened for searching."""

    def __init__(self, reader: Any, sheet: bytes, stamp: str | None) -> None:
        self.reader = reader
        self.sheet = sheet
        self.stamp = stamp
        mean = reader.field_length("text") / max(1, reader.doc_count_all()) or 1.0
        self._saturation_of = cache(lambda number: fulltext.saturation(reader.doc_field_length(number, "text"), mean))
        self._path_of = cache(lambda number: str(reader.stored_fields(number)["path"]))
        self._holders_of = cache(lambda field, value: {number for number, _ in iter_postings(reader, field, value)})

    def search(self, query: str, kind: str | None, scope: str | None, limit: int) -> list[fulltext.Scored]:
        plan = fulltext.make_plan(query, partial(self.reader.doc_frequency, "text"), self.reader.doc_count_all())
        wanted = [
            self._holders_of(field, value) for field, value in (("kind", kind), ("scope", scope)) if value is not None
        ]
        postings = Postings(self.reader, set.intersection(*wanted) if wanted else None)
        scores = fulltext.add_up(plan, postings, self._saturation_of, limit)
        ranked = fulltext.best(scores, self._path_of, limit)
        best = [number for *_, number in ranked[:1]]
        present = {term for term, _ in plan.asked if any(postings.among(term, best))}
        return fulltext.ratios([(path, score) for path, score, _ in ranked], plan, present)


class Postings(NamedTuple):
    reader: Any
    wanted: set[int] | None

    def of(self, term: str) -> Iterable[tuple[int, float]]:
        found = iter_postings(self.reader, "text", term)
        return found if self.wanted is None else (pair for pair in found if pair[0] in self.wanted)

    def among(self, term: str, numbers: Collection[int]) -> Iterator[tuple[int, float]]:
        for leaf, base in self.reader.leaf_readers():
            matcher = leaf.postings("text", term) if ("text", term) in leaf else None
            for number in sorted(number for number in numbers if base <= number < base + leaf.doc_count_all()):
                if matcher is None or not matcher.is_active():
                    break
                matcher.skip_to(number - base)
                if matcher.is_active() and matcher.id() == number - base:
                    yield number, matcher.weight()


def iter_postings(reader: Any, field: str, text: str) -> Iterator[tuple[int, float]]:
    """Yield (number, times) of the documents that hold a term."""
    for leaf, base in reader.leaf_readers():
        if (field, text) in leaf:
            matcher = leaf.postings(field, text)
            while matcher.is_active():
                yield base + matcher.id(), matcher.weight()
                matcher.next()
