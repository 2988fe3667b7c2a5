"""What waits in `.cyberos/stage`: bodies under their digests, some of them second names of files in their place.

Source: DESIGN section 4.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cached_property
from hashlib import sha256

from cyberos.core import layout
from cyberos.core.errors import UnsafePath
from cyberos.core.files import Files


class Stage:
    """The stage of the vault at `root` as it was when first asked."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._files = Files(root)

    @cached_property
    def _names(self) -> list[str]:
        try:
            return self._files.names(layout.STAGE)
        except (OSError, UnsafePath):
            return []

    @cached_property
    def _inodes(self) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        for name in self._names:
            status = self._files.stat(f"{layout.STAGE}/{name}")
            if status is not None:
                found[status.st_dev, status.st_ino] += 1
        return found

    def list(self) -> None:
        """Look at the entries now, unless that was done."""
        _ = self._inodes

    def explains(self, device: int, inode: int, links: int) -> bool:
        """Report whether all further names of a file with so many links are entries of the stage."""
        return links <= 1 + self._inodes[device, inode]

    def holds(self, digest: str) -> bool:
        """Report whether a body of this digest waits here, whole."""
        for name in self._names:
            if name.startswith(digest):
                try:
                    blob = self._files.read(f"{layout.STAGE}/{name}")
                except (OSError, UnsafePath):
                    continue
                if sha256(blob).hexdigest() == digest:
                    return True
        return False

    @cached_property
    def _placed(self) -> frozenset[str]:
        try:
            waiting = json.loads(self._files.read(layout.HEAD))["waiting"]
            return frozenset(waiting.values())
        except (OSError, UnsafePath, ValueError, KeyError, TypeError, AttributeError):
            return frozenset()

    def guards(self, path: str) -> bool:
        """Report whether the last writer knew a file at `path`, in its place, with a second name here."""
        return path in self._placed


def has_other_name(root: str, path: str, stage: Stage) -> bool:
    """Report whether a file has a name outside the stage; looks again, since a writer may just have dropped its own."""
    for known in (stage, Stage(root), Stage(root)):
        known.list()  # before the file: a name that goes in between is then counted in neither
        try:
            status = os.lstat(os.path.join(root, path))
        except OSError:
            return False
        if known.explains(status.st_dev, status.st_ino, status.st_nlink):
            return False
    return True
