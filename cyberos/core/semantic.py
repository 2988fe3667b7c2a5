"""Recall by meaning, joined with words; where no embedder can be used, by words alone, and the answer says so.

Source: TASK-MEMORY-112 section 3 (`semantic.recall`, `memory_kind`); DESIGN sections 6 and 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cyberos.core import reader, settings
from cyberos.core.backends import AUTO, SEMANTIC, choose
from cyberos.embed import choice
from cyberos.embed.base import EmbedderUnavailable
from cyberos.index import engines
from cyberos.index.engines import FTS5, WHOOSH

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from cyberos.core.reader import Found, Query, RecallHit
    from cyberos.embed.base import Embedder
    from cyberos.index.synced import Synced
    from cyberos.index.upkeep import Progress

    Answer = TypeVar("Answer")


class Way(NamedTuple):
    """How an answer was found.

    `degraded` says why a fallback gave it, or is None; `unseen` counts the memories of the kind asked for that have no
    vector yet, so that only their words were compared.
    """

    backend: str
    engines: list[str]
    degraded: str | None = None
    unseen: int = 0


def available() -> bool:
    """Report whether an embedder is installed, importing none."""
    return choice.available()


def make(values: Mapping[str, settings.Value]) -> Embedder:
    """Give the embedder that the settings name. Raises: EmbedderUnavailable."""
    setting = str(values["embedder"].value)
    if setting == "auto" and not available():
        raise EmbedderUnavailable("auto", "no embedder is installed", "pip install 'cyberos[local]'")
    return choice.make(setting)


def store() -> str:
    """Name the store whose words are joined with meaning."""
    return FTS5 if engines.why_not(FTS5) is None else WHOOSH


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
    asked = reader.Query(query, k, min_relevance, memory_kind)
    return ask(store_path, asked, lambda _, found, __: found.hits[:k])


def ask(
    root: str | os.PathLike[str],
    query: Query,
    answer: Callable[[Synced, Found, Way], Answer],
    *,
    backend: str = AUTO,
    progress: Progress | None = None,
) -> Answer:
    """Search, and make an answer of what was found while the index is open.

    Raises: VaultNotFound; ValueError as `reader.search`.
    """
    values = settings.load(root)
    no_embedder = None
    if backend in (AUTO, SEMANTIC):
        try:
            return _by_meaning(root, query, answer, values, progress=progress)
        except EmbedderUnavailable as error:
            no_embedder = _why(error, backend)
    chosen = choose(backend, values["fallback"].value, no_embedder)
    way = Way(chosen.store, [chosen.store], chosen.degraded)
    return reader.ask(
        root,
        lambda index: answer(index, reader.search(index, query), way),
        stores=(chosen.store,),
        progress=progress,
    )


def _why(error: EmbedderUnavailable, backend: str) -> str | None:
    """Say why words alone were compared; None where that is what was wanted."""
    is_wanted = error.name == "none" and backend == AUTO
    return None if is_wanted else f"{error.reason}, so words alone were compared: {error.advice}"


def _by_meaning(
    root: str | os.PathLike[str],
    query: Query,
    answer: Callable[[Synced, Found, Way], Answer],
    values: Mapping[str, settings.Value],
    *,
    progress: Progress | None,
) -> Answer:
    embedder, words = make(values), store()
    budget_s = float(values["embed_budget"].value)

    def question(index: Synced) -> Answer:
        from cyberos.index import meaning
        from cyberos.index.joined import Joined

        vector = meaning.embed(embedder, [query.text])[0]
        brought = meaning.bring_up(index, embedder, budget_s=budget_s)
        judge = Joined(index.catalog, index.store(words), brought.view, embedder.name, vector)
        unseen = sum(count for kind, count in brought.missing.items() if query.kind in (None, kind))
        return answer(index, reader.search(index, query, judge), Way(SEMANTIC, [embedder.name, words], None, unseen))

    return reader.ask(root, question, stores=(words,), progress=progress)
