"""A repository whose configuration names programs for everything: cyberos runs none of them.

Each program leaves a mark when it runs. First git itself is shown to run them, so that the trap is one.
"""

import os
import subprocess
import sys

import pytest

from support import Repo, episode

HOOKS = [
    "pre-commit",
    "post-index-change",
    "reference-transaction",
    "post-checkout",
    "post-merge",
    "pre-auto-gc",
    "fsmonitor-watchman",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
]
BUILTINS = [
    "status",
    "diff",
    "log",
    "show",
    "rev-parse",
    "rev-list",
    "ls-files",
    "ls-tree",
    "cat-file",
    "diff-index",
    "check-ignore",
    "config",
]

COMMANDS = [
    ["doctor"],
    ["doctor", "--staged"],
    ["doctor", "--diff"],
    ["doctor", "--fix"],
    ["doctor", "memories"],
    ["init"],
    ["episode", "log", "--task", "t", "--approach", "a", "--outcome", "success", "--duration-ms", "1"],
    ["recall-similar", "ship the login form"],
    ["list"],
    ["audit", "verify"],
    ["index", "--rebuild"],
]


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def program(marks, name):
    """Make a program that leaves a mark; a filter then gives back what it was given."""
    made = marks.parent / "programs" / name
    made.parent.mkdir(parents=True, exist_ok=True)
    copy = "cat" if name in ("clean", "clean-odd", "smudge") else "exit 0"
    made.write_text(f'#!/bin/sh\ntouch "{marks}/{name}"\n{copy}\n')
    made.chmod(0o755)
    return str(made)


@pytest.fixture
def hostile(tmp_path, marks):
    """Give a repository with a vault, all committed, in which every program that git may be told of is a trap."""
    repo = Repo.begin(tmp_path / "repo")
    repo.log(count=3)
    (repo.root / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\naudit/** -text merge=union\n")
    repo.commit("work")
    hooks = marks.parent / "hooks"
    hooks.mkdir()
    for name in HOOKS:
        os.symlink(program(marks, f"hook-{name}"), hooks / name)
    settings = {
        "core.fsmonitor": program(marks, "fsmonitor"),
        "core.hooksPath": str(hooks),
        "core.pager": program(marks, "pager"),
        "core.editor": program(marks, "editor"),
        "core.sshCommand": program(marks, "ssh"),
        "core.askPass": program(marks, "askpass"),
        "core.alternateRefsCommand": program(marks, "alternates"),
        "credential.helper": program(marks, "credential"),
        "diff.external": program(marks, "diff-external"),
        "diff.evil.command": program(marks, "diff-command"),
        "diff.evil.textconv": program(marks, "textconv"),
        "filter.evil.clean": program(marks, "clean"),
        "filter.evil.smudge": program(marks, "smudge"),
        "filter.evil.required": "true",
        "filter.a=b.clean": program(marks, "clean-odd"),
        "merge.evil.driver": program(marks, "merge"),
        "gpg.program": program(marks, "gpg"),
        "log.showSignature": "true",
        "remote.origin.url": f"ext::{program(marks, 'ext')} %S",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": program(marks, "upload-pack"),
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
    }
    settings |= {f"alias.{name}": f"!{program(marks, f'alias-{name}')}" for name in BUILTINS}
    settings |= {f"pager.{name}": program(marks, f"pager-{name}") for name in BUILTINS}
    for key, value in settings.items():
        repo.git("config", key, value)
    (repo.top / ".git/info/attributes").write_text("memories/facts/** filter=a=b\n")
    for file in (repo.root / "memories").rglob("*.md"):
        os.utime(file)  # so that whoever compares by content has a reason to
    for mark in marks.iterdir():
        mark.unlink()
    return repo


def names(marks):
    return sorted(mark.name for mark in marks.iterdir())


def call(repo, *arguments):
    command = [sys.executable, "-m", "cyberos", *arguments]
    return subprocess.run(command, cwd=repo.root, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "mark"),
    [
        (["status"], "fsmonitor"),
        (["update-index", "--refresh"], "hook-post-index-change"),
        (["add", "-A"], "clean"),
        (["diff", "--ext-diff"], "diff-command"),
        (["show", "--no-ext-diff", "HEAD"], "textconv"),
        (["cat-file", "blob", "0123456789012345678901234567890123456789"], "ext"),
    ],
)
def test_the_traps_work(hostile, marks, arguments, mark):
    (hostile.root / "README.md").write_text("other\n")
    hostile.git(*arguments, may_fail=True)
    assert mark in names(marks)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_none_of_it_is_run(hostile, marks, arguments):
    done = call(hostile, *arguments)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1), done.stderr
    assert names(marks) == []


@pytest.mark.parametrize("arguments", COMMANDS[:5], ids=" ".join)
def test_none_of_it_is_run_where_there_is_much_to_find(hostile, marks, arguments):
    deleted, edited, *_ = sorted((hostile.root / "memories/episodes").rglob("*.md"))
    deleted.unlink()
    edited.write_text(edited.read_text().replace("success", "failure"))
    segment = next(hostile.root.glob("audit/*/*/*.jsonl"))
    segment.write_bytes(segment.read_bytes()[:-9])
    done = call(hostile, *arguments)
    assert "Traceback" not in done.stderr
    assert names(marks) == []


@pytest.mark.parametrize("arguments", COMMANDS[:4], ids=" ".join)
def test_what_the_clone_lacks_is_not_fetched(hostile, marks, arguments):
    path = next((hostile.root / "memories/episodes").rglob("*.md")).relative_to(hostile.root).as_posix()
    lost = hostile.git("ls-files", "-s", path).split()[1]
    (hostile.top / ".git/objects" / lost[:2] / lost[2:]).unlink()
    (hostile.root / path).unlink()
    for mark in marks.iterdir():
        mark.unlink()
    done = call(hostile, *arguments)
    assert "Traceback" not in done.stderr
    assert names(marks) == []


def test_a_vault_elsewhere_is_looked_for_without_running_anything(hostile, marks):
    import shutil

    for name in ("audit", "memories"):
        shutil.rmtree(hostile.root / name)
    done = call(hostile, "recall-similar", episode().task)
    assert done.returncode == 2
    assert "git's index holds one" in done.stderr
    assert names(marks) == []


@pytest.mark.parametrize("name", ["GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_EDITOR"])
def test_what_the_environment_names_is_not_run_either(hostile, marks, monkeypatch, name):
    monkeypatch.setenv(name, program(marks, f"environment-{name}"))
    call(hostile, "doctor")
    assert names(marks) == []
