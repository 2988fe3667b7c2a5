"""`cyberos index`: bring the search index up to date, or make it again."""

from __future__ import annotations

import click

from cyberos.cli import indexing, output
from cyberos.core.errors import VaultLocked


@click.command(
    epilog="""\b
Examples:
  cyberos index
  cyberos index --rebuild"""
)
@click.option("--rebuild", is_flag=True, help="Begin from nothing. Counts of uses are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def index(ctx: click.Context, *, rebuild: bool, as_json: bool) -> int:
    """Bring the search index up to date with the ledger.

    Every recall does this by itself; the index can be deleted at any time (.cyberos/index).
    """
    from cyberos.core.backends import AUTO, choose
    from cyberos.core.settings import load
    from cyberos.index import sync
    from cyberos.index.entry import ABSENT, READY

    root = output.root_of(ctx)
    stores = (choose(AUTO, load(root)["fallback"].value).store,)
    try:
        with indexing.bar() as told:
            if rebuild:
                made = sync.rebuild(root, stores, progress=told)
            else:
                made = sync.sync(root, stores, careful=True, progress=told)
    except OSError as error:
        raise click.ClickException(f"the index cannot be written: {error.strerror or error}") from None
    with made:
        if made.behind is not None:
            raise VaultLocked(str(root / sync.LOCK), sync.WAIT_S, "another process that writes the index")
        absent = [entry.path for entry in made.catalog.in_state(ABSENT)]
        answer = {
            "engine": made.engine.name,
            "documents": made.catalog.count(READY),
            "unseen": made.unseen(None),
            "rebuilt": rebuild,
            "degraded": made.reason,
        }
    for path in absent:
        output.note(f"not indexed: {path}: its file is missing or is not what was logged")
    if made.reason is not None:
        output.note(f"warning: {made.reason}: nothing was kept")
    if as_json:
        output.document(answer)
    else:
        noun = "memory" if answer["documents"] == 1 else "memories"
        output.line(f"{answer['documents']:,} {noun} indexed by {answer['engine']}")
    return 0 if made.reason is None else 1
