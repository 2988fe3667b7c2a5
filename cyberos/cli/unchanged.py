"""`cyberos doctor` where nothing has changed and nothing is wrong: the answer it gave before, without click.

Whatever is otherwise, an error included, is left to the command itself.

Source: DESIGN sections 5 and 13.
"""

from __future__ import annotations

import sys

from cyberos.core import discovery, repository
from cyberos.core.errors import CyberosError
from cyberos.doctor import asking, ci


def say(store: str | None) -> bool:
    """Say what the last examination said, if it was of this very state, found nothing, and is to be said as text."""
    if ci.runs_us() or sys.stderr is None:
        return False
    try:
        root = discovery.find(store=store)
    except CyberosError:
        return False
    git = repository.open_at(root)
    if git is None:
        return False
    answer = asking.ask(git)
    # what takes as long to import as git to answer
    from cyberos.core import settings
    from cyberos.doctor import anchors, remembered
    from cyberos.doctor.formats import text

    try:
        form = settings.load(root)["output_format"].value
    except (CyberosError, OSError):
        form = None
    verified, now = anchors.load_verified(git), answer()
    key = None if now is None else remembered.key(git, now, "auto", verified)
    report = None if key is None else remembered.load(root, key)
    if form != "text" or report is None or report.findings:
        return False
    for line in text.lines(report):
        print(line, file=sys.stderr)
    return True
