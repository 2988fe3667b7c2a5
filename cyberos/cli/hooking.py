"""`cyberos hook` for whoever reads its help; `cli.start` answers the hooks themselves without click."""

from __future__ import annotations

import click

from cyberos.agents.hooks import EVENTS


@click.command(
    epilog="""\b
Examples:
  echo '{"session_id": "s1", "prompt": "fix the flaky login test"}' | cyberos hook prompt
  cyberos init --agent claude-code    (adds the hooks that call this)"""
)
@click.argument("event", metavar="|".join(EVENTS))
@click.option("--agent", default="claude-code", help="Whose form the answer has.")
@click.option("--plugin", is_flag=True, help="Say nothing where the repository's own settings have the hook.")
@click.pass_context
def hook(ctx: click.Context, event: str, agent: str, *, plugin: bool) -> int:
    """Answer a hook of an agent: its JSON on stdin, JSON or nothing on stdout.

    session-start tells what failed lately and how to log; prompt recalls similar episodes; stop reminds once to log;
    pre-compact records the transcript. Whatever happens, the exit code is 0 within a second.
    """
    from cyberos.cli.hook import run

    return run(ctx.find_root().obj, [event, "--agent", agent, *(["--plugin"] if plugin else [])])
