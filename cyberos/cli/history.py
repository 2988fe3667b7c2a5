"""`cyberos history`: what the ledger says of one memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cyberos.cli import output
from cyberos.cli.place import path_of
from cyberos.core import ledger
from cyberos.core.errors import MemoryNotFound

if TYPE_CHECKING:
    from cyberos.core.rows import Row


@click.command(epilog="Example: cyberos history memories/facts/1f/2e/deploy-script.md")
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the rows as they stand in the ledger.")
@click.pass_context
def history(ctx: click.Context, path: str, *, as_json: bool) -> None:
    """Show every ledger row that touches the memory at PATH, the oldest first; forgotten ones have a history too."""
    root = output.root_of(ctx)
    name = path_of(root, path)
    rows = ledger.scan(root).events.get(name)
    if rows is None:
        raise MemoryNotFound(name, "no row of the ledger touches it")
    if as_json:
        output.document({"items": rows})
        return
    for text in output.table(map(told, rows)):
        click.echo(text)


def told(row: Row) -> tuple[str, ...]:
    """Give a row as the cells of a table line."""
    skipped = ("path", "logged_at", "memory_kind")
    payload = {key: value for key, value in row["payload"].items() if key not in skipped and value is not None}
    parts = [f"{key} {value[:16] if key == 'sha256' else value}" for key, value in payload.items()]
    return str(row["seq"]), row["ts"][:19].replace("T", " "), row["actor"], row["kind"], ", ".join(parts)
