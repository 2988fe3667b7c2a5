"""How much a word tells: its idf in this vault, with a thousand unseen episodes beside it.

    idf(t) = ln(1 + (N' - n' + 0.5) / (n' + 0.5))      N' = N + 1000, n' = n(t) + 1000 * background share of t

A vault of one episode knows nothing of which words are common. So each is counted as if 1,000 unseen episodes stood
beside it, of which all hold the labels of the document, half each stop word, a third each outcome and a tenth each of
the words that any task may have; a large vault outweighs them.

Source: Lucene's idf, which is never negative.
"""

from __future__ import annotations

from math import log

from cyberos.index.tokens import STOP_WORDS, terms

BACKGROUND = 1000
# nats: a little more than a word tells that one episode of a small vault holds and none of the background (6.5)
ENOUGH = 8.0
# nats: what a word tells at least that is none of the background's: two of them are not enough, three nearly are
LEAST = 1.7

_LABELS = "Task Approach Outcome Notes Lesson"
_OUTCOMES = "success partial failure"
_ANYWHERE = """
    add build change check code create data delete error file find fix function get issue list make new number print
    problem project read remove replace run set show start test try update use user work write
"""
_FREQUENCY = (
    dict.fromkeys(terms(_ANYWHERE), BACKGROUND // 10)
    | dict.fromkeys(STOP_WORDS, BACKGROUND // 2)
    | dict.fromkeys(terms(_OUTCOMES), BACKGROUND // 3)
    | dict.fromkeys(terms(_LABELS), BACKGROUND)
)


def idf(term: str, frequency: int, documents: int) -> float:
    """Return how much a term tells, in nats; above 0 even when every document holds it."""
    background = _FREQUENCY.get(term, 0)
    # idf(t) = ln(1 + (N' - n' + 0.5) / (n' + 0.5))
    return log(1 + (documents + BACKGROUND - frequency - background + 0.5) / (frequency + background + 0.5))


def least(term: str) -> float:
    """Return how much a term tells at least, in nats, beside others: nothing if any task may have it."""
    return 0.0 if term in _FREQUENCY else LEAST
