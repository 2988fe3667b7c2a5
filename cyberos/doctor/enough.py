"""Whether `doctor --staged` needs more of the ledger than the rows that are staged.

Rows that name all of HEAD's heads come after every row there is, so what they say of a path is the last word on it.

Source: DESIGN section 3 and 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyberos.core.rows import PUTS

if TYPE_CHECKING:
    from cyberos.core.ledger import Ledger
    from cyberos.doctor.knowledge import Known
    from cyberos.doctor.staged import Staged


class Enough:
    """Whether the staged rows, with what is known of HEAD's ledger, say all that the staged files need."""

    def __init__(self, known: Known, partial: Ledger, staged: Staged) -> None:
        self._known, self._partial, self._staged = known, partial, staged
        self._after = _after_all(known, partial)

    def settles(self) -> bool:
        """Report whether no more of the ledger need be read."""
        staged, events = self._staged, self._partial.events
        forgotten = {path for path, rows in events.items() if any(row["kind"] == "memory.forgotten" for row in rows)}
        lost = (*staged.past.lost, *staged.past.apart, *staged.lost)
        if any(one.path not in forgotten for one in lost):
            return False
        if any(row["kind"].startswith("vault.") for row in (*self._partial.rows, *self._partial.foreign)):
            return False
        if any(seen.suspect is not None for seen in staged.seen.values()):
            return False
        return all(map(self._is_settled, staged.touched(self._partial, {one.path for one in self._partial.segments})))

    def _is_settled(self, path: str) -> bool:
        events = self._partial.events.get(path, ())
        puts = [row for row in events if row["kind"] in PUTS]
        forgets = [row for row in events if row["kind"] == "memory.forgotten"]
        if not self._known.speaks_of(path):
            return len(puts) + len(forgets) <= 1
        if forgets and not puts:
            return path not in self._staged.seen and self._staged.index(path) is None
        return len(puts) == 1 and not forgets and puts[0]["hash"] in self._after


def _after_all(known: Known, partial: Ledger) -> set[str]:
    """Give the staged rows that come after every row of HEAD's ledger."""
    reached: dict[str, frozenset[str]] = {}
    for row in partial.rows:
        below = [reached.get(parent, known.heads & {parent}) for parent in row["prev"]]
        reached[row["hash"]] = frozenset().union(*below)
    return {name for name, heads in reached.items() if heads >= known.heads}
