"""One memory as the catalog keeps it.

A memory's state is one of

    ready         recalled: a file with a live put's bytes was read
    absent        live in the ledger, but no such file: deleted, edited, or a link
    quarantined   hidden by a row
    forgotten     no put of it lives
    gone          the ledger no longer knows it (another branch); dropped once the engine has let go of it

`seal` is a CRC of all columns: an entry that does not match its seal is damage, since no checksum of sqlite's would
tell.

Source: DESIGN section 6.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, NamedTuple
from zlib import crc32

READY, ABSENT, QUARANTINED, FORGOTTEN, GONE = "ready", "absent", "quarantined", "forgotten", "gone"


class Entry(NamedTuple):
    """One memory. `live` are the digests that may stand at its path; `digest` is of the bytes read, or empty.

    `fields` is the frontmatter as JSON; `task` the first 16 hex digits of an episode's task's SHA-256; `status` the
    file's size, mtime in ns and inode when last read; `moment_us` the event's time in microseconds since 1970; `actor`
    who wrote the newest put.
    """

    path: str
    kind: str
    state: str
    live: str
    seq: int
    last_seen_at: str
    moment_us: int
    is_quarantined: int = 0
    scope: str = ""
    label: str = ""
    task: str = ""
    digest: str = ""
    fields: str = ""
    status: str = ""
    actor: str = ""

    @property
    def frontmatter(self) -> dict[str, Any]:
        """The fields, decoded; those of a memory that is not ready may be missing."""
        return dict(json.loads(self.fields)) if self.fields else {}

    @property
    def digests(self) -> list[str]:
        """The live digests, one by one."""
        return self.live.split()


def task_key(task: str) -> str:
    """Give what tells one task from another beside the eight digits in an episode's name."""
    return sha256(task.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def seal(entry: Entry) -> int:
    """Give the checksum of an entry."""
    return crc32(repr(tuple(entry)).encode("utf-8", "surrogatepass"))
