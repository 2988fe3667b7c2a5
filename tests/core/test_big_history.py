"""A history of 10,000 commits of one episode each, and real work on top of it."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest

from cyberos.core import ledger, segments
from cyberos.core.episode import log
from cyberos.core.layout import episode_stem, segment_path
from cyberos.core.rows import format_row
from cyberos.core.writer import Writer
from support import Repo, check, episode, hashes, rows

COMMITS, REAL = 10_000, 200
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
COMMIT = """commit refs/heads/main
committer Ada <ada@example.org> {seconds} +0000
data 1
e
{parent}"""


def one_episode_each(created):
    """Yield for each commit its time and its files: a memory, and a segment of its two rows."""
    prev, seq, vault = created["hash"], created["seq"], created["vault"]
    tasks = [episode(f"task {number}").render() for number in range(50)]
    for number in range(COMMITS):
        moment = BEGIN + timedelta(minutes=3 * number)
        ts = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body = tasks[number % 50].encode()
        path = f"{episode_stem(f'task {number % 50}')}{number:06x}.md"
        put = {"memory_kind": "episode", "path": path, "sha256": sha256(body).hexdigest(), "size": len(body)}
        logged = {"path": path, "outcome": "success", "duration_ms": 10, "token_cost": None, "quality_score": 0.5}
        lines = []
        for position, (kind, payload) in enumerate([("put", put), ("episode.logged", logged | {"logged_at": ts})], 1):
            seq += 1
            row = {"actor": "agent", "kind": kind, "payload": payload, "prev": [prev], "seq": seq, "ts": ts, "v": 1}
            lines.append(format_row(row | {"tx": [position, 2], "vault": vault}))
            prev = lines[-1][-66:-2].decode()
        first = lines[0][-66:-2].decode()
        yield moment, {path: body, segment_path(first, ts): b"\n".join(lines) + b"\n"}


def import_history(repo: Repo) -> None:
    git = subprocess.Popen(["git", "-C", str(repo.top), "fast-import", "--quiet"], stdin=subprocess.PIPE)
    parent = "from refs/heads/main^0\n"
    for moment, files in one_episode_each(rows(repo.root)[-1]):
        git.stdin.write(COMMIT.format(seconds=int(moment.timestamp()), parent=parent).encode())
        for path, blob in files.items():
            git.stdin.write(f"M 100644 inline {path}\ndata {len(blob)}\n".encode() + blob + b"\n")
        parent = ""
    git.stdin.close()
    assert git.wait() == 0
    repo.git("reset", "-q", "--hard")


@pytest.fixture
def repo(tmp_path):
    made = Repo.begin(tmp_path / "repo")
    made.git("config", "gc.auto", "0")
    import_history(made)
    yield made
    shutil.rmtree(tmp_path)


def test_ten_thousand_commits_and_two_hundred_more(repo, monkeypatch):
    assert int(repo.git("rev-list", "--count", "HEAD")) == COMMITS + 2
    read = segments.read
    seen = []
    monkeypatch.setattr(segments, "read", lambda path, blob: (seen.append(path), read(path, blob))[1])
    writer = Writer(repo.root, durability="none")
    log(writer, episode("the first, which reads the ledger once"))
    assert len(seen) == COMMITS + 1
    seen.clear()

    for number in range(REAL):
        log(writer if number % 2 else Writer(repo.root, durability="none"), episode(f"real {number}"))
        repo.git("add", "memories", "audit")
        repo.git("commit", "-q", "-m", f"real {number}")
    assert seen == [], "with a warm cache no write reads the ledger"
    assert Writer(repo.root).head_seq() == 1 + 2 * (COMMITS + 1 + REAL)
    assert seen == []

    assert repo.git("status", "--porcelain") == ""
    found = check(repo.root, heads=1)
    assert found.faults == []
    assert found.missing == {}
    assert found.head_seq == len(found.rows) == 1 + 2 * (COMMITS + 1 + REAL)
    assert len(set(hashes(repo.root))) == found.head_seq
    assert len(found.memories) == COMMITS + 1 + REAL

    repo.branch("side", f"HEAD~{REAL}")
    log(writer, episode("on an old branch"))
    repo.commit("side")
    repo.git("merge", "-q", "--no-edit", "main")
    assert len(ledger.scan(repo.root).heads) == 2
    log(writer, episode("the next write joins all heads"))
    assert check(repo.root, heads=1).faults == []
