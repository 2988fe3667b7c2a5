"""`doctor --staged` judges by what is staged, the team's own rules included, and its hints mend the index."""

import re
import shlex
import subprocess

import pytest

from cyberos.cli.main import main
from cyberos.core import contract, repository
from cyberos.core.writer import Writer
from cyberos.doctor import apart, staged
from cyberos.doctor.examination import examine
from doctor.test_git import episodes, newest_segment, shared  # noqa: F401 - a fixture
from support import Repo, fact, write_raw

LAW = contract.INVARIANTS_NAME
RULE = """version: 1
rules:
  - id: our-ticket-in-tags
    severity: {severity}
    scope: file
    description: An episode names its ticket.
    schema: {{kind: episode, frontmatter: {{required: [tags]}}}}
"""
OURS = RULE.format(severity="error")


def look(repo):
    return staged.examine(repository.open_at(repo.root)).findings


def rules(repo):
    return [one.rule for one in look(repo)]


# --- the team's rules -----------------------------------------------------------------------------------------------


def test_a_rule_that_is_only_in_the_working_tree_judges_nothing(shared):  # noqa: F811
    shared.log("new")
    shared.git("add", "-A")
    write_raw(shared.root / LAW, OURS)
    assert rules(shared) == []


def test_a_staged_rule_judges_what_is_staged_and_what_stays(shared):  # noqa: F811
    shared.log("new")
    write_raw(shared.root / LAW, OURS)
    shared.git("add", "-A")
    (shared.root / LAW).unlink()
    assert rules(shared) == ["our-ticket-in-tags"] * 5
    shared.commit()
    write_raw(shared.root / LAW, OURS)
    shared.commit("the rule")
    shared.log("another")
    shared.git("add", "memories", "audit")
    assert rules(shared) == ["our-ticket-in-tags"]  # what stays was judged when the rule came


def test_a_rule_whose_deletion_is_staged_judges_nothing(shared):  # noqa: F811
    write_raw(shared.root / LAW, OURS)
    shared.commit("the rule")
    shared.log("new")
    shared.git("add", "-A")
    assert rules(shared) == ["our-ticket-in-tags"]
    shared.git("rm", "-q", "--cached", LAW)
    assert (shared.root / LAW).exists()
    assert rules(shared) == []


def test_the_staged_state_of_a_rule_counts_and_not_the_edited_one(shared, monkeypatch, capsys):  # noqa: F811
    write_raw(shared.root / LAW, RULE.format(severity="warning"))
    shared.log("new")
    shared.git("add", "-A")
    write_raw(shared.root / LAW, OURS.replace("our-ticket", "our-other"))
    assert {(one.rule, one.severity) for one in look(shared)} == {("our-ticket-in-tags", "warning")}
    monkeypatch.chdir(shared.root)
    assert main(["doctor", "--staged", "--select", "our-ticket-in-tags", "--format", "sarif"]) == 0
    assert '"id": "our-ticket-in-tags"' in capsys.readouterr().out
    assert main(["doctor", "--staged", "--select", "our-other"]) == 2
    assert main(["doctor", "--select", "our-other"]) == 1


@pytest.mark.parametrize("content", ["rules: [\n", "- a\n", "x: &x [1]\ny: *x\n", "x" * 300_000, b"\xff\xfe"])
def test_a_staged_file_that_cannot_be_used_is_told(shared, content):  # noqa: F811
    write_raw(shared.root / LAW, content) if isinstance(content, str) else (shared.root / LAW).write_bytes(content)
    shared.git("add", "-A")
    write_raw(shared.root / LAW, OURS)
    assert rules(shared) == ["contract-valid"]


def test_a_staged_rule_that_weakens_an_installed_one_is_told(shared):  # noqa: F811
    write_raw(shared.root / LAW, OURS.replace("our-ticket-in-tags", "memory-missing"))
    shared.git("add", "-A")
    (shared.root / LAW).unlink()
    assert rules(shared) == ["contract-weakened"]


def test_a_staged_link_or_folder_in_place_of_the_file_is_told(shared):  # noqa: F811
    (shared.root / LAW).symlink_to("/etc/hostname")
    shared.git("add", "-A")
    assert rules(shared) == ["contract-valid"]
    (shared.root / LAW).unlink()
    (shared.root / LAW).mkdir()
    write_raw(shared.root / LAW / "rules.yaml", OURS)
    shared.git("add", "-A")
    assert rules(shared) == ["contract-valid"]


def test_a_staged_file_whose_blob_is_not_there_is_told(shared):  # noqa: F811
    shared.git("update-index", "--add", "--cacheinfo", f"100644,{'1' * 40},{LAW}")
    assert rules(shared) == ["contract-valid"]


# --- what no file of a commit may be --------------------------------------------------------------------------------


def stage(repo, path, blob, mode="100644"):
    """Put bytes into the index at a path, whatever the working tree has or could have."""
    name = repo.git("hash-object", "-w", "--stdin", stdin=blob)
    repo.git("update-index", "--add", "--cacheinfo", f"{mode},{name},{path}")


@pytest.mark.parametrize(
    ("path", "blob", "mode", "rule", "said"),
    [
        ("memories/notes.txt", b"x", "100644", "layout-path-safe", "not of the form"),
        ("memories/facts/ab/cd/link.md", b"/etc/hostname", "120000", "layout-file-regular", "symbolic link"),
        ("memories/facts/ab/cd/big.md", b"x" * (256 * 1024 + 1), "100644", "layout-file-size", "more than the 262,144"),
        ("audit/2026-11/30/0123456789abcdef.jsonl", b"x", "120000", "layout-file-regular", "symbolic link"),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" in value else "",
)
def test_what_is_staged_is_a_file_of_some_size_in_a_place_for_memories(shared, path, blob, mode, rule, said):  # noqa: F811
    stage(shared, path, blob, mode)
    assert [(one.rule, one.path) for one in look(shared)] == [(rule, path)]
    assert said in look(shared)[0].message


def test_a_staged_file_whose_blob_this_clone_has_not(shared):  # noqa: F811
    path = "memories/facts/ab/cd/lost.md"
    shared.git("update-index", "--add", "--cacheinfo", f"100644,{'1' * 40},{path}")
    assert [(one.rule, one.path) for one in look(shared)] == [("layout-file-regular", path)]
    assert "not in this clone" in look(shared)[0].message


def test_a_row_that_is_staged_a_second_time(shared):  # noqa: F811
    """Also where the ledger at HEAD is known from an earlier examination, and not read."""
    segment = newest_segment(shared)
    lines = segment.read_bytes().splitlines(keepends=True)
    copy = segment.with_name(f"{lines[2][-67:-51].decode()}.jsonl")
    copy.write_bytes(b"".join(lines[2:]))
    shared.git("add", "-A")
    assert (shared.root / ".cyberos/ledger-at-head").exists()
    assert rules(shared) == ["ledger-duplicate-row"] * 2
    (shared.root / ".cyberos/ledger-at-head").unlink()
    assert set(rules(shared)) == {"ledger-duplicate-row"}


def test_a_row_about_no_memory_that_is_staged_a_second_time(shared):  # noqa: F811
    """What is known of HEAD's ledger settles all that is staged, so nothing else would tell."""
    shared.branch("side")
    for task in ("left out", "picked"):
        shared.log(task)
        shared.commit(task)
    shared.switch("main")
    shared.git("cherry-pick", "side")
    shared.log("before it, in the same segment")
    Writer(shared.root).acknowledge_gap("dropped with its branch")
    segment = newest_segment(shared)
    shared.commit("acknowledged")
    examine(shared.root, anchor="auto")
    last = segment.read_bytes().splitlines(keepends=True)[-1]
    copy = segment.with_name(f"{last[-67:-51].decode()}.jsonl")
    copy.write_bytes(last)
    shared.git("add", "-A")
    assert rules(shared) == ["ledger-duplicate-row"]
    assert look(shared)[0].message == "HEAD has this row elsewhere"


def test_an_index_that_git_cannot_read_is_no_sound_one(shared):  # noqa: F811
    (shared.top / ".git/index").write_bytes(b"junk")
    assert [(one.rule, one.severity) for one in look(shared)] == [("anchor-blind", "error")]


# --- hints that mend ------------------------------------------------------------------------------------------------


def follow(repo, rule):
    """Run the first command of the hint under a rule, where a user would."""
    (hint,) = {one.hint for one in look(repo) if one.rule == rule}
    command = re.search("`(.*?)`", hint)[1]
    subprocess.run(shlex.split(command), cwd=repo.root, check=True, capture_output=True)
    return command


@pytest.fixture(params=["", "tools/my memory"])
def vault(tmp_path, request):
    made = Repo.begin(tmp_path / "repo", request.param)
    made.log("early", 2)
    made.put(*fact("we deploy on Tuesdays", "deploy"))
    made.commit("early")
    return made


def memory(vault, kind):
    if kind == "episode":
        return episodes(vault)[0]
    return next((vault.root / "memories/facts").rglob("*.md"))


@pytest.mark.parametrize("kind", ["episode", "fact"])
@pytest.mark.parametrize("where", ["index", "both"])
def test_a_deleted_memory_comes_back_by_its_hint(vault, kind, where):
    path = memory(vault, kind)
    blob = path.read_bytes()
    vault.git("rm", "-q", *(["--cached"] if where == "index" else []), "--", str(path))
    assert "memory-missing" in rules(vault)
    command = follow(vault, "memory-missing")
    assert ("--worktree" in command) == (where == "both")
    assert rules(vault) == []
    assert path.read_bytes() == blob
    assert vault.git("status", "--porcelain") == ""


def test_a_file_taken_out_of_the_index_alone_is_not_written_over(vault):
    path = memory(vault, "fact")
    vault.git("rm", "-q", "--cached", "--", str(path))
    path.write_text("edited meanwhile\n")
    follow(vault, "memory-missing")
    assert path.read_text() == "edited meanwhile\n"
    assert rules(vault) == []


def test_a_memory_may_be_forgotten_instead(vault):
    path = memory(vault, "fact")
    vault.git("rm", "-q", "--", str(path))
    (hint,) = {one.hint for one in look(vault)}
    (command,) = re.findall("`(cyberos .*?)`", hint)
    *words, _ = shlex.split(command)
    assert main(["--store", str(vault.root), *words[1:], "out of date"]) == 0
    vault.git("add", "-A")
    assert rules(vault) == []


def test_a_memory_left_out_of_a_merge_comes_back_by_its_hint(vault):
    vault.branch("side")
    vault.log("on the side")
    vault.put(*fact("we rest on Sundays", "rest"))
    vault.commit("on the side")
    vault.switch("main")
    vault.log("on main")
    vault.commit("on main")
    vault.git("merge", "-q", "--no-commit", "side")
    path = next(path for path in (vault.root / "memories/facts").rglob("*.md") if "rest" in path.name)
    vault.git("rm", "-q", "-f", "--", str(path))
    assert rules(vault) == ["memory-missing"], look(vault)
    assert "--source=" in follow(vault, "memory-missing")
    assert rules(vault) == []


@pytest.mark.parametrize("what", ["memories", "audit"])
def test_one_side_that_is_not_staged_is_staged_by_the_hint(vault, what):
    vault.log("new")
    vault.git("add", str(vault.root / what))
    (rule,) = set(rules(vault))
    assert follow(vault, rule) == "git add memories audit"
    assert rules(vault) == []


def test_an_edit_that_is_wholly_staged_is_not_mended_by_staging(vault):
    path = memory(vault, "fact")
    path.write_text(path.read_text() + "Always.\n")
    vault.git("add", "-A")
    (one,) = look(vault)
    assert (one.rule, "git add" in one.hint) == ("memory-modified", False)
    follow(vault, "memory-modified")
    assert rules(vault) == []


def test_of_a_large_vault_too_only_the_index_is_looked_at(shared, monkeypatch):  # noqa: F811
    monkeypatch.setattr(apart, "_LARGE", 0)
    shared.log("new")
    shared.git("add", "memories", "audit")
    write_raw(next(shared.root.glob("memories/episodes/*/*/*.md")), "not staged\n")
    report = staged.examine(repository.open_at(shared.root))
    assert (report.findings, report.files) == ([], 1)
