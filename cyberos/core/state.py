"""`.cyberos/HEAD`: what the last writer knew, so that the next one need not read the whole ledger.

    {"v": 1, "heads": {"<hash>": 41}, "vaults": ["3f9c1d2e4b5a6978"], "folders": {"audit": 1764522483123456000},
     "segment": "audit/…jsonl", "size": 612, "token": "…", "waiting": {"<stage name>": "memories/…md"}}

Derived: any difference between it and the disk (a folder's time, the open segment's size, a staged body that has lost
its second name) makes it void, and the ledger is read whole. Folder times are set by us after each new segment, to a
value that the clock of the file system gives to nobody else, so that a change in the same tick is seen as well.

Source: DESIGN section 3.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cyberos.core import layout
from cyberos.core.ledger import folder_times

if TYPE_CHECKING:
    from cyberos.core.files import Files
    from cyberos.core.ledger import Ledger

_VERSION = 1


@dataclass
class State:
    """The heads (hash to seq), this vault's ids, the segment that may be open, and the staged bodies that wait."""

    heads: dict[str, int]
    vaults: list[str]
    folders: dict[str, int]
    segment: str | None = None
    size: int = 0
    token: str = ""
    waiting: dict[str, str] = field(default_factory=dict)

    @property
    def head_seq(self) -> int:
        return max(self.heads.values(), default=0)


def of_ledger(ledger: Ledger, folders: dict[str, int]) -> State:
    """Start from a ledger that was read whole, after the times of its `folders` were; no segment is open."""
    heads = {row["hash"]: row["seq"] for row in ledger.heads}
    return State(heads, list(ledger.vaults), folders)


def load(files: Files) -> State | None:
    """Read HEAD, or give None when it is missing or differs from the disk."""
    try:
        made = State(**_without_version(json.loads(files.read(layout.HEAD))))
        return made if _is_current(made, files) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save(files: Files, state: State) -> None:
    """Write HEAD, unsynced. A failure only costs the next writer a full reading."""
    values = {"v": _VERSION, **vars(state)}
    try:
        files.overwrite(layout.HEAD, json.dumps(values).encode("ascii") + b"\n")
    except OSError:
        drop(files)


def drop(files: Files) -> None:
    """Take HEAD away, so that the next writer reads everything."""
    try:
        files.remove(layout.HEAD)
    except OSError:
        return


def knows_folders(files: Files, state: State, segment: str) -> bool:
    """Report whether nothing came into the folders above a new segment since the state was taken."""
    found = {folder: files.stat(folder) for folder in _folders(segment)}
    return all((status and status.st_mtime_ns) == state.folders.get(folder) for folder, status in found.items())


def stamp_folders(files: Files, state: State, segment: str, *, is_known: bool) -> None:
    """Record the times of the folders above a new segment, set so that no later change can repeat them.

    Unless `is_known`, or where a file system keeps coarser times, the state is void for the next writer.
    """
    now = time.time_ns() // 1000 * 1000
    for folder in _folders(segment):
        try:
            state.folders[folder] = now if files.stamp(folder, now) == now and is_known else 0
        except OSError:
            state.folders[folder] = 0


def _folders(segment: str) -> list[str]:
    return [segment.rsplit("/", depth)[0] for depth in (3, 2, 1)]


def _without_version(values: Any) -> dict[str, Any]:
    if values.pop("v") != _VERSION:
        raise ValueError("another version of HEAD")
    return dict(values)


def _is_current(state: State, files: Files) -> bool:
    if folder_times(files.root) != state.folders:
        return False
    if state.segment is not None:
        status = files.stat(state.segment)
        if status is None or status.st_size != state.size:
            return False
    return _is_linked(files, state)


def _is_linked(files: Files, state: State) -> bool:
    # after a power cut a link may be gone though this file stayed: then the staged body has one name only
    names = _stage_names(files.root)
    if set(names) != set(state.waiting):
        return False
    return all(names[name] > 1 for name in names)


def _stage_names(root: str) -> dict[str, int]:
    folder = os.path.join(root, layout.STAGE)
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return {}
    return {entry.name: os.stat(entry.path, follow_symlinks=False).st_nlink for entry in entries}
