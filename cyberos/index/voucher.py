"""A sheet that vouches for an engine's files.

Neither Whoosh nor SQLite writes checksums that tell of a changed byte. The sheet of a commit names each of its files
with size, time, inode and SHA-256, and begins with its own digest.

Source: DESIGN section 6 (a file that changed since it was verified is verified by checksum before use).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING

from cyberos.index.fulltext import IndexDamaged

if TYPE_CHECKING:
    from collections.abc import Mapping


def write_sheet(folder: str | None, files: Mapping[str, str], made_by: object, stamp: str | None) -> bytes:
    """Vouch for a commit. `files` maps the name that a file will have to the one it has now; in memory there are none.

    <SHA-256 of the rest> {"files": {name: [size, mtime_ns, inode, sha256]}, "made_by": …, "stamp": …}
    """
    seen = {} if folder is None else {name: [*_look(folder, now), _digest(folder, now)] for name, now in files.items()}
    values = json.dumps({"files": seen, "made_by": made_by, "stamp": stamp}, sort_keys=True).encode()
    return hashlib.sha256(values).hexdigest().encode() + b" " + values


def read_sheet(folder: str | None, sheet: bytes, made_by: object, engine: str) -> str | None:
    """Return the stamp of a commit after a look at its files; one that is not there is left for the engine to miss.

    Bytes are read only if the size is the same but time or inode are not. Raises: IndexDamaged, and what a sheet that
    is not ours leads to: ValueError, TypeError, LookupError, AttributeError.
    """
    if sheet[:64] != hashlib.sha256(sheet[65:]).hexdigest().encode():
        raise IndexDamaged(engine, "its sheet is not as it was written")
    values = json.loads(sheet[65:])
    if values["made_by"] != json.loads(json.dumps(made_by)):
        raise IndexDamaged(engine, "another version made it")
    for name, (*look, digest) in values["files"].items():
        if folder is not None and os.path.lexists(os.path.join(folder, os.path.basename(name))):
            seen = _look(folder, name)
            if seen != look and (seen[0] != look[0] or _digest(folder, name) != digest):
                raise IndexDamaged(engine, f"{name} is not as it was written")
    stamp: str | None = values["stamp"]
    return stamp


def _look(folder: str, name: str) -> list[int | str]:
    status = os.lstat(os.path.join(folder, os.path.basename(name)))
    # A link or a device is never what we wrote, and may have no end.
    return [status.st_size if stat.S_ISREG(status.st_mode) else -1, status.st_mtime_ns, status.st_ino]


def _digest(folder: str, name: str) -> str:
    with open(os.path.join(folder, os.path.basename(name)), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
