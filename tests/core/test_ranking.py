"""The arithmetic of ranking, against the formulas of the seeds."""

from __future__ import annotations

import math

import pytest

from cyberos.core import ranking
from cyberos.core.labels import LABELS
from cyberos.core.settings import SETTINGS


def test_the_combined_score_is_the_weighted_sum():
    assert ranking.combined_score(0.84, 0.92, 1.0) == pytest.approx(0.912)  # the seed's example, which says 0.910
    assert ranking.combined_score(1, 1, 1) == pytest.approx(1)
    assert ranking.combined_score(0, 0, 0) == 0


def test_ac13_an_absent_quality_counts_as_one_half():
    absent = ranking.combined_score(0.8, None, 1.0)
    assert absent == ranking.combined_score(0.8, 0.5, 1.0)
    assert ranking.combined_score(0.8, 0.4, 1.0) < absent < ranking.combined_score(0.8, 0.9, 1.0)


def test_a_quality_of_zero_is_not_an_absent_one():
    assert ranking.combined_score(0.8, 0.0, 1.0) == pytest.approx(0.62)


def test_weights_may_be_others():
    assert ranking.combined_score(0.5, 1.0, 0.0, (0.2, 0.8, 0.0)) == pytest.approx(0.9)
    assert list(ranking.WEIGHTS) == SETTINGS["weights"].default
    assert sum(ranking.WEIGHTS) == pytest.approx(1)


def test_recency_none_park_and_half_life():
    assert ranking.recency("none", 1e6) == 1
    assert ranking.recency("park", 0) == 1
    assert ranking.recency("park", 100) == pytest.approx(0.995**100)
    assert ranking.recency("half-life", 30 * 24) == pytest.approx(0.5)
    assert ranking.recency("half-life", 12, half_life_days=0.5) == pytest.approx(0.5)
    assert ranking.recency("half-life", 1e9) == pytest.approx(0)


@pytest.mark.parametrize("kind", ranking.RECENCIES)
def test_what_lies_ahead_is_fresh(kind):
    assert ranking.recency(kind, -1000) == 1


def test_the_recency_floor_keeps_the_old_reachable():
    assert ranking.damped(0) == pytest.approx(0.3)
    assert ranking.damped(1) == pytest.approx(1)


def test_reinforcement_is_bounded():
    assert ranking.reinforcement(0) == 1
    assert ranking.reinforcement(1) == pytest.approx(1 + math.log(2) / 10)
    assert ranking.reinforcement(10**9) == pytest.approx(1.2)


def test_every_intent_weighs_every_label():
    assert set(ranking.OUTCOME_WEIGHT) == set(ranking.INTENTS)
    assert all(set(weights) == set(LABELS) for weights in ranking.OUTCOME_WEIGHT.values())


def test_the_intents_of_seed_000():
    score = ranking.intent_score
    assert score(0.8, 0.5, "success", 0, "any") == pytest.approx(0.8 * 0.65)
    assert score(0.8, 1.0, "claimed_success", 0, "what_worked") == pytest.approx(0.56)
    assert score(1.0, 1.0, "failure", 0, "what_failed") > score(1.0, 1.0, "success", 0, "what_failed")
    assert score(1.0, 1.0, "success", 0, "what_worked") > score(1.0, 1.0, "claimed_success", 0, "what_worked")
    assert score(1.0, 0.0, "abandoned", 5, "what_failed") == pytest.approx(0.3 * 0.8 * (1 + math.log1p(5) / 10))


def pool(relevances, k):
    kept: list[float] = []
    for relevance in sorted(relevances, reverse=True):
        if not ranking.is_in_pool(relevance, kept, k):
            break
        kept.append(relevance)
    return kept


def below(relevance, distance):
    """Give what lies so far below a relevance, in log-odds."""
    return 1 / (1 + math.exp(distance - ranking.log_odds(relevance)))


def test_hits_that_are_all_but_certain_are_still_told_apart():
    """A sigmoid is flat near 1; a difference in relevance there says nothing, one in log-odds does."""
    sure, surer = 1 - 1e-6, 1 - 1e-9
    assert pool([surer, sure], 1) == [surer]
    assert ranking.log_odds(0.5) == 0
    assert -35 < ranking.log_odds(0.0) < -34 < 34 < ranking.log_odds(1.0) < 35
    assert below(0.8, 0.0) == pytest.approx(0.8)


def test_the_pool_is_the_best_k_and_their_near_equals():
    near = below(0.8, ranking.BAND)
    assert pool([0.9, 0.8, near, near - 0.001, 0.1], 2) == [0.9, 0.8, near]
    assert pool([0.9, 0.8], 5) == [0.9, 0.8]
    assert pool([], 3) == []


def test_the_pool_is_never_above_4k():
    assert len(pool([0.7] * 100, 3)) == 12
    assert len(pool([0.7] * 100, 1)) == 4


def test_far_hits_stay_out_however_good_their_fields():
    assert pool([0.9, 0.5, 0.5], 1) == [0.9]


def test_ties_go_to_the_newer_then_to_the_path():
    hits = [(0.5, 1, "b"), (0.5, 2, "c"), (0.5, 1, "a"), (0.6, 0, "z")]
    assert [hit[2] for hit in sorted(hits, key=lambda hit: ranking.order(*hit))] == ["z", "c", "a", "b"]


def test_rounding_noise_is_a_tie():
    assert ranking.order(0.1 + 0.2, 5, "a") == ranking.order(0.3, 5, "a")
