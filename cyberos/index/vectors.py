"""`.cyberos/index/vectors-<stamp>-<n>.f32`: a matrix of unit rows, searched whole; the roster says whose they are.

    vectors-<stamp>.roster      see `roster`; <stamp> is the first 16 hex digits of the embedder's
    vectors-<stamp>-<n>.f32     rows of `dim` float32 each, only added to; a rewrite takes another n

Rows are added behind what the roster counts, and the new roster makes them real; a matrix is never cut or changed in
place, since others have it mapped. One whose size, time or inode is not as the roster says is checked row by row:
rows that are not as they were written are left out, and whoever compares with the catalog embeds them again. So
nothing here is an error: what cannot be used is not there.

Source: DESIGN section 6.
"""

from __future__ import annotations

import mmap
import os
import stat
import threading
from contextlib import suppress
from typing import TYPE_CHECKING
from zlib import crc32

from cyberos.core import layout, syscalls
from cyberos.core.errors import UnsafePath
from cyberos.index import roster as rosters
from cyberos.index.nearest import View
from cyberos.index.roster import NO_LOOK, Look, Roster

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from cyberos.core.files import Files
    from cyberos.index.roster import Held

# Rows that nobody has are kept for the branch that comes back to them, up to this many, or as many as are in use.
IDLE = 1000
_CHUNK = 4096  # rows
_TRIES = 5


class Vectors:
    """The vectors of one embedder in a vault, or in memory when there are no files. One writer at a time."""

    def __init__(self, files: Files | None, embedder: str, dim: int) -> None:
        self._files = files
        self._embedder = embedder
        self._dim = dim
        self._stem = f"{layout.INDEX}/vectors-{embedder[:16]}"
        self._view: View | None = None
        self._look: Look | None = None  # of the roster
        self._guard = threading.RLock()

    def aside(self) -> Vectors:
        """Give the same vectors in memory, to which can be added where the disk cannot be written."""
        made = Vectors(None, self._embedder, self._dim)
        view = self.view()
        head = view.roster.head._replace(matrix="", look=NO_LOOK)
        made._view = View(view.roster._replace(head=head), view.matrix)
        return made

    def view(self) -> View:
        """Give what is held now; rows that are damaged or missing are left out."""
        with self._guard:
            if self._files is None:
                self._view = self._view or self._nothing()
                return self._view
            for _ in range(_TRIES):
                found = look(self._files, f"{self._stem}.roster")
                if self._view is not None and found == self._look and self._is_mapped(self._files, self._view):
                    return self._view
                self._view, self._look = self._read(self._files), found
                # a writer may have put another roster there, and taken away the matrix of this one
                if look(self._files, f"{self._stem}.roster") == found:
                    return self._view
            return self._nothing()

    def _nothing(self) -> View:
        import numpy as np

        return View(rosters.empty(self._embedder, self._dim), np.zeros((0, self._dim), np.float32))

    def _is_mapped(self, files: Files, view: View) -> bool:
        head = view.roster.head
        return not head.matrix or look(files, self._matrix(head.matrix)) == head.look

    def _matrix(self, name: str) -> str:
        return f"{self._stem}-{os.path.basename(name)}.f32"

    def _read(self, files: Files) -> View:
        try:
            roster = rosters.parse_roster(files.read(f"{self._stem}.roster"))
        except (OSError, UnsafePath, ValueError, LookupError, TypeError):
            return self._nothing()
        if (roster.head.embedder, roster.head.dim) != (self._embedder, self._dim):
            return self._nothing()
        return self._map(files, roster)

    def _map(self, files: Files, roster: Roster) -> View:
        """Map the matrix of a roster; check its rows where it is not as it was left."""
        import numpy as np

        path, count = self._matrix(roster.head.matrix), len(roster.checks)
        found = look(files, path)
        present = min(count, found[0] // (self._dim * 4))
        matrix = np.zeros((0, self._dim), np.float32)
        if present:
            with suppress(OSError):
                handle = syscalls.open_file(os.path.join(files.root, path), syscalls.READ_FLAGS, None, path)
                with open(handle, "rb") as file:
                    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                matrix = np.frombuffer(mapped, np.float32, present * self._dim).reshape(present, self._dim)
        if len(matrix) == count and found == roster.head.look:
            return View(roster, matrix)
        good = [row for row in range(len(matrix)) if crc32(matrix[row].data) == roster.checks[row]]
        if len(good) == count:
            return View(roster._replace(head=roster.head._replace(look=found)), matrix)
        # a matrix without a name is written whole at the next commit
        head = roster.head._replace(seen="", matrix="", look=NO_LOOK)
        return View(rosters.only(roster._replace(head=head), good), matrix[good])

    def commit(
        self,
        adds: Collection[Held],
        fresh: Mapping[bytes, NDArray[np.float32]],
        removes: Collection[str],
        *,
        seen: str,
        missing: int,
        is_purge: bool = False,
    ) -> View:
        """Remove, then add, and give what is now held: either all of it is seen by others or nothing.

        `fresh` holds the vectors of texts that have no row yet; every text has one or is there already. A purge leaves
        no bytes of rows that nobody has. Raises: OSError, UnsafePath.
        """
        with self._guard:
            view = self.view()
            known = view.texts()
            new = {text: vector for text, vector in fresh.items() if text not in known}
            made = rosters.changed(view.roster, adds, removes, known, {text: crc32(new[text].data) for text in new})
            made = made._replace(head=made.head._replace(seen=seen, missing=missing))
            used = sorted(set(made.rows))
            idle = len(made.checks) - len(used)
            is_thinned = idle > (0 if is_purge else max(IDLE, len(used)))
            if is_thinned or not self._can_grow(view):
                used = used if is_thinned else list(range(len(made.checks)))
                rows = self._stack(view.matrix, new)[used]
                made = rosters.only(made._replace(head=made.head._replace(matrix="")), used)
            else:
                rows = self._stack(view.matrix[:0], new)
            self._view = View(made, rows) if self._files is None else self._save(self._files, made, rows)
            return self._view

    def _can_grow(self, view: View) -> bool:
        """Report whether the file holds the rows of this view and nothing behind them."""
        head = view.roster.head
        if self._files is None or not head.matrix:
            return False
        return look(self._files, self._matrix(head.matrix))[0] == len(view.matrix) * self._dim * 4

    def _stack(self, matrix: NDArray[np.float32], new: Mapping[bytes, NDArray[np.float32]]) -> NDArray[np.float32]:
        import numpy as np

        return np.concatenate([matrix, np.array(list(new.values()), np.float32).reshape(-1, self._dim)])

    def _save(self, files: Files, made: Roster, rows: NDArray[np.float32]) -> View:
        """Write the rows behind those that are there, then the roster; a matrix without a name is written whole."""
        name = made.head.matrix or os.urandom(4).hex()
        path, there = self._matrix(name), len(made.checks) - len(rows)
        for first in range(0, len(rows), _CHUNK):
            chunk = rows[first : first + _CHUNK].tobytes()
            files.append(path, chunk, (there + first) * self._dim * 4, sync=False)
        made = made._replace(head=made.head._replace(matrix=name, look=look(files, path)))
        files.overwrite(f"{self._stem}.roster", rosters.format_roster(made))
        self._look = look(files, f"{self._stem}.roster")
        self._sweep(files, path)
        return self._map(files, made)

    def _sweep(self, files: Files, kept: str) -> None:
        """Take away matrices that no roster names: of a rewrite, or of a writer that was killed."""
        for name in files.names(layout.INDEX):
            path = f"{layout.INDEX}/{name}"
            if path.startswith(f"{self._stem}-") and path != kept:
                with suppress(OSError):  # where a file that is mapped cannot be removed, a later sweep does
                    files.remove(path)


def look(files: Files, path: str) -> Look:
    """Give size, mtime in ns and inode of a regular file; zeros where there is none."""
    with suppress(OSError, UnsafePath):
        found = files.stat(path)
        if found is not None and stat.S_ISREG(found.st_mode):
            return found.st_size, found.st_mtime_ns, found.st_ino
    return NO_LOOK


def purge(files: Files, wanted: Mapping[str, bytes]) -> None:
    """Leave no bytes of any memory but those `wanted`, path and key, whichever embedder made them. Raises: OSError."""
    from importlib.util import find_spec

    for name in files.names(layout.INDEX):
        if not name.startswith("vectors-") or not name.endswith(".roster"):
            continue
        try:
            head = rosters.parse_roster(files.read(f"{layout.INDEX}/{name}")).head
            if find_spec("numpy") is None or name != f"vectors-{head.embedder[:16]}.roster":
                raise ValueError(name)
        except (UnsafePath, ValueError, LookupError, TypeError):
            discard(files, name.removesuffix(".roster"))
            continue
        store = Vectors(files, head.embedder, head.dim)
        roster = store.view().roster
        stale = [path for path, key, *_ in roster.entries() if wanted.get(path) != key]
        store.commit((), {}, stale, seen="", missing=0, is_purge=True)


def discard(files: Files, stem: str = "vectors-") -> None:
    """Take vectors away, those of all embedders or of one. Raises: OSError."""
    for name in files.names(layout.INDEX):
        if name.startswith(stem) and name.endswith((".roster", ".f32", ".tmp")):
            files.remove(f"{layout.INDEX}/{name}")
