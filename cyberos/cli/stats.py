"""`cyberos stats`: how many episodes there are, how they went, and whether their labels say anything.

    {"episodes": 3, "outcomes": {"success": 2, …}, "labels": {"claimed_success": 2, …}, "oldest": "2026-…Z",
     "newest": "2026-…Z", "bytes": 5120, "health": ["nothing is verified: …"]}

`bytes` are those of the episodes' files and of the whole ledger.

Source: seed 000, `cli.py`; DESIGN section 7.
"""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import moment, output
from cyberos.core import layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cyberos.index.entry import Entry
    from cyberos.index.synced import Synced

_BAR = 40
_WIDTH = 100
_NAME = len("claimed success")


@click.command(epilog="Example: cyberos stats --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def stats(ctx: click.Context, /, *, as_json: bool) -> None:
    """Count the episodes by outcome and by label, and say plainly when the labels have stopped saying anything."""
    from cyberos.index.sync import sync

    root = output.root_of(ctx)
    with sync(root, ()) as index:
        found = counted(root, index)
        if index.warning is not None:
            output.note(f"note: {index.warning}")
    if as_json:
        output.document(found)
        return
    for text in _lines(found):
        output.line(text)


def counted(root: Path, index: Synced) -> dict[str, Any]:
    """Count the episodes that live, those in quarantine too; a file that is missing or changed is only told."""
    from cyberos.record import health

    entries = [entry for entry in index.catalog.entries() if entry.kind == layout.EPISODE]
    living = [entry for entry in entries if entry.state in ("ready", "quarantined") and entry.fields]
    lost = sum(entry.state == "absent" for entry in entries)
    episodes = [_counted(entry) for entry in living]
    told = health.health(episodes)
    if lost:
        told.append(f"{output.count(lost, 'episode')} not counted: file missing or changed; run `cyberos doctor`")
    moments = [each.moment_us for each in episodes]
    return {
        "episodes": len(episodes),
        "outcomes": health.outcomes(episodes),
        "labels": health.labels(episodes),
        "oldest": moment.shown(min(moments)) if moments else None,
        "newest": moment.shown(max(moments)) if moments else None,
        "bytes": sum(int(entry.status.split()[0]) for entry in living if entry.status) + _ledger_bytes(root),
        "health": told,
    }


def _counted(entry: Entry) -> Any:
    from cyberos.record.health import Counted

    values = entry.frontmatter
    lesson, evidence = str(values.get("lesson", "")), str(values.get("evidence", "none"))
    outcome, task = str(values["outcome"]), str(values["task"])
    return Counted(outcome, entry.label, evidence, entry.scope, entry.moment_us, task, lesson)


def _ledger_bytes(root: Path) -> int:
    found = 0
    for folder, _, names in os.walk(root / layout.AUDIT):
        found += sum(os.lstat(os.path.join(folder, name)).st_size for name in names)
    return found


def _lines(found: dict[str, Any]) -> Iterator[str]:
    if not found["episodes"]:
        yield "the vault holds no episodes yet"
        yield from found["health"]
        return
    first, last = found["oldest"][:10], found["newest"][:10]
    when = f"of {first}" if first == last else f"from {first} to {last}"
    yield f"{output.count(found['episodes'], 'episode')} {when}; {_size(found['bytes'])} with the ledger"
    for title in ("outcomes", "labels"):
        yield ""
        yield title
        yield from _histogram(found[title], found["episodes"])
    yield ""
    yield "health"
    for sentence in found["health"] or ["nothing to complain of"]:
        yield from textwrap.wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _histogram(counts: dict[str, int], total: int) -> Iterator[str]:
    block = _block()
    for name, count in counts.items():
        bar = block * max(1, round(_BAR * count / total)) if count else ""
        share = f"{100 * count / total:5.1f} %" if count else ""
        yield f"  {name.replace('_', ' '):<{_NAME}}  {count:>9,}  {share:>7}  {bar}".rstrip()


def _block() -> str:
    try:
        "\u2588".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#"
    return "\u2588"


def _size(count: int) -> str:
    for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
