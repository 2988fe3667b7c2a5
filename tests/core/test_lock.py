from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from cyberos.core.errors import UnsafePath, VaultLocked
from cyberos.core.lock import lock

HOLD = """
import sys
from cyberos.core.lock import lock
with lock(sys.argv[1], 0):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "lock")


@contextmanager
def holder(path):
    """Give a process that holds the lock until it is told to end."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        process.communicate()


def in_child(work) -> int:
    """Run `work` in a forked child; give its exit code: what `work` returns, or 99 for an error."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def is_free(path) -> bool:
    """Ask another process whether it could take the lock."""
    source = "import sys; from cyberos.core.lock import lock; lock(sys.argv[1], 0).__enter__()"
    return subprocess.run([sys.executable, "-c", source, path], stderr=subprocess.DEVNULL).returncode == 0


def test_a_held_lock_names_its_holder(path):
    with holder(path) as process, pytest.raises(VaultLocked) as caught, lock(path, 0):
        pass
    assert caught.value == VaultLocked(path, 0, f"pid {process.pid} (-c)")
    assert str(process.pid) in str(caught.value)
    assert "CYBEROS_LOCK_WAIT" in caught.value.hint


def test_whoever_waits_is_told_once_for_whom_and_gets_the_lock_when_it_is_free(path):
    told = []
    with holder(path) as process:

        def on_wait(who):
            told.append(who)
            process.stdin.close()

        with lock(path, 60, on_wait):
            assert not is_free(path)
        process.stdin = None
    assert told == [f"pid {process.pid} (-c)"]


def test_a_killed_holder_frees_the_lock(path):
    with holder(path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with lock(path, 0):
            assert Path(path).read_text(encoding="utf-8").startswith(f"{os.getpid()} ")


def test_a_stopped_holder_keeps_it(path):
    with holder(path) as process:
        os.kill(process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(VaultLocked, match=str(process.pid)), lock(path, 0):
                pass
        finally:
            os.kill(process.pid, signal.SIGCONT)


def test_a_lock_file_that_outlived_its_owner_stops_nobody(path):
    Path(path).write_text("1 an old process whose pid another has now")
    with lock(path, 0):
        assert Path(path).read_text().startswith(f"{os.getpid()} ")


def test_the_lock_is_free_again_after_an_error(path):
    with pytest.raises(ZeroDivisionError), lock(path, 0):
        raise ZeroDivisionError
    assert is_free(path)


def test_threads_of_one_process_exclude_each_other(path):
    inside, most = [], []

    def work():
        for _ in range(25):
            with lock(path, 60):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 200


def test_another_thread_that_may_not_wait_is_refused(path):
    caught = []

    def work():
        try:
            with lock(path, 0):
                pass
        except VaultLocked as error:
            caught.append(error)

    with lock(path, 0):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert caught == [VaultLocked(path, 0, f"another thread of pid {os.getpid()}")]


def test_a_thread_that_takes_it_twice_is_refused_and_not_stuck(path):
    with lock(path, 0), pytest.raises(VaultLocked, match=f"pid {os.getpid()}"), lock(path, 0):
        pass
    assert is_free(path)


def test_a_lock_whose_file_was_taken_away_does_not_count(path):
    """`git clean -fdx` while somebody writes: the next one must not lock the old inode, nor let a third one in."""
    with lock(path, 0):
        os.unlink(path)
        Path(path).touch()
        assert is_free(path)
    with lock(path, 0):
        assert not is_free(path)


def test_a_file_swapped_between_opening_and_locking_is_opened_again(path, monkeypatch):
    opened = []
    real = os.open

    def swap(name, *arguments, **options):
        handle = real(name, *arguments, **options)
        opened.append(name)
        if len(opened) == 1:
            os.unlink(path)
        return handle

    monkeypatch.setattr(os, "open", swap)
    with lock(path, 60):
        monkeypatch.undo()
        assert len(opened) == 2
        assert not is_free(path)


def test_a_child_forked_meanwhile_does_not_keep_the_lock(path):
    """A flock belongs to the open file, which a child shares until it ends."""
    ready, go = os.pipe(), os.pipe()
    with lock(path, 0):
        pid = os.fork()
        if pid == 0:
            os.close(go[1])
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            os._exit(0)
    assert os.read(ready[0], 1) == b"x"
    try:
        assert is_free(path)
    finally:
        os.write(go[1], b"x")
        os.waitpid(pid, 0)
        for end in (*ready, *go):
            os.close(end)


def test_a_child_does_not_wait_for_a_thread_that_only_its_parent_has(path):
    read, write = os.pipe()
    held = threading.Event()

    def work():
        with lock(path, 0):
            held.set()
            os.read(read, 1)

    def child():
        os.write(write, b"x")
        with lock(path, 60):
            return 0

    thread = threading.Thread(target=work)
    thread.start()
    held.wait()
    try:
        assert in_child(child) == 0
    finally:
        thread.join()
        os.close(read)
        os.close(write)


def test_a_child_that_leaves_its_parents_block_does_not_free_it(path):
    with lock(path, 0):
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            assert not is_free(path)
    if pid == 0:
        os._exit(0)


# --- a disk that is full, a file that was planted -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pwrite", "ftruncate", "open"])
def test_a_full_disk_is_said_and_the_lock_is_free_afterwards(name, path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, name, refuse)
    with pytest.raises(OSError, match="No space"), lock(path, 0):
        pass
    monkeypatch.undo()
    assert is_free(path)
    with lock(path, 0):
        pass


def test_a_lock_that_is_a_symbolic_link_is_refused_and_its_target_untouched(path, tmp_path):
    (tmp_path / "precious").write_text("precious")
    os.symlink(tmp_path / "precious", path)
    with pytest.raises(UnsafePath), lock(path, 0):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_lock_that_is_a_hard_link_is_refused_and_its_target_untouched(path, tmp_path):
    (tmp_path / "precious").write_text("precious")
    os.link(tmp_path / "precious", path)
    with pytest.raises(UnsafePath), lock(path, 0):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir])
def test_a_lock_that_is_no_file_is_refused(plant, path):
    plant(path)
    with pytest.raises((UnsafePath, OSError)), lock(path, 0):
        pass


def test_no_handle_is_left_open(path):
    before = len(os.listdir("/proc/self/fd"))
    with lock(path, 0):
        pass
    with holder(path), pytest.raises(VaultLocked), lock(path, 0):
        pass
    assert len(os.listdir("/proc/self/fd")) == before
