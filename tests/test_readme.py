"""Every command of the README and of the pages for agents runs, in order, and prints what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
# each page in a fresh repository, with the fewest commands that it must have
PAGES = {"README.md": 10, "docs/agents.md": 6, "docs/for-agents.md": 4}


def steps(page):
    """Give each command of a page with the lines that it is said to print."""
    for block in re.findall(r"```console\n(.*?)```", (TOP / page).read_text(encoding="utf-8"), re.DOTALL):
        command, expected = None, []
        for line in block.splitlines():
            if line.startswith("$ "):
                if command is not None:
                    yield command, expected
                command, expected = line[2:], []
            else:
                expected.append(line)
        yield command, expected


def matches(expected, printed):
    """`…` stands for any text, and alone on its line for any lines."""
    pattern = re.escape("\n".join(expected)).replace("…", "(?s:.*)")
    return re.fullmatch(pattern, printed.strip("\n")) is not None


@pytest.fixture
def project(tmp_path):
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "reader", f"GIT_{role}_EMAIL": "reader@localhost"}
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True, env=environment)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "x"], cwd=folder, check=True, env=environment)
    return folder, environment


@pytest.mark.parametrize(("page", "fewest"), PAGES.items(), ids=list(PAGES))
def test_the_examples_of_a_page(project, page, fewest):
    folder, environment = project
    environment["CYBEROS_HOOK_SECONDS"] = "30"  # what a hook says is not to depend on how busy the machine is
    ran = 0
    for command, expected in steps(page):
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1; {command}"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert matches(expected, done.stdout), f"{command}\nexpected:\n{expected}\nprinted:\n{done.stdout}"
        ran += 1
    assert ran >= fewest
