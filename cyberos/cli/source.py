"""What a verb reads from a file that the user named, or from stdin (`-`)."""

from __future__ import annotations

import sys

import click


def read(source: str, limit: int = -1) -> bytes:
    """Read the bytes of a file or of stdin, at most `limit` of them. Raises: click.UsageError when that cannot be."""
    try:
        if source == "-":
            return sys.stdin.buffer.read(limit)
        with open(source, "rb") as handle:
            return handle.read(limit)
    except OSError as error:
        raise click.UsageError(f"cannot read {source}: {error.strerror}") from None
