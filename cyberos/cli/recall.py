"""`cyberos recall-similar`: episodes like a task, and how they went.

    {"backend": "whoosh", "engines": ["whoosh"], "degraded": …, "matches": [{"path": …, "task": …, "approach": …,
     "outcome": …, "label": …, "evidence": …, "quality_score": …, "relevance": …, "recency": …, "combined_score": …,
     "last_seen_at": …, "lesson": …, "notes": …, "history": {"success": 1}}],
     "reason": null, "below_cutoff": 0, "unseen": 0}

Source: TASK-MEMORY-112 section 1 (recall-similar) and section 3; seed 000 (intents); DESIGN section 6.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cyberos.cli import indexing, output
from cyberos.cli.moment import HOUR_US, since
from cyberos.cli.trust import accepts
from cyberos.core import layout, ranking, settings
from cyberos.core.backends import AUTO, BACKENDS
from cyberos.core.labels import label
from cyberos.core.ranking import combined_score

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from cyberos.core.reader import Found, RecallHit
    from cyberos.core.semantic import Way
    from cyberos.index.entry import Entry
    from cyberos.index.synced import Synced
    from cyberos.index.upkeep import Progress

__all__ = ["combined_score", "recall_similar", "run"]

FORMS = ("text", "json", "prompt")


@click.command(
    "recall-similar",
    epilog="""\b
Examples:
  cyberos recall-similar "fix the flaky login test"
  cyberos recall-similar "migrate the events table" --intent what_failed --since 90d --json""",
)
@click.argument("task")
@click.option("--k", type=int, help="How many episodes at most. Default: 3.")
@click.option("--min-relevance", type=float, help="The least relevance, 0 to 1. Default: the setting, 0.65.")
@click.option(
    "--intent", type=click.Choice(ranking.INTENTS), help="Rank by how it went: any | what_worked | what_failed"
)
@click.option("--half-life", metavar="SPAN", help="The age at which recency is one half, such as 30d or 12h.")
@click.option("--scope", help="Only episodes of this scope. Default: all.")
@click.option("--since", metavar="WHEN", help="Only what happened since: a span such as 7d, or a date.")
@click.option("--backend", type=click.Choice(BACKENDS), help="What searches. Default: auto.")
@click.option("--trusted-actors", metavar="NAMES", help="Only what these logged: names parted by commas.")
@click.option("--committed-only", is_flag=True, help="Only what git's HEAD holds.")
@click.option("--explain", is_flag=True, help="Add every factor of the score.")
@click.option(
    "--format", "form", type=click.Choice(FORMS), default="text", help="text | json | prompt (for a model to read)"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the same as --format json.")
@click.pass_context
def recall_similar(ctx: click.Context, /, **options: Any) -> None:
    """Find episodes like TASK, best first, and show how they went.

    A success is called verified only where a test, an exit code or the user says so. Finding none is no error.
    """
    as_json = options.pop("as_json") or options["form"] == "json"
    with indexing.bar() as progress:
        answer = run(output.root_of(ctx), SimpleNamespace(**options), progress)
    if as_json:
        output.document(answer)
        return
    if options["form"] == "prompt":
        from cyberos.cli.answer import remarks
        from cyberos.core.prompt import prompt

        click.echo(prompt(answer["matches"]), nl=False)
        for text in remarks(answer):
            output.note(text)
        return
    from cyberos.cli.answer import lines

    for text in lines(answer):
        output.line(text)


class Request(NamedTuple):
    """A request with every default filled in. `weights` are of relevance, quality and recency."""

    task: str
    k: int
    min_relevance: float
    intent: str | None
    recency: str
    half_life_days: float
    weights: list[float]
    scope: str | None
    since_us: int | None
    backend: str
    explain: bool
    now_us: int
    form: str
    accepts: Callable[[Entry], bool] | None


def run(store: str | os.PathLike[str], args: Any, progress: Progress | None = None) -> dict[str, Any]:
    """Answer a request: any object with `task`; what else it lacks (`k`, `min_relevance`, …) has its default.

    Raises: click.UsageError for k below 1, a cut-off outside [0, 1], or a span or date that is none; VaultNotFound.
    """
    request = _request(store, args)
    from cyberos.core import reader, semantic

    asked = reader.Query(
        request.task,
        request.k,
        request.min_relevance,
        layout.EPISODE,
        request.scope,
        request.since_us,
        request.accepts,
        None if request.intent is None else lambda entry, relevance: _score(entry, relevance, request),
    )

    def answer(index: Synced, found: Found, way: Way) -> dict[str, Any]:
        matches = sorted((_weigh(index, hit, request) for hit in found.hits), key=lambda match: match[0])[: request.k]
        if request.intent is not None:
            from cyberos.index import sync

            sync.note_uses(index, [match["path"] for _, match in matches])
        unseen = index.unseen(layout.EPISODE) + len(found.dropped) + way.unseen
        is_empty = not unseen and not index.catalog.has_ready(layout.EPISODE)
        reason = "no_episodes_in_store" if is_empty else "no_episodes_above_min_relevance"
        return {
            "backend": way.backend,
            "engines": way.engines,
            "degraded": "; ".join(filter(None, (way.degraded, index.warning))) or None,
            "matches": [match for _, match in matches],
            "reason": None if matches else reason,
            "below_cutoff": found.below_cutoff,
            "unseen": unseen,
        }

    return semantic.ask(store, asked, answer, backend=request.backend, progress=progress)


def cut_off(store: str | os.PathLike[str], given: float | None) -> float:
    """Give the least relevance that a request has: the given one, else the setting."""
    return float(settings.load(store)["min_relevance"].value) if given is None else given


def _request(store: str | os.PathLike[str], args: Any) -> Request:
    values = {name: value.value for name, value in settings.load(store).items()}

    def given(name: str, default: Any) -> Any:
        value = getattr(args, name, None)
        return default if value is None else value

    half_life = getattr(args, "half_life", None)
    is_aged = given("intent", None) is not None or half_life is not None
    now_us = given("now_us", time.time_ns() // 1000)
    request = Request(
        task=args.task,
        k=given("k", 3),
        min_relevance=given("min_relevance", values["min_relevance"]),
        intent=given("intent", None),
        recency="half-life" if is_aged else values["recency"],
        half_life_days=_days(half_life or values["half_life"]),
        weights=values["weights"],
        scope=given("scope", None),
        since_us=since(given("since", None), now_us),
        backend=given("backend", AUTO),
        explain=given("explain", False),
        now_us=now_us,
        form=given("form", "text"),
        accepts=accepts(store, given("trusted_actors", None), is_committed=given("committed_only", False)),
    )
    _check(request)
    return request


def _check(request: Request) -> None:
    if request.k < 1:
        raise click.UsageError(f"--k {request.k}: at least 1")
    if not 0 <= request.min_relevance <= 1:
        raise click.UsageError(f"--min-relevance {request.min_relevance:g}: a number from 0 to 1")
    if request.intent is not None and request.intent not in ranking.INTENTS:
        raise click.UsageError(f"--intent {request.intent}: one of {', '.join(ranking.INTENTS)}")
    if request.backend not in BACKENDS:
        raise click.UsageError(f"--backend {request.backend}: one of {', '.join(BACKENDS)}")


def _days(span: str) -> float:
    try:
        return settings.half_life_days(span)
    except ValueError as error:
        raise click.UsageError(f"{span!r} {error}") from None


def _score(entry: Entry, relevance: float, request: Request) -> float:
    """Score a candidate for the intent, as `_weigh` will a hit, but for how often it was recalled before."""
    fresh = ranking.recency(request.recency, _age_hours(entry.moment_us, request), request.half_life_days)
    return ranking.intent_score(relevance, fresh, entry.label, 0, request.intent or "any")


def _age_hours(moment_us: int, request: Request) -> float:
    return max(0, request.now_us - moment_us) / HOUR_US


def _weigh(index: Synced, hit: RecallHit, request: Request) -> tuple[Any, dict[str, Any]]:
    """Give a match with its sort key."""
    values = hit.frontmatter
    quality, name = values.get("quality_score"), label(values)
    age_hours = _age_hours(hit.moment_us, request)
    fresh = ranking.recency(request.recency, age_hours, request.half_life_days)
    uses = index.catalog.uses(hit.path)
    if request.intent is None:
        score = combined_score(hit.relevance, quality, fresh, request.weights)
    else:
        score = ranking.intent_score(hit.relevance, fresh, name, uses, request.intent)
    match = {
        "path": hit.path,
        "task": values["task"],
        "approach": values["approach"],
        "outcome": values["outcome"],
        "label": name,
        "evidence": values.get("evidence", "none"),
        "quality_score": quality,
        "relevance": round(hit.relevance, 3),
        "recency": round(fresh, 3),
        "combined_score": round(score, 3),
        "last_seen_at": hit.last_seen_at,
        "lesson": values.get("lesson", ""),
        "notes": values.get("notes", ""),
        "history": index.catalog.history(values["task"]),
    }
    if request.form == "prompt":
        match |= {"actor": hit.actor, "error": values.get("error"), "occurred_at": values.get("occurred_at")}
    if request.explain:
        known = {"relevance": hit.relevance, "recency": fresh, "age_hours": age_hours}
        match["factors"] = known | _factors(request, quality, fresh, name, uses)
    return ranking.order(score, hit.moment_us, hit.path), match


def _factors(request: Request, quality: float | None, fresh: float, name: str, uses: int) -> dict[str, Any]:
    """Name the factors of the score beside relevance and recency, unrounded."""
    if request.intent is None:
        weights = dict(zip(("relevance", "quality", "recency"), request.weights, strict=True))
        return {"quality": ranking.NO_OPINION if quality is None else quality, "weights": weights}
    return {
        "damped_recency": ranking.damped(fresh),
        "outcome_weight": ranking.OUTCOME_WEIGHT[request.intent][name],
        "reinforcement": ranking.reinforcement(uses),
        "uses": uses,
    }
