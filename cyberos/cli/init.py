"""`cyberos init`."""

from __future__ import annotations

import os

import click

from cyberos.cli import output
from cyberos.core import vault


@click.command(epilog="Example: cd my-project && cyberos init && git add . && git commit -m 'begin a vault'")
@click.argument("folder", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def init(ctx: click.Context, folder: str | None, *, as_json: bool) -> None:
    """Make FOLDER (default: here) a vault, or add what it lacks.

    Safe to repeat: lines are merged into .gitattributes and .ignore, nothing is overwritten.
    """
    made = vault.init(folder or ctx.find_root().obj or os.getcwd())
    for text in made.warnings:
        output.note(f"warning: {text}")
    if as_json:
        output.document({"root": str(made.root), "vault": made.vault, "new": made.is_new, "changed": made.changed})
        return
    verb = "made a vault" if made.is_new else "the vault is there already"
    output.line(f"{verb}: {made.root} (id {made.vault[:16]})")
    if made.changed:
        output.line(f"  wrote {', '.join(made.changed)}")
