"""An episode: one completed task, what was tried, and how it really went. It is written once and never changed.

    memories/episodes/d4/12/d4127a3b-1f2c3d.md

    ---
    { "approach": …, "duration_ms": …, "kind": "episode", "outcome": …, "task": … }
    ---

    Task: …
    Approach: …
    Outcome: …
    Notes: …

What a field may hold stands in memory.schema.json alone; construction asks it.

Source: TASK-MEMORY-112 sections 1 and 3; DESIGN section 2.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from cyberos.core import contract, frontmatter, layout, text
from cyberos.core.errors import EpisodeImmutable, InvalidMemory

if TYPE_CHECKING:
    from pathlib import Path

_RANDOM_HEX = 6
_SHORT_TRIES = 16
_LONG_HEX = 16
# left out of the file when they hold this
_DEFAULTS = {"evidence": "none", "ended": "completed", "scope": "default", "notes": "", "lesson": "", "tags": ()}


class Puts(Protocol):
    """What `log` needs of a Writer."""

    def put(self, path: str | Path, body: str, actor: str = "agent", *, is_drawn: bool = False) -> Path: ...


@dataclass(frozen=True)
class Episode:
    """The record of one task. Durations are in milliseconds, `quality_score` is in [0, 1]; None means unknown.

    Raises: InvalidMemory (a ValueError) naming the rule and the field.
    """

    task: str
    approach: str
    outcome: str
    duration_ms: int
    token_cost: int | None = None
    quality_score: float | None = None
    notes: str = ""
    error: str | None = None
    lesson: str = ""
    evidence: str = "none"
    evidence_ref: str | None = None
    ended: str = "completed"
    scope: str = "default"
    tags: tuple[str, ...] | list[str] = ()
    commit: str | None = None
    transcript_ref: str | None = None
    occurred_at: str | None = None

    def __post_init__(self) -> None:
        values = vars(self)  # the one moment at which a frozen episode is still being made
        for name in FIELDS:
            values[name] = _clean(name, values[name])
        contract.check(self.frontmatter())
        values["_text"] = frontmatter.serialise(self.frontmatter(), self.searchable_document())

    def searchable_document(self) -> str:
        """Give the text that is indexed, embedded, and written as the body."""
        document = f"Task: {self.task}\nApproach: {self.approach}\nOutcome: {self.outcome}\nNotes: {self.notes}"
        return f"{document}\nLesson: {self.lesson}" if self.lesson else document

    def frontmatter(self) -> dict[str, Any]:
        """Give the fields as they stand in the file: without those that are absent, empty or at their default."""
        found: dict[str, Any] = {"kind": layout.EPISODE}
        for name in FIELDS:
            value = getattr(self, name)
            if value is not None and value != _DEFAULTS.get(name):
                found[name] = list(value) if isinstance(value, tuple) else value
        return found

    def render(self) -> str:
        """Give the whole file."""
        return str(vars(self)["_text"])

    @classmethod
    def from_frontmatter(cls, values: dict[str, Any]) -> Episode:
        """Build an episode from a file's frontmatter; keys that no episode has are refused by name.

        Raises: InvalidMemory.
        """
        given = {key: value for key, value in values.items() if key != "kind"}
        for key in given:
            if key not in FIELDS:
                raise unknown_field(key)
        if values.get("kind", layout.EPISODE) != layout.EPISODE:
            message = f"kind is {values['kind']!r}; an episode's kind is 'episode'"
            raise InvalidMemory("memory-kind-closed-enum", message, pointer="/kind")
        for key in ("task", "approach", "outcome", "duration_ms"):
            if key not in given:
                rule = "episode-frontmatter-required-field"
                raise InvalidMemory(rule, f"{key} is missing", pointer=f"/{key}", advice="give the field")
        return cls(**given)


FIELDS = tuple(field.name for field in fields(Episode))


def unknown_field(key: str) -> InvalidMemory:
    """Say that an episode has no such field, naming the nearest one that it has."""
    from difflib import get_close_matches

    near = get_close_matches(key, FIELDS, n=1, cutoff=0.6)
    advice = f"did you mean {near[0]!r}?" if near else f"an episode has {', '.join(FIELDS)}"
    return InvalidMemory("episode-unknown-key", f"no episode has a field {key!r}", pointer=f"/{key}", advice=advice)


def body_of(values: dict[str, Any]) -> str:
    """Give the searchable document for the values of a valid episode's frontmatter, without building the episode."""
    get = values.get
    document = f"Task: {get('task', '')}\nApproach: {get('approach', '')}\nOutcome: {get('outcome', '')}"
    document = f"{document}\nNotes: {get('notes', '')}"
    return f"{document}\nLesson: {values['lesson']}" if values.get("lesson") else document


def log(writer: Puts, episode: Episode, actor: str = "agent") -> Path:
    """Append an episode to the vault: its file, its `put` row and its `episode.logged` row, all or none.

    Gives the path relative to the vault. Thousands of episodes may share one task: a taken name is drawn again, and
    longer after sixteen.

    Raises: SecretFound, VaultLocked, WriteFailed, BrokenLedger.
    """
    stem, body = layout.episode_stem(episode.task), episode.render()
    for attempt in range(1_000):
        digits = _RANDOM_HEX if attempt < _SHORT_TRIES else _LONG_HEX
        path = f"{stem}{os.urandom(digits // 2).hex()}.md"
        try:
            return writer.put(path, body, actor=actor, is_drawn=True)
        except EpisodeImmutable:
            continue
    raise EpisodeImmutable(stem)


def _clean(name: str, value: Any) -> Any:
    if isinstance(value, str):
        value = text.clean(value)
        text.check(value, name)
        if name == "occurred_at":
            return _as_utc(value)
        return None if value == "" and name in ("error", "evidence_ref", "commit", "transcript_ref") else value
    if name == "quality_score" and type(value) is int:
        return float(value)
    if name == "tags" and isinstance(value, list | tuple):
        return tuple(_clean(f"tags/{number}", item) for number, item in enumerate(value))
    if value is None and name in _DEFAULTS:
        return _DEFAULTS[name]
    return value


def _as_utc(value: str) -> str:
    """Write a time with an offset as UTC; what is no time is left for the contract to refuse."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    if moment.tzinfo is None or value.endswith("Z"):
        return value
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
