r"""An episode as cyberos itself writes it, told apart from all others in one look; nearly every file is one.

One pattern, made from the data law, has each field once, in order, spelled as the writer spells it: in a string only
`\"`, `\\`, `\n` and `\t` are escapes, and what must be escaped otherwise does not occur; an integer has at most 15
digits, a number a point. So a block that it matches is the one spelling of its values, holds no key twice, and hides
no character that a text may not hold. Whatever it does not match is judged rule by rule, whether sound or not.

Source: DESIGN sections 2 and 5; `frontmatter.serialise`, whose inverse this is.
"""

from __future__ import annotations

import json
import re
from functools import cache

from cyberos.core import canonical, contract, layout
from cyberos.core.episode import body_of
from cyberos.core.frontmatter import Parsed

_STRING = r'"(?:[^"\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]++|\\["\\nt])*+"'
_FORMS = {
    "string": _STRING,
    "integer": r"(?:0|[1-9][0-9]{0,14})",
    "number": r"([0-9]{1,3}\.[0-9]{1,17})",
    "array": rf"\[\n    {_STRING}(?:,\n    {_STRING})*+\n  \]",
}
_LONGEST = layout.MAX_FRONTMATTER_BYTES // 4  # a character takes at most four bytes
_DECODER = json.JSONDecoder()
_OPENING, _CLOSING = "---\n", "\n---\n\n"


@cache
def _form() -> re.Pattern[str]:
    fields = contract.schema()["$defs"]["EpisodeFrontmatter"]["properties"]
    lines = [
        rf'(?:  "{name}": {_FORMS[fields[name].get("type", "string")]}(?:,\n(?=  )|\n(?=\}})))?+'
        for name in sorted(fields)
    ]
    return re.compile(rf"{_OPENING}\{{\n{''.join(lines)}\}}{_CLOSING}")


def read(path: str, blob: bytes) -> Parsed | None:
    """Read an episode with nothing wrong at all; None for what needs a closer look."""
    try:
        content = blob.decode()
    except UnicodeDecodeError:
        return None
    found = _form().match(content)
    if found is None or not layout.is_episode_path(path):
        return None
    end = found.end()
    block = content[len(_OPENING) : end - len(_CLOSING)]
    values, _ = _DECODER.raw_decode(block)
    body = content[end - 1 :]
    is_sound = (
        len(block) <= _LONGEST
        and values.get("kind") == layout.EPISODE
        and contract.is_valid(values)
        and all(number is None or canonical.format_float(float(number)) == number for number in found.groups())
        and path.startswith(layout.episode_stem(values["task"]))
        and body == f"\n{body_of(values)}\n"
    )
    return Parsed(values, body, True, block) if is_sound else None
