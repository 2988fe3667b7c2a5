"""Fit the constants of `cyberos/index/calibration.py` and show what they keep: `python bench/calibrate.py --data DIR`.

DIR (or CYBEROS_BENCH_DATA) holds <set>.episodes.jsonl and <set>.probes.jsonl of two sets or more, such as nl2bash
(TellinaTool/nl2bash, MIT) and reflexion (noahshinn/reflexion, MIT); what they are is in `probes`.
A positive is the best true repeat of a probe, a negative the best hit of another set's probe: work never done here.
Every second probe fits, the others are reported. The cut stands where the worst set gives as many false answers as
allowed; the slope a is then that of greatest likelihood in which repeats and foreign work weigh the same in each set.

`--engine semantic` first chooses the balance of words to meaning: the best mean recall@3 over all kinds of probes, the
made ones too, on the half that fits; each set's own choice is shown, and what it does to the others.
`--asked N` asks for another number of terms, `--plain` divides by the plain bound of BM25: what those choices gain.
"""

from __future__ import annotations

import argparse
import os
import random
from collections import defaultdict
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, NamedTuple

import plain
from probes import Data, Probe, load, made, names, recall_at_3, reciprocal_rank

from cyberos.index import fulltext
from cyberos.index.calibration import CUT, FALSE_ANSWERS, FALSE_ANSWERS_JOINED
from cyberos.index.fulltext import Scored
from cyberos.index.fulltext_fts5 import Fts5FullText
from cyberos.index.fulltext_whoosh import WhooshFullText

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from cyberos.index.fulltext import Plan

SEMANTIC = "semantic"
ENGINES = ("fts5", SEMANTIC, "whoosh")
BALANCES = (0.0, 0.3, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 2.0, 3.0)
DEPTH = 100
# Kept back in the fit, so that the promised share also holds on probes that were not fitted.
MARGIN = 0.01
SMALL = (1, 10, 100)
SMALL_TRIALS = 100
BINS = 10


class Judged(NamedTuple):
    """What an engine did with one probe."""

    kind: str
    recall_at_3: float
    reciprocal_rank: float
    best_repeat: float


Results = dict[str, tuple[list[Judged], list[float]]]


def judge(engine: Any, probes: list[Probe], foreign: list[Probe]) -> tuple[list[Judged], list[float]]:
    """Ask the engine for everything: its own set's probes, then the other sets'."""
    judged = []
    for probe in probes:
        hits = engine.search(probe.query, kind="episode", scope=None, limit=DEPTH)
        found = [hit.path for hit in hits]
        best = max((hit.ratio for hit in hits if hit.path in probe.relevant), default=0.0)
        ranks = recall_at_3(found, probe.relevant), reciprocal_rank(found, probe.relevant)
        judged.append(Judged(probe.kind, *ranks, best))
    return judged, [highest(engine, probe.query) for probe in foreign]


def highest(engine: Any, query: str) -> float:
    return max((hit.ratio for hit in engine.search(query, kind="episode", scope=None, limit=1)), default=0.0)


def slope(groups: Sequence[tuple[float, Sequence[float]]], cut: float) -> float:
    """Return the a of P(y = 1 | x) = sigmoid(a * (x - cut) + logit(CUT)) by Newton's method; groups weigh the same."""
    a, offset = 1.0, log(CUT / (1 - CUT))
    for _ in range(100):
        gradient, curve = 0.0, 1e-9
        for y, xs in groups:
            for x in xs:
                p = 1 / (1 + exp(-(a * (x - cut) + offset)))
                gradient += (y - p) * (x - cut) / len(xs)
                curve += p * (1 - p) * (x - cut) ** 2 / len(xs)
        a += max(-1.0, min(1.0, gradient / curve))
        if abs(gradient / curve) < 1e-9:
            break
    return a


def cut_for(negatives: Iterable[Sequence[float]], share: float) -> float:
    """Return the lowest x that at most `share` of each group of negatives reach."""
    return max(sorted(xs, reverse=True)[int(share * len(xs))] for xs in negatives) + 1e-6


def share(xs: Iterable[float], cut: float) -> float:
    return mean([x >= cut for x in xs] or [0])


def plain_ratios(ranked: Sequence[tuple[str, float]], plan: Plan, present: Container[str]) -> list[Scored]:  # noqa: ARG001
    return [Scored(path, score / plan.whole) for path, score in ranked]


def by_kind(name: str, probes: list[Probe], judged: list[Judged], search: Callable[[str], list[str]]) -> None:
    """Print recall@3 and MRR of each kind of probe, beside plain FTS5."""
    print(f"\n{name:<34} probes   recall@3 / MRR   plain FTS5 porter")
    kinds = defaultdict(list)
    for probe, one in zip(probes, judged, strict=True):
        kinds[probe.kind].append((probe, one, search(probe.query)))
    kinds[f"{name}, all"] = [row for rows in kinds.values() for row in rows]
    for kind, rows in kinds.items():
        ours = mean(one.recall_at_3 for _, one, _ in rows), mean(one.reciprocal_rank for _, one, _ in rows)
        recall = mean(recall_at_3(found, probe.relevant) for probe, _, found in rows)
        rank = mean(reciprocal_rank(found, probe.relevant) for probe, _, found in rows)
        print(f"  {kind:<32} {len(rows):6}    {ours[0]:.3f} / {ours[1]:.3f}    {recall:.3f} / {rank:.3f}")


def balance_of(engines: dict[str, Any], data: dict[str, Data]) -> float:
    """Choose how much words weigh beside meaning, and print what each choice gives on either half."""
    probes = {name: [*data[name].probes, *made(data[name])] for name in engines}
    table: dict[float, dict[str, tuple[float, float]]] = {}
    for balance in BALANCES:
        table[balance] = {}
        for name, engine in engines.items():
            engine.balance = balance
            halves = [_mean_of_kinds(engine, probes[name], half) for half in (0, 1)]
            table[balance][name] = halves[0], halves[1]
    print("balance, mean recall@3 over kinds: the half that fits / the other")
    for balance, row in table.items():
        print(f"  {balance:3}  " + "   ".join(f"{name} {a:.3f} / {b:.3f}" for name, (a, b) in row.items()))
    for name in engines:
        print(f"  {name} alone would choose {max(BALANCES, key=lambda one: table[one][name][0])}")
    return max(BALANCES, key=lambda one: mean(a for a, _ in table[one].values()))


def _mean_of_kinds(engine: Any, probes: list[Probe], half: int) -> float:
    kinds = defaultdict(list)
    for probe in probes:
        kinds[probe.kind].append(probe)
    return mean(
        mean(
            recall_at_3([hit.path for hit in engine.search(one.query, limit=3)], one.relevant) for one in rows[half::2]
        )
        for rows in kinds.values()
    )


def small_vaults(
    make: Callable[[], Any], data: Data, foreign: list[Probe], size: int
) -> tuple[list[float], list[float]]:
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
        falses.append(highest(engine, chance.choice(foreign).query))
    return repeats, falses


def report(label: str, cut: float, repeats: Sequence[float], falses: Sequence[float] = ()) -> None:
    wrong = f"   false answers {share(falses, cut):.3f} of {len(falses)}" if falses else ""
    print(f"  {label:<36} repeats kept {share(repeats, cut):.3f} of {len(repeats):3}{wrong}")


def show(results: Results, cut: float) -> None:
    for name, (judged, falses) in results.items():
        for half, label in ((0, "the half that fits"), (1, "the other half")):
            report(f"{name}, {label}", cut, [one.best_repeat for one in judged[half::2]], falses[half::2])
        kinds = defaultdict(list)
        for one in judged[1::2]:
            kinds[one.kind].append(one.best_repeat)
        for kind, repeats in kinds.items():
            report(f"  {kind}", cut, repeats)


def reliability(results: Results, a: float, b: float) -> None:
    """Print how often what was given a relevance is a repeat, on the half that did not fit; repeats weigh one half."""
    weighed = []
    for judged, falses in results.values():
        for y, xs in ((1.0, [one.best_repeat for one in judged[1::2]]), (0.0, falses[1::2])):
            weighed += [(1 / (1 + exp(-(a * x + b))), y, 1 / len(xs) / 2 / len(results)) for x in xs]
    error = 0.0
    print("\n  relevance    share   mean   repeats")
    for number in range(BINS):
        rows = [row for row in weighed if min(BINS - 1, int(row[0] * BINS)) == number]
        if not rows:
            continue
        weight = sum(w for *_, w in rows)
        said, true = sum(p * w for p, _, w in rows) / weight, sum(y * w for _, y, w in rows) / weight
        error += weight * abs(said - true)
        print(f"  {number / BINS:.1f} to {(number + 1) / BINS:.1f}   {weight:.3f}   {said:.3f}   {true:.3f}")
    print(f"  expected calibration error {error:.3f}\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("CYBEROS_BENCH_DATA"), help="folder with episodes and probes")
    parser.add_argument("--engine", choices=ENGINES, default="whoosh")
    parser.add_argument("--vectors", type=Path, help="semantic: keep the vectors in this .npz")
    parser.add_argument("--asked", type=int, default=fulltext.ASKED, help="ask for so many terms of a query")
    parser.add_argument("--plain", action="store_true", help="divide by the plain bound of BM25")
    arguments = parser.parse_args()
    if not arguments.data:
        parser.error("name the folder with --data or CYBEROS_BENCH_DATA")
    return arguments


def maker(engine: str, vectors: Path | None) -> Callable[[], Any]:
    if engine == SEMANTIC:
        from semantic import Semantic, Vectors

        return partial(Semantic, Vectors(vectors))
    return lambda: WhooshFullText(None) if engine == "whoosh" else Fts5FullText(None)


def main() -> None:
    arguments = parse()
    make = maker(arguments.engine, arguments.vectors)
    fulltext.ASKED = arguments.asked
    if arguments.plain:
        fulltext.ratios = plain_ratios
    data = {name: load(Path(arguments.data), name) for name in names(Path(arguments.data))}
    foreign = {name: [probe for other in data if other != name for probe in data[other].probes] for name in data}
    engines = {name: make() for name in data}
    for name, engine in engines.items():
        engine.apply(data[name].documents, (), stamp="1")
    balance = 0.0
    if arguments.engine == SEMANTIC:
        balance = balance_of(engines, data)
        make = partial(make, balance)
    results = {}
    for name, engine in engines.items():
        engine.balance = balance  # to the others it means nothing
        results[name] = judge(engine, data[name].probes, foreign[name])
        by_kind(name, data[name].probes, results[name][0], plain.fts5(data[name].documents))

    allowed = FALSE_ANSWERS_JOINED if arguments.engine == SEMANTIC else FALSE_ANSWERS
    cut = cut_for((xs[::2] for _, xs in results.values()), allowed - MARGIN)
    repeats = [(1.0, [one.best_repeat for one in judged[::2]]) for judged, _ in results.values()]
    a = slope([*repeats, *((0.0, xs[::2]) for _, xs in results.values())], cut)
    b = log(CUT / (1 - CUT)) - a * cut
    weights = f"{a:.3f}, {a * balance:.3f}, {b:.3f}" if arguments.engine == SEMANTIC else f"{a:.3f}, {b:.3f}"
    print(f'\n"{arguments.engine}": ({weights})   relevance {CUT} at x = {cut:.3f}\n')
    show(results, cut)
    reliability(results, a, b)
    for size in SMALL:
        for name, one in data.items():
            report(f"{name}, vaults of {size}", cut, *small_vaults(make, one, foreign[name], size))


if __name__ == "__main__":
    main()
