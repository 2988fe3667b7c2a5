"""Any model that sentence-transformers can run and that lies on this disk: a folder, or a name in its hub's cache.

Nothing is downloaded: the hub's offline variables are set before the import, and only local files are asked for. A
folder must hold what makes it a model of the library, `modules.json` or `config.json`, and weights: else the library
would make up a model of random numbers, or one with a pooling that nobody chose.

The stamp knows a model by the digest of all its files that decide the vectors.

Source: sentence-transformers, `SentenceTransformer`; huggingface_hub, "Environment variables".
"""

from __future__ import annotations

import contextlib
import os
from hashlib import sha256
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING, Any

from cyberos.embed.base import EmbedderUnavailable, Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_BATCH = 32
_WINDOW = 1024
_WEIGHTS = (".safetensors", ".bin")
_LONE = {point: None for point in range(0xD800, 0xE000)}
