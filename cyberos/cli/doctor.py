"""`cyberos doctor`: check a vault, and change nothing unless `--fix` says so.

Source: DESIGN sections 5 and 10.
"""

from __future__ import annotations

import os
from functools import cache, partial
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from cyberos.cli import output, reporting
from cyberos.core import contract, discovery, layout, ledger
from cyberos.core.errors import VaultNotFound
from cyberos.doctor import examination

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from cyberos.core.repository import Repository
    from cyberos.doctor.findings import Report


@click.command(
    epilog="""\b
Examples:
  cyberos doctor
  cyberos doctor memories/facts --format json
  cyberos doctor --select ledger- --statistics
  cyberos doctor --explain memory-modified
  cyberos doctor --diff

Exit: 0 no finding of level error, 1 some, 2 usage or no vault."""
)
@click.argument("files", nargs=-1)
@click.option(
    "--format",
    "form",
    type=click.Choice(reporting.FORMATS),
    help="text (the default) goes to stderr, others to stdout.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option("--select", multiple=True, metavar="ID", help="Report only these rules, or all that begin with ID-.")
@click.option("--ignore", multiple=True, metavar="ID", help="Do not report these rules, or all that begin with ID-.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found.")
@click.option("--explain", metavar="ID", help="Say what a rule is for, with examples; `all` for every one.")
@click.option("--staged", is_flag=True, help="Check what git's index holds, as it would be committed.")
@click.option("--anchor", default="auto", metavar="REF", help="Compare with git: auto (default), none, or also REF.")
@click.option("--full", is_flag=True, help="Use nothing kept from earlier runs, and compare with all of history.")
@click.option("--fix", is_flag=True, help="Put right what loses nothing, then check again.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.pass_context
def doctor(
    ctx: click.Context,
    files: tuple[str, ...],
    *,
    form: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    explain: str | None,
    statistics: bool,
    exit_zero: bool,
    staged: bool,
    anchor: str,
    full: bool,
    fix: bool,
    diff: bool,
) -> int:
    """Check the vault, or only FILES and the ledger's rows about them.

    Without --fix nothing is written but what .cyberos/ keeps for the next run, and no lock is taken: it works on a
    read-only vault and beside writers.
    """
    if explain is not None:
        _refuse_beside(ctx, "explain", {"form"})
        _refuse_form("explain", form)
        reporting.explain(ctx.find_root().obj, explain, as_json=form == "json")
        return 0
    if staged and (files or fix or diff):
        raise click.UsageError("--staged checks all that is staged: it goes with no FILES, --fix or --diff.")
    if diff and (statistics or form not in (None, "text")):
        raise click.UsageError("--diff prints what would change, as text: it goes with no --statistics or --format.")
    root, chosen = _choose(ctx, files)
    form = reporting.format_of(root, form)
    if statistics:
        _refuse_form("statistics", form)
    git = _repository(root, anchor, is_staged=staged)
    known = cache(partial(reporting.rules_of, root, git if staged else None))
    selected, ignored = reporting.chosen(known, select), reporting.chosen(known, ignore)
    look = _examiner(root, chosen, anchor, git if staged else None, is_full=full or fix or diff)
    report = look().only(selected, ignored)
    if fix or diff:
        from cyberos.cli import fixing

        (fixing.show if diff else fixing.fix)(root, report, whole=chosen is None and not select)
        report = report if diff else look().only(selected, ignored)
    if statistics:
        reporting.say_statistics(report, form, known())
    elif not diff:
        reporting.say(root, report, form, known)
    return 1 if report.count("error") and not exit_zero else 0


def _refuse_beside(ctx: click.Context, name: str, others: Collection[str]) -> None:
    """Refuse what was given on the command line beside an option that uses only `others`. Raises: click.UsageError."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if source is ParameterSource.COMMANDLINE and parameter.name not in {name, *others}:
            shown = parameter.opts[0] if isinstance(parameter, click.Option) else "FILES"
            raise click.UsageError(f"--{name} does not go with {shown}.")


def _refuse_form(name: str, form: str | None) -> None:
    if form not in (None, "text", "json"):
        raise click.UsageError(f"--{name} is given as text or json, not as {form}.")


def _repository(root: Path, anchor: str, *, is_staged: bool) -> Repository | None:
    """Open what git must answer for: the index, or a commit that is named; None when nothing of git's is asked for."""
    is_named = anchor not in ("auto", "none")
    if not (is_staged or is_named):
        return None
    from cyberos.core import repository

    found = repository.open_at(root)
    if found is None:
        raise click.UsageError(f"{root} is in no git repository that answers.")
    if is_named and found.commit(anchor) is None:
        raise click.UsageError(f"git knows no commit {anchor!r}.")
    return found


def _examiner(
    root: Path, chosen: Collection[str] | None, anchor: str, index: Repository | None, *, is_full: bool
) -> Callable[[], Report]:
    """Make the examination that was asked for: of the index, or of the working tree."""
    from cyberos.doctor import ci

    is_full = is_full or ci.runs_us()
    if index is not None:
        from cyberos.doctor import staged

        return partial(staged.examine, index, anchor=anchor, is_full=is_full)
    return partial(examination.examine, root, chosen, anchor=anchor, is_full=is_full)


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
