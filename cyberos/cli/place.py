"""The path of a memory from what a user typed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cyberos.core import layout

if TYPE_CHECKING:
    from pathlib import Path


def path_of(root: Path, given: str) -> str:
    """Read a path that is relative to the vault, relative to the current folder, or absolute.

    Raises: UnsafePath for what lies outside the vault or where no memory may lie.
    """
    if layout.path_problem(given) is None:
        return given
    full = os.path.abspath(given)
    # a link on the way to the vault is fine, one inside it is not ours to follow
    for base, name in ((str(root), full), (os.path.realpath(root), _real(full))):
        if name.startswith(base.rstrip(os.sep) + os.sep):
            return layout.check_memory_path(os.path.relpath(name, base).replace(os.sep, "/"))
    return layout.check_memory_path(given)


def _real(full: str) -> str:
    return os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
