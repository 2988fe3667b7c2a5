"""A logged episode's two rows read as one give what reading them line by line gives, and nothing else passes."""

from hashlib import sha256

import pytest

from cyberos.core import pairs, rows, segments
from cyberos.core.episode import log
from cyberos.core.writer import Writer
from support import episode


@pytest.fixture
def segment(root):
    """Give the path and the bytes of a segment of five transactions, one of three episodes."""
    log(Writer(root), episode("first"))
    writer = Writer(root)
    with writer.transaction():
        for number in range(3):
            log(writer, episode(f"one of several {number}", quality_score=0.25, token_cost=7))
    log(Writer(root), episode("last"))
    found = max((root / "audit").rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    return found.relative_to(root).as_posix(), found.read_bytes()


def line_by_line(path, blob, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(pairs, "read", lambda *_: None)
        return segments.read(path, blob)


def test_pairs_are_read_as_lines_are(segment, monkeypatch):
    path, blob = segment
    read = segments.read(path, blob)
    assert read == line_by_line(path, blob, monkeypatch)
    assert read.rows == [rows.parse_row(line) for line in blob.splitlines()]
    assert read.faults == []
    text = blob.decode("latin-1")
    assert all(pairs.read(found, blob) is not None for found in pairs.pattern().finditer(text))


def test_any_byte_altered_is_the_same_fault_as_line_by_line(segment, monkeypatch):
    path, blob = segment
    for place in range(0, len(blob), 7):
        altered = blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]
        assert segments.read(path, altered) == line_by_line(path, altered, monkeypatch), place


def test_any_cut_is_the_same_fault_as_line_by_line(segment, monkeypatch):
    path, blob = segment
    for end in range(0, len(blob), 11):
        assert segments.read(path, blob[:end]) == line_by_line(path, blob[:end], monkeypatch), end


def hashed(line: bytes) -> bytes:
    head = line[:-75]
    return head + b',"hash":"' + sha256(head).hexdigest().encode() + b'"}'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"quality_score":0.25', b'"quality_score":0.250'),
        (b'"tx":[4,6]', b'"tx":[5,6]'),
        (b'"tx":[4,6]', b'"tx":[4,8]'),
        (b'"outcome":"success"', b'"outcome":"\\u0073uccess"'),
        (b'"actor":"agent"', b'"actor":"other"'),
        (b'"seq":7', b'"seq":9'),
    ],
)
def test_rows_with_fitting_hashes_that_do_not_belong_together(segment, monkeypatch, old, new):
    path, blob = segment
    lines = blob.splitlines()
    place = next(number for number, line in enumerate(lines) if b'"tx":[4,6]' in line)
    old = old if old in lines[place] else lines[place][lines[place].index(b'"seq":') :].split(b",")[0]
    lines[place] = hashed(lines[place].replace(old, new))
    altered = b"\n".join(lines) + b"\n"
    assert altered != blob
    assert segments.read(path, altered) == line_by_line(path, altered, monkeypatch)
