"""One question to a language model behind an OpenAI-compatible endpoint, and its answer as text.

    POST <CYBEROS_LLM_URL>/chat/completions   {"model": …, "messages": [{"role": "user", "content": …}], …}
    -> {"choices": [{"message": {"content": "…"}}]}

Nothing is trusted: an answer has a deadline and a greatest size, a redirect is never followed (it would carry the key
elsewhere), the proxies of the environment are not asked, and the key stands in no message of ours.
What may pass by itself (408, 429, 5xx, a broken connection) is tried again, at most `TRIES` times, after a wait that
doubles or that the endpoint asks for.

Source: DESIGN sections 7 and 8; the OpenAI API reference (chat completions); RFC 9110 section 10.2.3 (Retry-After).
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from cyberos.core.errors import CyberosError
from cyberos.core.render import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRIES = 3
TIMEOUT_S = 60.0
LONGEST_WAIT_S = 30.0  # a Retry-After beyond this is not waited for
MOST_BYTES = 1 << 20
_FIRST_WAIT_S = 1.0
_SHOWN = 300  # characters of an endpoint's own words in an error
_CHUNK = 64 * 1024
_PASSING = (408, 425, 429)
_REFUSED_KEY = (401, 403)


class EndpointFailed(CyberosError):
    """The endpoint gave no answer. `status` is its HTTP status, or None; the key is in none of this."""

    def __init__(self, url: str, reason: str, status: int | None = None) -> None:
        super().__init__(url, reason, status)
        self.url = url
        self.reason = reason
        self.status = status

    def __str__(self) -> str:
        return f"{self.url}: {self.reason}"

    @property
    def hint(self) -> str:
        if self.status in _REFUSED_KEY:
            return "see that CYBEROS_LLM_KEY is right, or record without a model: --no-llm"
        return "see CYBEROS_LLM_URL and CYBEROS_LLM_MODEL, try again later, or record without a model: --no-llm"


class Endpoint(NamedTuple):
    """Where a model answers. `key` may be empty."""

    url: str
    model: str
    key: str = ""
    timeout_s: float = TIMEOUT_S

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r}, {self.model!r})"  # a traceback shows it


def configured() -> Endpoint | None:
    """Give the endpoint that the environment names, or None. Raises: EndpointFailed for half of one, or a bad URL."""
    url, model = (os.environ.get(f"CYBEROS_LLM_{name}", "").strip() for name in ("URL", "MODEL"))
    if not url and not model:
        return None
    if not url or not model:
        raise EndpointFailed(url or "CYBEROS_LLM_URL", "CYBEROS_LLM_URL and CYBEROS_LLM_MODEL go together")
    made = Endpoint(url, model, os.environ.get("CYBEROS_LLM_KEY", "").strip())
    _target(made)
    return made


def ask(endpoint: Endpoint, prompt: str, options: dict[str, Any], sleep: Callable[[float], object] = time.sleep) -> str:
    """Put one question; give the text of the answer, which may be anything. `options` join the request.

    Raises: EndpointFailed.
    """
    body = {"model": endpoint.model, "messages": [{"role": "user", "content": prompt}], "stream": False} | options
    blob = json.dumps(body).encode("ascii")
    for attempt in range(1, TRIES + 1):
        try:
            return _answer(endpoint, *_post(endpoint, blob))
        except _Again as failure:
            wait_s = failure.wait_s if failure.wait_s is not None else _FIRST_WAIT_S * 2.0 ** (attempt - 1)
            if attempt == TRIES or wait_s > LONGEST_WAIT_S:
                tries = f"; tried {attempt} times" if attempt > 1 else ""
                later = f"; it asks to wait {wait_s:.0f} s" if wait_s > LONGEST_WAIT_S else ""
                raise EndpointFailed(_shown(endpoint), failure.reason + later + tries, failure.status) from None
            sleep(wait_s)
    raise AssertionError("unreachable")


class _Again(Exception):
    """No error yet: what failed may pass by itself."""

    def __init__(self, reason: str, status: int | None = None, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.wait_s = wait_s


def _target(endpoint: Endpoint) -> tuple[bool, str, int | None, str]:
    """Read the URL: whether it is TLS, host, port, path. Raises: EndpointFailed."""
    try:
        parts = urlsplit(endpoint.url)
        port = parts.port
    except ValueError:
        raise EndpointFailed("CYBEROS_LLM_URL", "it is no URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EndpointFailed("CYBEROS_LLM_URL", "it must begin with http:// or https:// and name a host")
    if parts.username is not None:
        raise EndpointFailed("CYBEROS_LLM_URL", "it holds a user's name; the key goes into CYBEROS_LLM_KEY")
    path = parts.path.rstrip("/") or "/v1"
    path = path if path.endswith("/chat/completions") else f"{path}/chat/completions"
    return parts.scheme == "https", parts.hostname, port, path + (f"?{parts.query}" if parts.query else "")


def _shown(endpoint: Endpoint) -> str:
    """Give the URL as it may be shown: a query may hold a key."""
    return escape(urlsplit(endpoint.url)._replace(query="").geturl())


def _post(endpoint: Endpoint, question: bytes) -> tuple[http.client.HTTPResponse, bytes]:
    """Send the request and read the answer whole. Raises: _Again, EndpointFailed."""
    is_tls, host, port, path = _target(endpoint)
    kind = http.client.HTTPSConnection if is_tls else http.client.HTTPConnection
    connection = kind(host, port, timeout=endpoint.timeout_s)
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "cyberos"}
    if endpoint.key:
        headers["Authorization"] = f"Bearer {endpoint.key}"
    try:
        connection.connect()
        with _deadline(connection.sock, endpoint.timeout_s) as is_late:
            try:
                connection.request("POST", path, question, headers)
                response = connection.getresponse()
                blob = _read(endpoint, response)
            except (OSError, http.client.HTTPException) as error:
                if is_late():
                    raise _Again(f"no whole answer within {endpoint.timeout_s:g} s") from None
                raise _Again(_cleaned(endpoint, f"the connection broke ({_named(error)})")) from None
            if is_late():  # what broke may look like an answer without a body
                raise _Again(f"no whole answer within {endpoint.timeout_s:g} s")
            return response, blob
    except ValueError as error:  # a key or path that no header can hold
        raise EndpointFailed(_shown(endpoint), f"cannot be asked ({type(error).__name__})") from None
    except OSError as error:
        raise _Again(f"cannot be reached ({_named(error)})") from None
    finally:
        connection.close()


def _named(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


@contextmanager
def _deadline(sock: socket.socket, timeout_s: float) -> Iterator[Callable[[], bool]]:
    """Break the connection when the time is up, however slowly bytes still drip; give whether that has happened."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield late.is_set
    finally:
        timer.cancel()


def _read(endpoint: Endpoint, response: http.client.HTTPResponse) -> bytes:
    found = bytearray()
    while chunk := response.read(_CHUNK):
        found += chunk
        if len(found) > MOST_BYTES:
            raise EndpointFailed(_shown(endpoint), f"the answer is larger than {MOST_BYTES:,} bytes", response.status)
    if response.length:  # what Content-Length promised and did not come
        raise http.client.IncompleteRead(b"", response.length)
    return bytes(found)


def _answer(endpoint: Endpoint, response: http.client.HTTPResponse, blob: bytes) -> str:
    """Take the text out of an answer. Raises: _Again, EndpointFailed."""
    status = response.status
    if 300 <= status < 400:  # noqa: PLR2004 - redirects
        place = _cleaned(endpoint, response.getheader("Location") or "nowhere")
        raise EndpointFailed(_shown(endpoint), f"it redirects to {place}, which is not followed", status)
    if status != 200:  # noqa: PLR2004
        reason = f"HTTP {status}: {_cleaned(endpoint, _told(blob)) or response.reason}"
        if status in _PASSING or status >= 500:  # noqa: PLR2004
            raise _Again(reason, status, _retry_after(response.getheader("Retry-After")))
        raise EndpointFailed(_shown(endpoint), reason, status)
    if not blob:
        raise _Again("the answer is empty", status)
    try:
        message = json.loads(blob)["choices"][0]["message"]
        content = message.get("content") or ""
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        kind = response.getheader("Content-Type") or "no content type"
        reason = f"the answer is no chat completion ({_cleaned(endpoint, kind)})"
        raise EndpointFailed(_shown(endpoint), reason, status) from None
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _told(blob: bytes) -> str:
    """Give what an error's body says."""
    with suppress(ValueError, RecursionError):
        found = json.loads(blob)
        if isinstance(found, dict):
            error = found.get("error", found)
            return str(error.get("message", error) if isinstance(error, dict) else error)
    return blob[: 4 * _SHOWN].decode("utf-8", "replace")


def _cleaned(endpoint: Endpoint, text: str) -> str:
    """Make an endpoint's words fit to be shown: without the key, which some repeat, and without what hides."""
    if endpoint.key:
        text = text.replace(endpoint.key, "***")
    flat = escape(" ".join(text.split()))
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]}…"


def _retry_after(value: str | None) -> float | None:
    """Read seconds or a date as seconds from now; None where it is neither."""
    if value is None:
        return None
    with suppress(ValueError):
        return max(0.0, float(value)) if value.strip().isdecimal() else _until(value)
    return None


def _until(value: str) -> float:
    from email.utils import parsedate_to_datetime

    moment = parsedate_to_datetime(value)
    return max(0.0, moment.timestamp() - time.time())
