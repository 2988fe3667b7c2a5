"""Edits that git's own look at a file passes over, and what of history nobody has looked at yet.

Git takes a file for unchanged when its size, times and inode are those of the index. An edit of the same length, within
the second of the file's last change and with the old time put back, is behind that.
"""

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from cyberos.core.rows import format_row
from cyberos.doctor import anchors
from cyberos.doctor.examination import examine
from support import Repo, git

EARLIER = 1_700_000_000_000_000_000


@pytest.fixture
def shared(repo):
    repo.log("early", 2)
    repo.commit("early")
    repo.log("late", 2)
    repo.commit("late")
    return repo


def found(root, severity="error", anchor="auto", **options):
    report = examine(root, anchor=anchor, **options)
    return {one.rule for one in report.findings if one.severity == severity}


def forged(repo: Repo) -> dict[Path, bytes]:
    """Give the bytes of the last episode with another word in it, and of the segment that then fits it."""
    segments = (repo.root / "audit").rglob("*.jsonl")
    every = {segment: [json.loads(line) for line in segment.read_bytes().splitlines()] for segment in segments}
    last = max(every, key=lambda segment: every[segment][-1]["seq"])
    rows = every[last]
    assert len(rows) >= 4, "the segment's first row must stay as it is"
    put, logged = rows[-2:]
    body = repo.root / put["payload"]["path"]
    blob = body.read_bytes().replace(b"wrote it", b"stole it")
    put["payload"]["sha256"] = sha256(blob).hexdigest()
    line = format_row(put)
    logged["prev"] = [line[-66:-2].decode()]
    kept = last.read_bytes().splitlines(keepends=True)[:-2]
    return {body: blob, last: b"".join(kept) + line + b"\n" + format_row(logged) + b"\n"}


def write_unseen(repo: Repo, made: dict[Path, bytes]) -> dict[Path, bytes]:
    """Write over files so that git does not notice; give what they held."""
    before = {path: path.read_bytes() for path in made}
    for _ in range(50):
        for path in made:
            os.utime(path, ns=(EARLIER, EARLIER))
        repo.git("update-index", "-q", "--refresh")
        changed = {path: int(path.stat().st_ctime) for path in made}
        for path, blob in made.items():
            with path.open("r+b") as handle:
                handle.write(blob)
            os.utime(path, ns=(EARLIER, EARLIER))
        is_same_second = all(int(path.stat().st_ctime) == changed[path] for path in made)
        if is_same_second and repo.git("diff-files", "--raw") == "":
            return before
        for path, blob in before.items():
            path.write_bytes(blob)
    pytest.skip("this git compares times finer than a second")


def test_an_edit_that_git_does_not_notice(shared):
    before = write_unseen(shared, forged(shared))
    assert found(shared.root, anchor="none") == set(), "the files agree with each other"
    assert found(shared.root) == {"ledger-append-only", "episode-immutable"}
    assert found(shared.root, is_full=True) == {"ledger-append-only", "episode-immutable"}
    for path, blob in before.items():
        with path.open("r+b") as handle:
            handle.write(blob)
        os.utime(path, ns=(EARLIER, EARLIER))
    assert found(shared.root) == set(), "nothing was kept of it"


def test_full_finds_it_where_the_kept_report_is_trusted(shared):
    assert found(shared.root) == set()
    made = forged(shared)
    write_unseen(shared, made)
    assert found(shared.root, is_full=True) == {"ledger-append-only", "episode-immutable"}
    for path in made:  # by what was asked for alone
        assert examine(shared.root, [path.relative_to(shared.root).as_posix()], anchor="auto").findings


def attribute(repo: Repo, line: str) -> None:
    (repo.top / ".git/info").mkdir(exist_ok=True)
    (repo.top / ".git/info/attributes").write_text(line)


def test_what_git_itself_converts_is_no_edit(shared):
    attribute(shared, "memories/** ident\n")
    shared.put("memories/facts/ab/cd/f.md", "---\nkind: facts\n---\n\nat $Id: 0123456789 $\n")
    shared.commit("a fact")
    assert b"$Id$" in git(shared.top, "show", "HEAD:memories/facts/ab/cd/f.md").encode()
    for is_full in (True, False):
        assert examine(shared.root, anchor="auto", is_full=is_full).findings == []


def test_a_filter_is_not_run_and_what_it_hides_is_told(repo, tmp_path):
    attribute(repo, "memories/** filter=x\n")
    repo.git("config", "filter.x.clean", f"touch '{tmp_path}/ran'; tr a-z A-Z")
    repo.log("filtered")
    for path in repo.root.rglob("memories/**/*.md"):
        os.utime(path, ns=(EARLIER, EARLIER))  # else git itself would have to compare what they hold
    repo.commit("filtered")
    (tmp_path / "ran").unlink()
    report = examine(repo.root, anchor="auto", is_full=True)
    assert [(one.rule, one.severity) for one in report.findings] == [("anchor-blind", "warning")]
    assert not (tmp_path / "ran").exists()


def test_a_filter_that_is_named_but_not_set_up_hides_nothing(shared):
    attribute(shared, "memories/** filter=x\n")
    write_unseen(shared, forged(shared))
    assert found(shared.root) == {"ledger-append-only", "episode-immutable"}


def test_an_edit_in_a_repository_of_sha256(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    repo = Repo.begin(tmp_path / "repo")
    repo.log("late", 2)
    repo.commit("late")
    assert len(repo.head) == 64
    assert found(repo.root, is_full=True) == set()
    write_unseen(repo, forged(repo))
    assert found(repo.root, is_full=True) == {"ledger-append-only", "episode-immutable"}


def test_history_that_nobody_looked_at_is_told_until_full_did(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(anchors, "WITHOUT_FULL", 2)
    shared.git("revert", "--no-edit", "HEAD")
    for number in range(3):
        shared.log(f"after {number}")
        shared.commit("after")
    git(tmp_path, "clone", "-q", str(shared.top), "clone")
    clone = tmp_path / "clone"
    for _ in range(2):
        report = examine(clone, anchor="auto")
        assert [(one.rule, one.severity) for one in report.findings] == [("anchor-blind", "info")]
        assert "--full" in report.findings[0].hint
    assert found(clone, is_full=True) == {"ledger-append-only", "episode-immutable"}


def test_full_puts_an_end_to_it_where_all_is_sound(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(anchors, "WITHOUT_FULL", 2)
    git(tmp_path, "clone", "-q", str(shared.top), "clone")
    clone = Repo(tmp_path / "clone")
    clone.log("here")  # which makes the place where it is kept
    clone.commit("here")
    clone = clone.root
    assert found(clone, "info") == {"anchor-blind"}
    assert found(clone, "info", is_full=True) == set()
    assert found(clone, "info") == set()


def test_full_too_holds_head_against_what_this_clone_had_verified(shared):
    assert found(shared.root) == set()
    shared.git("checkout", "-q", "--orphan", "other")
    made = forged(shared)
    for path, blob in made.items():
        path.write_bytes(blob)
    shared.commit("as if it had always been so")
    for is_full in (True, False, True):
        assert found(shared.root, is_full=is_full) == {"ledger-append-only", "episode-immutable"}
