"""A piece of work shared with a second process.

The second process is a fork: it has all that this one has, and its answer comes back pickled through a pipe. There is
none where a fork is not safe (threads, another system than Linux) or has no core to run on. What each of the two takes
stands in memory that both see, one byte a folder:

    claims("memories/episodes/d4") -> True, and False whenever either asks again

Two that ask in the same instant may both be told True: then both do it, and come to the same.

Source: fork(2), mmap(2).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TypeVar

from cyberos.core import layout, segments

if TYPE_CHECKING:
    from collections.abc import Callable

_Answer = TypeVar("_Answer")
_PROTOCOL = 5
_SHARDS = 256
_LARGE = 2 << 20  # bytes of the ledger: some 2,500 episodes


def is_large(root: str) -> bool:
    """Report whether a second process pays: the ledger's size tells how many files there are."""
    size = 0
    try:
        for path in segments.iter_paths(root):
            size += os.lstat(os.path.join(root, path)).st_size
            if size > _LARGE:
                return True
    except OSError:  # whoever reads it tells
        pass
    return False


class Claims:
    """Which folders `memories/<kind>/<hh>` either process has taken."""

    def __init__(self) -> None:
        from mmap import mmap

        self._taken = mmap(-1, len(layout.FOLDERS) * _SHARDS)

    def __call__(self, path: str) -> bool:
        """Take a folder; report whether it was free. One of another form is everybody's."""
        _, kind, shard = path.split("/")
        if kind not in layout.FOLDERS or not layout.is_shard(shard):
            return True
        place = layout.FOLDERS.index(kind) * _SHARDS + int(shard, 16)
        is_free = not self._taken[place]
        self._taken[place] = 1
        return is_free


def begin(work: Callable[[], _Answer]) -> Callable[[], _Answer | None] | None:
    """Begin `work`; give what waits for its answer, which is None when it failed. None where no fork is to be had."""
    if not _can_fork():
        return None
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(work, writing)
    os.close(writing)
    return lambda: _wait(child, reading)


def _answer(work: Callable[[], object], writing: int) -> NoReturn:
    import pickle

    status = 1
    try:
        with open(writing, "wb") as pipe:
            pickle.dump(work(), pipe, _PROTOCOL)
        status = 0
    finally:
        os._exit(status)  # nothing that this process inherited is its own to end


def _wait(child: int, reading: int) -> _Answer | None:
    import pickle

    answer = None
    with open(reading, "rb") as pipe, suppress(EOFError, pickle.UnpicklingError):  # how it ended tells
        answer = pickle.load(pipe)  # noqa: S301 - written by this program itself
    _, status = os.waitpid(child, 0)
    return None if status else answer


def _can_fork() -> bool:
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) == 1:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False
