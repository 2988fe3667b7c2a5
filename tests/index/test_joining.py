"""The joined relevance: its shape, which must hold whatever the constants are, and the cases that it is made for."""

from __future__ import annotations

from math import exp, log

import pytest

from cyberos.index import joining
from cyberos.index.calibration import CUT, JOINED
from cyberos.index.fulltext import Plan
from cyberos.index.joining import QuerySignals, relevances

LONG = QuerySignals(40.0)
STEPS = [number / 20 for number in range(21)]


def one(cosine, ratio, query=LONG, family="minilm"):
    return relevances(family, [cosine], [ratio], query)[0]


def test_by_hand():
    """The formula of the module, written out once more."""
    meaning, words, bias = JOINED["minilm"]
    x = meaning * -log(1.1 - 0.8) + words * -log(1.1 - 0.5 * 40 / 46) + bias
    assert one(0.8, 0.5) == pytest.approx(1 / (1 + exp(-x)))


def test_more_of_either_signal_is_never_less():
    for fixed in STEPS:
        for rising in ([one(step, fixed) for step in STEPS], [one(fixed, step) for step in STEPS]):
            assert rising == sorted(rising)
            assert 0 < rising[0] < rising[-1] <= 1


def test_signals_at_their_bounds_and_beyond_by_rounding():
    assert 0 <= one(-1.0, 0.0) < 0.01
    assert one(1.0000002, 1.0000002) == one(1.0, 1.0) > 0.99


def test_one_signal_is_enough_when_it_is_sure():
    """A paraphrase shares few words; what one slot tells apart is alike in meaning."""
    assert one(0.85, 0.2) > CUT
    assert one(0.35, 0.9) > CUT
    assert one(0.35, 0.2) < CUT


def test_near_the_top_a_difference_in_words_outweighs_one_in_meaning():
    """Siblings of a template: the true one holds the word of the slot, the other is a little nearer by cosine."""
    assert one(0.90, 0.95) > one(0.93, 0.75)
    assert one(0.80, 0.20) > one(0.70, 0.25)


def test_words_that_prove_little_count_little():
    """`fix` found whole is not as good as a sentence found whole, and a rare name stands between."""
    common, rare = QuerySignals(0.7), QuerySignals(8.9)
    assert one(0.2, 1.0, common) < CUT / 2
    assert one(0.2, 1.0, common) < one(0.2, 1.0, rare) < one(0.2, 1.0, LONG)


def test_the_signals_of_a_query_come_from_its_plan():
    assert joining.signals(Plan((("a", 3.0), ("b", 1.0)), 6.0, 5.0)) == QuerySignals(6.0)


def test_no_candidates():
    assert relevances("minilm", [], [], QuerySignals(0.0)) == []
    assert relevances("unknown", [], [], QuerySignals(0.0)) == []


def test_a_query_with_no_words_is_judged_by_meaning():
    assert one(0.95, 0.0, QuerySignals(0.0)) > one(0.4, 0.0, QuerySignals(0.0))


def test_a_model_whose_cosines_crowd_is_brought_to_scale():
    """Such a model gives 0.75 to texts that have nothing to do with each other: these are no answers."""
    crowded = [0.75 + number / 1000 for number in range(20)] + [0.95]
    found = relevances("other", crowded, [0.0] * 20 + [0.4], LONG)
    assert max(found[:-1]) < CUT < found[-1]


def test_a_model_of_the_usual_scale_is_left_as_it_is():
    spread = [0.05 + number / 100 for number in range(20)]
    assert relevances("other", spread, [0.1] * 20, LONG) == relevances("minilm", spread, [0.1] * 20, LONG)


def test_few_candidates_say_nothing_of_a_models_scale():
    assert relevances("other", [0.9], [0.2], LONG) == relevances("minilm", [0.9], [0.2], LONG)
