"""Probes: queries with what should answer them, and what recall made of them.

    {"query": "find big files", "relevant": ["memories/episodes/d4/12/d4127a3b-1f2c3d.md", "c017"], "kind": "short"}

`relevant` names episodes by path or by tag; a tag stands for all episodes that carry it. `kind` is optional and free:
figures are given for each. A probe is asked as `recall-similar` would be, so whatever serves that is measured.

Source: DESIGN section 6 (`cyberos eval`).
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import canonical, layout
from cyberos.core.errors import CyberosError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Ask = Callable[[str, int, float | None], dict[str, Any]]

FIRST = 3  # of so many hits the recall is measured
DEEP = 10  # so far down a first relevant hit counts for the reciprocal rank
ALL = "all"
REPEATS = "repeated_task"
_KEYS = ("query", "relevant", "kind")


class BadProbe(CyberosError, ValueError):
    """A line of a probes file is no probe."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(place, message)
        self.place = place
        self.message = message

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"

    @property
    def hint(self) -> str:
        return 'a probe is one line: {"query": "find big files", "relevant": ["a path or a tag"], "kind": "optional"}'


class Probe(NamedTuple):
    query: str
    relevant: tuple[str, ...]
    kind: str = ""


class Judged(NamedTuple):
    """What came back for a probe: shares in [0, 1], and what the cut-off did.

    `verdict` is hit (a relevant episode among those above the cut-off), wrong (only others), or silent.
    """

    kind: str
    recall: float
    reciprocal_rank: float
    verdict: str


def parse(blob: bytes, name: str) -> list[Probe]:
    """Read a probes file. Raises: BadProbe, naming the line."""
    try:
        text = blob.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = blob.count(b"\n", 0, error.start) + 1
        raise BadProbe(f"{name}:{line}", "not UTF-8") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise BadProbe(name, "holds no probe")
    return [_probe(line, f"{name}:{number}") for number, line in lines]


def _probe(line: str, place: str) -> Probe:
    try:
        row = canonical.load(line)
    except ValueError as error:
        raise BadProbe(place, f"not JSON: {getattr(error, 'msg', error)}") from None
    if not isinstance(row, dict):
        raise BadProbe(place, "no JSON object")
    if unknown := sorted(row.keys() - set(_KEYS)):
        raise BadProbe(place, f"{unknown[0]!r} is no key of a probe")
    query, relevant, kind = row.get("query"), row.get("relevant"), row.get("kind", "")
    if not isinstance(query, str) or not query.strip():
        raise BadProbe(place, "`query` must be a text that is not blank")
    if not isinstance(relevant, list) or not relevant or not all(isinstance(one, str) and one for one in relevant):
        raise BadProbe(place, "`relevant` must be a list of at least one path or tag")
    if not isinstance(kind, str):
        raise BadProbe(place, "`kind` must be a text")
    return Probe(query, tuple(relevant), kind)


def repeats(episodes: Iterable[tuple[str, dict[str, Any]]], most: int) -> list[Probe]:
    """Make a probe of each task that was done more than once, the oftenest first, `most` of them at most."""
    tasks = defaultdict(list)
    for path, fields in episodes:
        tasks[fields["task"]].append(path)
    often = sorted((task for task in tasks if len(tasks[task]) > 1), key=lambda task: (-len(tasks[task]), task))
    return [Probe(task, tuple(sorted(tasks[task])), REPEATS) for task in often[:most]]


def resolve(probes: Iterable[Probe], episodes: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[Probe]:
    """Put paths for the tags; a name that no episode has goes, and may leave nothing."""
    named = defaultdict(set)
    for path, fields in episodes:
        for name in (path, *fields.get("tags", ())):
            named[name].add(path)
    for probe in probes:
        paths = set().union(*(named.get(name, ()) for name in probe.relevant))
        yield probe._replace(relevant=tuple(sorted(paths)))


def judge(probe: Probe, ask: Ask) -> Judged:
    """Ask for a probe: `ask` takes the query, k, and the least relevance (None for the vault's own)."""
    first = _paths(ask(probe.query, FIRST, 0.0))
    deep = _paths(ask(probe.query, DEEP, 0.0))
    kept = _paths(ask(probe.query, FIRST, None))
    relevant = set(probe.relevant)
    recall = len(relevant & set(first)) / max(1, min(FIRST, len(relevant)))
    rank = next((1 / rank for rank, path in enumerate(deep, 1) if path in relevant), 0.0)
    verdict = "silent" if not kept else "hit" if relevant & set(kept) else "wrong"
    return Judged(probe.kind, recall, rank, verdict)


def request(query: str, **given: Any) -> SimpleNamespace:
    """Make a request as recall-similar takes it."""
    return SimpleNamespace(task=query, **given)


def asker(run: Callable[..., dict[str, Any]], root: Any, given: dict[str, Any]) -> Ask:
    """Make what asks a vault through `run` of recall-similar; `given` is what the user asked for."""

    def ask(query: str, k: int, min_relevance: float | None) -> dict[str, Any]:
        cut = {} if min_relevance is None else {"min_relevance": min_relevance}
        return run(root, request(query, **given | {"k": k} | cut))

    return ask


def _paths(answer: dict[str, Any]) -> list[str]:
    return [match["path"] for match in answer["matches"]]


def figures(judged: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """Add up each kind and all of them."""
    kinds = defaultdict(list)
    for one in judged:
        kinds[one.kind].append(one)
    groups = dict(sorted(kinds.items())) if len(kinds) > 1 else {}
    return {name: _figures(found) for name, found in [*groups.items(), (ALL, judged)]}


def _figures(judged: Sequence[Judged]) -> dict[str, Any]:
    count = len(judged)
    verdicts = {name: sum(one.verdict == name for one in judged) for name in ("hit", "wrong", "silent")}
    means = {
        f"recall_at_{FIRST}": sum(one.recall for one in judged) / count,
        "mrr": sum(one.reciprocal_rank for one in judged) / count,
    }
    return {"probes": count} | {name: round(value, 3) for name, value in means.items()} | verdicts


def is_episode(path: str) -> bool:
    """Report whether a path is that of an episode."""
    return layout.kind_of(path) == layout.EPISODE
