"""`cyberos run`: a command, and the episode of it: what its exit code says, not what anybody claims.

    cyberos run --task "Ship the login form" --approach "new form" -- make check
    -> the command's own output, then on stderr: logged memories/episodes/d4/12/d4127a3b-1f2c3d.md

stdout belongs to the command. The exit code is the command's own, whatever becomes of the log: where the episode
cannot be stored, it is printed on stderr as the line that `cyberos episode log --from-json -` takes.

Source: DESIGN section 7.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import output
from cyberos.core.admission import check_actor
from cyberos.core.episode import Episode
from cyberos.core.errors import CyberosError
from cyberos.record import keeping, process

if TYPE_CHECKING:
    from cyberos.core.writer import Writer

_LONGEST = 400  # characters of the command that are kept
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class Seconds(click.ParamType[float]):
    """A time such as `90`, `90s`, `5m` or `2h`, in seconds."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it; refuse what is no such time or not above 0."""
        text = str(value)
        unit = _SECONDS.get(text[-1:])
        try:
            seconds = float(text[:-1] if unit else text) * (unit or 1)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= _MOST_SECONDS:
            self.fail(f"{text!r} is no time such as 90, 90s, 5m or 2h", param, ctx)
        return seconds


_MOST_SECONDS = 31 * 24 * 3600


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Examples:
  cyberos run --task "Fix the flaky login test" --approach "freeze the clock" -- pytest -q tests/login
  cyberos run --task "Lint" --partial-on 1 --timeout 5m -- make lint""",
)
@click.option("--task", required=True, help="What is to be done.")
@click.option("--approach", help="What is tried. Default: the command.")
@click.option(
    "--partial-on", type=click.IntRange(0, 255), multiple=True, metavar="N", help="An exit code that means partial."
)
@click.option("--timeout", type=Seconds(), metavar="SPAN", help="End the command after this long: 90, 5m, 2h.")
@click.option("--notes", default="", help="What would be useful to know.")
@click.option("--lesson", default="", help="The one thing a future run should know.")
@click.option("--scope", default="default", help="A part of the vault that recall can be narrowed to.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option("--actor", help="Who is named in the ledger.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.pass_context
def run(
    ctx: click.Context,
    /,
    *,
    command: tuple[str, ...],
    partial_on: tuple[int, ...],
    timeout: float | None,
    actor: str | None,
    **fields: Any,
) -> int:
    """Run COMMAND, log what came of it as an episode, and exit with COMMAND's own code.

    Exit code 0 is a success and any other a failure unless --partial-on names it; the last lines of the output become
    the error. 127: not found, 126: cannot be started, 128 + n: killed by signal n, 124: out of time. Each is logged.
    """
    writer, actor = output.writer_of(ctx), output.actor_of(ctx, actor)
    if fields["approach"] is None:
        fields["approach"] = spelled(command)
    _check(fields, actor)
    ended = process.run(command, timeout)
    if ended.code in (process.NOT_FOUND, process.NOT_STARTABLE) and ended.how.startswith("could not"):
        output.note(f"cyberos run: {ended.how}")
    if ended.code == process.TIMED_OUT and timeout is not None and ended.how.startswith("timed out"):
        output.note(f"cyberos run: {command[0]} {ended.how}")
    _keep(writer, fields | verdict(command, ended, partial_on), actor)
    return ended.code


def _check(fields: dict[str, Any], actor: str) -> None:
    """Refuse, before anything runs, what could not be logged after it. Raises: InvalidMemory, SecretFound."""
    check_actor(actor)
    Episode(outcome="success", duration_ms=0, **keeping.made_storable(fields)[0])


def spelled(command: tuple[str, ...]) -> str:
    """Give a command as a shell would take it, on one line."""
    text = keeping.flat(shlex.join(command).encode("utf-8", "replace").decode())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def verdict(command: tuple[str, ...], ended: process.Ended, partial_on: tuple[int, ...] = ()) -> dict[str, Any]:
    """Give the fields that the end of a command decides."""
    found: dict[str, Any] = {
        "outcome": "success" if ended.code == 0 else "failure",
        "duration_ms": ended.duration_ms,
        "evidence": "exit_code",
        "evidence_ref": f"{spelled(command)} -> {_exit(ended)}",
    }
    if ended.code in partial_on:
        found["outcome"] = "partial"
    if ended.is_interrupted:
        found["ended"] = "abandoned"
    if found["outcome"] != "success":
        found["error"] = "\n".join(filter(None, (ended.how, keeping.last_lines(ended.tail))))
    return found


def _exit(ended: process.Ended) -> str:
    plain = f"exit {ended.code}"
    return plain if ended.how.startswith("exit code") else f"{plain} ({ended.how})"


def _keep(writer: Writer, values: dict[str, Any], actor: str) -> None:
    try:
        kept = keeping.keep(writer, values, actor)
    except (CyberosError, OSError, KeyboardInterrupt) as error:
        output.note(f"cyberos run: not logged: {error or 'interrupted'}")
        if isinstance(error, CyberosError) and error.hint:
            output.note(f"  hint: {error.hint}; then give this line to `cyberos episode log --from-json -`")
        storable, _ = keeping.made_storable(values)
        output.note(json.dumps({name: value for name, value in storable.items() if value not in ("", [])}))
        return
    for kind, field in kept.redacted:
        output.note(
            f"cyberos run: a credential ({kind}) was redacted from {field}; revoke it if it was shown to others"
        )
    for text in writer.notes:
        output.note(f"note: {text}")
    output.note(f"logged {kept.path}")
