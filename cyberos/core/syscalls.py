"""The system calls under `files`: walking without following links, whole writes, syncs.

Source: POSIX.1-2017 openat(2), fsync(2); Linux syncfs(2).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress

from cyberos.core.errors import UnsafePath

HAS_DIR_FD = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
FILE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# a FIFO or a device must not block the open that finds out what it is
READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | FILE_FLAGS
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL)


def split(path: str) -> list[str]:
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or "\x00" in path or any(part in ("", ".", "..") for part in parts):
        raise UnsafePath(path, "a path is relative to the vault and has no empty, `.` or `..` part")
    return parts


def descend(fd: int, parts: list[str], number: int, made: list[str] | None) -> int:
    part = parts[number]
    try:
        return os.open(part, FOLDER_FLAGS, dir_fd=fd)
    except FileNotFoundError:
        if made is None:
            raise
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=fd)
            made.append("/".join(parts[:number]))
        return os.open(part, FOLDER_FLAGS, dir_fd=fd)
    except OSError as error:
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and exists(part, fd)):
            raise UnsafePath("/".join(parts), f"{part!r} is a symbolic link or no folder") from None
        raise


def exists(name: str, fd: int | None) -> bool:
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def open_file(name: str, flags: int, fd: int | None, path: str) -> int:
    try:
        return os.open(name, flags, 0o666, dir_fd=fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafePath(path, "is a symbolic link") from None
        raise


def link(source: str, source_fd: int | None, target: str, target_fd: int | None) -> bool:
    """Make a hard link, following none; report False where the file system has no hard links."""
    follow = not HAS_DIR_FD  # Windows has no choice
    try:
        os.link(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=follow)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        return False
    return True


def require_regular(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnsafePath(path, "is no regular file")


def require_own(status: os.stat_result, path: str) -> None:
    if status.st_nlink > 1:
        raise UnsafePath(path, "has a second name (a hard link)")


def write_all(handle: int, blob: bytes) -> None:
    view = memoryview(blob)
    while view:
        view = view[os.write(handle, view) :]


def read_all(handle: int, limit: int | None) -> bytes:
    size = os.fstat(handle).st_size + 1 if limit is None else limit
    chunks = []
    while size > 0 and (chunk := os.read(handle, size)):
        chunks.append(chunk)
        size = size if limit is None else size - len(chunk)
    return b"".join(chunks)


def syncfs(root: str) -> bool:
    """Sync the file system that holds `root`; report whether there was such a call and it went well."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return False
    fd = os.open(root, FOLDER_FLAGS & ~os.O_NOFOLLOW)  # the root itself may be reached through a link
    try:
        return bool(call(fd) == 0)
    finally:
        os.close(fd)
