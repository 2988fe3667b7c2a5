"""Where things lie in a vault.

    memories/<folder>/<hh>/<hh>/<name>.md                a memory; folder `episodes` holds kind `episode`
    audit/<yyyy-mm>/<dd>/<first-row-hash[:16]>.jsonl     a ledger segment
    .cyberos/                                            HEAD, lock, stage/, index/, lost+found/: never tracked

A `path` is POSIX text relative to the vault; a `root` is the vault's absolute folder.
An episode's path is `memories/episodes/<s[:2]>/<s[2:4]>/<s[:8]>-<random hex>.md`, s = sha256(task) in hex.

Source: DESIGN sections 1 and 2.
"""

from __future__ import annotations

import re
from hashlib import sha256

from cyberos.core.errors import UnsafePath

MEMORIES = "memories"
AUDIT = "audit"
PRIVATE = ".cyberos"
STAGE = f"{PRIVATE}/stage"
LOST = f"{PRIVATE}/lost+found"
INDEX = f"{PRIVATE}/index"
HEAD = f"{PRIVATE}/HEAD"
LOCK = f"{PRIVATE}/lock"

EPISODE = "episode"
EPISODES = "episodes"
OLD_KINDS = ("decisions", "facts", "people", "projects", "preferences", "drift", "refinements")
FOLDERS = (*OLD_KINDS, EPISODES)
_EPISODES_BELOW = f"{MEMORIES}/{EPISODES}/"

MAX_FILE_BYTES = 256 * 1024
MAX_FRONTMATTER_BYTES = 64 * 1024

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}"
_MEMORY = re.compile(rf"memories/([a-z]+)/([0-9a-f]{{2}})/([0-9a-f]{{2}})/({_NAME})\.md")
_SHARD = re.compile(r"[0-9a-f]{2}")
_EPISODE_NAME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{6,64}")
_PLAIN_EPISODE = re.compile(rf"{_EPISODES_BELOW}(?:{_SHARD.pattern}/){{2}}{_EPISODE_NAME.pattern}\.md")
_SEGMENT = re.compile(r"audit/\d{4}-(?:0[1-9]|1[0-2])/(?:0[1-9]|[12]\d|3[01])/([0-9a-f]{16})\.jsonl", re.ASCII)
# names that Windows gives to devices, with any extension
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)


def folder_of(kind: str) -> str:
    """Name the folder of a kind; the inverse is `kind_of`."""
    return EPISODES if kind == EPISODE else kind


def kind_of(path: str) -> str:
    """Name the kind that a memory's path promises."""
    folder = path.split("/", 2)[1]
    return EPISODE if folder == EPISODES else folder


def check_memory_path(path: str) -> str:
    """Give `path` back if a memory may lie there. Raises: UnsafePath with the reason."""
    problem = path_problem(path)
    if problem is not None:
        raise UnsafePath(path, problem)
    return path


def path_problem(path: str) -> str | None:
    """Say why no memory may lie at `path`, or None if one may."""
    if _PLAIN_EPISODE.fullmatch(path):
        return None  # as nearly every path
    if path.startswith("/") or "\\" in path:
        return "a memory's path is relative, with forward slashes"
    if ":" in path:
        return "its path holds a colon, which not every system can"
    if ".." in path.split("/"):
        return "`..` leads out of the vault"
    found = _MEMORY.fullmatch(path)
    if found is None:
        return "not of the form memories/<kind>/<hh>/<hh>/<name>.md (ASCII letters, digits, dot, dash, underscore)"
    folder, _, _, name = found.groups()
    if folder not in FOLDERS:
        return f"no kind has the folder {folder!r}; the kinds' folders are {', '.join(FOLDERS)}"
    if _RESERVED.fullmatch(name):
        return f"{name!r} is a device name on Windows"
    if folder == EPISODES and not _EPISODE_NAME.fullmatch(name):
        return "an episode's name is 8 hex digits, a dash, and at least 6 hex digits"
    return None


def is_shard(name: str) -> bool:
    """Report whether a folder is called as those below a kind's."""
    return _SHARD.fullmatch(name) is not None


def is_episode_path(path: str) -> bool:
    return path.startswith(_EPISODES_BELOW)


def episode_stem(task: str) -> str:
    """Give the path of an episode of `task` up to and with the dash before its random part."""
    short = sha256(task.encode()).hexdigest()
    return f"{MEMORIES}/{EPISODES}/{short[:2]}/{short[2:4]}/{short[:8]}-"


def segment_path(first_hash: str, ts: str) -> str:
    """Name the segment whose first row has this hash and this `ts` (its UTC day)."""
    return f"{AUDIT}/{ts[:7]}/{ts[8:10]}/{first_hash[:16]}.jsonl"


def is_segment_path(path: str) -> bool:
    return _SEGMENT.fullmatch(path) is not None
