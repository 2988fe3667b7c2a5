"""The errors that callers may catch: comparable values, one class per cause, each with a `hint`.

The message is made in `__str__` from the attributes, so that a test compares the whole error and a caller never
parses text. `hint` is one line that says what to do. Plain classes: this module is on every start-up path, where
dataclasses would cost a millisecond each.
"""

from __future__ import annotations


class CyberosError(Exception):
    """Base of every error raised on purpose."""

    @property
    def hint(self) -> str | None:
        """What to do about it, in one line."""
        return None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(str(self))


class InvalidMemory(CyberosError, ValueError):
    """A memory breaks a rule. `rule` is an id of `memory.invariants.yaml`, `pointer` an RFC 6901 pointer."""

    def __init__(
        self,
        rule: str,
        message: str,
        *,
        path: str | None = None,
        pointer: str = "",
        line: int | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(rule, message)
        self.rule = rule
        self.message = message
        self.path = path
        self.pointer = pointer
        self.line = line
        self.advice = advice

    def __str__(self) -> str:
        where = (self.path or "") + (f":{self.line}" if self.line else "")
        return f"{where + ': ' if where else ''}{self.rule}: {self.message}"

    @property
    def hint(self) -> str | None:
        return self.advice


class UnsafePath(CyberosError, ValueError):
    """A path leaves the vault, is reserved, or passes a link."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path!r}: {self.reason}"

    @property
    def hint(self) -> str:
        return "a memory's path is memories/<kind>/<hh>/<hh>/<name>.md, relative to the vault, with no links on the way"


class EpisodeImmutable(CyberosError):
    """An episode was to be written again."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: an episode is never changed"

    @property
    def hint(self) -> str:
        return "log a new episode that says what was wrong with this one"


class MemoryChanged(CyberosError):
    """A memory to be replaced was edited by hand, so that replacing it would lose the edit."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: the file holds something that the ledger does not know"

    @property
    def hint(self) -> str:
        return f"keep the edit with `cyberos adopt {self.path}`, or take the file away, then put again"


class BrokenLedger(CyberosError):
    """The ledger is damaged where no crash could have damaged it, so nothing is appended to it."""

    def __init__(self, segment: str, line: int, rule: str, message: str) -> None:
        super().__init__(segment, line, rule, message)
        self.segment = segment
        self.line = line
        self.rule = rule
        self.message = message

    def __str__(self) -> str:
        return f"{self.segment}:{self.line}: {self.rule}: {self.message}"

    @property
    def hint(self) -> str:
        return "run `cyberos doctor` to see all of it; `git checkout HEAD -- audit` brings the committed ledger back"


class VaultLocked(CyberosError):
    """Another process held the vault's lock for longer than we may wait."""

    def __init__(self, path: str, waited_s: float, holder: str) -> None:
        super().__init__(path, waited_s, holder)
        self.path = path
        self.waited_s = waited_s
        self.holder = holder

    def __str__(self) -> str:
        return f"{self.path} is held by {self.holder}; waited {self.waited_s:g} s"

    @property
    def hint(self) -> str:
        return "try again when it has ended, or wait longer: CYBEROS_LOCK_WAIT=60"


class VaultNotFound(CyberosError):
    """No vault at `start`, nor above it unless it `is_named`. `elsewhere` says where git has one."""

    def __init__(self, start: str, elsewhere: str | None = None, *, is_named: bool = False) -> None:
        super().__init__(start, elsewhere)
        self.start = start
        self.elsewhere = elsewhere
        self.is_named = is_named

    def __str__(self) -> str:
        above = "" if self.is_named else " or above it"
        return f"no vault at {self.start}{above}" + (f", but {self.elsewhere}" if self.elsewhere else "")

    @property
    def hint(self) -> str:
        if self.elsewhere:
            return "check it out (`git checkout HEAD -- audit memories`, or switch the branch)"
        return "run `cyberos init` there to make one, or name one with --store"


class MemoryNotFound(CyberosError):
    """The ledger knows no such memory, or only that it was forgotten."""

    def __init__(self, path: str, reason: str = "no memory of this name") -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    @property
    def hint(self) -> str:
        return "`cyberos list` shows the paths, `cyberos history PATH` what became of one"


class SecretFound(CyberosError, ValueError):
    """A string that was to be written holds a known credential. The value is never kept here."""

    def __init__(self, secret: str, field: str, offset: int, place: str | None = None) -> None:
        super().__init__(secret, field, offset)
        self.secret = secret
        self.field = field
        self.offset = offset
        self.place = place

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        what = f"{self.field} holds what looks like a credential ({self.secret}) at character {self.offset}"
        return f"{place}secret-in-memory: {what}"

    @property
    def hint(self) -> str:
        return f"take it out, and revoke it if it was real; if it is none: --allow-secret {self.secret}"


class ContractError(CyberosError):
    """A law or settings file cannot be used; `is_ours` when cyberos itself brought it."""

    def __init__(self, source: str, message: str, *, is_ours: bool = False) -> None:
        super().__init__(source, message)
        self.source = source
        self.message = message
        self.is_ours = is_ours

    def __str__(self) -> str:
        return f"{self.source}: {self.message}"

    @property
    def hint(self) -> str:
        return "install cyberos again" if self.is_ours else "mend it"


class WriteFailed(CyberosError):
    """The operating system refused a write: disk full, read-only, no permission.

    Nothing was committed, unless it `is_undecided`: then rows were written that the disk let nobody take back.
    """

    def __init__(self, path: str, reason: str, *, is_undecided: bool = False) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason
        self.is_undecided = is_undecided

    def __str__(self) -> str:
        said = "it may have been logged" if self.is_undecided else "nothing was logged"
        return f"{self.path}: {self.reason}; {said}"

    @property
    def hint(self) -> str:
        if self.is_undecided:
            return (
                "make the vault writable, look with `cyberos list`, and run the same command again if it is not there"
            )
        return "free some space or make the vault writable, then run the same command again"
