"""The real opencode connects to the server that `init --agent opencode` names."""

from __future__ import annotations

import pytest
from project import need

pytestmark = pytest.mark.clients


def test_opencode_connects_to_the_server(project):
    need("opencode")
    project.run("cyberos", "init", "--agent", "opencode")
    listed = project.run("opencode", "mcp", "list")
    assert "cyberos" in listed
    assert "connected" in listed
