"""The vault against git: what history has had is still there, as it was.

A segment of the ledger is at most a prefix of a later one, an episode never changes and goes only when a
`memory.forgotten` row says so. HEAD is held against all of its history, the index and the working tree against HEAD.
What was damaged when it was committed may be mended, and what was lost and is there again is not told: the final state
counts, so the finding's own remedy makes it go away.

Source: DESIGN section 3 ("Against git").
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING

from cyberos.core import layout, segments
from cyberos.core.rows import PUTS, is_known
from cyberos.doctor.anchors import ADD_ONLY, Blind, Lost
from cyberos.doctor.findings import Finding, finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cyberos.core.ledger import Ledger
    from cyberos.core.repository import Blobs, Repository
    from cyberos.core.rows import Row
    from cyberos.core.segments import Segment
    from cyberos.doctor.anchors import Past

CHECKS = ("ledger-append-only", "episode-immutable", "anchor-blind", "vault-uncommitted")
_HINT = "bring it back with `git checkout {commit} -- {path}`, then commit it"
_HINT_BELOW = "look at all of it, once: `cyberos doctor --full`"
_SHOWN = 10  # digits of a commit's id


# gives the bytes that stand at a path where a blob should still be, None for nothing
Standing = Callable[[str], bytes | None]


class Judge:
    """Holds lost blobs against what stands now; `ledger` is the ledger of that state, read whole."""

    def __init__(self, repository: Repository, blobs: Blobs, ledger: Ledger) -> None:
        self.repository, self.blobs, self.ledger = repository, blobs, ledger
        self.blind: list[Blind] = []
        self._put: set[tuple[str, str]] = set()  # (path, digest) that rows which are gone have put

    def judge(self, lost: Iterable[Lost], standing: Standing) -> list[Finding]:
        """Say what is really lost, each path once; segments first, since their rows tell what episodes there were."""
        found: dict[str, Finding] = {}
        for one in sorted(set(lost), key=lambda one: (not one.path.startswith(layout.AUDIT), one.path)):
            if one.path in found:
                continue
            old = self.blobs.read(one.blob) if one.blob.strip("0") else b""
            if old is None:
                self.blind.append(Blind(f"the blob of {one.path} {one.since} is not in this clone"))
                continue
            is_segment = one.path.startswith(f"{layout.AUDIT}/")
            message = (self._segment if is_segment else self._episode)(one.path, old, standing(one.path))
            if message is not None:
                rule = "ledger-append-only" if is_segment else "episode-immutable"
                found[one.path] = self._finding(rule, one, message)
        return list(found.values())

    def _finding(self, rule: str, one: Lost, message: str) -> Finding:
        hint = _HINT.format(commit=self._holder(one), path=one.path)
        return finding(rule, one.path, f"{message} {one.since}", hint=hint)

    def _holder(self, one: Lost) -> str:
        """Name a commit that still has the blob: the given one, or a parent of the one that lost it."""
        listed = self.repository.run("rev-list", "--parents", "--max-count=1", one.commit, "--")
        for name in (listed or b"").decode().split():
            if self.repository.tree(f"{name}:{one.path}") == one.blob:
                return name[:_SHOWN] if name != self.repository.commit("HEAD") else "HEAD"
        return one.commit[:_SHOWN]

    def _segment(self, path: str, old: bytes, new: bytes | None) -> str | None:
        read = segments.read(path, old)
        whole = old[: read.whole_bytes]
        if not read.rows or (new is not None and new.startswith(whole)):
            return None
        gone = self._gone(read)
        if not gone and any(not fault.is_torn for fault in read.faults):
            return None  # it was damaged, and every row that it had is still somewhere
        if new is None:
            return f"this segment of {_count(len(read.rows))} is gone"
        if not gone:
            return "this segment was rewritten"
        return f"{_count(len(gone))} of this segment {'is' if len(gone) == 1 else 'are'} gone"

    def _gone(self, read: Segment) -> list[Row]:
        gone = [row for row in read.rows if row["hash"] not in self.ledger.places]
        self._put |= {(row["payload"]["path"], row["payload"]["sha256"]) for row in gone if _is_put(row)}
        return gone

    def _episode(self, path: str, old: bytes, new: bytes | None) -> str | None:
        events = self.ledger.events.get(path, ())
        if old == new or any(row["kind"] == "memory.forgotten" for row in events):
            return None
        digest = sha256(old).hexdigest()
        digests = {row["payload"]["sha256"] for row in events if _is_put(row)}
        if digest not in digests and (path, digest) not in self._put:
            return None  # these bytes were never logged: mending them loses nothing
        return "this episode is gone, and no row says forgotten," if new is None else "this episode was changed"

    def agree(self, apart: Iterable[Lost], standing: Standing) -> list[Finding]:
        """Hold another line of history against this one: what only one of them has is no fault."""
        found = []
        for one in apart:
            old, new = self.blobs.read(one.blob), standing(one.path)
            if old is None:
                continue
            if new is None:
                message = self._replaced(one.path, old)
            elif one.path.startswith(f"{layout.AUDIT}/"):
                whole = new[: segments.read(one.path, new).whole_bytes]
                message = None if old.startswith(whole) else self._segment(one.path, old, new)
            else:
                message = self._episode(one.path, old, new)
            if message is not None:
                rule = "ledger-append-only" if one.path.startswith(f"{layout.AUDIT}/") else "episode-immutable"
                found.append(finding(rule, one.path, f"{message}; it is otherwise {one.since}"))
        return found

    def _replaced(self, path: str, old: bytes) -> str | None:
        """Say so when rows are gone whose episodes are still logged: by rows of another making."""
        if not path.startswith(f"{layout.AUDIT}/"):
            return None
        again = [
            row
            for row in self._gone(segments.read(path, old))
            if _is_put(row)
            and layout.is_episode_path(row["payload"]["path"])
            and any(_is_put(event) for event in self.ledger.events.get(row["payload"]["path"], ()))
        ]
        if not again:
            return None
        return f"{_count(len(again))} of this segment stood here before; other rows log the same episodes"


def _is_put(row: Row) -> bool:
    return row["kind"] in PUTS and is_known(row)


def _count(rows: int) -> str:
    return "a row" if rows == 1 else f"{rows:,} rows"


def check_history(judge: Judge, past: Past, standing: Standing) -> list[Finding]:
    """Hold HEAD, or what is to become it, against what came before and beside it."""
    found = judge.judge(past.lost, standing)
    told = {one.path for one in found}
    found += [one for one in judge.agree(past.apart, standing) if one.path not in told]
    blind = dict.fromkeys((*past.blind, *judge.blind))
    found += [finding("anchor-blind", layout.AUDIT, one.message, hint=one.hint) for one in blind]
    if past.below is not None:
        message = f"commit {past.below[:_SHOWN]} and what came before it were not looked at in this clone yet"
        found.append(finding("anchor-blind", layout.AUDIT, message, severity="info", hint=_HINT_BELOW))
    return found


def is_sound(found: Iterable[Finding]) -> bool:
    """Report whether nothing speaks against taking a commit for sound: what stands below it is told apart."""
    return all(one.severity == "info" for one in found)


def check_against(judge: Judge, lost: Iterable[Lost], standing: Standing) -> list[Finding]:
    """Hold what differs from HEAD against it."""
    return judge.judge((one for one in lost if one.path.startswith(tuple(f"{name}/" for name in ADD_ONLY))), standing)


def check_uncommitted(paths: set[str], head: str | None) -> list[Finding]:
    """Tell how many files of the vault no commit holds as they are."""
    if not paths:
        return []
    first = min(paths)
    where = "HEAD" if head else "any commit"
    rest = f"is not in {where} as it stands here"
    if len(paths) > 1:
        rest = f"and {len(paths) - 1:,} more are not in {where} as they stand here"
    return [finding("vault-uncommitted", layout.MEMORIES, f"{first} {rest}")]
