"""The snippets of docs/agents.md for lefthook and husky, in real commits under the real programs."""

from __future__ import annotations

import re

import pytest
from project import EPISODE, TOP, Project, need

from support import git

pytestmark = pytest.mark.clients
PAGE = (TOP / "docs" / "agents.md").read_text(encoding="utf-8")


def snippet(file: str) -> str:
    """Give the block that follows where the page names a file."""
    found = re.search(rf"in `{re.escape(file)}`:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def lefthook(project: Project) -> None:
    (project.root / "lefthook.yml").write_text(snippet("lefthook.yml"))
    project.run("lefthook", "install")


def husky(project: Project) -> None:
    project.run("husky")
    (project.root / ".husky" / "pre-commit").write_text(snippet(".husky/pre-commit"))


@pytest.mark.parametrize("install", [lefthook, husky], ids=lambda install: install.__name__)
def test_a_whole_vault_is_committed_and_a_tampered_one_is_not(project: Project, install):
    need(install.__name__)
    project.run("cyberos", "init")
    install(project)
    fields = [word for name, value in EPISODE.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    path = project.root / project.run("cyberos", "episode", "log", *fields).strip()
    git(project.root, "add", "-A")
    project.run("git", "commit", "-q", "-m", "an episode")
    path.write_text(path.read_text().replace("fake clock", "fake watch"))
    git(project.root, "add", "-A")
    before = git(project.root, "rev-parse", "HEAD")
    project.run("git", "commit", "-q", "-m", "another story", code=1)
    assert git(project.root, "rev-parse", "HEAD") == before
