"""Ancestry among rows.

Rows are grouped into runs: maximal chains in which each row is the one child of the one parent before it. A search
for an ancestor walks runs, not rows, so a plain chain of any length is one step and the cost grows only with the
number of branches and joins.

Source: chain decomposition as in Jagadish, "A compression technique to materialize transitive closure" (TODS 1990).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyberos.core.rows import Row


class Dag:
    """The graph of `rows`, which come sorted by (seq, hash), parents before children where they are known."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        named = {parent for row in rows for parent in row["prev"]}
        self.heads = sorted((row for row in rows if row["hash"] not in named), key=lambda row: str(row["hash"]))
        self._parents: dict[str, list[str]] | None = None

    def _build(self) -> dict[str, list[str]]:
        """Find the runs, when ancestry is first asked for: most ledgers are never asked."""
        rows = self._rows
        self._parents = {row["hash"]: row["prev"] for row in rows}
        children: dict[str, int] = {}
        for row in rows:
            for parent in row["prev"]:
                children[parent] = children.get(parent, 0) + 1
        self._run: dict[str, int] = {}
        self._depth: dict[str, int] = {}
        self._first: list[str] = []
        for row in rows:
            self._place(row["hash"], row["prev"], children)
        self._reached: dict[str, set[int]] = {}
        return self._parents

    def _place(self, name: str, parents: list[str], children: dict[str, int]) -> None:
        parent = parents[0] if len(parents) == 1 else ""
        if parent in self._run and children[parent] == 1:
            self._run[name] = self._run[parent]
            self._depth[name] = self._depth[parent] + 1
        else:
            self._run[name] = len(self._first)
            self._depth[name] = 0
            self._first.append(name)

    def descends(self, row: str, ancestor: str) -> bool:
        """Report whether the row of hash `row` comes after `ancestor` on some path of parents."""
        if self._parents is None:
            self._build()
        if row not in self._run or ancestor not in self._run or row == ancestor:
            return False
        if self._run[row] == self._run[ancestor]:
            return self._depth[row] > self._depth[ancestor]
        return self._run[ancestor] in self._before(self._first[self._run[row]])

    def _before(self, first: str) -> set[int]:
        """Give the runs that a run's first row descends from; each is entered at its last row."""
        if first not in self._reached:
            parents = self._parents or self._build()
            seen: set[int] = set()
            pending = [first]
            while pending:
                for parent in parents[pending.pop()]:
                    run = self._run.get(parent)
                    if run is not None and run not in seen:
                        seen.add(run)
                        pending.append(self._first[run])
            self._reached[first] = seen
        return self._reached[first]
