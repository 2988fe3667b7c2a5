"""The walk: every file below `memories/`, each read once, no link followed, nothing passed over in silence.

Folders are opened one inside the other, never by a path that somebody could exchange for a link meanwhile. What is no
regular file, cannot be read, is too big, or lies where no memory may lie comes with the fault in place of its bytes;
a file that goes while we look is simply not there.

Here too is the guard around a check: one that crashes becomes a finding, and the others still run.

Source: DESIGN section 5; POSIX.1-2017 openat(2).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import layout
from cyberos.core.errors import UnsafePath
from cyberos.core.files import Files
from cyberos.doctor.findings import Finding, finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHECKS = ("layout-file-regular", "layout-path-safe", "layout-file-size", "doctor-check-crashed")

KEEP = f"{layout.MEMORIES}/.gitkeep"
_SHARED_DEPTH = 2  # of memories/<kind>, whose folders may be shared out
_MAX_DEPTH = 16  # a folder deeper than this is not entered
_HAS_DIR_FD = os.open in os.supports_dir_fd and os.scandir in os.supports_fd and hasattr(os, "O_NOFOLLOW")
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FOLDER_FLAGS = _FLAGS | getattr(os, "O_DIRECTORY", 0)
# a FIFO or a device must not block the open that finds out what it is
_FILE_FLAGS = _FLAGS | getattr(os, "O_NONBLOCK", 0)
_BY_NAME = attrgetter("name")

# an open folder: its descriptor, or its full path where the system has no such calls
Folder = int | str
Identity = bytes


class Entry(NamedTuple):
    """Something below `memories/`: its bytes, or the rule that it breaks and how.

    `identity` is of the file's device, inode, size and mtime, and changes when it is replaced or written; `size` is in
    bytes; `links` counts the file's names.
    """

    path: str
    blob: bytes | None
    fault: tuple[str, str] | None = None
    identity: Identity = b""
    size: int = 0
    links: int = 1


Enters = Callable[[str], bool]


def walk(
    root: str, path: str = layout.MEMORIES, enters: Enters | None = None, *, is_backward: bool = False
) -> Iterator[Entry]:
    """Read everything below `memories/`, or below a folder in it, in the order of names within each folder.

    `enters` is asked of each `memories/<kind>/<hh>` whether to read it, when its turn comes.
    """
    *above, name = path.split("/")
    opened: list[Folder] = [root]
    try:
        for part in above:
            opened.append(_open_folder(opened[-1], part))
        yield from _Walk(enters, is_backward=is_backward).enter(opened[-1], name, path, len(above) + 1)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Entry(path, None, ("layout-file-regular", _reason(error)))
    finally:
        for folder in opened:
            _close(folder)


def look(root: str, path: str) -> Entry | None:
    """Read what stands at one path, or give None where nothing does."""
    files = Files(root)
    try:
        status = files.stat(path)
        if status is None:
            return None
        kind = _kind_problem(status.st_mode) or _place_problem(path)
        if kind is not None:
            return Entry(path, None, kind, identity(status))
        return _judge_size(path, files.read(path, layout.MAX_FILE_BYTES + 1), status)
    except FileNotFoundError:
        return None
    except (OSError, UnsafePath) as error:
        return Entry(path, None, ("layout-file-regular", _reason(error)))


def reader(root: str) -> Callable[[str], bytes | None]:
    """Make a function that reads what stands in the working tree."""
    files = Files(root)

    def read(path: str) -> bytes | None:
        try:
            return files.read(path)
        except (OSError, UnsafePath):
            return None

    return read


SAME = Entry("", None)


def look_again(root: str, path: str, before: Identity | None) -> Entry | None:
    """Give SAME when the path still holds what had this identity (None: nothing), else what `look` gives."""
    try:
        status = Files(root).stat(path)
    except (OSError, UnsafePath):
        return look(root, path)
    return SAME if (None if status is None else identity(status)) == before else look(root, path)


def identity(status: os.stat_result) -> Identity:
    """Give what changes when a file is replaced or written; as bytes, since a doctor holds it of every file."""
    return b"%d %d %d %d" % (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def case_twins(paths: Iterable[str]) -> list[Finding]:
    """Tell of paths that are one where upper and lower case are the same."""
    every = list(paths)
    lowered = {path.lower() for path in every if path != path.lower()}  # of twins one at least has upper case
    known: dict[str, str] = {}
    found = []
    for path in sorted(path for path in every if path.lower() in lowered) if lowered else ():
        first = known.setdefault(path.lower(), path)
        if first != path and layout.path_problem(path) is None:
            found.append(finding("layout-path-safe", path, f"differs from {first} only in upper and lower case"))
    return found


def guarded(name: str, path: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Run a check to its end, or say where it crashed. The error's own words may hold a secret and are left out."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except Exception as error:  # noqa: BLE001 - the one place that turns a crash into a finding
        import traceback

        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        message = f"the check of {name} crashed: {type(error).__name__} in {where}"
        found.append(finding("doctor-check-crashed", path, message))
    return found


class _Walk:
    def __init__(self, enters: Enters | None, *, is_backward: bool) -> None:
        self._enters, self._is_backward = enters, is_backward

    def enter(self, where: Folder, name: str, path: str, depth: int) -> Iterator[Entry]:
        try:
            folder = _open_folder(where, name)
        except FileNotFoundError:
            return
        except OSError as error:
            yield Entry(path, None, ("layout-file-regular", _reason(error)))
            return
        try:
            yield from self._list(folder, path, depth)
        finally:
            _close(folder)

    def _list(self, folder: Folder, path: str, depth: int) -> Iterator[Entry]:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=_BY_NAME, reverse=self._is_backward)
        except OSError as error:
            yield Entry(path, None, ("layout-file-regular", _reason(error)))
            return
        for entry in entries:
            name = f"{path}/{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                made = _visit(folder, entry, name)
                if made is not None:
                    yield made
            elif depth >= _MAX_DEPTH:
                yield Entry(name, None, ("layout-path-safe", "a folder as deep as this holds no memory"))
            elif depth != _SHARED_DEPTH or self._enters is None or self._enters(name):
                yield from self.enter(folder, entry.name, name, depth + 1)


def _close(folder: Folder) -> None:
    if isinstance(folder, int):
        os.close(folder)


def _visit(folder: Folder, entry: os.DirEntry[str], path: str) -> Entry | None:
    if not entry.is_file(follow_symlinks=False):
        mode = stat.S_IFLNK if entry.is_symlink() else stat.S_IFIFO
        return Entry(path, None, _kind_problem(mode))
    if path == KEEP:
        return None
    problem = _place_problem(path)
    if problem is not None:
        return Entry(path, None, problem)
    try:
        return _read(folder, entry.name, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Entry(path, None, ("layout-file-regular", _reason(error)))


def _read(folder: Folder, name: str, path: str) -> Entry:
    handle = _open(folder, name, _FILE_FLAGS)
    try:
        status = os.fstat(handle)
        problem = _kind_problem(status.st_mode)
        if problem is not None:
            return Entry(path, None, problem, identity(status))
        # one byte more than there should be: a read that gives it has not come to the end
        blob = os.read(handle, min(status.st_size, layout.MAX_FILE_BYTES) + 1)
        while len(blob) <= layout.MAX_FILE_BYTES and len(blob) != status.st_size:
            more = os.read(handle, layout.MAX_FILE_BYTES + 1 - len(blob))
            if not more:
                break
            blob += more
        return _judge_size(path, blob, status)
    finally:
        os.close(handle)


def _judge_size(path: str, blob: bytes, status: os.stat_result) -> Entry:
    if len(blob) <= layout.MAX_FILE_BYTES:
        return Entry(path, blob, None, identity(status), status.st_size, status.st_nlink)
    size = max(status.st_size, len(blob))
    message = f"the file takes {size:,} bytes; at most {layout.MAX_FILE_BYTES:,} are allowed"
    return Entry(path, None, ("layout-file-size", message), identity(status), size, status.st_nlink)


def _kind_problem(mode: int) -> tuple[str, str] | None:
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISLNK(mode):
        return "layout-file-regular", "is a symbolic link"
    return "layout-file-regular", "is no regular file"


def _place_problem(path: str) -> tuple[str, str] | None:
    problem = layout.path_problem(path)
    return None if problem is None else ("layout-path-safe", problem)


def _open_folder(where: Folder, name: str) -> Folder:
    if _HAS_DIR_FD:
        return _open(where, name, _FOLDER_FLAGS)
    full = os.path.join(str(where), name)
    if not stat.S_ISDIR(os.lstat(full).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "is a symbolic link or no folder", full)
    return full


def _open(where: Folder, name: str, flags: int) -> int:
    if isinstance(where, str):
        return os.open(os.path.join(where, name), flags)
    return os.open(name, flags, dir_fd=where)


def _reason(error: OSError | UnsafePath) -> str:
    if isinstance(error, UnsafePath):
        return error.reason
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "is a symbolic link or no folder"
    return f"cannot be read: {error.strerror}"
