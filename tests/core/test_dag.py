from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cyberos.core.dag import Dag


@st.composite
def graphs(draw):
    """Draw rows whose parents are any of the rows before them, or unknown, sorted as a ledger sorts them."""
    rows = []
    for number in range(draw(st.integers(0, 14))):
        parents = draw(st.sets(st.sampled_from([row["hash"] for row in rows] + ["gone"]), max_size=3))
        if rows and draw(st.booleans()):
            parents = {rows[-1]["hash"]}
        known = [row["seq"] for row in rows if row["hash"] in parents]
        rows.append({"hash": f"{number:02d}", "prev": sorted(parents), "seq": 1 + max(known, default=0)})
    return sorted(rows, key=lambda row: (row["seq"], row["hash"]))


def ancestors(rows, name):
    """Follow every parent, the slow way."""
    parents = {row["hash"]: row["prev"] for row in rows}
    found, pending = set(), list(parents[name])
    while pending:
        parent = pending.pop()
        if parent in parents and parent not in found:
            found.add(parent)
            pending += parents[parent]
    return found


@given(graphs())
def test_descent_is_that_of_following_every_parent(rows):
    dag = Dag(rows)
    for row in rows:
        expected = ancestors(rows, row["hash"])
        assert {other["hash"] for other in rows if dag.descends(row["hash"], other["hash"])} == expected


@given(graphs())
def test_heads_are_the_rows_that_nobody_names(rows):
    named = {parent for row in rows for parent in row["prev"]}
    assert [row["hash"] for row in Dag(rows).heads] == sorted(row["hash"] for row in rows if row["hash"] not in named)


def test_rows_that_are_not_there_are_nobodys_ancestors():
    dag = Dag([{"hash": "a", "prev": ["gone"], "seq": 1}])
    assert not dag.descends("a", "gone")
    assert not dag.descends("gone", "a")
    assert not dag.descends("a", "a")
