"""A memory file as text: a frontmatter block between `---` fences, then the body.

    ---
    {
      "approach": "single-commit RLS GUC",
      "kind": "episode"
    }
    ---

    Task: …

`serialise` writes flat JSON: two spaces, keys sorted, text unescaped but for what YAML readers change
(U+007F-U+009F, U+2028, U+2029, U+FEFF, U+FFFE, U+FFFF become \\uXXXX), floats without exponent. Every YAML reader
then sees the same values. `parse` is its inverse and also reads legacy YAML, through python-frontmatter, after
bounding what YAML could blow up: size, nesting, anchors.

Source: DESIGN section 2.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from cyberos.core import canonical
from cyberos.core.errors import InvalidMemory
from cyberos.core.layout import MAX_FILE_BYTES, MAX_FRONTMATTER_BYTES

MAX_NESTING = 32
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)


class Parsed(NamedTuple):
    """What a memory file says. `body` is the text after the closing fence's line; `is_json` is false for YAML."""

    frontmatter: dict[str, Any]
    body: str
    is_json: bool
    block: str


def serialise(frontmatter: dict[str, Any], body: str) -> str:
    """Write a memory file. `body` comes without its leading blank line and final newline.

    Raises: InvalidMemory for values that are not scalars or lists of strings, or for a file over the size caps.
    """
    lines = [f"{_begin(key)}{_dump_value(key, frontmatter[key])}" for key in sorted(frontmatter)]
    block = "{\n" + ",\n".join(lines) + "\n}" if lines else "{}"
    text = f"---\n{block}\n---\n\n{body}\n"
    check_size(block, text)
    return text


@lru_cache(maxsize=256)
def _begin(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise InvalidMemory("frontmatter-schema", f"{key[:40]!r} is not a plain ASCII key", pointer=f"/{key[:40]}")
    return f'  "{key}": '


def _dump_value(key: str, value: Any) -> str:
    if isinstance(value, str):
        text = encode_basestring(value)
        return text if text.isascii() and "\x7f" not in text else _ESCAPED.sub(_escape, text)
    if type(value) is int:
        return str(value)
    if isinstance(value, list | tuple):
        items = [f"    {_dump_value(key, item)}" for item in value]
        return "[\n" + ",\n".join(items) + "\n  ]" if items else "[]"
    if isinstance(value, float):
        return canonical.format_float(value)
    if value is None or isinstance(value, int):
        return json.dumps(value)
    raise InvalidMemory("frontmatter-schema", f"{key} is neither a scalar nor a list of strings", pointer=f"/{key}")


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


def check_size(block: str, text: str) -> None:
    """Refuse what no memory file may be. Raises: InvalidMemory (layout-file-size)."""
    sizes = ((block, MAX_FRONTMATTER_BYTES, "frontmatter"), (text, MAX_FILE_BYTES, "file"))
    for part, limit, name in sizes:
        # a character takes at least one byte, so most texts need no encoding to be judged
        if len(part) * 4 > limit and (size := len(part.encode("utf-8", "surrogatepass"))) > limit:
            raise InvalidMemory(
                "layout-file-size",
                f"the {name} takes {size:,} bytes; at most {limit:,} are allowed",
                advice="say it shorter, and name the long text (a log, a diff) by its path or commit",
            )


def parse(text: str) -> Parsed:
    """Read a memory file, JSON or legacy YAML.

    Raises: InvalidMemory (frontmatter-parse) when there is no block, no end, or nothing readable in it, and
    (frontmatter-double) when a second block follows the first.
    """
    block, body, first_line = _split(text)
    is_json = block.lstrip().startswith("{")
    found = _parse_json(block, first_line) if is_json else _parse_yaml(block, first_line)
    if not isinstance(found, dict):
        raise _unreadable(f"the frontmatter is a {type(found).__name__}, not a mapping of names to values", first_line)
    _refuse_second_block(body, text)
    return Parsed(found, body, is_json, block)


def _split(text: str) -> tuple[str, str, int]:
    if not text.startswith("---"):
        raise _unreadable("no frontmatter: the first line is not `---`", 1)
    opening, newline, rest = text.partition("\n")
    if opening.rstrip() != "---" or not newline:
        raise _unreadable("no frontmatter: the first line is not exactly `---`", 1)
    closing = re.search(r"^---[ \t]*$", rest, re.MULTILINE)
    if closing is None:
        dots = re.search(r"^\.\.\.[ \t]*$", rest, re.MULTILINE)
        if dots is not None:
            line = rest.count("\n", 0, dots.start()) + 2
            raise _unreadable("the frontmatter ends in `...`; it must end in `---`", line)
        raise _unreadable("the frontmatter is not closed: no second `---` line", 1)
    block = rest[: closing.start()].removesuffix("\n")
    if len(block) > MAX_FRONTMATTER_BYTES:
        check_size(block, "")
    return block, rest[closing.end() :].removeprefix("\n"), 2


def _parse_json(block: str, first_line: int) -> Any:
    if _depth(block) > MAX_NESTING:
        raise _unreadable(f"the frontmatter is nested more than {MAX_NESTING} deep", first_line)
    try:
        return canonical.load(block)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise _unreadable(f"the frontmatter is not JSON: {error.msg} (column {error.colno})", line) from None
    except ValueError as error:
        raise _unreadable(f"the frontmatter is not strict JSON: {error}", first_line) from None


def _depth(block: str) -> int:
    # counts brackets inside strings too: an over-estimate, so only a block full of them is looked at closely
    if block.count("[") + block.count("{") <= MAX_NESTING:
        return 0
    depth = deepest = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', block):
        if token.group() in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token.group() in "]}":
            depth -= 1
    return deepest


def _parse_yaml(block: str, first_line: int) -> Any:
    import yaml
    from frontmatter.default_handlers import YAMLHandler

    block += "\n"  # a text block at the end keeps its line end
    try:
        _bound_yaml(block, first_line)
        return YAMLHandler().load(block)
    except yaml.MarkedYAMLError as error:
        line = first_line + (error.problem_mark.line if error.problem_mark else 0)
        raise _unreadable(f"the frontmatter is not YAML: {error.problem or error.context}", line) from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        if isinstance(error, InvalidMemory):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _unreadable(f"the frontmatter is not YAML: {reason}", first_line) from None


def _bound_yaml(block: str, first_line: int) -> None:
    # events come one by one, so that a bomb is seen before it is built
    import yaml

    keys: list[set[str] | None] = []  # of each open collection; None for a sequence
    at_key: list[bool] = []
    for event in yaml.parse(block, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        line = first_line + (event.start_mark.line if event.start_mark else 0)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _unreadable("the frontmatter uses a YAML anchor or alias", line)
        if isinstance(event, yaml.CollectionEndEvent):
            keys.pop()
            at_key.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        if keys and (seen := keys[-1]) is not None:
            at_key[-1] = not at_key[-1]
            if at_key[-1] and isinstance(event, yaml.ScalarEvent):
                if event.value in seen:
                    raise _unreadable(f"the key {event.value!r} stands twice", line)
                seen.add(event.value)
        if isinstance(event, yaml.CollectionStartEvent):
            keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            at_key.append(False)
            if len(keys) > MAX_NESTING:
                raise _unreadable(f"the frontmatter is nested more than {MAX_NESTING} deep", line)


def _refuse_second_block(body: str, text: str) -> None:
    rest = body.lstrip("\n")
    if not rest.startswith("---\n"):
        return
    block, closing, _ = rest[4:].partition("\n---")
    if closing and re.match(r"\s*(?:\{|[A-Za-z_][\w-]*\s*:)", block):
        line = text.count("\n", 0, len(text) - len(rest)) + 1
        raise InvalidMemory(
            "frontmatter-double",
            "a second frontmatter block follows the first",
            line=line,
            advice="keep one block; some tool has put its own in front",
        )


def _unreadable(message: str, line: int) -> InvalidMemory:
    advice = "a memory begins with `---`, a JSON object, and `---`; `cyberos read` on another one shows the form"
    return InvalidMemory("frontmatter-parse", message, line=line, advice=advice)
