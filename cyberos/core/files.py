"""The one module that writes to disk, and never outside the vault.

Every path is walked component by component without following a symbolic link (`O_NOFOLLOW` below an open folder;
where the system has no such calls, by `lstat`). What is there is never written through a hard link, a device or a
link. Appends loop over short writes. Syncs are counted by whoever wraps `os.fsync`: nothing else syncs.

Source: DESIGN section 4; POSIX.1-2017 openat(2), fsync(2); syncfs(2).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from cyberos.core import syscalls
from cyberos.core.errors import UnsafePath

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_KEPT_DEPTH = 2


class Files:
    """Writes below one root. All paths are POSIX text relative to it."""

    def __init__(self, root: Path | str) -> None:
        self.root = str(root)
        self._kept: dict[str, int] | None = None

    @contextmanager
    def keeping_open(self) -> Iterator[None]:
        """Keep the upper folders open during a batch, which comes back to them for every file."""
        self._kept = {}
        try:
            yield
        finally:
            for fd in self._kept.values():
                os.close(fd)
            self._kept = None

    @contextmanager
    def _folder(self, path: str, made: list[str] | None = None) -> Iterator[tuple[int | None, str]]:
        """Open the folder that holds `path`; give its descriptor (or None) and the name to use with it.

        With a list `made`, missing folders are made, and the folders in which they appeared are added to it.
        """
        parts = syscalls.split(path)
        if not syscalls.HAS_DIR_FD:
            yield None, self._checked(parts, made)
            return
        fd, is_ours, depth = self._nearest(parts)
        try:
            for number in range(depth, len(parts) - 1):
                child = syscalls.descend(fd, parts, number, made)
                if is_ours:
                    os.close(fd)
                fd, is_ours = child, True
                if self._kept is not None and number < _KEPT_DEPTH:
                    self._kept["/".join(parts[: number + 1])] = fd
                    is_ours = False
            yield fd, parts[-1]
        finally:
            if is_ours:
                os.close(fd)

    def _nearest(self, parts: list[str]) -> tuple[int, bool, int]:
        """Give an open folder above `parts`, whether we are to close it, and how many parts lead to it."""
        if self._kept is not None:
            for depth in range(min(_KEPT_DEPTH, len(parts) - 1), 0, -1):
                fd = self._kept.get("/".join(parts[:depth]))
                if fd is not None:
                    return fd, False, depth
        return os.open(self.root, syscalls.FOLDER_FLAGS & ~getattr(os, "O_NOFOLLOW", 0)), True, 0

    def _checked(self, parts: list[str], made: list[str] | None) -> str:
        current = self.root
        for number, part in enumerate(parts[:-1]):
            current = os.path.join(current, part)
            if made is not None and not os.path.lexists(current):
                os.mkdir(current)
                made.append("/".join(parts[:number]))
            if not stat.S_ISDIR(os.lstat(current).st_mode):
                raise UnsafePath("/".join(parts), f"{part!r} is not a folder")
        return os.path.join(current, parts[-1])

    def make_folder(self, path: str) -> list[str]:
        """Make a folder and its parents; give the folders in which a new entry appeared, outermost first."""
        made: list[str] = []
        with self._folder(f"{path}/x", made):
            return made

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Read a regular file, at most `limit` bytes. Raises: OSError, UnsafePath for what is no regular file."""
        with self._folder(path) as (fd, name):
            handle = syscalls.open_file(name, syscalls.READ_FLAGS, fd, path)
            try:
                syscalls.require_regular(os.fstat(handle), path)
                return syscalls.read_all(handle, limit)
            finally:
                os.close(handle)

    def stat(self, path: str) -> os.stat_result | None:
        """Give the status of the entry itself, following no link, or None where there is none."""
        try:
            with self._folder(path) as (fd, name):
                return os.stat(name, dir_fd=fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, path: str) -> list[str]:
        """List a folder, sorted; empty where there is none."""
        try:
            with self._folder(f"{path}/x") as (fd, name):
                return sorted(os.listdir(fd if fd is not None else os.path.dirname(name)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def create(self, path: str, blob: bytes, *, sync: bool) -> None:
        """Create a file exclusively. Raises: FileExistsError; on any error what was begun is taken away."""
        with self._folder(path) as (fd, name):
            handle = syscalls.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | syscalls.FILE_FLAGS, fd, path)
            try:
                syscalls.write_all(handle, blob)
                if sync:
                    os.fsync(handle)
            except OSError:
                os.unlink(name, dir_fd=fd)
                raise
            finally:
                os.close(handle)

    def append(self, path: str, blob: bytes, size: int, *, sync: bool) -> None:
        """Append to a file that holds exactly `size` bytes; create it when `size` is 0.

        On an error the file is cut back to `size`, as far as the system lets us. Raises: OSError, UnsafePath.
        """
        flags = os.O_WRONLY | os.O_APPEND | syscalls.FILE_FLAGS | (os.O_CREAT | os.O_EXCL if size == 0 else 0)
        with self._folder(path) as (fd, name):
            handle = syscalls.open_file(name, flags, fd, path)
            try:
                status = os.fstat(handle)
                syscalls.require_regular(status, path)
                syscalls.require_own(status, path)
                if status.st_size != size:
                    raise UnsafePath(path, f"holds {status.st_size} bytes where {size} were expected")
                try:
                    syscalls.write_all(handle, blob)
                    if sync:
                        os.fsync(handle)
                except OSError:
                    os.ftruncate(handle, size)
                    if size == 0:
                        os.unlink(name, dir_fd=fd)
                    raise
            finally:
                os.close(handle)

    def truncate(self, path: str, size: int) -> None:
        """Cut a file to `size` bytes, unsynced."""
        with self._folder(path) as (fd, name):
            handle = syscalls.open_file(name, os.O_WRONLY | syscalls.FILE_FLAGS, fd, path)
            try:
                os.ftruncate(handle, size)
            finally:
                os.close(handle)

    def overwrite(self, path: str, blob: bytes, *, sync: bool = False) -> None:
        """Replace a file through a temporary one beside it, atomically; synced before, unless it is derived."""
        with self._folder(path) as (fd, name):
            temporary = f"{name}.{os.getpid()}.tmp"
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=fd)  # of a process that was killed, or planted
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | syscalls.FILE_FLAGS
            handle = syscalls.open_file(temporary, flags, fd, path)
            try:
                try:
                    syscalls.write_all(handle, blob)
                    if sync:
                        os.fsync(handle)
                finally:
                    os.close(handle)
                os.replace(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
            except OSError:
                os.unlink(temporary, dir_fd=fd)
                raise

    def link(self, source: str, target: str) -> bool:
        """Give the file `source` the second name `target`, making its folders. Raises: FileExistsError.

        Where the file system has no hard links, `source` is moved instead and False is returned.
        """
        with self._folder(source) as (from_fd, from_name), self._folder(target, []) as (to_fd, to_name):
            if syscalls.link(from_name, from_fd, to_name, to_fd):
                return True
            if syscalls.exists(to_name, to_fd):
                raise FileExistsError(errno.EEXIST, "already there", target)
            os.rename(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)
            return False

    def link_over(self, source: str, target: str) -> bool:
        """Give the file `source` the name `target` too, which another file loses, atomically; else as `link`."""
        with self._folder(source) as (fd, name):
            is_linked = syscalls.link(name, fd, f"{name}.tmp", fd)
        self.replace(f"{source}.tmp" if is_linked else source, target)
        return is_linked

    def replace(self, source: str, target: str) -> None:
        """Move `source` onto `target`, atomically; a link or a device is never replaced."""
        status = self.stat(target)
        if status is not None:
            syscalls.require_regular(status, target)
        with self._folder(source) as (from_fd, from_name), self._folder(target) as (to_fd, to_name):
            os.replace(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)

    def remove(self, path: str) -> None:
        """Remove a file; silent when it is gone."""
        try:
            with self._folder(path) as (fd, name):
                os.unlink(name, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return

    def remove_folder(self, path: str) -> bool:
        """Remove an empty folder; report whether it went."""
        try:
            with self._folder(path) as (fd, name):
                os.rmdir(name, dir_fd=fd)
        except OSError:
            return False
        return True

    def sync_folder(self, path: str) -> None:
        """Make the entries of a folder durable; `""` is the root. Windows has no such call and needs none."""
        if not syscalls.HAS_DIR_FD:
            return
        with self._folder(f"{path}/x" if path else "x") as (fd, _):
            if fd is not None:
                os.fsync(fd)

    def sync_all(self, paths: list[str], folders: list[str]) -> None:
        """Make many files and folders durable with one call where the system has syncfs, else one by one."""
        if syscalls.syncfs(self.root):
            return
        for path in paths:
            with self._folder(path) as (fd, name):
                handle = syscalls.open_file(name, os.O_RDWR | syscalls.FILE_FLAGS, fd, path)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        for folder in folders:
            self.sync_folder(folder)

    def stamp(self, path: str, time_ns: int) -> int:
        """Set a folder's times, so that any later change by others is seen; give the time that it now has."""
        with self._folder(path) as (fd, name):
            os.utime(name, ns=(time_ns, time_ns), dir_fd=fd)
            return os.stat(name, dir_fd=fd).st_mtime_ns
