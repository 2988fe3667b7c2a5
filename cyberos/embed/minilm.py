"""MiniLM (being written)."""

from __future__ import annotations

from cyberos.embed.base import EmbedderUnavailable


class MiniLM:
    def __init__(self) -> None:
        raise EmbedderUnavailable("minilm", "not yet", "use hash")
