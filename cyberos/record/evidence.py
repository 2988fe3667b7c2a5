"""How a run really went, and who says so.

    edit, pytest -q exit 1, edit, pytest -q exit 0   -> success, evidence test, `pytest -q -> exit 0 (line 42)`
    edit, pytest -q exit 0, edit                     -> success, evidence agent: the pass is older than the last edit
    edit, pytest -q | tail exit 0                    -> success, evidence agent: the exit code is that of `tail`
    edit, ruff check . exit 1, pytest -q exit 0      -> partial, evidence test: ruff was not run again
    …, [Request interrupted by user]                 -> failure, ended abandoned
    …, "Perfect, it works"                           -> success, evidence user
    "Done."                                          -> success, evidence agent (a claim)

Asked in this order: how the turn ended; what the user said next; the last check after the last edit; a judge; the
agent's own word. Every step that was weighed is told in `why`.

Source: DESIGN sections 2 and 7; seed 000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cyberos.core.secrets import redact
from cyberos.core.text import ANSI
from cyberos.record import checks, marks, words
from cyberos.record.keeping import flat
from cyberos.record.marks import FAILED, PASSED, UNKNOWN
from cyberos.record.transcript import ASSISTANT, USER, VERIFIER, Command, Edit, Stop, Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyberos.record.marks import Mark
    from cyberos.record.transcript import Step

_REF, _ERROR = 300, 800  # characters


class Verdict(NamedTuple):
    """An outcome with its evidence; `why` are sentences. `error` is None for a success only."""

    outcome: str
    evidence: str
    evidence_ref: str | None
    ended: str
    error: str | None
    why: list[str]


class _Seen(NamedTuple):
    """A check as it was seen: its mark, its command, and its place among the steps."""

    mark: Mark
    command: Command
    place: int


def weigh(steps: Sequence[Step], place: str = "line") -> Verdict:
    """Weigh the steps of one run. `place` is what the format counts: `line`, or `message` of one document."""
    why: list[str] = []
    found, edited = _checks(steps, why, place)
    stopped = _stopped(steps, why, place)
    if stopped is not None:
        return stopped
    checked = _checked(found, edited, why, place)
    said = _said(steps, why, place)
    outside = _outside(steps, why, place)
    if outside is not None and outside.evidence == "test":
        return outside
    # a user who is not content knows more than the tests; one who is content does not undo a failed test
    if said is not None and (said.outcome != "success" or checked is None or checked.outcome == "success"):
        return said if said.outcome != "success" or checked is None else checked
    if checked is not None:
        return checked
    return outside or _claimed(steps, why, place)


def _checks(steps: Sequence[Step], why: list[str], place: str) -> tuple[list[_Seen], bool]:
    """Give the checks after the last edit, in order, and whether anything was edited before them."""
    found: list[_Seen] = []
    older: list[_Seen] = []
    edited = ""
    for number, step in enumerate(steps):
        if isinstance(step, Edit):
            older, found, edited = found or older, [], f"{step.path} ({place} {step.line})"
        if isinstance(step, Command):
            for mark in marks.marks(step):
                if mark.kind:
                    found.append(_Seen(mark, step, number))
                else:
                    older, found, edited = found or older, [], f"{mark.why} ({place} {step.line})"
    if older and not found:
        why.append(f"{_ref(older[-1], place)}, then an edit came, {edited}, so it no longer counts")
    elif edited and found:
        why.append(f"last edit: {edited}")
    return found, bool(edited)


def _ref(seen: _Seen, place: str) -> str:
    command = flat(seen.command.text)
    command = command if len(command) <= _REF - 60 else f"{command[: _REF - 61]}…"
    code = seen.command.exit_code
    end = (
        seen.mark.status
        if seen.mark.why == "by what it printed"
        else f"exit {code}"
        if code is not None
        else "no exit code"
    )
    return f"{command} -> {end} ({place} {seen.command.line})"


def _checked(found: list[_Seen], edited: bool, why: list[str], place: str) -> Verdict | None:
    """Judge by the last check after the last edit; a failed one that was not run again still stands."""
    for seen in found:
        if seen.mark.status == UNKNOWN:
            why.append(f"{_ref(seen, place)}: {seen.mark.kind} not counted: {seen.mark.why}")
    known = [seen for seen in found if seen.mark.status != UNKNOWN]
    if not known:
        return None
    last = known[-1]
    standing = [
        seen
        for number, seen in enumerate(known)
        if seen.mark.status == FAILED and not _cleared(seen, known[number + 1 :])
    ]
    evidence = "test" if last.mark.kind == checks.TEST else "exit_code"
    when = "after the last edit" if edited else "and nothing was edited"
    if last.mark.status == FAILED:
        why.append(f"{_ref(last, place)}: the last {last.mark.kind} {when} failed ({last.mark.why})")
        return Verdict("failure", evidence, _ref(last, place), "completed", _error(last), why)
    later = [seen for seen in found if seen.place > last.place and seen.mark.tool == last.mark.tool]
    if later:
        why.append(f"{_ref(last, place)}: passed, but the same check was run again and left no verdict")
        return None
    if not standing:
        why.append(f"{_ref(last, place)}: the last {last.mark.kind} {when} passed")
        return Verdict("success", evidence, _ref(last, place), "completed", None, why)
    other = standing[-1]
    why.append(f"{_ref(last, place)}: passed, but {_ref(other, place)} failed before and was not run again")
    if other.mark.kind == checks.TEST and last.mark.kind != checks.TEST:
        return Verdict("failure", "test", _ref(other, place), "completed", _error(other), why)
    return Verdict("partial", evidence, _ref(last, place), "completed", _error(other), why)


def _cleared(failed: _Seen, later: list[_Seen]) -> bool:
    """Report whether a failed check passed later: the same tool, on as much or more."""
    for seen in later:
        if seen.mark.status == PASSED and seen.mark.tool == failed.mark.tool and seen.mark.kind == failed.mark.kind:
            now, then = _targets(seen.mark), _targets(failed.mark)
            if now <= then or not now:
                return True
    return False


def _targets(mark: Mark) -> set[str]:
    """Give the words that narrow a check down: all but its name and how it is to speak."""
    quiet = {
        "-q",
        "-v",
        "-vv",
        "-s",
        "-x",
        "--tb=short",
        "--tb=long",
        "--tb=no",
        "--verbose",
        "--quiet",
        "-qq",
        "--no-header",
    }
    return {word for word in mark.words[1:] if word not in quiet and not word.startswith(("--tb", "--color", "-r"))}


def _error(seen: _Seen) -> str:
    lines = [line.rstrip() for line in ANSI.sub("", redact(seen.command.output)[0]).splitlines() if line.strip()]
    tail = "\n".join(lines[-12:])[-_ERROR:]
    code = seen.command.exit_code
    head = f"{flat(seen.command.text)[:200]} -> {'failed' if code is None else f'exit {code}'}"
    return f"{head}\n{tail}" if tail else head


def _stopped(steps: Sequence[Step], why: list[str], place: str) -> Verdict | None:
    """Judge by how the agent's own program says that the last turn ended."""
    last: Step | None = None
    for step in reversed(steps):
        if isinstance(step, Turn) and step.role == USER and words.verdict(step.text) != words.GOOD:
            continue  # an unanswered turn does not take up the work again
        if not isinstance(step, Stop) or step.kind != "claimed":
            last = step
            break
    if not isinstance(last, Stop) or last.kind not in ("interrupted", "failed", "limit"):
        return None
    ref = f"{last.text} ({place} {last.line})"
    if last.kind == "interrupted":
        why.append(f"{ref}: the last turn was interrupted, so the task was abandoned")
        return Verdict("failure", "none", ref, "abandoned", f"interrupted: {last.text}", why)
    if last.kind == "limit":
        why.append(f"{ref}: a limit ended the run before the agent did")
        return Verdict("failure", "none", ref, "abandoned", f"a limit was reached: {last.text}", why)
    why.append(f"{ref}: the last turn failed")
    return Verdict("failure", "none", ref, "completed", last.text or "the last turn failed", why)


def _said(steps: Sequence[Step], why: list[str], place: str) -> Verdict | None:
    """Judge by the user's next turn, if no work came after it."""
    has_work = False
    for number in range(len(steps) - 1, -1, -1):
        step = steps[number]
        if isinstance(step, Command | Edit):
            return None
        if isinstance(step, Turn) and step.role == VERIFIER:
            why.append(f"a hook had the last word ({place} {step.line})")
            return Verdict("failure", "none", f"hook ({place} {step.line})", "completed", step.text[:_ERROR], why)
        if isinstance(step, Turn) and step.role == USER:
            has_work = any(
                isinstance(each, Command | Edit) or (isinstance(each, Turn) and each.role == ASSISTANT)
                for each in steps[:number]
            )
            break
    else:
        return None
    verdict = words.verdict(step.text) if has_work else words.NOTHING
    quoted = flat(step.text)[:120]
    ref = f"user: {quoted} ({place} {step.line})"
    if verdict == words.GOOD:
        why.append(f"{ref}: the user is content")
        return Verdict("success", "user", ref, "completed", None, why)
    if verdict == words.BAD:
        why.append(f"{ref}: the user is not content")
        return Verdict("failure", "user", ref, "completed", f"the user says: {quoted}", why)
    if has_work:
        why.append(f"{ref}: says nothing of how it went")
    return None


def _outside(steps: Sequence[Step], why: list[str], place: str) -> Verdict | None:
    """Judge by tests or a model that looked at the result when the run was over."""
    for step in reversed(steps):
        if not isinstance(step, Stop):
            return None
        if step.kind in ("resolved", "unresolved", "accepted", "rejected"):
            ref = f"{step.text} ({place} {step.line})"
            evidence = "test" if step.kind.endswith("resolved") else "judge"
            is_good = step.kind in ("resolved", "accepted")
            why.append(f"{ref}: {'tests' if evidence == 'test' else 'a judge'} that the agent did not run")
            return Verdict(
                "success" if is_good else "failure", evidence, ref, "completed", None if is_good else step.text, why
            )
    return None


def _claimed(steps: Sequence[Step], why: list[str], place: str) -> Verdict:
    """Take the agent's own word, which is a claim."""
    last = next((step for step in reversed(steps) if isinstance(step, Turn | Command | Edit)), None)
    submitted = next((step for step in steps if isinstance(step, Stop) and step.kind == "claimed"), None)
    if submitted is not None:
        why.append(f"{submitted.text}: the agent handed its work in, which is its own word")
        return Verdict("success", "agent", submitted.text, "completed", None, why)
    if isinstance(last, Turn) and last.role == USER:
        why.append(f"the agent's answer to the user's last turn is missing ({place} {last.line})")
        last = next((step for step in reversed(steps) if isinstance(step, Turn) and step.role == ASSISTANT), None)
    if not isinstance(last, Turn) or last.role != ASSISTANT:
        why.append("the transcript breaks off before the agent's last word")
        return Verdict("partial", "none", None, "unknown", "the transcript does not say how it ended", why)
    ref = f"agent: {flat(last.text)[:120]} ({place} {last.line})"
    admitted = words.admission(last.text)
    if admitted:
        why.append(f"the agent admits: {admitted}")
        return Verdict("failure", "agent", ref, "completed", f"the agent says: {admitted}", why)
    if words.is_question(last.text):
        why.append("the agent's last word is a question")
        return Verdict("partial", "agent", ref, "unknown", "the run ends with a question of the agent's", why)
    why.append("nothing but the agent's word says that it is done, so its success is a claimed one")
    return Verdict("success", "agent", ref, "completed", None, why)
