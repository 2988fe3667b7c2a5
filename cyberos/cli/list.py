"""`cyberos list`: the memories of a vault, the last logged first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import output
from cyberos.core import layout

if TYPE_CHECKING:
    from cyberos.index.entry import Entry
    from cyberos.index.synced import Synced

_TITLE = 70


@click.command(
    "list",
    epilog="""\b
Examples:
  cyberos list --kind episode --limit 5
  cyberos list --json""",
)
@click.option("--kind", type=click.Choice((layout.EPISODE, *layout.OLD_KINDS)), help="Only memories of this kind.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=20, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_memories(ctx: click.Context, *, kind: str | None, limit: int, as_json: bool) -> None:
    """List memories, the last logged first; forgotten ones are not shown."""
    from cyberos.index.sync import sync

    with sync(output.root_of(ctx), ()) as index:
        items = [_item(index, entry) for entry in index.catalog.newest(kind, limit)]
        if index.warning is not None:
            output.note(f"note: {index.warning}")
    if as_json:
        output.document({"items": items})
        return
    for text in output.table(
        (item["last_seen_at"][:10], _told(item), _cut(item["title"]), item["path"]) for item in items
    ):
        click.echo(text)
    if not items:
        output.line(f"no memories of kind {kind}" if kind else "no memories yet")


def _item(index: Synced, entry: Entry) -> dict[str, Any]:
    from cyberos.index import bodies

    values, state = entry.frontmatter, entry.state
    # a file that looks as it did when it was verified is not read again
    if state == "ready" and bodies.look(index.files, entry.path) != entry.status:
        state = state if bodies.find(index.files, entry.path, entry.digests) is not None else "absent"
    return {
        "path": entry.path,
        "kind": entry.kind,
        "title": title_of(entry.path, values),
        "outcome": values.get("outcome") if entry.kind == layout.EPISODE else None,
        "label": entry.label or None,
        "scope": entry.scope or None,
        "last_seen_at": entry.last_seen_at,
        "occurred_at": values.get("occurred_at") if entry.kind == layout.EPISODE else None,
        "state": state,
    }


def title_of(path: str, values: dict[str, Any]) -> str:
    """Give what a memory is called: its task or title, else the name of its file."""
    stem = path.rsplit("/", 1)[1].removesuffix(".md")
    return str(values.get("task") or values.get("title") or values.get("name") or stem)


def _told(item: dict[str, Any]) -> str:
    told = str(item["label"] or item["kind"]).replace("_", " ")
    return told if item["state"] == "ready" else f"{told} ({item['state']})"


def _cut(title: str) -> str:
    flat = " ".join(title.split())
    return flat if len(flat) <= _TITLE else flat[: _TITLE - 1] + "…"
