"""The main job on real input: import, commit, recall, then attack the vault and see whether the doctor says so.

    python bench/attacks.py --data FOLDER

FOLDER holds nl2bash and reflexion `.episodes.jsonl` and `.probes.jsonl`. Each attack is made on the committed vault,
judged by `cyberos doctor`, and taken back with git.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import CYBEROS, ENVIRONMENT, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

SETS = ("nl2bash", "reflexion")
PROBES = 40


def run(root: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=root, check=check, capture_output=True, text=True, env=_environment())


def _environment() -> dict[str, str]:
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _WHO}
    return ENVIRONMENT | who


_WHO = (("NAME", "bench"), ("EMAIL", "bench@localhost"))


def build(root: Path, data: Path) -> None:
    run(root, "git", "init", "-q", ".")
    run(root, "git", "commit", "-q", "--allow-empty", "-m", "begin")
    run(root, *CYBEROS, "init")
    for name in SETS:
        took = seconds(
            lambda name=name: run(root, *CYBEROS, "episode", "log", "--from-json", str(data / f"{name}.episodes.jsonl"))
        )
        print(f"imported {name} in {took:.1f} s")
    run(root, "git", "add", ".")
    run(root, "git", "commit", "-q", "-m", "import")
    print(f"committed; {len(run(root, 'git', 'ls-files', 'memories').stdout.splitlines()) - 1:,} memories")


def recall(root: Path, data: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from cyberos.cli.recall import run as recall_similar

    class Arguments:
        def __init__(self, **values: Any) -> None:
            vars(self).update(values)

    for name in SETS:
        probes = [json.loads(line) for line in (data / f"{name}.probes.jsonl").read_text(encoding="utf-8").splitlines()]
        found = answered = 0.0
        for probe in random.Random(0).sample(probes, PROBES):
            out = recall_similar(root, Arguments(task=probe["query"], k=3, min_relevance=0.0))
            tags = [_tag(root, match["path"]) for match in out["matches"]]
            found += len(set(tags) & set(probe["relevant"])) / min(3, len(probe["relevant"]))
            answered += bool(recall_similar(root, Arguments(task=probe["query"]))["matches"])
        print(f"{name}: recall@3 {found / PROBES:.3f} on {PROBES} probes; {answered / PROBES:.0%} answered at 0.65")


def _tag(root: Path, path: str) -> str:
    return json.loads((root / path).read_text(encoding="utf-8").split("---")[1])["tags"][0]


def _segment(root: Path) -> Path:
    return max((root / "audit").rglob("*.jsonl"), key=lambda path: path.stat().st_size)


def _memory(root: Path, words: str = '"outcome": "failure"') -> Path:
    found = run(root, "grep", "-rl", "-m1", words, "memories").stdout.splitlines()
    return root / min(found)


def _lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    def attack(root: Path) -> None:
        path = _segment(root)
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return attack


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def attack(root: Path) -> None:
        path = _segment(root)
        path.write_bytes(change(path.read_bytes()))

    return attack


def _edit(old: str, new: str) -> Callable[[Path], None]:
    def attack(root: Path) -> None:
        path = _memory(root)
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    return attack


def _overwrite(root: Path) -> None:
    _memory(root).write_bytes(_memory(root, '"outcome": "partial"').read_bytes())


def _by_hand(root: Path) -> None:
    path = _memory(root)
    path.with_name(path.name[:9] + "abcdef0.md").write_bytes(path.read_bytes())


def _foreign(root: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder)
        run(other, *CYBEROS, "init")
        row = ["--task", "t", "--approach", "a", "--outcome", "success", "--duration-ms", "1"]
        run(other, *CYBEROS, "episode", "log", *row)
        for path in (*other.glob("audit/*/*/*.jsonl"), *other.glob("memories/episodes/*/*/*.md")):
            target = root / path.relative_to(other)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


def _symlink(root: Path) -> None:
    path = _memory(root)
    path.unlink()
    path.symlink_to("/etc/hostname")


ATTACKS: dict[str, Callable[[Path], None]] = {
    "a failure made a success": _edit('"outcome": "failure"', '"outcome": "success"'),
    "an outcome outside the enum": _edit('"outcome": "failure"', '"outcome": "kinda"'),
    "an episode overwritten by another": _overwrite,
    "an episode deleted": lambda root: _memory(root).unlink(),
    "an episode added by hand": _by_hand,
    "a byte flipped in a row": _bytes(lambda blob: blob[:5000] + bytes([blob[5000] ^ 1]) + blob[5001:]),
    "a space added to a row": _lines(lambda rows: [*rows[:9], rows[9].replace(b'"kind":', b'"kind": '), *rows[10:]]),
    "a second key in a row": _lines(lambda rows: [*rows[:9], b'{"actor":"x",' + rows[9][1:], *rows[10:]]),
    "a row deleted": _lines(lambda rows: rows[:20] + rows[21:]),
    "two rows swapped": _lines(lambda rows: [*rows[:20], rows[21], rows[20], *rows[22:]]),
    "a row duplicated": _lines(lambda rows: [*rows[:21], rows[20], *rows[21:]]),
    "the tail cut, its bodies left": _lines(lambda rows: rows[:-2]),
    "the segment reversed": _lines(lambda rows: rows[::-1]),
    "rows and a file of another vault": _foreign,
    "an episode replaced by a link": _symlink,
    "conflict markers": _edit("\n---\n\n", "\n---\n\n<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n"),
}


def attack(root: Path) -> int:
    took = seconds(lambda: run(root, *CYBEROS, "doctor"))
    print(f"doctor on the untouched vault: green in {took:.1f} s")
    missed = 0
    for name, change in ATTACKS.items():
        change(root)
        done = run(root, *CYBEROS, "doctor", check=False)
        rules = sorted(
            {
                line.split(": ")[1].split(" ")[0]
                for line in done.stderr.splitlines()
                if ".md:" in line or ".jsonl:" in line
            }
        )
        missed += done.returncode != 1
        print(f"  {'seen' if done.returncode == 1 else 'MISSED'}: {name}: {', '.join(rules)}")
        run(root, "git", "checkout", "-q", "--", ".")
        run(root, "git", "clean", "-fdq", "memories", "audit")
    run(root, *CYBEROS, "doctor")
    print(f"{len(ATTACKS) - missed} of {len(ATTACKS)} attacks seen; green again after each was taken back")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", default=os.environ.get("CYBEROS_BENCH_DATA"), required="CYBEROS_BENCH_DATA" not in os.environ
    )
    data = Path(parser.parse_args().data).resolve()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        build(root, data)
        recall(root, data)
        return attack(root)


if __name__ == "__main__":
    sys.exit(main())
