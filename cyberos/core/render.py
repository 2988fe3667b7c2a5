"""Memory text on its way to a reader.

Source: DESIGN section 8.
"""

from __future__ import annotations

import re
from typing import Any

from cyberos.core.labels import VERIFIED

# C0 but tab and LF, DEL-C1, soft hyphen, zero width, bidi and other format characters, BOM, tags, variation selectors
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff"
)
# what belongs to a script or an emoji is seen by what stands beside it: a joiner between two characters that are no
# ASCII, the emoji's variation selector behind one, or in a keycap
_SEEN = f"[^\x00-\x7f\u200c\u200d\ufe0f{_HIDDEN}]"
_INVISIBLE = (
    f"[{_HIDDEN}]|(?<!{_SEEN})(?<!{_SEEN}\ufe0f)[\u200c\u200d]|[\u200c\u200d](?!{_SEEN})"
    f"|(?<!{_SEEN})(?<![0-9#*])\ufe0f|(?<=[0-9#*])\ufe0f(?!\u20e3)"
)


def escape(text: str) -> str:
    """Show invisible and control characters as `\\u{…}`; tab, line feed and everything visible stay."""
    if text.isascii() and text.isprintable():
        return text  # without the pattern, which takes 2 ms to compile; re keeps it
    return re.sub(_INVISIBLE, lambda found: f"\\u{{{ord(found.group()):x}}}", text)


# --- for a person and for a model -----------------------------------------------------------------------------------

_WHO = {"test": "a test", "exit_code": "an exit code", "user": "the user", "judge": "a judge", "agent": "the agent"}


def verdict(match: dict[str, Any]) -> str:
    """Say how a match went and who says so, from its `label` and `evidence`."""
    name, evidence = match["label"].replace("_", " "), match["evidence"]
    if match["label"] == "claimed_success":
        said = f"only {_WHO[evidence]} says so" if evidence in _WHO else "nobody checked it"
        return f"claimed success: {said}"
    if evidence in VERIFIED:
        return f"{name}, verified by {_WHO[evidence]}"
    return f"{name}, as {_WHO[evidence]} says" if evidence in _WHO else f"{name}, not verified"


def counted(history: dict[str, int]) -> str:
    """Say how often a task went how: `1 success, 2 failure`."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in history.items())
