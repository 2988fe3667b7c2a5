"""What verbs say: data on stdout, everything else on stderr.

Text that came from a memory is escaped before it reaches a terminal: control, bidi and other invisible characters
are shown as `\\u{…}`, so that no episode can move the cursor or hide its words.

Source: DESIGN sections 8 and 10; no-color.org.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from cyberos.core import discovery
from cyberos.core.render import escape
from cyberos.core.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cyberos.core.writer import Writer


def root_of(ctx: click.Context) -> Path:
    """Find the vault that a verb works on. Raises: VaultNotFound."""
    return discovery.discover(store=ctx.find_root().obj)


def writer_of(ctx: click.Context, **options: Any) -> Writer:
    """Open the vault that a verb writes to; a wait for its lock is announced."""
    from cyberos.core.writer import Writer

    return Writer(root_of(ctx), on_wait=lambda holder: note(f"waiting for {holder} to let go of the vault"), **options)


def actor_of(ctx: click.Context, actor: str | None) -> str:
    """Give the actor: the flag, else the vault's setting."""
    return actor or str(load(root_of(ctx))["actor"].value)


def document(value: Any) -> None:
    """Print one JSON document on stdout."""
    import json

    click.echo(json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False))


def line(text: str = "") -> None:
    """Print one line on stdout, escaped."""
    click.echo(escape(text))


def note(text: str) -> None:
    """Say something on stderr."""
    click.echo(escape(text), err=True)


def count(number: int, noun: str) -> str:
    """Say how many of something there are."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def progress(label: str, length: int) -> AbstractContextManager[Any]:
    """Give a progress bar on stderr; it draws nothing where stderr is no terminal."""
    return click.progressbar(length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty())


def table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Lay out rows in columns that are as wide as their widest cell."""
    kept = [tuple(escape(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)] if kept else []
    for row in kept:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
