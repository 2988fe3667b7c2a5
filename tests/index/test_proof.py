"""How much a query can prove by words: common words little, a rare name enough, whatever the size of the vault."""

from __future__ import annotations

import pytest

from cyberos.index import background
from cyberos.index.calibration import CONSTANTS, CUT, relevance
from cyberos.index.fulltext import Document
from cyberos.index.fulltext_fts5 import Fts5FullText
from cyberos.index.fulltext_whoosh import WhooshFullText

TASKS = (
    "fix the login form of the gateway",
    "TASK-AUTH-003: ship row level security",
    "the build fails with ENOENT on the runner",
    "write the release notes",
    "update the database of the shop",
)


@pytest.fixture(params=[WhooshFullText, Fts5FullText], ids=["whoosh", "fts5"])
def engine(request):
    made = request.param(None)
    yield made
    made.close()


def fill(engine, others=0):
    tasks = [*TASKS, *(f"note {number} about the weather" for number in range(others))]
    rows = [
        Document(f"{number:05}", "episode", "default", f"Task: {task}\nApproach: did it\nOutcome: success\nNotes: ")
        for number, task in enumerate(tasks)
    ]
    engine.apply(rows, (), stamp="1")


def best(engine, query):
    hits = engine.search(query, kind="episode", scope=None, limit=1)
    return relevance(engine.name, hits[0].ratio) if hits else 0.0


@pytest.mark.parametrize("query", ["the", "fix", "The", "of the", "update", "write", "success"])
@pytest.mark.parametrize("others", [0, 300])
def test_a_common_word_alone_is_no_answer(engine, query, others):
    fill(engine, others)
    found = engine.search(query, kind="episode", scope=None, limit=1)
    assert found
    assert best(engine, query) < CUT


@pytest.mark.parametrize("query", ["ENOENT", "TASK-AUTH-003", "enoent runner", "fix the login form"])
@pytest.mark.parametrize("others", [0, 300])
def test_a_rare_name_alone_is_one(engine, query, others):
    fill(engine, others)
    assert best(engine, query) > 0.9


def test_the_task_itself_is_near_one(engine):
    fill(engine)
    for task in TASKS:
        assert best(engine, task) > 0.9


def test_idf_falls_with_frequency_and_knows_common_words():
    assert background.idf("enoent", 1, 10) > background.idf("enoent", 9, 10) > 0
    assert background.idf("enoent", 1, 10) > background.idf("fix", 1, 10) > background.idf("the", 1, 10) > 0
    assert background.idf("task", 10_000, 10_000) > 0


def test_every_engine_has_constants_that_rise():
    for a, _ in CONSTANTS.values():
        assert a > 0
