"""`cyberos timeline`: what was done, the last first.

    2026-11-30
      17:08  failure          31 s  Fix the flaky login test
                                    lesson: CI has no redis; use the fakeredis fixture

Days and times are UTC, and those of the event where an episode says when that was.

Source: seed 000, `cli.py`; DESIGN section 7.
"""

from __future__ import annotations

import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import moment, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyberos.index.entry import Entry

_TITLE = 76
_LABEL = len("claimed success")


@click.command(
    epilog="""\b
Examples:
  cyberos timeline --since 7d
  cyberos timeline --scope web --limit 5 --json"""
)
@click.option("--since", metavar="WHEN", help="Only what happened since: a span such as 7d, or a date.")
@click.option("--scope", help="Only episodes of this scope.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def timeline(ctx: click.Context, /, *, since: str | None, scope: str | None, limit: int, as_json: bool) -> None:
    """Show what was done, the last first, and how it went; forgotten episodes are not shown."""
    from cyberos.index.sync import sync

    since_us = moment.since(since, time.time_ns() // 1000)
    with sync(output.root_of(ctx), ()) as index:
        items = [_item(entry) for entry in index.catalog.timeline(since_us, scope, limit)]
        if index.warning is not None:
            output.note(f"note: {index.warning}")
    if as_json:
        output.document({"items": items})
        return
    for text in _lines(items):
        output.line(text)


def _item(entry: Entry) -> dict[str, Any]:
    values = entry.frontmatter
    return {
        "path": entry.path,
        "at": moment.shown(entry.moment_us),
        "task": values.get("task"),
        "outcome": values.get("outcome"),
        "label": entry.label or None,
        "evidence": values.get("evidence", "none"),
        "duration_ms": values.get("duration_ms"),
        "scope": entry.scope or None,
        "actor": entry.actor,
        "lesson": values.get("lesson", ""),
        "error": values.get("error"),
        "state": entry.state,
    }


def _lines(items: list[dict[str, Any]]) -> Iterator[str]:
    if not items:
        yield "nothing was logged in that time"
    for day, of_day in groupby(items, lambda item: str(item["at"])[:10]):
        yield day
        for item in of_day:
            told = str(item["label"] or "?").replace("_", " ")
            begin = f"  {item['at'][11:16]}  {told:<{_LABEL}}  {took(item['duration_ms'] or 0):>6}  "
            state = "" if item["state"] == "ready" else f" ({item['state']})"
            yield f"{begin}{_cut(item['task'] or item['path'])}{state}"
            if item["lesson"]:
                yield f"{'':<{len(begin)}}lesson: {_cut(item['lesson'])}"


def took(duration_ms: int) -> str:
    """Give a duration in the unit that suits it; nothing for none."""
    for size, unit in ((3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if duration_ms >= size:
            return f"{duration_ms / size:.3g} {unit}"
    return f"{duration_ms} ms" if duration_ms else ""


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _TITLE else flat[: _TITLE - 1] + "…"
