"""The ledger under everything that git does to a repository.

For each: no conflict, no row lost (the rows are counted beside git), none twice, no damage, and the next write joins
all heads. `Repo.expect` insists on all of it.
"""

from __future__ import annotations

import shutil
import sys

import pytest

from cyberos.core import ledger
from cyberos.core.errors import VaultNotFound
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from support import Repo, check, fact, files, git, hashes, staged


def diverge(repo: Repo, *names: str) -> dict[str, set[str]]:
    """Log and commit on main and on a branch of each name, all from one commit; give the rows that each came to hold."""
    start = repo.head
    rows = {}
    base = repo.hashes()
    for name in names:
        repo.branch(name, start)
        rows[name] = base | repo.log(name, 2)
        repo.commit(name)
    repo.switch("main")
    rows["main"] = base | repo.log("main", 2)
    repo.commit("main")
    return rows


# --- joining branches -----------------------------------------------------------------------------------------------


def test_merge(repo):
    rows = diverge(repo, "side")
    repo.git("merge", "-q", "--no-edit", "side")
    repo.expect(rows["main"] | rows["side"], heads=2)


@pytest.mark.parametrize(
    "strategy", [["--strategy=ort"], ["--strategy=recursive"], ["-Xours"], ["-Xtheirs"], ["--strategy=resolve"]]
)
def test_merge_by_any_strategy(strategy, repo):
    rows = diverge(repo, "side")
    repo.git("merge", "-q", "--no-edit", *strategy, "side")
    repo.expect(rows["main"] | rows["side"], heads=2)


def test_fast_forward(repo):
    rows = diverge(repo, "side")
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.git("merge", "-q", "--ff-only", "side")
    repo.expect(rows["side"], heads=1)


def test_rebase(repo):
    rows = diverge(repo, "side")
    repo.switch("side")
    repo.git("rebase", "-q", "main")
    repo.expect(rows["main"] | rows["side"], heads=2)


def test_pull_with_rebase_and_push(repo, tmp_path):
    """Two clones of one forge, each logging and pushing in turn."""
    forge = tmp_path / "forge.git"
    git(repo.top, "clone", "-q", "--bare", str(repo.top), str(forge))
    clones = []
    for name in ("a", "b"):
        git(tmp_path, "clone", "-q", str(forge), str(tmp_path / name))
        clones.append(Repo(tmp_path / name))
    rows = repo.hashes()
    for turn in range(3):
        for clone in clones:
            rows |= clone.log(f"{turn}")
            clone.commit()
            clone.git("pull", "-q", "--rebase" if turn % 2 else "--no-rebase", "--no-edit")
            clone.git("push", "-q")
    clones[0].git("pull", "-q")
    clones[0].expect(rows)


def test_squash(repo):
    rows = diverge(repo, "side")
    repo.git("merge", "-q", "--squash", "side")
    repo.commit("squashed")
    repo.expect(rows["main"] | rows["side"], heads=2)


def test_squash_twice_of_a_branch_that_lives_on(repo):
    rows = diverge(repo, "side")
    for turn in range(3):
        repo.git("merge", "-q", "--squash", "side")
        repo.commit("squashed")
        repo.switch("side")
        rows["side"] |= repo.log(f"more {turn}")
        repo.commit()
        repo.switch("main")
    repo.git("merge", "-q", "--no-edit", "side")
    repo.expect(rows["main"] | rows["side"], heads=2)


def test_octopus_of_four(repo):
    rows = diverge(repo, "a", "b", "c", "d")
    repo.git("merge", "-q", "--no-edit", "a", "b", "c", "d")
    repo.expect(set().union(*rows.values()), heads=5)


def test_criss_cross(repo):
    rows = diverge(repo, "side")
    main, side = repo.head, repo.git("rev-parse", "side")
    repo.git("merge", "-q", "--no-edit", side)
    joined = repo.log("on main after the cross")
    repo.commit()
    repo.switch("side")
    repo.git("merge", "-q", "--no-edit", main)
    other = repo.log("on side after the cross")
    repo.commit()
    repo.git("merge", "-q", "--no-edit", "main")
    repo.expect(rows["main"] | rows["side"] | joined | other, heads=2)


def test_merges_that_both_joined_the_same_heads(repo):
    rows = diverge(repo, "a", "b")
    both = set()
    for name in ("a", "b"):
        repo.branch(f"join-{name}", "main")
        repo.git("merge", "-q", "--no-edit", "a", "b")
        both |= repo.log(name)
        repo.commit()
    repo.git("merge", "-q", "--no-edit", "join-a")
    repo.expect(set().union(*rows.values(), both), heads=2)


def test_bare_merge_as_a_forge_does_it(repo, tmp_path):
    rows = diverge(repo, "side")
    bare = tmp_path / "bare.git"
    git(repo.top, "clone", "-q", "--bare", str(repo.top), str(bare))
    tree = git(bare, "merge-tree", "--write-tree", "main", "side")
    commit = git(bare, "commit-tree", tree, "-p", "main", "-p", "side", "-m", "merged by the forge")
    git(bare, "update-ref", "refs/heads/main", commit)
    git(tmp_path, "clone", "-q", str(bare), str(tmp_path / "clone"))
    Repo(tmp_path / "clone").expect(rows["main"] | rows["side"], heads=2)


def test_merge_where_a_forge_ignores_the_union_driver(repo):
    (repo.root / ".gitattributes").write_text("audit/** -text\nmemories/** -text\n")
    repo.commit("no union")
    rows = diverge(repo, "a", "b", "c")
    repo.git("merge", "-q", "--no-edit", "a")
    repo.git("merge", "-q", "--no-edit", "b", "c")
    repo.expect(set().union(*rows.values()), heads=4)


def test_merge_of_branches_that_put_the_same_fact_conflicts_only_in_the_fact(repo):
    start = repo.hashes()
    repo.branch("side")
    side = repo.put(*fact("from side", "name"))
    repo.commit()
    repo.switch("main")
    main = repo.put(*fact("from main", "name"))
    repo.commit()
    repo.git("merge", "-q", "--no-edit", "side", may_fail=True)
    assert repo.git("diff", "--name-only", "--diff-filter=U") == fact("", "name")[0]
    repo.git("checkout", "-q", "--theirs", fact("", "name")[0])
    repo.commit("resolved")
    repo.expect(start | side | main, heads=2)
    found = ledger.scan(repo.root).memories[fact("", "name")[0]]
    assert len(found.puts) == 2


# --- taking single commits ------------------------------------------------------------------------------------------


def pick_second(repo: Repo) -> tuple[set[str], set[str], set[str]]:
    """Commit two rows of work on a branch, and pick the second onto main; give (main, first, second)."""
    main = repo.hashes()
    repo.branch("side")
    first = repo.log("first")
    repo.commit()
    second = repo.log("second")
    repo.commit()
    repo.switch("main")
    repo.git("cherry-pick", "side")
    return main, first, second


def test_cherry_pick_leaves_a_gap_that_a_merge_closes(repo):
    main, first, second = pick_second(repo)
    assert len(ledger.scan(repo.root).missing) == 1
    repo.git("merge", "-q", "--no-edit", "side")
    assert ledger.scan(repo.root).missing == {}
    repo.expect(main | first | second, heads=1)


def test_cherry_pick_then_a_log_then_the_merge(repo):
    main, first, second = pick_second(repo)
    logged = repo.log("over the gap")
    repo.commit()
    assert len(check(repo.root, heads=1).missing) == 1
    repo.git("merge", "-q", "--no-edit", "side")
    assert ledger.scan(repo.root).missing == {}
    repo.expect(main | first | second | logged, heads=1)


def test_a_gap_that_nothing_will_close_is_acknowledged(repo):
    main, _, second = pick_second(repo)
    repo.git("branch", "-D", "side")
    before = repo.hashes()
    missing = list(ledger.scan(repo.root).missing)
    assert Writer(repo.root).acknowledge_gap("the branch was dropped") == missing
    assert ledger.scan(repo.root).missing == {}
    repo.expect(main | second | (repo.hashes() - before), heads=1)


def test_the_same_commit_picked_by_two_branches(repo):
    rows = diverge(repo, "side")
    for name in ("a", "b"):
        repo.branch(name, "main")
        rows["main"] |= repo.log(f"on {name}")
        repo.commit()
        repo.git("cherry-pick", "side")
    repo.git("merge", "-q", "--no-edit", "a")
    repo.expect(rows["main"] | rows["side"])


def pick_where_git_sees_a_renamed_folder(repo: Repo, *options: str) -> tuple[set[str], str]:
    """Pick the second try of a task onto a branch that lacks the first, and has another task told in like words."""
    main = repo.hashes()
    repo.branch("side")
    repo.log("the same task, told in many words that episodes of one project share")
    repo.commit("the first try")
    second = repo.log("the same task, told in many words that episodes of one project share")
    repo.commit("the second try")
    repo.switch("main")
    main |= repo.log("an other task, told in many words that episodes of one project share")
    repo.commit("another task")
    repo.git(*options, "cherry-pick", "side", may_fail=True)
    return main | second, repo.git("ls-files", "--unmerged")


def test_git_may_guess_that_a_folder_was_renamed_and_ask_at_a_cherry_pick_but_loses_nothing(repo):
    """CONFLICT (file location): git puts the second try into the folder of the other task, and asks.

    Its name says where it belongs. Whether git guesses so is a matter of its version, and of how alike the texts are.
    """
    rows, unmerged = pick_where_git_sees_a_renamed_folder(repo)
    for path in {line.split("\t")[1] for line in unmerged.splitlines()}:
        name = path.rsplit("/", 1)[1]
        right = repo.root / "memories" / "episodes" / name[:2] / name[2:4] / name
        right.parent.mkdir(parents=True, exist_ok=True)
        (repo.root / path).rename(right)
    if unmerged:
        repo.git("add", "-A")
        repo.git("-c", "core.editor=true", "cherry-pick", "--continue")
    repo.expect(rows, heads=2)


def test_a_cherry_pick_without_gits_guess_never_asks(repo):
    rows, unmerged = pick_where_git_sees_a_renamed_folder(repo, "-c", "merge.directoryRenames=false")
    assert unmerged == ""
    repo.expect(rows, heads=2)


def test_a_revert_is_what_the_doctor_is_for_but_the_ledger_goes_on(repo):
    base = repo.hashes()
    repo.log("regretted")
    repo.commit()
    repo.git("revert", "--no-edit", "HEAD")
    repo.expect(base, heads=1)


# --- work that is not committed -------------------------------------------------------------------------------------


def test_stash_and_pop_with_a_commit_between(repo):
    rows = diverge(repo, "side")["main"]
    stashed = repo.log("stashed")
    repo.git("add", "-A")
    repo.git("stash", "-q")
    assert repo.hashes() == rows
    other = repo.log("meanwhile")
    repo.commit()
    repo.git("stash", "pop", "-q")
    repo.expect(rows | stashed | other, heads=2)


def test_stash_of_untracked_files_and_pop(repo):
    rows = repo.hashes()
    stashed = repo.log("stashed", 2)
    repo.git("stash", "-q", "-u")
    assert repo.hashes() == rows
    other = repo.log("meanwhile", 2)
    repo.git("stash", "pop", "-q")
    repo.expect(rows | stashed | other, heads=2)


def test_stash_of_a_part_and_a_write_and_pop(repo):
    rows = repo.hashes()
    staged_rows = repo.log("in the index")
    repo.git("add", "-A")
    left = repo.log("not in the index")
    repo.git("stash", "-q", "--keep-index", "-u")
    assert repo.hashes() == rows | staged_rows
    other = repo.log("meanwhile")
    repo.git("stash", "pop", "-q")
    repo.expect(rows | staged_rows | left | other, heads=2)


def test_branches_switched_with_rows_in_the_working_tree(repo):
    rows = diverge(repo, "side")
    loose = repo.log("not committed", 2)
    repo.switch("side")
    assert repo.hashes() == rows["side"] | loose
    more = repo.log("on the other branch")
    repo.commit()
    repo.switch("main")
    repo.git("merge", "-q", "--no-edit", "side")
    repo.expect(rows["main"] | rows["side"] | loose | more)


def test_pull_with_rows_in_the_working_tree(repo):
    rows = diverge(repo, "side")
    loose = repo.log("not committed")
    repo.git("merge", "-q", "--no-edit", "side")
    repo.expect(rows["main"] | rows["side"] | loose, heads=2)


def test_rebase_with_autostash(repo):
    rows = diverge(repo, "side")
    repo.switch("side")
    loose = repo.log("not committed")
    repo.git("add", "-A")
    repo.git("rebase", "-q", "--autostash", "main")
    repo.expect(rows["main"] | rows["side"] | loose)


def test_log_between_add_and_commit(repo):
    rows = repo.hashes() | repo.log("one")
    repo.git("add", "-A")
    rows |= repo.log("two")
    repo.git("commit", "-q", "-m", "one")
    assert repo.git("diff", "--name-only") == "", "git has not seen what grew"
    rows |= repo.log("three")
    repo.commit("two and three")
    repo.expect(rows, heads=1)


def test_restoring_the_ledger_from_the_index_after_another_log(repo):
    rows = repo.hashes() | repo.log("one")
    repo.git("add", "-A")
    rows |= repo.log("two")
    repo.git("checkout", "-q", "--", "audit/")
    repo.expect(rows, heads=1)


def test_restoring_everything_from_head_takes_only_what_was_never_git_s(repo):
    rows = repo.hashes()
    repo.log("never committed")
    repo.git("add", "-A")
    kept = repo.log("not even added")
    repo.git("reset", "-q", "--hard")
    assert repo.hashes() == rows | kept
    check(repo.root)


def test_reset_hard_behind_commits(repo):
    rows = repo.hashes()
    for number in range(3):
        repo.log(str(number))
        repo.commit()
    dropped = repo.head
    repo.git("reset", "-q", "--hard", "HEAD~3")
    repo.expect(rows, heads=1)
    repo.commit()
    rows = repo.hashes()
    repo.git("merge", "-q", "--no-edit", dropped)
    assert len(repo.hashes()) == len(rows) + 6
    check(repo.root, heads=2)


def test_reset_soft_and_commit_again_and_merge_back(repo):
    rows = repo.hashes() | repo.log("one")
    repo.commit()
    first = repo.head
    repo.git("reset", "-q", "--soft", "HEAD~1")
    rows |= repo.log("two")
    repo.commit("again")
    repo.git("merge", "-q", "--no-edit", first)
    repo.expect(rows, heads=1)


def test_reset_mixed_and_a_log_and_merge_back(repo):
    rows = repo.hashes() | repo.log("one")
    repo.commit()
    first = repo.head
    repo.git("reset", "-q", "HEAD~1")
    rows |= repo.log("two")
    repo.commit("again")
    repo.git("merge", "-q", "--no-edit", first)
    repo.expect(rows, heads=1)


def test_amend(repo):
    rows = repo.hashes() | repo.log("one")
    repo.commit()
    first = repo.head
    rows |= repo.log("two")
    repo.git("add", "-A")
    repo.git("commit", "-q", "--amend", "-m", "both")
    repo.git("merge", "-q", "--no-edit", first)
    repo.expect(rows, heads=1)


def test_commit_of_all_tracked_files(repo):
    """`commit -a` knows no new files: the rows stay loose, and are committed later."""
    rows = repo.hashes() | repo.log("one")
    (repo.top / "README.md").write_text("changed\n")
    repo.git("commit", "-q", "-a", "-m", "the code")
    rows |= repo.log("two")
    repo.commit("the memory")
    repo.expect(rows, heads=1)


def test_commit_of_a_path(repo):
    rows = repo.hashes() | repo.log("one")
    repo.git("add", "-A")
    (repo.top / "README.md").write_text("changed\n")
    repo.git("commit", "-q", "-m", "the code", "README.md")
    rows |= repo.log("two")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "the ledger", "audit")
    rows |= repo.log("three")
    repo.commit("the memories")
    repo.expect(rows, heads=1)


def test_log_while_pre_commit_has_stashed(repo):
    """pre-commit saves what is not staged as a patch, checks everything out, runs its hooks, and applies the patch."""
    rows = repo.hashes() | repo.put(*fact("one", "name"))
    repo.commit()
    rows |= repo.log("staged")
    repo.git("add", "-A")
    (repo.top / "README.md").write_text("not staged\n")
    rows |= repo.put(*fact("two", "name"))
    rows |= repo.log("not staged")
    patch = repo.top.parent / "patch"
    tree = repo.git("write-tree")
    patch.write_text(repo.git("diff-index", "--binary", "--no-color", "--no-ext-diff", "-p", tree, "--") + "\n")
    repo.git("checkout", "-q", "--", ".")
    rows |= repo.log("by a hook", 2)
    repo.git("apply", "--whitespace=nowarn", str(patch), may_fail=True)
    if (repo.top / "README.md").read_text() != "not staged\n":  # pre-commit rolls back what its hooks did, and retries
        repo.git("checkout", "-q", "--", ".")
        repo.git("apply", "--whitespace=nowarn", str(patch))
    repo.git("commit", "-q", "-m", "staged")
    assert (repo.root / fact("", "name")[0]).read_text() == fact("two")[1]
    repo.commit("the rest")
    repo.expect(rows, heads=1)


def test_log_inside_a_hook_of_a_commit(repo):
    hook = repo.top / ".git" / "hooks" / "pre-commit"
    source = (
        "from cyberos.core.episode import Episode, log; from cyberos.core.writer import Writer; "
        "log(Writer('.'), Episode(task='from the hook', approach='a', outcome='success', duration_ms=0))"
    )
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{source}"\n')
    hook.chmod(0o755)
    rows = repo.hashes() | repo.log("one")
    for options in ((), ("-a",), ("README.md",)):
        (repo.top / "README.md").write_text(f"{options}\n")
        repo.git("add", "-A")
        before = repo.hashes()
        repo.git("commit", "-q", "-m", "x", *options)
        rows |= repo.hashes() - before
        assert repo.hashes() != before
        rows |= repo.log("after")
    hook.unlink()
    repo.commit()
    assert repo.git("status", "--porcelain") == ""
    repo.expect(rows, heads=1)


# --- other places ---------------------------------------------------------------------------------------------------


def test_a_second_worktree(repo, tmp_path):
    repo.git("worktree", "add", "-q", str(tmp_path / "second"), "-b", "side")
    second = Repo(tmp_path / "second")
    rows = repo.hashes()
    for turn in range(3):
        rows |= repo.log(f"here {turn}") | second.log(f"there {turn}")
        if turn % 2:
            repo.commit()
        second.commit()
    repo.commit()
    repo.git("merge", "-q", "--no-edit", "side")
    second.git("merge", "-q", "--ff-only", "main")
    assert second.hashes() == rows
    repo.expect(rows, heads=2)


def test_a_vault_in_a_sub_folder(tmp_path):
    repo = Repo.begin(tmp_path / "repo", "docs/memory")
    rows = diverge(repo, "side")
    repo.git("merge", "-q", "--no-edit", "side")
    repo.expect(rows["main"] | rows["side"], heads=2)


def test_a_vault_in_a_submodule(tmp_path):
    inner = Repo.begin(tmp_path / "inner")
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q", "-b", "main")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.top), "memory")
    git(outer, "commit", "-q", "-m", "with a memory")
    repo = Repo(outer / "memory")
    rows = diverge(repo, "side")
    repo.git("merge", "-q", "--no-edit", "side")
    git(outer, "add", "-A")
    git(outer, "commit", "-q", "-m", "moved on")
    repo.expect(rows["main"] | rows["side"], heads=2)


def test_a_vault_reached_through_a_link(repo, tmp_path):
    (tmp_path / "way").symlink_to(repo.root)
    through = Repo(tmp_path / "way", repo.top)
    rows = diverge(through, "side")
    repo.git("merge", "-q", "--no-edit", "side")
    through.expect(rows["main"] | rows["side"], heads=2)


@pytest.mark.parametrize("options", [[], ["--depth=1", "--no-local"], ["--filter=blob:none", "--no-local"]])
def test_a_fresh_clone(options, repo, tmp_path):
    rows = diverge(repo, "side")
    repo.git("merge", "-q", "--no-edit", "side")
    git(tmp_path, "clone", "-q", *options, str(repo.top), str(tmp_path / "clone"))
    clone = Repo(tmp_path / "clone")
    assert not (clone.root / ".cyberos").exists()
    assert init(clone.root).is_new is False
    clone.expect(rows["main"] | rows["side"], heads=2)


def test_clean_takes_what_is_not_committed_and_nothing_else(repo):
    rows = repo.hashes() | repo.log("committed")
    repo.commit()
    repo.log("not committed")
    repo.git("clean", "-q", "-fdx")
    assert not (repo.root / ".cyberos").exists()
    repo.expect(rows, heads=1)


def test_without_reflogs(tmp_path):
    repo = Repo.begin(tmp_path / "repo")
    repo.git("config", "core.logAllRefUpdates", "false")
    shutil.rmtree(repo.top / ".git" / "logs")
    rows = diverge(repo, "side", "other")
    repo.git("pack-refs", "--all")
    repo.git("merge", "-q", "--no-edit", "side")
    loose = repo.log("loose")
    repo.git("merge", "-q", "--no-edit", "other")
    repo.expect(set().union(*rows.values(), loose))


def test_with_line_ends_of_windows(tmp_path):
    repo = Repo.begin(tmp_path / "repo")
    repo.git("config", "core.autocrlf", "true")
    rows = diverge(repo, "side")
    repo.git("merge", "-q", "--no-edit", "side")
    repo.git("checkout", "-q", "--", ".")
    assert not any(b"\r" in file.read_bytes() for file in repo.root.rglob("*.jsonl"))
    repo.expect(rows["main"] | rows["side"], heads=2)


@pytest.mark.parametrize("version", ["3", "4"])
@pytest.mark.parametrize("is_split", [False, True])
def test_with_another_form_of_index(version, is_split, repo):
    repo.git("config", "index.version", version)
    repo.git("config", "core.splitIndex", str(is_split).lower())
    repo.git("update-index", "--index-version", version)
    rows = diverge(repo, "side")
    repo.git("add", "-A")
    rows["main"] |= repo.log("a")
    repo.git("add", "-A")
    rows["main"] |= repo.log("b")
    repo.git("commit", "-q", "-m", "a")
    repo.git("merge", "-q", "--no-edit", "side")
    repo.expect(rows["main"] | rows["side"], heads=2)


# --- vaults that begin ----------------------------------------------------------------------------------------------


def test_git_begun_under_a_running_process(tmp_path):
    root = init(tmp_path / "vault").root
    writer = Writer(root)
    writer.put(*fact("outside git"))
    git(root, "init", "-q", "-b", "main")
    writer.put(*fact("inside git"))
    repo = Repo(root)
    first = repo.commit("everything")
    writer.put(*fact("after the commit"))
    repo.branch("side", first)
    side = repo.commit("carried over")
    repo.switch("main")
    writer.put(*fact("on main"))
    repo.commit("more")
    repo.git("merge", "-q", "--no-edit", side)
    assert len(repo.hashes()) == 5
    repo.expect(repo.hashes())


def test_two_branches_that_both_began_a_vault_have_one(tmp_path):
    top = tmp_path / "repo"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "README.md").write_text("a project\n")
    repo = Repo(top)
    start = repo.commit("first")
    rows, ids = set(), set()
    for name in ("a", "b"):
        repo.branch(name, start)
        made = init(top)
        assert made.is_new
        ids.add(made.vault)
        repo.log(name, 2)
        rows |= repo.hashes()
        repo.commit(name)
    assert ids == {start}
    repo.git("merge", "-q", "--no-edit", "a")
    assert len(rows) == 10
    repo.expect(rows, heads=2)
    assert init(top).is_new is False


def test_two_branches_whose_vaults_have_nothing_in_common_are_joined_by_adoption(tmp_path):
    top = tmp_path / "repo"
    top.mkdir()
    git(top, "init", "-q", "-b", "a")
    repo = Repo(top)
    rows, ids = {}, {}
    for name in ("a", "b"):
        if name == "b":
            repo.git("checkout", "-q", "--orphan", "b")
            repo.git("rm", "-q", "-rf", ".")
            shutil.rmtree(top / ".cyberos")
        ids[name] = init(top).vault  # random: the branch has no commit yet
        repo.log(name, 2)
        rows[name] = repo.hashes()
        repo.commit(name)
    repo.git("merge", "-q", "--no-edit", "--allow-unrelated-histories", "a")
    found = ledger.scan(top)
    assert found.vault == ids["a"][:16], "the older one is the vault's own"
    assert {row["hash"] for row in found.foreign} == rows["b"]
    own = repo.log("before the adoption")
    assert {row["hash"] for row in ledger.scan(top).foreign} == rows["b"]
    assert len(ledger.scan(top).heads) == 1
    before = repo.hashes()
    Writer(top).adopt_vault(ids["b"])
    adoption = repo.hashes() - before
    found = ledger.scan(top)
    assert found.foreign == []
    assert found.vaults == [ids["a"][:16], ids["b"][:16]]
    repo.expect(rows["a"] | rows["b"] | own | adoption, heads=2)


def test_a_vault_whose_init_was_stashed_away_says_so(tmp_path):
    top = tmp_path / "other"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "README.md").write_text("a project\n")
    other = Repo(top)
    other.commit("first")
    init(top)
    rows = other.hashes() | other.log("one")
    other.git("stash", "-q", "-u")
    with pytest.raises(VaultNotFound):
        Writer(top).put(*fact("x"))
    other.git("stash", "pop", "-q")
    other.expect(rows, heads=1)


# --- what a crash left, committed -----------------------------------------------------------------------------------


def tear(repo: Repo) -> None:
    """Leave the beginning of a row at the end of the newest segment, as a killed writer would."""
    segment = max(repo.root.glob("audit/*/*/*.jsonl"), key=lambda file: file.stat().st_mtime_ns)
    with segment.open("ab") as file:
        file.write(segment.read_bytes()[:100])


def test_a_torn_tail_that_was_committed_is_left_and_hinders_nothing(repo):
    rows = repo.hashes() | repo.log("whole")
    tear(repo)
    repo.commit("torn")
    other = repo.git("rev-parse", "HEAD~1")
    for turn in range(3):
        rows |= repo.log(str(turn))
        assert [fault.is_torn for fault in ledger.scan(repo.root).faults] == [True]
    assert repo.git("status", "--porcelain", "--untracked-files=no") == ""
    repo.commit()
    repo.branch("side", other)
    rows |= repo.log("side")
    repo.commit()
    repo.git("merge", "-q", "--no-edit", "main")
    found = check(repo.root, heads=2)
    assert {row["hash"] for row in found.rows} == rows
    repo.log("the next write joins all heads")
    check(repo.root, heads=1)


def test_a_torn_tail_that_git_has_not_seen_is_cut_and_kept(repo):
    rows = repo.hashes() | repo.log("whole")
    tear(repo)
    repo.expect(rows, heads=1)
    kept = list((repo.root / ".cyberos" / "lost+found").iterdir())
    assert [len(file.read_bytes()) for file in kept] == [100]


def test_a_body_left_in_the_stage_is_not_brought_back_to_a_branch_that_has_no_row_of_it(repo):
    rows = diverge(repo, "side")
    loose = repo.log("on main")
    assert staged(repo.root)
    repo.commit()
    repo.switch("side")
    repo.expect(rows["side"], heads=1)
    assert loose & repo.hashes() == set()
    repo.commit()
    repo.switch("main")
    repo.expect(rows["main"] | loose, heads=1)


def test_an_older_fact_that_git_brought_back_is_placed_anew(repo):
    rows = repo.hashes() | repo.put(*fact("one", "name"))
    repo.commit()
    rows |= repo.put(*fact("two", "name"))
    repo.git("checkout", "-q", "--", "memories")
    check(repo.root, is_settled=False)
    rows |= repo.log("the next write")
    repo.expect(rows, heads=1)
    assert (repo.root / fact("", "name")[0]).read_text() == fact("two")[1]


def test_forgetting_survives_a_merge_with_a_branch_that_still_has_the_body(repo):
    logged = repo.hashes() | repo.log("to be forgotten")
    repo.commit()
    path = next(iter(files(repo.root)))
    repo.branch("side")
    side = repo.log("elsewhere")
    repo.commit()
    repo.switch("main")
    Writer(repo.root).forget(path, "r")
    rows = repo.hashes() | logged | side
    repo.commit()
    repo.git("merge", "-q", "--no-edit", "side")
    assert path not in files(repo.root)
    repo.expect(rows, heads=2)
    assert ledger.scan(repo.root).memories[path].is_forgotten


def test_nothing_under_audit_or_episodes_ever_changes_in_history(repo):
    """What makes all of the above go: git's history of both only ever adds files."""
    rows = diverge(repo, "a", "b")
    repo.git("merge", "-q", "--no-edit", "a", "b")
    repo.log("after")
    repo.git("add", "-A")
    repo.log("between")
    repo.git("commit", "-q", "-m", "after")
    repo.commit("between")
    changed = repo.git(
        "log", "--all", "-m", "--name-status", "--diff-filter=MDRT", "--format=", "--", "audit", "memories/episodes"
    )
    assert changed == ""
    assert len(repo.hashes()) > len(set().union(*rows.values()))
    assert hashes(repo.root) == sorted(repo.hashes())
