"""What several test modules share: memories, vaults in git, and a verdict on a vault that is not the doctor's.

`check` reads a vault by the format alone where it can, so that a fault in the writer and one in the reader do not
hide each other: rows are lines, a row's hash is the SHA-256 of what stands before it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from cyberos.core import ledger
from cyberos.core.episode import Episode, log
from cyberos.core.layout import episode_stem
from cyberos.core.vault import init
from cyberos.core.writer import Writer


def episode(task: str = "ship the login form", **fields: Any) -> Episode:
    return Episode(**{"task": task, "approach": "wrote it", "outcome": "success", "duration_ms": 10} | fields)


def episode_path(made: Episode, digits: str = "") -> str:
    """Name a place for an episode; random unless its last hex digits are given."""
    return f"{episode_stem(made.task)}{digits or os.urandom(3).hex()}.md"


def fact(text: str, name: str = "") -> tuple[str, str]:
    """Give path and text of a fact; the same `name` gives the same path."""
    digest = sha256((name or text).encode()).hexdigest()
    path = f"memories/facts/{digest[:2]}/{digest[2:4]}/{name or digest[:8]}.md"
    return path, f'---\n{{\n  "kind": "facts"\n}}\n---\n\n{text}\n'


def write_raw(file: Path, text: str | bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


# --- looking at a vault ---------------------------------------------------------------------------------------------


def lines(root: Path) -> list[bytes]:
    """Give every whole line of the ledger, read without cyberos."""
    found = []
    for file in sorted(root.glob("audit/*/*/*.jsonl")):
        found += file.read_bytes().split(b"\n")[:-1]
    return found


def hashes(root: Path) -> list[str]:
    """Give the hash of each row, sorted, after checking it; a row that stands twice is named twice."""
    for line in lines(root):
        assert sha256(line[:-75]).hexdigest() == json.loads(line)["hash"]
    return sorted(line[-66:-2].decode() for line in lines(root))


def rows(root: Path) -> list[dict[str, Any]]:
    return ledger.scan(root).rows


def files(root: Path) -> dict[str, str]:
    """Give the digest of every memory file, by path."""
    return {
        file.relative_to(root).as_posix(): sha256(file.read_bytes()).hexdigest()
        for file in sorted((root / "memories").rglob("*.md"))
    }


def staged(root: Path) -> set[str]:
    """Give the digests of the bodies that wait in the stage."""
    folder = root / ".cyberos" / "stage"
    return {sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()} if folder.is_dir() else set()


def check(
    root: Path, *, is_settled: bool = True, heads: int | None = None, unlogged: frozenset[str] | set[str] = frozenset()
) -> ledger.Ledger:
    """Insist that a vault is whole; give its ledger. Unsettled: a body may still wait in the stage for its place."""
    found = ledger.scan(root)
    assert [fault for fault in found.faults if not fault.is_torn] == []
    present, waiting = files(root), staged(root)
    live = {path: memory for path, memory in found.memories.items() if not memory.is_forgotten}
    for path, memory in live.items():
        digests = {row["payload"]["sha256"] for row in memory.puts}
        earlier = {row["payload"]["sha256"] for row in memory.events if "sha256" in row["payload"]}
        is_placed = present.get(path) in digests
        may_wait = not is_settled and digests & waiting and present.get(path) in {None, *earlier}
        assert is_placed or may_wait, f"{path} is missing or altered"
    assert set(present) - set(live) - unlogged == set(), "files that no row knows"
    assert_pairs(found)
    if heads is not None:
        assert len(found.heads) == heads
    return found


def assert_pairs(found: ledger.Ledger) -> None:
    """Insist that each put of an episode has its episode.logged row beside it."""
    puts = [row for row in found.rows if row["kind"] == "put" and row["payload"]["memory_kind"] == "episode"]
    logged = {(row["prev"][0], row["payload"]["path"]) for row in found.rows if row["kind"] == "episode.logged"}
    assert {(row["hash"], row["payload"]["path"]) for row in puts} == logged


# --- git ------------------------------------------------------------------------------------------------------------


def git(root: Path, *arguments: str, stdin: bytes | None = None, may_fail: bool = False) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, input=stdin, check=False)
    if done.returncode and not may_fail:
        raise AssertionError(f"git {' '.join(arguments)}: {done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


class Repo:
    """A git repository with a vault at `root`; `top` is where its working tree begins."""

    def __init__(self, root: Path, top: Path | None = None) -> None:
        self.root = root
        self.top = top or root

    @classmethod
    def begin(cls, top: Path, folder: str = "") -> Repo:
        """Make a repository with a first commit, and in it a vault, committed."""
        top.mkdir(parents=True)
        git(top, "init", "-q", "-b", "main")
        (top / "README.md").write_text("a project\n")
        made = cls(top / folder, top)
        made.commit("first")
        init(made.root)
        made.commit("a vault")
        return made

    def git(self, *arguments: str, **options: Any) -> str:
        return git(self.top, *arguments, **options)

    def log(self, task: str = "ship it", count: int = 1) -> set[str]:
        """Log episodes, each as a process of its own would; give the hashes of the rows that came."""
        before = set(hashes(self.root))
        for number in range(count):
            log(Writer(self.root, durability="none"), episode(f"{task} {number}"))
        return set(hashes(self.root)) - before

    def put(self, path: str, body: str) -> set[str]:
        before = set(hashes(self.root))
        Writer(self.root, durability="none").put(path, body)
        return set(hashes(self.root)) - before

    def commit(self, message: str = "work") -> str:
        """Commit everything; give the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str, start: str = "HEAD") -> None:
        self.git("checkout", "-q", "-b", name, start)

    def switch(self, name: str) -> None:
        self.git("checkout", "-q", name)

    def hashes(self) -> set[str]:
        """Give the rows of the working tree; none stands twice."""
        found = hashes(self.root)
        assert len(found) == len(set(found)), "a row stands twice"
        return set(found)

    def expect(self, expected: set[str], *, heads: int | None = None) -> None:
        """Insist on exactly these rows and a whole vault, and that the next write joins all heads."""
        assert self.git("ls-files", "--unmerged") == ""
        found = self.hashes()
        assert expected - found == set(), "rows were lost"
        assert found - expected == set(), "rows came from nowhere"
        check(self.root, heads=heads)
        joined = self.log("the next write joins all heads")
        check(self.root, heads=1)
        assert self.hashes() == expected | joined


def in_fresh_process(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python source in a process of its own."""
    return subprocess.run([sys.executable, "-c", source, *arguments], capture_output=True, text=True, check=False)
