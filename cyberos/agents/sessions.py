"""What the hooks remember of a session: when it began, whether it was reminded, how much of it was recorded.

    .cyberos/hooks/<16 hex digits of the SHA-256 of its id>      {"began_us": …, "is_reminded": false, "recorded": 0}

Private to this clone and derived: without it a session is reminded once more, and that is all.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import layout
from cyberos.core.errors import UnsafePath

if TYPE_CHECKING:
    from cyberos.core.files import Files

FOLDER = f"{layout.PRIVATE}/hooks"
_KEPT_S = 14 * 86_400


class Session(NamedTuple):
    """A session; `recorded` is the size in bytes of its transcript when it was last recorded."""

    began_us: int
    is_reminded: bool = False
    recorded: int = 0


def load(files: Files, name: str) -> Session | None:
    """Give what is known of a session, or None."""
    try:
        values = json.loads(files.read(_path(name), 4096))
        return Session(int(values["began_us"]), bool(values["is_reminded"]), int(values["recorded"]))
    except (OSError, UnsafePath, ValueError, TypeError, KeyError):
        return None


def save(files: Files, name: str, session: Session) -> bool:
    """Keep a session; report whether that could be written."""
    with suppress(OSError, UnsafePath):
        files.make_folder(FOLDER)
        files.overwrite(_path(name), json.dumps(session._asdict()).encode("ascii"))
        return True
    return False


def begin(files: Files, name: str) -> Session:
    """Note that a session begins now, unless it has; forget those that nobody comes back to."""
    known = load(files, name)
    if known is not None:
        return known
    with suppress(OSError, UnsafePath):
        for other in files.names(FOLDER):
            status = files.stat(f"{FOLDER}/{other}")
            if status is not None and time.time() - status.st_mtime > _KEPT_S:
                files.remove(f"{FOLDER}/{other}")
    made = Session(time.time_ns() // 1000)
    save(files, name, made)
    return made


def _path(name: str) -> str:
    return f"{FOLDER}/{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
