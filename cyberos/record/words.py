"""What words say of how it went: a user's next turn, and the agent's last.

    "Perfect, it works now"                  -> good
    "No, the tests still fail"               -> bad
    "Thanks!", "Now add the docs", "Works?"  -> nothing

A user's word verifies, so it has to be plain: praise with a `but`, a question, or a wish says nothing. An agent's word
is only ever a claim; it is believed at once where it admits a failure.

Source: DESIGN section 7.
"""

from __future__ import annotations

import re

GOOD, BAD, NOTHING = "good", "bad", ""

_HEAD = 300  # characters in which a verdict stands; what comes later is the next task
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_LEAD = r"""(?:(?:ok(?:ay)?|yes|yep|yeah|ah|oh|great|cool|nice|thanks?(?:\ (?:you|a\ lot|so\ much))?|good|wow|hm+|hey
    |sorry
    |and|well|done)[,!.\ ]+)*"""
_THING = r"""(?:it|that|this|everything|all(?:\ of\ it|\ tests?)?|(?:the\ )?(?:tests?|build|fix|code|app|page|script
    |patch)
    (?:\ suite)?)"""
_GOOD = re.compile(
    _LEAD
    + r"(?:"
    + _THING
    + r"""\ (?:all\ |now\ |really\ |just\ )*(?:works?|(?:is|are)\ working|worked|pass(?:es|ed)?
        |(?:is|are)\ fixed|did\ it|did\ the\ trick|solved\ it|fixed\ it|is\ (?:correct|right)
        |looks\ (?:good|great|perfect|right|correct))
    | works?(?:\ (?:now|perfectly|great|fine|well|like\ a\ charm|as\ expected))\b | works\Z
    | (?:all\ )?(?:fixed|solved|confirmed|working)(?:\ now)?\Z | all\ (?:green|good|tests?\ pass(?:es|ed)?) | ship\ it
    | perfect(?:ly)? | lgtm | looks\ good(?:\ to\ me)? | excellent | awesome | well\ done
    | (?:great|good|nice)\ (?:job|work) | exactly\ (?:right|what\ i\ (?:wanted|needed|asked\ for))
    | i\ (?:can\ )?confirm\ (?:it|that|this).{0,20}?\ works
    | that's\ (?:it|right|correct|perfect|exactly\ (?:it|right|what\ i\ (?:wanted|needed)))
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_BAD = re.compile(
    r"\A"
    + _LEAD
    + r"""(?:nope|wrong|no[,!.\ ]+(?!problem|worries|thank|need|rush|more|further|wait)
        |(?:that|this|it)(?:'s|\ is|\ was)(?:\ still)?\ (?:wrong|broken|incorrect|not\ (?:right|correct|what|working
        |fixed)))
    | \b(?:does|did|do|is|are|was|were)(?:n't|\ not)\ (?:work|fix|compile|build|pass|run|help|solve|start|right|correct)
    | \bstill\ (?:fail(?:s|ing)?|broken|not|wrong|see(?:ing)?|get(?:ting)?|crash\w*|the\ same|doesn't|does\ not
    |errors?|red)\b
    | \byou\ (?:broke|forgot|missed|deleted)\b | \Aplease\ (?:revert|undo)\b | \A(?:revert|undo|roll\ back)\b
    | \bnot\ what\ i\ (?:asked|wanted|meant)\b | \b(?:tests?|build|ci|it)\ (?:now\ )?(?:fails?|crashes|(?:is
    |are)\ failing)\b
    | \bnow\ (?:fails|broken|crashes)\b | \bthat's\ not\ (?:it|right|correct|what)\b | \bsame\ (?:error|problem|issue)\b
    | \bnot\ (?:working|fixed|perfect|good)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_BUT = re.compile(
    r"""\b(?:but|however|except|although|though|yet|unless|not\ quite|almost|nearly|besides|only\ problem|if|until|when
    |should|would|could|make\ sure|ensure|check|does)\b""",
    re.IGNORECASE | re.VERBOSE,
)
# what may stand before a failure that is to be looked into, and is no verdict on the work before
_AHEAD = re.compile(
    r"""\b(?:if|in\ case|when(?:ever)?|should|unless|until|why|what|how|because|fix|so\ that|currently|find\ out
    |investigate|make\ sure|ensure|see|check|add|write)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_ADMITS = re.compile(
    r"""\b(?:(?:i|we)\ (?:was|were|am|are)\ (?:not\ able|unable)\ to\ (?:fix|find|complete|solve|reproduce|get|make
    |finish
        |resolve|implement|do) | (?:i|we)\ (?:could\ not|couldn't|cannot|can't|did\ not\ manage\ to|failed\ to
        |didn't)\ (?:fix
        |find|complete|solve|reproduce|get|make|finish|resolve|implement|do\ (?:this|that|it)) | giving\ up | gave\ up
    | (?<!no\ )(?:tests?|build)\ (?:still\ )?(?:fails?|(?:are|is)\ (?:still\ )?failing|(?:do|does)\ not\ pass
    |don't\ pass)
    | still\ (?:fails|failing|broken) | not\ yet\ (?:fixed|working|solved|complete|finished))\b""",
    re.IGNORECASE | re.VERBOSE,
)
_DENIES = re.compile(
    r"\b(?:no longer|not any ?more|used to|previously|before|would|could have|if|without|had|were|was failing)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\?\s*\Z")
_URGES = re.compile(
    r"""\s*(?:(?:yes|ok|okay|sure|please|go|thanks|thank\ you|great|no)[,!.\ ]+)*(?:continue|go\ (?:on|ahead)|proceed
    |keep\ going|try\ again|retry|do\ it|carry\ on|resume|thanks?(?:\ (?:you|a\ lot|so\ much|very\ much))*[.!\ ]*\Z)""",
    re.IGNORECASE | re.VERBOSE,
)
_LEAST_WORDS = 3  # of a turn that asks for something


def verdict(text: str) -> str:
    """Tell whether a user's turn says that the work before it is good, or bad, or neither."""
    seen = NOTHING
    for sentence in _SENTENCE.findall(text[:_HEAD].replace("\u2019", "'"))[:4]:
        plain = sentence.strip(" ,;:-\t\r")
        if plain.endswith("?"):
            continue
        plain = plain.rstrip(".!")
        bad = _BAD.search(plain)
        if bad and not _AHEAD.search(plain[: bad.start()]):
            return BAD
        if seen == NOTHING and _GOOD.match(plain):
            seen = NOTHING if _BUT.search(plain) else GOOD
        elif seen == GOOD and _BUT.match(plain):
            seen = NOTHING
    return seen


def admission(text: str) -> str:
    """Give the sentence in which an agent's last words admit a failure, or the empty string."""
    for found in _SENTENCE.finditer(text[-4_000:].replace("\u2019", "'")):
        sentence = found.group()
        if _ADMITS.search(sentence) and not _DENIES.search(sentence):
            return sentence.strip(" -*#\t")[:300]
    return ""


def is_question(text: str) -> bool:
    """Report whether an agent's last words ask something, so that its turn is not the end of the work."""
    return _ASKS.search(text.rstrip(" *_`\"')\n")[-200:]) is not None


def opens_task(text: str) -> bool:
    """Report whether a user's turn asks for something new, and does not only judge, thank, answer or urge on."""
    judged = verdict(text)
    rest = _GOOD.sub("", text, count=1) if judged == GOOD else text
    return judged != BAD and len(re.findall(r"\w+", rest)) >= _LEAST_WORDS and _URGES.match(text) is None
