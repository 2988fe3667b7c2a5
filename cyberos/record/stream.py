"""The JSON of a transcript, piece by piece: no file is ever held whole.

    {"a": 1}\\n{"b": 2}\\n          -> Piece("", {"a": 1}, 1)  Piece("", {"b": 2}, 2)              a file of lines
    [{"role": "user"}, …]         -> Piece("", {"role": "user"}, 1) …                            one array
    {"info": {}, "messages": [m]} -> Piece("info", {}, 1)  Piece("messages", m, 1) …             one object

What cannot be read is a piece too (`Broken`): a half-written line, a line that is no object, an array that ends in its
middle. Lines and elements above 64 MiB are passed over.

Source: DESIGN section 7; RFC 8259; jsonlines.org.
"""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 64 * 1024 * 1024
_CHUNK = 1024 * 1024
_BLANK = " \t\r\n\x00"
_DECODER = json.JSONDecoder(strict=False)


class Piece(NamedTuple):
    """A value, the key it stands under (in a file that is one object), and its line or its number there."""

    key: str
    value: Any
    line: int


class Broken(NamedTuple):
    """What could not be read, and where."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.line}: {self.reason}"


def load(text: str) -> Any:
    """Read one JSON value that may stand inside another. Raises: ValueError for whatever is not JSON."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_lines(handle: BinaryIO) -> bool:
    """Report whether a file is one of JSON lines, and not one JSON document; go back to its beginning.

    A document that stands on one line and nothing after it counts as a document.
    """
    handle.seek(0)
    whole, seen = 0, 0
    for line in _raw_lines(handle):
        if not line or not line.strip():
            continue
        seen += 1
        try:
            whole += isinstance(load(_text(line)), dict)
        except ValueError:
            whole += 0
        if seen >= 20 or whole >= 2:  # noqa: PLR2004 - enough to know
            break
    handle.seek(0)
    return whole > 0 and seen > 1


def lines(handle: BinaryIO, after: int = 0, until: int | None = None) -> Iterator[Piece | Broken]:
    """Read those lines of a file of JSON lines that end after byte `after`, and by byte `until`."""
    for number, line in enumerate(_raw_lines(handle), 1):
        end = handle.tell()
        if end <= after:
            continue
        if until is not None and end > until:
            return
        if line is None:
            yield Broken(number, "a line above 64 MiB")
            continue
        text = _text(line).strip(_BLANK)
        if not text:
            continue
        try:
            value = load(text)
        except ValueError:
            yield Broken(number, "a half-written line" if not line.endswith(b"\n") else "not JSON")
            continue
        yield Piece("", value, number) if isinstance(value, dict) else Broken(number, "not an object")


def _raw_lines(handle: BinaryIO) -> Iterator[bytes | None]:
    """Give each line; None for one that is too long."""
    while line := handle.readline(LARGEST):
        if line.endswith(b"\n") or len(line) < LARGEST:
            yield line
            continue
        while rest := handle.readline(_CHUNK):
            if rest.endswith(b"\n"):
                break
        yield None


def _text(blob: bytes) -> str:
    return blob.decode("utf-8", "replace").removeprefix("\ufeff")


def document(handle: BinaryIO) -> Iterator[Piece | Broken]:
    """Read a file that is one JSON array or object: the elements of the array, of the object's arrays, and the rest."""
    window = _Window(handle)
    opening = window.peek()
    if opening == "[":
        window.skip()
        yield from _elements(window, "")
    elif opening == "{":
        window.skip()
        yield from _members(window)
    else:
        yield Broken(1, "neither a JSON object nor an array")


def _members(window: _Window) -> Iterator[Piece | Broken]:
    while (mark := window.peek()) not in ("}", ""):
        if mark == ",":
            window.skip()
            continue
        try:
            key = window.value()
            if window.peek() != ":":
                raise ValueError(mark)
            window.skip()
            if window.peek() == "[":
                window.skip()
                yield from _elements(window, str(key))
            else:
                yield Piece(str(key), window.value(), 1)
        except ValueError:
            yield Broken(1, "the JSON breaks off or is damaged")
            return
    if window.peek() == "":
        yield Broken(1, "the JSON breaks off")


def _elements(window: _Window, key: str) -> Iterator[Piece | Broken]:
    number = 0
    while (mark := window.peek()) not in ("]", ""):
        if mark == ",":
            window.skip()
            continue
        number += 1
        try:
            yield Piece(key, window.value(), number)
        except ValueError:
            window.give_up()
            yield Broken(number, "the JSON breaks off or is damaged")
            return
    window.skip()


class _Window:
    """The part of a file that is being decoded."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._text, self._at, self._is_whole = "", 0, False
        self._more(_CHUNK)
        self._text = self._text.removeprefix("\ufeff")

    def _more(self, size: int) -> None:
        blob = self._handle.read(size)
        self._is_whole = not blob
        self._text = self._text[self._at :] + self._decode(blob, final=not blob)
        self._at = 0

    def peek(self) -> str:
        """Give the next character that is no blank; nothing at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANK:
                    return self._text[self._at]
                self._at += 1
            if self._is_whole:
                return ""
            self._more(_CHUNK)

    def skip(self) -> None:
        self._at += 1

    def give_up(self) -> None:
        """Let nothing more be found: what follows damage cannot be told apart."""
        self._text, self._at, self._is_whole = "", 0, True

    def value(self) -> Any:
        """Decode the value that begins here. Raises: ValueError."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise ValueError("nested too deeply") from None
            except ValueError:
                if self._is_whole or len(self._text) - self._at > LARGEST:
                    raise
            else:
                if end < len(self._text) or self._is_whole:  # a number may go on in the next chunk
                    self._at = end
                    return value
            self._more(max(_CHUNK, len(self._text) - self._at))
