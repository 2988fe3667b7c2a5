from __future__ import annotations

import sqlite3
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cyberos.index import tokens
from cyberos.index.tokens import STOP_WORDS, content, stem, terms

# Word, stem: the examples of Porter's paper, a pair or two for each of its rules.
PORTER = {
    "caresses": "caress", "ponies": "poni", "ties": "ti", "caress": "caress", "cats": "cat", "feed": "feed",
    "agreed": "agre", "plastered": "plaster", "bled": "bled", "motoring": "motor", "sing": "sing",
    "conflated": "conflat", "troubled": "troubl", "sized": "size", "hopping": "hop", "tanned": "tan",
    "falling": "fall", "hissing": "hiss", "fizzed": "fizz", "failing": "fail", "filing": "file", "happy": "happi",
    "sky": "sky", "relational": "relat", "conditional": "condit", "rational": "ration", "valenci": "valenc",
    "digitizer": "digit", "conformabli": "conform", "radicalli": "radic", "differentli": "differ", "vileli": "vile",
    "analogousli": "analog", "vietnamization": "vietnam", "predication": "predic", "operator": "oper",
    "feudalism": "feudal", "decisiveness": "decis", "hopefulness": "hope", "callousness": "callous",
    "formaliti": "formal", "sensitiviti": "sensit", "sensibiliti": "sensibl", "triplicate": "triplic",
    "formative": "form", "formalize": "formal", "electrical": "electr", "hopeful": "hope", "goodness": "good",
    "revival": "reviv", "allowance": "allow", "inference": "infer", "airliner": "airlin", "adjustable": "adjust",
    "defensible": "defens", "irritant": "irrit", "replacement": "replac", "adoption": "adopt", "homologou": "homolog",
    "communism": "commun", "activate": "activ", "effective": "effect", "bowdlerize": "bowdler", "probate": "probat",
    "rate": "rate", "cease": "ceas", "controll": "control", "roll": "roll", "yes": "ye", "by": "by",
    "technology": "technolog", "possibly": "possibl",
}  # fmt: skip

# Text, its terms.
CUT = {
    "": [],
    "   \n\t": [],
    "TASK-AUTH-148": ["task-auth-148", "task", "auth", "148"],
    "token_store.py": ["token_store.py", "token", "store", "py"],
    "tokenStore": ["tokenstore", "token", "store"],
    "HTTPServer": ["httpserver", "http", "server"],
    "x86_64": ["x86_64", "x", "86", "64"],
    "python3 3.11.2": ["python3", "python", "3", "3.11.2", "3", "11", "2"],
    "__init__": ["init"],
    "_": ["_"],
    "ENOENT:": ["enoent"],
    "C++ C# c": ["c++", "c#", "c"],
    "don't": ["don't"],
    "the dog's bone": ["the", "dog", "bone"],
    "it\u2019s": ["it"],
    "3f9c1d2e4b5a6978": ["3f9c1d2e4b5a6978"],
    "café cafe CAFÉ cafe\u0301": ["cafe", "cafe", "cafe", "cafe"],
    "ﬁle １２ Straße": ["file", "12", "strass"],
    "修复登录": ["修复", "复登", "登录"],
    "修复bug登录": ["修复", "bug", "登录"],
    "修": ["修"],
    "ログイン": ["ログ", "グイ", "イン"],
    "ﾛｸﾞｲﾝ": ["ログ", "グイ", "イン"],
    "오류": ["오류"],
    "ภาษา": ["ภา", "าษ", "ษา"],
    "हिन्दी": ["हिन्दी"],
    "Привет мир": ["привет", "мир"],
    "fix 🐛": ["fix", "🐛"],
    "👩\u200d💻": ["👩", "💻"],
    "/usr/local/bin": ["usr", "local", "bin"],
    "a.b-c": ["a.b-c", "a", "b", "c"],
}


@pytest.mark.parametrize(("text", "expected"), CUT.items())
def test_terms(text, expected):
    assert terms(text) == expected


@pytest.mark.parametrize(("word", "expected"), PORTER.items())
def test_stem_is_porters(word, expected):
    assert stem(word) == expected


def test_stem_agrees_with_sqlite_on_every_short_word():
    ends = ("", "s", "ed", "ing", "ies", "ation", "ional", "fulness", "e", "ly", "ability")
    middles = ("ail", "ott", "iv", "er", "oy", "um", "izz")
    words = [first + middle + end for first in string.ascii_lowercase for middle in middles for end in ends]
    database = sqlite3.connect(":memory:")
    database.execute("create virtual table words using fts5(word, tokenize='porter ascii')")
    database.execute("create virtual table stems using fts5vocab(words, 'instance')")
    database.executemany("insert into words (rowid, word) values (?, ?)", enumerate(words))
    theirs = dict(database.execute("select doc, term from stems"))
    database.close()
    assert [stem(word) for word in words] == [theirs[number] for number in range(len(words))]


def test_a_stop_word_stays_as_it_is():
    assert terms("this was his") == ["this", "was", "his"]


def test_content_drops_stop_words():
    assert content(terms("how to fix the login")) == ["how", "fix", "login"]


def test_content_of_stop_words_alone_is_the_stop_words():
    assert content(terms("to be or not to be")) == ["to", "be", "or", "not", "to", "be"]


@pytest.mark.parametrize("text", ["a" * 10_000, "字" * 10_000, "é" * 10_000, "a.b-" * 2_500, "\u0301" * 10_000])
def test_ten_thousand_characters_give_terms_of_bounded_length(text):
    assert max(map(len, terms(text)), default=0) <= 8 * (tokens.LONGEST + 1)


@given(st.text())
def test_terms_are_folded_and_never_empty(text):
    for term in terms(text):
        assert term
        assert term == term.casefold()


@given(st.text(st.characters(max_codepoint=127)))
def test_what_stands_beside_it_changes_no_ascii_word(text):
    words = [word for word in terms(text) if word.isalpha()]
    assert terms(" ".join(words) + " 字") == [*terms(" ".join(words)), "字"]


def test_stop_words_are_terms():
    assert all(terms(word) == [word] for word in STOP_WORDS)
