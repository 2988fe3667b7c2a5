"""Seed 000's required tests in this vault's terms, and one test for each of its failure modes. All offline.

Required: recency breaks ties; an old unique match surfaces; an intent selects failures; episodes are immutable; an
unverified success is downgraded; a verified outcome overrides the model; NONE is stored empty; a trivial run is not
recorded; an empty recall renders nothing; contradictions both survive.

Failure modes, each with the test that catches it here and where it is tested in depth:

- everything is `success`: `test_everything_is_success` (stats; tests/cli/test_looking_back.py)
- fabricated lessons: `test_fabricated_lessons` (tests/record/test_distil.py)
- recency eats relevance: `test_recency_eats_relevance` (tests/core/test_ranking.py)
- episodes as facts: `test_episodes_as_facts` (tests/core/test_prompt.py)
- one episode per turn: `test_one_episode_per_turn` (stats)
- the store only grows: `test_the_store_only_grows` (retain)
- no transcript reference: `test_no_transcript_reference`
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from cyberos.cli.main import main
from cyberos.cli.recall import run
from cyberos.core.episode import Episode, log
from cyberos.core.errors import EpisodeImmutable
from cyberos.core.labels import label
from cyberos.core.prompt import prompt
from cyberos.core.writer import Writer
from cyberos.record.distil import NothingDistilled, distil, weigh
from cyberos.record.endpoint import Endpoint
from cyberos.record.keeping import keep
from cyberos.record.transcript import Turn
from record.endpoint_server import Server, said

TURNS = [Turn("user", "where is t"), Turn("assistant", "I did a, and l came of it")]


def ago(days):
    return (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def add(root, task, **fields):
    given = {"approach": "as before", "outcome": "success", "duration_ms": 1} | fields
    return log(Writer(root, durability="none"), Episode(task=task, **given)).as_posix()


def recalled(root, task, **options):
    return run(root, SimpleNamespace(task=task, **{"min_relevance": 0.0} | options))["matches"]


def recorded(reply, turns=TURNS, verified=None):
    """Distil a run with a model that gives this reply; give the fields to be stored, as the recorder would."""
    with Server(said(reply)) as server:
        found = distil(turns, Endpoint(server.url, "m"), lambda _: None)
    return found and {"task": found.task, "lesson": found.lesson} | weigh(found.outcome, verified)


def stats(root, capsys):
    capsys.readouterr()
    assert main(["--store", str(root), "stats", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# --- required -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"intent": "any"}, {"half_life": "30d"}])
def test_recency_breaks_ties_with_similarity_held_constant(root, options):
    new = add(root, "deploy the api", lesson="use staging first", occurred_at=ago(1))
    add(root, "deploy the api", lesson="use staging first", occurred_at=ago(200))
    assert [match["path"] for match in recalled(root, "deploy the api", k=1, **options)] == [new]


def test_old_but_unique_match_still_surfaces(root):
    old = add(root, "configure the fax gateway", lesson="port 8081", occurred_at=ago(900))
    for number in range(20):
        add(root, f"unrelated task {number}")
    for options in ({}, {"intent": "any"}, {"half_life": "30d"}):
        assert [match["path"] for match in recalled(root, "configure the fax gateway", k=1, **options)] == [old]


def test_intent_selects_failures(root):
    worked = add(root, "migrate schema", evidence="test", evidence_ref="r", lesson="a")
    failed = add(root, "migrate schema", outcome="failure", error="e", lesson="b")
    assert recalled(root, "migrate schema", k=1, intent="what_failed")[0]["path"] == failed
    assert recalled(root, "migrate schema", k=1, intent="what_worked")[0]["path"] == worked


def test_episodes_are_immutable(root):
    path = add(root, "x")
    writer = Writer(root)
    with pytest.raises(EpisodeImmutable):
        writer.put(path, Episode(task="x", approach="y", outcome="success", duration_ms=2).render())
    (root / path).write_text((root / path).read_text().replace("as before", "as never"))
    assert main(["--store", str(root), "doctor"]) == 1


def test_unverified_success_is_downgraded():
    assert label(recorded("TASK: t\nAPPROACH: a\nOUTCOME: success\nLESSON: l")) == "claimed_success"


def test_verified_outcome_overrides_the_model():
    verdict = {"outcome": "failure", "evidence": "exit_code", "evidence_ref": "pytest -> exit 1", "error": "1 failed"}
    found = recorded("TASK: t\nAPPROACH: a\nOUTCOME: success\nLESSON: l", verified=verdict)
    assert (label(found), found["outcome"]) == ("failure", "failure")


def test_none_lesson_is_stored_empty_not_invented(root):
    found = recorded("TASK: t\nAPPROACH: a\nOUTCOME: unknown\nLESSON: NONE")
    assert found["lesson"] == ""
    kept = keep(Writer(root), found | {"approach": "a", "duration_ms": 1}, "agent")
    text = (root / kept.path).read_text()
    assert "Lesson:" not in text
    assert "lesson" not in text


def test_trivial_run_is_not_recorded():
    assert recorded("TASK: t", turns=[Turn("user", "hi")]) is None


def test_empty_recall_renders_nothing(root, capsys):
    assert prompt(recalled(root, "anything about nothing")) == ""
    add(root, "x")
    assert main(["--store", str(root), "recall-similar", "anything about nothing", "--format", "prompt"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "searched by" in told.err, "the model's block is alone on stdout, but nothing is silent"


def test_contradicting_episodes_both_survive(root, capsys):
    for lesson in ("it is in /etc", "it moved to ~/.config"):
        add(root, "where is the config", lesson=lesson)
    assert main(["--store", str(root), "timeline", "--json"]) == 0
    lessons = {item["lesson"] for item in json.loads(capsys.readouterr().out)["items"]}
    assert lessons == {"it is in /etc", "it moved to ~/.config"}
    assert {match["lesson"] for match in recalled(root, "where is the config")} == lessons


# --- failure modes --------------------------------------------------------------------------------------------------


def test_everything_is_success(root, capsys):
    for number in range(6):
        add(root, f"task {number}", occurred_at=ago(number))
    found = stats(root, capsys)
    assert found["labels"]["success"] == 0, "nobody checked any of them"
    assert [sentence.split(":")[0] for sentence in found["health"]] == [
        "all 6 episodes are labelled claimed success",
        "nothing is verified",
    ]


def test_fabricated_lessons():
    assert (
        recorded("TASK: t\nAPPROACH: a\nOUTCOME: success\nLESSON: Always restart nginx on port 8080.")["lesson"] == ""
    )
    assert recorded("TASK: find t\nAPPROACH: a\nOUTCOME: success\nLESSON: Find t!")["lesson"] == ""
    with pytest.raises(NothingDistilled):
        recorded("The run taught us to always be careful.")


def test_recency_eats_relevance(root):
    old = add(root, "rotate the signing keys of the mobile app", occurred_at=ago(700))
    for number in range(5):
        add(root, f"rotate the log files of service {number}", occurred_at=ago(0))
    for options in ({}, {"intent": "any"}, {"half_life": "1d"}):
        assert recalled(root, "rotate the signing keys of the mobile app", k=3, **options)[0]["path"] == old


def test_episodes_as_facts(root, capsys):
    add(root, "find the API key", lesson="it lives in .env", occurred_at="2025-03-04T00:00:00Z")
    main(["--store", str(root), "recall-similar", "find the API key", "--min-relevance", "0", "--format", "prompt"])
    shown = capsys.readouterr().out
    assert "may no longer apply" in shown
    assert "| 2025-03-04, by agent: claimed success: nobody checked it" in shown


def test_one_episode_per_turn(root, capsys):
    with (writer := Writer(root, durability="none")).transaction():
        for number in range(30):
            log(writer, Episode(task=f"turn {number}", approach="a", outcome="success", duration_ms=1))
    assert any("30 episodes of scope default lie within ten minutes" in each for each in stats(root, capsys)["health"])


def test_the_store_only_grows(root, capsys):
    old, new = add(root, "old", occurred_at=ago(400)), add(root, "new")
    before = stats(root, capsys)
    assert main(["--store", str(root), "retain", "--older-than", "365d", "--yes"]) == 0
    after = stats(root, capsys)
    assert (before["episodes"], after["episodes"]) == (2, 1)
    assert not (root / old).exists()
    assert (root / new).exists()


def test_no_transcript_reference(root):
    """The reference is stored as given, and an answer that names no task leaves the transcript as the way back."""
    path = add(root, "x", transcript_ref="~/runs/1.jsonl sha256:00")
    assert '"transcript_ref": "~/runs/1.jsonl sha256:00"' in (root / path).read_text()
    nothing = NothingDistilled("no idea", "~/runs/1.jsonl")
    assert "~/runs/1.jsonl" in nothing.hint
