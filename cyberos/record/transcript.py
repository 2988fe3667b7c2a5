"""What every transcript is read into: runs, each a list of steps in the order in which they began.

    Turn(role="user", text="Fix the login test", at_ms=1764522000000, line=3)
    Command(text="pytest -q", exit_code=1, output="1 failed", at_ms=…, line=7)
    Edit(path="src/login.py", at_ms=…, line=9)
    Stop(kind="interrupted", text="[Request interrupted by user]", at_ms=…, line=11)

`at_ms` is in milliseconds since 1970, UTC; None where the format keeps no time. `line` counts from 1: the line of a
file of lines, the number of the message or step in a file that is one JSON document. Texts are clipped in the middle,
so that a run of any length fits in memory.

Source: DESIGN section 7.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

CLIP = 6_000  # characters kept of one text
_CUT = "\n[…]\n"

USER, ASSISTANT, TOOL, VERIFIER = "user", "assistant", "tool", "verifier"


@dataclass(slots=True)
class Turn:
    """What was said, by `user`, `assistant`, `tool` (a command and what came of it) or `verifier` (a hook)."""

    role: str
    text: str
    at_ms: int | None = None
    line: int = 0


@dataclass(slots=True)
class Command:
    """A command line that was run.

    `exit_code` is None where the transcript has none. `state` is `done`, `failed` (an error without an exit code),
    `running` (no result was written), `background`, `interrupted` (a time-out too) or `refused` (it never ran).
    """

    text: str
    exit_code: int | None = None
    output: str = ""
    at_ms: int | None = None
    line: int = 0
    state: str = "running"


@dataclass(slots=True)
class Edit:
    """A file that a tool changed, or may have changed; the shell's edits stand in its commands."""

    path: str
    at_ms: int | None = None
    line: int = 0


@dataclass(slots=True)
class Stop:
    """The end of a turn as the agent's own program tells it.

    `kind` is `interrupted` (by the user), `failed`, `limit` (turns, cost or context used up), `claimed` (the agent
    handed its work in), `resolved` or `unresolved` (tests that the agent did not run itself), `accepted` or `rejected`
    (a judge's word).
    """

    kind: str
    text: str
    at_ms: int | None = None
    line: int = 0


Step = Turn | Command | Edit | Stop


@dataclass
class Run:
    """One run of an agent. `tokens` and `duration_ms` are None when unknown; cache reads are no tokens spent.

    `ticks` holds twice the time of every record that has one, plus 1 for a human turn, in no order.
    `is_cut` says that the last step is the turn that begins the next part.
    """

    session: str = ""
    steps: list[Step] = field(default_factory=list)
    tokens: int | None = None
    stated_ms: int | None = None
    ticks: array[int] = field(default_factory=lambda: array("q"))
    is_cut: bool = False

    @property
    def turns(self) -> list[Turn]:
        """Give what was said and done, in order; a command is a turn of the role `tool`."""
        return [turn for step in self.steps if (turn := _as_turn(step)) is not None]

    @property
    def commands(self) -> list[Command]:
        """Give the commands, in order."""
        return [step for step in self.steps if isinstance(step, Command)]

    @property
    def edits(self) -> list[Edit]:
        """Give the edits, in order."""
        return [step for step in self.steps if isinstance(step, Edit)]


@dataclass
class Transcript:
    """All that was read of a file: its format, its runs, and what could not be read (`line 7: not JSON`).

    `asked` is the user's last turn before the part that was read, where that is not the whole.
    """

    format: str
    runs: list[Run]
    skipped: list[str] = field(default_factory=list)
    asked: str = ""


def _as_turn(step: Step) -> Turn | None:
    if isinstance(step, Turn):
        return step
    if isinstance(step, Command):
        end = step.state if step.exit_code is None else f"exit {step.exit_code}"
        return Turn(TOOL, f"$ {step.text}\n{step.output}\n[{end}]", step.at_ms, step.line)
    if isinstance(step, Edit):
        return Turn(TOOL, f"[edited {step.path}]", step.at_ms, step.line)
    return None


def clip(text: str, limit: int = CLIP) -> str:
    """Shorten a text to `limit` characters by cutting its middle out."""
    if len(text) <= limit:
        return text
    half = (limit - len(_CUT)) // 2
    return text[:half] + _CUT + text[-half:]
