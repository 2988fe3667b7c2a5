"""One transaction on its way to disk: a draft of memories and rows, and the three steps that commit it.

Source: DESIGN section 4 for the order of the steps, section 3 for segments and rows.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import canonical, gitdir, layout, recovery, rows, state
from cyberos.core.errors import InvalidMemory, UnsafePath, WriteFailed
from cyberos.core.segments import MAX_SEGMENT_BYTES

if TYPE_CHECKING:
    from cyberos.core.admission import Admitted
    from cyberos.core.files import Files
    from cyberos.core.ledger import Ledger
    from cyberos.core.state import State

_MAX_WAITING = 32
_MANY = 16  # from so many bodies on, one syncfs is cheaper than a sync of each


class Draft:
    """What a transaction will write: memories, rows (kind, payload, actor) in order, and paths to take away."""

    def __init__(self) -> None:
        self.memories: list[Admitted] = []
        self.rows: list[tuple[str, dict[str, Any], str]] = []
        self.paths: set[str] = set()
        self.ledger: Ledger | None = None  # as it was before, once somebody has asked for it
        self.forgotten: dict[str, set[str]] = {}

    def put(self, memory: Admitted, actor: str, allowed: list[tuple[str, str]]) -> None:
        """Add a memory with its rows: `put`, for an episode `episode.logged`, and one for each allowed secret."""
        self.memories.append(memory)
        self.row("put", _digest_of(memory), actor)
        if memory.kind == layout.EPISODE:
            self.row("episode.logged", _projection(memory), actor)
        self._allow(memory, actor, allowed)

    def adopt(self, memory: Admitted, actor: str, allowed: list[tuple[str, str]]) -> None:
        self.row("memory.adopted", _digest_of(memory), actor)
        self._allow(memory, actor, allowed)

    def forget(self, path: str, digests: set[str], reason: str, actor: str) -> None:
        """Add a forgetting; `digests` are those that were ever put at `path`."""
        self.row("memory.forgotten", {"path": path, "reason": reason}, actor)
        self.forgotten[path] = digests
        self.memories = [memory for memory in self.memories if memory.path != path]

    def row(self, kind: str, payload: dict[str, Any], actor: str) -> None:
        self.rows.append((kind, payload, actor))
        if "path" in payload:
            self.paths.add(str(payload["path"]))

    def _allow(self, memory: Admitted, actor: str, allowed: list[tuple[str, str]]) -> None:
        for secret, field in allowed:
            self.row("secret.allowed", {"path": memory.path, "secret": secret, "field": field}, actor)


def _digest_of(memory: Admitted) -> dict[str, Any]:
    return {"memory_kind": memory.kind, "path": memory.path, "sha256": memory.digest, "size": len(memory.blob)}


def _projection(memory: Admitted) -> dict[str, Any]:
    values = memory.values
    return {
        "path": memory.path,
        "outcome": values["outcome"],
        "duration_ms": values["duration_ms"],
        "token_cost": values.get("token_cost"),
        "quality_score": float(values.get("quality_score", 0.5)),  # DEC-181: absent is the literal 0.5
    }


def build_rows(draft: Draft, heads: dict[str, int], vault: str, moment: datetime) -> list[bytes]:
    """Spell the rows of a transaction, each the parent of the next; the first has all `heads` as parents."""
    ts = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    prev = _parents(heads)
    seq = max(heads.values(), default=0)
    spelled = []
    for number, (kind, payload, actor) in enumerate(draft.rows, 1):
        seq += 1
        body = payload | {"logged_at": ts} if kind == "episode.logged" else payload
        row = {"actor": actor, "kind": kind, "payload": body, "prev": prev, "seq": seq, "ts": ts, "v": rows.VERSION}
        line = rows.format_row(row | {"tx": [number, len(draft.rows)], "vault": vault})
        if len(line) > rows.MAX_ROW_BYTES:
            raise InvalidMemory("ledger-row-parse", f"a {kind} row of {len(line):,} bytes is too long")
        spelled.append(line)
        prev = [hash_of(line)]
    return spelled


def hash_of(line: bytes) -> str:
    """Read the hash at the end of a row's line."""
    return line[-66:-2].decode("ascii")


def commit(files: Files, draft: Draft, current: State, durability: str) -> list[str]:
    """Write a transaction. Gives notes for the user about what could not be finished but is not lost.

    Raises: OSError with nothing committed, WriteFailed where rows could not be taken back; InvalidMemory, UnsafePath.
    """
    sync = durability == "full" or (durability == "batch" and len(draft.memories) > 1)
    spelled = build_rows(draft, current.heads, current.vaults[0], datetime.now(UTC))
    staged: list[str] = []
    target: Target | None = None
    try:
        if draft.forgotten:
            _hide(files, draft.forgotten, current, sync=sync)
        staged = _stage(files, draft.memories, sync=sync)
        target = _target(files, spelled, current)  # git is asked directly before the rows are written
        _append(files, spelled, target, current, sync=sync)
    except (OSError, UnsafePath) as error:
        if not _give_up(files, staged, current, target) and target is not None and isinstance(error, OSError):
            raise WriteFailed(target.segment, error.strerror or str(error), is_undecided=True) from error
        raise
    head_seq = current.head_seq + len(spelled)
    for name in _parents(current.heads):
        del current.heads[name]
    current.heads[hash_of(spelled[-1])] = head_seq
    return _finish(files, draft, staged, current, sync=sync)


def _parents(heads: dict[str, int]) -> list[str]:
    """Choose the heads that a row names: all; of very many the latest, so that seq goes up within a segment."""
    return sorted(sorted(heads, key=lambda name: (-heads[name], name))[: rows.MAX_PARENTS])


def _stage(files: Files, memories: list[Admitted], *, sync: bool) -> list[str]:
    """Step 1: write the bodies under their digests; give the entries' names in the order of the memories."""
    each = sync and len(memories) < _MANY
    staged: list[str] = []
    try:
        for number, memory in enumerate(memories):
            staged.append(_create(files, memory, number, sync=each))
        if sync and not each:
            entries = [f"{layout.STAGE}/{name}" for name in staged]
            files.sync_all(entries, [layout.STAGE])
        elif each and staged:
            files.sync_folder(layout.STAGE)
    except OSError:
        for name in staged:
            files.remove(f"{layout.STAGE}/{name}")
        raise
    return staged


def _create(files: Files, memory: Admitted, number: int, *, sync: bool) -> str:
    while True:
        name = f"{memory.digest}-{number}"
        try:
            files.create(f"{layout.STAGE}/{name}", memory.blob, sync=sync)
        except FileExistsError:
            number += 1
            continue
        return name


class Target(NamedTuple):
    """Where rows go: the open segment and its size, or a new one of size 0, and what git was like then."""

    segment: str
    size: int
    token: str


def _target(files: Files, spelled: list[bytes], current: State) -> Target:
    """Choose the open segment, or a new one where git has seen it or it is full."""
    git = gitdir.find(files.root)
    seen = gitdir.token(git)
    segment, size = current.segment, sum(len(line) + 1 for line in spelled)
    is_open = segment is not None and current.token == seen and not gitdir.has_seen(git, segment)
    if segment is not None and is_open and current.size + size <= MAX_SEGMENT_BYTES:
        return Target(segment, current.size, seen)
    return Target(layout.segment_path(hash_of(spelled[0]), canonical.load(spelled[0].decode("ascii"))["ts"]), 0, seen)


def _append(files: Files, spelled: list[bytes], target: Target, current: State, *, sync: bool) -> None:
    """Step 2: append the rows to the open segment, or begin the new one."""
    blob = b"\n".join(spelled) + b"\n"
    if target.size:
        files.append(target.segment, blob, target.size, sync=sync)
    else:
        _begin(files, target.segment, blob, current, sync=sync)
    current.segment, current.size, current.token = target.segment, target.size + len(blob), target.token


def _begin(files: Files, segment: str, blob: bytes, current: State, *, sync: bool) -> None:
    day = segment.rsplit("/", 1)[0]
    is_known = state.knows_folders(files, current, segment)
    changed = files.make_folder(day)
    files.append(segment, blob, 0, sync=sync)
    try:
        for folder in (*changed, day) if sync else ():
            files.sync_folder(folder)
    except OSError:
        files.remove(segment)
        raise
    state.stamp_folders(files, current, segment, is_known=is_known)


def _give_up(files: Files, staged: list[str], current: State, target: Target | None) -> bool:
    """Take the staged bodies away again, but only if no row can name them; report whether that is so."""
    try:
        status = None if target is None else files.stat(target.segment)
    except OSError:
        return False
    if target is not None and (0 if status is None else status.st_size) != target.size:
        return False  # the rows could not be cut off again: recovery will judge by what is there
    with suppress(OSError):  # what stays in the stage, the next writer puts right
        for name in staged:
            files.remove(f"{layout.STAGE}/{name}")
        for name, path in current.waiting.items():
            if files.stat(path) is None:
                files.replace(f"{layout.STAGE}/{name}", path)
    return True


def _finish(files: Files, draft: Draft, staged: list[str], current: State, *, sync: bool) -> list[str]:
    """Step 3 and after: what fails here is committed already, and the next writer's recovery brings it to an end."""
    try:
        for path in draft.forgotten:
            _drop_waiting(files, path, current)
            files.remove(path)
        for memory, name in zip(draft.memories, staged, strict=True):
            _link(files, memory, name, current)
        if len(current.waiting) > _MAX_WAITING:
            entries = [f"{layout.STAGE}/{name}" for name in current.waiting]
            recovery.checkpoint(files, entries, list(current.waiting.values()), sync=sync)
            current.waiting = {}
    except (OSError, UnsafePath) as error:
        state.drop(files)
        return [f"logged, but a file is not in its place yet ({error}); the next write puts it there"]
    if any(kind == "vault.adopted" for kind, _, _ in draft.rows):
        state.drop(files)  # the rows that count from now on have heads of their own
    else:
        state.save(files, current)
    return []


def _link(files: Files, memory: Admitted, name: str, current: State) -> None:
    entry, path = f"{layout.STAGE}/{name}", memory.path
    is_new = memory.kind == layout.EPISODE or files.stat(path) is None
    try:
        is_linked = files.link(entry, path) if is_new else files.link_over(entry, path)
    except FileNotFoundError:  # the stage was cleaned away under us (`git clean -fdx`), but the body is at hand
        files.make_folder(os.path.dirname(path))
        if is_new:
            files.create(path, memory.blob, sync=True)
        else:
            files.overwrite(path, memory.blob, sync=True)
        return
    if not is_new:
        _drop_waiting(files, path, current)  # what it replaced needs no guard any more
    if is_linked:
        current.waiting[name] = path
    else:
        files.sync_folder(os.path.dirname(path))


def _drop_waiting(files: Files, path: str, current: State) -> None:
    for name in [name for name, waiting in current.waiting.items() if waiting == path]:
        files.remove(f"{layout.STAGE}/{name}")
        del current.waiting[name]


def _hide(files: Files, forgotten: dict[str, set[str]], current: State, *, sync: bool) -> None:
    """Before a forgetting is committed: drop what waits, then move the bodies into the stage.

    A crash before the commit point brings them back from there, one after it takes them away for good. A file that
    was edited by hand has no row to bring it back by, so it stays where it is until the commit.
    """
    entries = [f"{layout.STAGE}/{name}" for name in current.waiting]
    recovery.checkpoint(files, entries, list(current.waiting.values()), sync=sync)
    current.waiting = {}
    state.drop(files)
    each = sync and len(forgotten) < _MANY
    for path, digests in forgotten.items():
        for kept in files.names(layout.LOST):
            if sha256(files.read(f"{layout.LOST}/{kept}")).hexdigest() in digests:
                files.remove(f"{layout.LOST}/{kept}")
        if files.stat(path) is None:
            continue
        digest = sha256(files.read(path)).hexdigest()
        if digest not in digests:
            continue
        name = f"{digest}-{len(current.waiting)}"
        files.replace(path, f"{layout.STAGE}/{name}")
        current.waiting[name] = path
        if each:
            files.sync_folder(layout.STAGE)
            files.sync_folder(os.path.dirname(path))
    if sync and not each:
        files.sync_all([], [layout.STAGE, *{os.path.dirname(path) for path in current.waiting.values()}])
