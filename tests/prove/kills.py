"""kill -9 ahead of, or inside, a random call that changes the disk, in everything that writes.

By fork the interpreter is warm, so a point costs what the verdict on the vault costs; by exec it is a process of its
own from its first line on. A torn write is cut at a random byte. What a process had printed before it died counts.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from itertools import cycle
from pathlib import Path
from unittest import mock

import crashes
from cyberos.cli import episode as importing
from cyberos.cli import main as command_line
from cyberos.core import commit, layout, ledger, recovery
from cyberos.core.episode import log
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from cyberos.doctor.examination import examine
from faults import calls_of, copy, dying_at, killed_at
from prove.table import folder, promise, share
from support import check, episode, git, write_raw

FORKED, EXECED, BLIND, IMPORTED = 10_000, 300, 400, 7
OLD = "2020-01-01T00:00:00Z"


class Saying(io.TextIOBase):
    """A stream that says every whole line at once, as a pipe to somebody who reads would."""

    def __init__(self, say) -> None:
        self.say, self.line = say, ""

    def write(self, text: str) -> int:
        self.line += text
        *whole, self.line = self.line.split("\n")
        for line in whole:
            self.say(line)
        return len(text)


def cyberos(writer, say, *arguments):
    with redirect_stdout(Saying(say)), redirect_stderr(Saying(say)):
        assert command_line.main(["--store", str(writer.path), *arguments]) == 0


# --- what the command line does ---------------------------------------------------------------------------------------


def run(writer, say):
    cyberos(writer, say, "run", "--task", "run it", "--", "true")


def import_many(writer, say):
    source = writer.path / "many.jsonl"
    cyberos(writer, say, "episode", "log", "--from-json", str(source))


def with_source(root):
    crashes.prepare(root)
    rows = [episode(f"imported {number}").frontmatter() for number in range(IMPORTED)]
    (root / "many.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def retain(writer, say):
    cyberos(writer, say, "retain", "--older-than", "52w", "--yes")


def with_old(root):
    crashes.prepare(root)
    for number in range(3):
        log(Writer(root), episode(f"old {number}", occurred_at=OLD))


def doctor_fix(writer, say):
    with redirect_stdout(Saying(say)), redirect_stderr(Saying(say)):
        command_line.main(["--store", str(writer.path), "doctor", "--fix"])


def with_damage(root):
    """Leave what `--fix` mends: a torn tail, a body that waits for its place, a respelled file, a stale HEAD."""
    crashes.prepare(root)
    os.unlink(root / log(Writer(root), episode("waits")))
    place = log(Writer(root), episode("respelled"))
    (root / ".cyberos" / "HEAD").write_text("{}")
    blob = (root / place).read_bytes().replace(b"\n", b"\r\n")
    os.unlink(root / place)
    write_raw(root / place, blob)
    segment = max(root.glob("audit/*/*/*.jsonl"), key=os.path.getmtime)
    with segment.open("ab") as handle:
        handle.write(segment.read_bytes().split(b"\n")[0][:40])


def forget(writer, say):
    cyberos(writer, say, "forget", crashes.EPISODE, "--reason", "r")


def rollover(writer, say):
    """Log until segments have been sealed for their size and by git."""
    for number in range(3):
        say(log(writer, episode(f"rolls {number}")))


def in_git(root):
    crashes.prepare(root)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "c")
    log(Writer(root), episode("after the commit"))
    git(root, "add", "audit")


WORKS = {
    **crashes.SCENARIOS,
    "run": (crashes.prepare, run),
    "an import in parts": (with_source, import_many),
    "retain": (with_old, retain),
    "doctor --fix": (with_damage, doctor_fix),
    "forget": (crashes.prepare, forget),
    "rollover": (crashes.prepare, rollover),
    "rollover after git": (in_git, rollover),
}


@contextmanager
def small():
    """Make limits small, so that every boundary is met within a few writes."""
    with (
        mock.patch.object(commit, "_MAX_WAITING", crashes.SMALL_STAGE),
        mock.patch.object(commit, "MAX_SEGMENT_BYTES", 2_500),
        mock.patch.object(importing, "PART", 3),
    ):
        yield


# --- the verdict ------------------------------------------------------------------------------------------------------


def count_of(tasks: str, found) -> int:
    """Count the live episodes whose path begins as one of these tasks' does."""
    stems = {episode_path_stem(tasks, number) for number in range(IMPORTED)}
    return sum(path[:-9] in stems for path, memory in found.memories.items() if not memory.is_forgotten)


def episode_path_stem(tasks: str, number: int) -> str:
    return layout.episode_stem(f"{tasks} {number}")


def judge(name: str, root: Path, said: list[str]) -> None:
    """Judge a vault as a killed process left it, write once more, and judge again, by the doctor too."""
    paths = [line for line in said if re.match(r"memories/\S+( forgotten| [0-9a-f]{64})?$", line)]
    paths += [line.removeprefix("logged ") for line in said if line.startswith("logged memories/")]
    unlogged = frozenset({crashes.HAND[0]})
    if name == "doctor --fix":
        assert ledger.scan(root).head_seq >= 8
    else:
        check(root, is_settled=False, unlogged=unlogged)
    log(Writer(root), episode("the next write"))
    if name == "doctor --fix":  # killed within, it is simply run again
        command_line.main(["--store", str(root), "doctor", "--fix"])
    found = check(root, heads=1, unlogged=unlogged)
    if crashes.HAND[0] not in found.memories:
        (root / crashes.HAND[0]).unlink()
    crashes.assert_said(root, paths)
    judge_counts(name, said, check(root, heads=1))
    findings = [one for one in examine(root).findings if one.severity != "info"]
    assert findings == [], findings


def judge_counts(name: str, said: list[str], found) -> None:
    if name == "an import in parts":
        told = [int(line.split()[1]) for line in said if line.startswith(("committed ", "logged "))]
        there = count_of("imported", found)
        assert there >= max(told, default=0), "lost"
        assert there in (0, 3, 6, IMPORTED), "half an import"
    if name == "retain":
        there = count_of("old", found)
        assert there in (0, 3), "half a retention"
        assert there == 0 or not any(line.startswith("forgot ") for line in said), "lost"


# --- where --------------------------------------------------------------------------------------------------------------


class Points:
    """Random points to die at: each work in turn, prepared once, at a call drawn anew."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.random = place, random.Random(seed)
        self.templates: dict[str, tuple[Path, list[str]]] = {}
        for number, (name, (prepare, work)) in enumerate(WORKS.items()):
            template = init(place / f"t{number}").root
            prepare(template)
            tried = copy(template, place / "copy")
            calls = calls_of(lambda say, work=work, tried=tried: work(Writer(tried), say))
            self.templates[name] = (template, calls)

    def draw(self, count: int):
        """Give (work, fresh vault, number of the call, its name, share of the write or None), so many."""
        for name, _ in zip(cycle(WORKS), range(count), strict=False):
            template, calls = self.templates[name]
            number = self.random.randrange(len(calls)) + 1
            is_torn = calls[number - 1] == "write" and self.random.random() < 0.75
            part = self.random.random() if is_torn else None
            yield name, copy(template, self.place / "copy"), number, calls[number - 1], part


def cut_at(part: float | None):
    return None if part is None else lambda blob: int(len(blob) * part)


def prove_by(kill, points: int, seed: int) -> tuple[str, bool]:
    """Die at so many points by `kill(name, root, number, cut)`, which gives whether it died and what it had said."""
    bad, killed = [], 0
    with small(), folder() as place, redirect_stderr(io.StringIO()):
        for name, root, number, call, part in Points(place, seed).draw(points):
            is_killed, said = kill(name, root, number, part)
            killed += is_killed
            try:
                judge(name, root, said)
            except AssertionError as error:
                bad.append(f"{name}, {call}, call {number}: {error}")
    figure = f"{points:,} points in {len(WORKS)} works, {killed:,} killed: {len(bad)} lost, half visible or not green"
    return figure + "".join(f"; {text}" for text in bad[:3]), not bad and killed > points * 0.98


def forked(name: str, root: Path, number: int, part: float | None) -> tuple[bool, list[str]]:
    return killed_at(lambda say: WORKS[name][1](Writer(root), say), number, cut_at(part))


@promise("kill -9 at any call: no acknowledged write is lost, none is half visible, the doctor is green after the next")
def by_fork(scale: float) -> tuple[str, bool]:
    return prove_by(forked, share(FORKED, scale), seed=6)


@promise("the same in a process of its own, killed from its start on")
def by_exec(scale: float) -> tuple[str, bool]:
    def kill(name, root, number, part):
        made = [sys.executable, "-m", "prove.kills", name, str(root), str(number), "" if part is None else str(part)]
        path = os.pathsep.join(str(Path(__file__).parents[depth]) for depth in (1, 2))
        done = subprocess.run(made, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path})
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr
        return done.returncode != 0, done.stdout.splitlines()

    return prove_by(kill, share(EXECED, scale), seed=7)


@promise("the harness can tell: where recovery places no body, the same kills lose one")
def without_recovery(scale: float) -> tuple[str, bool]:
    with mock.patch.object(recovery, "_place", lambda *_: None):
        figure, is_kept = prove_by(forked, share(BLIND, scale), seed=6)
    return figure.split(";")[0], not is_kept


def victim(name: str, root: str, number: str, part: str) -> None:
    real_write = os.write  # what is said is no call that changes the disk
    with small(), dying_at(int(number), cut_at(float(part) if part else None)):
        WORKS[name][1](Writer(root), lambda text: real_write(1, f"{text}\n".encode()))


if __name__ == "__main__":
    victim(*sys.argv[1:])
