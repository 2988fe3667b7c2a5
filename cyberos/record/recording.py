"""From a transcript to episodes: what is stored of each run, and why.

Without a model the task is the first human turn, the approach a line of facts, the outcome what the evidence says, and
the lesson empty. With one (`distil`) task, approach and lesson are its words; a verified outcome stays.

Source: DESIGN section 7; seed 000, `recorder.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cyberos.core.errors import CyberosError
from cyberos.core.labels import VERIFIED, label
from cyberos.record import distil, evidence, words
from cyberos.record.keeping import flat
from cyberos.record.transcript import USER, Command, Edit, Run, Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyberos.record.endpoint import Endpoint
    from cyberos.record.evidence import Verdict
    from cyberos.record.transcript import Step, Transcript

LONGEST_GAP_MS = 600_000
_TASK = 500  # characters
_DOCUMENTS = {"swe-agent": "step", "mini-swe-agent": "message", "openai": "message", "openhands": "line"}


class NothingToRecord(CyberosError):
    """A run that makes no episode. `transcript` is where it can still be read."""

    def __init__(self, transcript: str, reason: str, advice: str) -> None:
        super().__init__(transcript, reason)
        self.transcript = transcript
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.transcript}: {self.reason}, so nothing was stored"

    @property
    def hint(self) -> str:
        return self.advice


@dataclass(frozen=True)
class Given:
    """What the caller says, against what the transcript says; None where nothing is said."""

    task: str | None = None
    outcome: str | None = None
    evidence: str | None = None
    evidence_ref: str | None = None


@dataclass
class Recording:
    """The fields of one episode, why they are so, and which run they are from."""

    values: dict[str, Any]
    why: list[str] = field(default_factory=list)
    session: str = ""
    turns: int = 0

    @property
    def label(self) -> str:
        """Give the label that the episode will have."""
        return label(self.values)


class Contradicted(CyberosError):
    """The caller's outcome is not what the transcript verifies."""

    def __init__(self, given: str, verdict: str, ref: str) -> None:
        super().__init__(given, verdict, ref)
        self.given = given
        self.verdict = verdict
        self.ref = ref

    def __str__(self) -> str:
        return f"--outcome {self.given}: the transcript verifies {self.verdict} ({self.ref})"

    @property
    def hint(self) -> str:
        return "leave --outcome out, or say who knows better: --evidence user --evidence-ref 'who and how'"


def split(run: Run) -> list[Run]:
    """Cut a run where the user asks for something new; the last step of each part is the turn that begins the next."""
    starts = [0]
    has_answer = False
    for number, step in enumerate(run.steps):
        if isinstance(step, Turn) and step.role == USER and has_answer and words.opens_task(step.text):
            starts.append(number)
            has_answer = False
        elif not isinstance(step, Turn) or step.role != USER:
            has_answer = True
    if len(starts) == 1:
        return [run]
    parts = []
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        begun = next((step.at_ms for step in run.steps[start:] if step.at_ms is not None), None)
        over = run.steps[end].at_ms if end is not None else None
        within = [
            tick for tick in run.ticks if (begun is None or tick // 2 >= begun) and (over is None or tick // 2 < over)
        ]
        part = replace(run, steps=run.steps[start : None if end is None else end + 1], tokens=None, stated_ms=None)
        part.ticks = run.ticks[:0]
        part.ticks.extend(within)
        part.is_cut = end is not None
        parts.append(part)
    return parts


def duration_ms(run: Run) -> int | None:
    """Give the working time: without gaps that end in a human turn, and without gaps above ten minutes."""
    if run.stated_ms is not None:
        return run.stated_ms
    times: dict[int, bool] = {}
    for tick in run.ticks:
        times[tick // 2] = times.get(tick // 2, False) or bool(tick % 2)
    if not times:
        return None
    gaps = pairwise(sorted(times))
    return sum(after - before for before, after in gaps if not times[after] and after - before <= LONGEST_GAP_MS)


def record(transcript: Transcript, run: Run, given: Given, endpoint: Endpoint | None, path: str) -> Recording:
    """Judge one run. Raises: NothingToRecord, NothingDistilled, EndpointFailed, Contradicted."""
    own = run.steps[:-1] if run.is_cut else run.steps
    turns = replace(run, steps=own).turns
    human = next((turn for turn in turns if turn.role == USER), None)
    # a stream leaves the prompt out: the task that is given stands for it
    if len(turns) + (human is None and given.task is not None) < distil.LEAST_TURNS:
        raise NothingToRecord(
            path, "fewer than two turns", "it can be read as it was; `cyberos episode log` logs by hand"
        )
    task = given.task or flat(human.text if human else transcript.asked)
    if not task:
        advice = "give the task with --task TEXT; the transcript can be read as it was"
        raise NothingToRecord(path, "no turn of a user, and no --task", advice)
    verdict = evidence.weigh(run.steps, _DOCUMENTS.get(transcript.format, "line"))
    why = list(verdict.why)
    values: dict[str, Any] = {"task": _cut(task, _TASK), "approach": approach(own)}
    fields = _fields(verdict)
    if endpoint is not None:
        found = _ask([*([] if human else [Turn(USER, task)]), *turns], endpoint, path)
        fields |= _distilled(found, values, verdict, why) if found else {}
        values["task"] = given.task or values["task"]
    values |= _overridden(fields, given, why)
    values |= _measured(run, why)
    if transcript.skipped:
        why.append(f"not read: {'; '.join(transcript.skipped[:5])}")
    return Recording(values, why, run.session, len(turns))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 2]} …"


def _fields(verdict: Verdict) -> dict[str, Any]:
    found = {"outcome": verdict.outcome, "evidence": verdict.evidence, "ended": verdict.ended}
    found |= {"evidence_ref": verdict.evidence_ref} if verdict.evidence_ref else {}
    return found | ({"error": verdict.error} if verdict.error else {})


def _measured(run: Run, why: list[str]) -> dict[str, Any]:
    taken = duration_ms(run)
    if taken is None:
        why.append("duration unknown: the transcript has no times")
    found: dict[str, Any] = {"duration_ms": taken or 0}
    if run.tokens is not None:
        found["token_cost"] = run.tokens
    if run.ticks:
        from datetime import UTC, datetime

        ended = datetime.fromtimestamp(max(run.ticks) // 2 / 1000, UTC)
        found["occurred_at"] = ended.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return found


def _ask(turns: list[Turn], endpoint: Endpoint, path: str) -> distil.Distilled | None:
    try:
        return distil.distil(turns, endpoint)
    except distil.NothingDistilled as error:
        error.transcript = path
        raise


def _distilled(found: distil.Distilled, values: dict[str, Any], verdict: Verdict, why: list[str]) -> dict[str, Any]:
    """Put the model's words in `values`; give what its claim changes of the outcome."""
    values["task"] = found.task
    values["approach"] = found.approach or values["approach"]
    values["lesson"] = found.lesson
    if found.dropped:
        why.append(f"no lesson: {found.dropped}")
    is_fact = verdict.evidence in (*VERIFIED, "judge") or verdict.ended == "abandoned" or verdict.evidence == "none"
    if is_fact:
        why.append(f"the model says {found.outcome}; what the transcript shows stands above it")
        return {}
    why.append(f"the model says {found.outcome}, which is a claim")
    claimed = distil.weigh(found.outcome)
    return {"ended": "completed", "error": None} | claimed


def _overridden(fields: dict[str, Any], given: Given, why: list[str]) -> dict[str, Any]:
    """Let what the caller says of the outcome stand, where it may. Raises: Contradicted."""
    if given.outcome is None:
        return {name: value for name, value in fields.items() if value is not None}
    is_verified = fields["evidence"] in VERIFIED
    if given.evidence is None and is_verified:
        if given.outcome != fields["outcome"]:
            raise Contradicted(given.outcome, fields["outcome"], str(fields.get("evidence_ref")))
        return {name: value for name, value in fields.items() if value is not None}
    who = given.evidence or "agent"
    why.append(f"--outcome {given.outcome}: said by the caller, evidence {who}")
    found = {"outcome": given.outcome, "evidence": who, "ended": "completed"}
    found |= {"evidence_ref": given.evidence_ref} if given.evidence_ref else {}
    if given.outcome != "success":
        found["error"] = fields.get("error") or given.evidence_ref or f"recorded as {given.outcome}"
    return found


def approach(steps: Sequence[Step]) -> str:
    """Say what was done as a line of facts: the files that were edited, the commands that were run."""
    files = dict.fromkeys(_short(step.path) for step in steps if isinstance(step, Edit))
    commands = [step for step in steps if isinstance(step, Command)]
    parts = []
    if files:
        more = f" and {len(files) - 5} more" if len(files) > 5 else ""  # noqa: PLR2004
        parts.append(f"edited {', '.join(list(files)[:5])}{more}")
    if commands:
        shown = dict.fromkeys(f"{_cut(flat(step.text), 80)} ({_end(step)})" for step in commands[-4:])
        count = "1 command" if len(commands) == 1 else f"{len(commands)} commands"
        parts.append(f"ran {count}, {'last ' if len(commands) > len(shown) else ''}{'; '.join(shown)}")
    return ", ".join(parts) or "answered in words alone: no command was run and no file edited"


def _end(command: Command) -> str:
    return f"exit {command.exit_code}" if command.exit_code is not None else command.state


def _short(path: str) -> str:
    """Give the last two parts of a path: the rest tells of the machine."""
    return (
        "/".join(path.replace("\\", "/").rstrip("/").rsplit("/", 2)[-2:])
        if path.startswith(("/", "~")) or ":" in path
        else path
    )
