"""Meaning and words together: candidates of both engines, each judged by both.

The nearest by cosine and the best by words are candidates; the signal that the other engine did not give for one is
asked for. A memory that has no vector yet is judged by its words alone, on the same scale.

Source: DESIGN section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyberos.index import calibration, joining
from cyberos.index.fulltext import Scored
from cyberos.index.roster import key_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cyberos.index.catalog import Catalog
    from cyberos.index.fulltext import FullText
    from cyberos.index.nearest import View

NAME = "semantic"


class Joined:
    """What a recall by meaning asks; `family` is the embedder's name, `vector` the query's, of unit length."""

    def __init__(self, catalog: Catalog, words: FullText, view: View, family: str, vector: NDArray[np.float32]) -> None:
        self._catalog = catalog
        self._words = words
        self._near = view.ask(vector)
        self._family = family

    def relevant(self, query: str, *, kind: str | None, scope: str | None, limit: int) -> list[Scored]:
        """Return the candidates with their relevance, best first, equal ones by path. Raises: IndexDamaged."""
        nearest = self._near.nearest(kind=kind, scope=scope, limit=max(joining.NEAREST, limit))
        compared = self._words.compare(
            query,
            kind=kind,
            scope=scope,
            limit=max(joining.WORDIEST, limit),
            also=[near.path for near in nearest],
        )
        ratios = {hit.path: hit.ratio for hit in compared.hits}
        cosines = {near.path: near for near in nearest}
        cosines |= self._near.of(ratios.keys() - cosines.keys())
        known = self._catalog.entries_of(list(cosines))
        # a vector counts if it is of the file that the catalog knows, and not of an earlier one
        sound = [path for path, near in cosines.items() if path in known and key_of(known[path].digest) == near.key]
        values = joining.relevances(
            self._family,
            [cosines[path].cosine for path in sound],
            [ratios.get(path, 0.0) for path in sound],
            joining.signals(compared.plan),
        )
        judged = {path: calibration.relevance(self._words.name, ratio) for path, ratio in ratios.items()}
        judged |= zip(sound, map(float, values), strict=True)
        ranked = sorted(judged.items(), key=lambda pair: (-pair[1], pair[0]))
        return [Scored(*pair) for pair in ranked[:limit]]
