"""Programs of others that some rows ask, from a folder of their own: `make prove-tools` makes it and asks registries.

CYBEROS_PROVE_TOOLS names it: a virtual environment, with `node_modules` in it. What is not there is a row skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from prove.table import Skipped

_HERE = os.environ.get("CYBEROS_PROVE_TOOLS")  # read while the table is made: the walls take it away
DATA = os.environ.get("CYBEROS_BENCH_DATA")


def folder_of_tools() -> Path:
    if not _HERE:
        raise Skipped("CYBEROS_PROVE_TOOLS names no folder (`make prove-tools` makes one)")
    return Path(_HERE)


def program(name: str) -> str:
    """Give a program of the folder. Raises: Skipped."""
    found = folder_of_tools() / "bin" / name
    if not found.exists():
        raise Skipped(f"{name} is not in CYBEROS_PROVE_TOOLS")
    return str(found)


def packages() -> str:
    """Give where the Python packages of the folder are. Raises: Skipped."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([program("python"), "-c", ask], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def on_path(name: str) -> str:
    """Give a program of this machine. Raises: Skipped."""
    found = shutil.which(name)
    if found is None:
        raise Skipped(f"there is no {name} here")
    return found
