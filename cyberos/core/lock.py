"""The lock of a vault: one `flock` on `.cyberos/lock`, freed by the kernel when its holder dies.

The file holds `<pid> <command>` for the message alone; no decision is taken from it, since a pid outlives its owner.
After locking, the path must still name the locked inode: whoever cleaned the folder meanwhile made another lock.

Source: DESIGN section 4; flock(2); msvcrt.locking on Windows.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cyberos.core.errors import UnsafePath, VaultLocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLL_S = 0.02
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_threads: dict[str, threading.RLock] = {}
_guard = threading.Lock()

if sys.platform == "win32":
    import msvcrt

    def _try(handle: int) -> bool:
        os.lseek(handle, 1 << 20, os.SEEK_SET)  # lock a byte beyond the text, so that others may read the holder
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _free(handle: int) -> None:
        os.lseek(handle, 1 << 20, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _free(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


def _forget_threads() -> None:
    global _guard  # noqa: PLW0603 - a forked child has none of the threads that may hold these
    _guard = threading.Lock()
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


@contextmanager
def lock(path: str, wait_s: float, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock file at the absolute `path`; its folder must exist.

    Threads of one process queue in a lock of their own first; a thread may not take it twice. `on_wait` is called
    once, with the holder, when it has to wait. Raises: VaultLocked after `wait_s` seconds.
    """
    deadline = time.monotonic() + wait_s
    pid = os.getpid()
    with _guard:
        mine = _threads.setdefault(path, threading.RLock())
    if not mine.acquire(timeout=max(wait_s, 0)):
        raise VaultLocked(path, wait_s, f"another thread of pid {pid}")
    try:
        handle = _acquire(path, deadline, wait_s, on_wait)
        try:
            yield
        finally:
            if pid == os.getpid():
                _free(handle)  # a child forked meanwhile shares the lock, and would keep it
            os.close(handle)
    finally:
        mine.release()


def _acquire(path: str, deadline: float, wait_s: float, on_wait: Callable[[str], None] | None) -> int:
    while True:
        handle = _open(path)
        is_mine = False
        try:
            if _try(handle) and _names(path, handle):
                _sign(handle)
                is_mine = True
                return handle
            holder = _read_holder(handle)
        finally:
            if not is_mine:
                os.close(handle)
        if time.monotonic() >= deadline:
            raise VaultLocked(path, wait_s, holder)
        if on_wait is not None:
            on_wait(holder)
            on_wait = None
        time.sleep(_POLL_S)


def _open(path: str) -> int:
    try:
        return os.open(path, _FLAGS, 0o666)
    except OSError as error:
        if os.path.islink(path):
            raise UnsafePath(path, "the lock is a symbolic link") from error
        raise


def _names(path: str, handle: int) -> bool:
    """Report whether the path names the locked file. Raises: UnsafePath for what is no file of its own."""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise UnsafePath(path, "the lock is no file, or has a second name (a hard link)")
    try:
        return os.path.samestat(os.stat(path), status)
    except FileNotFoundError:
        return False


def _sign(handle: int) -> None:
    # the verb at most: what follows may be a task, and a task may hold a credential
    verb = [word for word in sys.argv[1:2] if word.replace("-", "a").isalpha()]
    command = " ".join([os.path.basename(sys.argv[0] or "python"), *verb])
    text = f"{os.getpid()} {command}"[:200].encode("utf-8", "replace")
    os.ftruncate(handle, 0)
    os.pwrite(handle, text, 0) if hasattr(os, "pwrite") else os.write(handle, text)


def _read_holder(handle: int) -> str:
    os.lseek(handle, 0, os.SEEK_SET)
    pid, _, command = os.read(handle, 200).decode("utf-8", "replace").partition(" ")
    return f"pid {pid} ({command.strip()})" if pid else "an unknown process"
