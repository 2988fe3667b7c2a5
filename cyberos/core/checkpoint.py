"""How long the ledger is and where it ends, in a few lines to be kept where the vault's owner cannot reach.

    cyberos.vault/3f9c1d2e4b5a6978                                      whose ledger
    41                                                                  how many rows
    6bQmT1m8pq…=                                                        base64 of the SHA-256 of the head lines below
    head 9d1c…                                                          each head's hash, sorted
                                                                        an empty line ends what is signed
    — cyberos.vault/3f9c1d2e4b5a6978 FkQ2…                              signatures, if any

It is a checkpoint in a signed note as transparency logs write them, so that their tools can carry it. After a git
merge a ledger has several heads, therefore the third line is no root of a tree of rows; whoever holds an old
checkpoint asks whether its heads are still there and whether as many rows as then lead up to them.

Source: c2sp.org/tlog-checkpoint, c2sp.org/signed-note; DESIGN section 3; docs/adr/0017-signed-checkpoints.md.
"""

from __future__ import annotations

import base64
import binascii
import re
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core.errors import InvalidCheckpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyberos.core.ledger import Ledger

ORIGIN = "cyberos.vault/"
MOST = 1 << 20  # bytes
_UNASSIGNED = b"\xff"  # signed-note's type for algorithms that have none of their own; a name that is long follows
_ALGORITHM = b"SSHSIG cyberos-checkpoint"
_TEXT = re.compile(
    rf"{re.escape(ORIGIN)}(?P<vault>[0-9a-f]{{16}})\n(?P<rows>0|[1-9][0-9]{{0,15}})\n[A-Za-z0-9+/]{{43}}=\n"
    r"(?P<heads>(?:head [0-9a-f]{64}\n)*)"
)
_SIGNATURE = re.compile(r"\u2014 (?P<name>[^ +\n]+) (?P<value>[A-Za-z0-9+/]+={0,2})")


class Checkpoint(NamedTuple):
    """A ledger at one moment: its vault's id, 16 hex digits, how many rows it had, the hashes of its heads, sorted."""

    vault: str
    rows: int
    heads: tuple[str, ...]


class Note(NamedTuple):
    """A checkpoint with the text that was signed, and the SSH signatures below it (as bytes of their own format)."""

    checkpoint: Checkpoint
    text: str
    signatures: tuple[bytes, ...]


def checkpoint_of(found: Ledger) -> Checkpoint:
    """Take the checkpoint of a ledger that has a vault id."""
    return Checkpoint(str(found.vault), len(found.rows), tuple(str(row["hash"]) for row in found.heads))


def format_checkpoint(checkpoint: Checkpoint) -> str:
    """Give the text that is signed; the inverse of `parse_note` without signatures."""
    heads = "".join(f"head {name}\n" for name in checkpoint.heads)
    root = base64.b64encode(sha256(heads.encode("ascii")).digest()).decode("ascii")
    return f"{ORIGIN}{checkpoint.vault}\n{checkpoint.rows}\n{root}\n{heads}"


def format_note(checkpoint: Checkpoint, signature: bytes) -> str:
    """Give the text with the line of an SSH signature below it."""
    text = format_checkpoint(checkpoint)
    name = f"{ORIGIN}{checkpoint.vault}"
    value = base64.b64encode(_key_id(name) + signature).decode("ascii")
    return f"{text}\n\u2014 {name} {value}\n"


def parse_note(text: str) -> Note:
    """Read a checkpoint, signed or not; signatures of other kinds are passed over. Raises: InvalidCheckpoint."""
    body, blank, signed = text.partition("\n\n")
    body += "\n" if blank else ""
    found = _TEXT.fullmatch(body)
    if found is None:
        raise InvalidCheckpoint("it does not have the form of one")
    heads = tuple(line.removeprefix("head ") for line in found["heads"].splitlines())
    checkpoint = Checkpoint(found["vault"], int(found["rows"]), heads)
    if format_checkpoint(checkpoint) != body or list(heads) != sorted(set(heads)):
        raise InvalidCheckpoint("its third line does not fit its heads")
    if blank and not (signed and signed.endswith("\n")):
        raise InvalidCheckpoint("its signatures are cut off")
    return Note(checkpoint, body, tuple(_signatures(signed.splitlines(), f"{ORIGIN}{checkpoint.vault}")))


def _signatures(lines: Sequence[str], name: str) -> list[bytes]:
    values = []
    for line in lines:
        found = _SIGNATURE.fullmatch(line)
        if found is None:
            raise InvalidCheckpoint("below the empty line stands what is no signature")
        try:
            value = base64.b64decode(found["value"], validate=True)
        except binascii.Error:
            raise InvalidCheckpoint("a signature is no base64") from None
        if found["name"] == name and value[:4] == _key_id(name):
            values.append(value[4:])
    return values


def _key_id(name: str) -> bytes:
    # SHA-256(name || LF || type || …)[:4]; which key it is stands in the SSH signature itself
    return sha256(name.encode("ascii") + b"\n" + _UNASSIGNED + _ALGORITHM).digest()[:4]


def broken(checkpoint: Checkpoint, found: Ledger) -> str:
    """Say why today's ledger does not extend a checkpoint, or give the empty string."""
    if checkpoint.vault not in found.vaults:
        return f"it is one of vault {checkpoint.vault}, and this is {found.vault or 'no vault'}"
    parents = {str(row["hash"]): row["prev"] for row in found.rows}
    gone = [name for name in checkpoint.heads if name not in parents]
    if gone:
        return f"{len(gone)} of its {len(checkpoint.heads)} heads are gone, the first is {gone[0]}"
    seen = set(checkpoint.heads)
    pending = list(seen)
    while pending:
        new = [name for name in parents[pending.pop()] if name in parents and name not in seen]
        seen.update(new)
        pending += new
    if len(seen) < checkpoint.rows:
        return f"{checkpoint.rows:,} rows led up to its heads, and {len(seen):,} do now"
    return ""
