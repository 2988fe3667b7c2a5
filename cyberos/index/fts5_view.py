"""Asking an FTS5 index: postings from SQLite, one term at a time, and what is kept of each document.

    SELECT doc FROM frequency WHERE term = ?    how many documents hold a term; SQLite counts 100,000 in 3 ms
    SELECT doc FROM postings WHERE term = ?     an occurrence a row, so the times are a count of rows

Source: sqlite.org/fts5.html, section 7 (fts5vocab); `fulltext_fts5` makes the tables.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from cyberos.index import fulltext

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cyberos.index.database import Database

_PROBE = 8  # looking into one document's terms costs as much as reading this many postings


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
        self.saturations = [fulltext.saturation(length, mean) for length in fulltext.LENGTHS]
        self.meta = meta

    def search(self, query: str, kind: str | None, scope: str | None, limit: int) -> list[fulltext.Scored]:
        """Answer from one commit, whoever writes meanwhile."""
        self.db.write("BEGIN")
        try:
            self.refresh()
            shelves = {number for number, *of in self.names if kind in (None, of[0]) and scope in (None, of[1])}
            return Search(self, None if len(shelves) == len(self.names) else shelves).best(query, limit)
        finally:
            self.db.write("ROLLBACK")


class Search:
    """One question; `shelves` are those that it is about, None for all."""

    def __init__(self, view: View, shelves: set[int] | None) -> None:
        self._view = view
        self._shelves = shelves
        self._terms: dict[int, list[str]] = {}
        self._found: dict[str, int] = {}

    def best(self, query: str, limit: int) -> list[fulltext.Scored]:
        view = self._view
        plan = fulltext.make_plan(query, self._frequency, view.meta.documents)
        scores = fulltext.add_up(plan, self, lambda number: view.saturations[view.lengths[number]], limit)
        ranked = fulltext.best(scores, self._path, limit)
        held = self._terms_of([number for *_, number in ranked[:1]])
        present = {term for term, _ in plan.asked if any(term in found for found in held.values())}
        return fulltext.ratios([(path, score) for path, score, _ in ranked], plan, present)

    def of(self, term: str) -> Iterable[tuple[int, float]]:
        """Give (number, times) of the documents that hold a term."""
        rows = self._view.db.all("SELECT doc FROM postings WHERE term = ?", term)
        found = Counter(chain.from_iterable(rows)).items()
        shelves, of = self._shelves, self._view.shelves
        return found if shelves is None else [(number, times) for number, times in found if of[number] in shelves]

    def among(self, term: str, numbers: Collection[int]) -> Iterable[tuple[int, float]]:
        """Give the same of these documents alone; of others too where that is cheaper."""
        if len(numbers) * _PROBE > self._found[term]:
            return self.of(term)
        held = self._terms_of(numbers)
        return [(number, times) for number in numbers if (times := held[number].count(term))]

    def _frequency(self, term: str) -> int:
        found = self._view.db.all("SELECT doc FROM frequency WHERE term = ?", term)
        self._found[term] = count = int(found[0][0]) if found else 0
        return count

    def _terms_of(self, numbers: Collection[int]) -> dict[int, list[str]]:
        new = ", ".join(str(number) for number in numbers if number not in self._terms)
        rows = self._view.db.all(f"SELECT id, terms FROM documents WHERE id IN ({new})")  # noqa: S608 - numbers
        self._terms |= {number: words.split(" ") for number, words in rows}
        return {number: self._terms[number] for number in numbers}

    def _path(self, number: int) -> str:
        return str(self._view.db.all("SELECT path FROM documents WHERE id = ?", number)[0][0])
