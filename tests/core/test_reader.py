"""Recall as callers in Python see it: which memories, in which order, with what they carry."""

from __future__ import annotations

import math

import pytest

from cyberos.core import ranking, reader, semantic
from cyberos.core.episode import log
from cyberos.core.errors import CyberosError, VaultNotFound
from cyberos.core.writer import Writer
from cyberos.index import sync
from support import episode, fact


def add(root, task="ship the login form", **fields):
    return log(Writer(root, durability="none"), episode(task, **fields)).as_posix()


def search(root, text="ship", k=3, min_relevance=0.0, **options):
    return reader.ask(root, lambda index: reader.search(index, reader.Query(text, k, min_relevance, **options)))


@pytest.fixture
def injected(monkeypatch):
    """Let a test say how relevant each path is, whatever its words."""
    values: dict[str, float] = {}
    monkeypatch.setattr(reader, "relevance", lambda engine, ratio: ratio)

    def scored(self, query, *, kind, scope, limit):
        from cyberos.index.fulltext import Scored

        found = sorted(values.items(), key=lambda item: (-item[1], item[0]))
        return [Scored(path, value) for path, value in found][:limit]

    monkeypatch.setattr("cyberos.index.fulltext_whoosh.WhooshFullText.search", scored)
    return values


def test_a_hit_carries_what_callers_need(seeded_memory):
    hit = reader.recall(seeded_memory.path, "ship task 0", k=1, min_relevance=0.0, memory_kind="episode")[0]
    assert hit.path.startswith("memories/episodes/")
    assert hit.frontmatter["task"] == "ship task 0"
    assert 0 < hit.relevance <= 1
    assert hit.last_seen_at.endswith("Z")


def test_ac11_only_the_kind_that_was_asked_for(seeded_memory):
    hits = semantic.recall(seeded_memory.path, "ship a task", k=10, min_relevance=0.0, memory_kind="episode")
    assert len(hits) == 5
    assert all(hit.frontmatter["kind"] == "episode" for hit in hits)
    hits = semantic.recall(seeded_memory.path, "ship a task", k=10, min_relevance=0.0, memory_kind="facts")
    assert {hit.frontmatter["kind"] for hit in hits} == {"facts"}
    assert semantic.recall(seeded_memory.path, "ship a task", k=10, min_relevance=0.0, memory_kind="people") == []


def test_ac17_without_a_kind_all_kinds_answer(seeded_memory):
    """A snapshot: the suite that the criterion names does not exist here."""
    hits = semantic.recall(seeded_memory.path, "ship a task", k=20, min_relevance=0.0)
    kinds = [hit.frontmatter["kind"] for hit in hits]
    assert kinds.count("episode") == 5
    assert kinds.count("facts") == 5
    assert hits == reader.recall(seeded_memory.path, "ship a task", 20, 0.0, None)
    assert hits == semantic.recall(seeded_memory.path, "ship a task", 20, 0.0, None)


def test_hits_come_by_relevance_and_not_by_quality(root, injected):
    low = add(root, "ship one", quality_score=1.0)
    high = add(root, "ship two", quality_score=0.0)
    injected |= {low: 0.7, high: 0.9}
    assert [hit.path for hit in reader.recall(root, "ship")] == [high, low]


def test_the_cut_off_drops_and_counts(root, injected):
    made = [add(root, f"ship {n}") for n in range(4)]
    injected |= dict(zip(made, (0.8, 0.65, 0.6499, 0.1), strict=True))
    found = search(root, min_relevance=0.65)
    assert [hit.path for hit in found.hits] == made[:2]
    assert found.below_cutoff == 2
    assert [hit.path for hit in reader.recall(root, "ship", k=1)] == made[:1]


def test_equal_hits_come_newer_first(root, injected):
    times = ("2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2024-01-01T00:00:00Z")
    made = [add(root, "ship it", occurred_at=time) for time in times]
    injected |= dict.fromkeys(made, 0.8)
    assert [hit.path for hit in search(root).hits] == [made[1], made[0], made[2]]


def test_equal_hits_of_one_time_come_by_path(root, injected):
    made = sorted(add(root, "ship it", occurred_at="2025-01-01T00:00:00Z") for _ in range(4))
    injected |= dict.fromkeys(made, 0.8)
    assert [hit.path for hit in search(root, k=1).hits] == made


def test_the_newest_of_hundreds_of_equals_are_in_the_pool(root, injected):
    writer = Writer(root, durability="none")
    with writer.transaction():
        made = [
            log(writer, episode("ship it", occurred_at=f"20{n // 12:02}-{n % 12 + 1:02}-01T00:00:00Z")).as_posix()
            for n in range(300)
        ]
    injected |= dict.fromkeys(made, 0.8)
    found = search(root, k=2)
    assert [hit.path for hit in found.hits] == made[: -8 - 1 : -1]


def test_the_pool_holds_near_equals_and_no_others(root, injected):
    made = [add(root, f"ship {n}") for n in range(5)]
    at = ranking.log_odds(0.8)
    near, far = (1 / (1 + math.exp(steps * ranking.BAND - at)) for steps in (1, 2))
    injected |= dict(zip(made, (0.9, 0.8, near + 1e-6, near, far), strict=True))
    assert [hit.path for hit in search(root, k=2).hits] == made[:4]


def test_since_looks_at_the_time_of_the_event(root, injected):
    old = add(root, "ship one", occurred_at="2020-01-01T00:00:00Z")
    new = add(root, "ship two")
    injected |= {old: 0.9, new: 0.8}
    assert [hit.path for hit in search(root, since_us=1_600_000_000_000_000).hits] == [new]
    assert [hit.path for hit in search(root, since_us=0).hits] == [old, new]


def test_since_finds_the_one_recent_hit_behind_hundreds_of_old_ones(root, injected):
    writer = Writer(root, durability="none")
    with writer.transaction():
        old = [log(writer, episode("ship it", occurred_at="2020-01-01T00:00:00Z")).as_posix() for _ in range(260)]
    new = add(root, "ship two")
    injected |= {**dict.fromkeys(old, 0.9), new: 0.5}
    assert [hit.path for hit in search(root, since_us=1_600_000_000_000_000).hits] == [new]


def test_scope_narrows_and_none_takes_all(root):
    here, there = add(root, "ship one", scope="web"), add(root, "ship two")
    assert {hit.path for hit in reader.recall(root, "ship", 5, 0.0, scope="web")} == {here}
    assert {hit.path for hit in reader.recall(root, "ship", 5, 0.0, scope="default")} == {there}
    assert {hit.path for hit in reader.recall(root, "ship", 5, 0.0)} == {here, there}
    assert reader.recall(root, "ship", 5, 0.0, scope="nowhere") == []


def test_a_file_swapped_under_a_running_search_is_dropped_and_the_next_best_takes_its_place(root, injected):
    made = [add(root, f"ship {n}") for n in range(3)]
    injected |= dict(zip(made, (0.9, 0.8, 0.7), strict=True))
    reader.recall(root, "ship")
    for entry in (root / ".cyberos/stage").iterdir():
        entry.unlink()
    (root / made[0]).write_text("something else")
    assert [hit.path for hit in reader.recall(root, "ship", k=2)] == made[1:]


def test_where_the_index_cannot_note_it_a_changed_file_is_dropped_all_the_same(root, injected, monkeypatch):
    made = [add(root, f"ship {n}") for n in range(2)]
    injected |= dict(zip(made, (0.9, 0.8), strict=True))
    reader.recall(root, "ship")
    for entry in (root / ".cyberos/stage").iterdir():
        entry.unlink()
    (root / made[0]).unlink()
    monkeypatch.setattr(sync, "look_again", lambda *_: False)
    found = search(root)
    assert [hit.path for hit in found.hits] == made[1:]
    assert found.dropped == made[:1]


def test_a_fact_is_found_by_its_fields_and_its_body(root):
    path, _ = fact("bin/deploy", "x")
    text = '---\n{\n  "kind": "facts",\n  "title": "Deploy script"\n}\n---\n\nIt lives at bin/deploy.\n'
    Writer(root).put(path, text)
    assert [hit.path for hit in reader.recall(root, "deploy script", 5, 0.0)] == [path]
    assert [hit.path for hit in reader.recall(root, "where does it live", 5, 0.0)] == [path]


def test_the_error_field_is_not_searched(root):
    add(root, "ship", outcome="failure", error="xylophone overflow")
    assert reader.recall(root, "xylophone", 5, 0.0) == []


@pytest.mark.parametrize(("k", "cut"), [(0, 0.5), (-1, 0.5), (1, -0.1), (1, 1.1), (1, float("nan"))])
def test_impossible_requests_are_refused(root, k, cut):
    with pytest.raises(ValueError, match="k is at least 1"):
        reader.recall(root, "ship", k, cut)


def test_a_folder_that_is_no_vault_is_named(tmp_path):
    with pytest.raises(VaultNotFound) as caught:
        reader.recall(tmp_path, "ship")
    assert isinstance(caught.value, CyberosError)


@pytest.mark.parametrize(
    "query", ["", " \n", "!!!", "the of and", "\x00", "\ud800", "🦓", "修复登录", "a" * 10_000, "ship " * 10_000]
)
def test_any_text_may_be_asked(seeded_memory, query):
    hits = reader.recall(seeded_memory.path, query, 3, 0.0)
    assert len(hits) <= 3


def test_an_episode_that_another_writer_botched_is_not_shown(root):
    """Rows and file agree, but nothing could rank it: no text, a score out of range."""
    from cyberos.index.bodies import _is_sound

    good = {"kind": "episode", "task": "t", "approach": "a", "outcome": "success", "duration_ms": 1}
    assert _is_sound(good)
    for key, value in (
        ("task", 3),
        ("outcome", "great"),
        ("outcome", ["success"]),
        ("quality_score", "high"),
        ("quality_score", 7),
        ("evidence", []),
    ):
        assert not _is_sound(good | {key: value})
