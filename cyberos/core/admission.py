"""What may be written: every check that stands before the commit, all of them raising.

Source: DESIGN section 2 (memory files), section 8 (secrets).
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import contract, frontmatter, layout, rows, secrets, text
from cyberos.core.episode import FIELDS, body_of
from cyberos.core.errors import EpisodeImmutable, InvalidMemory, MemoryChanged, MemoryNotFound, SecretFound, UnsafePath

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from cyberos.core.commit import Draft
    from cyberos.core.files import Files
    from cyberos.core.ledger import Memory


class Admitted(NamedTuple):
    """A memory that may be written, with the digest of its bytes."""

    path: str
    kind: str
    values: dict[str, Any]
    blob: bytes
    digest: str
    text: str


def admit(path: str, body: str) -> Admitted:
    """Check a memory's whole text for its path. Raises: InvalidMemory."""
    try:
        text.check(body, "body")
        parsed = frontmatter.parse(body)
        frontmatter.check_size(parsed.block, body)
        contract.check(parsed.frontmatter, path)
        _check_kind(path, parsed)
        if layout.is_episode_path(path):
            _check_canonical(path, parsed, body)
        elif line := text.conflict_line(body):
            raise InvalidMemory("no-conflict-markers", "an unresolved merge conflict begins here", line=line)
    except InvalidMemory as error:
        error.path = path
        raise
    blob = body.encode("utf-8")
    return Admitted(path, layout.kind_of(path), parsed.frontmatter, blob, sha256(blob).hexdigest(), body)


def _check_kind(path: str, parsed: frontmatter.Parsed) -> None:
    kind, promised = parsed.frontmatter["kind"], layout.kind_of(path)
    if kind != promised:
        message = f"kind is {kind!r}, the folder is that of {promised!r}"
        raise InvalidMemory(
            "layout-kind-directory-match", message, pointer="/kind", advice="put it in its kind's folder"
        )


def _check_canonical(path: str, parsed: frontmatter.Parsed, body: str) -> None:
    values = parsed.frontmatter
    advice = "build the text with cyberos.core.episode.Episode, or use `cyberos episode log`"
    if not parsed.is_json:  # its keys may be no text
        raise InvalidMemory("frontmatter-canonical", "the frontmatter of an episode is JSON", advice=advice)
    for key, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                text.check(item, key)
    if not path.startswith(layout.episode_stem(values["task"])):
        raise InvalidMemory("layout-hash-shard", "the path does not begin with the SHA-256 of the task", advice=advice)
    if parsed.body != f"\n{body_of(values)}\n":
        message = "the body is not the searchable document of the frontmatter"
        raise InvalidMemory("episode-body-matches-frontmatter", message, advice=advice)
    if frontmatter.serialise(values, body_of(values)) != body:
        raise InvalidMemory("frontmatter-canonical", "the text is not spelled canonically", advice=advice)


def admit_file(files: Files, path: str) -> Admitted:
    """Check the memory that stands at `path`. Raises: EpisodeImmutable, MemoryNotFound, UnsafePath, InvalidMemory."""
    if layout.is_episode_path(path):
        raise EpisodeImmutable(path)
    try:
        blob = files.read(path, layout.MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise MemoryNotFound(path, "there is no such file") from None
    status = files.stat(path)
    if status is not None and status.st_nlink > 1 + _names_in_stage(files, status):
        raise UnsafePath(path, "has a second name (a hard link)")
    try:
        return admit(path, text.decode(blob))
    except InvalidMemory as error:
        error.path = path
        raise


def _names_in_stage(files: Files, status: os.stat_result) -> int:
    # a body put a moment ago still has its guard there, and an editor may have saved into both
    staged = [files.stat(f"{layout.STAGE}/{name}") for name in files.names(layout.STAGE)]
    return sum(entry is not None and os.path.samestat(entry, status) for entry in staged)


def check_place(
    files: Files, path: str, draft: Draft, memory_of: Callable[[str], Memory | None], *, is_drawn: bool
) -> None:
    """Refuse to write over an episode (one whose file is gone, too), a link, or what the ledger does not know.

    Raises: EpisodeImmutable, UnsafePath, MemoryChanged.
    """
    status = files.stat(path)
    if layout.is_episode_path(path):
        if status is not None or path in draft.paths or not (is_drawn or memory_of(path) is None):
            raise EpisodeImmutable(path)
        return
    if status is None:
        return
    digest = sha256(files.read(path)).hexdigest()
    memory = memory_of(path)
    if memory is None or all(row["payload"]["sha256"] != digest for row in memory.events if row["kind"] in rows.PUTS):
        raise MemoryChanged(path)


def check_secrets(memory: Admitted, actor: str, allowed: Collection[str]) -> list[tuple[str, str]]:
    """Refuse a memory that holds a known credential; give the (kind, field) of those that were allowed.

    Raises: SecretFound, InvalidMemory for an actor of a wrong form.
    """
    check_actor(actor)
    if memory.kind == layout.EPISODE:
        return check_values(memory.values, allowed)
    # its text as it stands, and its values as a reader sees them: an escape or a line break may hide one in the text
    return check_values({"body": memory.text, "path": memory.path, "frontmatter": memory.values}, allowed)


def check_values(values: dict[str, Any], allowed: Collection[str] = ()) -> list[tuple[str, str]]:
    """Refuse a frontmatter, or other named values, that holds a known credential anywhere; as `check_secrets`."""
    used = []
    for field, value in _strings(values):
        for secret in secrets.scan(value):
            if secret.kind not in allowed:
                raise SecretFound(secret.kind, field, secret.offset)
            used.append((secret.kind, field))
    return list(dict.fromkeys(used))


def _strings(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str) and key not in FIELDS:
                yield "a key", key
            yield from _strings(item, f"{field}/{key}" if field else str(key))
    elif isinstance(value, list | tuple | set):
        for number, item in enumerate(value):
            yield from _strings(item, f"{field}/{number}")


def check_text(value: str, field: str) -> None:
    """Check a text that goes into a row, where no credential is allowed. Raises: InvalidMemory, SecretFound."""
    if not value.strip():
        raise InvalidMemory(
            "ledger-row-parse", f"{field} is blank", pointer=f"/{field}", advice="say it in a few words"
        )
    if len(value) > _MAX_REASON:
        message = f"{field} has {len(value):,} characters; at most {_MAX_REASON:,} are allowed"
        raise InvalidMemory("ledger-row-parse", message, pointer=f"/{field}")
    text.check(value, field)
    for secret in secrets.scan(value):
        raise SecretFound(secret.kind, field, secret.offset)


_MAX_REASON = 2_000


def check_actor(actor: str) -> None:
    """Refuse an actor that no row can hold. Raises: InvalidMemory, SecretFound."""
    if not rows.ACTOR.fullmatch(actor):
        message = f"actor {actor[:70]!r} is not 1 to 64 of a-z 0-9 . _ @ -"
        raise InvalidMemory("ledger-row-parse", message, pointer="/actor", advice="choose another: --actor")
    for secret in secrets.scan(actor):
        raise SecretFound(secret.kind, "actor", secret.offset)


def check_payload(kind: str, payload: dict[str, Any]) -> None:
    """Refuse a kind or payload that no row can hold. Raises: InvalidMemory (ledger-row-parse), SecretFound."""
    row = {"actor": "agent", "kind": kind, "payload": payload, "prev": [], "seq": 1, "tx": [1, 1], "v": rows.VERSION}
    row |= {"ts": "2000-01-01T00:00:00.000000Z", "vault": "0" * 16}
    try:
        spelled = rows.format_row(row)
        rows.parse_row(spelled)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidMemory("ledger-row-parse", f"no {kind[:40]} row: {error}") from None
    plain = re.sub(r"\\n", "\n", spelled.decode("ascii"))
    for secret in secrets.scan(plain):
        raise SecretFound(secret.kind, "payload", 0)
