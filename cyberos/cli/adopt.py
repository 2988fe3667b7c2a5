"""`cyberos adopt`: log memories that were written or edited by hand."""

from __future__ import annotations

import click

from cyberos.cli import output
from cyberos.cli.place import path_of


@click.command(epilog="Example: cyberos adopt memories/facts/1f/2e/deploy-script.md")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--allow-secret", "allowed", multiple=True, metavar="KIND", help="Log a credential of this kind all the same."
)
@click.option("--actor", help="Who is named in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def adopt(
    ctx: click.Context, *, paths: tuple[str, ...], allowed: tuple[str, ...], actor: str | None, as_json: bool
) -> None:
    """Log the memories at PATH... as they stand, all of them or none. Never episodes: those are never changed."""
    writer = output.writer_of(ctx, allow_secrets=allowed)
    names = list(dict.fromkeys(path_of(writer.path, path) for path in paths))
    who = output.actor_of(ctx, actor)
    with writer.transaction():
        adopted = [name for name in names if writer.adopt(name, who)]
    for text in writer.notes:
        output.note(f"note: {text}")
    if as_json:
        output.document({"adopted": adopted, "unchanged": [name for name in names if name not in adopted]})
        return
    for name in names:
        output.line(f"adopted {name}" if name in adopted else f"unchanged {name}")
