"""`cyberos recall-similar`, by `run` and by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest

from cyberos.cli.main import main
from cyberos.cli.recall import combined_score, run
from cyberos.core import reader
from cyberos.core.episode import log
from cyberos.core.errors import CyberosError
from cyberos.core.writer import Writer
from support import episode, fact

KEYS = [
    "path", "task", "approach", "outcome", "label", "evidence", "quality_score", "relevance", "recency",
    "combined_score", "last_seen_at", "lesson", "notes", "history",
]  # fmt: skip
DAY_US = 86_400_000_000


def add(root, task="ship the login form", **fields):
    return log(Writer(root, durability="none"), episode(task, **fields)).as_posix()


def ns(task="ship", **fields):
    return SimpleNamespace(**{"task": task, "k": 5, "min_relevance": 0.0} | fields)


def matched(root, **fields):
    return [match["path"] for match in run(root, ns(**fields))["matches"]]


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


def call(root, *arguments):
    return main(["--store", str(root), "recall-similar", *arguments])


# --- the seed's criteria --------------------------------------------------------------------------------------------


def test_ac11_five_episodes_and_no_fact(seeded_memory, capsys):
    assert call(seeded_memory.path, "how we ship a task", "--k", "5", "--min-relevance", "0", "--json") == 0
    matches = json.loads(capsys.readouterr().out)["matches"]
    assert len(matches) == 5
    assert all(match["path"].startswith("memories/episodes/") for match in matches)


def test_ac12_of_equal_relevance_the_better_result_comes_first(root, injected):
    worse, better = add(root, "ship one", quality_score=0.4), add(root, "ship two", quality_score=0.9)
    injected |= {worse: 0.80, better: 0.80}
    assert matched(root) == [better, worse]
    injected |= {worse: 0.81}
    assert matched(root) == [better, worse], "near equals are reordered too"


def test_ac12_the_seed_asks_it_so(seeded_memory):
    scores = [match["quality_score"] for match in run(seeded_memory.path, ns())["matches"]]
    assert scores[0] is None or scores[0] >= (scores[1] if scores[1] is not None else 0.5)


def test_ac13_an_absent_quality_ranks_as_one_half(root, injected):
    made = [add(root, f"ship {n}", quality_score=score) for n, score in enumerate((0.4, None, 0.9, 0.5))]
    injected |= dict.fromkeys(made, 0.8)
    found = run(root, ns())["matches"]
    assert [match["quality_score"] for match in found] in ([0.9, None, 0.5, 0.4], [0.9, 0.5, None, 0.4])
    assert found[1]["combined_score"] == found[2]["combined_score"]
    assert combined_score(0.8, None, 1.0) == pytest.approx(combined_score(0.8, 0.5, 1.0))


def test_ac14_below_the_cut_nothing_is_shown(root, injected):
    made = [add(root, f"ship {n}") for n in range(3)]
    injected |= dict(zip(made, (0.80, 0.70, 0.60), strict=True))
    answer = run(root, ns(min_relevance=0.65))
    assert [match["path"] for match in answer["matches"]] == made[:2]
    assert answer["below_cutoff"] == 1


def test_ac15_ten_match_and_three_are_shown(root):
    for number in range(10):
        add(root, f"ship {number}")
    assert len(run(root, ns(k=3))["matches"]) == 3


def test_ac17_recall_similar_changes_no_recall(seeded_memory):
    from cyberos.core import semantic

    before = semantic.recall(seeded_memory.path, "ship", 10, 0.0)
    run(seeded_memory.path, ns(intent="what_worked"))
    assert semantic.recall(seeded_memory.path, "ship", 10, 0.0) == before


def test_ac21_no_episodes_at_all(empty_memory):
    answer = run(empty_memory.path, ns(task="x", k=3, min_relevance=0.65))
    assert answer["matches"] == []
    assert answer["reason"] == "no_episodes_in_store"


def test_ac21_only_facts_are_no_episodes(empty_memory):
    empty_memory.put(*fact("how we ship"))
    assert run(empty_memory.path, ns())["reason"] == "no_episodes_in_store"


def test_ac21_none_above_the_cut(seeded_memory):
    answer = run(seeded_memory.path, ns(task="ship", min_relevance=1.0))
    assert answer["matches"] == []
    assert answer["reason"] == "no_episodes_above_min_relevance"
    assert answer["below_cutoff"] == 5
    answer = run(seeded_memory.path, ns(task="zebrafish"))
    assert (answer["reason"], answer["below_cutoff"]) == ("no_episodes_above_min_relevance", 0)


# --- the answer -----------------------------------------------------------------------------------------------------


def test_the_answer_has_exactly_these_keys_in_this_order(root):
    add(root, quality_score=0.92, lesson="mind the gap", notes="n", evidence="test", evidence_ref="pytest -> 0")
    answer = run(root, ns(task="ship the login form"))
    assert list(answer) == ["backend", "engines", "degraded", "matches", "reason", "below_cutoff", "unseen"]
    match = answer["matches"][0]
    assert list(match) == KEYS
    assert {key: match[key] for key in ("outcome", "label", "evidence", "quality_score", "recency", "lesson", "notes")} == {
        "outcome": "success", "label": "success", "evidence": "test", "quality_score": 0.92, "recency": 1.0,
        "lesson": "mind the gap", "notes": "n",
    }  # fmt: skip
    assert match["history"] == {"success": 1}
    assert (answer["backend"], answer["engines"], answer["reason"], answer["unseen"]) == ("whoosh", ["whoosh"], None, 0)


def test_what_an_episode_does_not_say_is_not_invented(root):
    add(root)
    match = run(root, ns())["matches"][0]
    assert (match["label"], match["evidence"], match["quality_score"]) == ("claimed_success", "none", None)
    assert (match["lesson"], match["notes"]) == ("", "")


def test_scores_have_three_digits_and_follow_the_formula(root, injected):
    injected[add(root, quality_score=0.92)] = 0.84
    match = run(root, ns())["matches"][0]
    assert (match["relevance"], match["recency"], match["combined_score"]) == (0.84, 1.0, 0.912)


def test_auto_says_that_no_embedder_answered_and_whoosh_does_not(root, monkeypatch):
    monkeypatch.setenv("CYBEROS_EMBEDDER", "auto")
    monkeypatch.setattr("cyberos.core.semantic.available", lambda: False)
    assert "embedder" in run(root, ns())["degraded"]
    assert run(root, ns(backend="whoosh"))["degraded"] is None


def test_only_a_task_need_be_given(seeded_memory):
    answer = run(seeded_memory.path, SimpleNamespace(task="ship task 0"))
    assert len(answer["matches"]) <= 3


def test_history_shows_the_failures_beside_a_lucky_success(root):
    add(root, "deploy the api")
    for _ in range(3):
        add(root, "deploy the api", outcome="failure", error="timeout")
    add(root, "deploy the api twice", outcome="failure", error="timeout")
    match = run(root, ns(task="deploy the api"))["matches"][0]
    assert match["history"] == {"claimed_success": 1, "failure": 3}


def test_unseen_counts_what_is_there_but_cannot_be_searched(root):
    kept, lost = add(root, "ship one"), add(root, "ship two")
    for entry in (root / ".cyberos/stage").iterdir():
        entry.unlink()
    (root / lost).write_text("tampered")
    for _ in range(2):
        answer = run(root, ns())
        assert [match["path"] for match in answer["matches"]] == [kept]
        assert answer["unseen"] == 1
    (root / kept).unlink()
    answer = run(root, ns())
    assert (answer["matches"], answer["unseen"]) == ([], 2)
    assert answer["reason"] == "no_episodes_above_min_relevance", "the store is not empty"


# --- ranking --------------------------------------------------------------------------------------------------------


def test_intents_choose_between_what_worked_and_what_failed(root, injected):
    good = add(root, "ship one", evidence="test", evidence_ref="pytest -> 0")
    claimed = add(root, "ship two")
    bad = add(root, "ship three", outcome="failure", error="timeout")
    injected |= dict.fromkeys((good, claimed, bad), 0.8)
    assert matched(root, intent="what_worked") == [good, claimed, bad]
    assert matched(root, intent="what_failed") == [bad, claimed, good]
    assert matched(root, intent="any") == [good, bad, claimed]


@pytest.mark.parametrize("backend", ["whoosh", "fts5"])
def test_what_failed_is_found_among_hundreds_that_worked(root, backend):
    writer = Writer(root, durability="none")
    for number in range(200):
        log(writer, episode("ship the login form", notes=f"went as planned, ship number {number}"))
    failed = {
        add(
            root, outcome="failure", error="TimeoutError", approach="an entirely different way, with much to tell of it"
        )
        for _ in range(2)
    }
    other = add(root, "bake bread", outcome="failure", error="burnt")
    found = matched(root, task="ship the login form", k=3, min_relevance=0.65, intent="what_failed", backend=backend)
    assert set(found[:2]) == failed
    assert other not in found


def test_a_preference_is_no_reason_to_go_far(root, injected):
    near, far = add(root, "ship one"), add(root, "ship another", outcome="failure", error="timeout")
    injected |= {near: 0.9, far: 0.8}
    assert matched(root, k=1, intent="what_failed") == [near]
    assert matched(root, k=2, intent="what_failed") == [far, near]


def test_a_preference_asks_on_for_hits_that_are_accepted(root, injected, monkeypatch):
    for name, value in (("LEAST_ASKED", 4), ("_MORE", 2), ("_MOST_ASKED", 8)):
        monkeypatch.setattr(reader, name, value)
    writer = Writer(root, durability="none")
    injected |= {log(writer, episode("ship"), actor="eve").as_posix(): 0.9 for _ in range(40)}
    mine = log(writer, episode("ship"), actor="ada").as_posix()
    injected[mine] = 0.8
    assert matched(root, k=1, intent="any", trusted_actors="ada") == [mine]


def test_an_intent_prefers_the_fresh_but_old_ones_stay_reachable(root, injected):
    old = add(root, "ship one", occurred_at="2020-01-01T00:00:00Z")
    new = add(root, "ship two")
    injected |= {old: 0.8, new: 0.8}
    found = run(root, ns(intent="any"))["matches"]
    assert [match["path"] for match in found] == [new, old]
    assert found[1]["recency"] == 0.0
    assert found[1]["combined_score"] == pytest.approx(0.8 * 0.3 * 0.8, abs=2e-3)


def test_uses_are_noted_with_an_intent_and_reinforce(root, injected):
    one, two = (
        add(root, "ship one", occurred_at="2020-01-01T00:00:00Z"),
        add(root, "ship two", occurred_at="2020-01-02T00:00:00Z"),
    )
    injected |= {one: 0.8, two: 0.8}
    run(root, ns())
    first = run(root, ns(intent="any", explain=True))["matches"]
    assert [match["factors"]["uses"] for match in first] == [0, 0]
    again = run(root, ns(intent="any", explain=True))["matches"]
    assert [match["factors"]["uses"] for match in again] == [1, 1]
    assert again[0]["factors"]["reinforcement"] > 1


def test_recency_settings_apply_without_an_intent(root, injected):
    injected[add(root, occurred_at="2026-01-01T00:00:00Z")] = 0.8
    now_us = 1_767_225_600_000_000 + 30 * DAY_US
    assert run(root, ns(now_us=now_us))["matches"][0]["recency"] == 1.0
    (root / "cyberos.toml").write_text('recency = "half-life"\nhalf_life = "15d"\nweights = [0.5, 0.25, 0.25]\n')
    match = run(root, ns(now_us=now_us))["matches"][0]
    assert match["recency"] == 0.25
    assert match["combined_score"] == pytest.approx(0.5 * 0.8 + 0.25 * 0.5 + 0.25 * 0.25, abs=1e-3)
    assert run(root, ns(now_us=now_us, half_life="30d"))["matches"][0]["recency"] == 0.5
    (root / "cyberos.toml").write_text('recency = "park"\n')
    assert run(root, ns(now_us=now_us))["matches"][0]["recency"] == round(0.995**720, 3)


@pytest.mark.parametrize(
    "value",
    ["[nan, 0.5, 0.5]", "[inf, 0, 0]", "[-inf, inf, 1]", '["a", 0, 1]', "[1.5, -0.5, 0]", "[0.5, 0.5]", "[[1], 0, 0]",
     "[true, 0, 0]", "[0.4, 0.3, 0.4]", '"nan,0,1"', "1"],
)  # fmt: skip
def test_weights_that_are_none_are_refused(root, value):
    (root / "cyberos.toml").write_text(f"weights = {value}\n")
    with pytest.raises(CyberosError, match="weights = .*: must be"):
        run(root, ns())


def test_explain_names_every_factor(root, injected):
    injected[add(root)] = 0.84
    factors = run(root, ns(explain=True))["matches"][0]["factors"]
    assert factors["relevance"] == 0.84
    assert factors["quality"] == 0.5
    assert factors["weights"] == {"relevance": 0.4, "quality": 0.3, "recency": 0.3}
    factors = run(root, ns(explain=True, intent="any"))["matches"][0]["factors"]
    assert set(factors) == {
        "relevance",
        "recency",
        "age_hours",
        "damped_recency",
        "outcome_weight",
        "reinforcement",
        "uses",
    }


def test_fields_never_drown_the_text(root, injected):
    near, far = add(root, "ship one", quality_score=0.0), add(root, "ship two", quality_score=1.0)
    injected |= {near: 0.9, far: 0.7}
    assert matched(root, k=1) == [near]


def test_since_and_scope(root):
    old = add(root, "ship one", occurred_at="2020-05-01T00:00:00Z", scope="web")
    new = add(root, "ship two")
    assert matched(root, since="7d") == [new]
    assert set(matched(root, since="2020-04-30")) == {old, new}
    assert matched(root, since="2020-05-02T00:00:00+02:00") == [new]
    assert matched(root, scope="web") == [old]
    assert set(matched(root)) == {old, new}


def test_the_cut_off_is_a_setting(root, injected, monkeypatch):
    injected[add(root)] = 0.6
    assert run(root, SimpleNamespace(task="ship"))["matches"] == []
    monkeypatch.setenv("CYBEROS_MIN_RELEVANCE", "0.6")
    assert len(run(root, SimpleNamespace(task="ship"))["matches"]) == 1


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("--k", "0"), ("--k", "-3"), ("--k", "many"), ("--min-relevance", "1.1"), ("--min-relevance", "-0.1"),
        ("--min-relevance", "nan"), ("--intent", "what_else"), ("--since", "yesterday"), ("--since", "-7d"),
        ("--half-life", "0d"), ("--half-life", "long"), ("--backend", "oracle"), ("--format", "xml"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_is_a_usage_error(root, capsys, arguments):
    assert call(root, "ship", *arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err


def test_run_refuses_the_same(root):
    for fields in ({"k": 0}, {"min_relevance": 2}, {"intent": "what_else"}, {"since": "9" * 400 + "d"}):
        with pytest.raises(click.UsageError):
            run(root, ns(**fields))


def test_no_vault_is_exit_2(tmp_path, capsys):
    assert call(tmp_path, "ship") == 2
    assert "cyberos init" in capsys.readouterr().err


def test_no_match_is_exit_0_and_says_why(root, capsys):
    assert call(root, "ship") == 0
    assert "holds no episodes yet" in capsys.readouterr().out
    add(root)
    assert call(root, "ship the", "--min-relevance", "1") == 0
    assert "--min-relevance lowers the cut" in capsys.readouterr().out
    assert call(root, "zebrafish") == 0
    assert "no episode shares" in capsys.readouterr().out


def test_json_is_one_document_on_stdout(root, capsys):
    add(root, "ship näïve \u202e zebra")
    assert call(root, "zebra", "--min-relevance", "0", "--format", "json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["matches"][0]["task"] == "ship näïve \u202e zebra"
    assert told.out.isascii()


def test_text_tells_verified_from_claimed(root, capsys):
    add(root, "ship one", evidence="test", evidence_ref="pytest -> 0")
    add(root, "ship two")
    add(root, "ship three", evidence="judge", evidence_ref="gpt")
    add(root, "ship four", outcome="failure", error="e", evidence="exit_code", evidence_ref="make -> 2")
    add(root, "ship five", outcome="partial", error="e")
    assert call(root, "ship", "--k", "9", "--min-relevance", "0") == 0
    told = capsys.readouterr().out
    assert "success, verified by a test" in told
    assert "claimed success: nobody checked it" in told
    assert "claimed success: only a judge says so" in told
    assert "failure, verified by an exit code" in told
    assert "partial, not verified" in told
    assert "searched by whoosh" in told


def test_text_hides_no_characters_and_stays_on_its_lines(root, capsys):
    add(root, "ship \u202eevil\nsecond line", lesson="zero\u200bwidth " + "long " * 200)
    assert call(root, "ship", "--min-relevance", "0") == 0
    told = capsys.readouterr().out
    assert "\\u{202e}evil second line" in told
    assert "\\u{200b}" in told
    assert max(map(len, told.splitlines())) < 400


def test_text_shows_factors_history_and_unseen(root, capsys):
    lost = add(root, "ship other")
    add(root)
    add(root, outcome="failure", error="e")
    for entry in (root / ".cyberos/stage").iterdir():
        entry.unlink()
    (root / lost).unlink()
    assert call(root, "ship the login form", "--explain") == 0
    told = capsys.readouterr().out
    assert "this task in the vault: 1 claimed success, 1 failure" in told
    assert "weights of quality 0.3" in told
    assert "1 episode not searched in full" in told


NASTY = [
    "TASK-AUTH-148", "token_store.py", "ENOENT: no such file", "C++", "don't", "", " ", '"', "'", 'un"balanced', "task:foo",
    "http://example.org/a?b=c#d", "*", "[a TO b]", "a AND", "OR", "NOT", "(((", ")", "NEAR/3", "a^2", "~", "a~0.5", "-x", "--",
    "\\", "%s %d", "'; DROP TABLE memories; --", "<script>", "\t\n", "\u202e", "🦓", "修复登录", "ログイン", "오류", "café", "NULL", "0", "{}",
]  # fmt: skip


def test_no_task_string_breaks_a_recall(seeded_memory):
    for task in NASTY:
        answer = run(seeded_memory.path, ns(task=task))
        assert len(answer["matches"]) <= 5


def test_a_nasty_task_is_found_again_by_itself(root):
    tasks = [task for task in NASTY if any(map(str.isalnum, task)) and task not in ("OR", "NOT", "0", "-x")]
    made = {task: add(root, task) for task in tasks}
    for task, path in made.items():
        assert path in matched(root, task=task, k=3), task


def test_a_task_that_looks_like_an_option(seeded_memory, capsys):
    assert call(seeded_memory.path, "--json", "--", "--k ship") == 0
    assert json.loads(capsys.readouterr().out)["backend"] == "whoosh"


def test_a_query_of_ten_thousand_characters(seeded_memory, capsys):
    assert call(seeded_memory.path, "ship the task " * 715, "--json") == 0
    assert json.loads(capsys.readouterr().out)["matches"]


@pytest.mark.parametrize(
    "verb", [("recall-similar", "ship", "--json", "--min-relevance", "0"), ("list",), ("audit", "show")]
)
def test_output_into_head_is_quiet(seeded_memory, verb):
    command = f'"{sys.executable}" -W error -m cyberos --store "$0" "$@" | head -n 1; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", command, str(seeded_memory.path), *verb], capture_output=True, text=True)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_a_cold_recall_imports_nothing_heavy():
    source = (
        "import sys, cyberos.cli.main, cyberos.cli.recall\n"
        "heavy = {'whoosh', 'sqlite3', 'jsonschema', 'jsonschema_rs', 'yaml', 'numpy', 'frontmatter'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
