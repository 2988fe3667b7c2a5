"""The report of the last whole examination, for the exact state of the vault that it was about.

Source: DESIGN section 5.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING

from cyberos.core import contract, layout
from cyberos.doctor import anchors, keeping, walker
from cyberos.doctor.findings import Finding, Report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cyberos.core.repository import Repository
    from cyberos.doctor.anchors import Verified
    from cyberos.doctor.asking import Present

PATH = f"{layout.PRIVATE}/last-report"
_MOST = 1_000  # findings that are worth keeping
_MANY = 2_000  # files to read again; with more the whole is judged anew


def key(repository: Repository, present: Present, anchor: str, verified: Verified | None) -> bytes | None:
    """Give a digest of all that a report on the whole vault depends on, or None when that is too much to read."""
    if len(present.files) + len(present.others) + len(present.hidden) > _MANY:
        return None
    digest = sha256()
    listing = sha256(present.listing).hexdigest()
    names = (listing, present.head, present.upstream, anchor, verified, *_around(repository))
    digest.update(repr(names).encode())
    unsure = {change.path for change in present.files}.union(present.others, (path for path, _ in present.hidden))
    for path in sorted(unsure | {contract.INVARIANTS_NAME}):
        digest.update(repr((path, _state(repository.root, path))).encode("utf-8", "surrogatepass"))
    return digest.hexdigest().encode()


def _state(root: str, path: str) -> tuple[object, ...]:
    held = walker.reader(root)(path)
    try:
        status = os.lstat(os.path.join(root, path))
    except OSError:
        return ()
    return status.st_mode, status.st_nlink, held is not None and sha256(held).digest()


def _around(repository: Repository) -> Iterable[object]:
    """Give what else a verdict looks at: what waits in the stage, how far this clone goes."""
    yield sorted(anchors.shallow(repository))
    folder = os.path.join(repository.root, layout.STAGE)
    try:
        yield sorted((one.name, os.lstat(one.path).st_nlink, os.lstat(one.path).st_size) for one in os.scandir(folder))
    except OSError:
        yield None


def load(root: str, key: bytes) -> Report | None:
    """Give the report on the state that `key` is the digest of."""
    rest = keeping.kept(root, PATH)
    if rest is None or not rest.startswith(key + b"\n"):
        return None
    try:
        found, files, rows = json.loads(rest[len(key) + 1 :])
        return Report([Finding(*one) for one in found], files, rows)
    except (ValueError, TypeError):
        return None


def save(root: str, key: bytes, report: Report) -> None:
    """Keep a report on the state that `key` is the digest of."""
    if len(report.findings) <= _MOST:
        keeping.keep(root, PATH, key + b"\n" + json.dumps([report.findings, report.files, report.rows]).encode())
