"""An episode judged in one look is judged as rule by rule, and what is no plain one goes the long way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cyberos.core import layout, text
from cyberos.core.episode import Episode
from cyberos.core.errors import InvalidMemory
from cyberos.doctor import checks_file, plain

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40) | st.sampled_from(
    ['say "no"', "C:\\new\\table", "two\nlines\tand a tab", "é\u2028\u00ad", "\ufeffBOM", "---", "}\n---\n\n"]
)


def built(**values):
    try:
        return Episode(**values)
    except InvalidMemory:
        return None


@settings(max_examples=300, deadline=None)
@given(
    words, words, st.sampled_from(["success", "partial", "failure"]), st.integers(0, 2**53 - 1), words | st.just(""),
    st.none() | st.floats(0, 1), st.lists(words, max_size=3),
)  # fmt: skip
def test_one_look_says_what_the_long_way_says(task, approach, outcome, took, notes, score, tags):
    made = built(
        task=task, approach=approach, outcome=outcome, duration_ms=took, notes=notes, quality_score=score, tags=tags,
        error=None if outcome == "success" else "it broke",
    )  # fmt: skip
    if made is None:
        return
    path, blob = f"{layout.episode_stem(made.task)}abcdef.md", made.render().encode()
    quick = plain.read(path, blob)
    judged = checks_file.judge(path, blob)
    assert judged.findings == []
    if quick is not None:
        assert quick.frontmatter == made.frontmatter()
        assert text.find_forbidden(blob.decode()) is None
        assert judged.told == (outcome, took, None, 0.5 if score is None else score)


GOOD = Episode(
    task="ship it", approach='say "yes"', outcome="success", duration_ms=10, quality_score=0.5, tags=["a", "b"],
    notes="two\nlines", lesson="none",
)  # fmt: skip
PATH = f"{layout.episode_stem('ship it')}abcdef.md"


def test_the_plain_one_is_plain():
    assert plain.read(PATH, GOOD.render().encode()) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"duration_ms": 10', '"duration_ms": 010'),
        ('"duration_ms": 10', '"duration_ms": 1e1'),
        ('"duration_ms": 10', '"duration_ms": 10.0'),
        ('"duration_ms": 10', '"duration_ms": -10'),
        ('"quality_score": 0.5', '"quality_score": 0.50'),
        ('"quality_score": 0.5', '"quality_score": 1.5'),
        ('"outcome": "success"', '"outcome": "great"'),
        ('"outcome": "success"', '"outcome": "partial"'),
        ('"task": "ship it"', '"task": "ship them"'),
        ('"task": "ship it"', '"task": "ship\\u0020it"'),
        ('"lesson": "none"', '"lesson": "none",\n  "lesson": "none"'),
        ('"lesson": "none"', '"lesson": "non\\u0007e"'),
        ('"lesson": "none"', '"lessom": "none"'),
        ('"kind": "episode"', '"kind":  "episode"'),
        ('  "kind": "episode",\n', ""),
        ("Outcome: success", "Outcome: failure"),
        ("Lesson: none\n", "Lesson: none\n\n"),
        ("Lesson: none\n", "Lesson: none"),
        ('    "a",\n', '    "a",\n    "\x7f",\n'),
        ("\n", "\r\n"),
    ],
)
def test_nothing_else_is(old, new):
    content = GOOD.render()
    assert old in content
    blob = content.replace(old, new, 1 if old != "\n" else -1).encode()
    assert plain.read(PATH, blob) is None
    assert checks_file.judge(PATH, blob).findings != []


def test_nor_is_one_that_lies_elsewhere():
    blob = GOOD.render().encode()
    assert plain.read("memories/facts/ab/cd/f.md", blob) is None
    assert plain.read("memories/episodes/00/00/00000000-abcdef.md", blob) is None
    assert plain.read(PATH, b"\xff" + blob) is None
