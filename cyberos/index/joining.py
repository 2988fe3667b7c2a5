"""What meaning and words say of a candidate, joined into one relevance in [0, 1].

    relevance = sigmoid(meaning * sure(cosine) + words * sure(ratio * mass / (mass + DOUBT)) + bias)
    sure(x)   = -ln(1 + NEAR - x)

Cosine is the embedder's, ratio the full-text engine's own signal (`cyberos.index.fulltext`); both are known for every
candidate, whichever of the two proposed it. `sure` bends both: from 0.2 to 0.4 is next to nothing, from 0.8 to 1 is
nearly the same text. So where words match nearly whole they decide (one slot of a template, a name, an error), where
they hardly do meaning decides (a paraphrase), with two weights and no rule for a kind of query. Features of the query
that were tried beside them (number of terms, how peaked each signal is, how well the best hit covers the query,
z-scores within the query, ranks) gave nothing on held-out probes; ADR 0011 has the figures.

`mass` is the sum of the query's idf: few or common words prove little even when all of them are found.

Source: DESIGN section 6 (relevance); the constants are what `bench/calibrate.py --engine semantic` prints.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from cyberos.index.calibration import JOINED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyberos.index.fulltext import Plan

NEAREST = 50  # candidates by cosine
WORDIEST = 50  # candidates by words
NEAR = 0.1
DOUBT = 6.0  # nats: about the idf of a word that one episode of a small vault holds

KNOWN = "minilm"
_UNRELATED = 0.2  # the cosine of unrelated texts under the model that was calibrated
_MANY = 10


class QuerySignals(NamedTuple):
    """What a query itself tells of how far its words can be trusted: the sum of the idf of its terms, in nats."""

    mass: float


def signals(plan: Plan) -> QuerySignals:
    """Give the signals of a query from the plan that the full-text engine made for it."""
    return QuerySignals(plan.whole)


def sure(x: float) -> float:
    """Bend a signal of at most 1, so that what is near 1 counts most."""
    # -ln(1 + NEAR - x)
    return -log(1 + NEAR - min(1.0, x))


def evidence(ratio: float, query: QuerySignals) -> float:
    """Give the words' signal: the ratio as if the query had one more word that nothing holds."""
    # ratio * mass / (mass + DOUBT)
    return ratio * query.mass / (query.mass + DOUBT)


def relevances(family: str, cosine: Sequence[float], ratio: Sequence[float], query: QuerySignals) -> list[float]:
    """Give the relevance of each candidate, in their order; cosine in [-1, 1], ratio in [0, 1], 0 for no word shared.

    `family` is the embedder's. One that was never calibrated is weighed as minilm is, its cosines brought to the same
    scale: what many candidates have at least is what unrelated texts have.
    """
    meaning, words, bias = JOINED.get(family, JOINED[KNOWN])
    floor = 0.0 if family in JOINED else _floor(cosine)
    return [
        # sigmoid(meaning * sure(cosine) + words * sure(evidence) + bias)
        1 / (1 + exp(-(meaning * sure(_lowered(c, floor)) + words * sure(evidence(r, query)) + bias)))
        for c, r in zip(cosine, ratio, strict=True)
    ]


def _floor(cosine: Sequence[float]) -> float:
    return max(0.0, min(cosine) - _UNRELATED) if len(cosine) >= _MANY else 0.0


def _lowered(cosine: float, floor: float) -> float:
    """Stretch [floor, 1] to [0, 1]."""
    return (cosine - floor) / (1 - floor) if floor < 1 else cosine
