"""The full-text engines of this process, those of each vault that was asked lately.

They stay open, since opening one costs more than asking it. An open engine holds to the files that it verified when
it opened them, so it is closed when any of them has changed since.

Source: DESIGN section 6.
"""

from __future__ import annotations

import os
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from cyberos.core import layout

if TYPE_CHECKING:
    from cyberos.core.files import Files
    from cyberos.index.fulltext import FullText

WHOOSH, FTS5 = "whoosh", "fts5"
# the name of a store, of its folder and of its engine -> where that is; imported only when it is asked for
_ENGINES = {
    WHOOSH: ("cyberos.index.fulltext_whoosh", "WhooshFullText"),
    FTS5: ("cyberos.index.fulltext_fts5", "Fts5FullText"),
}
_KEPT = 16

Look = list[tuple[str, int, int, int]]
_open: dict[tuple[str, str], tuple[FullText, Look]] = {}
_guard = threading.RLock()


def of(files: Files, name: str) -> FullText:
    """Give an engine of a vault, by the name of its store. Raises: KeyError for one that does not exist."""
    folder = os.path.join(files.root, layout.INDEX, name)
    with _guard:
        engine, seen = _open.pop((files.root, name), None) or (make(name, Path(folder)), None)
        found = _look(folder)
        if seen is not None and found != seen:
            engine.close()
        _open[files.root, name] = engine, found
        for key in list(_open)[:-_KEPT]:
            _open.pop(key)[0].close()
        return engine


def why_not(name: str) -> str | None:
    """Say why an engine cannot be used here, or give None."""
    if name != FTS5:
        return None
    from cyberos.index import fulltext_fts5

    return fulltext_fts5.why_not()


def present(files: Files) -> list[str]:
    """Name the stores of a vault that have anything on disk."""
    return [name for name in _ENGINES if files.names(f"{layout.INDEX}/{name}")]


def make(name: str, folder: Path | None) -> FullText:
    """Make an engine, in memory when there is no folder. Raises: KeyError for one that does not exist."""
    module, attribute = _ENGINES[name]
    engine: FullText = getattr(import_module(module), attribute)(folder)
    return engine


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
