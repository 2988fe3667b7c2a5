"""Which engine answers: the one that was asked for, or the one that steps in, and why.

    auto, semantic   by meaning; without an embedder the setting `fallback` answers, and says so
    whoosh, fts5     by words, as asked

Source: DESIGN section 6; TASK-MEMORY-112 (`backend == "fts5"` with `fallback = "fts5"`).
"""

from __future__ import annotations

from typing import NamedTuple

from cyberos.index import engines

AUTO, SEMANTIC = "auto", "semantic"
FULL_TEXT = (engines.WHOOSH, engines.FTS5)
BACKENDS = (AUTO, SEMANTIC, *FULL_TEXT)


class Choice(NamedTuple):
    """The store to ask; `degraded` says why it is not what was wanted."""

    store: str
    degraded: str | None = None


def choose(backend: str, fallback: str, no_embedder: str | None = None) -> Choice:
    """Choose for a backend of BACKENDS; `no_embedder` says why there is none, where meaning was wanted."""
    wanted = backend if backend in FULL_TEXT else fallback
    why = [] if backend in FULL_TEXT or no_embedder is None else [no_embedder]
    if (missing := engines.why_not(wanted)) is not None:
        wanted = engines.WHOOSH
        why.append(missing)
    return Choice(wanted, "; ".join(why) or None)
