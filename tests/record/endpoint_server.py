"""A chat endpoint on loopback that answers as a test tells it, byte for byte."""

from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = bytes | Callable[[socket.socket], None]


def http(status: int, body: bytes | str = b"", *headers: str, kind: str = "application/json") -> bytes:
    """Spell an answer with its length."""
    blob = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(blob)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + blob


def completion(content: object) -> str:
    return json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]})


def said(content: object) -> bytes:
    return http(200, completion(content))


class Server:
    """Gives one answer a connection, the last one for ever; `requests` are (head, body) as they came."""

    def __init__(self, *answers: Answer, family: int = socket.AF_INET) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict]] = []
        self._listening = socket.socket(family)
        self._listening.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self._listening.listen()
        self.port = self._listening.getsockname()[1]
        host = "[::1]" if family == socket.AF_INET6 else "127.0.0.1"
        self.url = f"http://{host}:{self.port}/v1"
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            with taken:
                self._one(taken)

    def _one(self, taken: socket.socket) -> None:
        try:
            with taken.makefile("rb") as stream:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = stream.readline()
                    if not line:
                        return
                    head += line
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = json.loads(stream.read(length))
            self.requests.append((head.decode(), body))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            taken.sendall(answer) if isinstance(answer, bytes) else answer(taken)
        except OSError:
            return
