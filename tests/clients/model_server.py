"""A model on loopback that does what it is told: it calls one tool, and then has done its work.

    POST /v1/messages                          Anthropic's Messages API, streamed
    POST /v1/responses                         OpenAI's Responses API, streamed
    POST /v1beta/models/…:streamGenerateContent   Google's Gemini API, streamed

`requests` holds the texts of each request, one below the other: what reached the model.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE = "Done."


class Call(NamedTuple):
    """The tool that the model calls: one whose name ends so."""

    name: str
    arguments: dict[str, Any]


class Model(ThreadingHTTPServer):
    """The server; `call` is what the model does in a session that has not done it yet."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.call: Call | None = None
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def heard(self) -> str:
        """Give all that reached the model since `forget`."""
        return "\n".join(self.requests)

    def forget(self) -> None:
        self.requests.clear()


@contextmanager
def serving() -> Iterator[Model]:
    """Serve until the block ends."""
    server = Model()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send({"data": [], "models": []})

    def do_POST(self) -> None:
        blob = self.rfile.read(int(self.headers.get("content-length") or 0))
        path, body = self.path.split("?")[0], json.loads(blob or b"{}")
        if path.endswith("/messages"):
            self.server.requests.append("\n".join(_strings(body)))
            self._stream(_messages(body, self.server.call))
        elif path.endswith("/responses"):
            self.server.requests.append("\n".join(_strings(body)))
            self._stream(_responses(body, self.server.call))
        elif path.endswith("GenerateContent"):
            self.server.requests.append("\n".join(_strings(body)))
            self._stream([_content(body, self.server.call)])
        else:
            self._send({"input_tokens": 10, "totalTokens": 10})

    def _send(self, answer: Any) -> None:
        self._write(json.dumps(answer).encode(), "application/json")

    def _stream(self, events: list[dict[str, Any]]) -> None:
        lines = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
        texts = (f"{line}data: {json.dumps(event)}\n\n" for line, event in zip(lines, events, strict=True))
        self._write("".join(texts).encode(), "text/event-stream")

    def _write(self, blob: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(blob)))
        self.end_headers()
        self.wfile.write(blob)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    else:
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from _strings(each)


def _named(call: Call | None, names: list[str], *, is_done: bool) -> str | None:
    if call is None or is_done:
        return None
    return next((name for name in names if name.endswith(call.name)), None)


def _messages(body: dict[str, Any], call: Call | None) -> list[dict[str, Any]]:
    contents = [each["content"] for each in body["messages"] if isinstance(each["content"], list)]
    is_done = any(block.get("type") == "tool_result" for content in contents for block in content)
    name = _named(call, [tool["name"] for tool in body.get("tools", [])], is_done=is_done)
    if name is not None and call is not None:
        block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": DONE}
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {
        "id": f"msg_{is_done:d}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
    }
    end = {"stop_reason": "tool_use" if name else "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    ]  # fmt: skip


def _functions(tools: list[dict[str, Any]], space: str = "") -> Iterator[tuple[str, str]]:
    """Give the space and the name of each function; one in a namespace is called with both."""
    for tool in tools:
        if tool.get("type") == "namespace":
            yield from _functions(tool.get("tools", []), tool["name"])
        elif tool.get("name"):
            yield space, tool["name"]


def _responses(body: dict[str, Any], call: Call | None) -> list[dict[str, Any]]:
    is_done = any(item.get("type", "").endswith("_call_output") for item in body.get("input", []))
    found = {name: space for space, name in _functions(body.get("tools", []))}
    name = _named(call, list(found), is_done=is_done)
    if name is not None and call is not None:
        item: dict[str, Any] = {"type": "function_call", "id": "f1", "call_id": "call_1", "name": name}
        item |= {"arguments": json.dumps(call.arguments)} | ({"namespace": found[name]} if found[name] else {})
    else:
        text = {"type": "output_text", "text": DONE, "annotations": []}
        item = {"type": "message", "id": "m1", "role": "assistant", "content": [text]}
    usage = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}
    return [
        {"type": "response.created", "response": {"id": f"resp_{is_done:d}", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": f"resp_{is_done:d}", "status": "completed", "output": [item], "usage": usage}},
    ]  # fmt: skip


def _content(body: dict[str, Any], call: Call | None) -> dict[str, Any]:
    is_done = any("functionResponse" in part for turn in body.get("contents", []) for part in turn.get("parts", []))
    names = [each["name"] for tool in body.get("tools", []) for each in tool.get("functionDeclarations", [])]
    name = _named(call, names, is_done=is_done)
    part = {"functionCall": {"name": name, "args": call.arguments}} if name and call else {"text": DONE}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 4, "totalTokenCount": 14}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro", "responseId": "r"}
