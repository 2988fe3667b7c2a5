"""Which characters a memory may hold.

At construction ANSI escape sequences go and CRLF becomes LF. Tab and LF stay. Every other C0 control, DEL to
U+009F, a lone CR and lone surrogates are refused, since some reader of the file would change or hide them.
Everything else is kept exactly as given: no normalisation, no trimming.

Source: DESIGN section 2; ECMA-48 for the escape sequences.
"""

from __future__ import annotations

import re

from cyberos.core.errors import InvalidMemory

# CSI ... final byte, OSC/DCS/PM/APC/SOS strings up to BEL or ST, two-byte escapes
ANSI = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)|[ -/]*[0-Z\\\\^-~])")
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NAMES = {"\r": "a lone carriage return", "\x00": "NUL", "\x1b": "an escape character", "\x7f": "DEL"}


def clean(text: str) -> str:
    """Drop ANSI escape sequences and turn CRLF into LF."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    return text.replace("\r\n", "\n") if "\r" in text else text


def strip(text: str) -> str:
    """Drop escape sequences and every character that no memory may hold; for what cannot be asked for again."""
    return _FORBIDDEN.sub("", clean(text).replace("\r", "\n"))


def find_forbidden(text: str) -> tuple[int, str] | None:
    """Give the offset and the name of the first character that no memory may hold, or None."""
    found = _FORBIDDEN.search(text)
    if found is None:
        return None
    character = found.group()
    if "\udc80" <= character <= "\udcff":  # how Python hands on a byte of an argument that it could not decode
        return found.start(), f"a byte that is not UTF-8 (0x{ord(character) - 0xDC00:02X})"
    return found.start(), _NAMES.get(character, f"U+{ord(character):04X}")


def check(text: str, field: str) -> None:
    """Refuse characters that no memory may hold. Raises: InvalidMemory (text-encoding) naming field and offset."""
    found = find_forbidden(text)
    if found is not None:
        raise InvalidMemory(
            "text-encoding",
            f"{field} holds {found[1]} at character {found[0]}",
            pointer=f"/{field}",
            advice="take the character out; tab and line feed are the only control characters allowed",
        )


def decode(blob: bytes) -> str:
    """Decode a memory file. Raises: InvalidMemory (text-encoding) with the line, for anything but UTF-8 with LF."""
    advice = "save the file as UTF-8 without BOM and with LF line ends"
    for mark, name in ((b"\xef\xbb\xbf", "a UTF-8 BOM"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")):
        if blob.startswith(mark):
            raise InvalidMemory("text-encoding", f"the file begins with {name}", line=1, advice=advice)
    try:
        text = blob.decode("utf-8")
    except UnicodeDecodeError as error:
        line = blob.count(b"\n", 0, error.start) + 1
        raise InvalidMemory("text-encoding", f"byte {error.start} is not UTF-8", line=line, advice=advice) from None
    found = _FORBIDDEN.search(text)
    if found is not None:
        name = "CRLF line ends" if text[found.start() : found.start() + 2] == "\r\n" else find_forbidden(text)[1]  # type: ignore[index]
        line = text.count("\n", 0, found.start()) + 1
        raise InvalidMemory("text-encoding", f"the file holds {name}", line=line, advice=advice)
    return text


def conflict_line(text: str) -> int:
    """Give the line of the first unresolved conflict's opening marker, or 0; both markers stand at a line's start."""
    lined = "\n" + text
    begin = lined.find("\n<<<<<<< ")
    if begin < 0 or lined.find("\n>>>>>>> ", begin) < 0:
        return 0
    return lined.count("\n", 0, begin + 1)
