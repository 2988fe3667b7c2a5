"""`cyberos put`: write a memory of any kind, from a file or from stdin.

    cyberos put --kind facts --name deploy-script note.md
    -> memories/facts/<hh>/<hh>/deploy-script.md      hh hh = the first four hex digits of SHA-256(name)

Text without frontmatter gets the least that its kind needs.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import click

from cyberos.cli import output
from cyberos.cli.place import path_of
from cyberos.cli.source import read
from cyberos.core import frontmatter, layout, text
from cyberos.core.errors import InvalidMemory

if TYPE_CHECKING:
    from pathlib import Path


@click.command(
    epilog="""\b
Examples:
  echo "The deploy script lives at bin/deploy." | cyberos put --kind facts --name deploy-script
  cyberos put memories/decisions/1f/2e/use-postgres.md decision.md"""
)
@click.argument("arguments", nargs=-1, metavar="[PATH] [FILE]")
@click.option("--kind", type=click.Choice(layout.OLD_KINDS), help="With --name, instead of PATH.")
@click.option("--name", metavar="SLUG", help="The file's name; its folders follow from it.")
@click.option(
    "--allow-secret", "allowed", multiple=True, metavar="KIND", help="Write a credential of this kind all the same."
)
@click.option("--actor", help="Who is named in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def put(
    ctx: click.Context,
    *,
    arguments: tuple[str, ...],
    kind: str | None,
    name: str | None,
    allowed: tuple[str, ...],
    actor: str | None,
    as_json: bool,
) -> None:
    """Write FILE (default: stdin, as is '-') to PATH, over what was there before. An episode is never written over.

    Text that has no frontmatter gets one that names its kind.
    """
    writer = output.writer_of(ctx, allow_secrets=allowed)
    path, source = _places(writer.path, arguments, kind, name)
    written = writer.put(path, _with_frontmatter(path, _read(source)), output.actor_of(ctx, actor)).as_posix()
    for remark in writer.notes:
        output.note(f"note: {remark}")
    output.document({"path": written, "seq": writer.head_seq()}) if as_json else output.line(written)


def _places(root: Path, arguments: tuple[str, ...], kind: str | None, name: str | None) -> tuple[str, str]:
    """Give the memory's path and where its text comes from."""
    if (kind is None) != (name is None):
        raise click.UsageError("--kind and --name go together.")
    count = 1 if kind is not None else 2
    if len(arguments) > count or (kind is None and not arguments):
        raise click.UsageError("Give PATH and FILE, or --kind, --name and FILE; without FILE, stdin is read.")
    source = arguments[count - 1] if len(arguments) == count else "-"
    if kind is not None and name is not None:
        digest = sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
        return layout.check_memory_path(f"{layout.MEMORIES}/{kind}/{digest[:2]}/{digest[2:4]}/{name}.md"), source
    return path_of(root, arguments[0]), source


def _read(source: str) -> str:
    blob = read(source, layout.MAX_FILE_BYTES + 1)
    if not blob.strip():
        raise click.UsageError(f"{'stdin' if source == '-' else source} is empty: nothing to write.")
    try:
        return text.decode(blob)
    except InvalidMemory as error:
        error.path = "stdin" if source == "-" else source
        raise


def _with_frontmatter(path: str, given: str) -> str:
    if given.startswith("---") or layout.is_episode_path(path):
        return given
    return frontmatter.serialise({"kind": layout.kind_of(path)}, given.removesuffix("\n"))
