"""`cyberos mcp`: the vault as an MCP server. The bare verb is served by `cli.start`, without click and this module."""

from __future__ import annotations

import click


@click.command(
    epilog="""\b
Examples:
  cyberos mcp
  claude mcp add cyberos -- cyberos mcp
  echo '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' | cyberos mcp"""
)
@click.pass_context
def mcp(ctx: click.Context) -> int:
    """Serve the vault to an agent over the Model Context Protocol, on standard input and output.

    An agent starts this by itself; the tools are log_episode, recall_similar, search, read_memory and doctor. The
    vault is the one of the folder that it is started in, unless --store or CYBEROS_STORE names one.
    """
    from cyberos.cli.stdio import serve

    return serve(ctx.find_root().obj)
