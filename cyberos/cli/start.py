"""The first module of the command line: what a program waits for starts without click, which takes 40 ms to import.

Source: DESIGN section 9 (`mcp` and `hook` answer within a few times Python's own start).
"""

from __future__ import annotations

import sys


def entry() -> None:
    """Run the command line and exit."""
    if sys.argv[1:] == ["mcp"]:
        from cyberos.cli.stdio import serve

        sys.exit(serve())
    from cyberos.cli.main import main

    sys.exit(main())
