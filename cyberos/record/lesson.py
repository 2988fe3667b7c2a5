"""Whether a lesson is one: it says more than its task does, and nothing that the run does not bear out.

    restates("Add rate limiting to the search endpoint.", task)      -> True: every telling word is the task's own
    is_grounded("Port 9999 must be open first.", transcript)         -> False: no 9999 in the transcript

A fabricated lesson is a confidently wrong instruction to every later run, so doubt empties it.

Source: seed 000 sections 2 (what the episode text says) and "Failure modes"; DESIGN section 7.
"""

from __future__ import annotations

import re

from cyberos.index import tokens

_NOTHING = re.compile(
    r"(?:none|n/?a|null|nil|nothing|empty|no(?: new| specific| particular| clear)? lessons?(?: learn(?:ed|t))?"
    r"|there (?:is|was) (?:nothing|no lesson)|not applicable|nothing (?:to|worth)(?: \w+){0,4})",
    re.IGNORECASE,
)
_AROUND = " \t\n.!-\u2013\u2014*_`'\"()[]"
_RESTATED = 0.8  # share of a lesson's telling words that stand in its task
_GROUNDED = 0.5  # share of them that stand in the transcript
# what a run must have shown letter for letter: numbers, paths, flags, identifiers, what stands in backticks
_EXACT = re.compile(r"`([^`]+)`|((?:--?)?[\w./\\:@-]*(?:\d|[\w]_[\w]|[\w][./\\][\w]|\B--?[a-z])[\w./\\:@=-]*)")


def is_nothing(lesson: str) -> bool:
    """Report whether a lesson says in so many words that there is none."""
    bare = lesson.strip(_AROUND)
    return not bare or _NOTHING.fullmatch(bare) is not None


def restates(lesson: str, task: str) -> bool:
    """Report whether a lesson says nothing that its task does not."""
    own, known = _telling(lesson), _telling(task)
    return len(own & known) >= _RESTATED * len(own)


def is_grounded(lesson: str, transcript: str) -> bool:
    """Report whether a lesson speaks of what the transcript holds; its numbers, paths and names must stand there."""
    shown = " ".join(transcript.casefold().split())
    for quoted, word in _EXACT.findall(lesson):
        if " ".join((quoted or word).casefold().split()).strip(".,:;") not in shown:
            return False
    own = _telling(lesson)
    return len(own & _telling(transcript)) >= _GROUNDED * len(own)


def _telling(text: str) -> set[str]:
    return set(tokens.content(tokens.terms(text)))
