"""A run while its transcript is being read: calls wait for their results, counters for their last value.

Source: DESIGN section 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyberos.record import tools
from cyberos.record.loose import count, mapping
from cyberos.record.transcript import ASSISTANT, CLIP, USER, Command, Edit, Run, Stop, Turn, clip

if TYPE_CHECKING:
    from cyberos.record.tools import Result

_OUTPUT = 4_000  # characters kept of what a command printed
_ROOM = 16_000_000  # characters kept of all that was said and printed in one run; what comes later is kept short
_SHORT = 400


class Draft:
    """One run in the making."""

    def __init__(self, session: str = "") -> None:
        self.run = Run(session)
        self._calls: dict[str, Command | Edit] = {}
        self._spent: dict[str, dict[str, int]] = {}
        self._meter, self._before = 0, 0
        self.is_metered = False
        self._room = _ROOM

    def tick(self, at_ms: int | None, *, is_human: bool = False) -> None:
        """Note that something was written down at this time."""
        if at_ms is not None:
            self.run.ticks.append(2 * at_ms + is_human)

    def say(self, role: str, text: str, at_ms: int | None, line: int) -> None:
        """Add what was said; a text that the same one has just said is a double of the format."""
        text = self._kept(text.strip(), CLIP)
        if not text:
            return
        if role in (USER, ASSISTANT):
            said = next((step for step in reversed(self.run.steps) if isinstance(step, Turn)), None)
            if said is not None and (said.role, said.text) == (role, text) and self.run.steps[-1] is said:
                return
        self.run.steps.append(Turn(role, text, at_ms, line))
        self.tick(at_ms, is_human=role == USER)

    def stop(self, kind: str, text: str, at_ms: int | None, line: int) -> None:
        """Add how the agent's program says that the turn ended."""
        self.run.steps.append(Stop(kind, clip(text.strip(), 500), at_ms, line))

    def call(self, key: str, name: str, given: Any, at_ms: int | None, line: int) -> None:
        """Add what a tool is asked to do, if it runs a command or changes a file; a call made twice counts once."""
        if key and key in self._calls:
            return
        for step in tools.steps(name, given, at_ms, line):
            self.run.steps.append(step)
            if key:
                self._calls[key] = step

    def add(self, step: Command | Edit, key: str = "") -> None:
        """Add a step whose result may come under this key."""
        self.run.steps.append(step)
        if key:
            self._calls[key] = step

    def forget(self, key: str) -> None:
        """Let a key be used again."""
        self._calls.pop(key, None)

    def called(self, key: str) -> Command | Edit | None:
        """Give what was called under this key."""
        return self._calls.get(key)

    def result(self, key: str, result: Result) -> None:
        """Note what came of a call; an edit that failed was none."""
        step = self._calls.get(key)
        if isinstance(step, Command):
            step.exit_code, step.state = result.exit_code, result.state
            step.output = self._kept(result.output, _OUTPUT)
        elif step is not None and result.state in ("failed", "refused"):
            self.run.steps = [other for other in self.run.steps if other is not step]

    def _kept(self, text: str, limit: int) -> str:
        text = clip(text, limit if self._room > 0 else _SHORT)
        self._room -= len(text)
        return text

    def spend(self, key: str, usage: Any, *names: str) -> None:
        """Note the tokens of one message, the largest of each name where the message is written several times."""
        kept = self._spent.setdefault(key, {})
        for name in names:
            kept[name] = max(kept.get(name, 0), count(mapping(usage).get(name)))
        self.is_metered = True

    def meter(self, total: int) -> None:
        """Note a counter of tokens that goes up; where it falls it began anew."""
        if total < self._meter:
            self._before += self._meter
        self._meter = total
        self.is_metered = True

    def finish(self) -> Run:
        """Give the run, its steps in the order of time."""
        run = self.run
        if self.is_metered:
            spent = sum(sum(usage.values()) for usage in self._spent.values())
            run.tokens = spent + self._before + self._meter
        reached, placed = 0, []
        for step in run.steps:
            reached = step.at_ms if step.at_ms is not None else reached
            placed.append((reached, step))
        placed.sort(key=lambda each: each[0])  # stable: what has the same time stays as it was written
        run.steps = [step for _, step in placed]
        return run
