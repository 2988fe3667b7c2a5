"""`cyberos mcp`, from its first byte: the vault as an MCP server on standard input and output.

Click waits until a tool is called: a client shows its user no tools before the first answer is there.

Source: DESIGN section 9; modelcontextprotocol.io, specification 2025-11-25, basic/transports (stdio).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from cyberos.agents.mcp import Server
from cyberos.agents.tools import INSTRUCTIONS
from cyberos.cli.serving import tools
from cyberos.cli.version import __version__


def serve(store: str | None = None) -> int:
    """Serve until standard input ends. Whatever else prints on stdout goes to stderr: stdout is the protocol's."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    info = {"name": "cyberos", "title": "cyberos, the agent's memory", "version": __version__}
    with suppress(KeyboardInterrupt):
        Server(tools(store), info, INSTRUCTIONS, sys.stdin.buffer, sink).serve()
    with suppress(BrokenPipeError):
        sink.close()
    return 0
