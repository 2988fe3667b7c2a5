"""Faults on purpose: the n-th call that changes the disk fails, or never returns because the process is killed there.

Every change goes through a function of `os` (or syncfs), looked up when it is called, so wrapping those is enough.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cyberos.core import state, syscalls
from cyberos.core.files import Files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GROWING = ("open", "write", "pwrite", "fsync", "mkdir", "link", "rename", "replace")
OTHERS = ("unlink", "rmdir", "ftruncate", "utime")


def copy(template: Path, target: Path) -> Path:
    """Copy a vault with its times and its hard links, so that what is cached of it stays true."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", str(template), str(target)], check=True)
    assert (state.load(Files(target)) is None) == (state.load(Files(template)) is None)
    return target


@contextmanager
def watched(names: tuple[str, ...], before: Callable[[str, tuple], None]) -> Iterator[None]:
    """Call `before(name, arguments)` ahead of every call of these functions that can change the disk."""
    real = {name: getattr(os, name) for name in names}
    real_syncfs = syscalls.syncfs

    def wrap(name):
        def call(*arguments, **options):
            if name != "open" or arguments[1] & os.O_CREAT:
                before(name, arguments)
            return real[name](*arguments, **options)

        return call

    def syncfs(root):
        before("syncfs", (root,))
        return real_syncfs(root)

    for name in names:
        setattr(os, name, wrap(name))
    syscalls.syncfs = syncfs
    try:
        yield
    finally:
        for name in names:
            setattr(os, name, real[name])
        syscalls.syncfs = real_syncfs


class Full:
    """A disk on which the n-th call fails, and with `stays` every later one; `hits` counts the failures."""

    def __init__(self, number: int, *, stays: bool, code: int = errno.ENOSPC) -> None:
        self.number, self.stays, self.code = number, stays, code
        self.calls = self.hits = 0

    def __call__(self, name: str, arguments: tuple) -> None:
        self.calls += 1
        if self.calls == self.number or (self.stays and self.calls > self.number):
            self.hits += 1
            raise OSError(self.code, os.strerror(self.code))


def calls_of(work: Callable[[Callable[[str], None]], None]) -> list[str]:
    """Run `work(say)`; name the calls that change the disk, in order."""
    names: list[str] = []
    with watched(GROWING + OTHERS, lambda name, _: names.append(name)):
        work(lambda _: None)
    return names


@contextmanager
def dying_at(number: int, cut: Callable[[bytes], int] | None) -> Iterator[None]:
    """Kill this process ahead of its n-th call that changes the disk, or, that being a write, after `cut(blob)` bytes."""
    real_write, calls = os.write, 0

    def before(name, arguments):
        nonlocal calls
        calls += 1
        if calls == number:
            if cut is not None:
                real_write(arguments[0], bytes(arguments[1])[: cut(bytes(arguments[1]))])
            os.kill(os.getpid(), signal.SIGKILL)

    with watched(GROWING + OTHERS, before):
        yield


def killed_at(
    work: Callable[[Callable[[str], None]], None], number: int, cut: Callable[[bytes], int] | None
) -> tuple[bool, list[str]]:
    """Run `work(say)` in a forked child that dies at a call (`dying_at`).

    Gives whether the child came so far, and what it had said.
    """
    read, write = os.pipe()
    real_write = os.write
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the runner's own threads do not matter to the child
        pid = os.fork()
    if pid == 0:
        code = 99
        try:
            with dying_at(number, cut):
                work(lambda text: real_write(write, f"{text}\n".encode()))
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read().splitlines()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), "the child failed by itself"
    return code != 0, said
