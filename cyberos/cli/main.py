"""The command line: one lazy group, one file per verb, one place that turns errors into exit codes.

Exit codes: 0 done (a recall without a match too), 1 findings, refused data or failure, 2 usage or no vault,
3 unexpected (with a traceback file), 75 locked, 130 interrupted.

Source: DESIGN section 10; sysexits.h for 75; click.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

import click

from cyberos.cli.version import __version__
from cyberos.core.errors import ContractError, CyberosError, VaultLocked, VaultNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Given = TypeVar("Given")
Instead = TypeVar("Instead")

USAGE, FAILURE, UNEXPECTED, LOCKED, INTERRUPTED = 2, 1, 3, 75, 130

# verb -> (module:attribute, one line of help); kept here so that `--help` imports no verb
VERBS: dict[str, tuple[str, str]] = {
    "init": ("cyberos.cli.init:init", "Make a vault here, or add what it lacks."),
    "episode": ("cyberos.cli.episode:episode", "Log what was done: one episode, or many from a file."),
    "run": ("cyberos.cli.run:run", "Run a command and log what its exit code says."),
    "recall-similar": ("cyberos.cli.recall:recall_similar", "Find episodes like a task, and how they went."),
    "eval": ("cyberos.cli.eval:evaluate", "Measure recall on probes of your own."),
    "recall": ("cyberos.cli.full_text:recall", "Find memories of any kind by their words."),
    "search": ("cyberos.cli.search:search", "Find memories of any kind by their meaning."),
    "put": ("cyberos.cli.put:put", "Write a memory of another kind (a fact, a decision, ...)."),
    "read": ("cyberos.cli.read:read", "Show one memory."),
    "list": ("cyberos.cli.list:list_memories", "List memories, newest first."),
    "timeline": ("cyberos.cli.timeline:timeline", "Show what was done, the last first."),
    "stats": ("cyberos.cli.stats:stats", "Count episodes by outcome and label; say what has gone stale."),
    "history": ("cyberos.cli.history:history", "Show every ledger row that touches a memory."),
    "doctor": ("cyberos.cli.doctor:doctor", "Check the vault: files, contract, ledger."),
    "adopt": ("cyberos.cli.adopt:adopt", "Log memories that were written or edited by hand."),
    "forget": ("cyberos.cli.forget:forget", "Take a memory away; the ledger still verifies."),
    "retain": ("cyberos.cli.retain:retain", "Forget the episodes that are older than a span."),
    "quarantine": ("cyberos.cli.quarantine:quarantine", "Hide a memory from recall, or let it be found again."),
    "audit": ("cyberos.cli.audit:audit", "Look at the ledger, verify it, accept gaps and vaults."),
    "index": ("cyberos.cli.index:index", "Bring the search index up to date, or rebuild it."),
    "hook": ("cyberos.cli.hooking:hook", "Answer a hook of an agent."),
    "mcp": ("cyberos.cli.mcp:mcp", "Serve the vault to an agent over MCP, on stdin and stdout."),
    "config": ("cyberos.cli.config:config", "Show every setting and where it comes from."),
}


class Verbs(click.Group):
    """A group whose verbs are imported only when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            advice = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}.{advice}", ctx) from None


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: cyberos init && cyberos recall-similar 'fix the flaky login test'",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--store", metavar="DIR", help="The vault. Default: CYBEROS_STORE, else the nearest folder that is one.")
@click.pass_context
def cli(ctx: click.Context, store: str | None) -> None:
    """Keep an agent's memory of what it did: plain markdown in git.

    Have I done this before, and how did it really go?
    """
    ctx.obj = store


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; give the exit code."""
    try:
        return _run(arguments)
    except (BrokenPipeError, SystemExit):
        # the reader of our output has gone (click turns that into a SystemExit, and nothing else into one): nothing is
        # left to say, and the flush at exit must not say it either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        _show(error, sys.argv[1:] if arguments is None else arguments)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the one place that turns the unexpected into exit code 3
        code, lines = _tell(error)
        for text in lines:
            click.echo(text, err=True)
        return code


def _show(error: click.ClickException, arguments: Sequence[str]) -> None:
    """Say what click has against the command line, but quote no credential."""
    from cyberos.core.secrets import scan

    if any(scan(argument) for argument in arguments):
        error = click.UsageError("An argument holds what looks like a credential; what is wrong is not quoted.")
    error.show()


def attempt(work: Callable[[], Given], refuse: Callable[[list[str]], Instead]) -> Given | Instead:
    """Do some work for a caller that must not end with it; where it fails, give what the lines that say why become."""
    try:
        return work()
    except click.ClickException as error:
        return refuse([error.format_message()])
    except Exception as error:  # noqa: BLE001 - the same place: a server outlives what one call brings up
        return refuse(_tell(error)[1])


def _run(arguments: Sequence[str] | None) -> int:
    color = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    result = cli.main(arguments, prog_name="cyberos", standalone_mode=False, color=color)
    if sys.stdout is not None:  # it was closed by whoever called us
        sys.stdout.flush()
    return result if isinstance(result, int) else 0


def _tell(error: Exception) -> tuple[int, list[str]]:
    """Give the exit code of an error, and the lines that say what is wrong and what to do."""
    if isinstance(error, CyberosError):
        return _code(error), [f"cyberos: {error}"] + ([f"  hint: {error.hint}"] if error.hint else [])
    if isinstance(error, OSError):
        return _tell_system(error)
    return UNEXPECTED, [
        f"cyberos: unexpected {type(error).__name__}; this is a fault of cyberos",
        f"  hint: report it with {_keep_trace(error)}",
    ]


def _code(error: CyberosError) -> int:
    if isinstance(error, VaultLocked):
        return LOCKED
    if isinstance(error, VaultNotFound):
        return USAGE
    return UNEXPECTED if isinstance(error, ContractError) and error.is_ours else FAILURE


def _tell_system(error: OSError) -> tuple[int, list[str]]:
    """Tell what the operating system refused: a folder that is gone, a file that may not be read, a full device."""
    place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    if isinstance(error, FileNotFoundError) and not place:
        hint = "  hint: change to one that is there, or name the vault with --store"
        return USAGE, ["cyberos: the current folder is gone", hint]
    hint = "  hint: see that it is there, that you may read it, and that the device has room"
    return FAILURE, [f"cyberos: {place}{error.strerror or error}", hint]


def _keep_trace(error: Exception) -> str:
    """Write the traceback to a file; give its name."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="cyberos-", suffix=".txt", delete=False, encoding="utf-8") as handle:
        versions = f"cyberos {__version__}, Python {sys.version.split()[0]}, {sys.platform}\n"
        # the arguments may hold a secret that the gate would have refused: only the places are kept
        handle.write(versions + "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__ + "\n")
    return handle.name
