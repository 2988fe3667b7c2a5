"""How much a word tells and proves: its idf in this vault, with a thousand unseen episodes beside it.

    idf(t) = ln(1 + (N' - n' + 0.5) / (n' + 0.5))      N' = N + 1000, n' = n(t) + 1000 * background share of t

A vault of one episode knows nothing of which words are common. So each is counted as if 1,000 unseen episodes stood
beside it, of which all hold the labels of the document and a third each outcome; a large vault outweighs them.

What a query proves is counted more warily: in the unseen episodes half hold each stop word too, and a fifth each of the
words that any task may have. They do not touch the weights by which hits are ordered: there it costs recall.

Source: Lucene's idf, which is never negative.
"""

from __future__ import annotations

from math import log

from cyberos.index.tokens import STOP_WORDS, terms

BACKGROUND = 1000
# nats: what a word tells that one episode holds and none of the background; rarer ones tell more
ENOUGH = 6.5
# nats: two of them are not enough, three nearly are
LEAST = 1.7

_LABELS = "Task Approach Outcome Notes Lesson"
_OUTCOMES = "success partial failure"
_ANYWHERE = """
    add build change check code create data delete error file find fix function get issue list make new number print
    problem project read remove replace run set show start test try update use user work write
"""
_ORDERING = dict.fromkeys(terms(_OUTCOMES), BACKGROUND // 3) | dict.fromkeys(terms(_LABELS), BACKGROUND)
_PROVING = dict.fromkeys(terms(_ANYWHERE), BACKGROUND // 5) | dict.fromkeys(STOP_WORDS, BACKGROUND // 2) | _ORDERING


def idf(term: str, frequency: int, documents: int) -> float:
    """Return how much a term tells one document from another, in nats; above 0 even when every document holds it."""
    return _idf(frequency, documents, _ORDERING.get(term, 0))


def proof(term: str, frequency: int, documents: int) -> float:
    """Return how much it proves that a document holds a term, in nats; of a word not of the background, LEAST or more.

    In a vault of one task no word tells anything by its idf, yet some together name that task.
    """
    proven = _idf(frequency, documents, _PROVING.get(term, 0))
    return proven if term in _PROVING else max(LEAST, proven)


def _idf(frequency: int, documents: int, background: int) -> float:
    # idf(t) = ln(1 + (N' - n' + 0.5) / (n' + 0.5))
    return log(1 + (documents + BACKGROUND - frequency - background + 0.5) / (frequency + background + 0.5))
