"""How `cyberos doctor` speaks: which rules, in which format, and what a rule is for.

Source: DESIGN sections 5 and 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import output
from cyberos.cli.version import __version__
from cyberos.core import contract, discovery, git, settings
from cyberos.core.errors import ContractError, VaultNotFound
from cyberos.doctor import examination, team

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from cyberos.core.contract import Rule
    from cyberos.core.repository import Repository
    from cyberos.doctor.findings import Report

FORMATS = settings.REPORTS
_LOOKS: dict[str, dict[str, Any]] = {
    "path": {"bold": True},
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "info": {"fg": "blue", "bold": True},
    "hint": {"fg": "cyan"},
}


def rules_of(root: Path | None, index: Repository | None = None) -> dict[str, Rule]:
    """Give the installed rules by id, and those that the vault's team added: in the working tree, or in git's index."""
    if index is not None:
        from cyberos.core.repository import Blobs
        from cyberos.doctor import staged

        with Blobs(index) as blobs:
            return contract.rules() | staged.load_team(index, blobs)[0].rules
    return contract.rules() | (team.load(str(root), examination.CHECKS)[0].rules if root is not None else {})


def chosen(known: Callable[[], Mapping[str, Rule]], names: Iterable[str]) -> list[str]:
    """Give the ids that names stand for: an id, or the beginning of some up to a dash; commas may stand between.

    Raises: click.UsageError for a name that no rule has, with the nearest one that is.
    """
    asked = [part.strip() for name in names for part in name.split(",")]
    return [found for name in asked for found in _matching(name, known())]


def _matching(name: str, known: Mapping[str, Rule]) -> list[str]:
    if name in known:
        return [name]
    start = name.removesuffix("-") + "-"
    found = [rule for rule in known if rule.startswith(start)]
    if found:
        return found
    from difflib import get_close_matches

    starts = {"-".join(rule.split("-")[:length]) + "-" for rule in known for length in range(1, rule.count("-") + 1)}
    near = get_close_matches(name, [*known, *sorted(starts)], n=1)
    raise click.UsageError(f"No rule is called {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))


def format_of(root: Path, given: str | None) -> str:
    """Give the format: the flag, else the vault's setting. Raises: click.UsageError for a setting that is none."""
    if given is not None:
        return given
    try:
        return str(settings.load(root)["output_format"].value)
    except ContractError as error:
        raise click.UsageError(f"{error}") from None


def say(root: Path, report: Report, form: str, known: Callable[[], Mapping[str, Rule]]) -> None:
    """Report what was found: text on stderr, any other format on stdout."""
    if form == "text":
        say_text(report)
    elif form == "json":
        from cyberos.doctor.formats import json

        output.document(json.document(report))
    elif form == "github":
        from cyberos.doctor.formats import github

        for line in github.lines(report, _folder(root)):
            click.echo(line)
    elif form == "sarif":
        from cyberos.doctor.formats import sarif

        output.document(sarif.document(report, _folder(root), known(), __version__))
    else:
        from cyberos.doctor.formats import junit

        click.echo(junit.document(report, _folder(root), known()), nl=False)


def say_text(report: Report) -> None:
    """Report on stderr, in colour on a terminal."""
    from cyberos.doctor.formats import text

    for line in text.lines(report, _paint):
        click.echo(line, err=True)


def _paint(text: str, role: str) -> str:
    # click takes the colours out again where there is no terminal, and under NO_COLOR and TERM=dumb
    return click.style(text, **_LOOKS[role])


def _folder(root: Path) -> str:
    """Give the vault's folder in its repository: the empty text, or one that ends in a slash."""
    return git.text(root, "rev-parse", "--show-prefix") or ""


def say_statistics(report: Report, form: str, known: Mapping[str, Rule]) -> None:
    """Count the findings of each rule, the most frequent first, as text or json."""
    items = [
        {
            "rule": rule,
            "severity": known[rule].severity if rule in known else "error",
            "count": count,
            "description": known[rule].description if rule in known else "",
        }
        for rule, count in report.counts
    ]
    if form == "json":
        output.document({"statistics": items, "summary": report.summary})
        return
    width = max((len(f"{item['count']:,}") for item in items), default=0)
    for text in output.table(
        (f"{item['count']:>{width},}", str(item["rule"]), str(item["description"])) for item in items
    ):
        click.echo(text)


def explain(store: str | None, name: str, *, as_json: bool) -> None:
    """Say what a rule, those of a prefix, or all are for; a vault is not needed, but its team's rules are known."""
    from cyberos.doctor import explanation

    try:
        root = discovery.discover(store=store)
    except VaultNotFound:
        root = None
    known = rules_of(root)
    rules = [known[rule] for rule in (known if name == "all" else chosen(lambda: known, [name]))]
    if as_json:
        output.document({"rules": [explanation.entry(rule) for rule in rules]})
        return
    for number, rule in enumerate(rules):
        output.line(("\n\n" if number else "") + explanation.text(rule))
