"""The walls around the tests stand."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from support import git, in_fresh_process


def test_home_is_an_empty_folder_of_the_tests(tmp_path_factory):
    home = Path.home()
    assert home.is_relative_to(tmp_path_factory.getbasetemp())
    assert list(home.iterdir()) == []
    assert in_fresh_process("import pathlib; print(pathlib.Path.home())").stdout.strip() == str(home)


def test_no_settings_of_anybody_are_seen(tmp_path):
    assert [name for name in os.environ if name.startswith("CYBEROS_")] == ["CYBEROS_EMBEDDER"]
    assert git(tmp_path, "config", "--global", "--system", "--list", may_fail=True) == ""


def test_commits_are_the_same_wherever_they_are_made(repo):
    assert (
        repo.git("log", "-1", "--format=%an <%ae> %aI", "HEAD~1") == "Ada <ada@example.org> 2026-11-30T12:00:00+00:00"
    )
    assert repo.git("rev-parse", "HEAD~1") == "9b94dda6a865a2a0e27746dc6a5b130475616c3e"


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_network_is_refused_and_this_machine_is_not(family):
    with socket.socket(family) as outer, pytest.raises(AssertionError, match="wanted the network"):
        outer.connect(("192.0.2.1" if family == socket.AF_INET else "2001:db8::1", 9))
    with socket.socket(family) as inner, pytest.raises(OSError, match="refused|unreachable|assign"):
        inner.connect(("127.0.0.1" if family == socket.AF_INET else "::1", 1))


def test_warnings_are_errors():
    import warnings

    with pytest.raises(UserWarning):
        warnings.warn("a warning", stacklevel=1)
