"""Which format a transcript has, told by its content, and its reader.

A reader is a module with `NAME`, `matches(head)` and `read(pieces)`; it is asked with the first pieces of the file, and
the first that knows them reads the whole. The more a format says of itself, the earlier it is asked.

Source: DESIGN section 7.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from cyberos.core.errors import CyberosError
from cyberos.record import (
    claude,
    claude_stream,
    codex,
    codex_exec,
    gemini,
    mini_swe_agent,
    openai,
    opencode,
    openhands,
    stream,
    swe_agent,
)
from cyberos.record.stream import Broken, Piece
from cyberos.record.transcript import USER, Transcript, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cyberos.record.transcript import Run

_READERS = (
    codex, codex_exec, gemini, opencode, openhands, claude_stream, claude, mini_swe_agent, swe_agent, openai,
)  # fmt: skip
READERS = {reader.NAME: reader for reader in _READERS}
_HEAD = 60  # pieces by which a format is known
_MOST_TOLD = 20
# keys of a file that is one document; a document with an instance_id is the one line of a file of lines
_DOCUMENT = {"messages", "trajectory", "history", "parts", "events"}


class UnknownFormat(CyberosError):
    """A file that no reader knows. `beginning` is what stands at its head."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    @property
    def hint(self) -> str:
        return f"known formats: {', '.join(READERS)}; force one with --format, or log it with `cyberos episode log`"


class NotLines(CyberosError):
    """A transcript that cannot be read from its middle."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: one JSON document, of which no part can be skipped"

    @property
    def hint(self) -> str:
        return "leave --skip-bytes out: it is for transcripts that grow line by line"


def read(handle: BinaryIO, path: str, name: str | None = None, skip: int = 0) -> Transcript:
    """Read a transcript from a file that can be gone back in. `name` forces a format.

    With `skip`, only what came after that many bytes: no runs where nothing did.

    Raises: UnknownFormat when no reader knows it, or the forced one finds nothing in it; NotLines.
    """
    is_lines = _is_lines(handle)
    if skip and not is_lines:
        raise NotLines(path)
    if name is None:
        head = [piece for piece in islice(_pieces(handle, is_lines=is_lines), _HEAD) if isinstance(piece, Piece)]
        if not head:
            raise UnknownFormat(path, "empty" if not _byte(handle) else "not JSON, nor lines of JSON")
        name = next((reader.NAME for reader in _READERS if reader.matches(head)), None)
    if name is None:
        raise UnknownFormat(path, "a transcript of no known format")
    skipped: list[str] = []
    runs = READERS[name].read(_readable(_pieces(handle, is_lines=is_lines, after=skip), skipped))
    runs = [run for run in runs if run.steps]
    if skip:
        handle.seek(0)
        before = READERS[name].read(_readable(stream.lines(handle, until=skip), []))
        return Transcript(name, runs, skipped, _last_asked(before))
    if not runs:
        raise UnknownFormat(path, f"nothing in it that {name} would write")
    return Transcript(name, runs, skipped)


def _last_asked(runs: list[Run]) -> str:
    asked = [step.text for run in runs for step in run.steps if isinstance(step, Turn) and step.role == USER]
    return asked[-1] if asked else ""


def _byte(handle: BinaryIO) -> bytes:
    handle.seek(0)
    return handle.read(1)


def _is_lines(handle: BinaryIO) -> bool:
    if stream.is_lines(handle):
        return True
    keys = {piece.key for piece in islice(stream.document(handle), 20) if isinstance(piece, Piece)}
    handle.seek(0)
    is_document = bool(keys & _DOCUMENT) or keys <= {""}
    return not is_document or "instance_id" in keys


def _pieces(handle: BinaryIO, *, is_lines: bool, after: int = 0) -> Iterator[Piece | Broken]:
    handle.seek(0)
    return stream.lines(handle, after) if is_lines else stream.document(handle)


def _readable(pieces: Iterable[Piece | Broken], skipped: list[str]) -> Iterator[Piece]:
    for piece in pieces:
        if isinstance(piece, Piece):
            if isinstance(piece.value, dict) or piece.key:
                yield piece
        elif len(skipped) < _MOST_TOLD:
            skipped.append(f"line {piece}")
