"""`cyberos audit checkpoint`, and what `cyberos audit verify --checkpoint` asks of one.

Source: docs/adr/0017-signed-checkpoints.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cyberos.cli import output
from cyberos.core import checkpoint as notes
from cyberos.core import git, ledger
from cyberos.core.errors import InvalidCheckpoint, SigningFailed

if TYPE_CHECKING:
    from pathlib import Path

    from cyberos.core.ledger import Ledger


@click.command(
    epilog="""\b
Examples:
  cyberos audit checkpoint --sign > ~/checkpoints/today
  git tag -a -m "$(cyberos audit checkpoint --sign)" ledger-today"""
)
@click.option("--sign", "is_signed", is_flag=True, help="Sign it with an SSH key, through ssh-keygen.")
@click.option("--key", metavar="FILE", help="The key that signs. Default: what git signs with (user.signingKey).")
@click.pass_context
def checkpoint(ctx: click.Context, *, is_signed: bool, key: str | None) -> None:
    """Print how many rows the ledger has and where it ends.

    Keep it where the vault cannot be changed from: whoever can rewrite both learns nothing from it.
    """
    root = output.root_of(ctx)
    found = ledger.scan(root)
    if found.vault is None:
        raise InvalidCheckpoint("the ledger has no vault.created row")
    taken = notes.checkpoint_of(found)
    if not (is_signed or key):
        click.echo(notes.format_checkpoint(taken), nl=False)
        return
    from cyberos.cli import signing

    chosen = key or _key_of_git(root)
    click.echo(notes.format_note(taken, signing.sign(notes.format_checkpoint(taken), chosen)), nl=False)


def _key_of_git(root: Path) -> str:
    chosen = git.text(root, "config", "--path", "user.signingKey")
    if git.text(root, "config", "gpg.format") != "ssh" or not chosen:
        raise click.UsageError("which key signs? Name it: --key ~/.ssh/id_ed25519, or let git sign with SSH.")
    return chosen


def check(file: str, allowed: str | None, found: Ledger) -> list[str]:
    """Check a checkpoint and that today's ledger extends it; give lines to say.

    Raises: InvalidCheckpoint, SigningFailed, OSError.
    """
    with click.open_file(file, "rb") as handle:
        blob = handle.read(notes.MOST)
    try:
        note = notes.parse_note(blob.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidCheckpoint("it is no UTF-8") from None
    said = [_signer(note, allowed)]
    if reason := notes.broken(note.checkpoint, found):
        raise InvalidCheckpoint(reason, is_broken=True)
    return [*said, f"the ledger extends it: {output.count(note.checkpoint.rows, 'row')} then, {len(found.rows):,} now"]


def _signer(note: notes.Note, allowed: str | None) -> str:
    from cyberos.cli import signing

    if not note.signatures:
        if allowed is not None:
            raise SigningFailed("nobody signed it with an SSH key")
        return "the checkpoint is not signed: it is worth what the place is worth where it was kept"
    refusals = []
    for signature in note.signatures:
        try:
            who = signing.verify(note.text, signature, allowed)
        except SigningFailed as error:
            refusals.append(error)
        else:
            aside = "" if allowed else "; whose key that is, --allowed-signers would tell"
            return f"the checkpoint is signed by {who}{aside}"
    raise refusals[0]
