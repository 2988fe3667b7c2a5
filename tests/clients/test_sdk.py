"""`cyberos mcp` asked by the official clients: both majors of the Python SDK in each of their modes, and the Inspector."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
from project import EPISODE, LESSON, SDKS, Project, need

from cyberos.agents.tools import NAMES

pytestmark = pytest.mark.clients
HERE = Path(__file__).parent
STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"
MODES = [(0, [], HANDSHAKE), (1, ["auto"], STATELESS), (1, ["legacy"], HANDSHAKE), (1, [STATELESS], STATELESS)]


@pytest.mark.parametrize(("major", "mode", "version"), MODES, ids=["1", "2 auto", "2 legacy", "2 stateless"])
def test_the_official_sdk_uses_every_tool(project: Project, major, mode, version):
    if len(SDKS) <= major:
        pytest.skip("no Python with this SDK: `make test-clients` makes one")
    project.run("cyberos", "init")
    script = HERE / f"ask_v{major + 1}.py"
    found = json.loads(project.run(SDKS[major], str(script), "cyberos", json.dumps(EPISODE), *mode))
    assert found["version"] == version
    assert tuple(found["tools"]) == NAMES
    assert found["results"].keys() == found["tools"].keys()
    for name, (is_error, structured) in found["results"].items():
        assert is_error is False
        jsonschema_rs.Draft202012Validator(found["tools"][name][1]).validate(structured)
        assert found["tools"][name][0] is (name != "log_episode")
    assert found["results"]["recall_similar"][1]["matches"][0]["lesson"] == LESSON
    assert found["results"]["doctor"][1]["summary"]["errors"] == 0
    assert found["told"], "no progress came"
    assert found["refused"][0] is True
    assert "k:" in found["refused"][1]
    assert "nonsense" in found["unknown"]
    assert project.logged() == [LESSON]


def inspect(project: Project, *arguments: str) -> dict:
    return json.loads(project.run("mcp-inspector", "--cli", "cyberos", "mcp", *arguments))


def test_the_inspector_lists_and_calls(project):
    need("mcp-inspector")
    project.run("cyberos", "init")
    assert [tool["name"] for tool in inspect(project, "--method", "tools/list")["tools"]] == list(NAMES)
    arguments = [word for name, value in EPISODE.items() for word in ("--tool-arg", f"{name}={value}")]
    logged = inspect(project, "--method", "tools/call", "--tool-name", "log_episode", *arguments)
    assert logged["structuredContent"]["path"].startswith("memories/episodes/")
    call = ("--method", "tools/call", "--tool-name", "recall_similar", "--tool-arg", f"task={EPISODE['task']}")
    assert inspect(project, *call)["structuredContent"]["matches"][0]["lesson"] == LESSON
