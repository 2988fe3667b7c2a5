"""The one tokenizer: documents and queries become terms here and nowhere else.

    terms("Fix the café login: TASK-AUTH-148 in tokenStore.py")
    -> fix the cafe login task-auth-148 task auth 148 in tokenstore.py token store py

Unicode text is folded (NFKC, accents off, at last casefold), then cut into chunks. A chunk is
- a word or identifier: letters, digits and `_`, joined by `.`, `-`, `'` or `+`. An identifier gives itself whole,
  then its parts (snake_case, camelCase, kebab-case, dotted, digits); words and parts are stemmed, stop words are not;
- a run of a script that is written without spaces: overlapping pairs of characters, one alone as it is;
- an emoji.

Documents keep their stop words: they count in its length, which ranks better (bench/calibrate.py), and they are there
to be found by a query that has no other word. Queries drop them: `content(terms(query))`.

Any change that alters a term must raise `VERSION`: an index made with another version is not used.
Source: M. F. Porter, An algorithm for suffix stripping, 1980, with his own program's two later rules (-bli, -logi).
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 1

# A longer run is cut, so that base64 or a minified line becomes several terms and none of them is huge.
LONGEST = 64
SHORTEST_STEMMED = 3

_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with i me my we our us you your he him his she her its them what which who whom do does did has have "
    "had am been being from so than too can just should now don't"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())

# Written without spaces: Thai, Lao, Myanmar, Khmer, kana, Bopomofo, Han, Hangul (spaced, but its particles are not).
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and points are no letters to `\w`, yet without them the words of these scripts fall apart.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff"
_EMOJI = "\u2600-\u27bf\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff"

_JOINED = r"(?:[-.'+]{0}){{0,7}}(?:\+\+|#(?!\w))?"  # token_store.py, don't, and at the end C++ or C#
_ASCII_WORD = rf"\w{{1,{LONGEST}}}"
_WORD = rf"(?:(?![{_UNSPACED}])[\w{_MARKS}]){{1,{LONGEST}}}"
_ASCII_CHUNK = re.compile(_ASCII_WORD + _JOINED.format(_ASCII_WORD), re.ASCII)

_PARTS = re.compile(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # camelCase, HTTPServer, x86
_DIGEST = re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{7,}")


def terms(text: str) -> list[str]:
    """Return the terms of a text in order, with repeats; an identifier stands before its parts."""
    if text.isascii():
        return list(chain.from_iterable(map(_cut, _ASCII_CHUNK.findall(text))))
    chunk_of, is_unspaced, _ = _beyond_ascii()
    chunks = chunk_of.findall(_folded(text))
    return list(chain.from_iterable(_pairs(chunk) if is_unspaced.match(chunk) else _cut(chunk) for chunk in chunks))


def content(found: list[str]) -> list[str]:
    """Return the terms that are no stop words; all of them when there are no others."""
    return [term for term in found if term not in STOP_WORDS] or found


@cache
def _beyond_ascii() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Compile what tells a chunk, a script without spaces and the parts of a word: 10 ms that most queries save."""
    chunk = re.compile(f"{_WORD}{_JOINED.format(_WORD)}|[{_UNSPACED}]+|[{_EMOJI}]")
    return chunk, re.compile(f"[{_UNSPACED}]"), re.compile(rf"\d+|(?:[^\W\d_]|[{_MARKS}])+")


def _folded(text: str) -> str:
    """Return compatibility forms unified and accents off; case stays, as camelCase is still to be seen."""
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text.replace("\u2019", "'")))
    return unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", text))


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


@lru_cache(maxsize=1 << 14)
def _cut(chunk: str) -> tuple[str, ...]:
    """Return the chunk's terms: the whole, then its parts when there is more than one."""
    chunk = chunk.removesuffix("'s")
    whole = chunk.strip("_").casefold() or "_"
    if whole in STOP_WORDS or _DIGEST.fullmatch(whole):
        return (whole,)
    if whole.isalpha() and (chunk[1:].islower() or chunk.isupper()):
        return (stem(whole),)
    parts = (_PARTS if chunk.isascii() else _beyond_ascii()[2]).findall(chunk)
    split = [part if part in STOP_WORDS else stem(part) for part in map(str.casefold, parts)]
    if len(split) > 1:
        return (whole, *split)
    return (stem(whole),)


# Porter's notation: C a run of consonants, V a run of vowels; a word is [C](VC)^m[V], m its measure.
_C, _V = "[^aeiou][^aeiouy]*", "[aeiouy][aeiou]*"
_M_GT_0 = re.compile(f"(?:{_C})?{_V}{_C}")
_M_EQ_1 = re.compile(f"(?:{_C})?{_V}{_C}(?:{_V})?$")
_M_GT_1 = re.compile(f"(?:{_C})?{_V}{_C}{_V}{_C}")
_HAS_VOWEL = re.compile(f"(?:{_C})?[aeiouy]")
_CVC = re.compile(f"{_C}[aeiouy][^aeiouwxy]$")
_DOUBLE = re.compile(r"([^aeioulsz])\1$")

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize"


def _longest(suffixes: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of two groups: a word's base and the longest of the suffixes that it ends in."""
    return re.compile(f"(.+?)({'|'.join(sorted(suffixes, key=len, reverse=True))})$")


_ENDS_2, _ENDS_3, _ENDS_4 = _longest(_STEP_2), _longest(_STEP_3), _longest(_STEP_4.split())


def stem(word: str) -> str:
    """Return Porter's stem of a lower-case English word; what is no ASCII word comes back as it is."""
    if len(word) < SHORTEST_STEMMED or not (word.isascii() and word.isalpha()):
        return word
    # `y` at the start is a consonant; as a capital it is one to every pattern above.
    word = _step_1("Y" + word[1:] if word[0] == "y" else word)
    for ends, become in ((_ENDS_2, _STEP_2), (_ENDS_3, _STEP_3)):
        if (match := ends.match(word)) and _M_GT_0.match(match[1]):
            word = match[1] + become[match[2]]
    if (match := _ENDS_4.match(word)) and _M_GT_1.match(match[1]) and (match[2] != "ion" or match[1][-1] in "st"):
        word = match[1]
    return _step_5(word).lower()


def _step_1(word: str) -> str:
    """Take off plurals, -ed and -ing; turn a final y into i."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        word = word[:-1] if _M_GT_0.match(word[:-3]) else word
    elif (base := _without(word, "ed") or _without(word, "ing")) and _HAS_VOWEL.match(base):
        if base.endswith(("at", "bl", "iz")) or (_M_EQ_1.match(base) and _CVC.match(base)):
            word = base + "e"
        else:
            word = base[:-1] if _DOUBLE.search(base) else base
    if word.endswith("y") and _HAS_VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    return word


def _step_5(word: str) -> str:
    """Take off a final e; make a final ll one l."""
    base = word[:-1]
    if word.endswith("e") and (_M_GT_1.match(base) or (_M_EQ_1.match(base) and not _CVC.match(base))):
        word = base
    return word[:-1] if word.endswith("ll") and _M_GT_1.match(word) else word


def _without(word: str, suffix: str) -> str:
    return word[: -len(suffix)] if word.endswith(suffix) else ""
