"""Files and ledger held against each other: what was put is there, unaltered, and nothing else is.

A file may hold the bytes of any put of its path that no later put or forgetting descends from. Where the row that
would tell stands in a damaged line, only the damage is told.

Source: DESIGN sections 3 to 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import admission, layout
from cyberos.core.errors import SecretFound
from cyberos.core.ledger import is_logged
from cyberos.core.rows import PUTS, VERSION, is_known
from cyberos.doctor.checks_file import line_of
from cyberos.doctor.findings import Finding, finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cyberos.core.ledger import Ledger, Memory
    from cyberos.core.rows import Row
    from cyberos.doctor.checks_file import Suspect
    from cyberos.doctor.checks_ledger import Damage
    from cyberos.doctor.stage import Stage
    from cyberos.doctor.walker import Identity

CHECKS = (
    "memory-missing",
    "memory-unlinked",
    "memory-modified",
    "memory-unlogged",
    "memory-forgotten",
    "episode-logged-pair",
    "secret-in-memory",
)


class Seen(NamedTuple):
    """What the walk found at a path. `size` is in bytes, `told` as in `Judged`.

    `digest` is None for what could not be read as a memory; `suspect` is there when the file holds something like a
    credential.
    """

    identity: Identity
    size: int
    digest: str | None
    told: tuple[Any, ...] | None = None
    suspect: Suspect | None = None


def check_memories(
    paths: Iterable[str], seen: dict[str, Seen], ledger: Ledger, damaged: Damage, stage: Stage
) -> Iterator[Finding]:
    """Compare each path's file with its rows."""
    memories, events = ledger.memories, ledger.events
    for path in paths:
        file, rows = seen.get(path), events.get(path, [])
        if file is not None and is_logged(rows) and not damaged.named and _is_of(file, rows[0]["payload"]):
            continue
        memory = memories.get(path)
        if path in damaged.named or (file is not None and (file.digest is None or file.digest in damaged.named)):
            continue
        if file is None:
            if memory is not None and memory.puts and not _is_hidden(path, seen):
                yield _absent(memory, stage)
        elif memory is None:
            yield finding("memory-unlogged", path, "no row of the ledger puts this file")
        elif not any(_is_of(file, row["payload"]) for row in memory.puts):
            yield from _compare(path, file, memory, stage)


def _is_hidden(path: str, seen: dict[str, Seen]) -> bool:
    """Report whether no file can be there, or the walk could not look: a folder above it is a link, or unreadable."""
    parts = path.split("/")
    above = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
    return layout.path_problem(path) is not None or any(folder in seen for folder in above)


def _absent(memory: Memory, stage: Stage) -> Finding:
    is_held = any(stage.holds(row["payload"]["sha256"]) for row in memory.puts)
    if is_held and not stage.guards(memory.path):
        message = "the file is not in its place yet; its bytes wait in the stage"
        return finding("memory-unlinked", memory.path, message)
    message = f"the file is gone; it was put on {memory.last_seen_at[:10]}"
    if is_held:
        message += "; its bytes still wait in the stage, so any next write brings it back"
    return finding("memory-missing", memory.path, message)


def _is_of(file: Seen, payload: dict[str, Any]) -> bool:
    return bool(payload["sha256"] == file.digest and payload["size"] == file.size)


def _compare(path: str, file: Seen, memory: Memory, stage: Stage) -> Iterator[Finding]:
    for row in memory.puts:
        if row["payload"]["sha256"] == file.digest:
            message = f"the file takes {file.size:,} bytes; its row states {row['payload']['size']:,}"
            yield finding("memory-modified", path, message)
            return
    earlier = {row["payload"]["sha256"] for row in memory.events if row["kind"] in PUTS}
    if memory.puts and file.digest in earlier and any(stage.holds(row["payload"]["sha256"]) for row in memory.puts):
        yield finding("memory-unlinked", path, "the file is an earlier one; the newer bytes wait in the stage")
    elif memory.puts:
        yield finding("memory-modified", path, "the file is not as it was logged")
    elif file.digest in earlier or layout.is_episode_path(path):
        yield finding("memory-forgotten", path, "this memory was forgotten, and is there again")
    else:
        yield finding("memory-unlogged", path, "no row of the ledger puts this file since its path was forgotten")


def check_puts(ledger: Ledger, seen: dict[str, Seen]) -> Iterator[Finding]:
    """Check where each put row says that its memory lies; a path that was walked is known to be sound."""
    for row in ledger.rows:
        if row["kind"] not in PUTS or row["v"] != VERSION:
            continue
        path, kind = row["payload"]["path"], row["payload"]["memory_kind"]
        problem = None if path in seen else layout.path_problem(path)
        if problem is not None:
            yield _at(ledger, "layout-path-safe", row, f"the row puts {path!r}: {problem}")
        elif kind != layout.kind_of(path):
            yield _at(ledger, "layout-kind-directory-match", row, f"the row puts a {kind!r} at {path}")


def check_pairs(ledger: Ledger, seen: dict[str, Seen]) -> Iterator[Finding]:
    """Check that each put of an episode has its `episode.logged` row, and each such row its put."""
    puts: dict[str, Row] = {}
    for row in ledger.rows:
        kind = row["kind"]
        if row["v"] != VERSION:
            continue
        if kind in PUTS:
            if layout.is_episode_path(row["payload"]["path"]):
                puts[row["hash"]] = row
        elif kind == "episode.logged":
            put = puts.pop(row["prev"][0], None) if len(row["prev"]) == 1 else None
            message = _discord(put, row, seen)
            if message:
                yield _at(ledger, "episode-logged-pair", row, message)
    for row in puts.values():
        yield _at(ledger, "episode-logged-pair", row, "no episode.logged row follows this put of an episode")


def _discord(put: Row | None, row: Row, seen: dict[str, Seen]) -> str | None:
    """Say how an `episode.logged` row does not tell the same as the put before it, and the file that was put."""
    payload = row["payload"]
    if put is None or put["kind"] != "put" or put["tx"] != [row["tx"][0] - 1, row["tx"][1]]:
        return "no put of an episode stands before this row in its transaction"
    if payload["path"] != put["payload"]["path"]:
        return f"the row tells of {payload['path']}, the put before it of {put['payload']['path']}"
    if payload["logged_at"] != row["ts"]:
        return f"logged_at is {payload['logged_at']}, the row's ts {row['ts']}"
    file = seen.get(payload["path"])
    if file is None or file.told is None or file.digest != put["payload"]["sha256"]:
        return None
    told = tuple([payload[name] for name in _TOLD])
    if told == file.told:
        return None
    name, tells, wanted = next(one for one in zip(_TOLD, told, file.told, strict=True) if one[1] != one[2])
    return f"the row tells {name} = {tells!r}, the episode {wanted!r}"


_TOLD = ("outcome", "duration_ms", "token_cost", "quality_score")


def check_secrets(seen: dict[str, Seen], ledger: Ledger) -> Iterator[Finding]:
    """Name the kinds of credentials in each file that no `secret.allowed` row of its path allows."""
    for path, file in seen.items():
        if file.suspect is not None:
            rows = [row for row in ledger.events.get(path, ()) if row["kind"] == "secret.allowed" and is_known(row)]
            yield from _secrets(path, file.suspect, {row["payload"]["secret"] for row in rows})


def _secrets(path: str, suspect: Suspect, allowed: set[str]) -> Iterator[Finding]:
    while True:
        try:
            admission.check_values(suspect.texts, allowed)
        except SecretFound as error:
            yield _secret(path, suspect, error)
            allowed.add(error.secret)
        else:
            return


def _secret(path: str, suspect: Suspect, error: SecretFound) -> Finding:
    if suspect.parsed is not None:
        pointer = f"/{error.field}"
        message = f"{error.field} holds what looks like a credential ({error.secret})"
        return finding("secret-in-memory", path, message, line=line_of(suspect.parsed, pointer), pointer=pointer)
    line = suspect.texts["body"].count("\n", 0, error.offset) + 1 if error.field == "body" else 1
    message = f"its {error.field} holds what looks like a credential ({error.secret})"
    return finding("secret-in-memory", path, message, line=line)


def _at(ledger: Ledger, rule: str, row: Row, message: str) -> Finding:
    place = ledger.places[row["hash"]]
    return finding(rule, place.segment, message, line=place.line)
