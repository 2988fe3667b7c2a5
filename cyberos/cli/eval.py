"""`cyberos eval`: how good recall is on probes of one's own.

    {"backend": "whoosh", "engines": ["whoosh"], "degraded": …, "probes": 40, "unknown": 2, "min_relevance": 0.65,
     "figures": {"all": {"probes": 38, "recall_at_3": 0.72, "mrr": 0.66, "hit": 30, "wrong": 5, "silent": 3}},
     "control": {"probes": 20, "recall_at_3": 0.0, "answered": 0, "passed": true}}

A measure that also an empty vault passes measures nothing. So each run asks an empty one too, of which it expects
nothing, and fails when that answers; a vault with no episode fails by itself.

Source: DESIGN section 6.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import indexing, output, probing, recall
from cyberos.cli.source import read
from cyberos.core.backends import BACKENDS
from cyberos.core.errors import CyberosError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cyberos.cli.probing import Judged, Probe

MOST = 500  # probes that --self makes
CONTROLS = 20  # probes that the empty vault is asked


class NothingMeasured(CyberosError):
    """The vault holds nothing that the probes could find, or nothing to make probes of."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason, advice)
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        return self.reason

    @property
    def hint(self) -> str:
        return self.advice


@click.command(
    "eval",
    epilog="""\b
Examples:
  cyberos eval probes.jsonl
  cyberos eval --self --backend whoosh --json

\b
A line of the file:
  {"query": "find big files", "relevant": ["a path or a tag"], "kind": "short"}""",
)
@click.argument("probes", required=False, metavar="[PROBES.jsonl]")
@click.option("--self", "is_self", is_flag=True, help="Make the probes of the tasks that this vault holds repeatedly.")
@click.option("--backend", type=click.Choice(BACKENDS), help="What searches. Default: auto.")
@click.option("--min-relevance", type=float, help="The cut-off to judge, 0 to 1. Default: the setting, 0.65.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def evaluate(
    ctx: click.Context,
    probes: str | None,
    *,
    is_self: bool,
    backend: str | None,
    min_relevance: float | None,
    as_json: bool,
) -> int:
    """Measure recall on probes: queries, each with the episodes that should answer it.

    Shows recall@3 and MRR of what is found without a cut-off, and what the cut-off lets through. Exits 1 when nothing
    could be measured, or when an empty vault does as well.
    """
    if is_self == (probes is not None):
        raise click.UsageError("Give PROBES.jsonl or --self, one of them ('-' reads stdin).")
    root = output.root_of(ctx)
    asked = None if probes is None else probing.parse(read(probes), "stdin" if probes == "-" else probes)
    known = _known(root, asked)
    given: dict[str, Any] = {"backend": backend} | ({} if min_relevance is None else {"min_relevance": min_relevance})
    with indexing.bar() as told:
        sample = recall.run(root, probing.request(known[0].query, **given), told)
    judged = _judge_all(root, [probe for probe in known if probe.relevant], given)
    answer = {
        **{name: sample[name] for name in ("backend", "engines", "degraded")},
        "probes": len(known),
        "unknown": sum(not probe.relevant for probe in known),
        "min_relevance": recall.cut_off(root, min_relevance),
        "figures": probing.figures(judged),
        "control": _control(known[:CONTROLS], given),
    }
    if as_json:
        output.document(answer)
    else:
        for text in _lines(answer):
            output.line(text)
    return 0 if answer["control"]["passed"] else 1


def _known(root: Path, asked: list[Probe] | None) -> list[Probe]:
    """Give the probes with paths for their tags; where none were given, those that the vault makes.

    Raises: NothingMeasured.
    """
    episodes = _episodes(root)
    if not episodes:
        raise NothingMeasured(
            "this vault holds no episode: nothing can be recalled", "log some with `cyberos episode log`"
        )
    if asked is None:
        asked = probing.repeats(episodes, MOST)
        if not asked:
            raise NothingMeasured("no task of this vault stands in two episodes", "give probes of your own in a file")
    known = list(probing.resolve(asked, episodes))
    if not any(probe.relevant for probe in known):
        raise NothingMeasured(
            "no probe names an episode of this vault", "`relevant` takes paths as `cyberos list` shows them, or tags"
        )
    return known


def _episodes(root: Path) -> list[tuple[str, dict[str, Any]]]:
    from cyberos.index import sync
    from cyberos.index.entry import READY

    with indexing.bar() as told, sync.sync(root, (), progress=told) as index:
        return [(one.path, one.frontmatter) for one in index.catalog.in_state(READY) if probing.is_episode(one.path)]


def _judge_all(root: Path, probes: Sequence[Probe], given: dict[str, Any]) -> list[Judged]:
    ask = probing.asker(recall.run, root, given)
    with output.progress("asking", len(probes)) as bar:
        judged = []
        for probe in probes:
            judged.append(probing.judge(probe, ask))
            bar.update(1)
    return judged


def _control(probes: Sequence[Probe], given: dict[str, Any]) -> dict[str, Any]:
    """Ask an empty vault."""
    from cyberos.core import vault

    with tempfile.TemporaryDirectory(prefix="cyberos-") as folder:
        vault.init(folder)
        judged = [probing.judge(probe, probing.asker(recall.run, folder, given)) for probe in probes]
    share = probing.figures(judged)[probing.ALL][f"recall_at_{probing.FIRST}"]
    answered = sum(one.verdict != "silent" for one in judged)
    return {
        "probes": len(judged),
        f"recall_at_{probing.FIRST}": share,
        "answered": answered,
        "passed": not answered and not share,
    }


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    yield f"{output.count(answer['probes'], 'probe')}, asked of {answer['backend']}"
    if answer["degraded"]:
        yield f"  degraded: {answer['degraded']}"
    if answer["unknown"]:
        yield f"  {answer['unknown']} name no episode of this vault and are left out"
    yield ""
    cut = f"{answer['min_relevance']:g}"
    rows: list[tuple[str, ...]] = [
        ("kind", "probes", f"recall@{probing.FIRST}", "MRR", f"hit at {cut}", "wrong", "silent")
    ]
    for kind, found in answer["figures"].items():
        means = [f"{found[name]:.3f}" for name in (f"recall_at_{probing.FIRST}", "mrr")]
        counts = [f"{found[name]}" for name in ("hit", "wrong", "silent")]
        rows.append((kind or "-", f"{found['probes']}", *means, *counts))
    yield from output.table(rows)
    yield ""
    control = answer["control"]
    asked = output.count(control["probes"], "probe")
    if control["passed"]:
        yield f"control: an empty vault answers none of {asked}"
    else:
        yield f"control FAILED: an empty vault answers {control['answered']} of {asked}; these figures mean nothing"
