"""`cyberos doctor --fix` and `--diff`: what is put right, said in words or shown as a unified diff on stdout."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

from cyberos.cli import output
from cyberos.doctor import fixes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from cyberos.doctor.findings import Report
    from cyberos.doctor.fixes import Change


def show(root: str | os.PathLike[str], report: Report, *, whole: bool) -> None:
    """Print what `--fix` would change; nothing is written."""
    planned = fixes.plan(root, report, whole=whole)
    for change in planned.changes:
        for text in diff(change):
            output.line(text)
    _tell(planned, "would fix")
    if not planned.changes:
        output.note("nothing to fix")


def fix(root: str | os.PathLike[str], report: Report, *, whole: bool) -> None:
    """Put right what loses nothing, and say what was done. Raises: VaultLocked, WriteFailed."""
    done = fixes.mend(root, report, whole=whole)
    _tell(done, "fixed")
    if not done.changes:
        output.note("nothing was fixed")


def _tell(made: fixes.Mended, verb: str) -> None:
    for change in made.changes:
        output.note(_flat(f"{verb}: {change.path}: {change.what}"))
    for refusal in made.refusals:
        output.note(_flat(f"not fixed: {refusal}"))


def _flat(text: str) -> str:
    return text.replace("\n", "\\n")


def diff(change: Change) -> Iterator[str]:
    """Spell a change as a unified diff without line ends; nothing for what is derived."""
    if change.before is None and change.after is None:
        return
    path = _flat(change.path)
    old, new = (f"{side}/{path}" for side in "ab")
    old, new = (name if blob is not None else "/dev/null" for name, blob in ((old, change.before), (new, change.after)))
    yield from unified_diff(_lines(change.before), _lines(change.after), old, new, lineterm="")


def _lines(blob: bytes | None) -> list[str]:
    lines = (blob or b"").decode("utf-8", "replace").split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines
