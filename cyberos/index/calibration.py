"""One scale of relevance for every engine: 0.65 lets through the same share of false answers, whichever answers.

    relevance(engine, x) = 1 / (1 + exp(-(a * x + b)))        x: the engine's own signal in [0, 1]

How the two signals of the joined engine become one is in `joining`; its constants stand here beside the others.

Source: DESIGN section 6; ADR 0011; the constants are what `bench/calibrate.py` prints on the public pairs it names.
"""

from __future__ import annotations

from math import exp
from types import MappingProxyType

# Raised with any change of a constant or of what an engine's x means: recorded answers are then not comparable.
VERSION = 2

# The x at which relevance is CUT lets through at most this share of the best hits for work of a foreign kind:
# words alone, and words joined with meaning.
CUT = 0.65
FALSE_ANSWERS = 0.05
FALSE_ANSWERS_JOINED = 0.03

# Both engines bring the same x: the maths and the rounding are shared (`fulltext`).
CONSTANTS = MappingProxyType({"whoosh": (13.003, -4.202), "fts5": (13.003, -4.202)})

# Of the joined engine, by family of embedders: the weights of meaning and of words, and the bias. Those of `hash` are
# chosen, not fitted: it is for tests.
JOINED = MappingProxyType({"minilm": (6.391, 12.783, -4.544), "hash": (3.0, 12.783, -3.0)})


def relevance(engine: str, x: float) -> float:
    """Return how much more like a repeat than like the best hit for work never done, in [0, 1].

    Raises: KeyError for an engine that was never calibrated.
    """
    a, b = CONSTANTS[engine]
    # sigmoid(a * x + b)
    return 1 / (1 + exp(-(a * x + b)))
