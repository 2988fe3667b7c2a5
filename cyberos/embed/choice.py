"""Which embedder a setting names, and the one that is kept warm for it.

    auto                                  minilm if it can be used, else sentence-transformers
    minilm                                extra `local`
    sentence-transformers[:NAME-OR-PATH]  extra `semantic`; a model that is on this disk
    hash                                  for tests
    none                                  no embedder: words only

Source: DESIGN section 6.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cyberos.core import settings
from cyberos.core.errors import ContractError
from cyberos.embed import weights
from cyberos.embed.base import EmbedderUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from cyberos.embed.base import Embedder

_kept: dict[str, Embedder] = {}
_lock = threading.Lock()


def available(setting: str = "auto") -> bool:
    """Report whether what a setting needs is installed, importing none of it.

    A model can still turn out to be missing or damaged when `make` loads it.
    Raises: ContractError for a setting that there is not.
    """
    return _family(setting) is not None


def make(setting: str = "auto") -> Embedder:
    """Give the embedder of a setting, the same one for the rest of the process.

    Raises: EmbedderUnavailable with what to install; ContractError for a setting that there is not.
    """
    with _lock:
        if setting not in _kept:
            _kept[setting] = _make(setting)
        return _kept[setting]


def _family(setting: str) -> str | None:
    try:
        family, _, _ = settings.embedder(setting).partition(":")
    except ValueError as error:
        raise ContractError("embedder", f"{setting!r}: {error}") from None
    usable: dict[str, Callable[[], bool]] = {
        "minilm": lambda: find_spec("numpy") is not None and weights.find() is not None,
        "sentence-transformers": lambda: find_spec("sentence_transformers") is not None,
        "hash": lambda: find_spec("numpy") is not None,
        "none": lambda: False,
    }
    families = ("minilm", "sentence-transformers") if family == "auto" else (family,)
    return next((each for each in families if usable[each]()), None)


def _make(setting: str) -> Embedder:
    usable = _family(setting)
    family, _, model = setting.partition(":")
    match usable or family:
        case "none":
            raise EmbedderUnavailable("none", "there is no embedder: it is switched off", "set `embedder` to auto")
        case "hash":
            from cyberos.embed.hashing import Hashing

            return Hashing()
        case "sentence-transformers":
            from cyberos.embed.sentence_transformers import SentenceTransformers

            return SentenceTransformers(model)
        case _:
            from cyberos.embed.minilm import MiniLM

            return MiniLM()
