"""Vaults for every test, and the walls around all of them: no home, no settings, no network, a git of our own."""

from __future__ import annotations

import os
import shutil
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from cyberos.core.vault import init
from cyberos.core.writer import Writer
from support import Repo, episode, episode_path, fact, write_raw

if TYPE_CHECKING:
    from pathlib import Path

settings.register_profile("cyberos", database=None, deadline=None, derandomize=True)
settings.load_profile("cyberos")

ROOMY = 2 * 1024**3
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the vaults of the tests in memory where there is room: a sync costs nothing there."""
    if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > ROOMY:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")


@pytest.fixture(scope="session")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def walls(_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test an empty home, a git that knows nobody's configuration and one date, and no network."""
    for name in list(os.environ):
        if name.startswith(("CYBEROS_", "GIT_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(_home))
    monkeypatch.setenv("CYBEROS_EMBEDDER", "none")  # a test that is about meaning names its embedder
    for name in ("CONFIG_HOME", "CACHE_HOME", "DATA_HOME", "STATE_HOME"):
        monkeypatch.setenv(f"XDG_{name}", str(_home / name.lower()))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ada@example.org")
        monkeypatch.setenv(f"GIT_{who}_DATE", "2026-11-30T12:00:00Z")
    monkeypatch.setattr(socket.socket, "connect", _refusing(socket.socket.connect))
    monkeypatch.setattr(socket.socket, "connect_ex", _refusing(socket.socket.connect_ex))
    monkeypatch.setattr(socket.socket, "sendto", _refusing(socket.socket.sendto))


def _refusing(call):
    def guarded(self, *arguments):
        address = arguments[-1]
        if self.family != getattr(socket, "AF_UNIX", None) and address[0] not in LOOPBACK:
            raise AssertionError(f"a test wanted the network: {address!r}")
        return call(self, *arguments)

    return guarded


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give the folder of a fresh vault outside git."""
    return init(tmp_path / "vault").root


@pytest.fixture
def tmp_memory(root: Path) -> Writer:
    return Writer(root)


@pytest.fixture
def empty_memory(root: Path) -> Writer:
    return Writer(root)


@pytest.fixture
def seeded_memory(root: Path) -> Writer:
    """Give a vault of five episodes and five facts that speak of the same things."""
    writer = Writer(root)
    scores = (0.9, None, 0.4, 0.7, 0.2)
    with writer.transaction():
        for number, score in enumerate(scores):
            outcome = "failure" if number == 4 else "success"
            error = "the review never came" if number == 4 else None
            made = episode(f"ship task {number}", outcome=outcome, quality_score=score, error=error)
            writer.put(episode_path(made), made.render())
            writer.put(*fact(f"how we ship a task, part {number}"))
    return writer


@pytest.fixture
def broken_memory(root: Path) -> Path:
    """Give a vault in which somebody wrote an episode by hand, with an outcome that there is not."""
    text = episode("ship a task").render().replace('"outcome": "success"', '"outcome": "kinda"')
    write_raw(root / episode_path(episode("ship a task")), text.replace("Outcome: success", "Outcome: kinda"))
    return root


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Give a git repository that is a vault, all of it committed."""
    return Repo.begin(tmp_path / "repo")
