"""`cyberos episode log`: one episode from flags, or many from a file.

Source: TASK-MEMORY-112 section 1, clauses on the CLI and batch loading; DESIGN sections 7 and 10.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import output
from cyberos.cli.source import read
from cyberos.core import canonical
from cyberos.core.admission import check_values
from cyberos.core.episode import FIELDS, Episode
from cyberos.core.episode import log as log_episode
from cyberos.core.errors import InvalidMemory, SecretFound
from cyberos.core.secrets import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from cyberos.core.writer import Writer

_FORM = "give one JSON object per line, or one array of objects"
PART = 10_000  # episodes in one transaction of an import


class _Verbs(click.Group):
    """A group whose `record`, which reads transcripts of many formats, is imported only when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["log", "record"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "record":
            return super().get_command(ctx, cmd_name)
        from cyberos.cli.record import record

        return record


@click.group(cls=_Verbs)
def episode() -> None:
    """Log what was done, or record it from an agent's transcript."""


@episode.command(
    epilog="""\b
Examples:
  cyberos episode log --task "Fix the flaky login test" --approach "freeze the clock in the fixture" \\
    --outcome success --duration-ms 1847000 --evidence test --evidence-ref "pytest -q -> exit 0"
  cyberos episode log --from-json runs.jsonl"""
)
@click.option("--task", help="What was to be done.")
@click.option("--approach", help="What was tried.")
@click.option("--outcome", help="success | partial | failure")
@click.option("--duration-ms", type=int, help="Working time in milliseconds.")
@click.option("--token-cost", type=int, help="Tokens spent.")
@click.option("--quality-score", type=float, help="How good the result is, 0 to 1.")
@click.option("--notes", default="", help="What would be useful to know.")
@click.option("--error", help="What went wrong; required unless the outcome is success.")
@click.option("--lesson", default="", help="The one thing a future run should know.")
@click.option("--evidence", help="Who says so: test | exit_code | user | judge | agent | none")
@click.option("--evidence-ref", help="What the evidence is, such as 'pytest -q -> exit 0'.")
@click.option("--ended", help="completed | abandoned | unknown")
@click.option("--scope", help="A part of the vault that recall can be narrowed to.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option("--commit", help="The commit that holds the work.")
@click.option("--transcript-ref", help="The raw transcript.")
@click.option("--occurred-at", help="When it happened, RFC 3339, for imported history.")
@click.option("--from-json", metavar="FILE", help="Import episodes: JSON Lines or one JSON array; '-' reads stdin.")
@click.option("--skip-bad", is_flag=True, help="With --from-json: report bad rows and go on.")
@click.option(
    "--allow-secret", "allowed", multiple=True, metavar="KIND", help="Write a credential of this kind all the same."
)
@click.option("--actor", help="Who is named in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def log(ctx: click.Context, /, **options: Any) -> int:
    """Log one episode from flags, or many from a file.

    Prints the path of the new episode. Nothing is written when anything is wrong.
    """
    actor = output.actor_of(ctx, options.pop("actor"))
    as_json, source, skip = options.pop("as_json"), options.pop("from_json"), options.pop("skip_bad")
    allowed = options.pop("allowed")
    _check(options, allowed, source, skip=skip)
    writer = output.writer_of(ctx, allow_secrets=allowed)
    if source is not None:
        return _import(writer, source, actor, skip=skip, as_json=as_json)
    for name in ("task", "approach", "outcome", "duration_ms"):
        if options[name] is None:
            raise click.UsageError(f"Missing option '--{name.replace('_', '-')}' (or give --from-json FILE).")
    path = run(writer, _Arguments(options), actor)
    output.document({"path": path, "seq": writer.head_seq()}) if as_json else output.line(path)
    _notes(writer)
    return 0


def _check(options: dict[str, Any], allowed: tuple[str, ...], source: str | None, *, skip: bool) -> None:
    """Refuse options that would be passed over in silence. Raises: click.UsageError."""
    if skip and source is None:
        raise click.UsageError("--skip-bad goes with --from-json FILE.")
    given = [name for name, value in options.items() if value]
    if source is not None and given:
        raise click.UsageError(
            f"--from-json takes every field from the file: leave out --{given[0].replace('_', '-')}."
        )
    for kind in allowed:
        if kind not in KINDS:
            raise click.UsageError(f"--allow-secret {kind}: no such kind; there are {', '.join(KINDS)}")


class _Arguments:
    def __init__(self, values: dict[str, Any]) -> None:
        vars(self).update(values)


def run(writer: Writer, args: Any, actor: str) -> str:
    """Log the episode whose fields are the attributes of `args`; give its path."""
    given = {name: getattr(args, name, None) for name in FIELDS}
    values = {name: value for name, value in given.items() if value is not None}
    check_values(values, writer.allow_secrets)  # first: what another rule says may quote the value
    return log_episode(writer, Episode(**values), actor=actor).as_posix()


def _notes(writer: Writer) -> None:
    for text in writer.notes:
        output.note(f"note: {text}")


def _import(writer: Writer, source: str, actor: str, *, skip: bool, as_json: bool) -> int:
    episodes, bad = _read_all(source, writer.allow_secrets, skip=skip)
    logged = 0
    with output.progress("importing", len(episodes)) as bar:
        for start in range(0, len(episodes), PART):
            part = episodes[start : start + PART]
            with writer.transaction():
                for one in part:
                    log_episode(writer, one, actor=actor)
                    bar.update(1)
            logged += len(part)
            if len(episodes) > PART:
                output.note(f"committed {logged:,} of {len(episodes):,}")
    if as_json:
        output.document({"logged": logged, "skipped": bad, "seq": writer.head_seq()})
    else:
        skipped = f", skipped {output.count(bad, 'bad row')}" if bad else ""
        output.line(f"logged {output.count(logged, 'episode')}{skipped}")
    _notes(writer)
    return 0


def _read_all(source: str, allowed: Collection[str], *, skip: bool) -> tuple[list[Episode], int]:
    """Build every episode before the first is written; give them and how many rows were skipped.

    Raises: InvalidMemory, SecretFound, naming line, field and rule.
    """
    name = "stdin" if source == "-" else source
    found: list[Episode] = []
    bad = 0
    for number, row in _rows(_decode(read(source), name), name):
        try:
            if isinstance(row, ValueError):
                raise InvalidMemory("frontmatter-parse", str(row), advice=_FORM)
            if not isinstance(row, dict):
                raise InvalidMemory("frontmatter-parse", f"{canonical.dump(row)[:40]} is no object", advice=_FORM)
            check_values(row, allowed)  # first: what another rule says may quote the value
            found.append(Episode.from_frontmatter(row))
        except (InvalidMemory, SecretFound) as error:
            _place(error, name, number)
            if not skip:
                raise
            bad += 1
            output.note(f"skipped {error}")
    return found, bad


def _place(error: InvalidMemory | SecretFound, name: str, number: int) -> None:
    if isinstance(error, SecretFound):
        error.place = f"{name}:{number}"
    else:
        error.path, error.line = name, number


def _decode(blob: bytes, name: str) -> str:
    try:
        return blob.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = blob.count(b"\n", 0, error.start) + 1
        raise InvalidMemory("text-encoding", "not UTF-8", path=name, line=line, advice="save it as UTF-8") from None


def _rows(text: str, name: str) -> Iterator[tuple[int, Any]]:
    """Give each row with its line (JSON Lines) or its number (array); what is not JSON comes as the ValueError."""
    if text.lstrip().startswith("["):
        try:
            rows = canonical.load(text)
        except ValueError as error:
            line = getattr(error, "lineno", None)
            raise InvalidMemory("frontmatter-parse", f"not a JSON array: {error}", path=name, line=line) from None
        yield from enumerate(rows, 1)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, canonical.load(line)
        except ValueError as error:
            message = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            yield number, ValueError(f"not JSON: {message}")
