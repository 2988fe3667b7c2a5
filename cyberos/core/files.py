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
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cyberos.core.errors import UnsafePath

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HAS_DIR_FD = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# a FIFO or a device must not block the open that finds out what it is
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _FILE_FLAGS
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL)


class Files:
    """Writes below one root. All paths are POSIX text relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)

    @contextmanager
    def _folder(self, path: str) -> Iterator[tuple[int | None, str]]:
        """Open the folder that holds `path`; give its descriptor (or None) and the name to use with it."""
        parts = _split(path)
        if not _HAS_DIR_FD:
            yield None, self._checked(parts)
            return
        fd = os.open(self.root, _FOLDER_FLAGS & ~getattr(os, "O_NOFOLLOW", 0))
        try:
            for part in parts[:-1]:
                fd, old = _descend(fd, part, path), fd
                os.close(old)
            yield fd, parts[-1]
        finally:
            os.close(fd)

    def _checked(self, parts: list[str]) -> str:
        current = self.root
        for part in parts[:-1]:
            current = os.path.join(current, part)
            if not stat.S_ISDIR(os.lstat(current).st_mode):
                raise UnsafePath("/".join(parts), f"{part!r} is not a folder")
        return os.path.join(current, parts[-1])

    def make_folder(self, path: str) -> list[str]:
        """Make a folder and its parents; give the folders in which a new entry appeared, outermost first."""
        changed = []
        parts = _split(path)
        for depth in range(1, len(parts) + 1):
            current = "/".join(parts[:depth])
            with self._folder(current) as (fd, name):
                try:
                    os.mkdir(name, dir_fd=fd)
                    changed.append("/".join(parts[: depth - 1]))
                except FileExistsError:
                    continue
        return changed

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Read a regular file, at most `limit` bytes. Raises: OSError, UnsafePath for what is no regular file."""
        with self._folder(path) as (fd, name):
            handle = _open(name, _READ_FLAGS, fd, path)
            try:
                _require_regular(os.fstat(handle), path)
                return _read_all(handle, limit)
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
            handle = _open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS, fd, path)
            try:
                _write_all(handle, blob)
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
        flags = os.O_WRONLY | os.O_APPEND | _FILE_FLAGS | (os.O_CREAT | os.O_EXCL if size == 0 else 0)
        with self._folder(path) as (fd, name):
            handle = _open(name, flags, fd, path)
            try:
                status = os.fstat(handle)
                _require_regular(status, path)
                _require_own(status, path)
                if status.st_size != size:
                    raise UnsafePath(path, f"holds {status.st_size} bytes where {size} were expected")
                try:
                    _write_all(handle, blob)
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
        """Cut a file to `size` bytes and sync it."""
        with self._folder(path) as (fd, name):
            handle = _open(name, os.O_WRONLY | _FILE_FLAGS, fd, path)
            try:
                os.ftruncate(handle, size)
                os.fsync(handle)
            finally:
                os.close(handle)

    def overwrite(self, path: str, blob: bytes) -> None:
        """Replace a derived or settings file through a temporary one beside it, atomically, unsynced."""
        with self._folder(path) as (fd, name):
            temporary = f"{name}.{os.getpid()}.tmp"
            handle = _open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FILE_FLAGS, fd, path)
            try:
                _write_all(handle, blob)
            finally:
                os.close(handle)
            os.replace(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)

    def link(self, source: str, target: str) -> bool:
        """Give the file `source` the second name `target`. Raises: FileExistsError.

        Where the file system has no hard links, `source` is moved instead and False is returned.
        """
        with self._folder(source) as (from_fd, from_name), self._folder(target) as (to_fd, to_name):
            try:
                os.link(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
            else:
                return True
            if _exists(to_name, to_fd):
                raise FileExistsError(errno.EEXIST, "already there", target)
            os.rename(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)
            return False

    def replace(self, source: str, target: str) -> None:
        """Move `source` onto `target`, atomically; a link or a device is never replaced."""
        status = self.stat(target)
        if status is not None:
            _require_regular(status, target)
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
        if not _HAS_DIR_FD:
            return
        with self._folder(f"{path}/x" if path else "x") as (fd, _):
            if fd is not None:
                os.fsync(fd)

    def sync_all(self, paths: list[str], folders: list[str]) -> None:
        """Make many files and folders durable with one call where the system has syncfs, else one by one."""
        if _syncfs(self.root):
            return
        for path in paths:
            with self._folder(path) as (fd, name):
                handle = _open(name, os.O_RDWR | _FILE_FLAGS, fd, path)
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


def _split(path: str) -> list[str]:
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or "\x00" in path or any(part in ("", ".", "..") for part in parts):
        raise UnsafePath(path, "a path is relative to the vault and has no empty, `.` or `..` part")
    return parts


def _descend(fd: int, part: str, path: str) -> int:
    try:
        return os.open(part, _FOLDER_FLAGS, dir_fd=fd)
    except OSError as error:
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _exists(part, fd)):
            raise UnsafePath(path, f"{part!r} is a symbolic link or no folder") from None
        raise


def _exists(name: str, fd: int | None) -> bool:
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _open(name: str, flags: int, fd: int | None, path: str) -> int:
    try:
        return os.open(name, flags, 0o666, dir_fd=fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafePath(path, "is a symbolic link") from None
        raise


def _require_regular(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnsafePath(path, "is no regular file")


def _require_own(status: os.stat_result, path: str) -> None:
    if status.st_nlink > 1:
        raise UnsafePath(path, "has a second name (a hard link)")


def _write_all(handle: int, blob: bytes) -> None:
    view = memoryview(blob)
    while view:
        view = view[os.write(handle, view) :]


def _read_all(handle: int, limit: int | None) -> bytes:
    size = os.fstat(handle).st_size + 1 if limit is None else limit
    chunks = []
    while size > 0 and (chunk := os.read(handle, size)):
        chunks.append(chunk)
        size = size if limit is None else size - len(chunk)
    return b"".join(chunks)


def _syncfs(root: str) -> bool:
    """Sync the file system that holds `root`; report whether there was such a call and it went well."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return False
    fd = os.open(root, _FOLDER_FLAGS)
    try:
        return bool(call(fd) == 0)
    finally:
        os.close(fd)
