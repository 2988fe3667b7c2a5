"""Recall by meaning. This version holds no embedder, so words answer: same call, same shape, `available()` is false.

Source: TASK-MEMORY-112 section 3 (`semantic.recall`, `memory_kind`); DESIGN sections 6 and 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyberos.core import reader

if TYPE_CHECKING:
    import os

    from cyberos.core.reader import RecallHit

WHY_NOT = "no embedder in this version; words only"


def available() -> bool:
    """Report whether an embedder can be used: never, since this version has no code for one."""
    return False


def recall(
    store_path: str | os.PathLike[str],
    query: str,
    k: int = 5,
    min_relevance: float = 0.65,
    memory_kind: str | None = None,
) -> list[RecallHit]:
    """Give the k memories nearest to the query, of one kind or of all; without an embedder, by the words they share.

    Raises: VaultNotFound; ValueError for k below 1 or a cut-off outside [0, 1].
    """
    return reader.recall(store_path, query, k, min_relevance, memory_kind)
