"""`.pre-commit-hooks.yaml` run by the real pre-commit and the real prek: `make test-hooks`.

`CYBEROS_HOOK_TOOLS` names the folder that holds both programs. They make an environment for cyberos, so pip must have
an index to ask. What they try is a clone of this repository with what the working tree has beyond its HEAD.
"""

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from cyberos.core.episode import log
from cyberos.core.writer import Writer
from support import Repo, episode, fact, git

pytestmark = pytest.mark.hooks

HERE = Path(__file__).parents[2]
# taken before any test begins, since every test gets a home and an environment of its own
OUTSIDE = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
TOOLS = OUTSIDE.get("CYBEROS_HOOK_TOOLS", "")
WAIT_S = 600


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """Give a clone of this repository, with its working tree as the last commit."""
    clone = tmp_path_factory.mktemp("source") / "cyberos"
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    git(HERE, "clone", "-q", "--no-hardlinks", str(HERE), str(clone))
    listed = git(HERE, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for file in clone.iterdir():
        if file.name != ".git":
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    for path in filter(None, listed):
        if os.path.lexists(HERE / path):
            (clone / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HERE / path, clone / path, follow_symlinks=False)
    git(clone, *identity, "add", "-A")
    git(clone, *identity, "commit", "-q", "--allow-empty", "--no-verify", "-m", "as it stands here")
    return clone


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(params=["pre-commit", "prek"])
def tool(request, cache):
    """Give a function that calls the tool in a repository."""
    program = shutil.which(request.param, path=TOOLS)
    assert program, f"CYBEROS_HOOK_TOOLS={TOOLS!r} holds no {request.param}: use `make test-hooks`"
    own = {"PRE_COMMIT_HOME": str(cache / "pre-commit"), "PREK_HOME": str(cache / "prek")}

    def call(repo, *arguments, command=program):
        names = {key: value for key, value in os.environ.items() if key.startswith("GIT_")}
        environment = {**OUTSIDE, **names, **own, "PATH": f"{TOOLS}{os.pathsep}{OUTSIDE['PATH']}"}
        done = subprocess.run(
            [command, *arguments], cwd=repo.top, env=environment, capture_output=True, text=True, timeout=WAIT_S
        )
        return done.returncode, done.stdout + done.stderr

    return call


@pytest.fixture
def vault(tmp_path):
    made = Repo.begin(tmp_path / "repo")
    made.log(count=4)
    made.put(*fact("we deploy on Tuesdays"))
    made.commit("work")
    return made


def episodes(repo):
    return sorted((repo.root / "memories/episodes").rglob("*.md"))


def good(repo):
    repo.log("more")
    repo.git("add", "-A")


def bad(repo):
    file = episodes(repo)[0]
    file.write_text(file.read_text().replace('"outcome": "success"', '"outcome": "failure"'))
    repo.git("add", "-A")


def only_deletes(repo):
    episodes(repo)[0].unlink()
    repo.git("add", "-A")


def half_staged(repo):
    repo.log("more")
    repo.git("add", "memories")


def beside_open_work(repo):
    """Stage something sound, beside a tracked file that is changed and rows that are not staged."""
    good(repo)
    (repo.root / "README.md").write_text("not finished\n")
    repo.log("not staged")


STAGED = {good: 0, bad: 1, only_deletes: 1, half_staged: 1, beside_open_work: 0}


@pytest.mark.parametrize("stage", STAGED, ids=lambda stage: stage.__name__)
def test_try_repo(tool, source, vault, stage):
    stage(vault)
    before = vault.git("status", "--porcelain")
    code, said = tool(vault, "try-repo", str(source), "cyberos-doctor", "--verbose")
    assert (code != 0) == bool(STAGED[stage]), said
    assert ("Failed" in said) == bool(STAGED[stage])
    assert ("Passed" in said) != bool(STAGED[stage])
    assert "Skipped" not in said
    assert vault.git("status", "--porcelain") == before


@pytest.mark.parametrize("stage", [good, bad, only_deletes], ids=lambda stage: stage.__name__)
def test_the_whole_vault(tool, source, vault, stage):
    stage(vault)
    code, said = tool(vault, "try-repo", str(source), "cyberos-doctor-all", "--all-files", "--verbose")
    assert (code != 0) == bool(STAGED[stage]), said
    assert "Skipped" not in said


@pytest.fixture
def installed(tool, source, vault):
    """Give a vault in whose commits the tool runs both hooks."""
    config = f"repos:\n- repo: {source}\n  rev: {git(source, 'rev-parse', 'HEAD')}\n  hooks:\n  - id: cyberos-doctor\n"
    (vault.top / ".pre-commit-config.yaml").write_text(config)
    vault.commit("the hook's settings")
    code, said = tool(vault, "install", "--install-hooks")
    assert code == 0, said
    return vault


@pytest.mark.parametrize("stage", STAGED, ids=lambda stage: stage.__name__)
def test_in_real_commits(tool, installed, stage):
    stage(installed)
    before = installed.head
    code, said = tool(installed, "commit", "-q", "-m", "a commit", command="git")
    assert (code != 0) == bool(STAGED[stage]), said
    assert (installed.head == before) == bool(STAGED[stage])


def test_while_an_agent_logs(tool, installed):
    """Both tools put unstaged changes away while the hook runs; no row is lost, and none counts against the commit."""
    readme = installed.root / "README.md"
    is_over = threading.Event()
    logged = []

    def agent():
        while not is_over.wait(0.02):
            logged.append(log(Writer(installed.root, durability="none"), episode(f"task {len(logged)}")))

    thread = threading.Thread(target=agent)
    thread.start()
    try:
        for number in range(5):
            readme.write_text(f"staged {number}\n")
            installed.git("add", "README.md")
            readme.write_text(f"not finished {number}\n")
            if number % 2:
                installed.git("add", "memories", "audit", may_fail=True)
            tool(installed, "commit", "-q", "-m", f"number {number}", command="git")
    finally:
        is_over.set()
        thread.join()
    assert readme.read_text() == "not finished 4\n"
    assert len(logged) > 5
    assert all((installed.root / path).is_file() for path in logged)
    installed.git("add", "-A")
    code, said = tool(installed, "commit", "-q", "-m", "the rest", command="git")
    assert code == 0, said
    installed.expect(installed.hashes())
