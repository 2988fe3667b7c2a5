"""What the episodes of a vault say when they are counted, and whether their labels still say anything.

A store where everything is a success because nothing set the label looks informative and is not. What is found is
told in sentences that name the cause and the way out; none of them is an error.

Source: seed 000 sections 3 and "Failure modes"; DESIGN section 7.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core.labels import LABELS, VERIFIED
from cyberos.record.lesson import restates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OUTCOMES = ("success", "partial", "failure")
_FEW = 5  # below that, nothing can be said of labels
_NEARLY_ALL = 0.97
_HARDLY_ANY = 0.03
_RESTATED = 0.1  # share of lessons
_DOZENS = 24
_WINDOW_US = 10 * 60 * 1_000_000
_NO_LESSONS_FROM = 20


class Counted(NamedTuple):
    """One episode as far as it counts; `moment_us` is the event's time since 1970."""

    outcome: str
    label: str
    evidence: str
    scope: str
    moment_us: int
    task: str
    lesson: str


def outcomes(episodes: Sequence[Counted]) -> dict[str, int]:
    """Count the outcomes, all three of them."""
    found = Counter(each.outcome for each in episodes)
    return {name: found[name] for name in OUTCOMES}


def labels(episodes: Sequence[Counted]) -> dict[str, int]:
    """Count the labels, all six of them."""
    found = Counter(each.label for each in episodes)
    return {name: found[name] for name in LABELS}


def health(episodes: Sequence[Counted]) -> list[str]:
    """Say in words what has stopped carrying information; nothing where all is well."""
    if len(episodes) < _FEW:
        return []
    return [*_of_labels(episodes), *_of_evidence(episodes), *_of_lessons(episodes), *_of_pace(episodes)]


def _of_labels(episodes: Sequence[Counted]) -> Iterator[str]:
    [(name, count)] = Counter(each.label for each in episodes).most_common(1)
    shown = name.replace("_", " ")
    if count == len(episodes):
        yield f"all {count:,} episodes are labelled {shown}: a label that never changes says nothing"
    elif count >= _NEARLY_ALL * len(episodes):
        yield f"{count:,} of {len(episodes):,} episodes are labelled {shown}: the label hardly says anything"


def _of_evidence(episodes: Sequence[Counted]) -> Iterator[str]:
    verified = sum(each.evidence in VERIFIED for each in episodes)
    way = "log with --evidence test|exit_code|user, or use `cyberos run`"
    if not verified:
        yield f"nothing is verified: no outcome comes from a test, an exit code or the user; {way}"
    elif verified < _HARDLY_ANY * len(episodes):
        yield f"only {verified:,} of {len(episodes):,} outcomes are verified; {way}"


def _of_lessons(episodes: Sequence[Counted]) -> Iterator[str]:
    told = [each for each in episodes if each.lesson.strip()]
    if not told:
        if len(episodes) >= _NO_LESSONS_FROM:
            yield "no episode has a lesson: what a later run should know is nowhere"
        return
    repeated = sum(restates(each.lesson, each.task) for each in told)
    if repeated >= max(1, _RESTATED * len(told)):
        yield f"{repeated:,} of {len(told):,} lessons only repeat their task: leave a lesson empty unless there is one"
    [(_, same)] = Counter(each.lesson for each in told).most_common(1)
    if same >= max(_FEW, len(told) / 2):
        yield f"{same:,} of {len(told):,} lessons are one and the same"


def _of_pace(episodes: Sequence[Counted]) -> Iterator[str]:
    """Find the most crowded minutes of each scope."""
    scopes: dict[str, list[int]] = {}
    for each in episodes:
        scopes.setdefault(each.scope, []).append(each.moment_us)
    for scope, moments in sorted(scopes.items()):
        most = _most_within(sorted(moments))
        if most >= _DOZENS:
            yield (
                f"{most:,} episodes of scope {scope} lie within ten minutes: one task is one episode, not one turn; "
                "imported history needs occurred_at"
            )


def _most_within(moments: list[int]) -> int:
    most = start = 0
    for place, moment_us in enumerate(moments):
        while moment_us - moments[start] > _WINDOW_US:
            start += 1
        most = max(most, place - start + 1)
    return most
