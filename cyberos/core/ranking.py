"""How hits are ordered: arithmetic alone, with no reading and no clock.

Only a pool of near-equals is reordered by what a memory's fields say; text decides who is in the pool. With an intent
whatever tried the same tasks as the k most relevant is near too, and the pool is the best of them by the score.

    without an intent   0.4·relevance + 0.3·quality + 0.3·recency
    with an intent      relevance · (0.3 + 0.7·recency) · outcome_weight[label] · reinforcement

Source: TASK-MEMORY-112 section 1 (combined score, DEC-181) and section 11 (over-fetch of 4k); seed 000, `recall.py`;
DESIGN section 6. Park et al., Generative Agents (2023), for 0.995 an hour.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WEIGHTS = (0.4, 0.3, 0.3)
NO_OPINION = 0.5  # DEC-181: what an absent quality_score counts as
OVERFETCH = 4
BAND = 0.01  # in log-odds: how far below the k-th hit another still counts as near it; by measurement, ADR 0011
_SURE = 1e-15

INTENTS = ("any", "what_worked", "what_failed")
RECENCIES = ("none", "park", "half-life")
RECENCY_FLOOR = 0.3
HALF_LIFE_DAYS = 30.0
PARK_HOURLY = 0.995

OUTCOME_WEIGHT = {
    "any": {
        "success": 1.0, "claimed_success": 0.8, "partial": 0.8, "failure": 0.9, "abandoned": 0.6, "unknown": 0.7,
    },
    "what_worked": {
        "success": 1.0, "claimed_success": 0.7, "partial": 0.5, "failure": 0.2, "abandoned": 0.2, "unknown": 0.4,
    },
    "what_failed": {
        "failure": 1.0, "abandoned": 0.8, "partial": 0.6, "unknown": 0.3, "claimed_success": 0.2, "success": 0.1,
    },
}  # fmt: skip


def combined_score(
    relevance: float, quality_score: float | None, recency: float, weights: Sequence[float] = WEIGHTS
) -> float:
    """Weigh a hit without an intent; all parts and the result are in [0, 1]."""
    quality = NO_OPINION if quality_score is None else quality_score
    # combined = 0.4·relevance + 0.3·quality + 0.3·recency
    return relevance * weights[0] + quality * weights[1] + recency * weights[2]


def recency(kind: str, age_hours: float, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """Give how fresh something is, in (0, 1]; `kind` is none, park or half-life. What lies ahead is fresh."""
    age_hours = max(0.0, age_hours)
    if kind == "park":
        # recency = 0.995^hours
        return float(PARK_HOURLY**age_hours)
    if kind == "half-life":
        # recency = 0.5^(age / half-life)
        return float(0.5 ** (age_hours / 24 / half_life_days))
    return 1.0


def damped(freshness: float) -> float:
    """Keep an old but perfect match reachable: never below the floor."""
    # 0.3 + 0.7·recency
    return RECENCY_FLOOR + (1 - RECENCY_FLOOR) * freshness


def reinforcement(uses: int) -> float:
    """Give the bonus of what was recalled before, in [1, 1.2]."""
    # 1 + min(0.2, ln(1 + uses) / 10)
    return 1.0 + min(0.2, math.log1p(uses) / 10.0)


def intent_score(relevance: float, freshness: float, label: str, uses: int, intent: str) -> float:
    """Weigh a hit for an intent; `label` is one of the six of `core.labels`. In [0, 1.2]."""
    # relevance · (0.3 + 0.7·recency) · outcome_weight[label] · reinforcement
    return relevance * damped(freshness) * OUTCOME_WEIGHT[intent][label] * reinforcement(uses)


def log_odds(relevance: float) -> float:
    """Give ln(r / (1 - r)), in [-35, 35]: it still tells hits apart that are all but certain, or all but out."""
    relevance = min(max(relevance, _SURE), 1 - _SURE)
    return math.log(relevance / (1 - relevance))


def is_in_pool(relevance: float, kept: Sequence[float], k: int) -> bool:
    """Report whether the next best hit joins those `kept` (relevances, falling).

    The pool is the k best and whatever lies within the band below the k-th, never more than 4k.
    """
    return len(kept) < OVERFETCH * k and is_near(relevance, kept, k)


def is_near(relevance: float, kept: Sequence[float], k: int) -> bool:
    """Report whether a hit lies within the band below the k-th of those `kept`, or there is no k-th."""
    if len(kept) < k:
        return True
    # log-odds ≥ log-odds_k - band; the last term forgives rounding in the sum
    return log_odds(relevance) >= log_odds(kept[k - 1]) - BAND - 1e-9


def order(value: float, moment_us: int, path: str) -> tuple[float, int, str]:
    """Give the sort key of a hit by a score, or by the log-odds of its relevance: the highest first, then the newer."""
    return -round(value, 9), -moment_us, path
