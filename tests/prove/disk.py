"""What a disk may hold after a power cut: a trace of calls, and every state that they allow.

The model is weaker than any journaling file system, after ALICE (OSDI 2014): until its file is synced a write may be
there, missing, cut in half, cut after its first line, or zeros; until its folder is synced a new, moved or removed
name may be there or not, each for itself. fsync of a file keeps what was written to it, of a folder the names in it,
syncfs keeps everything. A rename is one step until one of its two folders is synced; then the other's name is free.
Reordering is free.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import syscalls

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("open", "write", "fsync", "ftruncate", "mkdir", "rmdir", "link", "rename", "replace", "unlink", "utime")
WHOLE, GONE, VARIANTS = "whole", "gone", ("half", "line", "zeros")
OLD_STAYS, NEW_LOST = "old stays", "new lost"  # of a rename, when only its new or only its old folder was synced
PLACES = (
    "cyberos.core.commit",
    "cyberos.core.recovery",
    "cyberos.core.vault",
    "cyberos.core.writer",
    "cyberos.doctor.fixes",
)


class Op(NamedTuple):
    """One call. `folders` are those whose sync keeps it; `file` the file whose sync does; `site` who asked for a sync."""

    kind: str
    folders: tuple[str, ...] = ()
    file: int = -1
    path: str = ""
    value: Any = None
    site: str = ""
    times: tuple[tuple[str, int], ...] = ()


class Image:
    """A disk: folders with their times, names of files, and the bytes of each file by its number."""

    def __init__(self) -> None:
        self.folders: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.blobs: dict[int, bytes] = {}

    def copy(self) -> Image:
        made = Image()
        made.folders, made.names, made.blobs = dict(self.folders), dict(self.names), dict(self.blobs)
        return made

    def apply(self, op: Op, how: str) -> None:
        if how != GONE:
            getattr(self, f"_{op.kind}")(op, how)
            for folder, time_ns in op.times:
                if folder in self.folders:
                    self.folders[folder] = time_ns

    def _name(self, op: Op, how: str) -> None:
        if _parent(op.path) in self.folders:
            self.names[op.path] = op.file
            self.blobs.setdefault(op.file, b"")

    def _move(self, op: Op, how: str) -> None:
        if how != OLD_STAYS:
            self.names.pop(op.value, None)
        if how != NEW_LOST:
            self._name(op, how)

    def _unlink(self, op: Op, how: str) -> None:
        self.names.pop(op.path, None)

    def _mkdir(self, op: Op, how: str) -> None:
        if _parent(op.path) in self.folders:
            self.folders[op.path] = 0

    def _rmdir(self, op: Op, how: str) -> None:
        if not any(name.startswith(f"{op.path}/") for name in (*self.names, *self.folders)):
            self.folders.pop(op.path, None)

    def _times(self, op: Op, how: str) -> None:
        return  # as every call's own times

    def _write(self, op: Op, how: str) -> None:
        offset, blob = op.value
        if how == "half":
            blob = blob[: len(blob) // 2]
        elif how == "line":
            blob = blob[: blob.find(b"\n") + 1]
        elif how == "zeros":
            blob = bytes(len(blob))
        old = self.blobs.get(op.file, b"").ljust(offset, b"\0")
        self.blobs[op.file] = old[:offset] + blob + old[offset + len(blob) :]

    def _cut(self, op: Op, how: str) -> None:
        self.blobs[op.file] = self.blobs.get(op.file, b"")[: op.value].ljust(op.value, b"\0")

    def key(self) -> int:
        names = sorted((path, number, self.blobs[number]) for path, number in self.names.items())
        return hash((tuple(sorted(self.folders.items())), tuple(names)))

    def write(self, root: Path) -> None:
        """Make it below an empty `root`, hard links and folder times and all."""
        made: dict[int, Path] = {}
        for folder in sorted(self.folders):
            if folder:
                (root / folder).mkdir()
        for path, number in self.names.items():
            if number in made:
                os.link(made[number], root / path)
            else:
                (root / path).write_bytes(self.blobs[number])
                made[number] = root / path
        for folder, time_ns in self.folders.items():
            os.utime(root / folder, ns=(time_ns, time_ns))


def _parent(path: str) -> str:
    return os.path.dirname(path)


class Trace:
    """The disk before, the calls since, and after how many calls each thing was acknowledged."""

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root)
        self.before = Image()
        self.ops: list[Op] = []
        self.said: list[tuple[int, str]] = []
        self._numbers = count()
        self._known: dict[int, int] = {}
        for folder, _, names in os.walk(self.root):
            inside = os.path.relpath(folder, self.root)
            inside = "" if inside == "." else inside
            self.before.folders[inside] = os.stat(folder).st_mtime_ns
            for name in names:
                path = os.path.join(folder, name)
                number = self._number(os.stat(path).st_ino)
                self.before.names[os.path.join(inside, name)] = number
                self.before.blobs[number] = Path(path).read_bytes()

    def say(self, text: object) -> None:
        self.said.append((len(self.ops), str(text)))

    def _number(self, inode: int, *, is_new: bool = False) -> int:
        if is_new or inode not in self._known:
            self._known[inode] = next(self._numbers)
        return self._known[inode]

    @contextmanager
    def recording(self) -> Iterator[None]:
        real = {name: getattr(os, name) for name in NAMES}
        real_syncfs = syscalls.syncfs

        def wrap(name):
            def call(*arguments, **options):
                return getattr(self, f"_{name}")(real[name], *arguments, **options)

            return call

        def syncfs(root):
            done = real_syncfs(root)
            assert done
            self._add(Op("syncfs", site=_site()))
            return done

        for name in NAMES:
            setattr(os, name, wrap(name))
        syscalls.syncfs = syncfs
        try:
            yield
        finally:
            for name in NAMES:
                setattr(os, name, real[name])
            syscalls.syncfs = real_syncfs

    # the calls

    def _path(self, name, fd) -> str | None:
        """Give a path relative to the root, or None for what is not in it or is the lock, which holds nothing."""
        base = os.readlink(f"/proc/self/fd/{fd}") if fd is not None else os.getcwd()
        path = os.path.relpath(os.path.join(base, os.fspath(name)), self.root)
        path = "" if path == "." else path
        return None if path.startswith("..") or path == ".cyberos/lock" else path

    def _of(self, handle) -> str | None:
        named = os.readlink(f"/proc/self/fd/{handle}")
        return self._path(named.removesuffix(" (deleted)"), None) if named.startswith("/") else None

    def _add(self, op: Op, *folders: str) -> None:
        times = tuple((folder, os.stat(os.path.join(self.root, folder)).st_mtime_ns) for folder in folders)
        self.ops.append(op._replace(folders=op.folders or folders, times=times))

    def _open(self, real, path, flags, mode=0o777, *, dir_fd=None):
        inside = self._path(path, dir_fd) if flags & os.O_CREAT else None
        is_new = inside is not None and not os.path.lexists(os.path.join(self.root, inside))
        handle = real(path, flags, mode, dir_fd=dir_fd)
        if is_new:
            number = self._number(os.fstat(handle).st_ino, is_new=True)
            self._add(Op("name", file=number, path=inside), _parent(inside))
        return handle

    def _write(self, real, handle, blob):
        status = os.fstat(handle)
        written = real(handle, blob)
        if stat.S_ISREG(status.st_mode) and self._of(handle) is not None:
            value = (status.st_size, bytes(blob[:written]))  # all that write here append
            self._add(Op("write", file=self._number(status.st_ino), value=value))
        return written

    def _ftruncate(self, real, handle, size):
        real(handle, size)
        if self._of(handle) is not None:
            self._add(Op("cut", file=self._number(os.fstat(handle).st_ino), value=size))

    def _fsync(self, real, handle):
        real(handle)
        inside = self._of(handle)
        assert inside is not None
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            self._add(Op("sync", path=inside, site=f"{_site()}, {_what(inside)}/"))
        else:
            number = self._number(os.fstat(handle).st_ino)
            self._add(Op("sync", file=number, site=f"{_site()}, {_what(inside)}"))

    def _mkdir(self, real, path, mode=0o777, *, dir_fd=None):
        real(path, mode, dir_fd=dir_fd)
        inside = self._path(path, dir_fd)
        self._add(Op("mkdir", path=inside, folders=(_parent(inside),)), _parent(inside), inside)

    def _rmdir(self, real, path, *, dir_fd=None):
        inside = self._path(path, dir_fd)
        real(path, dir_fd=dir_fd)
        self._add(Op("rmdir", path=inside), _parent(inside))

    def _link(self, real, source, target, *, src_dir_fd=None, dst_dir_fd=None, follow_symlinks=True):
        real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        inside = self._path(target, dst_dir_fd)
        inode = os.stat(os.path.join(self.root, inside)).st_ino
        self._add(Op("name", file=self._number(inode), path=inside), _parent(inside))

    def _rename(self, real, source, target, *, src_dir_fd=None, dst_dir_fd=None):
        before, after = self._path(source, src_dir_fd), self._path(target, dst_dir_fd)
        inode = os.stat(os.path.join(self.root, before)).st_ino
        real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        op = Op("move", file=self._number(inode), path=after, value=before)
        self._add(op, *{_parent(before), _parent(after)})

    _replace = _rename

    def _unlink(self, real, path, *, dir_fd=None):
        inside = self._path(path, dir_fd)
        real(path, dir_fd=dir_fd)
        if inside is not None:
            self._add(Op("unlink", path=inside), _parent(inside))

    def _utime(self, real, path, times=None, *, ns=None, dir_fd=None):
        real(path, ns=ns, dir_fd=dir_fd)
        inside = self._path(path, dir_fd)
        self._add(Op("times", path=inside, folders=(inside,)), inside)

    # the states

    def pending(self, moment: int, without: str = "") -> dict[int, str]:
        """Give the calls before this moment that nothing has made durable, and what is least left of each.

        Syncs asked for at `without` do not count.
        """
        found: dict[int, str] = {}
        for number, op in enumerate(self.ops[:moment]):
            if op.kind not in {"sync", "syncfs"}:
                found[number] = GONE
            elif op.site != without:
                found = {} if op.kind == "syncfs" else _after(op, self.ops, found)
        return found

    def image(self, moment: int, fates: dict[int, str]) -> Image:
        """Give the disk on which the calls before this moment have these fates; all others are there."""
        made = self.before.copy()
        for number, op in enumerate(self.ops[:moment]):
            if op.kind not in {"sync", "syncfs"}:
                made.apply(op, fates.get(number, WHOLE))
        return made


def _after(sync: Op, ops: list[Op], pending: dict[int, str]) -> dict[int, str]:
    """Give what is still open after a sync."""
    found = {}
    for number, least in pending.items():
        op = ops[number]
        is_kept = op.file == sync.file and op.kind in {"write", "cut"} if sync.file >= 0 else sync.path in op.folders
        if not is_kept:
            found[number] = least
        elif op.kind == "move" and len(op.folders) > 1:
            half = OLD_STAYS if sync.path == _parent(op.path) else NEW_LOST
            if least in {GONE, half}:
                found[number] = half
    return found


def _what(path: str) -> str:
    """Name the kind of place that a path is."""
    parts = path.split("/")
    if parts[0] == "audit":
        return ("audit", "audit month", "audit day", "segment")[len(parts) - 1]
    if parts[0] == ".cyberos":
        return "/".join(parts[:2])
    return "memory" if parts[0] == "memories" else "the vault's folder"


def _site() -> str:
    """Name the function of the writer that asked for a sync."""
    frame = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module in PLACES:
            return f"{module.rsplit('.', 1)[1]}.{frame.f_code.co_name}"
        frame = frame.f_back
    raise AssertionError("a sync from an unknown place")
