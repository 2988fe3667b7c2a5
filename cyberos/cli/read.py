"""`cyberos read`: one memory, as it is."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import output
from cyberos.cli.place import path_of
from cyberos.core import frontmatter, layout, text
from cyberos.core.errors import InvalidMemory, MemoryNotFound
from cyberos.core.render import escape

if TYPE_CHECKING:
    from cyberos.index.synced import Synced


@click.command(epilog="Example: cyberos read memories/episodes/d4/12/d4127a3b-1f2c3d.md --json")
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: path, frontmatter, body.")
@click.pass_context
def read(ctx: click.Context, path: str, *, as_json: bool) -> None:
    """Show the memory at PATH: relative to the vault or to this folder, or absolute.

    The file's bytes are printed as they are; on a terminal, control and invisible characters are escaped.
    """
    root = output.root_of(ctx)
    name = path_of(root, path)
    from cyberos.index.sync import sync

    with sync(root, ()) as index:
        blob, warning = load(index, name)
    if warning:
        output.note(f"warning: {name}: {warning}")
    if as_json:
        output.document(as_document(name, blob))
    elif sys.stdout.isatty():
        click.echo(escape(blob.decode("utf-8", "replace")), nl=False)
    else:
        click.echo(blob, nl=False)


def load(index: Synced, path: str) -> tuple[bytes, str | None]:
    """Give a memory's bytes, and what is wrong with them if anything is. Raises: MemoryNotFound, UnsafePath."""
    from cyberos.index import bodies

    standing = index.standing(path)
    if standing is not None and not standing.live:
        raise MemoryNotFound(path, "it was forgotten")
    body = bodies.find(index.files, path, standing.live) if standing is not None else None
    if standing is not None and body is not None:
        return body.text.encode("utf-8"), "it is quarantined, so recall hides it" if standing.is_quarantined else None
    try:
        blob = index.files.read(path, layout.MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        reason = "the ledger knows it, but its file is missing" if standing is not None else "no memory of this name"
        raise MemoryNotFound(path, reason) from None
    if standing is None:
        return blob, "the ledger does not know this file; `cyberos adopt` logs it"
    return blob, "the file is not what was logged; `cyberos doctor` says more"


def as_document(path: str, blob: bytes) -> dict[str, Any]:
    """Give a memory as `{path, frontmatter, body}`; the body without the blank line before it and the last line end.

    Raises: InvalidMemory.
    """
    try:
        parsed = frontmatter.parse(text.decode(blob))
    except InvalidMemory as error:
        error.path = path
        raise
    values = parsed.frontmatter if parsed.is_json else json.loads(json.dumps(parsed.frontmatter, default=str))
    return {"path": path, "frontmatter": values, "body": parsed.body.removeprefix("\n").removesuffix("\n")}
