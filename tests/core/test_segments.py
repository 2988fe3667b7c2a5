from __future__ import annotations

import pytest

from cyberos.core import segments
from cyberos.core.layout import segment_path
from cyberos.core.rows import format_row, parse_row

TS = "2026-11-30T17:08:03.123456Z"


def chain(*lengths: int, kind: str = "x.y") -> list[list[bytes]]:
    """Spell transactions of these lengths, each row the parent of the next."""
    made, prev, seq = [], [], 0
    for length in lengths:
        lines = []
        for position in range(1, length + 1):
            seq += 1
            row = {"actor": "a", "kind": kind, "payload": {}, "prev": prev, "seq": seq, "ts": TS, "v": 1}
            lines.append(format_row(row | {"tx": [position, length], "vault": "0" * 16}))
            prev = [lines[-1][-66:-2].decode()]
        made.append(lines)
    return made


def join(*transactions: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for lines in transactions for line in lines)


def read(blob: bytes, first: bytes | None = None) -> segments.Segment:
    row = parse_row(first or blob.split(b"\n")[0])
    return segments.read(segment_path(row["hash"], row["ts"]), blob)


def rules(found: segments.Segment) -> list[tuple[int, str, bool]]:
    return [(fault.line, fault.rule, fault.is_torn) for fault in found.faults]


def test_whole_transactions_are_read_and_nothing_is_wrong():
    blob = join(*chain(1, 2, 3))
    found = read(blob)
    assert list(found.lines) == [1, 2, 3, 4, 5, 6]
    assert (found.faults, found.whole_bytes, found.size, found.is_torn) == ([], len(blob), len(blob), False)


@pytest.mark.parametrize("durable", [1, 3])
def test_any_beginning_of_a_transaction_is_a_torn_tail_and_its_rows_are_not_there(durable):
    *before, last = chain(*(1,) * durable, 3)
    whole, blob = join(*before), join(*before, last)
    for size in range(len(whole) + 1, len(blob)):
        found = read(blob[:size])
        assert len(found.rows) == durable
        assert (found.whole_bytes, found.is_torn) == (len(whole), True)
        assert rules(found) == [(durable + 1, "ledger-tx", True)]


@pytest.mark.parametrize("size", [0, 1, 40, 200])
def test_the_first_write_of_a_segment_may_be_torn_too(size):
    blob = join(*chain(2))
    found = read(blob[:size], first=blob.split(b"\n")[0])
    assert (found.rows, found.whole_bytes, found.is_torn) == ([], 0, True)


def test_blocks_of_zeros_at_the_end_are_torn():
    *before, last = chain(1, 3)
    whole, tail = join(*before), join(last)
    for start in range(0, len(tail), 37):
        for end in (start + 1, start + 100, len(tail)):
            torn = tail[:start] + b"\0" * (min(end, len(tail)) - start) + tail[end:]
            found = read(whole + torn)
            assert len(found.rows) == 1
            assert (found.whole_bytes, found.is_torn) == (len(whole), True)


def test_no_byte_of_an_older_transaction_can_change_unseen_whatever_it_becomes():
    """What a crash leaves stands at the end; a later transaction shows that this was none."""
    blob = join(*chain(1, 2, 1))
    last = blob.rstrip(b"\n").rfind(b"\n") + 1
    for offset in range(last):
        for value in (0, 10, blob[offset] ^ 1, blob[offset] ^ 0x20):
            changed = blob[:offset] + bytes([value]) + blob[offset + 1 :]
            if changed != blob:
                found = read(changed, first=blob.split(b"\n")[0])
                assert [fault for fault in found.faults if not fault.is_torn], (offset, value)


def test_a_line_taken_out_added_swapped_or_doubled_is_damage():
    one, two, three = chain(1, 2, 1)
    a, b, c, d = one[0], *two, three[0]
    damaged = [
        [a, b, d],
        [a, c, d],
        [a, c, b, d],
        [a, b, b, c, d],
        [a, b, c, c, d],
        [a, b, d, c],
        [d, a],
        [a, b, c, a, d],
    ]
    for lines in [*damaged, [a, b, c, b"", d], [a, b, c, b"x", d], [a, b, b"<<<<<<< HEAD", c, d]]:
        found = read(join(lines), first=a)
        assert [fault for fault in found.faults if not fault.is_torn], [
            parse_row(x)["seq"] for x in lines if len(x) > 9
        ]


def test_the_rows_around_damage_stay_visible():
    one, two, three = chain(1, 2, 1)
    found = read(join(one, [two[0], two[1].replace(b'"a"', b'"b"')], three))
    assert [row["seq"] for row in found.rows] == [1, 4]
    assert rules(found) == [(2, "ledger-tx", False), (3, "ledger-hash", False)]


def test_rows_of_one_transaction_belong_together():
    other = chain(1, 1, 2)[2]
    found = read(join(*chain(1), [chain(1, 2)[1][0], other[1]], *chain(1, 2, 1)[2:]))
    assert (3, "ledger-tx", False) in rules(found)


def test_seq_goes_up_within_a_segment():
    one, two = chain(1, 1)
    assert rules(read(join(two, one), first=two[0])) == [(2, "ledger-seq", False)]


def test_an_altered_line_end_after_a_whole_row_is_damage_and_a_missing_one_is_torn():
    blob = join(*chain(1, 1))
    assert rules(read(blob[:-1] + b"\r")) == [(2, "ledger-row-parse", False)]
    assert rules(read(blob[:-1])) == [(2, "ledger-tx", True)]
    assert rules(read(blob[:-1] + b"\0")) == [(2, "ledger-tx", True)]


def test_a_segment_bears_the_name_of_its_first_row():
    blob = join(*chain(1, 1))
    other = segments.read(segment_path("f" * 64, TS), blob)
    assert rules(other) == [(1, "ledger-segment-name", False)]
    assert len(other.rows) == 2
    assert rules(segments.read("audit/2026-11/30/notes.txt", blob)) == [(1, "ledger-segment-name", False)]
    assert segments.read("audit/HEAD", b"").rows == []


def test_segments_are_named_in_order_and_links_are_not_followed(root, tmp_path):
    outside = tmp_path / "outside"
    (outside / "01").mkdir(parents=True)
    (outside / "01" / "0123456789abcdef.jsonl").write_text("x")
    (root / "audit" / "2000-01").symlink_to(outside)
    (root / "audit" / "2001-01" / "02").mkdir(parents=True)
    for name in ("b", "a"):
        (root / "audit" / "2001-01" / "02" / name).write_text("")
    found = list(segments.iter_paths(str(root)))
    assert found[:3] == ["audit/2000-01", "audit/2001-01/02/a", "audit/2001-01/02/b"]
    assert len(found) == 4
