"""`cyberos quarantine`: keep a memory from being recalled, or let it be recalled again.

Nothing is taken away: a row is appended each time, the file stays, and `cyberos history` shows both.

Source: DESIGN section 8; docs/format.md section 4.
"""

from __future__ import annotations

import click

from cyberos.cli import output
from cyberos.cli.place import path_of


@click.command(
    epilog="""\b
Examples:
  cyberos quarantine memories/episodes/d4/12/d4127a3b-1f2c3d.md --reason "its lesson is wrong"
  cyberos quarantine memories/episodes/d4/12/d4127a3b-1f2c3d.md --release --reason "it was right after all\""""
)
@click.argument("path")
@click.option("--reason", required=True, help="Why; it stays in the ledger.")
@click.option("--release", is_flag=True, help="Let recall find it again.")
@click.option("--actor", help="Who is named in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def quarantine(
    ctx: click.Context, /, *, path: str, reason: str, release: bool, actor: str | None, as_json: bool
) -> None:
    """Hide the memory at PATH from recall; --release lets recall find it again."""
    writer = output.writer_of(ctx)
    name = path_of(writer.path, path)
    change = writer.release if release else writer.quarantine
    change(name, reason, output.actor_of(ctx, actor))
    for text in writer.notes:
        output.note(f"note: {text}")
    if as_json:
        output.document({"path": name, "quarantined": not release, "seq": writer.head_seq()})
    else:
        output.line(f"released {name}" if release else f"quarantined {name}")
