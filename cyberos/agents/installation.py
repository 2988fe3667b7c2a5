"""Setting an agent up in a repository: look, add, take out, or only show what would be added.

Every file is read and every change made in memory before the first is written, so that one broken file of the user's
leaves all the others as they were.

Source: DESIGN section 9.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core.errors import CyberosError, UnsafePath
from cyberos.core.files import Files

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from cyberos.agents.pieces import Piece, State

MAX_BYTES = 1 << 20  # of a file of the user's


class CannotInstall(CyberosError):
    """A file of the user's cannot be added to. Nothing was changed."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; no file was changed"

    @property
    def hint(self) -> str:
        return "mend it (JSON has no comments), or add by hand what `cyberos init --agent NAME --print` shows"


_WORSE: list[State] = ["current", "stale", "missing"]


class Standing(NamedTuple):
    """A file of an agent's, and how what is ours in it stands."""

    path: str
    state: State


def look(top: str | os.PathLike[str], pieces: Iterable[Piece]) -> list[Standing]:
    """Say how each file stands: as its piece that stands worst. Raises: CannotInstall."""
    files = Files(Path(top))
    found: dict[str, State] = {}
    for piece in pieces:
        try:
            state = piece.state(_read(files, piece.path))
        except ValueError as error:
            raise CannotInstall(piece.path, str(error)) from None
        found[piece.path] = max(state, found.get(piece.path, "current"), key=_WORSE.index)
    return [Standing(path, state) for path, state in found.items()]


def install(top: str | os.PathLike[str], pieces: Iterable[Piece]) -> list[str]:
    """Add every piece that is missing or stale; give the files that changed. Raises: CannotInstall."""
    files = Files(Path(top))
    texts = _Texts(files)
    for piece in pieces:
        try:
            texts.put(piece.path, piece.add(texts.get(piece.path)))
        except ValueError as error:
            raise CannotInstall(piece.path, str(error)) from None
    return texts.write()


def remove(top: str | os.PathLike[str], pieces: Iterable[Piece]) -> list[str]:
    """Take every piece out, and the files and folders that only held them; give what changed. Raises: CannotInstall."""
    texts = _Texts(Files(Path(top)))
    for piece in reversed(list(pieces)):
        text = texts.get(piece.path)
        if text is None:
            continue
        try:
            texts.put(piece.path, piece.remove(text))
        except ValueError as error:
            raise CannotInstall(piece.path, str(error)) from None
    return texts.write()


def preview(pieces: Iterable[Piece]) -> dict[str, str]:
    """Give what each file would hold if it were not there yet."""
    made: dict[str, str] = {}
    for piece in pieces:
        made[piece.path] = piece.add(made.get(piece.path))
    return made


class _Texts:
    """Files as texts, read once and written when all is well."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._before: dict[str, str | None] = {}
        self._after: dict[str, str | None] = {}

    def get(self, path: str) -> str | None:
        if path not in self._before:
            self._before[path] = self._after[path] = _read(self._files, path)
        return self._after[path]

    def put(self, path: str, text: str | None) -> None:
        self._after[path] = text

    def write(self) -> list[str]:
        changed = [path for path, text in self._after.items() if text != self._before[path]]
        for path in changed:
            text = self._after[path]
            if text is None:
                self._files.remove(path)
                _prune(self._files, path)
                continue
            if "/" in path:
                self._files.make_folder(path.rsplit("/", 1)[0])
            self._files.overwrite(path, text.encode("utf-8"), sync=True)
        return changed


def _prune(files: Files, path: str) -> None:
    folder = path
    while "/" in folder:
        folder = folder.rsplit("/", 1)[0]
        if not files.remove_folder(folder):
            return


def _read(files: Files, path: str) -> str | None:
    if files.stat(path) is None:
        return None
    try:
        blob = files.read(path, MAX_BYTES + 1)
    except UnsafePath as error:
        raise CannotInstall(path, error.reason) from None
    if len(blob) > MAX_BYTES:
        raise CannotInstall(path, "it is too large")
    try:
        return blob.decode("utf-8")
    except UnicodeDecodeError:
        raise CannotInstall(path, "it is not UTF-8") from None
