"""The nearest of many vectors, by comparing with all of them: exact, and fast enough below several hundred thousand.

    cosine(q, d) = q · d        both of unit length

Source: DESIGN section 6 ("brute force over the memory map").
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import layout

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from cyberos.index.roster import Roster

_NOWHERE = -2.0  # below every cosine


class Near(NamedTuple):
    """A memory near a query, as its file was when it was embedded; `cosine` is in [-1, 1]."""

    path: str
    key: bytes
    cosine: float


class View:
    """One commit, opened for searching; it stays as it is whatever is written meanwhile."""

    def __init__(self, roster: Roster, matrix: NDArray[np.float32]) -> None:
        self.roster = roster
        self.matrix = matrix

    def place(self, path: str) -> int | None:
        """Give the place of a path in the roster's columns."""
        found = bisect_left(self.roster.paths, path)
        return found if found < len(self.roster.paths) and self.roster.paths[found] == path else None

    def texts(self) -> dict[bytes, int]:
        """Give the row of each text."""
        return {self.roster.text(row): row for row in range(len(self.roster.checks))}

    def ask(self, query: NDArray[np.float32]) -> Asked:
        """Compare all rows with a query of unit length."""
        return Asked(self, query)


class Asked:
    """The cosines of one query with everything."""

    def __init__(self, view: View, query: NDArray[np.float32]) -> None:
        import numpy as np

        self._view = view
        # cosine(q, d) = q · d, both of unit length. Not `@`: its threads wait for each other longer than this takes.
        cosines = np.einsum("ij,j->i", view.matrix, query).astype(np.float64)
        # last bits may differ with the place in memory, so these go; a row that is no number is far from everything
        values = np.round(np.nan_to_num(cosines, nan=-1.0), 6).clip(-1.0, 1.0)
        self._cosines = values[np.frombuffer(view.roster.rows, np.uint32)] if len(view.roster.paths) else np.zeros(0)

    def nearest(self, *, kind: str | None, scope: str | None, limit: int) -> list[Near]:
        """Return the nearest, best first, equal ones by path: also at the cut."""
        import numpy as np

        roster = self._view.roster
        first, last = _range(roster.paths, kind)
        cosines = self._cosines[first:last]
        if scope is not None:
            code = roster.scope_names.index(scope) if scope in roster.scope_names else -1
            cosines = np.where(np.frombuffer(roster.scopes, np.uint32)[first:last] == code, cosines, _NOWHERE)
        if limit < len(cosines):
            least = np.partition(cosines, len(cosines) - limit)[len(cosines) - limit]
            places = np.flatnonzero(cosines >= least)
        else:
            places = np.arange(len(cosines))
        places = places[cosines[places] > _NOWHERE]
        # a stable sort keeps the order of the roster, which is by path
        places = places[np.argsort(-cosines[places], kind="stable")][:limit]
        return [self._near(first + int(place)) for place in places]

    def of(self, paths: Iterable[str]) -> dict[str, Near]:
        """Give what is known of these paths."""
        places = {path: self._view.place(path) for path in paths}
        return {path: self._near(place) for path, place in places.items() if place is not None}

    def _near(self, place: int) -> Near:
        roster = self._view.roster
        return Near(roster.paths[place], roster.key(place), float(self._cosines[place]))


def _range(paths: list[str], kind: str | None) -> tuple[int, int]:
    """Give the places of a kind: its memories stand side by side, since they share a folder."""
    if kind is None:
        return 0, len(paths)
    folder = f"{layout.MEMORIES}/{layout.folder_of(kind)}"
    return bisect_left(paths, f"{folder}/"), bisect_left(paths, f"{folder}0")
