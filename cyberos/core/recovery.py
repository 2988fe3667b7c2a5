"""What a crash leaves, put right by the next writer under the lock.

The ledger is the write-ahead log. A body whose rows are whole is linked to its place; a body that no row names is
taken away; an incomplete transaction at a segment's end is cut into lost+found when git does not track the file, and
left invisible when it does. Nothing that anybody else could have made is changed: what stands in the way stays, and
the body goes to lost+found. Damage is never repaired here: the write is refused.

Source: DESIGN section 4.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

from cyberos.core import gitdir, layout
from cyberos.core.errors import BrokenLedger, UnsafePath

if TYPE_CHECKING:
    from cyberos.core.files import Files
    from cyberos.core.ledger import Ledger, Memory
    from cyberos.core.segments import Segment

_STAGED = re.compile(r"[0-9a-f]{64}-\d{1,9}")
# faults of rows; a file of a wrong name, a gap or a foreign row hinders no write
DAMAGE = ("ledger-row-parse", "ledger-hash", "ledger-tx", "ledger-seq", "ledger-duplicate-row", "layout-file-regular")


def refuse_damage(ledger: Ledger) -> None:
    """Refuse to write to a damaged ledger. Raises: BrokenLedger for the first damage."""
    for fault in ledger.faults:
        if fault.rule in DAMAGE and not fault.is_torn:
            raise BrokenLedger(fault.segment, fault.line, fault.rule, fault.message)


def recover(files: Files, ledger: Ledger, *, cuts_tracked: bool = False) -> None:
    """Put right what a crash left. Call under the lock, with a ledger just read.

    With `cuts_tracked` a torn tail is cut in a file that git tracks, too. Raises: BrokenLedger, OSError.
    """
    refuse_damage(ledger)
    torn = [segment for segment in ledger.segments if segment.is_torn]
    if torn:
        index = gitdir.index_bytes(gitdir.find(files.root))
        for segment in torn:
            if cuts_tracked or not gitdir.is_tracked(index, segment.path):
                _cut(files, segment)
    staged = files.names(layout.STAGE)
    if staged:
        by_digest = _by_digest(ledger)
        for name in staged:
            _place(files, name, by_digest.get(name[:64], []), ledger)
        paths = [memory.path for name in staged for memory in by_digest.get(name[:64], [])]
        checkpoint(files, [f"{layout.STAGE}/{name}" for name in files.names(layout.STAGE)], paths)


def checkpoint(files: Files, entries: list[str], paths: list[str], *, sync: bool = True) -> None:
    """Make the places of `paths` durable, then drop the stage entries that guarded them."""
    if sync and entries:
        files.sync_all([], _folders(paths))
    for entry in entries:
        files.remove(entry)


def _folders(paths: list[str]) -> list[str]:
    """Every folder above the paths, each once, innermost first."""
    found = {path.rsplit("/", depth)[0] for path in paths for depth in range(1, path.count("/") + 1)}
    return [*sorted(found, key=lambda folder: -folder.count("/")), ""]


def _cut(files: Files, segment: Segment) -> None:
    tail = files.read(segment.path)[segment.whole_bytes :]
    if tail:
        keep(files, f"{segment.path.rsplit('/', 1)[1]}-{segment.whole_bytes}", tail)
    if segment.whole_bytes:
        files.truncate(segment.path, segment.whole_bytes)
        return
    files.remove(segment.path)
    day, month = (segment.path.rsplit("/", depth)[0] for depth in (1, 2))
    _ = files.remove_folder(day) and files.remove_folder(month)


def keep(files: Files, name: str, blob: bytes) -> str:
    """Keep bytes that have no place in lost+found, under a name of their own; give that name."""
    made = files.make_folder(layout.LOST)
    for number in range(1_000_000):
        path = f"{layout.LOST}/{name}" + (f".{number}" if number else "")
        try:
            files.create(path, blob, sync=True)
        except FileExistsError:
            if files.read(path) == blob:
                return path
            continue
        for folder in (*made, layout.LOST):
            files.sync_folder(folder)
        return path
    raise FileExistsError(name)


def _by_digest(ledger: Ledger) -> dict[str, list[Memory]]:
    found: dict[str, list[Memory]] = {}
    for memory in ledger.memories.values():
        for row in memory.puts:
            found.setdefault(row["payload"]["sha256"], []).append(memory)
    return found


def _place(files: Files, name: str, memories: list[Memory], ledger: Ledger) -> None:
    entry = f"{layout.STAGE}/{name}"
    digest = name[:64]
    if not _STAGED.fullmatch(name):
        files.remove(entry)  # a temporary of ours that never got its name
        return
    if not memories:
        files.remove(entry)  # no row names it: the write was never acknowledged, or it was forgotten
        return
    blob = files.read(entry)
    if sha256(blob).hexdigest() != digest:
        keep(files, f"{digest[:16]}.damaged", blob)
        files.remove(entry)
        return
    for memory in memories:
        _put_in_place(files, entry, blob, memory, ledger)


def _put_in_place(files: Files, entry: str, blob: bytes, memory: Memory, ledger: Ledger) -> None:
    try:
        present = None if files.stat(memory.path) is None else sha256(files.read(memory.path)).hexdigest()
    except UnsafePath:
        present = "a link or a device"
    digests = {row["payload"]["sha256"] for row in ledger.events[memory.path] if "sha256" in row["payload"]}
    if present in {row["payload"]["sha256"] for row in memory.puts}:
        return
    if present is not None and present not in digests:
        keep(files, memory.path.rsplit("/", 1)[1], blob)  # somebody else's bytes stand there
        return
    spare = f"{entry}.tmp"
    files.remove(spare)
    files.create(spare, blob, sync=True)
    files.make_folder(memory.path.rsplit("/", 1)[0])
    files.replace(spare, memory.path)
