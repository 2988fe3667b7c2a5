"""Whoever alters the vault past cyberos is seen: bit by bit, row by row, file by file, and as a whole.

What nothing within the vault can show is asserted too: a tail cut off with its memories and a ledger hashed anew stay
unseen without git, and an older copy of vault and repository together is seen by a checkpoint alone.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING
from unittest import mock

from cyberos.core import checkpoint, ledger, segments
from cyberos.core.episode import log
from cyberos.core.rows import format_row
from cyberos.core.writer import Writer
from cyberos.doctor.examination import examine
from prove.table import folder, promise, share
from support import Repo, episode, fact

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 1_000
SEGMENT = 10  # episodes of one commit, and so of one segment


def grown(root: Path, rows: int, each: int = SEGMENT) -> Repo:
    """Make a repository whose vault has so many rows, all committed, so many episodes a commit."""
    repo = Repo.begin(root)
    writer = Writer(repo.root, durability="none")
    count = (rows - 1) // 2
    for number in range(count):
        log(writer, episode(f"task {number}"))
        if number % each == each - 1:
            repo.commit()
    if rows % 2 == 0:  # beside the first row and the pairs of episodes
        writer.put(*fact("we deploy on Tuesdays"))
    repo.commit()
    assert len(ledger.scan(repo.root).rows) == rows
    return repo


def errors(root: Path, anchor: str = "auto") -> set[str]:
    return {one.rule for one in examine(root, anchor=anchor).findings if one.severity == "error"}


class Book:
    """The ledger's lines in their order, each with its file, and a way to lay down other ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = {path: path.read_bytes() for path in sorted(root.glob("audit/*/*/*.jsonl"))}
        lines = [(line, path) for path, blob in self.files.items() for line in blob.splitlines()]
        self.lines = sorted(lines, key=lambda one: json.loads(one[0])["seq"])

    def lay(self, lines: list[tuple[bytes, Path]]) -> None:
        made: dict[Path, list[bytes]] = {}
        for line, path in lines:
            made.setdefault(path, []).append(line)
        for path, blob in self.files.items():
            new = b"".join(line + b"\n" for line in made.get(path, ()))
            if path not in made:
                path.unlink()
            elif new != blob:
                path.write_bytes(new)

    def restore(self) -> None:
        for path in set(self.root.glob("audit/*/*/*.jsonl")) - set(self.files):
            path.unlink()
        for path, blob in self.files.items():
            if not path.exists() or path.read_bytes() != blob:
                path.write_bytes(blob)


def altered(line: bytes) -> bytes:
    row = json.loads(line)
    return format_row({**row, "actor": "eve"})


def rewritten(book: Book, number: int) -> None:
    """Alter a row and hash it and all after it anew; a segment whose first row changed is renamed as well."""
    names: dict[str, str] = {}
    made: dict[Path, list[bytes]] = {}
    for place, (line, path) in enumerate(book.lines):
        if place < number:
            made.setdefault(path, []).append(line)
            continue
        row = json.loads(line)
        row["prev"] = sorted(names.get(parent, parent) for parent in row["prev"])
        row["actor"] = "eve" if place == number else row["actor"]
        new = format_row(row)
        names[row["hash"]] = new[-66:-2].decode()
        made.setdefault(path, []).append(new)
    for path, lines in made.items():
        target = path.with_name(f"{lines[0][-66:-2].decode()[:16]}.jsonl")
        if target != path:
            path.unlink()
        target.write_bytes(b"".join(line + b"\n" for line in lines))


def kept_bodies(book: Book, number: int) -> dict[Path, bytes]:
    """Take away the memories that the rows from this one on have put; give them."""
    taken = {}
    for line, _ in book.lines[number:]:
        row = json.loads(line)
        if row["kind"] == "put":
            path = book.root / row["payload"]["path"]
            taken[path] = path.read_bytes()
            path.unlink()
    return taken


def attack(book: Book, name: str, number: int) -> dict[Path, bytes]:
    """Do one thing to one row; give the memories that went with it."""
    lines = book.lines
    line, path = lines[number]
    after = lines[number + 1 :]
    if name == "rewritten":
        rewritten(book, number)
    elif name == "cut off":
        book.lay(lines[:number])
        return kept_bodies(book, number)
    else:
        book.lay(
            {
                "deleted": [*lines[:number], *after],
                "swapped": [
                    *lines[:number],
                    *([(after[0][0], path), (line, after[0][1])] if after else []),
                    *after[1:],
                ],
                "repeated": [*lines[: number + 1], (line, path), *after],
                "inserted": [*lines[: number + 1], (altered(line), path), *after],
            }[name]
        )
    return {}


ATTACKS = ("deleted", "swapped", "repeated", "inserted", "cut off", "rewritten")


def is_seen(root: Path) -> bool:
    """Report whether `cyberos audit verify` would end with 1, or else `cyberos doctor audit`."""
    if any(not fault.is_torn for fault in ledger.scan(root).faults):
        return True
    return any(one.severity == "error" for one in examine(root, ["audit"], anchor="auto").findings)


@promise("every single-bit flip of a ledger of 100 rows is seen")
def flips(scale: float) -> tuple[str, bool]:
    done, by_doctor, unseen = 0, 0, []
    with folder() as top:
        repo = grown(top / "repo", 100, 2)
        every = max(1, round(1 / scale)) if scale < 1 else 1
        for file in sorted(repo.root.glob("audit/*/*/*.jsonl")):
            path, blob = file.relative_to(repo.root).as_posix(), file.read_bytes()
            for bit in range(0, len(blob) * 8, every):
                bad = bytearray(blob)
                bad[bit // 8] ^= 1 << bit % 8
                done += 1
                if any(not fault.is_torn for fault in segments.read(path, bytes(bad)).faults) and done % 1_000:
                    continue
                by_doctor += 1
                file.write_bytes(bad)
                if not errors(repo.root, "none"):
                    unseen.append(f"{path}:{bit}")
                file.write_bytes(blob)
    return f"{done:,} flips ({by_doctor:,} by the whole doctor, no anchor), {len(unseen)} unseen", not unseen


@promise("every row deleted, swapped, repeated, inserted, cut off or hashed anew is seen with git as anchor")
def rows(scale: float) -> tuple[str, bool]:
    count, done, unseen = share(ROWS, scale), 0, []
    with folder() as top:
        repo = grown(top / "repo", count)
        assert errors(repo.root) == set()
        book = Book(repo.root)
        for name in ATTACKS:
            for number in range(0, count - (name == "swapped"), 1 if scale == 1 else 11):
                done += 1
                taken = attack(book, name, number)
                if not is_seen(repo.root):
                    unseen.append(f"{name} {number}")
                for path, blob in taken.items():
                    path.write_bytes(blob)
                book.restore()
        assert errors(repo.root) == set()
    return f"{done:,} attacks on {count:,} rows, {len(unseen)} unseen {unseen[:3] or ''}", not unseen


@promise(
    "without an anchor a tail cut with its memories and a ledger hashed anew stay unseen, as docs/guarantees.md says"
)
def limits(scale: float) -> tuple[str, bool]:
    count, seen = share(ROWS, scale), []
    with folder() as top:
        repo = grown(top / "repo", count)
        book = Book(repo.root)
        starts = [number for number, (line, _) in enumerate(book.lines) if json.loads(line)["tx"][0] == 1]
        asked = starts[1 :: max(1, len(starts) // share(20, scale))]  # without its first row there is no vault
        for name in ("cut off", "rewritten"):
            for number in asked:
                taken = attack(book, name, number)
                seen += [f"{name} {number}"] * bool(errors(repo.root, "none"))
                assert errors(repo.root, "auto"), (name, number)
                for path, blob in taken.items():
                    path.write_bytes(blob)
                book.restore()
    return f"{2 * len(asked)} attacks: {len(seen)} seen without an anchor, all with git", not seen


@promise("every byte of an episode's file is guarded")
def bodies(scale: float) -> tuple[str, bool]:
    unseen, done = 0, 0
    with folder() as top:
        repo = Repo.begin(top / "repo")
        log(Writer(repo.root), episode("größe\n---\nlong", notes="n" * 40, lesson="use 5 ms", quality_score=0.5))
        (file,) = (repo.root / "memories/episodes").rglob("*.md")
        blob = file.read_bytes()
        changed = [
            blob[:place] + bytes([value]) + blob[place + 1 :]
            for place in range(len(blob))
            for value in range(256)
            if value != blob[place] and (value ^ blob[place]).bit_count() <= (8 if scale == 1 else 1)
        ]
        changed += [blob[:place] + blob[place + 1 :] for place in range(len(blob))]
        changed += [blob[:place] + blob[place:][:1] * 2 + blob[place + 1 :] for place in range(len(blob))]
        for bad in changed[:: 1 if scale == 1 else 7]:
            if bad == blob:
                continue
            file.write_bytes(bad)
            done += 1
            unseen += not any(one.severity == "error" for one in examine(repo.root, ["memories"]).findings)
    return f"{done:,} changes of one byte, {unseen} unseen", not unseen


@promise(
    "rows and files of another vault, and an older copy of the vault, are seen; one with its repository by a checkpoint"
)
def replays(scale: float) -> tuple[str, bool]:
    unseen = []
    with folder() as top:
        repo = grown(top / "repo", 21, 3)
        with mock.patch.dict(os.environ, GIT_COMMITTER_DATE="2020-01-01T00:00:00Z"):  # so its first commit is another
            other = grown(top / "other", 21, 3)
        assert ledger.scan(repo.root).vault != ledger.scan(other.root).vault
        shutil.copytree(repo.root, top / "older", symlinks=True)
        log(Writer(repo.root), episode("the newest"))
        repo.commit()
        taken = checkpoint.checkpoint_of(ledger.scan(repo.root))
        mine, theirs = Book(repo.root), Book(other.root)
        for line, _ in theirs.lines:
            for place in range(0, len(mine.lines), 4 if scale == 1 else 9):
                mine.lay([*mine.lines[:place], (line, mine.lines[place][1]), *mine.lines[place + 1 :]])
                unseen += [f"a row at {place}"] * (not is_seen(repo.root))
                mine.lay([*mine.lines[:place], (line, mine.lines[place][1]), *mine.lines[place:]])
                unseen += [f"a row ahead of {place}"] * (not is_seen(repo.root))
                mine.restore()
        victim = next((repo.root / "memories/episodes").rglob("*.md"))
        blob = victim.read_bytes()
        for file in sorted((other.root / "memories/episodes").rglob("*.md")):
            for target in (victim, repo.root / file.relative_to(other.root)):
                target.parent.mkdir(parents=True, exist_ok=True)
                before = target.read_bytes() if target.exists() else None
                target.write_bytes(file.read_bytes() + (b"\n" if file.read_bytes() == blob else b""))
                unseen += [f"the file {file.name}"] * (not errors(repo.root))
                target.unlink() if before is None else target.write_bytes(before)
        for name in ("memories", "audit"):
            shutil.rmtree(repo.root / name)
            shutil.copytree(top / "older" / name, repo.root / name)
        unseen += ["an older copy"] * (not {"ledger-append-only", "episode-immutable"} <= errors(repo.root))
        shutil.rmtree(repo.root / ".git")
        shutil.copytree(top / "older/.git", repo.root / ".git")
        assert errors(repo.root) == set(), "nothing in the folder can show that all of it is older"
        unseen += ["an older repository"] * (not checkpoint.broken(taken, ledger.scan(repo.root)))
    return f"{len(unseen)} unseen {unseen[:3] or ''}; the older repository only by its checkpoint", not unseen
