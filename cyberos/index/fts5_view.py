"""Asking an FTS5 index: postings from SQLite, one term at a time, and what is kept of each document.

    SELECT doc FROM frequency WHERE term = ?    how many documents hold a term; SQLite counts 100,000 in 3 ms
    SELECT doc FROM postings WHERE term = ?     an occurrence a row, so the times are a count of rows

Source: sqlite.org/fts5.html, section 7 (fts5vocab); `fulltext_fts5` makes the tables.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from cyberos.index import fulltext

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from cyberos.index.database import Database

# What a byte can say of a document's length: exact up to ten, then rising by 3.3 %, rounded up. These are Whoosh's, who
# keeps no more; with them both engines give the same order.
LENGTHS = tuple(round((1.033**step - 1) * 27) for step in range(256))
_PROBE = 8  # looking into one document's terms costs as much as reading this many postings


def length_code(length: int) -> int:
    """Return the place in LENGTHS of the least that is not below a document's length, or the last."""
    return min(bisect_left(LENGTHS, length), len(LENGTHS) - 1)


class Meta(NamedTuple):
    """What one commit left behind: `documents` and `words` are how many there are."""

    stamp: str | None
    commits: int
    documents: int
    words: int


class View:
    """An open index; `sheet` is what vouched for it when it was opened, or since it was written here."""

    def __init__(self, db: Database, sheet: bytes) -> None:
        self.db = db
        self.sheet = sheet
        self.meta = Meta(None, -1, 0, 0)
        self.lengths = b""
        self.shelves = array("I")
        self.names: list[tuple[int, str, str]] = []
        self.saturations: list[float] = []

    def refresh(self) -> None:
        """Read anew what is kept of each document, if there was a commit since."""
        meta = Meta(*self.db.all("SELECT * FROM meta")[0])
        if meta.commits == self.meta.commits:
            return
        blocks = self.db.all("SELECT lengths, shelves FROM blocks ORDER BY block")
        self.lengths = b"".join(lengths for lengths, _ in blocks)
        self.shelves = array("I", b"".join(shelves for _, shelves in blocks))
        self.names = [(number, kind, scope) for number, kind, scope in self.db.all("SELECT * FROM shelves")]
        mean = meta.words / max(1, meta.documents) or 1.0
        self.saturations = [fulltext.saturation(length, mean) for length in LENGTHS]
        self.meta = meta

    @contextmanager
    def asked(self) -> Iterator[View]:
        """Hold to one commit, whoever writes meanwhile."""
        self.db.write("BEGIN")
        try:
            self.refresh()
            yield self
        finally:
            self.db.write("ROLLBACK")

    def postings(self, kind: str | None, scope: str | None) -> Postings:
        """Give what passes these filters."""
        shelves = {number for number, *of in self.names if kind in (None, of[0]) and scope in (None, of[1])}
        return Postings(self, None if len(shelves) == len(self.names) else shelves)


class Postings:
    """A commit's postings; `shelves` are those that pass, None for all."""

    def __init__(self, view: View, shelves: set[int] | None) -> None:
        self._view = view
        self._shelves = shelves
        self._terms: dict[int, list[str]] = {}
        self._found: dict[str, int] = {}
        self.documents = view.meta.documents

    def frequency(self, term: str) -> int:
        if term not in self._found:
            found = self._view.db.all("SELECT doc FROM frequency WHERE term = ?", term)
            self._found[term] = int(found[0][0]) if found else 0
        return self._found[term]

    def of(self, term: str) -> Iterable[tuple[int, float]]:
        rows = self._view.db.all("SELECT doc FROM postings WHERE term = ?", term)
        found = Counter(chain.from_iterable(rows)).items()
        shelves, of = self._shelves, self._view.shelves
        return found if shelves is None else [(number, times) for number, times in found if of[number] in shelves]

    def among(self, term: str, numbers: Collection[int]) -> Iterable[tuple[int, float]]:
        if len(numbers) * _PROBE > self.frequency(term):
            return self.of(term)
        held = self._terms_of(numbers)
        return [(number, times) for number in numbers if (times := held[number].count(term))]

    def saturation(self, number: int) -> float:
        return self._view.saturations[self._view.lengths[number]]

    def path(self, number: int) -> str:
        return str(self._view.db.all("SELECT path FROM documents WHERE id = ?", number)[0][0])

    def numbers(self, paths: Collection[str]) -> list[int]:
        rows = [self._view.db.all("SELECT id FROM documents WHERE path = ?", path) for path in paths]
        shelves, of = self._shelves, self._view.shelves
        return [number for (number,) in chain(*rows) if shelves is None or of[number] in shelves]

    def _terms_of(self, numbers: Collection[int]) -> dict[int, list[str]]:
        new = ", ".join(str(number) for number in numbers if number not in self._terms)
        rows = self._view.db.all(f"SELECT id, terms FROM documents WHERE id IN ({new})")  # noqa: S608 - numbers
        self._terms |= {number: words.split(" ") for number, words in rows}
        return self._terms
