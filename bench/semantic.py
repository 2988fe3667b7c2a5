"""The joined engine on documents in memory, taken apart: its candidates with both signals, and any balance of them.

Vectors come from the embedder `minilm`. `--vectors FILE.npz` keeps them between runs, by the SHA-256 of their text.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cyberos.index import joining
from cyberos.index.fulltext import Scored
from cyberos.index.fulltext_fts5 import Fts5FullText

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from cyberos.index.fulltext import Document

ALL = 20_000


class Vectors:
    """Embeds texts, each once."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._known: dict[str, np.ndarray] = {}
        if file is not None and file.exists():
            with np.load(file) as kept:
                self._known = dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))

    def of(self, texts: Sequence[str]) -> np.ndarray:
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if missing:
            from cyberos.embed import choice

            made = choice.make("minilm").embed(list(missing.values()))
            self._known |= dict(zip(missing, made, strict=True))
            self._save()
        return np.stack([self._known[key] for key in keys])

    def _save(self) -> None:
        if self._file is not None:
            beside = self._file.with_suffix(".new.npz")
            np.savez(beside, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))
            os.replace(beside, self._file)


class Candidate(NamedTuple):
    path: str
    cosine: float
    ratio: float


class Semantic:
    """Searches as the joined engine does; its x is what is in the sigmoid, in units of the weight of meaning."""

    name = "semantic"

    def __init__(self, vectors: Vectors, balance: float = 1.0) -> None:
        self._vectors = vectors
        self.balance = balance
        self._words = Fts5FullText(None)
        self._paths: list[str] = []
        self._matrix = np.zeros((0, 1), np.float32)
        self.candidates = cache(self._candidates)

    def apply(self, adds: Iterable[Document], removes: Iterable[str], *, stamp: str) -> None:
        documents = list(adds)
        self._words.apply(documents, removes, stamp=stamp)
        self._paths = [row.path for row in documents]
        self._matrix = self._vectors.of([row.text for row in documents])

    def cosines(self, query: str) -> np.ndarray:
        found: np.ndarray = self._matrix @ self._vectors.of([query])[0]
        return found

    def nearest(self, query: str, limit: int) -> list[str]:
        """Search by cosine alone."""
        return [self._paths[at] for at in np.argsort(-self.cosines(query), kind="stable")[:limit]]

    def _candidates(self, query: str) -> tuple[list[Candidate], joining.QuerySignals]:
        nearest = self.nearest(query, joining.NEAREST)
        words = self._words.compare(query, kind="episode", scope=None, limit=joining.WORDIEST, also=nearest)
        ratios = dict.fromkeys(nearest, 0.0) | {hit.path: hit.ratio for hit in words.hits}
        cosines = dict(zip(self._paths, self.cosines(query).tolist(), strict=True))
        found = [Candidate(path, cosines[path], ratio) for path, ratio in ratios.items()]
        return found, joining.signals(words.plan)

    def search(
        self, query: str, *, kind: str | None = None, scope: str | None = None, limit: int = ALL
    ) -> list[Scored]:
        found, signals = self.candidates(query)
        scored = [Scored(one.path, self._x(one, signals)) for one in found]
        return sorted(scored, key=lambda hit: (-hit.ratio, hit.path))[:limit]

    def _x(self, one: Candidate, signals: joining.QuerySignals) -> float:
        words = joining.sure(joining.evidence(one.ratio, signals))
        return joining.sure(one.cosine) + self.balance * words
