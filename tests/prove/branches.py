"""Branches that are worked on, joined and rewritten at random; and merged by others than git's own working tree.

A forge merges without a working tree and without our merge driver: here `git merge-tree` in a bare clone, and libgit2,
which many forges and editors use, through the pygit2 of CYBEROS_PROVE_TOOLS.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from hashlib import sha256
from itertools import combinations
from pathlib import Path

from prove import tools
from prove.table import Skipped, folder, promise, share
from support import Repo, check, git
from walks import Walk

SEEDS, STEPS, PAIRS = 30, 200, 12
LIBGIT2 = """
import json, sys
import pygit2
repo = pygit2.Repository(sys.argv[1])
for line in sys.stdin:
    ours, theirs = line.split()
    index = repo.merge_commits(repo.get(ours), repo.get(theirs))
    conflicts = len(list(index.conflicts or ()))
    blobs = [repo[entry.id].data.decode("latin-1") for entry in index if entry.path.startswith("audit/")]
    print(json.dumps({"conflicts": conflicts, "rows": [row for blob in blobs for row in blob.splitlines()]}), flush=True)
"""


def walked(place: Path, seed: int) -> Walk:
    """Take one walk to its end."""
    walk = Walk(Repo.begin(place), seed)
    for number in range(STEPS):
        walk.step()
        if number % 20 == 19:
            check(walk.repo.root, is_settled=False)
    return walk


def hash_of(row: str) -> str:
    blob = row.encode("latin-1")
    assert sha256(blob[:-75]).hexdigest() == blob[-66:-2].decode()
    return json.loads(row)["hash"]


def pairs_of(walk: Walk) -> list[tuple[str, str]]:
    """Give pairs of tips whose merge is no fast-forward."""
    tips = sorted(set(walk.repo.git("for-each-ref", "--format=%(objectname)", "refs/heads").split()))
    base = {pair: walk.repo.git("merge-base", *pair) for pair in combinations(tips, 2)}
    return [pair for pair in base if base[pair] not in pair and set(pair) <= set(walk.held)]


def bare_rows(bare: Path, pair: tuple[str, str]) -> list[str]:
    """Merge two commits as a forge does; give the rows of the tree that came. Raises: AssertionError at a conflict."""
    tree = git(bare, "merge-tree", "--write-tree", *pair)
    names = git(bare, "ls-tree", "-r", "--name-only", tree, "audit/").splitlines()
    return [row for name in names for row in git(bare, "cat-file", "blob", f"{tree}:{name}").splitlines()]


@promise("branches merge: random work in git loses no row, doubles none, and stops at no conflict")
def walks(scale: float) -> tuple[str, bool]:
    seeds, did, refused, guessed, rows, bare, bad = share(SEEDS, scale), Counter(), 0, 0, 0, 0, []
    for seed in range(100, 100 + seeds):
        with folder() as place:
            try:
                walk = walked(place / "repo", seed)
                clone = place / "bare.git"
                git(place, "clone", "-q", "--bare", str(walk.repo.top), str(clone))
                for pair in pairs_of(walk)[:PAIRS]:
                    assert_union(walk, pair, bare_rows(clone, pair))
                    bare += 1
                walk.end()
            except AssertionError as error:
                bad.append(f"seed {seed}: {error}")
                continue
            did.update(walk.done)
            refused, guessed, rows = refused + walk.refused, guessed + walk.guessed, rows + len(walk.tree)
    figure = (
        f"{seeds} seeds of {STEPS} steps ({did['merge']} merges, {did['rebase']} rebases, {did['cherry_pick']} picks), "
        f"{rows:,} rows, {bare} bare merges: {len(bad)} bad; git refused {refused} for a dirty tree, "
        f"and at {guessed} cherry-picks asked about a folder it took for renamed (ADR 0006)"
    )
    return figure + "".join(f"; {one[:300]}" for one in bad[:3]), not bad


def assert_union(walk: Walk, pair: tuple[str, str], found: list[str]) -> None:
    hashes = sorted(hash_of(row) for row in found)
    assert hashes == sorted(walk.held[pair[0]] | walk.held[pair[1]]), "a bare merge lost or doubled a row"


@promise("libgit2 merges the same branches without a conflict")
def libgit2(scale: float) -> tuple[str, bool]:
    python = tools.program("python")
    if subprocess.run([python, "-c", "import pygit2"], capture_output=True).returncode:
        raise Skipped("pygit2 is not in CYBEROS_PROVE_TOOLS")
    seeds, merged, conflicts = share(SEEDS // 3, scale), 0, 0
    for seed in range(200, 200 + seeds):
        with folder() as place:
            walk = walked(place / "repo", seed)
            pairs = pairs_of(walk)[:PAIRS]
            asked = "".join(f"{' '.join(pair)}\n" for pair in pairs)
            command = [python, "-c", LIBGIT2, str(walk.repo.top)]
            done = subprocess.run(command, input=asked, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            for pair, line in zip(pairs, done.stdout.splitlines(), strict=True):
                answer = json.loads(line)
                merged, conflicts = merged + 1, conflicts + answer["conflicts"]
                if not answer["conflicts"]:
                    assert_union(walk, pair, answer["rows"])
    return f"{merged} merges after {seeds} walks: {conflicts} conflicts, no row lost or doubled", not conflicts
