"""What the doctor keeps under `.cyberos/` between runs: derived, and thrown away on any doubt.

A kept file is one line that says what it is, the SHA-256 of the rest, and the rest. One that is damaged, from another
version of cyberos, or of another law than the installed one is as if it were not there. Nothing is kept where
`.cyberos/` is not there or cannot be written.

Source: DESIGN section 5.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from cyberos import core, doctor
from cyberos.core import contract, layout
from cyberos.core.errors import UnsafePath
from cyberos.core.files import Files

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"cyberos doctor 1 "


@cache
def law_digest() -> bytes:
    """Give a digest of all that a verdict depends on but the vault: the law, and the code that applies it."""
    digest = sha256()
    for name in (contract.INVARIANTS_NAME, contract.SCHEMA_NAME):
        digest.update(contract.read_law(name))
    for package in (core, doctor):
        for folder in package.__path__:
            for name in sorted(name for name in os.listdir(folder) if name.endswith(".py")):
                with open(os.path.join(folder, name), "rb") as handle:
                    digest.update(handle.read())
    return digest.hexdigest().encode()


def save(root: Path | str, path: str, blob: bytes) -> None:
    """Write a file of ours as it is, if `.cyberos/` can hold it."""
    files = Files(root)
    try:
        if files.stat(f"{layout.PRIVATE}/.gitignore") is not None:  # else git might track what is only ours
            files.overwrite(path, blob)
    except (OSError, UnsafePath):
        return


def keep(root: Path | str, path: str, rest: bytes) -> None:
    """Write a kept file."""
    save(root, path, _head(rest) + rest)


def kept(root: Path | str, path: str) -> bytes | None:
    """Read a kept file's rest, or give None on any doubt."""
    try:
        blob = Files(root).read(path)
    except (OSError, UnsafePath):
        return None
    end = blob.find(b"\n") + 1
    rest = blob[end:]
    return rest if blob[:end] == _head(rest) else None


def _head(rest: bytes) -> bytes:
    return _MAGIC + law_digest() + b" " + sha256(rest).hexdigest().encode() + b"\n"
