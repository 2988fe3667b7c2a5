"""The full-text engines of this process, one for each vault that was asked lately.

They stay open, since opening one costs more than asking it. An open engine holds to the files that it verified when
it opened them, so it is closed when any of them has changed since.

Source: DESIGN section 6.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from cyberos.core import layout

if TYPE_CHECKING:
    from cyberos.core.files import Files
    from cyberos.index.fulltext import FullText

WHOOSH = f"{layout.INDEX}/whoosh"
_KEPT = 8

Look = list[tuple[str, int, int, int]]
_open: dict[str, tuple[FullText, Look]] = {}
_guard = threading.RLock()


def of(files: Files) -> FullText:
    """Give the engine of a vault."""
    folder = os.path.join(files.root, WHOOSH)
    with _guard:
        engine, seen = _open.pop(files.root, None) or (make(Path(folder)), None)
        found = _look(folder)
        if seen is not None and found != seen:
            engine.close()
        _open[files.root] = engine, found
        for root in list(_open)[:-_KEPT]:
            _open.pop(root)[0].close()
        return engine


def make(folder: Path | None) -> FullText:
    """Make an engine, in memory when there is no folder."""
    from cyberos.index.fulltext_whoosh import WhooshFullText

    return WhooshFullText(folder)


def _look(folder: str) -> list[tuple[str, int, int, int]]:
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError:
        return []
    return sorted((name, status.st_size, status.st_mtime_ns, status.st_ino) for name, status in found)


if hasattr(os, "register_at_fork"):
    # a child must not share the file offsets of its parent
    os.register_at_fork(after_in_child=_open.clear)
