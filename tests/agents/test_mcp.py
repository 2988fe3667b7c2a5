"""`cyberos mcp` as a client sees it: a real process, one message a line, both forms of the protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from cyberos.agents import mcp, tools
from cyberos.core.episode import log
from support import episode, files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
EPISODE = {"task": "Fix the flaky login test", "approach": "freeze the clock", "outcome": "success", "duration_ms": 5}
SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


class Client:
    """A client that sends one message and waits for the answer of the same id."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cyberos", "mcp"],
            cwd=folder,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.heard: list[dict[str, Any]] = []
        self.number = 0

    def write(self, line: bytes) -> None:
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), self.process.stderr.read()
        self.heard.append(json.loads(line))
        return self.heard[-1]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.write(json.dumps(message).encode())
        while self.hear().get("id") != self.number:
            pass
        return self.heard[-1]

    def call(self, tool: str, arguments: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        return self.ask("tools/call", name=tool, arguments=arguments or {}, **params)["result"]

    def end(self) -> tuple[int, bytes]:
        self.process.stdin.close()
        noise = self.process.stderr.read()
        self.process.stderr.close()
        self.process.stdout.close()
        return self.process.wait(timeout=60), noise


@pytest.fixture
def client(root: Path) -> Iterator[Client]:
    made = Client(root)
    yield made
    code, noise = made.end()
    assert (code, noise) == (0, b"")


def test_handshake_offers_the_version_that_both_know(client):
    about = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    for asked, given in [("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")]:
        result = client.ask("initialize", protocolVersion=asked, **about)["result"]
        assert result["protocolVersion"] == given
    assert result["serverInfo"]["name"] == "cyberos"
    assert result["capabilities"] == {"tools": {}}
    assert "recall_similar" in result["instructions"]
    assert client.ask("ping")["result"] == {}


def test_the_stateless_form_needs_no_handshake(client):
    found = client.ask("server/discover", _meta=ENVELOPE)["result"]
    assert found["supportedVersions"][0] == "2026-07-28"
    assert found["resultType"] == "complete"
    assert found["cacheScope"] == "public"
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "cyberos"
    listed = client.ask("tools/list", _meta=ENVELOPE)["result"]
    assert [tool["name"] for tool in listed["tools"]] == list(tools.NAMES)
    assert client.call("log_episode", EPISODE, _meta=ENVELOPE)["resultType"] == "complete"


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        (ENVELOPE | {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}, mcp.UNSUPPORTED_VERSION),
        (ENVELOPE | {"io.modelcontextprotocol/clientCapabilities": None}, mcp.INVALID_PARAMS),
        ({"io.modelcontextprotocol/protocolVersion": 3}, mcp.UNSUPPORTED_VERSION),
    ],
)
def test_a_wrong_envelope_is_refused(client, meta, code):
    assert client.ask("tools/list", _meta=meta)["error"]["code"] == code


def test_what_only_one_form_has_is_refused_in_the_other(client):
    assert client.ask("ping", _meta=ENVELOPE)["error"]["code"] == mcp.METHOD_NOT_FOUND
    assert client.ask("server/discover")["error"]["code"] == mcp.METHOD_NOT_FOUND


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"no json", mcp.PARSE_ERROR),
        (b"\xff\xfe\x00", mcp.PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}', mcp.PARSE_ERROR),
        (b"[" * 100_000, mcp.PARSE_ERROR),
        (b"[]", mcp.INVALID_REQUEST),
        (b'{"id": 1, "method": "ping"}', mcp.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1}', mcp.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', mcp.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', mcp.INVALID_PARAMS),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": 1}}', mcp.INVALID_PARAMS),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": []}}', mcp.INVALID_PARAMS),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}', mcp.INVALID_PARAMS),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', mcp.METHOD_NOT_FOUND),
        (b"x" * (mcp.MAX_LINE + 10), mcp.INVALID_REQUEST),
    ],
)
def test_a_bad_message_gets_an_error_and_the_next_is_served(client, line, code):
    client.write(line)
    assert client.hear()["error"]["code"] == code
    assert client.ask("ping")["result"] == {}


def test_what_needs_no_answer_gets_none(client):
    client.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    client.write(b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}')
    client.write(b'{"jsonrpc": "2.0", "id": 9, "result": {}}')
    client.write(b"")
    client.ask("ping")
    assert len(client.heard) == 1


def test_every_answer_is_what_the_tool_announced(client):
    announced = {tool["name"]: tool for tool in client.ask("tools/list")["result"]["tools"]}
    logged = client.call("log_episode", EPISODE | {"lesson": "time is an input", "tags": ["ci"]})
    calls = {
        "recall_similar": {"task": "flaky login test", "intent": "what_worked"},
        "search": {"query": "flaky login test", "min_relevance": 0.1},
        "read_memory": {"path": logged["structuredContent"]["path"]},
        "doctor": {},
    }
    given = {"log_episode": logged} | {name: client.call(name, arguments) for name, arguments in calls.items()}
    assert given.keys() == announced.keys()
    for name, result in given.items():
        jsonschema_rs.Draft202012Validator(announced[name]["outputSchema"]).validate(result["structuredContent"])
        assert result["isError"] is False
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert given["recall_similar"]["structuredContent"]["matches"][0]["lesson"] == "time is an input"
    assert given["search"]["structuredContent"]["matches"][0]["path"] == logged["structuredContent"]["path"]
    assert given["doctor"]["structuredContent"]["summary"]["errors"] == 0
    assert announced["doctor"]["annotations"]["readOnlyHint"] is True
    assert announced["log_episode"]["annotations"]["readOnlyHint"] is False


def test_no_answer_holds_what_cannot_be_seen(client):
    hidden = "\u202e\u200b\U000e0049\ufe0f"
    path = client.call("log_episode", EPISODE | {"lesson": f"time{hidden} is\tan input\nof é"})["structuredContent"][
        "path"
    ]
    for tool, arguments in {"read_memory": {"path": path}, "recall_similar": {"task": EPISODE["task"]}}.items():
        result = client.call(tool, arguments)
        assert not set(hidden) & set(json.dumps(result, ensure_ascii=False))
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        assert "time is\\tan input\\nof é" in result["content"][0]["text"]


def test_a_complaint_does_not_quote_a_credential(client):
    for wrong in ({"notes": [SECRET]}, {"outcome": SECRET}, {SECRET: 1}):
        result = client.call("log_episode", EPISODE | wrong)
        assert result["isError"] is True
        assert "looks like a credential (github-token)" in result["content"][0]["text"]
        assert SECRET not in json.dumps(result)


def test_an_episode_has_every_field_of_the_contract(client):
    listed = client.ask("tools/list")["result"]["tools"]
    schema = next(tool for tool in listed if tool["name"] == "log_episode")["inputSchema"]
    assert schema["required"] == ["task", "approach", "outcome", "duration_ms"]
    assert schema["properties"]["outcome"]["enum"] == ["success", "partial", "failure"]
    assert {"lesson", "evidence", "evidence_ref", "ended", "scope", "tags", "occurred_at"} <= schema[
        "properties"
    ].keys()
    assert "kind" not in schema["properties"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (EPISODE | {"outcome": "great"}, "outcome"),
        (EPISODE | {"outcome": "failure"}, "error"),
        (EPISODE | {"task": " "}, "task is blank"),
        (EPISODE | {"lessons": "x"}, "lessons"),
        (EPISODE | {"evidence": "test"}, "evidence_ref"),
        (EPISODE | {"duration_ms": 1.5}, "duration_ms"),
        ({"task": "x"}, "approach"),
        (EPISODE | {"notes": SECRET}, "secret-in-memory"),
        (EPISODE | {"task": "a\ud800"}, "task"),
    ],
)
def test_a_refused_episode_says_why_and_leaves_nothing(client, root, arguments, words):
    before = files(root)
    result = client.call("log_episode", arguments)
    assert result["isError"] is True
    assert words in result["content"][0]["text"]
    assert SECRET not in json.dumps(result)
    assert files(root) == before


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("recall_similar", {}, "task"),
        ("recall_similar", {"task": "x", "k": 0}, "k:"),
        ("recall_similar", {"task": "x", "min_relevance": 1.5}, "min_relevance"),
        ("recall_similar", {"task": "x", "intent": "why"}, "intent"),
        ("read_memory", {"path": "../../etc/passwd"}, "passwd"),
        ("read_memory", {"path": "memories/episodes/aa/bb/aabb0000-000000.md"}, "no memory"),
        ("doctor", {"fix": True}, "fix"),
    ],
)
def test_wrong_arguments_are_told_to_whoever_gave_them(client, tool, arguments, words):
    result = client.call(tool, arguments)
    assert result["isError"] is True
    assert words in result["content"][0]["text"]


def test_without_a_vault_the_tools_are_there_and_say_what_to_do(tmp_path):
    client = Client(tmp_path)
    assert len(client.ask("tools/list")["result"]["tools"]) == len(tools.NAMES)
    result = client.call("recall_similar", {"task": "x"})
    assert result["isError"] is True
    assert "cyberos init" in result["content"][0]["text"]
    assert client.end() == (0, b"")


def test_progress_is_told_to_whoever_asked(client, tmp_memory):
    with tmp_memory.transaction():
        for number in range(3):
            log(tmp_memory, episode(f"task {number}"))
    client.call("recall_similar", {"task": "task"}, _meta={"progressToken": "t"})
    told = [message["params"] for message in client.heard if message.get("method") == "notifications/progress"]
    assert told, "the index was built with nobody told"
    assert {each["progressToken"] for each in told} == {"t"}
    steps = [each["progress"] for each in told]
    assert steps == sorted(set(steps))


def test_a_call_that_was_taken_back_is_not_answered(client):
    lines = [
        {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": {"name": "doctor"}},
        {
            "jsonrpc": "2.0",
            "id": "gone",
            "method": "tools/call",
            "params": {"name": "log_episode", "arguments": EPISODE},
        },
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "gone"}},
    ]
    client.write("\n".join(json.dumps(line) for line in lines).encode())
    assert client.call("recall_similar", {"task": "flaky login test"})["structuredContent"]["matches"] == []
    assert "gone" not in [message.get("id") for message in client.heard]


def test_two_servers_on_one_vault_do_no_harm(root, client):
    other = Client(root)
    for number in range(5):
        for one in (client, other):
            assert one.call("log_episode", EPISODE | {"task": f"task {number}"})["isError"] is False
    found = [one.call("recall_similar", {"task": "task", "k": 50, "min_relevance": 0}) for one in (client, other)]
    assert [len(each["structuredContent"]["matches"]) for each in found] == [10, 10]
    assert other.call("doctor")["structuredContent"]["summary"]["errors"] == 0
    assert other.end() == (0, b"")


def test_a_client_that_leaves_gets_its_last_call_done(root):
    client = Client(root)
    call = {"name": "log_episode", "arguments": EPISODE}
    client.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode())
    client.process.stdout.close()
    assert client.end() == (0, b"")
    assert len(list(root.glob("memories/episodes/*/*/*.md"))) == 1


def test_a_tool_that_breaks_is_an_error_and_the_server_goes_on(client, root):
    (root / "cyberos.toml").write_text("min_relevance = 'much'\n", encoding="utf-8")
    result = client.call("recall_similar", {"task": "x"})
    assert result["isError"] is True
    assert "min_relevance" in result["content"][0]["text"]
    (root / "cyberos.toml").unlink()
    assert client.call("recall_similar", {"task": "x"})["isError"] is False


def test_the_verb_with_options_serves_too(root, tmp_path):
    line = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "doctor"}}\n'
    command = [sys.executable, "-m", "cyberos", "--store", str(root), "mcp"]
    done = subprocess.run(command, cwd=tmp_path, input=line, capture_output=True, timeout=60, check=True)
    assert json.loads(done.stdout)["result"]["structuredContent"]["summary"]["errors"] == 0


def test_nothing_heavy_is_loaded_before_the_first_call():
    code = (
        "import sys, cyberos.cli.stdio as s; s.tools(None);"
        "print([m for m in ('click', 'yaml', 'jsonschema_rs', 'whoosh', 'sqlite3', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
