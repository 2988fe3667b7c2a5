"""Fit the constants of `cyberos/index/calibration.py` and show what they keep: `python bench/calibrate.py --data DIR`.

DIR (or CYBEROS_BENCH_DATA) holds <set>.episodes.jsonl and <set>.probes.jsonl for the sets nl2bash and reflexion.
A positive is the best true repeat of a probe, a negative the best hit of the other set's probe: work never done here.
Every second probe fits, the others are reported. The slope a is that of a logistic regression in which each of the
four groups weighs the same; b then puts the cut where the worse of the two sets gives as many false answers as allowed.
`--asked N` asks for another number of terms, `--plain` divides by the plain bound of BM25: what those choices gain.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sqlite3
from collections import defaultdict
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.index import fulltext
from cyberos.index.calibration import CUT, FALSE_ANSWERS
from cyberos.index.fulltext import Document, Scored
from cyberos.index.fulltext_fts5 import Fts5FullText
from cyberos.index.fulltext_whoosh import WhooshFullText
from cyberos.index.tokens import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from cyberos.index.fulltext import FullText, Plan

SETS = ("nl2bash", "reflexion")
ENGINES: dict[str, Callable[[], FullText]] = {
    "whoosh": lambda: WhooshFullText(None),
    "fts5": lambda: Fts5FullText(None),
}
DEPTH = 100
# Kept back in the fit, so that the promised share also holds on probes that were not fitted.
MARGIN = 0.01
SMALL = (1, 10, 100)
SMALL_TRIALS = 100


class Probe(NamedTuple):
    query: str
    relevant: frozenset[str]
    kind: str


class Judged(NamedTuple):
    """What an engine did with one probe."""

    kind: str
    recall_at_3: float
    reciprocal_rank: float
    best_repeat: float


class Data(NamedTuple):
    documents: list[Document]
    probes: list[Probe]


def document(row: dict[str, Any]) -> Document:
    lines = [f"Task: {row['task']}", f"Approach: {row['approach']}", f"Outcome: {row['outcome']}"]
    lines.append(f"Notes: {row.get('notes') or ''}")
    if row.get("lesson"):
        lines.append(f"Lesson: {row['lesson']}")
    return Document(row["tags"][0], "episode", "default", "\n".join(lines))


def load(folder: Path, name: str) -> Data:
    rows, probes = (
        [json.loads(line) for line in (folder / f"{name}.{what}.jsonl").read_text(encoding="utf-8").splitlines()]
        for what in ("episodes", "probes")
    )
    probes = [Probe(row["query"], frozenset(row["relevant"]), row["kind"]) for row in probes]
    return Data([document(row) for row in rows], probes)


def recall_at_3(found: Sequence[str], relevant: frozenset[str]) -> float:
    return len(relevant.intersection(found[:3])) / min(3, len(relevant))


def reciprocal_rank(found: Sequence[str], relevant: frozenset[str]) -> float:
    return next((1 / rank for rank, path in enumerate(found[:12], 1) if path in relevant), 0.0)


def judge(engine: FullText, probes: list[Probe], foreign: list[Probe]) -> tuple[list[Judged], list[float]]:
    """Ask the engine for everything: its own set's probes, then the other set's."""
    judged = []
    for probe in probes:
        hits = engine.search(probe.query, kind="episode", scope=None, limit=DEPTH)
        found = [hit.path for hit in hits]
        best = max((hit.ratio for hit in hits if hit.path in probe.relevant), default=0.0)
        ranks = recall_at_3(found, probe.relevant), reciprocal_rank(found, probe.relevant)
        judged.append(Judged(probe.kind, *ranks, best))
    return judged, [highest(engine, probe.query) for probe in foreign]


def highest(engine: FullText, query: str) -> float:
    return max((hit.ratio for hit in engine.search(query, kind="episode", scope=None, limit=1)), default=0.0)


def fit(groups: Sequence[tuple[float, Sequence[float]]]) -> tuple[float, float]:
    """Return (a, b) of P(y = 1 | x) = sigmoid(a * x + b) by Newton's method; the groups (y, xs) weigh the same."""
    a = b = 0.0
    for _ in range(50):
        gradient = [0.0, 0.0]
        hessian = [1e-9, 0.0, 1e-9]
        for y, xs in groups:
            for x in xs:
                p = 1 / (1 + exp(-(a * x + b)))
                weight = 1 / len(xs)
                gradient = [gradient[0] + weight * (y - p) * x, gradient[1] + weight * (y - p)]
                curve = weight * p * (1 - p)
                hessian = [hessian[0] + curve * x * x, hessian[1] + curve * x, hessian[2] + curve]
        scale = hessian[0] * hessian[2] - hessian[1] ** 2
        step_a = (hessian[2] * gradient[0] - hessian[1] * gradient[1]) / scale
        step_b = (hessian[0] * gradient[1] - hessian[1] * gradient[0]) / scale
        a, b = a + step_a, b + step_b
        if abs(step_a) + abs(step_b) < 1e-9:
            break
    return a, b


def cut_for(negatives: Iterable[Sequence[float]], share: float) -> float:
    """Return the lowest x that at most `share` of each group of negatives reach."""
    return max(sorted(xs, reverse=True)[int(share * len(xs))] for xs in negatives) + 1e-6


def share(xs: Iterable[float], cut: float) -> float:
    return mean([x >= cut for x in xs] or [0])


def fts5(documents: list[Document]) -> Callable[[str], list[str]]:
    """Return plain SQLite: porter, BM25, OR of the words without stop words."""
    database = sqlite3.connect(":memory:")
    database.execute("create virtual table words using fts5(path unindexed, text, tokenize='porter unicode61')")
    database.executemany("insert into words values (?, ?)", [(row.path, row.text) for row in documents])

    def search(query: str) -> list[str]:
        words = re.findall(r"\w+", query.lower())
        wanted = " OR ".join(f'"{word}"' for word in words if word not in STOP_WORDS)
        rows = database.execute("select path from words where words match ? order by rank limit 12", (wanted,))
        return [path for (path,) in rows] if wanted else []

    return search


def plain_ratios(ranked: Sequence[tuple[str, float]], plan: Plan, present: Container[str]) -> list[Scored]:  # noqa: ARG001
    return [Scored(path, score / plan.whole) for path, score in ranked]


def by_kind(name: str, probes: list[Probe], judged: list[Judged], plain: Callable[[str], list[str]]) -> None:
    """Print recall@3 and MRR of each kind of probe, beside plain FTS5."""
    print(f"\n{name:<34} probes   recall@3 / MRR   plain FTS5 porter")
    kinds = defaultdict(list)
    for probe, one in zip(probes, judged, strict=True):
        kinds[probe.kind].append((probe, one, plain(probe.query)))
    kinds[f"{name}, all"] = [row for rows in kinds.values() for row in rows]
    for kind, rows in kinds.items():
        ours = mean(one.recall_at_3 for _, one, _ in rows), mean(one.reciprocal_rank for _, one, _ in rows)
        recall = mean(recall_at_3(found, probe.relevant) for probe, _, found in rows)
        rank = mean(reciprocal_rank(found, probe.relevant) for probe, _, found in rows)
        print(f"  {kind:<32} {len(rows):6}    {ours[0]:.3f} / {ours[1]:.3f}    {recall:.3f} / {rank:.3f}")


def small_vaults(make: Callable[[], FullText], data: Data, foreign: Data, size: int) -> tuple[list[float], list[float]]:
    """Do the same in vaults of `size` episodes, of which at least one is a true repeat."""
    chance = random.Random(size)
    texts = {row.path: row for row in data.documents}
    repeats, falses = [], []
    for probe in chance.sample(data.probes, SMALL_TRIALS):
        paths = sorted(probe.relevant)[:size]
        others = chance.sample([row for row in data.documents if row.path not in probe.relevant], size - len(paths))
        engine = make()
        engine.apply([*(texts[path] for path in paths), *others], (), stamp="1")
        hits = engine.search(probe.query, kind="episode", scope=None, limit=size)
        repeats.append(max((hit.ratio for hit in hits if hit.path in probe.relevant), default=0.0))
        falses.append(highest(engine, chance.choice(foreign.probes).query))
    return repeats, falses


def report(label: str, cut: float, repeats: Sequence[float], falses: Sequence[float] = ()) -> None:
    wrong = f"   false answers {share(falses, cut):.3f} of {len(falses)}" if falses else ""
    print(f"  {label:<36} repeats kept {share(repeats, cut):.3f} of {len(repeats):3}{wrong}")


def show(results: dict[str, tuple[list[Judged], list[float]]], cut: float) -> None:
    for name, (judged, falses) in results.items():
        for half, label in ((0, "the half that fits"), (1, "the other half")):
            report(f"{name}, {label}", cut, [one.best_repeat for one in judged[half::2]], falses[half::2])
        kinds = defaultdict(list)
        for one in judged[1::2]:
            kinds[one.kind].append(one.best_repeat)
        for kind, repeats in kinds.items():
            report(f"  {kind}", cut, repeats)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("CYBEROS_BENCH_DATA"), help="folder with episodes and probes")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="whoosh")
    parser.add_argument("--asked", type=int, default=fulltext.ASKED, help="ask for so many terms of a query")
    parser.add_argument("--plain", action="store_true", help="divide by the plain bound of BM25")
    arguments = parser.parse_args()
    if not arguments.data:
        parser.error("name the folder with --data or CYBEROS_BENCH_DATA")
    return arguments


def main() -> None:
    arguments = parse()
    make = ENGINES[arguments.engine]
    fulltext.ASKED = arguments.asked
    if arguments.plain:
        fulltext.ratios = plain_ratios
    data = {name: load(Path(arguments.data), name) for name in SETS}
    other = dict(zip(SETS, reversed(SETS), strict=True))
    results = {}
    for name in SETS:
        engine = make()
        engine.apply(data[name].documents, (), stamp="1")
        results[name] = judge(engine, data[name].probes, data[other[name]].probes)
        by_kind(name, data[name].probes, results[name][0], fts5(data[name].documents))

    repeats = [(1.0, [one.best_repeat for one in judged[::2]]) for judged, _ in results.values()]
    falses = [(0.0, xs[::2]) for _, xs in results.values()]
    a, _ = fit([*repeats, *falses])
    cut = cut_for((xs for _, xs in falses), FALSE_ANSWERS - MARGIN)
    b = log(CUT / (1 - CUT)) - a * cut
    print(f'\n"{arguments.engine}": ({a:.3f}, {b:.3f})   relevance {CUT} at x = {cut:.3f}\n')
    show(results, cut)
    for size in SMALL:
        for name in SETS:
            report(f"{name}, vaults of {size}", cut, *small_vaults(make, data[name], data[other[name]], size))


if __name__ == "__main__":
    main()
