"""`cyberos forget`: take a memory away, and say honestly what that cannot reach.

Source: DESIGN section 8 (forgetting); git-filter-repo(1).
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from cyberos.cli import output
from cyberos.cli.place import path_of
from cyberos.core import git
from cyberos.core.errors import UnsafePath, VaultLocked

if TYPE_CHECKING:
    from pathlib import Path

BEYOND = "other clones and forks, backups, and transcripts that quote it"


@click.command(epilog="Example: cyberos forget memories/episodes/d4/12/d4127a3b-1f2c3d.md --reason 'names a customer'")
@click.argument("path")
@click.option("--reason", required=True, help="Why; it stays in the ledger.")
@click.option("--actor", help="Who is named in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def forget(ctx: click.Context, path: str, *, reason: str, actor: str | None, as_json: bool) -> None:
    """Take the memory at PATH away: its file, its staged body and its index entries.

    The ledger keeps that it was there (path, digest, times, REASON), so it still verifies.
    """
    writer = output.writer_of(ctx)
    name = path_of(writer.path, path)
    writer.forget(name, reason, output.actor_of(ctx, actor))
    is_purged = purge(writer.path)
    command = _command(writer.path, name)
    for text in writer.notes:
        output.note(f"note: {text}")
    if as_json:
        output.document({"path": name, "index_purged": is_purged, "git_command": command, "not_reached": BEYOND})
        return
    output.line(f"forgot {name}")
    if command is not None:
        output.line("git's history still holds it. Commit, then take it out of every commit with")
        output.line(f"  {command}")
    elif git.text(writer.path, "--version") is None:
        output.line("git could not be asked: if the vault is in a repository, its history may still hold it")
    output.line(f"not reached: {BEYOND}")


def purge(root: Path) -> bool:
    """Take what was forgotten out of the index; report whether that was done, and say so where it was not."""
    from cyberos.index.sync import purge

    try:
        purge(root)
    except (VaultLocked, UnsafePath, OSError) as error:
        output.note(f"warning: the index still holds its text ({error}); the next recall or `cyberos index` removes it")
        return False
    return True


def _command(root: Path, path: str) -> str | None:
    """Give the command that takes a path out of git's history; None where git does not know it."""
    is_known = git.text(root, "log", "--all", "-1", "--format=%h", "--", path) or git.text(root, "ls-files", "--", path)
    if not is_known:
        return None
    prefix = git.text(root, "rev-parse", "--show-prefix") or ""
    return f"git filter-repo --invert-paths --path {shlex.quote(prefix + path)}"
