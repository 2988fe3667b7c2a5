"""`cyberos init`: a vault, and the agents that use it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import output
from cyberos.core import vault

if TYPE_CHECKING:
    from cyberos.core.vault import Initialised


@click.command(
    epilog="""\b
Examples:
  cd my-project && cyberos init && git add . && git commit -m "begin a vault"
  cyberos init --agent claude-code
  cyberos init --agent all --check"""
)
@click.argument("folder", required=False)
@click.option("--agent", metavar="NAME", help="claude-code | codex | gemini | cursor | copilot | opencode | all")
@click.option("--check", is_flag=True, help="With --agent: only look; exit 1 when something is missing or stale.")
@click.option("--remove", is_flag=True, help="With --agent: take out again what was added.")
@click.option("--print", "show", is_flag=True, help="With --agent: only show what would be added.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def init(ctx: click.Context, /, folder: str | None, *, as_json: bool, **options: Any) -> int:
    """Make FOLDER (default: here) a vault, or add what it lacks.

    Safe to repeat: lines are merged into .gitattributes and .ignore, nothing is overwritten. With --agent, that
    agent's settings, hooks, MCP server, skill and instructions are merged into the repository's files too, and the
    default is the vault that this folder is in, else the top of its repository.
    """
    agent, modes = options["agent"], [name for name in ("check", "remove", "show") if options[name]]
    if modes and (agent is None or len(modes) > 1):
        raise click.UsageError("--check, --remove and --print go with --agent NAME, one at a time.")
    if agent is None:
        made = vault.init(folder or ctx.find_root().obj or os.getcwd())
        output.document(_as_document(made)) if as_json else _tell(made)
        return 0
    from cyberos.cli import setup

    clients = setup.chosen(agent)
    place = folder or ctx.find_root().obj or setup.nearest()
    if modes:
        return setup.MODES[modes[0]](place, clients, as_json=as_json)
    made = vault.init(place)
    if not as_json:
        _tell(made)
    agents = setup.install(made.root, clients, is_quiet=as_json)
    if as_json:
        output.document(_as_document(made) | {"agents": agents})
    return 0


def _as_document(made: Initialised) -> dict[str, Any]:
    return {"root": str(made.root), "vault": made.vault, "new": made.is_new, "changed": made.changed}


def _tell(made: Initialised) -> None:
    for text in made.warnings:
        output.note(f"warning: {text}")
    verb = "made a vault" if made.is_new else "the vault is there already"
    output.line(f"{verb}: {made.root} (id {made.vault[:16]})")
    if made.changed:
        output.line(f"  wrote {', '.join(made.changed)}")
