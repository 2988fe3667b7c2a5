"""The first module of the command line: what a program waits for starts without click, which takes 40 ms to import.

Source: DESIGN section 9 (`mcp` and `hook` answer within a few times Python's own start).
"""

from __future__ import annotations

import gc
import sys

_GARBAGE = 100_000  # objects more than before, until garbage is looked for


def entry() -> None:
    """Run the command line and exit.

    A command makes little garbage and lives short: looking for it is left until there is much, and at the exit undone.
    That is a fifth of what a cold recall takes. The server lives long, and keeps Python's own ways.
    """
    arguments = sys.argv[1:]
    store = arguments[1] if arguments[:1] == ["--store"] and len(arguments) > 1 else None
    rest = arguments if store is None else arguments[2:]
    if rest == ["mcp"]:
        from cyberos.cli.stdio import serve

        sys.exit(serve(store))
    gc.set_threshold(_GARBAGE)
    if rest[:1] == ["hook"] and not {"-h", "--help"} & set(rest):
        from cyberos.cli.hook import run

        sys.exit(run(store, rest[1:]))
    if rest == ["doctor"]:
        from cyberos.cli.unchanged import say

        if (told := say(store)) is not None:
            sys.exit(told)
    from cyberos.cli.main import main

    code = main()
    gc.freeze()
    sys.exit(code)
