"""How well each engine finds what was done before: `python bench/quality.py --data DIR [--vectors FILE.npz]`.

One run asks all of them for the same probes: the joined engine with its constants, both full-text engines, cosine
alone, and plain FTS5 with a porter stemmer and without stop words. The constants were fitted on every second probe of
each kind (`bench/calibrate.py`); the others are reported. Kinds marked * are made (`probes`). The last column is the
joined engine less the best single signal, words or cosine.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import plain
from probes import CHANGES, Data, Probe, load, made, names, recall_at_3, reciprocal_rank
from semantic import Semantic, Vectors

from cyberos.index.calibration import JOINED
from cyberos.index.fulltext_fts5 import Fts5FullText
from cyberos.index.fulltext_whoosh import WhooshFullText

if TYPE_CHECKING:
    from collections.abc import Callable

    from cyberos.index.fulltext import FullText

    Search = Callable[[str], list[str]]

DEPTH = 12
JOINT, COSINE = "semantic", "cosine"
WORDS = ("whoosh", "fts5")
MADE = {*CHANGES, "one_slot", "part"}


def engines(data: Data, vectors: Vectors) -> dict[str, Search]:
    meaning, words, _ = JOINED["minilm"]
    joint = Semantic(vectors, words / meaning)
    texts: list[FullText] = [WhooshFullText(None), Fts5FullText(None)]
    for engine in (joint, *texts):
        engine.apply(data.documents, (), stamp="1")

    def paths(engine: FullText) -> Search:
        return lambda query: [hit.path for hit in engine.search(query, kind="episode", scope=None, limit=DEPTH)]

    return {
        JOINT: lambda query: [hit.path for hit in joint.search(query, limit=DEPTH)],
        **{engine.name: paths(engine) for engine in texts},
        COSINE: lambda query: joint.nearest(query, DEPTH),
        "plain fts5": plain.fts5(data.documents),
    }


def halves(probes: list[Probe]) -> dict[str, list[Probe]]:
    """Give the probes of each kind that fitted nothing."""
    kinds = defaultdict(list)
    for probe in probes:
        kinds[probe.kind].append(probe)
    return {kind: rows[1::2] for kind, rows in kinds.items()}


def line(label: str, found: dict[str, list[list[str]]], probes: list[Probe], *, deep: bool = False) -> str:
    measure = reciprocal_rank if deep else recall_at_3
    means = {
        name: mean(measure(paths, probe.relevant) for paths, probe in zip(rows, probes, strict=True))
        for name, rows in found.items()
    }
    gain = means[JOINT] - max(means[name] for name in (*WORDS, COSINE))
    return (
        f"| {label} | {len(probes)} | " + " | ".join(f"{value:.3f}" for value in means.values()) + f" | {gain:+.3f} |"
    )


def table(data: Data, vectors: Vectors) -> None:
    searches = engines(data, vectors)
    print(f"\n| {data.name}, recall@3 | probes | " + " | ".join(searches) + " | gain |")
    print("|---|" + "---:|" * (len(searches) + 2))
    own = halves(data.probes)
    answers = {}
    for kind, probes in (own | halves(made(data))).items():
        answers[kind] = {name: [search(one.query) for one in probes] for name, search in searches.items()}
        print(line(kind + "*" * (kind in MADE), answers[kind], probes), flush=True)
    every = [probe for probes in own.values() for probe in probes]
    joined = {name: [paths for kind in own for paths in answers[kind][name]] for name in searches}
    print(line("**all that were not made**", joined, every))
    print(line("the same, MRR", joined, every, deep=True))


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
