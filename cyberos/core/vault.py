"""Making a vault.

`init` is idempotent: it adds what is missing, merges its lines into a user's files and never overwrites.

Source: DESIGN section 1.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cyberos.core import git, gitdir, layout, ledger
from cyberos.core.commit import Draft, build_rows, hash_of
from cyberos.core.errors import WriteFailed
from cyberos.core.files import Files
from cyberos.core.lock import lock
from cyberos.core.rows import is_known, parse_row
from cyberos.core.writer import ignore_private

ATTRIBUTES = (
    f"{layout.AUDIT}/** -text merge=union linguist-generated",
    f"{layout.MEMORIES}/** -text",
)
IGNORE = (f"/{layout.AUDIT}/",)


class Initialised(NamedTuple):
    """What `init` did. `vault` is the full id; `is_new` is false when the ledger was there already."""

    root: Path
    vault: str
    is_new: bool
    changed: list[str]
    warnings: list[str]


def init(folder: str | os.PathLike[str], actor: str = "agent", lock_wait_s: float = 10.0) -> Initialised:
    """Make `folder` a vault, or add what it lacks to be one. Raises: WriteFailed, VaultLocked."""
    root = Path(os.path.abspath(folder))
    try:
        root.mkdir(parents=True, exist_ok=True)
        files = Files(root)
        changed = _make_folders(files)
        with lock(str(root / layout.LOCK), lock_wait_s):
            vault, is_new, warnings = _begin_ledger(files, actor)
        changed += [name for name, lines in TEXTS.items() if _merge_lines(files, name, lines)]
        for made in (layout.PRIVATE, ""):
            files.sync_folder(made)
    except OSError as error:
        raise WriteFailed(str(error.filename or root), error.strerror or str(error)) from error
    warnings += [
        f"git ignores {name}/: take that line out of .gitignore, or the vault will not be committed"
        for name in (layout.AUDIT, layout.MEMORIES)
        if git.is_ignored(root, f"{name}/x")
    ]
    return Initialised(root, vault, is_new, changed, warnings)


TEXTS = {".gitattributes": ATTRIBUTES, ".ignore": IGNORE}


def _make_folders(files: Files) -> list[str]:
    changed = []
    for folder in (layout.AUDIT, layout.MEMORIES, layout.STAGE):
        if files.make_folder(folder):
            changed.append(f"{folder}/")
    keep = f"{layout.MEMORIES}/.gitkeep"
    if files.stat(keep) is None:
        files.create(keep, b"", sync=False)
    ignore_private(files)
    return changed


def _merge_lines(files: Files, name: str, lines: tuple[str, ...]) -> bool:
    """Add the lines that a user's file lacks; report whether any were added."""
    present = files.read(name) if files.stat(name) is not None else b""
    wanted = with_lines(present, lines)
    if wanted != present:
        files.overwrite(name, wanted, sync=True)
    return wanted != present


def with_lines(present: bytes, lines: tuple[str, ...]) -> bytes:
    """Give a user's text with those of the lines that it lacks at its end."""
    text = present.decode("utf-8", "surrogateescape")
    missing = [line for line in lines if line not in text.splitlines()]
    if missing:
        text += ("" if not text or text.endswith("\n") else "\n") + "\n".join(missing) + "\n"
    return text.encode("utf-8", "surrogateescape")


def _begin_ledger(files: Files, actor: str) -> tuple[str, bool, list[str]]:
    for row in ledger.scan(files.root).rows:
        if row["kind"] == "vault.created" and is_known(row):
            return row["payload"]["vault"], False, []
    vault, warnings = _vault_id(files.root)
    draft = Draft()
    draft.row("vault.created", {"vault": vault}, actor)
    line = build_rows(draft, {}, vault[:16], datetime.now(UTC))[0]
    segment = layout.segment_path(hash_of(line), parse_row(line)["ts"])
    day = segment.rsplit("/", 1)[0]
    changed = files.make_folder(day)
    files.append(segment, line + b"\n", 0, sync=True)
    for folder in (*changed, day):
        files.sync_folder(folder)
    return vault, True, warnings


def _vault_id(root: str) -> tuple[str, list[str]]:
    found = git.first_commit(root)
    if found is not None:
        return found, []
    why = "there is no git repository here" if gitdir.find(root) is None else "the repository has no first commit yet"
    if git.text(root, "rev-parse", "--is-shallow-repository") == "true":
        why = "the clone is shallow"
    return os.urandom(20).hex(), [
        f"{why}, so the vault's id is random: commit the vault before anybody else runs `init`"
    ]
