"""Asking one commit of a Whoosh index: postings from its reader, which `fulltext_whoosh` opens.

Source: whoosh3 3.54, `whoosh/reading.py` (leaf readers) and `whoosh/matching/mcore.py` (matchers).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

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
        self.saturation = cache(lambda number: fulltext.saturation(reader.doc_field_length(number, "text"), mean))
        self.path = cache(lambda number: str(reader.stored_fields(number)["path"]))
        self.holders = cache(lambda field, value: {number for number, _ in iter_postings(reader, field, value)})

    def postings(self, kind: str | None, scope: str | None) -> Postings:
        """Give what passes these filters."""
        asked = [("kind", kind), ("scope", scope)]
        wanted = [self.holders(field, value) for field, value in asked if value is not None]
        return Postings(self, set.intersection(*wanted) if wanted else None)


class Postings:
    """A commit's postings; `wanted` are the documents that pass, None for all."""

    def __init__(self, view: View, wanted: set[int] | None) -> None:
        self._reader = view.reader
        self._wanted = wanted
        self.documents = int(view.reader.doc_count_all())
        self.saturation = view.saturation
        self.path = view.path

    def frequency(self, term: str) -> int:
        return int(self._reader.doc_frequency("text", term))

    def of(self, term: str) -> Iterable[tuple[int, float]]:
        found = iter_postings(self._reader, "text", term)
        return found if self._wanted is None else (pair for pair in found if pair[0] in self._wanted)

    def among(self, term: str, numbers: Collection[int]) -> Iterator[tuple[int, float]]:
        for leaf, base in self._reader.leaf_readers():
            matcher = leaf.postings("text", term) if ("text", term) in leaf else None
            for number in sorted(number for number in numbers if base <= number < base + leaf.doc_count_all()):
                if matcher is None or not matcher.is_active():
                    break
                matcher.skip_to(number - base)
                if matcher.is_active() and matcher.id() == number - base:
                    yield number, matcher.weight()

    def numbers(self, paths: Collection[str]) -> list[int]:
        found = [number for path in paths for number, _ in iter_postings(self._reader, "path", path)]
        return found if self._wanted is None else [number for number in found if number in self._wanted]


def iter_postings(reader: Any, field: str, text: str) -> Iterator[tuple[int, float]]:
    """Yield (number, times) of the documents that hold a term."""
    for leaf, base in reader.leaf_readers():
        if (field, text) in leaf:
            matcher = leaf.postings(field, text)
            while matcher.is_active():
                yield base + matcher.id(), matcher.weight()
                matcher.next()
