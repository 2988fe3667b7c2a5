"""The forward pass of all-MiniLM-L6-v2 in numpy: BERT of 6 layers, 384 wide, 12 heads; float32 throughout.

The tokens of several texts stand under one another as rows, each text's own together, so that nothing is padded: all
but attention looks at single rows. A layer, x being (rows, 384):

    a = softmax(q kᵀ / √32) v            in each text and head, of x's query, key and value
    x = norm(x + a Wo + bo)
    x = norm(x + gelu(x Wu + bu) Wd + bd)

A vector is the mean of a text's rows, made unit length.

Source: Devlin et al. 2018; Hendrycks and Gimpel 2016 (GELU); the graph in the weights' own file.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from cyberos.embed.weights import Tensor

    Floats = NDArray[np.float32]

DIM = 384
HEADS = 12
LAYERS = 6
_EPSILON = 1e-12
_BLOCK = 1 << 14  # numbers that go through gelu together: they and its scratch stay in a core's cache


class Matrix(NamedTuple):
    """A weight matrix as it is stored, int8 with a scale for each column, and the bias of its output."""

    numbers: NDArray[np.int8]
    scale: Floats
    bias: Floats

    def times(self, x: Floats) -> Floats:
        """Give x W + b. W is made float32 for the occasion: that is quick, and all of them would take 42 MB."""
        product: Floats = x @ self.numbers.astype(x.dtype)
        product *= self.scale
        product += self.bias
        return product


class Norm(NamedTuple):
    """The gain and the bias of a layer norm."""

    gain: Floats
    bias: Floats

    def of(self, x: Floats) -> Floats:
        """Bring each row to mean 0 and variance 1, then gain and bias; in place."""
        import numpy as np

        x -= x.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", x, x) / np.float32(DIM)
        x *= (1 / np.sqrt(variance + np.float32(_EPSILON)))[:, None]
        x *= self.gain
        x += self.bias
        return x


class Table(NamedTuple):
    """An embedding table as it is stored, int8 with a scale for each row."""

    numbers: NDArray[np.int8]
    scale: Floats

    def rows(self, ids: NDArray[np.int64]) -> Floats:
        return self.numbers[ids] * self.scale[ids]


class Layer(NamedTuple):
    """One layer of the six."""

    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix
    attended: Norm
    up: Matrix
    down: Matrix
    fed: Norm


class Model(NamedTuple):
    """All weights, in views of the mapped file."""

    words: Table
    positions: Table
    segment: Floats
    norm: Norm
    layers: list[Layer]


def model(data: mmap.mmap, tensors: Iterable[Tensor]) -> Model:
    """Sort the initializers into a model; those without a name come in the order of use."""
    views: dict[str, Any] = {tensor.name: tensor.view(data) for tensor in tensors}
    unnamed = iter([name.removesuffix("_q") for name in views if name.startswith("val_") and name.endswith("_q")])

    def matrix(bias: str) -> Matrix:
        name = next(unnamed)
        return Matrix(views[f"{name}_q"], views[f"{name}_scale"], views[f"{bias}.bias"])

    def norm(name: str) -> Norm:
        return Norm(views[f"{name}.LayerNorm.weight"], views[f"{name}.LayerNorm.bias"])

    def table(name: str) -> Table:
        full = f"inner.embeddings.{name}_embeddings.weight"
        return Table(views[f"{full}_q"], views[f"{full}_scale"])

    layers = []
    for number in range(LAYERS):
        at = f"inner.encoder.layer.{number}"
        attention = [matrix(f"{at}.attention.self.{name}") for name in ("query", "key", "value")]
        attention.append(matrix(f"{at}.attention.output.dense"))
        up, down = matrix(f"{at}.intermediate.dense"), matrix(f"{at}.output.dense")
        layers.append(Layer(*attention, norm(f"{at}.attention.output"), up, down, norm(f"{at}.output")))
    segment = views["inner.embeddings.token_type_embeddings.weight"][0]
    return Model(table("word"), table("position"), segment, norm("inner.embeddings"), layers)


def forward(weights: Model, texts: Sequence[Sequence[int]]) -> Floats:
    """Give the vectors of texts that stand as ids, [CLS] and [SEP] among them: (n, 384), unit length."""
    import numpy as np

    bounds = np.cumsum([0, *map(len, texts)])
    x = weights.words.rows(np.concatenate([np.asarray(ids) for ids in texts]))
    x += weights.positions.rows(np.concatenate([np.arange(len(ids)) for ids in texts]))
    x += weights.segment
    x = weights.norm.of(x)
    for layer in weights.layers:
        attended = layer.output.times(_attention(layer, x, bounds))
        attended += x
        x = layer.attended.of(attended)
        fed = layer.down.times(_gelu(layer.up.times(x)))
        fed += x
        x = layer.fed.of(fed)
    # the mean's direction is the sum's
    return unit(np.add.reduceat(x, bounds[:-1], axis=0))


def unit(rows: Floats) -> Floats:
    """Give the rows unit length."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Floats = rows / np.maximum(lengths, np.float32(_EPSILON))
    return scaled


def _attention(layer: Layer, x: Floats, bounds: NDArray[np.int64]) -> Floats:
    import numpy as np

    width = DIM // HEADS
    query, key, value = layer.query.times(x), layer.key.times(x), layer.value.times(x)
    query *= np.float32(width**-0.5)
    mixed = np.empty_like(x)
    for start, end in pairwise(bounds):
        q, k, v = (rows[start:end].reshape(-1, HEADS, width).transpose(1, 0, 2) for rows in (query, key, value))
        scores = q @ k.transpose(0, 2, 1)
        scores -= scores.max(axis=2, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=2, keepdims=True)
        mixed[start:end] = (scores @ v).transpose(1, 0, 2).reshape(-1, DIM)
    return mixed


def _gelu(x: Floats) -> Floats:
    """Give x · Φ(x), in place."""
    flat = x.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        _gelu_block(flat[start : start + _BLOCK])
    return x


def _gelu_block(x: Floats) -> None:
    import numpy as np

    # x Φ(x) = max(x, 0) - |x| (1 - Φ(|x|)), with 1 - Φ(|x|) = t (a1 + t (a2 + …)) exp(-x²/2) / 2, t = 1 / (1 + p|x|/√2)
    # Abramowitz and Stegun 7.1.26, wrong by 1.5e-7 at most
    size = np.abs(x)
    t = size * np.float32(0.3275911 * 0.5**0.5)
    t += np.float32(1)
    np.reciprocal(t, out=t)
    tail = t * np.float32(1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail += np.float32(coefficient)
        tail *= t
    np.multiply(x, x, out=t)
    t *= np.float32(-0.5)
    tail *= np.exp(t, out=t)
    tail *= np.float32(0.5)
    tail *= size
    np.maximum(x, np.float32(0), out=x)
    x -= tail
