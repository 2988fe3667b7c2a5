"""Real system calls that fail: strace makes the n-th one of a real `cyberos` process die, fail or be interrupted.

Which calls touch the vault is taken from a first, undisturbed run; the n-th of them is then hit in a fresh vault. A
fault that stays hits every later call of that name too. strace cannot cut a write short and let the rest go on, so a
short write is made in two other ways: the kernel's own limit on a file's size (a real short write, then EFBIG), and
`os.write` given half of its bytes.
"""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import crashes
from cyberos.core.episode import log
from cyberos.core.errors import WriteFailed
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from cyberos.doctor.examination import examine
from faults import copy
from prove.table import Skipped, folder, promise, share
from support import check, episode, hashes

POINTS, SHORT = 300, 100
CALLS = "openat,write,fsync,ftruncate,mkdirat,linkat,renameat,unlinkat,utimensat,syncfs"
FAULTS = ("KILL", "EIO", "ENOSPC", "EINTR", "EROFS")
STAYING = ("fsync", "mkdirat", "linkat", "renameat", "unlinkat", "ftruncate")  # not what Python itself needs to speak
SAID = {
    "EIO": "Input/output error",
    "ENOSPC": "No space left on device",
    "EINTR": "Interrupted system call",
    "EROFS": "Read-only file system",
}
EPISODE = ("--approach", "a", "--outcome", "success", "--duration-ms", "1")
WORKS = {
    "log": ("episode", "log", "--task", "under a fault", *EPISODE),
    "import": ("episode", "log", "--from-json", "-"),
    "forget": ("forget", crashes.EPISODE, "--reason", "r"),
    "run": ("run", "--task", "under a fault", "--", "true"),
}
ROW = b'{"task": "under a fault", "approach": "a", "outcome": "success", "duration_ms": 1}\n'


class Ended(NamedTuple):
    code: int
    said: str
    told: str
    trace: list[str]


def traced(name: str, root: Path, trace: Path, *options: str) -> Ended:
    """Run a verb on the vault under strace; give how it ended, what it said and told, and its calls."""
    command = ["strace", "-qq", "-y", "-o", str(trace), "-e", f"trace={CALLS}", *options]
    command += [sys.executable, "-m", "cyberos", "--store", str(root), *WORKS[name]]
    source = str(Path(__file__).parents[2])
    env = os.environ | {"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, input=ROW * 3, env=env, cwd=root.parent)
    lines = trace.read_text(errors="replace").splitlines()
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode(), lines)


def in_vault(root: Path, trace: list[str]) -> list[tuple[str, int]]:
    """Give each call that touches the vault: its name, and the how-manieth of that name it was."""
    counts: dict[str, int] = {}
    found = []
    for line in trace:
        name = line.split("(")[0]
        counts[name] = counts.get(name, 0) + 1
        if str(root) in line:
            found.append((name, counts[name]))
    return found


def judge(name: str, root: Path, before: list[str], ended: Ended, fault: str) -> None:
    """Insist on a clear end, on the truth of what it told, and on a whole vault."""
    is_killed = ended.code in {-signal.SIGKILL, 128 + signal.SIGKILL}
    assert is_killed if fault == "KILL" else ended.code in {0, 1}, f"exit {ended.code}: {ended.told}"
    assert "Traceback" not in ended.told, ended.told
    unlogged = frozenset({crashes.HAND[0]})
    check(root, is_settled=False, unlogged=unlogged)
    if ended.code == 1:
        assert re.match(r"cyberos: .+\n  hint: ", ended.told) or "not logged" in ended.told, ended.told
        assert SAID[fault] in ended.told, ended.told
    is_refused = "nothing was logged" in ended.told
    log(Writer(root), episode("the next write"))
    found = check(root, heads=1, unlogged=unlogged)
    came = len(set(hashes(root)) - set(before)) - 2
    assert came in {0, 1, 2, 6}, "half a transaction"
    assert not (is_refused and came), "it said that nothing was logged"
    if ended.code == 0 and "not logged" not in ended.told and not is_killed:
        assert came > 0, "acknowledged and lost"
    if name == "forget" and ended.code == 0:
        assert found.memories[crashes.EPISODE].is_forgotten
    (root / crashes.HAND[0]).unlink()
    findings = [one for one in examine(root).findings if one.severity != "info"]
    assert findings == [], findings


def template(place: Path) -> Path:
    root = init(place / "template").root
    crashes.prepare(root)
    log(Writer(root), episode("one more"))
    return root


def has_strace() -> bool:
    """Report whether strace is here and may trace."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True).returncode == 0


@promise(
    "a system call that dies, fails (EIO, ENOSPC, EROFS) or is interrupted: a clear error that is true, a whole vault"
)
def injected(scale: float) -> tuple[str, bool]:
    if not has_strace():
        raise Skipped("strace is not here, or may not trace: no fault was put into a real system call")
    chosen, bad, hits, refused = random.Random(10), [], 0, 0
    points = share(POINTS, scale)
    with folder() as place:
        made, trace, root = template(place), place / "trace", place / "copy"
        before = hashes(made)
        calls = {name: in_vault(root, traced(name, copy(made, root), trace).trace) for name in WORKS}
        for name, fault, _ in zip(cycle(WORKS), _turns(FAULTS, len(WORKS)), range(points), strict=False):
            call, number = chosen.choice(calls[name])
            stays = "+" if fault in {"EIO", "ENOSPC", "EROFS"} and call in STAYING and chosen.random() < 0.5 else ""
            what = "signal=KILL" if fault == "KILL" else f"error={fault}"
            ended = traced(name, copy(made, root), trace, "-e", f"inject={call}:{what}:when={number}{stays}")
            hits += any("(INJECTED)" in line or "killed by SIGKILL" in line for line in ended.trace)
            refused += ended.code == 1
            try:
                judge(name, root, before, ended, fault)
            except AssertionError as error:
                bad.append(f"{name}, {fault} at {call} {number}{stays}: {error}")
    figure = f"{points} points, {hits} hit, {refused} refused: {len(bad)} bad"
    return figure + "".join(f"; {one}" for one in bad[:4]), not bad and hits > points * 0.9


def _turns(faults, each):
    """Give each fault `each` times in turn, for ever, so that every work meets every fault."""
    for fault in cycle(faults):
        yield from [fault] * each


@promise("a write that the kernel cuts short is finished, or refused with a clear error and nothing half there")
def short_writes(scale: float) -> tuple[str, bool]:
    points, chosen, bad, refused = share(SHORT, scale), random.Random(11), [], 0
    real = os.write
    with folder() as place:
        made, root = template(place), place / "copy"
        segment = max(made.glob("audit/*/*/*.jsonl"), key=os.path.getmtime).stat().st_size
        for number in range(points):
            writer = Writer(copy(made, root))
            before = hashes(root)
            try:
                if number % 2:
                    halved = lambda fd, blob: real(fd, bytes(blob)[: max(1, len(blob) // 2)])  # noqa: E731
                    with mock.patch.object(os, "write", halved):
                        log(writer, episode(f"halved {number}"))
                else:
                    refused += limited(writer, chosen.randrange(1, segment + 900))
                check(root, is_settled=False, unlogged={crashes.HAND[0]})
                log(Writer(root), episode("the next write"))
                check(root, heads=1, unlogged={crashes.HAND[0]})
                assert len(hashes(root)) - len(before) in ({4} if number % 2 else {2, 4})
            except AssertionError as error:
                bad.append(str(error))
    figure = f"{points} points, {refused} refused by the kernel: {len(bad)} bad"
    return figure + "".join(f"; {one}" for one in bad[:3]), not bad


def limited(writer: Writer, size: int) -> bool:
    """Log with files limited to so many bytes; report whether it was refused, clearly."""
    before, limits = len(hashes(writer.path)), resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        log(writer, episode("limited"))
    except WriteFailed as error:
        told = str(error)
    else:
        return False
    finally:
        with suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "File too large; nothing was logged" in told, told
    assert len(hashes(writer.path)) == before
    return True
