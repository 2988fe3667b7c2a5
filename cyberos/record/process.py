"""A command as a process: its output passed on byte for byte, its last lines kept, its end told apart.

    run(("pytest", "-q"))  -> Ended(code=1, how="exit code 1", duration_ms=1847, tail=b"...")

Each output goes through a channel of its own, so that its end can be kept: a pseudo-terminal where ours is a terminal
(the command sees one, of the same size), else a pipe; one channel for both where both of ours are the same file. At
most `TAIL` bytes of each are held. stdin is the command's own. Without a time limit the command shares our process
group, so a terminal's signals reach it by themselves; with one it leads a group of its own, which is what is killed.

Exit codes are those of a shell: 127 not found, 126 not startable, 128 + n for signal n, 124 for the time limit.

Source: DESIGN section 7; POSIX.1-2024 XCU 2.8.2 (exit status); timeout(1) of coreutils for 124.
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NOT_FOUND, NOT_STARTABLE, TIMED_OUT, SIGNALLED = 127, 126, 124, 128
TAIL = 16 * 1024  # bytes kept of the end of each output
GRACE_S = 5.0  # between asking a command that ran out of time to end, and ending it
_DRAIN_S = 0.25  # how long an output may be silent after its command has ended, when a child of it holds it open
_CHUNK = 64 * 1024
# what somebody stops a command with, as opposed to what it dies of
_PASSED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))


class Ended(NamedTuple):
    """How a command ended. `tail` is the end of its output, of stdout before stderr where they were two.

    `is_interrupted`: somebody stopped it, so that its end says nothing of how it would have gone.
    """

    code: int
    how: str
    duration_ms: int
    tail: bytes = b""
    is_interrupted: bool = False


def run(command: Sequence[str], timeout_s: float | None = None) -> Ended:
    """Run a command to its end on our own stdin, stdout and stderr. Never raises for what the command does."""
    begin = time.monotonic_ns()
    with ExitStack() as stack:
        channels = _channels(stack)
        try:
            child = subprocess.Popen(
                list(command), stdout=channels[0].inlet, stderr=channels[-1].inlet, **_group(timeout_s)
            )
        except (OSError, ValueError) as error:
            return _not_started(command[0], error, (time.monotonic_ns() - begin) // 1_000_000)
        with _passing_signals(child, has_group=timeout_s is not None), _in_foreground(child, timeout_s):
            for channel in channels:
                channel.start()
            is_late = _wait(child, timeout_s)
            duration_ms = (time.monotonic_ns() - begin) // 1_000_000
            for channel in channels:
                channel.finish()
    tail = b"\n".join(bytes(each.tail) for each in channels)
    if is_late:
        return Ended(TIMED_OUT, f"timed out after {timeout_s:g} s", duration_ms, tail)
    return _told(child.returncode)._replace(duration_ms=duration_ms, tail=tail)


def _told(returncode: int) -> Ended:
    """Say how a command ended by itself; a negative code is that of the signal that killed it."""
    number = -returncode
    if number <= 0:
        return Ended(returncode, f"exit code {returncode}", 0, is_interrupted=returncode == SIGNALLED + signal.SIGINT)
    try:
        name = signal.Signals(number).name
    except ValueError:  # the real-time ones have no names
        name = f"signal {number}"
    return Ended(SIGNALLED + number, f"killed by {name}", 0, is_interrupted=number in _PASSED)


def _group(timeout_s: float | None) -> dict[str, Any]:
    return {} if timeout_s is None or sys.platform == "win32" else {"process_group": 0}


def _wait(child: subprocess.Popen[bytes], timeout_s: float | None) -> bool:
    """Wait for the end; report whether it had to be brought about."""
    with suppress(subprocess.TimeoutExpired):
        child.wait(timeout_s)
        return False
    _send(child, signal.SIGTERM, has_group=True)
    _send(child, getattr(signal, "SIGCONT", signal.SIGTERM), has_group=True)  # one that is stopped hears nothing else
    with suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_S)
    # whoever of its children did not heed the first signal; the group outlives its leader
    _send(child, getattr(signal, "SIGKILL", signal.SIGTERM), has_group=True)
    child.wait()
    return True


def _send(child: subprocess.Popen[bytes], number: int, *, has_group: bool) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if has_group and hasattr(os, "killpg"):
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)


def _not_started(name: str, error: OSError | ValueError, duration_ms: int) -> Ended:
    reason = getattr(error, "strerror", None) or str(error)
    if not isinstance(error, FileNotFoundError):
        return Ended(NOT_STARTABLE, f"could not start: {name}: {reason}", duration_ms)
    if shutil.which(name) is None:
        return Ended(NOT_FOUND, f"could not start: {name}: command not found", duration_ms)
    return Ended(
        NOT_STARTABLE, f"could not start: {name}: its interpreter, or the current folder, is gone", duration_ms
    )


@contextmanager
def _passing_signals(child: subprocess.Popen[bytes], *, has_group: bool) -> Iterator[None]:
    """Hand on the signals that are sent to us; those that were ignored from the start stay so."""

    def hand_on(number: int, _: object) -> None:
        if has_group or number == signal.SIGTERM or not _is_foreground():
            _send(child, number, has_group=has_group)  # else the terminal has told the command itself

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _PASSED}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, hand_on)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_foreground() -> bool:
    """Report whether a terminal sends its signals to our process group."""
    with suppress(OSError, AttributeError):
        handle = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(handle) == os.getpgrp()
        finally:
            os.close(handle)
    return False


@contextmanager
def _in_foreground(child: subprocess.Popen[bytes], timeout_s: float | None) -> Iterator[None]:
    """Lend the terminal to a command that leads a group of its own, so that it may read and be interrupted there."""
    if timeout_s is None or not _is_foreground():
        yield
        return
    terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with suppress(OSError):
            os.tcsetpgrp(terminal, child.pid)
            os.killpg(child.pid, signal.SIGCONT)  # it may have asked too early, and been stopped for it
        yield
    finally:
        with suppress(OSError):
            os.tcsetpgrp(terminal, os.getpgrp())
        signal.signal(signal.SIGTTOU, before)
        os.close(terminal)


class Channel:
    """One way out of the command: `inlet` is its end, `target` our file descriptor."""

    def __init__(self, outlet: int, inlet: int, target: int) -> None:
        self.inlet = inlet
        self.tail = bytearray()
        self._outlet = outlet
        self._target = target
        self._moved = 0
        self._thread = threading.Thread(target=self._pump, daemon=True)

    def start(self) -> None:
        """Begin to pass on; call when the command has its own copy of the inlet."""
        os.close(self.inlet)
        self.inlet = -1
        self._thread.start()

    def finish(self) -> None:
        """Wait until all is passed on, or until a child that outlives the command holds the channel in silence."""
        moved = -1
        while self._thread.is_alive() and moved != self._moved:
            moved = self._moved
            self._thread.join(_DRAIN_S)

    def close(self) -> None:
        for handle in (self.inlet, self._outlet if not self._thread.is_alive() else -1):
            if handle >= 0:
                os.close(handle)

    def _pump(self) -> None:
        while blob := self._read():
            self._moved += len(blob)
            self.tail += blob
            del self.tail[:-TAIL]
            if not _write(self._target, blob):
                # our reader has gone: let the command learn it as it would have without us
                os.close(self._outlet)
                self._outlet = -1
                return

    def _read(self) -> bytes:
        try:
            return os.read(self._outlet, _CHUNK)
        except OSError:  # a pseudo-terminal ends so on Linux
            return b""


def _write(handle: int, blob: bytes) -> bool:
    rest = memoryview(blob)
    while rest:
        try:
            rest = rest[os.write(handle, rest) :]
        except BlockingIOError:
            select.select([], [handle], [])
        except OSError as error:
            if error.errno != errno.EINTR:
                return False
    return True


def _channels(stack: ExitStack) -> list[Channel]:
    """Open one channel for stdout and one for stderr, or one for both."""
    places = [_place(target) for target in (1, 2)]
    made = []
    for target in (1,) if places[0] == places[1] else (1, 2):
        outlet, inlet = _pair(target, stack)
        made.append(Channel(outlet, inlet, target))
        stack.callback(made[-1].close)
    return made


def _place(target: int) -> tuple[int, ...]:
    try:
        found = os.fstat(target)
    except OSError:
        return (-target,)
    return found.st_dev, found.st_ino


def _pair(target: int, stack: ExitStack) -> tuple[int, int]:
    if not (os.isatty(target) and hasattr(os, "openpty")):
        return os.pipe()
    import tty

    outlet, inlet = os.openpty()
    tty.setraw(inlet)  # what it writes reaches us as it is; our own terminal does the rest
    stack.enter_context(_same_size(target, outlet))
    return outlet, inlet


@contextmanager
def _same_size(target: int, outlet: int) -> Iterator[None]:
    """Keep a pseudo-terminal as large as ours."""
    import fcntl
    import termios

    def copy(*_: object) -> None:
        with suppress(OSError):
            fcntl.ioctl(outlet, termios.TIOCSWINSZ, fcntl.ioctl(target, termios.TIOCGWINSZ, b"\0" * 8))

    copy()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Callable[..., Any] | int | None = signal.signal(signal.SIGWINCH, copy)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
