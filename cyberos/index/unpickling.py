"""A pickle reader that runs nothing: only the classes that Whoosh writes for us are ever made.

Whoosh keeps its tables as pickles, and a cloned repository may bring an index of its own.

Source: Python's pickle documentation, "Restricting Globals".
"""

from __future__ import annotations

import io
import pickle
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container


def unpickle(source: IO[bytes] | bytes, allowed: Container[tuple[str, str]]) -> Any:
    """Load a pickle that names only the allowed (module, name): a cloned repository may bring an index of its own."""
    # It reads byte by byte from a file that cannot peek.
    file = io.BufferedReader(io.BytesIO(source)) if isinstance(source, bytes) else source
    return _Unpickler(file, allowed).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], allowed: Container[tuple[str, str]]) -> None:
        super().__init__(file)
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):  # how protocol 2 writes bytes
            return lambda text, _encoding: text.encode("latin-1")
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in an index")
        return super().find_class(module, name)
