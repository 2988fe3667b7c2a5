"""`cyberos doctor` where nothing has changed: the same words as the command itself, and never when anything has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support import fact, write_raw

DOCTOR = (sys.executable, "-m", "cyberos", "doctor")
# says at the end whether the command itself, which needs click, was called
TOLD = """
import atexit, sys
atexit.register(lambda: print("click" if "click" in sys.modules else "kept"))
sys.argv[1:] = ["doctor"]
from cyberos.cli.start import entry
entry()
"""


@pytest.fixture
def shared(repo):
    """Give a repository with two episodes, committed and found sound."""
    repo.log("work", 2)
    repo.commit("work")
    assert call(repo)[0] == 0
    return repo


def call(repo, **variables):
    done = subprocess.run(DOCTOR, cwd=repo.root, capture_output=True, text=True, env=os.environ | variables)
    return done.returncode, done.stdout, done.stderr


def way(repo, **variables):
    """Say whether the kept answer was given: `kept`, or `click` when the vault was examined."""
    code = [sys.executable, "-c", TOLD]
    done = subprocess.run(code, cwd=repo.root, capture_output=True, text=True, env=os.environ | variables)
    return done.stdout.split()[-1]


def first(repo):
    return min((repo.root / "memories/episodes").rglob("*.md"))


def test_the_kept_answer_has_the_words_of_the_command(shared):
    assert way(shared) == "kept"
    full = subprocess.run([*DOCTOR, "--full"], cwd=shared.root, capture_output=True, text=True)
    assert call(shared) == (0, "", full.stderr) == (full.returncode, full.stdout, full.stderr)


def test_it_is_found_from_below_and_by_name(shared):
    below = shared.root / "memories"
    assert subprocess.run(DOCTOR, cwd=below, capture_output=True).returncode == 0
    named = (*DOCTOR[:3], "--store", str(shared.root), "doctor")
    assert b"no errors" in subprocess.run(named, cwd="/", capture_output=True).stderr


@pytest.mark.parametrize(
    "variables",
    [{"CI": "true"}, {"CYBEROS_OUTPUT_FORMAT": "json"}, {"CYBEROS_OUTPUT_FORMAT": "nonsense"}],
    ids=["a CI service", "another format", "a setting that is none"],
)
def test_whoever_asks_for_more_gets_the_command(shared, variables):
    assert way(shared, **variables) == "click"


def edit(repo):
    write_raw(first(repo), first(repo).read_bytes().replace(b"wrote", b"stole"))


def stray(repo):
    path, text = fact("new")
    write_raw(repo.root / path, text)


def hide(repo):
    gone = first(repo)
    repo.git("update-index", "--skip-worktree", str(gone.relative_to(repo.root)))
    gone.unlink()


CHANGES = {
    "an edit": (edit, 1),
    "a stray": (stray, 1),
    "a deletion": (lambda repo: first(repo).unlink(), 1),
    "a deletion that git is told not to look at": (hide, 1),
    "a cut ledger": (lambda repo: os.truncate(next(repo.root.glob("audit/*/*/*.jsonl")), 100), 1),
    "an empty commit": (lambda repo: repo.git("commit", "-q", "--allow-empty", "-m", "nothing"), 0),
    "a new episode": (lambda repo: repo.log("more", 1), 0),
    "a rule of the team's": (lambda repo: write_raw(repo.root / "memory.invariants.yaml", "rules: nonsense\n"), 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_any_change_is_examined(shared, name):
    assert way(shared) == "kept"
    change, code = CHANGES[name]
    change(shared)
    assert way(shared) == "click"
    assert call(shared)[0] == code


def test_what_was_found_wrong_stays_wrong(shared):
    edit(shared)
    said = call(shared)
    assert said[0] == 1
    assert call(shared) == said
    assert "episode-immutable" in said[2]
    full = subprocess.run([*DOCTOR, "--full"], cwd=shared.root, capture_output=True, text=True)
    assert said == (full.returncode, full.stdout, full.stderr)


def test_a_state_that_was_found_wrong_is_not_examined_again(shared):
    edit(shared)
    call(shared)
    code = TOLD.replace('"click" in', '"cyberos.cli.doctor" in')
    done = subprocess.run([sys.executable, "-c", code], cwd=shared.root, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[-1]) == (1, "kept")


def test_in_a_folder_that_is_gone_the_command_says_so(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"rmdir {gone} && exec {' '.join(DOCTOR)}"
    done = subprocess.run(["sh", "-c", command], cwd=gone, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "the current folder is gone" in done.stderr


def test_outside_a_vault_the_command_says_so(tmp_path):
    done = subprocess.run(DOCTOR, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "no vault" in done.stderr.lower()


def test_a_name_that_looks_like_an_entry_of_the_index_hides_nothing(shared):
    """What git does not track comes in one list with what it does, and may be called anything."""
    blob = shared.git("rev-parse", f"HEAD:{first(shared).relative_to(shared.root)}")
    fake = shared.root / f"memories/H 100644 {blob} 0\tmemories"
    fake.mkdir(parents=True)
    (fake / "x").write_text("nothing")
    edit(shared)
    assert way(shared) == "click"
    code, _, said = call(shared)
    assert code == 1
    assert "episode-immutable" in said
    assert "layout-path-safe" in said
