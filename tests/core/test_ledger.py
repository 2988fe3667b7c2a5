from __future__ import annotations

from itertools import permutations

import pytest

from cyberos.core import ledger, segments
from cyberos.core.layout import segment_path
from cyberos.core.rows import format_row, parse_row

PATH = "memories/facts/aa/bb/x.md"
VAULT, OTHER = "a" * 16, "b" * 16
TS = "2026-11-30T17:08:03.123456Z"


class Rows:
    """A ledger made row by row, each in a segment of its own."""

    def __init__(self):
        self.read = []

    def row(self, kind, *parents, payload=None, vault=VAULT, ts=TS, v=1):
        seq = 1 + max((parent["seq"] for parent in parents), default=0)
        row = {"actor": "a", "kind": kind, "payload": payload or {}, "prev": sorted(p["hash"] for p in parents)}
        line = format_row(row | {"seq": seq, "ts": ts, "tx": [1, 1], "v": v, "vault": vault})
        made = parse_row(line)
        self.read.append(segments.read(segment_path(made["hash"], ts), line + b"\n"))
        return made

    def created(self, vault=VAULT, ts=TS):
        return self.row("vault.created", payload={"vault": vault}, vault=vault, ts=ts)

    def put(self, *parents, digest="0", path=PATH, **options):
        payload = {"memory_kind": "facts", "path": path, "sha256": digest * 64, "size": 1}
        return self.row("put", *parents, payload=payload, **options)

    def forget(self, *parents, reason="r"):
        return self.row("memory.forgotten", *parents, payload={"path": PATH, "reason": reason})

    def aux(self, *parents, **options):
        return self.row("x.y", *parents, **options)

    def ledger(self):
        return ledger.Ledger(self.read)

    def digests(self):
        """Give which digests may stand at PATH, by the ledger of the segments in any order."""
        found = {
            tuple(sorted(row["payload"]["sha256"][0] for row in self.of(read))) for read in permutations(self.read[:6])
        }
        assert len(found) == 1
        return "".join(found.pop())

    def of(self, read):
        return ledger.Ledger([*read, *self.read[6:]]).memories[PATH].puts


@pytest.fixture
def rows():
    return Rows()


# --- the state of a path --------------------------------------------------------------------------------------------


def test_the_last_put_of_a_chain_counts(rows):
    one = rows.put(rows.created(), digest="1")
    rows.put(rows.aux(one), digest="2")
    assert rows.digests() == "2"


def test_two_branches_may_each_have_left_one(rows):
    start = rows.created()
    rows.put(start, digest="1")
    rows.put(start, digest="2")
    assert rows.digests() == "12"


def test_a_put_after_the_merge_replaces_both(rows):
    start = rows.created()
    both = rows.put(start, digest="1"), rows.put(start, digest="2")
    rows.put(*both, digest="3")
    assert rows.digests() == "3"


def test_a_put_replaces_only_what_it_knew(rows):
    start = rows.created()
    one, _ = rows.put(start, digest="1"), rows.put(start, digest="2")
    rows.put(one, digest="3")
    assert rows.digests() == "23"


def test_a_forgotten_path_may_hold_nothing(rows):
    rows.forget(rows.put(rows.created(), digest="1"))
    assert rows.digests() == ""
    assert rows.ledger().memories[PATH].is_forgotten


def test_a_forgetting_reaches_a_put_that_did_not_know_of_it(rows):
    """Two branches, one forgets, one puts anew: what was to be forgotten stays away."""
    start = rows.put(rows.created(), digest="1")
    rows.forget(start)
    rows.put(start, digest="2")
    assert rows.digests() == ""


def test_a_put_that_knew_of_every_forgetting_lives(rows):
    start = rows.put(rows.created(), digest="1")
    one, two = rows.forget(start, reason="1"), rows.forget(start, reason="2")
    rows.put(one, digest="2")
    assert rows.digests() == ""
    rows.put(one, two, digest="3")
    assert rows.digests() == "3"


def test_over_a_gap_nothing_is_known_to_descend(rows):
    one = rows.put(rows.created(), digest="1")
    gone = rows.aux(one)
    rows.read.pop()
    rows.put(gone, digest="2")
    assert rows.digests() == "12"


def test_quarantine_hides_and_last_seen_is_the_newest_put(rows):
    put = rows.put(rows.created(), ts="2026-11-30T00:00:00.000000Z")
    last = rows.put(put, ts="2026-11-29T00:00:00.000000Z")
    rows.row("memory.quarantined", last, payload={"path": PATH, "reason": "r"}, ts="2026-12-30T00:00:00.000000Z")
    memory = rows.ledger().memories[PATH]
    assert memory.is_quarantined
    assert memory.last_seen_at == "2026-11-29T00:00:00.000000Z", "seq decides, not the clock"


def test_a_release_lifts_the_quarantines_that_it_descends_from(rows):
    told = {"path": PATH, "reason": "r"}
    put = rows.put(rows.created())
    hidden = rows.row("memory.quarantined", put, payload=told)
    released = rows.row("memory.released", hidden, payload=told)
    assert not rows.ledger().memories[PATH].is_quarantined
    elsewhere = rows.row("memory.quarantined", put, payload=told | {"reason": "another"})
    assert rows.ledger().memories[PATH].is_quarantined, "the other branch's was not seen when it was lifted"
    rows.row("memory.released", released, elsewhere, payload=told)
    assert not rows.ledger().memories[PATH].is_quarantined
    rows.row("memory.quarantined", released, payload=told)
    assert rows.ledger().memories[PATH].is_quarantined


def test_rows_of_a_later_version_say_nothing_of_a_path(rows):
    rows.put(rows.created(), v=2)
    assert rows.ledger().memories == {}


# --- heads, gaps, vaults --------------------------------------------------------------------------------------------


def test_heads_are_the_rows_without_children_in_the_order_of_their_hashes(rows):
    start = rows.created()
    ends = [rows.aux(start, payload={"n": number}) for number in range(5)]
    assert rows.ledger().heads == sorted(ends, key=lambda row: row["hash"])
    assert rows.ledger().head_seq == 2


def test_of_rows_with_one_seq_the_lowest_hash_is_given(rows):
    start = rows.created()
    ends = [rows.aux(start, payload={"n": number}) for number in range(5)]
    assert rows.ledger().row(2) == min(ends, key=lambda row: row["hash"])
    assert rows.ledger().row(3) is None


def test_a_row_that_stands_twice_counts_once_and_is_named(rows):
    start = rows.created()
    rows.read.append(segments.read("audit/2026-11/30/ffffffffffffffff.jsonl", format_row(start) + b"\n"))
    found = rows.ledger()
    assert found.rows == [start]
    assert "ledger-duplicate-row" in [fault.rule for fault in found.faults]


def test_an_acknowledged_gap_is_no_gap(rows):
    gone = rows.aux(rows.created())
    rows.read.pop()
    end = rows.aux(gone)
    found = rows.ledger()
    assert list(found.missing) == [gone["hash"]]
    assert found.missing[gone["hash"]] == found.places[end["hash"]]
    rows.row("gap.acknowledged", end, payload={"missing": [gone["hash"]], "reason": "r"})
    assert rows.ledger().missing == {}


def test_a_later_version_s_acknowledgement_is_not_believed(rows):
    gone = rows.aux(rows.created())
    rows.read.pop()
    rows.row("gap.acknowledged", rows.aux(gone), payload={"missing": 7}, v=2)
    assert list(rows.ledger().missing) == [gone["hash"]]


def test_the_older_of_two_vaults_is_the_ledgers_own(rows):
    start = rows.created(OTHER, ts="2026-11-30T17:00:00.000000Z")
    rows.aux(rows.created(ts="2026-11-30T18:00:00.000000Z"))
    found = rows.ledger()
    assert (found.vault, found.vaults, found.heads) == (OTHER, [OTHER], [start])
    assert [row["vault"] for row in found.foreign] == [VAULT] * 2


def test_foreign_rows_log_nothing_until_their_vault_is_adopted(rows):
    start = rows.created(ts="2026-11-30T17:00:00.000000Z")
    rows.put(rows.created(OTHER, ts="2026-11-30T18:00:00.000000Z"), vault=OTHER)
    assert rows.ledger().memories == {}
    rows.row("vault.adopted", start, payload={"vault": OTHER + "cafe"})
    found = rows.ledger()
    assert found.vaults == [VAULT, OTHER]
    assert list(found.memories) == [PATH]
    assert found.foreign == []
    assert len(found.heads) == 2


def test_adoption_is_inherited_but_nobody_adopts_himself_into_a_vault(rows):
    start = rows.created(ts="2026-11-30T17:00:00.000000Z")
    other = rows.created(OTHER, ts="2026-11-30T18:00:00.000000Z")
    rows.row("vault.adopted", other, payload={"vault": VAULT}, vault=OTHER)
    rows.row("vault.adopted", other, payload={"vault": "c" * 16}, vault=OTHER)
    rows.created("c" * 16, ts="2026-11-30T19:00:00.000000Z")
    assert rows.ledger().vaults == [VAULT]
    rows.row("vault.adopted", start, payload={"vault": OTHER})
    assert rows.ledger().vaults == [VAULT, OTHER, "c" * 16]


def test_a_ledger_without_rows_has_no_vault():
    found = ledger.Ledger([])
    assert (found.vault, found.heads, found.head_seq, found.missing, found.memories) == (None, [], 0, {}, {})


def test_a_link_among_the_segments_is_a_fault_and_not_followed(root, tmp_path):
    segment = next(root.glob("audit/*/*/*.jsonl"))
    (tmp_path / "outside.jsonl").write_bytes(segment.read_bytes())
    segment.unlink()
    segment.symlink_to(tmp_path / "outside.jsonl")
    found = ledger.scan(root)
    assert found.rows == []
    assert [(fault.rule, fault.is_torn) for fault in found.faults] == [("layout-file-regular", False)]
