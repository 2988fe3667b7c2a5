"""Finding the vault that a command is about.

Source: DESIGN section 1.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cyberos.core import git, layout
from cyberos.core.errors import VaultNotFound

if TYPE_CHECKING:
    from pathlib import Path


def is_vault(folder: str | os.PathLike[str]) -> bool:
    return all(os.path.isdir(os.path.join(folder, name)) for name in (layout.AUDIT, layout.MEMORIES))


def discover(start: str | os.PathLike[str] | None = None, store: str | os.PathLike[str] | None = None) -> Path:
    """Give what `find` finds as a Path. Raises: VaultNotFound."""
    from pathlib import Path

    return Path(find(start, store))


def find(start: str | os.PathLike[str] | None = None, store: str | os.PathLike[str] | None = None) -> str:
    """Find the vault: `store`, else `CYBEROS_STORE`, else the nearest folder at or above `start` that is one.

    Raises: VaultNotFound, saying where git has one if it does.
    """
    named = store or os.environ.get("CYBEROS_STORE")
    if named:
        folder = os.path.abspath(os.path.expanduser(named))
        if not is_vault(folder):
            elsewhere = git.vault_elsewhere(folder) if os.path.isdir(folder) else None
            raise VaultNotFound(folder, elsewhere, is_named=True)
        return folder
    begin = folder = os.path.abspath(start or os.getcwd())
    while not is_vault(folder):
        parent = os.path.dirname(folder)
        if parent == folder:
            raise VaultNotFound(begin, git.vault_elsewhere(begin))
        folder = parent
    return folder
