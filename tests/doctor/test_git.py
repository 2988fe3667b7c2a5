"""The doctor against real git: each attack that git alone can show, and each honest operation, by name.

The fixtures of the git rules in `tests/bad` have a `before/` folder, which is committed first. `anchor-blind` needs a
shallow clone, which no folder can hold, so it is built here.
"""

import json
import os
import re
import shutil
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from cyberos.cli.main import main
from cyberos.core import repository
from cyberos.core.episode import log
from cyberos.core.rows import format_row
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from cyberos.doctor import staged
from cyberos.doctor.examination import examine
from support import Repo, episode, fact, git

LOST = {"ledger-append-only"}
BOTH = {"ledger-append-only", "episode-immutable"}


def rules(report, severity="error"):
    return {one.rule for one in report.findings if one.severity == severity}


def doctor(repo, anchor="auto", **options):
    """Give the rules that the whole vault breaks; what is kept from earlier runs must not change the answer."""
    found = rules(examine(repo.root, anchor=anchor, **options))
    assert rules(examine(repo.root, anchor=anchor, **options)) == found
    return found


def judge_staged(repo, **options):
    found = rules(staged.examine(repository.open_at(repo.root), **options))
    full = rules(staged.examine(repository.open_at(repo.root), **{**options, "is_full": True}))
    assert found == full, "what is kept changes the answer"
    return found


def segments(repo):
    return sorted((repo.root / "audit").rglob("*.jsonl"))


def newest_segment(repo):
    return max(segments(repo), key=lambda path: path.stat().st_mtime_ns)


def episodes(repo):
    return sorted((repo.root / "memories/episodes").rglob("*.md"))


def rewrite(repo, old, new):
    """Change an episode, and make its rows and all later ones anew, as one who knows the format would."""
    body = next(path for path in episodes(repo) if "Task: early" in path.read_text())
    path = body.relative_to(repo.root).as_posix()
    body.write_text(body.read_text().replace(old, new))
    blob = body.read_bytes()
    names, every = {}, []
    for segment in segments(repo):
        every += [(json.loads(line), segment) for line in segment.read_bytes().splitlines()]
    made = {}
    for row, segment in sorted(every, key=lambda one: one[0]["seq"]):
        before = row["hash"]
        if row["payload"].get("path") == path and row["kind"] == "put":
            row["payload"] |= {"sha256": sha256(blob).hexdigest(), "size": len(blob)}
        row["prev"] = sorted(names.get(parent, parent) for parent in row["prev"])
        line = format_row(row)
        names[before] = line[-66:-2].decode()
        made.setdefault(segment, []).append(line)
    for segment, lines in made.items():
        segment.unlink()
        segment.with_name(f"{lines[0][-66:-2].decode()[:16]}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


@pytest.fixture
def shared(repo):
    """Give a repository with two commits of two episodes each, found sound."""
    repo.log("early", 2)
    repo.commit("early")
    repo.log("late", 2)
    repo.commit("late")
    assert doctor(repo) == set()
    return repo


# --- attacks --------------------------------------------------------------------------------------------------------


def test_a_revert_of_the_tip(shared):
    shared.git("revert", "--no-edit", "HEAD")
    assert doctor(shared) == BOTH


def test_a_revert_of_an_older_commit(shared):
    shared.git("revert", "--no-edit", "HEAD~1")
    assert doctor(shared) >= BOTH


def test_a_revert_seen_by_a_clone_that_verified_nothing(shared, tmp_path):
    shared.git("revert", "--no-edit", "HEAD")
    shared.log("after")
    shared.commit("after")
    git(tmp_path, "clone", "-q", str(shared.top), "clone")
    assert rules(examine(tmp_path / "clone", anchor="auto")) == BOTH
    assert rules(examine(tmp_path / "clone", anchor="auto", is_full=True)) == BOTH


def test_merge_with_the_strategy_ours(shared):
    shared.branch("side", "HEAD~1")
    shared.log("on the side")
    shared.commit("on the side")
    shared.switch("main")
    shared.git("merge", "-q", "-s", "ours", "--no-edit", "side")
    assert doctor(shared) == BOTH


def test_merge_with_the_strategy_ours_is_refused_while_it_is_staged(shared):
    shared.branch("side", "HEAD~1")
    shared.log("on the side")
    shared.commit("on the side")
    shared.switch("main")
    shared.git("merge", "-q", "-s", "ours", "--no-commit", "side")
    assert judge_staged(shared) == BOTH


def test_a_deletion_pushed_past_the_hooks(shared):
    for path in (episodes(shared)[0], segments(shared)[-1]):
        path.unlink()
    shared.git("commit", "-q", "-a", "--no-verify", "-m", "tidy up")
    assert doctor(shared) >= LOST


def test_a_commit_that_only_deletes_an_episode(shared):
    path = episodes(shared)[0].relative_to(shared.top).as_posix()
    shared.git("rm", "-q", path)
    assert judge_staged(shared) == {"episode-immutable", "memory-missing"}
    shared.commit("only deletes")
    assert doctor(shared) == {"episode-immutable", "memory-missing"}


def test_a_commit_that_only_deletes_a_segment(shared):
    shared.git("rm", "-q", segments(shared)[-1].relative_to(shared.top).as_posix())
    assert "ledger-append-only" in judge_staged(shared)


def test_a_ledger_rewritten_and_hashed_anew(shared):
    rewrite(shared, "wrote it", "wrote it")  # the same rows: nothing has changed
    assert doctor(shared) == set()
    rewrite(shared, "Approach: wrote it", "Approach: stole it")
    assert doctor(shared) >= LOST
    shared.git("add", "-A")
    assert judge_staged(shared) >= LOST


def test_a_tail_cut_with_its_bodies(shared):
    newest = newest_segment(shared)
    names = [line.split('"path":"')[1].split('"')[0] for line in newest.read_text().splitlines() if '"put"' in line]
    newest.unlink()
    for name in names:
        (shared.root / name).unlink()
    assert doctor(shared, "none") == set()  # a chain alone cannot see it
    assert doctor(shared) == BOTH


def test_an_episode_changed_and_its_rows_made_anew(shared):
    rewrite(shared, "wrote it", "stole it")
    assert doctor(shared) == BOTH
    shared.commit("polished")
    assert doctor(shared) == BOTH


def test_an_episode_put_again_by_a_valid_row(shared):
    body = episodes(shared)[0]
    path, text = body.relative_to(shared.root).as_posix(), body.read_text().replace("wrote it", "stole it")
    body.write_text(text)
    every = [json.loads(line) for one in segments(shared) for line in one.read_bytes().splitlines()]
    last = max(every, key=lambda row: row["seq"])
    old = next(row for row in every if row["kind"] == "put" and row["payload"]["path"] == path)
    logged = next(row for row in every if row["kind"] == "episode.logged" and row["payload"]["path"] == path)
    told = {"sha256": sha256(text.encode()).hexdigest(), "size": len(text.encode())}
    base = {"prev": [last["hash"]], "seq": last["seq"] + 1, "ts": last["ts"]}
    first = format_row(old | base | {"payload": old["payload"] | told, "tx": [1, 2]})
    base = {"prev": [first[-66:-2].decode()], "seq": last["seq"] + 2, "ts": last["ts"]}
    second = format_row(logged | base | {"payload": logged["payload"] | {"logged_at": last["ts"]}, "tx": [2, 2]})
    folder = shared.root / "audit" / last["ts"][:7] / last["ts"][8:10]
    (folder / f"{first[-66:-50].decode()}.jsonl").write_bytes(first + b"\n" + second + b"\n")
    assert doctor(shared) == {"episode-immutable"}
    shared.git("add", "-A")
    assert judge_staged(shared) == {"episode-immutable"}


def test_history_rewritten_below(shared):
    shared.git("reset", "-q", "--hard", "HEAD~2")
    verified = (shared.root / ".cyberos/verified").read_text()
    shared.git("reset", "-q", "--hard", "ORIG_HEAD")
    rewrite(shared, "wrote it", "stole it")
    shared.git("add", "-A")
    shared.git("reset", "-q", "--soft", "HEAD~2")
    shared.git("commit", "-q", "-m", "as if it had always been so")
    assert (shared.root / ".cyberos/verified").read_text() == verified
    assert doctor(shared) >= LOST


def test_a_change_behind_skip_worktree_and_assume_unchanged(shared):
    for flag in ("--skip-worktree", "--assume-unchanged"):
        path = newest_segment(shared)
        name, whole = path.relative_to(shared.top).as_posix(), path.read_bytes()
        shared.git("update-index", flag, name)
        path.write_bytes(whole[: whole.index(b"\n") + 1])
        assert doctor(shared) >= LOST, flag
        path.write_bytes(whole)
        shared.git("update-index", flag.replace("--", "--no-"), name)
        assert doctor(shared) == set()


def test_what_was_lost_and_is_there_again_is_no_longer_told(shared):
    shared.git("revert", "--no-edit", "HEAD")
    hint = next(one.hint for one in examine(shared.root, anchor="auto").findings if one.rule == "ledger-append-only")
    assert "git checkout " in hint
    shared.git("checkout", "-q", re.search("checkout ([0-9a-f]+)", hint)[1], "--", "memories", "audit")
    shared.commit("bring it back")
    assert doctor(shared) == set()


def test_the_target_branch_of_a_ci_job(shared, monkeypatch):
    shared.git("branch", "target")
    shared.branch("work", "HEAD~1")
    shared.log("the work")
    shared.commit("the work")
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("GITHUB_BASE_REF", "target")
    assert doctor(shared, is_full=True) == set()  # only behind
    rewrite(shared, "wrote it", "stole it")
    shared.git("add", "-A")
    shared.git("reset", "-q", "--soft", "HEAD~1")
    shared.git("commit", "-q", "--amend", "-m", "rewritten")
    assert doctor(shared, is_full=True) >= LOST
    monkeypatch.setenv("GITHUB_BASE_REF", "nowhere")
    assert "anchor-blind" in rules(examine(shared.root, anchor="auto", is_full=True), "warning")


def test_a_named_anchor_must_be_held_whole(shared):
    shared.git("branch", "before")
    shared.git("reset", "-q", "--hard", "HEAD~1")
    assert doctor(shared) == set()
    assert doctor(shared, "before") == BOTH


def test_a_shallow_clone_is_blind_and_says_so(shared, tmp_path):
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{shared.top}", "clone")
    for _ in range(2):
        report = examine(tmp_path / "clone", anchor="auto")
        assert [(one.rule, one.severity) for one in report.findings] == [("anchor-blind", "warning")]


# --- honest work ----------------------------------------------------------------------------------------------------


def sides(shared):
    """Let two branches log, starting from the first commit of episodes."""
    shared.branch("side", "HEAD~1")
    shared.log("on the side", 2)
    shared.commit("on the side")
    assert doctor(shared) == set()
    shared.switch("main")
    assert doctor(shared) == set()


def test_merge(shared):
    sides(shared)
    shared.git("merge", "-q", "--no-commit", "side")
    assert judge_staged(shared) == set()
    shared.git("commit", "-q", "--no-edit")
    assert doctor(shared) == set()
    shared.log("joins")
    shared.commit()
    assert doctor(shared) == set()


@pytest.mark.parametrize("way", ["rebase", "squash", "cherry-pick", "stash", "switch", "reset", "amend", "soft reset"])
def test_honest(shared, way):
    sides(shared)
    if way == "rebase":
        shared.switch("side")
        shared.git("rebase", "-q", "main")
    elif way == "squash":
        shared.git("merge", "-q", "--squash", "side")
        assert judge_staged(shared) == set()
        shared.commit("squashed")
    elif way == "cherry-pick":
        shared.git("cherry-pick", "side")
    elif way == "stash":
        shared.log("stashed")
        shared.git("add", "-A")
        shared.git("stash", "-q")
        assert doctor(shared) == set()
        shared.git("stash", "pop", "-q")
    elif way == "switch":
        shared.switch("side")
    elif way == "reset":
        shared.git("reset", "-q", "--hard", "HEAD~1")
    elif way == "amend":
        shared.log("forgot to add")
        shared.git("add", "-A")
        assert judge_staged(shared) == set()
        shared.git("commit", "-q", "--amend", "--no-edit")
    else:
        shared.git("reset", "-q", "--soft", "HEAD~1")
        assert judge_staged(shared) == set()
    assert doctor(shared) == set()
    assert doctor(shared, is_full=True) == set()


def test_forget(shared, monkeypatch):
    path = episodes(shared)[0].relative_to(shared.root).as_posix()
    monkeypatch.chdir(shared.root)
    assert main(["forget", path, "--reason", "out of date"]) == 0
    assert doctor(shared) == set()
    shared.git("add", "-A")
    assert judge_staged(shared) == set()
    shared.git("commit", "-q", "-m", "forget")
    assert doctor(shared) == set()
    assert judge_staged(shared) == set()


def test_a_forgotten_body_that_a_merge_brings_back(shared, monkeypatch):
    put = fact("we deploy on Tuesdays", "deploy")
    shared.put(*put)
    shared.commit("a fact")
    shared.branch("side")
    shared.put(put[0], put[1] + "Always.\n")
    shared.commit("more of it")
    shared.switch("main")
    monkeypatch.chdir(shared.root)
    assert main(["forget", put[0], "--reason", "out of date"]) == 0
    shared.commit("forget")
    shared.git("merge", "-q", "side", may_fail=True)
    shared.git("checkout", "-q", "--theirs", put[0])
    shared.git("add", "-A")
    assert judge_staged(shared) == {"memory-forgotten"}
    shared.git("rm", "-qf", put[0])
    assert judge_staged(shared) == set()


def test_two_branches_that_both_put_one_fact(shared):
    path, body = fact("we deploy on Tuesdays", "deploy")
    shared.put(path, body)
    shared.commit("a fact")
    assert doctor(shared) == set()
    shared.branch("side")
    shared.put(path, body.replace("Tuesdays", "Fridays"))
    shared.commit("fridays")
    shared.switch("main")
    shared.put(path, body.replace("Tuesdays", "Mondays"))
    shared.git("add", "-A")
    assert judge_staged(shared) == set()
    shared.commit("mondays")
    shared.git("merge", "-q", "-X", "ours", "--no-edit", "side")
    assert doctor(shared) == set()


def test_a_torn_tail_that_was_committed_may_be_cut(shared):
    path = newest_segment(shared)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[0][:50])
    shared.git("commit", "-q", "-a", "--no-verify", "-m", "torn")
    path.write_bytes(whole)
    shared.git("add", "-A")
    assert judge_staged(shared) == set()
    shared.commit("cut")
    assert doctor(shared) == set()


def test_damage_that_was_committed_may_be_mended(shared):
    body, segment = episodes(shared)[0], segments(shared)[-1]
    wholes = body.read_bytes(), segment.read_bytes()
    body.write_bytes(wholes[0].replace(b"\n", b"\r\n"))
    segment.write_bytes(wholes[1].replace(b'"agent"', b'"agenz"', 1))
    shared.git("commit", "-q", "-a", "--no-verify", "-m", "an editor was here")
    body.write_bytes(wholes[0])
    segment.write_bytes(wholes[1])
    shared.commit("mended")
    assert doctor(shared) == set()
    assert doctor(shared, is_full=True) == set()


def test_uncommitted_work_is_told_as_information(shared):
    shared.log("new")
    report = examine(shared.root, anchor="auto")
    assert [(one.rule, one.severity) for one in report.findings] == [("vault-uncommitted", "info")]
    assert "and 1 more are not in HEAD" in report.findings[0].message


# --- what is staged -------------------------------------------------------------------------------------------------


def test_a_whole_transaction_is_staged(shared):
    shared.log("new", 3)
    shared.git("add", "memories", "audit")
    assert judge_staged(shared) == set()


@pytest.mark.parametrize(("what", "rule"), [("memories", "memory-unlogged"), ("audit", "memory-missing")])
def test_one_side_is_staged_without_the_other(shared, what, rule):
    shared.log("new")
    shared.git("add", what)
    report = staged.examine(repository.open_at(shared.root))
    assert [(one.rule, one.hint) for one in report.findings] == [(rule, "stage both sides: `git add memories audit`")]
    assert judge_staged(shared) == {rule}


def test_half_a_transaction_is_staged(shared):
    shared.log("new")
    path = newest_segment(shared)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"\n") + 1])
    shared.git("add", "-A")
    path.write_bytes(whole)
    assert judge_staged(shared) == {"ledger-tx", "memory-unlogged"}
    assert rules(examine(shared.root)) == set()


def hook(repo):
    """Install the doctor as git's own pre-commit hook."""
    file = Path(repo.git("rev-parse", "--git-path", "hooks")) / "pre-commit"
    file = file if file.is_absolute() else repo.top / file
    file.parent.mkdir(exist_ok=True)
    store = os.path.relpath(repo.root, repo.top)
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cyberos --store "{store}" doctor --staged\n')
    file.chmod(0o755)


def commits(repo, *arguments):
    before = repo.head
    repo.git("commit", "-q", "-m", "work", *arguments, may_fail=True)
    return repo.head != before


def test_the_hook_with_commit_a_and_commit_path(shared):
    hook(shared)
    shared.log("new")
    shared.git("add", "-N", "memories")  # commit -a takes what git knows of
    assert not commits(shared, "-a")
    assert not commits(shared, "memories")
    shared.git("add", "-N", "audit")
    assert not commits(shared, "audit")
    assert commits(shared, "-a")
    assert doctor(shared) == set()


def test_the_hook_in_a_folder_of_a_worktree(tmp_path):
    repo = Repo.begin(tmp_path / "repo", "tools/memory")
    repo.git("worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    other = Repo(tmp_path / "other/tools/memory", tmp_path / "other")
    hook(other)
    other.log("new")
    other.git("add", "tools/memory/memories")
    assert not commits(other)
    other.git("add", "-A")
    assert commits(other)
    assert doctor(other) == set()
    other.git("revert", "--no-edit", "HEAD")
    assert doctor(other) == BOTH


def test_a_vault_in_a_submodule(shared, tmp_path):
    git(tmp_path, "init", "-q", "outer")
    outer = tmp_path / "outer"
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(shared.top), "memory")
    inner = Repo(outer / "memory")
    inner.log("new")
    inner.git("add", "audit")
    assert judge_staged(inner) == {"memory-missing"}
    inner.commit()
    assert doctor(inner) == set()


def test_an_unborn_branch(tmp_path):
    git(tmp_path, "init", "-q", "fresh")
    fresh = Repo(tmp_path / "fresh")
    init(fresh.root)
    fresh.log("first")
    assert doctor(fresh) == set()
    fresh.git("add", "memories")
    assert "memory-unlogged" in judge_staged(fresh)
    fresh.git("add", "-A")
    assert judge_staged(fresh) == set()


def test_the_index_that_the_environment_names(shared, monkeypatch):
    shared.log("new")
    index = Path(shared.git("rev-parse", "--absolute-git-dir")) / "other-index"
    shutil.copy(index.with_name("index"), index)
    monkeypatch.chdir(shared.top)
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/other-index")
    shared.git("add", "memories")
    assert judge_staged(shared) == {"memory-unlogged"}
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert judge_staged(shared) == set()


def test_a_staged_link_is_no_memory(shared):
    path = shared.root / "memories/facts/ab/cd/link.md"
    path.parent.mkdir(parents=True)
    path.symlink_to("/etc/hostname")
    shared.git("add", "-A")
    assert judge_staged(shared) == {"layout-file-regular"}


# --- what is kept, and what a repository may not do -----------------------------------------------------------------


def test_kept_files_that_are_damaged_foreign_or_old_are_ignored(shared):
    folder = shared.root / ".cyberos"
    names = [name for name in ("last-report", "ledger-at-head", "verified") if (folder / name).exists()]
    assert names == ["last-report", "ledger-at-head", "verified"]
    wholes = {name: (folder / name).read_bytes() for name in names}
    episodes(shared)[0].unlink()
    for name in names:
        for change in (lambda blob: blob[:-1], lambda blob: b"", lambda blob: blob.replace(b" 1 ", b" 2 ", 1) + b"x"):
            (folder / name).write_bytes(change(wholes[name]))
            assert doctor(shared) == {"episode-immutable", "memory-missing"}
            assert "memory-missing" not in judge_staged(shared)
            (folder / name).write_bytes(wholes[name])


def test_a_change_after_a_sound_report_is_seen(shared):
    path = episodes(shared)[0]
    whole, status = path.read_bytes(), path.stat()
    for _ in range(2):
        assert doctor(shared) == set()
        path.write_bytes(whole.replace(b"wrote", b"stole"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert "memory-modified" in doctor(shared)
        path.write_bytes(whole)
    extra = shared.root / "memories/facts/ab/cd/extra.md"
    extra.parent.mkdir(parents=True)
    extra.write_text(fact("new")[1])
    assert doctor(shared) == {"memory-unlogged"}


def test_a_repository_cannot_make_the_doctor_run_anything(shared, tmp_path):
    script, mark = tmp_path / "evil", tmp_path / "ran"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external", "filter.evil.clean", "filter.a=b.clean", "filter.evil.process"):
        shared.git("config", name, str(script))
    shared.git("config", "diff.evil.textconv", str(script))
    shared.git("config", "diff.evil.command", str(script))
    (shared.top / ".git/info/attributes").write_text("* filter=evil diff=evil\n*.jsonl filter=a=b diff=evil\n")
    path = episodes(shared)[0]
    path.write_bytes(path.read_bytes())
    examine(shared.root, anchor="auto")
    staged.examine(repository.open_at(shared.root))
    assert not mark.exists()


def test_a_doctor_outside_git_and_one_where_git_does_not_answer(root, monkeypatch):
    assert rules(examine(root, anchor="auto")) == set()
    git(root, "init", "-q")
    log(Writer(root), episode("new"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert rules(examine(root, anchor="auto"), "warning") == {"anchor-blind"}
