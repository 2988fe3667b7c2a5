"""`cyberos retain`: forget the episodes that are older than the vault means to keep.

    cyberos retain --dry-run          what the setting `retention` would let go
    cyberos retain --older-than 365d  after asking

The window is the setting `retention` ("forever" unless the vault says otherwise). Nothing is ever forgotten by itself:
each episode goes by a `memory.forgotten` row that names the window, so the ledger still verifies and says what went.

Source: seed 000, "Failure modes" (the store only grows); DESIGN sections 7 and 8.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import moment, output
from cyberos.cli.forget import BEYOND, purge
from cyberos.core import settings
from cyberos.core.labels import VERIFIED

if TYPE_CHECKING:
    from pathlib import Path

    from cyberos.core.writer import Writer
    from cyberos.index.entry import Entry

_PART = 1_000  # forgettings in one transaction
_SHOWN = 10


@click.command(
    epilog="""\b
Examples:
  cyberos retain --older-than 365d --dry-run
  cyberos retain --older-than 52w --keep-verified --yes"""
)
@click.option("--older-than", metavar="SPAN", help="Forget what happened before: 365d, 52w. Default: `retention`.")
@click.option("--keep-verified", is_flag=True, help="Keep what a test, an exit code or the user verified.")
@click.option("--keep-lessons", is_flag=True, help="Keep what has a lesson.")
@click.option("--scope", help="Only episodes of this scope.")
@click.option("--dry-run", is_flag=True, help="Show what would go, and forget nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--actor", help="Who is named in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def retain(ctx: click.Context, /, *, dry_run: bool, yes: bool, actor: str | None, as_json: bool, **chosen: Any) -> None:
    """Forget the episodes that happened longer ago than a span; other memories stay.

    Each is forgotten through the ledger, as by `cyberos forget`; git's history and other clones keep what they have.
    """
    root = output.root_of(ctx)
    window = _window(root, chosen["older_than"])
    entries = _old(root, window, chosen)
    if not as_json:
        _show(window, entries)
    if entries and not dry_run:
        _agree(len(entries), yes=yes)
        writer = output.writer_of(ctx)
        _forget(writer, entries, f"older than {window}", output.actor_of(ctx, actor))
        purge(root)
        for text in writer.notes:
            output.note(f"note: {text}")
        output.note(f"forgot {output.count(len(entries), 'episode')}; not reached: git's history, {BEYOND}")
    if as_json:
        output.document({"older_than": window, "dry_run": dry_run, "items": [entry.path for entry in entries]})


def _window(root: Path, given: str | None) -> str:
    """Give the span: the flag's, else the setting's. Raises: click.UsageError where there is none."""
    window = given or str(settings.load(root)["retention"].value)
    if window == settings.FOREVER:
        raise click.UsageError("This vault keeps its episodes for ever: give --older-than, or set retention = '365d'.")
    try:
        settings.half_life_days(window)
    except ValueError as error:
        raise click.UsageError(f"--older-than {window!r}: it {error}") from None
    return window


def _old(root: Path, window: str, chosen: dict[str, Any]) -> list[Entry]:
    """Find what is older than the window, the oldest first."""
    from cyberos.index.sync import sync

    before_us = moment.since(window, time.time_ns() // 1000) or 0
    with sync(root, ()) as index:
        if index.warning is not None:
            output.note(f"note: {index.warning}")
        found = index.catalog.before(before_us, chosen["scope"])
    return [entry for entry in found if not _is_kept(entry.frontmatter, chosen)]


def _is_kept(values: dict[str, Any], chosen: dict[str, Any]) -> bool:
    is_verified = values.get("evidence") in VERIFIED
    return bool((chosen["keep_verified"] and is_verified) or (chosen["keep_lessons"] and values.get("lesson")))


def _show(window: str, entries: list[Entry]) -> None:
    output.line(f"{output.count(len(entries), 'episode')} older than {window}")
    for entry in entries[:_SHOWN]:
        task = " ".join(str(entry.frontmatter.get("task", "")).split())
        output.line(f"  {moment.shown(entry.moment_us)[:10]}  {entry.path}  {task[:60]}")
    if len(entries) > _SHOWN:
        output.line(f"  … and {len(entries) - _SHOWN:,} more; --json names all")


def _agree(count: int, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("Forgetting cannot be undone: say --yes, or look first with --dry-run.")
    click.confirm(f"Forget {output.count(count, 'episode')}? This cannot be undone.", abort=True, err=True)


def _forget(writer: Writer, entries: list[Entry], reason: str, actor: str) -> None:
    for start in range(0, len(entries), _PART):
        with writer.transaction():
            for entry in entries[start : start + _PART]:
                writer.forget(entry.path, reason, actor)
