"""What `doctor --fix` puts right: only what loses nothing.

    restore      bytes that differ from those of a live put row by their spelling alone become those bytes again
    recover      what a crash left: a torn tail goes to lost+found, a body that waits in the stage gets its place
    attributes   the lines in .gitattributes and .ignore that `init` writes
    head, index  derived: what is stale or damaged is dropped

A rule's `fix` in memory.invariants.yaml names the first two; the others need no finding. Each plans its changes first,
from what is on disk, and `--diff` shows that plan; under the writer's lock it is made again and carried out.

Source: DESIGN sections 4 and 5.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import contract, layout, ledger, recovery, state, vault
from cyberos.core.errors import CyberosError
from cyberos.core.files import Files
from cyberos.core.writer import Writer
from cyberos.doctor import spelling
from cyberos.index import sync

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from cyberos.core.ledger import Ledger
    from cyberos.doctor.findings import Finding, Report


class Change(NamedTuple):
    """What a fix does to one file: the bytes it had and shall have, None for no file; both None for what is derived."""

    path: str
    before: bytes | None
    after: bytes | None
    what: str


class Case(NamedTuple):
    """A vault to mend: its files, its ledger, and the findings that asked for the fix."""

    files: Files
    ledger: Ledger
    findings: list[Finding]


class Fix(NamedTuple):
    """One kind of repair: what it would change, and how that is done. `apply` is called under the lock."""

    plan: Callable[[Case], Iterable[Change]]
    apply: Callable[[Case, list[Change]], None]


class Mended(NamedTuple):
    """What was changed, or would be, and what could not be and why."""

    changes: list[Change]
    refusals: list[str]


def plan(root: str | os.PathLike[str], report: Report, *, whole: bool = True) -> Mended:
    """Say what `mend` would do; nothing is written and no lock is taken."""
    return _each(Files(str(root)), report, whole=whole, apply=False)


def mend(root: str | os.PathLike[str], report: Report, *, whole: bool = True) -> Mended:
    """Carry out the fixes that the findings ask for, and with `whole` those that need no finding.

    Raises: VaultLocked, WriteFailed.
    """
    with Writer(root).mending() as files:
        return _each(files, report, whole=whole, apply=True)


def _each(files: Files, report: Report, *, whole: bool, apply: bool) -> Mended:
    done = Mended([], [])
    for name, fix in FIXES.items():
        asked = [one for one in report.findings if name == _fix_of(one)]
        if not (asked or (whole and name in UNASKED)):
            continue
        case = Case(files, ledger.scan(files.root), asked)
        try:
            changes = list(fix.plan(case))
            if apply and changes:
                fix.apply(case, changes)
        except (OSError, CyberosError) as error:
            done.refusals.append(f"{name}: {getattr(error, 'strerror', None) or error}")
            continue
        done.changes.extend(changes)
    return done


def _fix_of(finding: Finding) -> str | None:
    rule = contract.rules().get(finding.rule)
    return rule.fix if rule is not None else None


# --- restore ----------------------------------------------------------------------------------------------------------


def _plan_restore(case: Case) -> Iterator[Change]:
    for path in dict.fromkeys(finding.path for finding in case.findings):
        memory = case.ledger.memories.get(path)
        status = case.files.stat(path) if memory is not None else None
        if memory is None or status is None or status.st_size > _MAX_BYTES:
            continue
        blob = case.files.read(path, _MAX_BYTES)
        digests = {row["payload"]["sha256"] for row in memory.puts}
        if sha256(blob).hexdigest() in digests:
            continue
        for guess in spelling.guesses(path, blob):
            if sha256(guess).hexdigest() in digests:
                yield Change(path, blob, guess, "spelled again as it was logged")
                break


_MAX_BYTES = 4 * layout.MAX_FILE_BYTES  # UTF-16 with CRLF takes up to so much more


def _restore(case: Case, changes: list[Change]) -> None:
    """Put the bytes in place through the stage; a body in it that was altered along with its file goes."""
    files = case.files
    files.make_folder(layout.STAGE)
    for change in changes:
        blob = change.after or b""
        digest = sha256(blob).hexdigest()
        for name in files.names(layout.STAGE):
            if name.startswith(digest) and files.read(f"{layout.STAGE}/{name}") == change.before:
                files.remove(f"{layout.STAGE}/{name}")
        entry = f"{layout.STAGE}/{digest}.restored"  # no name of a staged body: recovery takes it away
        files.remove(entry)
        files.create(entry, blob, sync=True)
        files.replace(entry, change.path)
        files.sync_folder(change.path.rsplit("/", 1)[0])


# --- recover ----------------------------------------------------------------------------------------------------------


def _plan_recover(case: Case) -> Iterator[Change]:
    torn = [segment for segment in case.ledger.segments if segment.is_torn]
    waiting = list(_waiting(case))
    if torn or waiting:
        recovery.refuse_damage(case.ledger)
    for segment in torn:
        blob = case.files.read(segment.path)
        what = f"an incomplete transaction cut off; it is kept in {layout.LOST}"
        yield Change(segment.path, blob, blob[: segment.whole_bytes] or None, what)
    yield from waiting


def _waiting(case: Case) -> Iterator[Change]:
    names = case.files.names(layout.STAGE)
    for path in dict.fromkeys(finding.path for finding in case.findings):
        memory = case.ledger.memories.get(path)
        for digest in (row["payload"]["sha256"] for row in (memory.puts if memory is not None else ())):
            for name in names:
                blob = case.files.read(f"{layout.STAGE}/{name}") if name.startswith(digest) else b""
                if sha256(blob).hexdigest() == digest:
                    before = case.files.read(path) if case.files.stat(path) is not None else None
                    yield Change(path, before, blob, "put in its place from the stage, where a crash left it")
                    break


def _recover(case: Case, _: list[Change]) -> None:
    recovery.recover(case.files, case.ledger, cuts_tracked=True)
    state.drop(case.files)


# --- what needs no finding --------------------------------------------------------------------------------------------


def _plan_attributes(case: Case) -> Iterator[Change]:
    for name, lines in vault.TEXTS.items():
        present = case.files.read(name) if case.files.stat(name) is not None else None
        wanted = vault.with_lines(present or b"", lines)
        if wanted != present:
            yield Change(name, present, wanted, "given the lines that `cyberos init` writes")


def _write_attributes(case: Case, changes: list[Change]) -> None:
    for change in changes:
        case.files.overwrite(change.path, change.after or b"", sync=True)


def _plan_head(case: Case) -> Iterator[Change]:
    if case.files.stat(layout.HEAD) is None:
        return
    known, now = state.load(case.files), state.of_ledger(case.ledger, {})
    if known is None or (known.heads, known.vaults) != (now.heads, now.vaults):
        yield Change(layout.HEAD, None, None, "dropped: it was stale, and is derived")


def _drop_head(case: Case, _: list[Change]) -> None:
    state.drop(case.files)


def _plan_index(case: Case) -> Iterator[Change]:
    damage = sync.damage(case.files.root)
    if damage is not None:
        yield Change(layout.INDEX, None, None, f"dropped: {damage}; the next recall makes it again")


def _drop_index(case: Case, _: list[Change]) -> None:
    sync.discard(case.files.root)


FIXES = {
    "restore": Fix(_plan_restore, _restore),
    "recover": Fix(_plan_recover, _recover),
    "attributes": Fix(_plan_attributes, _write_attributes),
    "head": Fix(_plan_head, _drop_head),
    "index": Fix(_plan_index, _drop_index),
}
UNASKED = ("attributes", "head", "index")
