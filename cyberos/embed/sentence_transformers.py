"""Any model of sentence-transformers that lies on this disk: a folder, or a name in the hub's cache.

Nothing is downloaded: the hub's offline variables are set before the import, and only local files are asked for. A
folder must hold `modules.json`, which names the parts of a model, and weights: otherwise the library makes up what is
missing, and a model of random numbers answers as calmly as a true one.

The stamp knows a model by the digests of its weights and of the files that say how they are used.

Source: sentence-transformers, `SentenceTransformer`; huggingface_hub, "Environment variables".
"""

from __future__ import annotations

import contextlib
import os
import warnings
from hashlib import file_digest, sha256
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING, Any

from cyberos.embed import forward
from cyberos.embed.base import EmbedderUnavailable, Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
_BATCH = 32
_WINDOW = 1024  # texts that are sorted by length together, and how long progress is silent
_WEIGHTS = (".safetensors", ".bin")
_SHAPE = (".json", ".txt", ".model")
_LONE = dict.fromkeys(range(0xD800, 0xE000))  # surrogates that no tokenizer takes


class SentenceTransformers:
    """A model of the user's own choice; torch runs it."""

    name = "sentence-transformers"

    def __init__(self, model: str = "") -> None:
        """Load a model by its folder or name. Raises: EmbedderUnavailable."""
        if find_spec("sentence_transformers") is None:
            reason = "sentence-transformers is not installed"
            raise EmbedderUnavailable(self.name, reason, "pip install 'cyberos[semantic]'")
        os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
        with _quiet():
            folder = _folder(model or DEFAULT)
            weights, shape = _digest(folder, _WEIGHTS), _digest(folder, _SHAPE)
            self._model = _load(folder)
        self.dim = int(self._model.encode("", show_progress_bar=False).shape[0])
        limit = int(self._model.max_seq_length or 0)
        pooling = "as modules.json says"
        self.stamp = Identity(
            self.name, "", weights, "float32", shape, pooling, normalize=True, max_tokens=limit, dim=self.dim
        ).stamp()

    def embed(self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Keep the promise of `Embedder.embed`."""
        import numpy as np

        rows = np.empty((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), _WINDOW):
            window = [text.translate(_LONE) for text in texts[start : start + _WINDOW]]
            vectors = self._model.encode(window, batch_size=_BATCH, show_progress_bar=False, convert_to_numpy=True)
            rows[start : start + len(window)] = forward.unit(vectors.astype(np.float32))
            if progress is not None:
                progress(len(window))
        return rows


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's bars and advice off the terminal."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(StringIO()), contextlib.redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        yield


def _folder(model: str) -> str:
    if os.path.isdir(model):
        folder = model
    elif os.path.isabs(model) or model.startswith((".", "~")):
        raise _not_a_model(model, "there is no such folder")
    else:
        from huggingface_hub import snapshot_download

        name = model if "/" in model else f"sentence-transformers/{model}"
        try:
            folder = snapshot_download(name, local_files_only=True)
        except (OSError, ValueError):  # the hub's errors are of these two
            raise _not_a_model(model, "neither a folder nor in the hub's cache on this disk") from None
    if not os.path.isfile(os.path.join(folder, "modules.json")):
        raise _not_a_model(model, "the folder has no modules.json")
    if not any(True for _ in _files(folder, _WEIGHTS)):
        raise _not_a_model(model, "the folder has no weights")
    return folder


def _load(folder: str) -> Any:
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(folder, device="cpu", local_files_only=True)
    except (OSError, ValueError, RuntimeError, LookupError, TypeError, ImportError, SafetensorError) as error:
        raise _not_a_model(folder, f"{type(error).__name__}: {error}".splitlines()[0]) from error


def _not_a_model(model: str, reason: str) -> EmbedderUnavailable:
    advice = "name a folder that SentenceTransformer.save() wrote: sentence-transformers:PATH; or use minilm"
    return EmbedderUnavailable("sentence-transformers", f"{model}: {reason}", advice)


def _digest(folder: str, endings: tuple[str, ...]) -> str:
    whole = sha256()
    for path in _files(folder, endings):
        with open(path, "rb") as handle:
            whole.update(f"{os.path.relpath(path, folder)} {file_digest(handle, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def _files(folder: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Yield the files of the model and of its parts, which lie one folder down, in the order of their names."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            inside = (os.path.join(path, inner) for inner in sorted(os.listdir(path)) if name[:1].isdigit())
            yield from (inner for inner in inside if inner.endswith(endings))
        elif name.endswith(endings):
            yield path
