"""What quality and recency cost: recall@3 of the default ranking beside relevance alone, for each width of the band.

`python bench/ranking.py --data DIR [--vectors FILE.npz]` asks for every probe with the scores that the rows have
(4,749 of nl2bash do, the others count as 0.5) and with scores drawn at random, five draws, of which the worst is
shown. Recency is 1.0, as by default. At most 2 points may be lost.
"""

from __future__ import annotations

import argparse
import os
import random
from math import exp
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from probes import Data, load, names, recall_at_3
from semantic import Semantic, Vectors

from cyberos.core import ranking
from cyberos.index.calibration import CUT, JOINED, relevance
from cyberos.index.fulltext_fts5 import Fts5FullText

if TYPE_CHECKING:
    from collections.abc import Callable

    Hits = list[tuple[str, float]]

BANDS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
DRAWS = 5
K = 3
DEPTH = 50


def judges(data: Data, vectors: Vectors) -> dict[str, Callable[[str], Hits]]:
    """Give what answers a query with (path, relevance), best first."""
    a, words, b = JOINED["minilm"]
    joint, text = Semantic(vectors, words / a), Fts5FullText(None)
    for engine in (joint, text):
        engine.apply(data.documents, (), stamp="1")

    def semantic(query: str) -> Hits:
        return [(hit.path, 1 / (1 + exp(-(a * hit.ratio + b)))) for hit in joint.search(query, limit=DEPTH)]

    def fts5(query: str) -> Hits:
        hits = text.search(query, kind="episode", scope=None, limit=DEPTH)
        return [(hit.path, relevance(text.name, hit.ratio)) for hit in hits]

    return {"semantic": semantic, "fts5 and whoosh": fts5}


def ranked(hits: Hits, scores: dict[str, Any], least: float) -> list[str]:
    """Do what recall does: cut, pool, reorder."""
    pool: list[tuple[str, float]] = []
    for path, value in hits:
        if value < least or not ranking.is_in_pool(value, [one for _, one in pool], K):
            break
        pool.append((path, value))
    return [path for path, _ in sorted(pool, key=lambda hit: -ranking.combined_score(hit[1], scores.get(hit[0]), 1.0))][
        :K
    ]


def recall(data: Data, answers: list[Hits], scores: dict[str, Any], least: float) -> float:
    return mean(
        recall_at_3(ranked(hits, scores, least), probe.relevant)
        for hits, probe in zip(answers, data.probes, strict=True)
    )


def draws(data: Data) -> list[dict[str, float]]:
    found = []
    for seed in range(DRAWS):
        chance = random.Random(seed)
        found.append({row.path: chance.random() for row in data.documents})
    return found


def table(data: Data, vectors: Vectors) -> None:
    own = {row["tags"][0]: row.get("quality_score") for row in data.rows}
    drawn = draws(data)
    for name, ask in judges(data, vectors).items():
        answers = [ask(probe.query) for probe in data.probes]
        for least in (0.0, CUT):
            alone = mean(
                recall_at_3([path for path, value in hits if value >= least], probe.relevant)
                for hits, probe in zip(answers, data.probes, strict=True)
            )
            print(f"\n{data.name}, {name}, from {least:g}: relevance alone {alone:.3f}")
            for band in BANDS:
                ranking.BAND = band
                random_worst = min(recall(data, answers, scores, least) for scores in drawn)
                theirs = recall(data, answers, own, least)
                print(
                    f"  band {band:<6g} own scores {theirs:.3f} ({theirs - alone:+.3f})   random, worst of {DRAWS} "
                    f"{random_worst:.3f} ({random_worst - alone:+.3f})"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("CYBEROS_BENCH_DATA"), help="folder with episodes and probes")
    parser.add_argument("--vectors", type=Path, help="keep the vectors in this .npz")
    arguments = parser.parse_args()
    if not arguments.data:
        parser.error("name the folder with --data or CYBEROS_BENCH_DATA")
    vectors = Vectors(arguments.vectors)
    for name in names(Path(arguments.data)):
        table(load(Path(arguments.data), name), vectors)


if __name__ == "__main__":
    main()
