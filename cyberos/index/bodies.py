"""The bytes that may be recalled: a file that holds what a live put of its path names, or a body still in the stage.

Nothing else is ever shown or indexed: a file that was edited, swapped or made by hand has no live put of its digest.

Source: DESIGN section 4 (a staged body is committed before it is linked) and section 6 (the document).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import frontmatter, layout, text
from cyberos.core.errors import InvalidMemory
from cyberos.core.labels import label
from cyberos.index.entry import ABSENT, FORGOTTEN, QUARANTINED, READY, Entry, task_key
from cyberos.index.fulltext import Document

if TYPE_CHECKING:
    from collections.abc import Collection

    from cyberos.core.files import Files
    from cyberos.index.changes import Standing


class Body(NamedTuple):
    """A memory's text as it was verified; `status` is its file's size, mtime in ns and inode, empty for the stage."""

    digest: str
    text: str
    parsed: frontmatter.Parsed
    status: str


def look(files: Files, path: str) -> str:
    """Give the size, mtime in ns and inode of the file at `path` as text; empty where there is none."""
    try:
        found = files.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}" if found is not None else ""


def find(files: Files, path: str, digests: Collection[str]) -> Body | None:
    """Read the memory at `path` if its bytes have one of these digests, else from the stage, else give None."""
    status = look(files, path)
    blob = _read(files, path) if digests else None
    if blob is not None and (digest := sha256(blob).hexdigest()) in digests:
        return _body(path, digest, blob, status)
    for digest in digests:
        for name in files.names(layout.STAGE):
            if name.startswith(digest):
                blob = _read(files, f"{layout.STAGE}/{name}")
                if blob is not None and sha256(blob).hexdigest() == digest:
                    return _body(path, digest, blob, "")
    return None


def _read(files: Files, path: str) -> bytes | None:
    try:
        blob = files.read(path, layout.MAX_FILE_BYTES + 1)
    except (OSError, ValueError):
        return None
    return blob if len(blob) <= layout.MAX_FILE_BYTES else None


def _body(path: str, digest: str, blob: bytes, status: str) -> Body | None:
    try:
        decoded = text.decode(blob)
        parsed = frontmatter.parse(decoded)
    except InvalidMemory:
        return None
    if layout.is_episode_path(path) and not _is_sound(parsed.frontmatter):
        return None
    return Body(digest, decoded, parsed, status)


def _is_sound(values: dict[str, Any]) -> bool:
    """Report whether an episode can be shown and ranked: our writer makes no others, another's might."""
    texts = [values.get(name, "") for name in ("task", "approach", "notes", "lesson", "evidence", "ended", "scope")]
    score = values.get("quality_score", 0)
    is_number = isinstance(score, int | float) and 0 <= score <= 1
    return is_number and all(isinstance(item, str) for item in texts) and values.get("outcome") in _OUTCOMES


_OUTCOMES = ("success", "partial", "failure")


def enter(files: Files, path: str, standing: Standing) -> Entry:
    """Make a memory's entry from what the ledger says of it and what its file holds."""
    kind = layout.kind_of(path)
    base = Entry(
        path,
        kind,
        FORGOTTEN,
        " ".join(standing.live),
        standing.seq,
        standing.last_seen_at,
        moment_of(standing.last_seen_at) or 0,
        int(standing.is_quarantined),
        actor=standing.actor,
    )
    if not standing.live:
        return base
    body = find(files, path, standing.live)
    state = QUARANTINED if standing.is_quarantined else READY if body is not None else ABSENT
    if body is None:
        return base._replace(state=state, status=look(files, path))
    values = body.parsed.frontmatter
    is_episode = kind == layout.EPISODE
    return base._replace(
        state=state,
        moment_us=base.moment_us if (occurred := moment_of(str(values.get("occurred_at", "")))) is None else occurred,
        scope=_scope(values),
        label=label(values) if is_episode else "",
        task=task_key(values["task"]) if is_episode else "",
        digest=body.digest,
        fields=json.dumps(values, default=str),
        status=body.status,
    )


def document(files: Files, entry: Entry) -> Document | None:
    """Give what the engine indexes: an episode's four or five lines, of another memory its fields and its body."""
    if entry.kind == layout.EPISODE:
        from cyberos.core.episode import body_of  # lazy: it brings dataclasses, and most recalls index nothing

        return Document(entry.path, entry.kind, entry.scope, body_of(entry.frontmatter))
    body = find(files, entry.path, [entry.digest])
    if body is None:
        return None
    lines = [value for key, value in entry.frontmatter.items() if isinstance(value, str) and key != "kind"]
    return Document(entry.path, entry.kind, entry.scope, "\n".join([*lines, body.parsed.body]))


def _scope(values: dict[str, Any]) -> str:
    scope = values.get("scope", "default")
    return scope if isinstance(scope, str) and scope else "default"


def moment_of(time: str) -> int | None:
    """Read a time or a date as microseconds since 1970, in UTC unless it says otherwise; None where it is neither."""
    try:
        moment = datetime.fromisoformat(time)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1e6)
    except (ValueError, OverflowError):
        return None
