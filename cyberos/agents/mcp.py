r"""The Model Context Protocol over standard input and output: one JSON-RPC 2.0 message a line, both ways.

    -> {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "doctor", "arguments": {}}}\n
    <- {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "{…}"}], "structuredContent": {…}}}\n

Two forms of the protocol are spoken, told apart by each request: until 2025-11-25 a session begins with `initialize`;
from 2026-07-28 there is none, and every request carries its version and its client's capabilities in `_meta`.

The standard library alone, since the official SDK needs longer to import than a client waits for its tools. Requests
about the protocol are answered at once by the thread that reads; tools run one after the other in a second one, so
that what they keep open and warm has one owner.

Source: modelcontextprotocol.io, specifications 2025-11-25 and 2026-07-28; jsonrpc.org/specification.
"""

from __future__ import annotations

import json
import queue
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO

HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # the newest first
STATELESS = ("2026-07-28",)

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
UNSUPPORTED_VERSION = -32022

MAX_LINE = 8 << 20  # bytes of one message; an episode has at most 256 KiB
_KEY = "io.modelcontextprotocol/"
_TTL_MS = 3_600_000  # the tools of a version do not change


class Failed(NamedTuple):
    """What a tool says when it could not do what it was asked for; the agent reads it and may try again."""

    text: str


class Tool(Protocol):
    """One tool: how it is announced (a `Tool` object of the specification), and how it is called."""

    @property
    def definition(self) -> dict[str, Any]: ...

    def call(self, arguments: dict[str, Any], progress: Callable[[int, int], None]) -> dict[str, Any] | Failed:
        """Do it; `progress` is told how much of how many is done."""


class _Refused(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class _Job(NamedTuple):
    id: Any
    tool: Tool
    arguments: dict[str, Any]
    token: Any
    is_stateless: bool


class Server:
    """Serves these tools until the input ends. `info` is the server's `Implementation`: its name and version."""

    def __init__(
        self, tools: Mapping[str, Tool], info: dict[str, str], instructions: str, source: BinaryIO, sink: BinaryIO
    ) -> None:
        self._tools = tools
        self._info = info
        self._instructions = instructions
        self._source = source
        self._sink = sink
        self._writing = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._waiting: set[Any] = set()  # ids of calls that somebody still wants the answer of

    def serve(self) -> None:
        """Answer every message; return when the input has ended and what was asked before is done."""
        worker = threading.Thread(target=self._work, name="tools", daemon=True)
        worker.start()
        while line := self._source.readline(MAX_LINE):
            if not line.endswith(b"\n") and len(line) == MAX_LINE:
                self._skip_line()
                self._refuse(None, _Refused(INVALID_REQUEST, f"a message has at most {MAX_LINE} bytes"))
            elif line.strip():
                self._take(line)
        self._jobs.put(None)
        worker.join()

    def _skip_line(self) -> None:
        while (rest := self._source.readline(MAX_LINE)) and not rest.endswith(b"\n"):
            pass

    # messages

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            self._refuse(None, _Refused(PARSE_ERROR, "the line is no JSON"))
            return
        if isinstance(message, dict) and "method" not in message and message.keys() & {"result", "error"}:
            return  # an answer, though we ask nothing
        name = message.get("id") if isinstance(message, dict) else None
        name = name if isinstance(name, str | int) and not isinstance(name, bool) else None
        try:
            method, params = _request(message)
            if "id" not in message:
                self._hear(method, params)
            elif name is None:
                raise _Refused(INVALID_REQUEST, "an id is a string or an integer")
            else:
                self._answer(name, method, params)
        except _Refused as refusal:
            self._refuse(name, refusal)

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification: only one that takes a request back means anything here."""
        name = params.get("requestId")
        if method == "notifications/cancelled" and isinstance(name, str | int):
            self._waiting.discard(name)

    def _answer(self, name: str | int, method: str, params: dict[str, Any]) -> None:
        meta = params.get("_meta", {})
        if not isinstance(meta, dict):
            raise _Refused(INVALID_PARAMS, "_meta is an object")
        is_stateless = method != "initialize" and _KEY + "protocolVersion" in meta
        if is_stateless:
            _check_envelope(meta)
        if method == "tools/call":
            self._waiting.add(name)
            self._jobs.put(self._job(name, params, meta.get("progressToken"), is_stateless=is_stateless))
            return
        result = self._stateless(method) if is_stateless else self._handshake(method, params)
        self._send_result(name, result, is_stateless=is_stateless)

    def _handshake(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            asked = params.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in HANDSHAKE else HANDSHAKE[0],
                "capabilities": {"tools": {}},
                "serverInfo": self._info,
                "instructions": self._instructions,
            }
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": self._definitions()}
        raise _Refused(METHOD_NOT_FOUND, f"no method {method!r}")

    def _stateless(self, method: str) -> dict[str, Any]:
        fresh = {"ttlMs": _TTL_MS, "cacheScope": "public"}
        if method == "server/discover":
            known = {"supportedVersions": [*STATELESS, *HANDSHAKE], "capabilities": {"tools": {}}}
            return known | {"instructions": self._instructions} | fresh
        if method == "tools/list":
            return {"tools": self._definitions()} | fresh
        raise _Refused(METHOD_NOT_FOUND, f"no method {method!r}")

    def _definitions(self) -> list[dict[str, Any]]:
        return [tool.definition for tool in self._tools.values()]

    # tools

    def _job(self, name: str | int, params: dict[str, Any], token: Any, *, is_stateless: bool) -> _Job:
        asked, arguments = params.get("name"), params.get("arguments")
        tool = self._tools.get(asked) if isinstance(asked, str) else None
        if tool is None:
            raise _Refused(INVALID_PARAMS, f"no tool {asked!r}; there are {', '.join(self._tools)}")
        if not isinstance(arguments, dict | None):
            raise _Refused(INVALID_PARAMS, "arguments is an object")
        token = token if isinstance(token, str | int) else None
        return _Job(name, tool, arguments or {}, token, is_stateless)

    def _work(self) -> None:
        while job := self._jobs.get():
            if job.id not in self._waiting:
                continue  # taken back before its turn
            given = job.tool.call(job.arguments, _Teller(self, job.token))
            if job.id in self._waiting:
                self._waiting.discard(job.id)
                self._send_result(job.id, _tool_result(given), is_stateless=job.is_stateless)

    # answers

    def _send_result(self, name: str | int, result: dict[str, Any], *, is_stateless: bool) -> None:
        if is_stateless:
            result = {"resultType": "complete", "_meta": {_KEY + "serverInfo": self._info}} | result
        self.send({"id": name, "result": result})

    def _refuse(self, name: str | int | None, refusal: _Refused) -> None:
        error = {"code": refusal.code, "message": refusal.message}
        self.send({"id": name, "error": error if refusal.data is None else error | {"data": refusal.data}})

    def send(self, message: dict[str, Any]) -> None:
        """Write one message. A client that has gone hears nothing more, and what it began is finished in silence."""
        line = json.dumps({"jsonrpc": "2.0"} | message, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
        with self._writing:
            try:
                self._sink.write(line)
                self._sink.flush()
            except (BrokenPipeError, ValueError):
                return


class _Teller:
    """Tells the client how far a call is, where it asked to be told by giving a token."""

    def __init__(self, server: Server, token: str | int | None) -> None:
        self._server = server
        self._token = token
        self._last = -1

    def __call__(self, done: int, total: int) -> None:
        if self._token is None or done <= self._last:  # it must rise with each notification
            return
        self._last = done
        params = {"progressToken": self._token, "progress": done, "total": total}
        self._server.send({"method": "notifications/progress", "params": params})


def _request(message: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise _Refused(INVALID_REQUEST, 'a message is one object with "jsonrpc": "2.0"')
    method, params = message.get("method"), message.get("params", {})
    if not isinstance(method, str):
        raise _Refused(INVALID_REQUEST, "a request has a method")
    if not isinstance(params, dict):
        raise _Refused(INVALID_PARAMS, "params is an object")
    return method, params


def _check_envelope(meta: dict[str, Any]) -> None:
    version = meta[_KEY + "protocolVersion"]
    if version not in STATELESS:
        supported = {"supported": [*STATELESS, *HANDSHAKE], "requested": version}
        raise _Refused(UNSUPPORTED_VERSION, f"no requests of version {version!r} without a handshake", supported)
    if not isinstance(meta.get(_KEY + "clientCapabilities"), dict):
        raise _Refused(INVALID_PARAMS, f"_meta lacks {_KEY}clientCapabilities")


def _tool_result(given: dict[str, Any] | Failed) -> dict[str, Any]:
    """Give a `CallToolResult`: the structured value, and the same as text for clients that read only that.

    A model reads it, so nothing is in it that its user could not see.
    """
    from cyberos.core.prompt import seen

    if isinstance(given, Failed):
        return {"content": [{"type": "text", "text": seen(given.text)}], "isError": True}
    shown = _shown(given, seen)
    twin = json.dumps(shown, ensure_ascii=False, allow_nan=False)
    return {"content": [{"type": "text", "text": twin}], "structuredContent": shown, "isError": False}


def _shown(value: Any, seen: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return seen(value)
    if isinstance(value, dict):
        return {seen(key) if isinstance(key, str) else key: _shown(item, seen) for key, item in value.items()}
    return [_shown(item, seen) for item in value] if isinstance(value, list | tuple) else value


def _no_constant(name: str) -> Any:
    raise ValueError(name)
