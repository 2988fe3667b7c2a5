"""What a memory's bytes may have been before an editor spelled them anew.

    CRLF for LF, a BOM, UTF-16, a last line end too many or too few; blanks cut at the ends of an episode's lines
    `quality_score: 1` for `"quality_score": 1.0`: Obsidian saves a block of JSON as YAML, a JSON tool its own way

These are guesses. Whoever asks takes one only when its SHA-256 is that of a row: then it is what was written, byte for
byte. What the guess would lose (a comment in YAML, words that an episode's body did not have) is no guess at all.

Source: DESIGN section 2; obsidian-help, "Properties": JSON "will be read, interpreted, and saved as YAML".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cyberos.core import contract, frontmatter, layout
from cyberos.core.episode import body_of
from cyberos.core.errors import InvalidMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyberos.core.frontmatter import Parsed

_COMMENT_OF_TEXT = re.compile(r":[ \t]*[|>][-+0-9]*[ \t]+#")


def guesses(path: str, blob: bytes) -> Iterator[bytes]:
    """Give what the file at `path` may have held, the nearest first; each is without loss but for blanks."""
    try:
        content = _decode(blob).replace("\r\n", "\n")
    except UnicodeDecodeError:
        return
    yield from _ended(content)
    try:
        yield from _ended(_respelled(path, frontmatter.parse(content)))
    except (InvalidMemory, ValueError, TypeError, KeyError, OverflowError):
        return


def _decode(blob: bytes) -> str:
    if blob.startswith((b"\xff\xfe", b"\xfe\xff")):
        return blob.decode("utf-16")
    return blob.decode("utf-8-sig")


def _ended(content: str) -> Iterator[bytes]:
    """Give a text as it is, with one last line end, and with none."""
    bare = content.rstrip("\n")
    for text in dict.fromkeys((content, f"{bare}\n", bare)):
        yield text.encode()


def _respelled(path: str, parsed: Parsed) -> str:
    """Spell a memory as cyberos does. Raises: InvalidMemory, or ValueError for what no spelling alone has changed."""
    values = parsed.frontmatter if parsed.is_json else _without_comment(parsed)
    if not layout.is_episode_path(path):
        return frontmatter.serialise(values, "")[: -len("\n\n")] + parsed.body
    values = _as_law(values if parsed.is_json else _as_texts(parsed.block, values))
    document = body_of(values)
    if _words(document) != _words(parsed.body):
        raise ValueError("the body says something else")
    return frontmatter.serialise(values, document)


def _words(body: str) -> list[str]:
    return [line.rstrip() for line in body.strip().split("\n")]


def _without_comment(parsed: Parsed) -> dict[str, Any]:
    """Give the values of a YAML block. Raises: ValueError where a comment stands beside them."""
    import yaml

    end = 0
    for token in yaml.scan(parsed.block, Loader=yaml.SafeLoader):
        if "#" in parsed.block[end : token.start_mark.index]:
            raise ValueError("the block has a comment")
        end = max(end, token.end_mark.index)
    if "#" in parsed.block[end:] or _COMMENT_OF_TEXT.search(parsed.block):
        raise ValueError("the block has a comment")
    return parsed.frontmatter


def _as_texts(block: str, values: dict[str, Any]) -> dict[str, Any]:
    """Read a YAML block again as the data law has it: a date, `yes` or `007` may be a text, `1e-05` a number."""
    import yaml

    texts = yaml.load(block, Loader=yaml.BaseLoader)
    forms = {"string": str, "array": list, "number": float, "integer": int}
    found = {}
    for key, value in values.items():
        form = forms.get(str(_type_of(key)))
        if value not in ("", None, []):
            found[key] = value if form is None else form(texts[key])
    return found


def _as_law(values: dict[str, Any]) -> dict[str, Any]:
    """Give whole numbers the form that the data law has for them: `1` for `1.0`, and the reverse."""
    forms = {"number": float, "integer": int}
    found = dict(values)
    for key, value in values.items():
        form = forms.get(str(_type_of(key)))
        if form is not None and isinstance(value, int | float) and not isinstance(value, bool) and form(value) == value:
            found[key] = form(value)
    return found


def _type_of(key: str) -> Any:
    return _properties().get(key, {}).get("type")


def _properties() -> dict[str, Any]:
    found: dict[str, Any] = contract.schema()["$defs"]["EpisodeFrontmatter"]["properties"]
    return found
