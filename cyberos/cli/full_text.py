"""`cyberos recall`: memories of any kind that share words with a query.

    {"backend": "fts5", "engines": ["fts5"], "degraded": null, "matches": [{"path": …, "kind": …, "title": …,
     "relevance": …, "last_seen_at": …, "frontmatter": {…}}], "reason": null, "below_cutoff": 0, "unseen": 0}

Source: DESIGN section 6.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import indexing, output
from cyberos.cli.list import title_of
from cyberos.cli.recall import since_us
from cyberos.core import layout, settings
from cyberos.core.backends import AUTO, FULL_TEXT

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from cyberos.core.reader import Found, RecallHit
    from cyberos.core.semantic import Way
    from cyberos.index.synced import Synced
    from cyberos.index.upkeep import Progress


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the argument and the options of a question to all kinds."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON: the same as --format json."),
        click.option("--format", "form", type=click.Choice(("text", "json")), default="text", help="text | json"),
        click.option("--since", metavar="WHEN", help="Only what happened since: a span such as 7d, or a date."),
        click.option("--scope", help="Only memories of this scope. Default: all."),
        click.option(
            "--kind", type=click.Choice((layout.EPISODE, *layout.OLD_KINDS)), help="Only memories of this kind."
        ),
        click.option("--min-relevance", type=float, help="The least relevance, 0 to 1. Default: the setting, 0.65."),
        click.option(
            "--k", type=click.IntRange(min=1), default=5, show_default=True, help="How many memories at most."
        ),
        click.argument("query"),
    ):
        command = option(command)
    return command


@click.command(
    epilog="""\b
Examples:
  cyberos recall "deploy script"
  cyberos recall ENOENT --kind episode --since 30d --json"""
)
@options
@click.option("--backend", type=click.Choice((AUTO, *FULL_TEXT)), default=AUTO, help="What searches. Default: auto.")
@click.pass_context
def recall(ctx: click.Context, /, **given: Any) -> None:
    """Find memories of any kind by the words of QUERY, best first.

    Every word counts, none is an operator. Finding none is no error.
    """
    show(ctx, **given)


def show(ctx: click.Context, *, query: str, form: str, as_json: bool, **given: Any) -> None:
    """Ask and print."""
    with indexing.bar() as progress:
        answer = run(output.root_of(ctx), query, **given, progress=progress)
    if as_json or form == "json":
        output.document(answer)
        return
    for text in _lines(answer):
        output.line(text)


def run(
    store: str | os.PathLike[str],
    query: str,
    *,
    k: int = 5,
    min_relevance: float | None = None,
    kind: str | None = None,
    scope: str | None = None,
    since: str | None = None,
    backend: str = AUTO,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Answer a query, by words unless the backend is `semantic`.

    Raises: click.UsageError for a cut-off, a span or a date that is none; VaultNotFound.
    """
    from cyberos.core import reader, semantic

    values = settings.load(store)
    cut = values["min_relevance"].value if min_relevance is None else min_relevance
    if not 0 <= cut <= 1:
        raise click.UsageError(f"--min-relevance {cut:g}: a number from 0 to 1")
    asked = reader.Query(query, k, cut, kind, scope, since_us(since, time.time_ns() // 1000))

    def answer(index: Synced, found: Found, way: Way) -> dict[str, Any]:
        unseen = index.unseen(kind) + len(found.dropped) + way.unseen
        is_empty = not unseen and not index.catalog.has_ready(kind)
        reason = "no_memories_in_store" if is_empty else "no_memories_above_min_relevance"
        return {
            "backend": way.backend,
            "engines": way.engines,
            "degraded": "; ".join(filter(None, (way.degraded, index.warning))) or None,
            "matches": [_match(hit) for hit in found.hits[:k]],
            "reason": None if found.hits else reason,
            "below_cutoff": found.below_cutoff,
            "unseen": unseen,
        }

    chosen = values["fallback"].value if backend == AUTO else backend
    return semantic.ask(store, asked, answer, backend=chosen, progress=progress)


def _match(hit: RecallHit) -> dict[str, Any]:
    return {
        "path": hit.path,
        "kind": layout.kind_of(hit.path),
        "title": title_of(hit.path, hit.frontmatter),
        "relevance": round(hit.relevance, 3),
        "last_seen_at": hit.last_seen_at,
        "frontmatter": hit.frontmatter,
    }


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    for number, match in enumerate(answer["matches"], 1):
        yield f"{number}  {' '.join(match['title'].split())}"
        seen = match["last_seen_at"][:10]
        yield f"   {match['kind']}, {match['path']}, last seen {seen}, relevance {match['relevance']:.3f}"
        yield ""
    if answer["reason"] == "no_memories_in_store":
        yield "nothing found: the vault holds no such memories yet"
    elif answer["below_cutoff"]:
        yield f"nothing found above the cut: --min-relevance lowers it, {answer['below_cutoff']:,} are below"
    elif answer["reason"]:
        yield "nothing found: no memory shares a telling word with it"
    if answer["unseen"]:
        yield f"{answer['unseen']:,} not searched in full: file missing or changed, or not indexed yet"
    yield f"searched by {answer['backend']}" + (f": {answer['degraded']}" if answer["degraded"] else "")
