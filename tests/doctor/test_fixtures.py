"""The folder is the expectation: `good/<case>` trips nothing, `bad/<rule-id>/<case>` trips that rule and no other."""

import json
import os
import shutil
from pathlib import Path

import pytest

from cyberos.core import contract
from cyberos.doctor.examination import examine
from fixtures import build_vaults
from fixtures.vaults import BEFORE, EXPECT
from support import git

TESTS = Path(__file__).parents[1]
GOOD = sorted(path.name for path in (TESTS / "good").iterdir())
BAD = sorted(f"{path.parent.name}/{path.name}" for path in (TESTS / "bad").glob("*/*"))


def expectation(folder):
    file = folder / EXPECT
    return json.loads(file.read_text()) if file.exists() else {"also": [], "severity": ""}


def needs_links(folder):
    if folder.parent.name == "layout-file-regular" and not any(path.is_symlink() for path in folder.rglob("*")):
        pytest.skip("this checkout has no symbolic links")


def judge(folder, tmp_path):
    """Examine a vault, in a repository that has committed what stands in its `before/` folder, if it has one."""
    if not (folder / BEFORE).is_dir():
        return examine(folder)
    made = shutil.copytree(folder / BEFORE, tmp_path / "vault")
    git(made, "init", "-q")
    git(made, "add", "-A")
    git(made, "commit", "-q", "-m", "before")
    for name in ("memories", "audit"):
        shutil.rmtree(made / name)
        # as an edit would, with times of its own
        shutil.copytree(folder / name, made / name, copy_function=shutil.copy)
    return examine(made, anchor="auto")


@pytest.mark.parametrize("case", GOOD)
def test_a_good_vault_trips_nothing(case):
    report = examine(TESTS / "good" / case)
    assert report.findings == []
    assert report.rows > 0


@pytest.mark.parametrize("case", BAD)
def test_a_bad_vault_trips_the_rule_of_its_folder_and_no_other(case, tmp_path):
    folder, rule = TESTS / "bad" / case, case.split("/")[0]
    needs_links(folder)
    expected = expectation(folder)
    found = judge(folder, tmp_path).findings
    assert {finding.rule for finding in found} == {rule, *expected["also"]}
    severity = expected["severity"] or contract.rules()[rule].severity
    assert {finding.severity for finding in found if finding.rule == rule} == {severity}


@pytest.mark.parametrize("case", BAD)
def test_every_finding_points_into_a_file_and_says_what_to_do(case, tmp_path):
    folder = TESTS / "bad" / case
    needs_links(folder)
    for finding in judge(folder, tmp_path).findings:
        assert finding.hint, finding
        assert "PATH" not in finding.hint
        assert "\n" not in finding.message
        file = folder / finding.path
        if file.is_file() and finding.line > 1:
            assert finding.line <= file.read_bytes().count(b"\n") + 1
        if finding.pointer and finding.line > 1:
            name = finding.pointer.split("/")[1]
            assert name in file.read_text().split("\n")[finding.line - 1]


def test_the_committed_vaults_are_what_the_builder_builds(tmp_path):
    build_vaults.build(tmp_path)
    for name in ("good", "bad"):
        built, committed = contents(tmp_path / name), contents(TESTS / name)
        assert sorted(built) == sorted(committed), "run tests/fixtures/build_vaults.py"
        for path, content in built.items():
            assert committed[path] == content, path


def contents(folder):
    """Give every file below a folder as bytes, and every link as its target."""
    found = {}
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            full = os.path.join(top, name)
            if os.path.islink(full):
                found[os.path.relpath(full, folder)] = os.readlink(full)
            elif name in files:
                found[os.path.relpath(full, folder)] = Path(full).read_bytes()
    return found
