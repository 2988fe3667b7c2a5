"""An index as a sync hands it to those who ask.

Source: DESIGN section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from cyberos.core import layout
from cyberos.index import changes, engines
from cyberos.index.entry import ABSENT, GONE, READY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyberos.core.files import Files
    from cyberos.index.catalog import Catalog
    from cyberos.index.changes import Changes, Standing
    from cyberos.index.fulltext import FullText


class Synced(NamedTuple):
    """An index ready to be asked; a context manager that closes its catalog.

    `stores` are those that were asked for; `behind` is what it has not seen, when another process was writing it;
    `reason` says why it is not the index on disk or not up to date, or is None; `kept` are the stores of an index in
    memory, which this process keeps.
    """

    files: Files
    catalog: Catalog
    stores: Sequence[str]
    behind: Changes | None = None
    reason: str | None = None
    kept: dict[str, FullText] | None = None

    @property
    def engine(self) -> FullText:
        """The engine of the first store that was asked for."""
        return self.store(self.stores[0])

    def store(self, name: str) -> FullText:
        """Give the engine of a store; it is up to date if it was asked for."""
        return engines.of(self.files, name) if self.kept is None else self.kept[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.kept is None:
            self.catalog.close()

    @property
    def warning(self) -> str | None:
        """What makes the answers of this index doubtful, in a sentence; None where nothing does."""
        place = self.catalog.get("damage")
        damage = (
            f"the ledger is damaged at {place}, so memories may be missing: run `cyberos doctor`" if place else None
        )
        return "; ".join(filter(None, (self.reason, damage))) or None

    def standing(self, path: str) -> Standing | None:
        """Give what the ledger says of a path, as far as it was read; None when it says nothing."""
        if self.behind is not None and (path in self.behind.standings or self.behind.is_whole):
            return self.behind.standings.get(path)
        entry = self.catalog.entry(path)
        return changes.standing_of(entry) if entry is not None and entry.state != GONE else None

    def unseen(self, kind: str | None) -> int:
        """Count the memories that live but cannot be found: no file holds their bytes, or they are not indexed yet."""
        count = self.catalog.count(ABSENT, kind)
        if self.stores:
            pending = self.catalog.pending(self.stores[0])
            count += sum(1 for entry, wanted in pending if wanted and kind in (None, entry.kind))
        for path, standing in (self.behind.standings if self.behind is not None else {}).items():
            if standing.live and not standing.is_quarantined and kind in (None, layout.kind_of(path)):
                entry = self.catalog.entry(path)
                count += entry is None or entry.state not in (READY, ABSENT)
        return count
