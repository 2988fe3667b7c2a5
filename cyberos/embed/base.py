"""What an embedder is: text in, rows of unit length out, and a stamp that says which numbers they are.

The stamp is the SHA-256 of the canonical JSON of an `Identity`:
`{"dim":384,"document":"episode-v1","dtype":"int8","family":"minilm","max_tokens":256,…}`. Two embedders with one
stamp give the same vectors, whatever runs them (numpy, onnxruntime); vectors of different stamps are never compared.

Source: DESIGN section 6, "Embedders".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from cyberos.core import canonical
from cyberos.core.errors import CyberosError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

DOCUMENT = "episode-v1"  # `searchable_document()` of DESIGN section 2


class Embedder(Protocol):
    """Turns texts into vectors. Any number of threads may call it."""

    name: str
    dim: int
    stamp: str

    def embed(self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Give one row a text, in their order: (n, dim) float32, each of unit length; no texts give (0, dim).

        Any string has its row, the same alone and among others up to the last bits of a float: an empty text has one
        too, a long one is cut, lone surrogates count for nothing. `progress` hears, now and then, how many more texts
        are done.
        """
        ...


class Identity(NamedTuple):
    """All that decides what the vectors are. What runs the model is not part of it."""

    family: str
    model_id: str
    weights_sha256: str
    dtype: str
    vocabulary_sha256: str
    pooling: str
    normalize: bool
    max_tokens: int
    dim: int
    document: str = DOCUMENT

    def stamp(self) -> str:
        """Give 64 hex digits."""
        from hashlib import sha256

        return sha256(canonical.dump(self._asdict()).encode("ascii")).hexdigest()


class EmbedderUnavailable(CyberosError):
    """An embedder cannot be used here: something is not installed, or it is not what it should be."""

    def __init__(self, name: str, reason: str, advice: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        return f"embedder {self.name}: {self.reason}"

    @property
    def hint(self) -> str:
        return self.advice
