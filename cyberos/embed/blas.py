"""numpy with one thread of its own.

numpy's OpenBLAS starts a thread for each core when it is loaded, and they wait for work by spinning. A query is too
small to gain from that, and loses whatever else the machine is doing; for many texts we run threads ourselves, which
share all of the work and not only the products. OpenBLAS reads its variable when it is loaded, never again.

Source: OpenBLAS, "Setting the number of threads at runtime".
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

_VARIABLE = "OPENBLAS_NUM_THREADS"


def load() -> None:
    """Import numpy; what was imported before or set by the user stays."""
    if "numpy" in sys.modules or _VARIABLE in os.environ:
        return
    os.environ[_VARIABLE] = "1"
    try:
        import_module("numpy")
    finally:
        del os.environ[_VARIABLE]  # the processes that we start decide for themselves


def cores() -> int:
    """Count the cores that this process may use, four at most."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, 4)
