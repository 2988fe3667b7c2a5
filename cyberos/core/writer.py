"""The canonical writer: the only code that changes a vault's memories and ledger.

    lock -> recover -> validate -> secret check
    1  each body -> .cyberos/stage/<sha256>-<n>, fsync; the stage folder, fsync
    2  all rows of the transaction in one write to the open segment, fsync            <- the commit point
    3  link each body to its place, unsynced                                          -> acknowledged
    later: when more than 32 stage entries wait, sync their places, then drop the entries

A put of an episode writes its `episode.logged` row in the same transaction, whoever calls it.

Source: DESIGN section 4; TASK-MEMORY-112 section 1, clauses 2 and 3 (writer) and 3 (audit rows).
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyberos.core import admission, layout, ledger, recovery, settings, state
from cyberos.core.commit import Draft, commit
from cyberos.core.errors import InvalidMemory, MemoryNotFound, VaultNotFound, WriteFailed
from cyberos.core.files import Files
from cyberos.core.lock import lock
from cyberos.core.rows import PAYLOADS, PUTS, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cyberos.core.ledger import Memory
    from cyberos.core.state import State


class Writer:
    """Writes to the vault at `root`.

    `durability` is full (every commit is synced), batch (only those of several memories) or none; `lock_wait_s` is
    in seconds; both come from the vault's settings unless given. `allow_secrets` names kinds of credentials that may
    be written; each use is recorded as a row. `notes` collects what the caller should be told after a commit.

    Raises: VaultNotFound when `root` holds no vault.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durability: str | None = None,
        lock_wait_s: float | None = None,
        allow_secrets: tuple[str, ...] = (),
        on_wait: Callable[[str], None] | None = None,
    ) -> None:
        self.path = Path(os.path.abspath(root))
        self._files = Files(self.path)
        values = settings.load(self.path)
        self._durability = durability or values["durability"].value
        self._lock_wait_s = values["lock_wait"].value if lock_wait_s is None else lock_wait_s
        self.allow_secrets = allow_secrets
        self._on_wait = on_wait
        self._local = threading.local()
        self.notes: list[str] = []
        if not all((self.path / name).is_dir() for name in (layout.AUDIT, layout.MEMORIES)):
            raise VaultNotFound(str(self.path))

    def head_seq(self) -> int:
        """Give the largest seq of the ledger; 0 when it is empty."""
        known = state.load(self._files)
        return known.head_seq if known is not None else ledger.scan(self.path).head_seq

    def read_audit_row(self, seq: int) -> Row:
        """Give the row of this seq, of the lowest hash where branches have several. Raises: KeyError."""
        row = ledger.scan(self.path).row(seq)
        if row is None:
            raise KeyError(seq)
        return row

    def put(self, path: str | Path, body: str, actor: str = "agent", *, is_drawn: bool = False) -> Path:
        """Write a memory's whole text; give its path relative to the vault.

        `is_drawn` says that the name of an episode was drawn at random just now, so that the disk alone is asked
        whether it is taken; any other episode's path is looked up in the whole ledger.

        Raises: UnsafePath, InvalidMemory, EpisodeImmutable, MemoryChanged, SecretFound, VaultLocked, BrokenLedger,
        WriteFailed.
        """
        name = _name(path)
        memory = admission.admit(name, body)
        with self.transaction():
            admission.check_place(self._files, name, self._pending, self._memory, is_drawn=is_drawn)
            allowed = admission.check_secrets(memory, actor, self.allow_secrets)
            self._pending.put(memory, actor, allowed)
        return Path(name)

    def emit_aux(self, kind: str, payload: dict[str, Any], actor: str = "agent") -> None:
        """Append a row of a kind that is not the writer's own, such as `consolidation.published`.

        Raises: InvalidMemory (ledger-row-parse) for the writer's own kinds and for what no row can hold.
        """
        if kind in PAYLOADS:
            raise InvalidMemory("ledger-row-parse", f"only the writer itself writes {kind} rows")
        admission.check_actor(actor)
        admission.check_payload(kind, payload)
        with self.transaction():
            self._pending.row(kind, payload, actor)

    def adopt(self, path: str | Path, actor: str = "agent") -> bool:
        """Log a memory that stands in the vault as it is; report whether it was not logged so before.

        Raises: EpisodeImmutable for an episode, MemoryNotFound, UnsafePath, InvalidMemory, SecretFound.
        """
        name = _name(path)
        with self.transaction():
            memory = admission.admit_file(self._files, name)
            allowed = admission.check_secrets(memory, actor, self.allow_secrets)
            known = self._memory(name)
            if known is not None and any(row["payload"]["sha256"] == memory.digest for row in known.puts):
                return False
            self._pending.adopt(memory, actor, allowed)
        return True

    def forget(self, path: str | Path, reason: str, actor: str = "agent") -> None:
        """Take a memory's body away and record that; the ledger still verifies.

        Raises: MemoryNotFound, SecretFound for the reason, VaultLocked, BrokenLedger, WriteFailed.
        """
        with self._marking(path, reason, actor) as memory:
            if memory.is_forgotten and self._files.stat(memory.path) is None:
                raise MemoryNotFound(memory.path, "it was forgotten already")
            digests = {row["payload"]["sha256"] for row in memory.events if row["kind"] in PUTS}
            self._pending.forget(memory.path, digests, reason, actor)

    def quarantine(self, path: str | Path, reason: str, actor: str = "agent") -> None:
        """Hide a memory from recall by a row; its file stays. Raises: as `forget`."""
        with self._marking(path, reason, actor) as memory:
            self._pending.row("memory.quarantined", {"path": memory.path, "reason": reason}, actor)

    def release(self, path: str | Path, reason: str, actor: str = "agent") -> None:
        """Let recall find a quarantined memory again, by a row. Raises: as `forget`."""
        with self._marking(path, reason, actor) as memory:
            if not memory.is_quarantined:
                raise MemoryNotFound(memory.path, "it is not quarantined")
            self._pending.row("memory.released", {"path": memory.path, "reason": reason}, actor)

    def tell_redacted(self, path: str, secret: str, field: str, actor: str = "agent") -> None:
        """Record that a credential of this kind was replaced in a field of a memory before it was put."""
        with self.transaction():
            self._pending.row("secret.redacted", {"path": path, "secret": secret, "field": field}, actor)

    @contextmanager
    def _marking(self, path: str | Path, reason: str, actor: str) -> Iterator[Memory]:
        name = _name(path)
        admission.check_actor(actor)
        admission.check_text(reason, "reason")
        with self.transaction():
            memory = self._memory(name)
            if memory is None:
                raise MemoryNotFound(name)
            yield memory

    def acknowledge_gap(self, reason: str, actor: str = "agent") -> list[str]:
        """Record that the missing parents are known to be gone; give their hashes (none: nothing is written)."""
        admission.check_actor(actor)
        admission.check_text(reason, "reason")
        with self.transaction():
            missing = sorted(ledger.scan(self.path).missing)
            if missing:
                self._pending.row("gap.acknowledged", {"missing": missing[:400], "reason": reason}, actor)
        return missing[:400]

    def adopt_vault(self, vault: str, actor: str = "agent") -> None:
        """Accept the rows of another vault, by its id. Raises: InvalidMemory (ledger-row-parse)."""
        admission.check_actor(actor)
        admission.check_payload("vault.adopted", {"vault": vault})
        with self.transaction():
            self._pending.row("vault.adopted", {"vault": vault}, actor)

    @contextmanager
    def transaction(self) -> Iterator[Writer]:
        """Commit all that is put inside at once, or, when an error leaves the block, nothing. Nested blocks join.

        Raises: VaultLocked, BrokenLedger, WriteFailed.
        """
        if self._draft is not None:
            yield self
            return
        with ExitStack() as held:
            with _write_errors(self.path):
                self._prepare()
                held.enter_context(lock(str(self.path / layout.LOCK), self._lock_wait_s, self._on_wait))
                current = self._current_state()
            draft = self._local.draft = Draft()
            try:
                yield self
            finally:
                self._local.draft = None
            if draft.rows:
                files = Files(self.path)  # of this commit alone: other threads look through ours
                with _write_errors(self.path), files.keeping_open():
                    self.notes += commit(files, draft, current, self._durability)

    @contextmanager
    def mending(self) -> Iterator[Files]:
        """Hold the lock and give the vault's files, for repairs that write no row and log nothing.

        Nothing is recovered before: that is one of the repairs. Raises: VaultLocked, WriteFailed.
        """
        with _write_errors(self.path):
            self._prepare()
            with lock(str(self.path / layout.LOCK), self._lock_wait_s, self._on_wait):
                yield self._files

    @property
    def _draft(self) -> Draft | None:
        return getattr(self._local, "draft", None)

    @property
    def _pending(self) -> Draft:
        if self._draft is None:
            raise RuntimeError("no transaction is open")
        return self._draft

    def _prepare(self) -> None:
        made = self._files.make_folder(layout.STAGE)
        if layout.PRIVATE in made:
            ignore_private(self._files)
        if self._durability != "none":
            for folder in made:
                self._files.sync_folder(folder)

    def _current_state(self) -> State:
        known = state.load(self._files)
        if known is not None:
            return known
        times = ledger.folder_times(self.path)  # taken first: what git changes from here on will be seen
        found = ledger.scan(self.path)
        recovery.recover(self._files, found)
        if not found.vaults:
            from cyberos.core import git

            raise VaultNotFound(str(self.path), git.vault_elsewhere(self.path), is_named=True)
        return state.of_ledger(found, times)

    def _memory(self, path: str) -> Memory | None:
        draft = self._pending
        if draft.ledger is None:  # under the lock nobody else appends
            draft.ledger = ledger.scan(self.path)
            recovery.refuse_damage(draft.ledger)  # what cannot be read is not what is not there
        return draft.ledger.memories.get(path)


def _name(path: str | Path) -> str:
    return layout.check_memory_path(path.as_posix() if isinstance(path, Path) else path)


def ignore_private(files: Files) -> None:
    """Keep git away from `.cyberos/`: the folder ignores itself."""
    files.overwrite(f"{layout.PRIVATE}/.gitignore", b"*\n")


@contextmanager
def _write_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteFailed(str(error.filename or root), error.strerror or str(error)) from error
