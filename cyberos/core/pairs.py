"""The two rows of a logged episode, read as one: nearly every line of a ledger is half of such a pair.

    {"actor":"agent","kind":"put",…,"hash":"…"}
    {"actor":"agent","kind":"episode.logged",…,"prev":["<the hash above>"],…,"hash":"…"}

One pattern holds both, each spelled canonically and without an escape, the second repeating of the first what it must:
actor, path, ts (as logged_at too), vault, and its hash as the one parent. What is left to compare are the two hashes,
seq, tx and the digits of a float. A pair that is otherwise goes the long way, line by line.

Source: DESIGN section 3; `rows.parse_row`, of which this gives the same.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from sys import intern
from typing import NamedTuple

from cyberos.core import canonical, rows
from cyberos.core.rows import Plain, Row

_HASH_BYTES = 75  # ,"hash":"…"}
_DIGITS = r"(?:0|[1-9][0-9]{0,14})"
_COUNT = r"([1-9][0-9]{0,14})"
_HASH = r"([0-9a-f]{64})"
_PUT = (
    r'\{"actor":"(?P<actor>[a-z0-9._@-]{1,64})","kind":"put","payload":\{"memory_kind":"([a-z]{1,32})",'
    rf'"path":"(?P<path>[A-Za-z0-9_./-]{{1,200}})","sha256":"{_HASH}","size":({_DIGITS})\}},'
    rf'"prev":\["{_HASH}"\],"seq":{_COUNT},"ts":"(?P<ts>{rows.TS})","tx":\[{_COUNT},(?P<length>[1-9][0-9]{{0,14}})\],'
    r'"v":1,"vault":"(?P<vault>[0-9a-f]{16})","hash":"(?P<hash>[0-9a-f]{64})"\}'
)
_LOGGED = (
    rf'\{{"actor":"(?P=actor)","kind":"episode\.logged","payload":\{{"duration_ms":({_DIGITS}),"logged_at":"(?P=ts)",'
    r'"outcome":"([a-z]{1,32})","path":"(?P=path)","quality_score":([0-9]{1,3}\.[0-9]{1,17}),'
    rf'"token_cost":(?:null|({_DIGITS}))\}},"prev":\["(?P=hash)"\],"seq":{_COUNT},"ts":"(?P=ts)",'
    rf'"tx":\[{_COUNT},(?P=length)\],"v":1,"vault":"(?P=vault)","hash":"{_HASH}"\}}'
)


@cache
def pattern() -> re.Pattern[str]:
    """Give the pattern of a pair with its line ends; compiled on first use, for whoever only writes need not wait."""
    return re.compile(f"{_PUT}(\n){_LOGGED}\n", re.ASCII)


class Pair(NamedTuple):
    """The two rows, and where in the bytes the second ends."""

    put: Row
    logged: Row
    end: int


def read(found: re.Match[str], blob: bytes) -> Pair | None:
    """Give the rows of a match of `pattern` in the bytes, read as Latin-1; None for what needs a closer look."""
    actor, kind, path, digest, size, parent, seq, ts, first, length, vault, name, _, *rest = found.groups()
    took, outcome, score, cost, next_seq, second, next_name = rest
    begin, middle, end = found.start(), found.start(13), found.end() - 1
    number, position, quality = int(seq), int(first), float(score)
    if (
        sha256(blob[begin : middle - _HASH_BYTES]).hexdigest() != name
        or sha256(blob[middle + 1 : end - _HASH_BYTES]).hexdigest() != next_name
        or int(next_seq) != number + 1
        or int(second) != position + 1
        or canonical.format_float(quality) != score
        or max(end - middle, middle - begin) > rows.MAX_ROW_BYTES
    ):
        return None
    actor, vault, many = intern(actor), intern(vault), int(length)
    put = vars(rows.Put(intern(kind), path, digest, int(size)))
    logged = vars(rows.Logged(path, intern(outcome), int(took), None if cost is None else int(cost), quality, ts))
    return Pair(
        vars(Plain(actor, "put", put, parent, number, ts, [position, many], vault, name)),
        vars(Plain(actor, "episode.logged", logged, name, number + 1, ts, [position + 1, many], vault, next_name)),
        end + 1,
    )
