"""A deterministic embedder of no understanding, for tests: each word adds ±1 at a place that its digest names.

Source: feature hashing (Weinberger et al. 2009).
"""

from __future__ import annotations

import re
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cyberos.embed.base import EmbedderUnavailable, Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

DIM = 384
_WORD = re.compile(r"\w+")


class Hashing:
    """Texts that share words lie near each other."""

    name = "hash"
    dim = DIM
    stamp = Identity("hash", "words-1", "", "float32", "", "sum", normalize=True, max_tokens=0, dim=DIM).stamp()

    def __init__(self) -> None:
        if find_spec("numpy") is None:
            raise EmbedderUnavailable(self.name, "numpy is not installed", "pip install 'cyberos[local]'")

    def embed(self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Keep the promise of `Embedder.embed`."""
        import numpy as np

        rows = np.zeros((len(texts), DIM), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[0] = 1.0  # so that a text without words has a direction too
            for word in _WORD.findall(text.lower()):
                digest = sha256(word.encode("utf-8", "ignore")).digest()
                row[1 + int.from_bytes(digest[:4]) % (DIM - 1)] += 1.0 if digest[4] % 2 else -1.0
            if progress is not None:
                progress(1)
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit
