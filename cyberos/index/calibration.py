"""One scale of relevance for every engine: 0.65 lets through the same share of false answers, whichever answers.

    relevance(engine, x) = 1 / (1 + exp(-(a * x + b)))        x: the engine's own signal in [0, 1]

Source: DESIGN section 6; the constants are what `bench/calibrate.py` prints on the public pairs it names.
"""

from __future__ import annotations

from math import exp
from types import MappingProxyType

# Raised with any change of a constant or of what an engine's x means: recorded answers are then not comparable.
VERSION = 1

# The x at which relevance is CUT lets through at most this share of the best hits for work of a foreign kind.
CUT = 0.65
FALSE_ANSWERS = 0.05

CONSTANTS = MappingProxyType({"whoosh": (8.582, -3.113), "fts5": (8.582, -3.113)})

# Of the joined engine, by family of embedders: the weights of meaning and of words, and the bias.
JOINED = MappingProxyType({"minilm": (2.5, 3.75, -1.2), "hash": (1.0, 3.75, -1.2)})


def relevance(engine: str, x: float) -> float:
    """Return how much more like a repeat than like the best hit for work never done, in [0, 1].

    Raises: KeyError for an engine that was never calibrated.
    """
    a, b = CONSTANTS[engine]
    # sigmoid(a * x + b)
    return 1 / (1 + exp(-(a * x + b)))
