"""`cyberos doctor`: check a vault, and change nothing.

Source: DESIGN sections 5 and 10.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import click

from cyberos.cli import output
from cyberos.core import contract, discovery, layout, ledger
from cyberos.core.errors import VaultNotFound
from cyberos.doctor import examination, formats, team

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path


@click.command(
    epilog="""\b
Examples:
  cyberos doctor
  cyberos doctor memories/facts --format json
  cyberos doctor --ignore ledger-gap

Exit: 0 no finding of level error, 1 some, 2 usage or no vault."""
)
@click.argument("files", nargs=-1)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="text goes to stderr.")
@click.option("--select", multiple=True, metavar="ID", help="Report only these rules; may be repeated.")
@click.option("--ignore", multiple=True, metavar="ID", help="Do not report these rules; may be repeated.")
@click.pass_context
def doctor(
    ctx: click.Context, files: tuple[str, ...], form: str, select: tuple[str, ...], ignore: tuple[str, ...]
) -> int:
    """Check the vault, or only FILES and the ledger's rows about them.

    Nothing is written and no lock is taken: it works on a read-only vault and beside writers.
    """
    root, chosen = _choose(ctx, files)
    _check_ids(str(root), (*select, *ignore))
    report = examination.examine(root, chosen).only(select, ignore)
    if form == "json":
        output.document(formats.document(report))
    else:
        for line in formats.lines(report):
            output.note(line)
    return 1 if report.count("error") else 0


def _check_ids(root: str, ids: Iterable[str]) -> None:
    if not ids:
        return
    known = [*contract.rules(), *team.load(root, examination.CHECKS)[0].rules]
    for name in ids:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            raise click.UsageError(f"No rule is called {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))


def _choose(ctx: click.Context, names: Collection[str]) -> tuple[Path, set[str] | None]:
    """Find the vault and the paths in it that `names` stand for; None stands for all of it."""
    if not names:
        return output.root_of(ctx), None
    root = _root_of_files(ctx, os.path.abspath(next(iter(names))))

    @cache
    def known() -> Collection[str]:
        return ledger.scan(root).memories.keys()

    chosen = {_place(str(root), name, known) for name in names}
    for path in sorted(chosen):
        if path.split("/")[0] not in ("", layout.MEMORIES, layout.AUDIT) and path != contract.INVARIANTS_NAME:
            output.note(f"{path}: neither memory nor ledger, not checked")
    return root, None if "" in chosen else chosen


def _root_of_files(ctx: click.Context, full: str) -> Path:
    store = ctx.find_root().obj
    try:
        return discovery.discover(start=full if os.path.isdir(full) else os.path.dirname(full), store=store)
    except VaultNotFound:
        return discovery.discover(store=store)


def _place(root: str, name: str, known: Callable[[], Collection[str]]) -> str:
    """Give the vault-relative path that a name means: seen from here, or else from the vault's root."""
    places = [_inside(root, full) for full in (os.path.abspath(name), os.path.normpath(os.path.join(root, name)))]
    inside = [path for path in places if path is not None]
    if not inside:
        raise click.UsageError(f"{name} is outside the vault {root}.")
    for path in inside:
        if os.path.lexists(os.path.join(root, path)):
            return path
    for path in inside:
        if path in known():
            return path
    raise click.UsageError(f"{name}: no such file, and no memory of that name was ever logged.")


def _inside(root: str, full: str) -> str | None:
    """Give a full path relative to the vault, the empty text for the vault itself, or None for what lies outside."""
    folder, name = os.path.split(full)
    for base, target in ((root, full), (os.path.realpath(root), os.path.join(os.path.realpath(folder), name))):
        if target == base:
            return ""
        if target.startswith(os.path.join(base, "")):
            return os.path.relpath(target, base).replace(os.sep, "/")
    return None
