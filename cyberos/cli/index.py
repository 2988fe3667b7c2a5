"""`cyberos index`: bring the search index up to date, or make it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cyberos.cli import indexing, output
from cyberos.core.errors import VaultLocked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cyberos.core.settings import Value
    from cyberos.embed.base import Embedder
    from cyberos.index.synced import Synced


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

    Every recall does this by itself, but for embedding, which it does only as far as its time allows. What is
    interrupted goes on where it was; the index can be deleted at any time (.cyberos/index).
    """
    from cyberos.core import semantic
    from cyberos.core.backends import AUTO, choose
    from cyberos.core.settings import load
    from cyberos.index import sync
    from cyberos.index.entry import ABSENT, READY

    root = output.root_of(ctx)
    values = load(root)
    embedder, reason = _embedder(values)
    stores = (semantic.store() if embedder is not None else choose(AUTO, values["fallback"].value).store,)
    wait_s = float(values["lock_wait"].value)
    made = _made(root, stores, wait_s, rebuild=rebuild)
    with made:
        if made.behind is not None:
            raise VaultLocked(str(root / sync.LOCK), wait_s, "another process that writes the index")
        left = _embed(made, embedder, wait_s) if embedder is not None else 0
        absent = [entry.path for entry in made.catalog.in_state(ABSENT)]
        answer = {
            "engine": made.engine.name,
            "embedder": embedder.name if embedder is not None else None,
            "documents": made.catalog.count(READY),
            "unseen": made.unseen(None) + left,
            "rebuilt": rebuild,
            "degraded": "; ".join(filter(None, (reason, made.reason))) or None,
        }
    if reason is not None:
        output.note(f"warning: {reason}")
    for path in absent:
        output.note(f"not indexed: {path}: its file is missing or is not what was logged")
    if made.reason is not None:
        output.note(f"warning: {made.reason}: nothing was kept")
    if as_json:
        output.document(answer)
    else:
        noun = "memory" if answer["documents"] == 1 else "memories"
        by = made.engine.name if embedder is None else f"{embedder.name} and {made.engine.name}"
        output.line(f"{answer['documents']:,} {noun} indexed by {by}")
    return 0 if made.reason is None else 1


def _made(root: Path, stores: Sequence[str], wait_s: float, *, rebuild: bool) -> Synced:
    from cyberos.index import sync

    try:
        with indexing.bar() as told:
            if rebuild:
                return sync.rebuild(root, stores, progress=told, wait_s=wait_s)
            return sync.sync(root, stores, careful=True, progress=told, wait_s=wait_s)
    except OSError as error:
        raise click.ClickException(f"the index cannot be written: {error.strerror or error}") from None


def _embedder(values: Mapping[str, Value]) -> tuple[Embedder | None, str | None]:
    """Give the embedder, or why it cannot be used though it should be."""
    from cyberos.core import semantic
    from cyberos.embed.base import EmbedderUnavailable

    try:
        return semantic.make(values), None
    except EmbedderUnavailable as error:
        return None, None if error.name in ("none", "auto") else f"{error}: {error.advice}"


def _embed(index: Synced, embedder: Embedder, wait_s: float) -> int:
    """Embed all that has no vector yet; give how many are left."""
    from cyberos.index import meaning

    with indexing.bar("embedding", indexing.FEW_EMBEDDED) as told:
        made = meaning.bring_up(index, embedder, budget_s=None, progress=told, wait_s=wait_s)
        return sum(made.missing.values())
