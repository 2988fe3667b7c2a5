"""`cyberos doctor --staged` as a plain `.git/hooks/pre-commit`, in real commits."""

import os
import subprocess
import sys

import pytest

from support import Repo, fact

HOOK = f'#!/bin/sh\nexec "{sys.executable}" -m cyberos doctor --staged\n'


@pytest.fixture
def guarded(tmp_path):
    """Give a repository with a vault, four episodes and a fact, all committed, whose commits the doctor looks at."""
    made = Repo.begin(tmp_path / "repo")
    guard(made)
    made.log(count=4)
    made.put(*fact("we deploy on Tuesdays"))
    made.commit("work")
    return made


def guard(repo, script=HOOK):
    hook = repo.top / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(script)
    hook.chmod(0o755)


def commit(repo, *arguments, stage=("add", "-A")):
    """Try to commit; give whether it went through, and what was said."""
    if stage:
        repo.git(*stage)
    before = repo.head
    command = ["git", "-C", str(repo.top), "commit", "-q", "-m", "a commit", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode == 0) == (repo.head != before), done.stderr
    return done.returncode == 0, done.stderr


def episodes(repo):
    return sorted((repo.root / "memories/episodes").rglob("*.md"))


def swap(file, old, new):
    text = file.read_bytes()
    assert old in text
    file.write_bytes(text.replace(old, new))


def test_what_agents_do_goes_through(guarded):
    guarded.log("more")
    assert commit(guarded)[0]
    guarded.put(*fact("we deploy on Mondays"))
    assert commit(guarded)[0]
    (guarded.root / "README.md").write_text("a better project\n")
    assert commit(guarded)[0]
    assert commit(guarded, "--amend", "-m", "told better")[0]


def test_a_failure_made_a_success_is_refused(guarded):
    swap(episodes(guarded)[0], b'"outcome": "success"', b'"outcome": "failure"')
    is_through, said = commit(guarded)
    assert not is_through
    assert "memory-modified" in said
    assert not commit(guarded, "-a", stage=())[0]
    assert not commit(guarded, "--amend", "-a", stage=())[0]
    assert not commit(guarded, str(episodes(guarded)[0]), stage=())[0]


def test_a_commit_that_only_deletes_is_refused(guarded):
    episodes(guarded)[0].unlink()
    is_through, said = commit(guarded)
    assert not is_through
    assert "memory-missing" in said


def test_forgetting_is_not_deleting(guarded):
    from cyberos.core.writer import Writer

    Writer(guarded.root).forget(episodes(guarded)[0].relative_to(guarded.root), "asked to")
    assert commit(guarded)[0]


@pytest.mark.parametrize(("folder", "rule"), [("memories", "memory-unlogged"), ("audit", "memory-missing")])
def test_half_of_what_was_logged_is_refused(guarded, folder, rule):
    guarded.log("more")
    is_through, said = commit(guarded, stage=("add", folder))
    assert not is_through
    assert rule in said
    assert "git add memories audit" in said
    assert commit(guarded, stage=("add", "memories", "audit"))[0]


@pytest.mark.parametrize("how", ["row", "tail", "segment"])
def test_a_ledger_with_less_in_it_is_refused(guarded, how):
    segment = max(guarded.root.glob("audit/*/*/*.jsonl"), key=lambda file: file.stat().st_size)
    lines = segment.read_bytes().splitlines(keepends=True)
    if how == "segment":
        segment.unlink()
    else:
        segment.write_bytes(b"".join(lines[:1] + lines[2:] if how == "row" else lines[:-2]))
    assert not commit(guarded)[0]


def test_a_tail_cut_with_its_episode_is_refused(guarded):
    """Nothing in the index alone shows it: HEAD has had the rows."""
    before = guarded.head
    guarded.log("the last one")
    guarded.commit("the last one")
    guarded.git("read-tree", before)
    guarded.git("checkout-index", "-f", "-a")
    is_through, said = commit(guarded, stage=())
    assert not is_through
    assert "ledger-append-only" in said or "episode-immutable" in said


def test_what_is_staged_counts_and_not_what_stands_there(guarded):
    file = episodes(guarded)[0]
    right = file.read_bytes()
    swap(file, b'"outcome": "success"', b'"outcome": "failure"')
    guarded.git("add", "-A")
    file.write_bytes(right)
    assert not commit(guarded, stage=())[0]
    guarded.git("add", "-A")
    swap(file, b'"outcome": "success"', b'"outcome": "failure"')
    (guarded.root / "README.md").write_text("a better project\n")
    assert commit(guarded, stage=("add", "README.md"))[0]


def test_work_that_is_not_staged_hinders_no_commit(guarded):
    guarded.log("not committed yet")
    (guarded.root / "README.md").write_text("a better project\n")
    assert commit(guarded, stage=("add", "README.md"))[0]
    guarded.log("and on it goes")
    assert commit(guarded)[0]


def test_a_path_alone_is_judged_with_what_goes_with_it(guarded):
    guarded.log("more")
    guarded.git("add", "-A")
    assert not commit(guarded, "memories", stage=())[0]
    assert commit(guarded, "memories", "audit", stage=())[0]


def test_no_verify_is_seen_afterwards(guarded, monkeypatch):
    from cyberos.cli.main import main

    episodes(guarded)[0].unlink()
    assert commit(guarded, "--no-verify")[0]
    monkeypatch.chdir(guarded.root)
    assert main(["doctor", "--staged"]) == 1


def test_a_vault_below_the_top(tmp_path):
    repo = Repo.begin(tmp_path / "repo", "agent/memory")
    guard(repo, HOOK.replace("cyberos doctor", "cyberos --store agent/memory doctor"))
    repo.log()
    assert commit(repo)[0]
    episodes(repo)[0].unlink()
    assert not commit(repo)[0]


def test_a_worktree_of_its_own(guarded, tmp_path):
    guarded.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    other = Repo(tmp_path / "other")
    other.log("in the other worktree")
    assert commit(other)[0]
    os.unlink(episodes(other)[0])
    assert not commit(other)[0]


def test_the_commit_of_a_merge(guarded):
    guarded.branch("other")
    guarded.log("on the other branch")
    guarded.commit()
    guarded.switch("main")
    guarded.log("on main")
    guarded.commit()
    guarded.git("merge", "-q", "--no-commit", "--no-ff", "other")
    assert commit(guarded, stage=())[0]
    guarded.expect(guarded.hashes())
