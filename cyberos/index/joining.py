"""What meaning and words say of a candidate, joined into one relevance in [0, 1].

    relevance = sigmoid(meaning * cosine + words * ratio + bias)

Cosine is the embedder's, ratio the full-text engine's own signal (`cyberos.index.fulltext`); both are known for every
candidate, whichever of the two proposed it.

Source: DESIGN section 6 (relevance); the constants are what `bench/calibrate.py` prints.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, NamedTuple

from cyberos.index.calibration import JOINED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyberos.index.fulltext import Plan

NEAREST = 50  # candidates by cosine
WORDIEST = 50  # candidates by words


class QuerySignals(NamedTuple):
    """What a query itself tells of how far its words can be trusted.

    `terms` counts those asked for, `mass` is the sum of their idf and of the unseen ones' (nats), `unseen` the share of
    the mass that no document holds.
    """

    terms: int
    mass: float
    unseen: float


def signals(plan: Plan) -> QuerySignals:
    """Give the signals of a query from the plan that the full-text engine made for it."""
    seen = sum(weight for _, weight in plan.asked)
    return QuerySignals(len(plan.asked), plan.whole, 1 - seen / plan.whole if plan.whole else 0.0)


def relevances(family: str, cosine: Sequence[float], ratio: Sequence[float], query: QuerySignals) -> list[float]:  # noqa: ARG001
    """Give the relevance of each candidate, in their order; cosine in [-1, 1], ratio in [0, 1], 0 for no word shared.

    `family` is the embedder's: minilm, hash, or any other, which is weighed as minilm is.
    """
    meaning, words, bias = JOINED.get(family, JOINED["minilm"])
    # sigmoid(meaning * cosine + words * ratio + bias)
    return [1 / (1 + exp(-(meaning * c + words * r + bias))) for c, r in zip(cosine, ratio, strict=True)]
