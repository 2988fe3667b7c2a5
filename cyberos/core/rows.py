"""One ledger row as bytes.

    {"actor":"agent","kind":"put","payload":{…},"prev":["…"],"seq":41,"ts":"2026-11-30T17:08:03.123456Z","tx":[1,2],"v":1,"vault":"3f9c1d2e4b5a6978","hash":"…"}

Canonical JSON, keys sorted, `hash` last. The last 75 bytes are `,"hash":"<64 lower-case hex>"}`; the hash is the
SHA-256 of everything before them, so `head -c -76 | sha256sum` on the line checks a row. A line is a row only if
`format_row(parse_row(line)) == line`.

Source: DESIGN section 3; the idea of FormatX/ParseX from Go's sumdb/tlog.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from itertools import pairwise
from sys import intern
from typing import Any

from cyberos.core import canonical

Row = dict[str, Any]

VERSION = 1
MAX_ROW_BYTES = 64 * 1024
MAX_NESTING = 4
MAX_PARENTS = 900  # what fits into a row; a ledger with more heads is joined by its next rows, 900 at a time
_HASH_BYTES = 75
_BASE = frozenset({"actor", "hash", "kind", "payload", "prev", "seq", "ts", "tx", "v", "vault"})
_HASH = re.compile(r"[0-9a-f]{64}")
_VAULT = re.compile(r"[0-9a-f]{16}")
_KIND = re.compile(r"[a-z][a-z0-9_]{0,31}(?:\.[a-z][a-z0-9_]{0,31}){0,3}")
TS = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z"
_TS = re.compile(TS, re.ASCII)
ACTOR = re.compile(r"[a-z0-9._@-]{1,64}")

# what each kind's payload holds, exactly: name -> types; None where null is allowed
PAYLOADS: dict[str, dict[str, tuple[type, ...]]] = {
    "vault.created": {"vault": (str,)},
    "vault.adopted": {"vault": (str,)},
    "put": {"memory_kind": (str,), "path": (str,), "sha256": (str,), "size": (int,)},
    "memory.adopted": {"memory_kind": (str,), "path": (str,), "sha256": (str,), "size": (int,)},
    "episode.logged": {
        "path": (str,),
        "outcome": (str,),
        "duration_ms": (int,),
        "token_cost": (int, type(None)),
        "quality_score": (float,),
        "logged_at": (str,),
    },
    "memory.forgotten": {"path": (str,), "reason": (str,)},
    "memory.quarantined": {"path": (str,), "reason": (str,)},
    "memory.released": {"path": (str,), "reason": (str,)},
    "secret.allowed": {"path": (str,), "secret": (str,), "field": (str,)},
    "secret.redacted": {"path": (str,), "secret": (str,), "field": (str,)},
    "gap.acknowledged": {"missing": (list,), "reason": (str,)},
}
PUTS = ("put", "memory.adopted")


class RowError(ValueError):
    """A line is no row. `rule` is `ledger-row-parse` or `ledger-hash`."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


def format_row(row: Row) -> bytes:
    """Write a row without its line end, its hash computed anew; the inverse is `parse_row`."""
    head = canonical.dump({key: value for key, value in row.items() if key != "hash"})[:-1].encode("ascii")
    # hash = SHA-256(everything before `,"hash":"`)
    return head + b',"hash":"' + sha256(head).hexdigest().encode("ascii") + b'"}'


def parse_row(line: bytes) -> Row:
    """Read one line without its line end. Raises: RowError for anything but a canonical row with a true hash."""
    head, tail = line[:-_HASH_BYTES], line[-_HASH_BYTES:]
    if len(line) > MAX_ROW_BYTES:
        raise RowError("ledger-row-parse", f"a row of {len(line):,} bytes; at most {MAX_ROW_BYTES:,} are allowed")
    if not (head.startswith(b"{") and tail.startswith(b',"hash":"') and tail.endswith(b'"}')):
        raise RowError("ledger-row-parse", 'the line does not end in ,"hash":"<64 hex digits>"}')
    if sha256(head).hexdigest().encode("ascii") != tail[9:-2]:
        raise RowError("ledger-hash", "the row's bytes do not have the hash that it states")
    row = _plain(line)
    if row is not None:
        return row
    try:
        row = canonical.load(line.decode("ascii"))
        spelled = canonical.dump({key: row[key] for key in row if key != "hash"})[:-1].encode("ascii")
    except (ValueError, TypeError, RecursionError) as error:
        raise RowError("ledger-row-parse", f"not canonical JSON: {error}") from None
    if spelled != head:
        raise RowError("ledger-row-parse", "the row is not spelled canonically")
    problem = _problem(row, line.count(b"{") + line.count(b"["))
    if problem is not None:
        raise RowError("ledger-row-parse", problem)
    return row  # type: ignore[no-any-return]


# Nearly every row is one of these two, spelled without an escape. What they match is canonical and obeys the law of
# its kind, but for a float's digits and `tx`; anything else goes the long way.
_DIGITS = r"(0|[1-9][0-9]{0,14})"
_PATH = r"([A-Za-z0-9_./-]{1,200})"
_BEGIN = r'\{"actor":"([a-z0-9._@-]{1,64})","kind":"'
_END = (
    r'\},"prev":\["([0-9a-f]{64})"\],"seq":([1-9][0-9]{0,14}),"ts":"(' + TS + r')",'
    r'"tx":\[([1-9][0-9]{0,14}),([1-9][0-9]{0,14})\],"v":1,"vault":"([0-9a-f]{16})","hash":"([0-9a-f]{64})"\}'
)
_PUT = (
    rf'put","payload":\{{"memory_kind":"([a-z]{{1,32}})","path":"{_PATH}","sha256":"([0-9a-f]{{64}})","size":{_DIGITS}'
)
_LOGGED = (
    rf'episode\.logged","payload":\{{"duration_ms":{_DIGITS},"logged_at":"({TS})","outcome":"([a-z]{{1,32}})",'
    rf'"path":"{_PATH}","quality_score":([0-9]{{1,3}}\.[0-9]{{1,17}}),"token_cost":(?:null|{_DIGITS})'
)


@cache
def _plain_forms() -> tuple[re.Pattern[str], re.Pattern[str]]:
    # compiled on first use: whoever only writes a row need not wait for it
    return re.compile(_BEGIN + _PUT + _END, re.ASCII), re.compile(_BEGIN + _LOGGED + _END, re.ASCII)


# The attributes of one class's objects share their keys, which takes two thirds of what as many dicts would: `vars` of
# these are the plain dicts that every row is made of.
class Plain:
    """A row of version 1 with one parent."""

    def __init__(  # noqa: PLR0917 - in the order of the line
        self, actor: str, kind: str, payload: Row, parent: str, seq: int, ts: str, tx: list[int], vault: str, name: str
    ) -> None:
        self.actor = actor
        self.kind = kind
        self.payload = payload
        self.prev = [parent]
        self.seq = seq
        self.ts = ts
        self.tx = tx
        self.v = 1
        self.vault = vault
        self.hash = name


class Put:
    """A put row's payload."""

    def __init__(self, memory_kind: str, path: str, digest: str, size: int) -> None:
        self.memory_kind = memory_kind
        self.path = path
        self.sha256 = digest
        self.size = size


class Logged:
    """An episode.logged row's payload."""

    def __init__(  # noqa: PLR0917 - half of them texts, and no name said twice
        self, path: str, outcome: str, duration_ms: int, cost: int | None, score: float, at: str
    ) -> None:
        self.duration_ms = duration_ms
        self.logged_at = at
        self.outcome = outcome
        self.path = path
        self.quality_score = score
        self.token_cost = cost


def _plain(line: bytes) -> Row | None:
    text = line.decode("latin-1")
    put, logged = _plain_forms()
    if found := put.fullmatch(text):
        actor, memory_kind, path, digest, size, *tail = found.groups()
        kind, payload = "put", vars(Put(intern(memory_kind), path, digest, int(size)))
    elif found := logged.fullmatch(text):
        actor, took, at, outcome, path, score, cost, *tail = found.groups()
        value = float(score)
        if canonical.format_float(value) != score:
            return None
        payload = vars(Logged(path, intern(outcome), int(took), None if cost is None else int(cost), value, at))
        kind = "episode.logged"
    else:
        return None
    parent, seq, ts, first, last, vault, name = tail
    tx = [int(first), int(last)]
    row = Plain(intern(actor), kind, payload, parent, int(seq), ts, tx, intern(vault), name)
    return vars(row) if tx[0] <= tx[1] else None


def is_known(row: Row) -> bool:
    """Report whether this version and kind of row are ours to judge."""
    return row["v"] == VERSION and row["kind"] in PAYLOADS


_PLAIN_BRACKETS = 4  # of the row, its payload, prev and tx: no more of them, no deeper nesting


def _problem(row: Row, brackets: int) -> str | None:
    if not row.keys() >= _BASE:
        return f"the row lacks {', '.join(sorted(_BASE - row.keys()))}"
    if row["v"] == VERSION and row.keys() != _BASE:
        return f"the row has unknown keys: {', '.join(sorted(row.keys() - _BASE))}"
    for key, pattern in _TEXTS:
        if not isinstance(row[key], str) or not pattern.fullmatch(row[key]):
            return f"{key} is not of its form"
    if not _is_count(row["seq"]) or not _is_count(row["v"]):
        return "seq and v are whole numbers from 1 up"
    if not _are_parents(row["prev"]):
        return "prev is not a sorted list of row hashes, each once"
    tx = row["tx"]
    if not (isinstance(tx, list) and len(tx) == 2 and all(map(_is_count, tx)) and tx[0] <= tx[1]):  # noqa: PLR2004
        return "tx is not [i, n] with 1 <= i <= n"
    if not isinstance(row["payload"], dict) or (brackets > _PLAIN_BRACKETS and _depth(row) > MAX_NESTING):
        return "payload is not an object, or nested too deeply"
    return _payload_problem(row) if is_known(row) else None


_TEXTS = (("actor", ACTOR), ("kind", _KIND), ("ts", _TS), ("vault", _VAULT), ("hash", _HASH))


def _payload_problem(row: Row) -> str | None:
    law, payload = PAYLOADS[row["kind"]], row["payload"]
    if payload.keys() != law.keys():
        return f"a {row['kind']} row's payload holds {', '.join(sorted(law))}"
    for key, types in law.items():
        if type(payload[key]) not in types:
            return f"{key} of a {row['kind']} row is not of its type"
    if row["kind"] in PUTS and not (_HASH.fullmatch(payload["sha256"]) and payload["size"] >= 0):
        return "sha256 is 64 hex digits and size is not negative"
    if row["kind"] in ("vault.created", "vault.adopted") and not re.fullmatch(r"[0-9a-f]{16,64}", payload["vault"]):
        return "a vault's id is 16 to 64 hex digits"
    if row["kind"] == "gap.acknowledged" and not _are_parents(payload["missing"]):
        return "missing is not a sorted list of row hashes, each once"
    return None


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _are_parents(value: Any) -> bool:
    if not isinstance(value, list) or not all(isinstance(item, str) and _HASH.fullmatch(item) for item in value):
        return False
    return all(left < right for left, right in pairwise(value))


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max((_depth(item) for item in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_depth(item) for item in value), default=0)
    return 0
