"""SentenceTransformers (being written)."""

from __future__ import annotations

from cyberos.embed.base import EmbedderUnavailable


class SentenceTransformers:
    def __init__(self, model: str = "") -> None:
        raise EmbedderUnavailable("minilm", "not yet", "use hash")
