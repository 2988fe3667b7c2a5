"""`make prove`: every promise at full scale, with its figure; exit 1 on any miss.

PYTHONPATH=tests python -m prove [--scale 1.0] [WORD…]     only rows whose name or promise holds a WORD
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback

from prove.table import Row, Skipped, folder, rows


def walls(home: str) -> None:
    """Give every process an empty home and a git that knows nobody's configuration."""
    for name in list(os.environ):
        if name == "CI" or name.startswith(("CYBEROS_", "GIT_", "XDG_")):
            del os.environ[name]
    os.environ |= {"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{who}_NAME": "Ada", f"GIT_{who}_EMAIL": "ada@example.org"}


def outcome(row: Row, scale: float) -> tuple[str, str]:
    """Run a row; give `kept`, `MISSED` or `skipped`, and its figure."""
    try:
        figure, is_kept = row.run(scale)
    except Skipped as reason:
        return "skipped", str(reason)
    except Exception as error:  # noqa: BLE001 - the rows after it are to be seen too
        traceback.print_exc()
        return "MISSED", f"{type(error).__name__}: {error}".splitlines()[0]
    return "kept" if is_kept else "MISSED", figure


def main() -> int:
    parser = argparse.ArgumentParser(prog="prove", description="Show every promise kept, with figures.")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full run, up to 1.0")
    asked = parser.parse_args()
    chosen = [
        row
        for row in rows()
        if not asked.words
        or any(word in f"{row.run.__module__}.{row.run.__name__} {row.promise}" for word in asked.words)
    ]
    if not chosen:
        parser.error("no promise is named so")
    missed = 0
    with folder() as home:
        walls(str(home))
        print("| promise | figure | kept | s |\n|---|---|---|---|", flush=True)
        for row in chosen:
            began = time.monotonic()
            word, figure = outcome(row, asked.scale)
            missed += word == "MISSED"
            print(f"| {row.promise} | {figure} | {word} | {time.monotonic() - began:.0f} |", flush=True)
    print(f"{missed} of {len(chosen)} promises missed" if missed else f"{len(chosen)} promises, none missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
