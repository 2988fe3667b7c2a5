from __future__ import annotations

import os

import pytest

from cyberos.core import gitdir
from support import Repo, git

SEGMENTS = [
    f"audit/2026-11/30/{digits}.jsonl" for digits in ("0123456789abcdef", "0123450000000000", "0123451111111111")
]
UNSEEN = "audit/2026-11/30/fedcba9876543210.jsonl"


@pytest.fixture
def top(tmp_path):
    """Give a git repository without a commit."""
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    return top


def write(top, *paths):
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(path)


def commit(top, *options):
    git(top, "commit", "-q", "--allow-empty", "-m", "x", *options)


def token(top):
    return gitdir.token(gitdir.find(str(top)))


def sees(top, path):
    return gitdir.has_seen(gitdir.find(str(top)), path)


# --- finding it -----------------------------------------------------------------------------------------------------


def test_outside_git_nothing_is_seen_and_nothing_moves(tmp_path):
    assert gitdir.find(str(tmp_path)) is None
    assert gitdir.token(None) == "no git"
    assert not gitdir.has_seen(None, UNSEEN)
    assert gitdir.index_bytes(None) == b""


def test_found_from_any_folder_below(top):
    write(top, "a/b/x")
    for folder in (top, top / "a", top / "a" / "b"):
        assert gitdir.find(str(folder)) == gitdir.GitDir(str(top / ".git"), str(top / ".git"))


def test_a_folder_called_git_that_is_no_repository_is_passed_over(top):
    (top / "a" / ".git").mkdir(parents=True)
    assert gitdir.find(str(top / "a")).private == str(top / ".git")


def test_a_linked_worktree_has_a_folder_of_its_own_and_shares_the_refs(top, tmp_path):
    commit(top)
    git(top, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    found = gitdir.find(str(tmp_path / "linked"))
    assert found == gitdir.GitDir(str(top / ".git" / "worktrees" / "linked"), str(top / ".git"))


def test_a_submodule_has_its_folder_in_that_of_the_project(top, tmp_path):
    write(tmp_path / "library", "x")
    git(tmp_path / "library", "init", "-q", "-b", "main")
    git(tmp_path / "library", "add", "-A")
    commit(tmp_path / "library")
    git(top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "library"), "sub")
    assert gitdir.find(str(top / "sub")).private == str(top / ".git" / "modules" / "sub")


def test_a_separate_git_folder_is_found(tmp_path):
    git(tmp_path, "init", "-q", "--separate-git-dir", str(tmp_path / "elsewhere"), str(tmp_path / "top"))
    assert gitdir.find(str(tmp_path / "top")).private == str(tmp_path / "elsewhere")


def test_git_dir_in_the_environment_serves_where_there_is_no_other(tmp_path, top, monkeypatch):
    (tmp_path / "tree").mkdir()
    monkeypatch.setenv("GIT_DIR", str(top / ".git"))
    assert gitdir.find(str(tmp_path / "tree")).private == str(top / ".git")


def test_a_vault_reached_through_a_link_belongs_to_the_repository_that_holds_it(top, tmp_path):
    write(top, "memory/x")
    (tmp_path / "way").symlink_to(top / "memory")
    assert gitdir.find(str(tmp_path / "way")).private == str(top / ".git")


# --- what the index names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_an_index_of_each_version_is_understood(version, top):
    write(top, *SEGMENTS, UNSEEN, "zzz")
    git(top, "config", "index.version", version)
    git(top, "update-index", "--index-version", version)
    git(top, "add", *SEGMENTS, "zzz")
    if version == "3":  # git writes a version 3 only when an entry needs it
        git(top, "add", "--intent-to-add", UNSEEN)
    assert (top / ".git" / "index").read_bytes()[4:8] == bytes([0, 0, 0, int(version)])
    assert all(sees(top, path) for path in SEGMENTS)
    assert sees(top, UNSEEN) == (version == "3")
    assert gitdir.is_tracked(gitdir.index_bytes(gitdir.find(str(top))), SEGMENTS[0])


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_split_index_is_understood(version, top):
    write(top, *SEGMENTS, UNSEEN)
    git(top, "config", "index.version", version)
    git(top, "add", SEGMENTS[0])
    git(top, "update-index", "--split-index")
    assert SEGMENTS[0][-16:].encode() not in (top / ".git" / "index").read_bytes()
    git(top, "add", SEGMENTS[1])
    assert all(sees(top, path) for path in SEGMENTS[:2])
    assert not sees(top, UNSEEN)


def test_the_index_of_a_worktree_is_its_own(top, tmp_path):
    commit(top)
    linked = tmp_path / "linked"
    git(top, "worktree", "add", "-q", str(linked), "-b", "other")
    write(linked, SEGMENTS[0])
    git(linked, "add", "-A")
    assert sees(linked, SEGMENTS[0])
    assert not sees(top, SEGMENTS[0])


def test_an_index_named_by_the_environment_counts_too(top, monkeypatch, tmp_path):
    write(top, SEGMENTS[0])
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    git(top, "add", SEGMENTS[0])
    assert sees(top, SEGMENTS[0])
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert not sees(top, SEGMENTS[0])


def test_while_git_holds_its_lock_everything_may_be_seen(top):
    write(top, UNSEEN)
    assert not sees(top, UNSEEN)
    (top / ".git" / "index.lock").touch()
    assert sees(top, UNSEEN)
    (top / ".git" / "index.lock").unlink()
    assert not sees(top, UNSEEN)


def test_a_repository_without_an_index_has_seen_nothing(top):
    assert not (top / ".git" / "index").exists()
    assert not sees(top, UNSEEN)


# --- whether HEAD moved ---------------------------------------------------------------------------------------------


def moves(top):
    """Name what moves HEAD, with what does it, in an order in which each is possible."""
    return [
        ("first commit", lambda: commit(top)),
        ("commit", lambda: commit(top)),
        ("amend", lambda: commit(top, "--amend", "--reset-author", "--date=2026-12-01T00:00:00Z", "-m", "y")),
        ("new branch", lambda: git(top, "checkout", "-q", "-b", "b")),
        ("commit on it", lambda: commit(top)),
        ("switch", lambda: git(top, "checkout", "-q", "main")),
        ("merge", lambda: git(top, "merge", "-q", "--no-ff", "-m", "m", "b")),
        ("reset", lambda: git(top, "reset", "-q", "--hard", "HEAD~1")),
        ("detach", lambda: git(top, "checkout", "-q", "--detach", "b")),
        ("cherry-pick", lambda: git(top, "cherry-pick", "--allow-empty", "--keep-redundant-commits", "main")),
        ("rebase", lambda: git(top, "rebase", "-q", "--force-rebase", "main", "b")),
    ]


@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("has_reflog", [True, False])
def test_the_token_changes_whenever_head_moves_and_never_otherwise(has_reflog, is_linked, top, tmp_path):
    git(top, "config", "core.logAllRefUpdates", "true" if has_reflog else "false")
    place = top
    if is_linked:
        commit(top)
        git(top, "branch", "-m", "main", "base")
        place = tmp_path / "linked"
        git(top, "worktree", "add", "-q", "-b", "main", str(place))
    assert (place / ".git" / "logs" / "HEAD").exists() is False
    before = token(place)
    for name, move in moves(place):
        move()
        after = token(place)
        assert after != before, name
        write(place, "untracked")
        git(place, "status")
        git(place, "add", "untracked")
        git(place, "rm", "-q", "--cached", "untracked")
        assert token(place) == after, name
        before = after


def test_another_worktrees_commit_does_not_move_this_one(top, tmp_path):
    commit(top)
    git(top, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    before = token(top)
    commit(tmp_path / "linked")
    assert token(top) == before


def test_without_reflogs_packing_the_refs_is_doubt_enough(top):
    git(top, "config", "core.logAllRefUpdates", "false")
    commit(top)
    before = token(top)
    git(top, "pack-refs", "--all")
    assert token(top) != before
    before = token(top)
    commit(top)
    assert token(top) != before


def test_a_reflog_that_comes_or_goes_is_a_move(top):
    commit(top)
    before = token(top)
    os.unlink(top / ".git" / "logs" / "HEAD")
    assert token(top) != before


def test_the_token_names_the_repository(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q", "-b", "main")
    assert token(tmp_path / "a") != token(tmp_path / "b")
    assert token(tmp_path / "a") != gitdir.token(None)


def test_a_reftable_repository_moves_with_its_list_of_tables(tmp_path):
    """No git before 2.45 makes one; these are the files that such a git leaves."""
    made = tmp_path / "top" / ".git"
    (made / "reftable").mkdir(parents=True)
    (made / "HEAD").write_text("ref: refs/heads/.invalid\n")
    (made / "refs").mkdir()
    (made / "refs" / "heads").write_text("this repository uses the reftable format\n")
    (made / "reftable" / "tables.list").write_text("0x000000000001-0x000000000001-aa.ref\n")
    before = token(tmp_path / "top")
    assert token(tmp_path / "top") == before
    (made / "reftable" / "new").write_text("0x000000000001-0x000000000002-bb.ref\n")
    os.replace(made / "reftable" / "new", made / "reftable" / "tables.list")
    assert token(tmp_path / "top") != before


def test_a_real_reftable_repository_moves_too(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q", "-b", "main", "--ref-format=reftable", may_fail=True)
    if not (top / ".git" / "reftable").is_dir():
        pytest.skip("this git has no reftables")
    before = token(top)
    for _ in range(3):
        commit(top)
        assert token(top) != before
        before = token(top)


# --- and so the writer begins a new segment -------------------------------------------------------------------------


def segments(repo):
    return sorted(repo.root.glob("audit/*/*/*.jsonl"))


@pytest.mark.parametrize("has_reflog", ["true", "false"])
def test_a_segment_grows_until_git_has_seen_it(has_reflog, tmp_path):
    repo = Repo.begin(tmp_path / "repo")
    repo.git("config", "core.logAllRefUpdates", has_reflog)
    repo.log("a", 3)
    assert len(segments(repo)) == 2
    repo.git("add", "-A")
    repo.log("b", 3)
    assert len(segments(repo)) == 3
    repo.git("commit", "-q", "-m", "x")
    repo.log("c", 3)
    assert len(segments(repo)) == 4
    (repo.top / ".git" / "index.lock").touch()
    repo.log("d", 3)
    assert len(segments(repo)) == 7
    (repo.top / ".git" / "index.lock").unlink()
    repo.log("e", 3)
    assert len(segments(repo)) == 7
