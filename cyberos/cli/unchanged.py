"""`cyberos doctor` where nothing has changed: the answer it gave before, and without click where nothing is wrong.

Whatever is otherwise, an error included, is left to the command itself.

Source: DESIGN sections 5 and 13; ADR 0019.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from cyberos.core import discovery, repository
from cyberos.core.errors import CyberosError
from cyberos.doctor import asking, ci


def say(store: str | None) -> int | None:
    """Say what the last examination said, if it was of this very state and is to be said as text; give the exit code.

    None where the command is to be called.
    """
    if ci.runs_us() or sys.stderr is None:
        return None
    with suppress(CyberosError, OSError):  # the command comes upon it too, and says what it is
        return _say(discovery.find(store=store))
    return None


def _say(root: str) -> int | None:
    git = repository.open_at(root)
    if git is None:
        return None
    answer = asking.ask(git)
    # what takes as long to import as git to answer
    from cyberos.core import settings
    from cyberos.doctor import anchors, remembered
    from cyberos.doctor.formats import text

    verified, now = anchors.load_verified(git), answer()
    key = None if now is None else remembered.key(git, now, "auto", verified)
    report = None if key is None else remembered.load(root, key)
    if report is None or settings.load(root)["output_format"].value != "text":
        return None
    if report.findings:
        from cyberos.cli import reporting  # colours are click's

        reporting.say_text(report)
    else:
        for line in text.lines(report):
            print(line, file=sys.stderr)
    return 1 if report.count("error") else 0
