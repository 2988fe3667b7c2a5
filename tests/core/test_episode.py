"""The acceptance criteria of TASK-MEMORY-112 (seed 002, section 4), each test naming its own.

AC 3 and 17 are snapshots, since the suites that they name do not exist here. AC 16 and 20 come with the search by
meaning and FTS5.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from cyberos.cli.episode import run as episode_run
from cyberos.cli.recall import combined_score
from cyberos.cli.recall import run as recall_run
from cyberos.core import contract, frontmatter, layout
from cyberos.core.episode import Episode, body_of
from cyberos.core.episode import log as episode_log
from cyberos.core.errors import InvalidMemory
from cyberos.core.semantic import recall as semantic_recall

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "memory.schema.json").read_text(encoding="utf-8"))
CORPUS = ROOT / "tests" / "fixtures" / "episode_corpus.jsonl"
OLD_KINDS = ("decisions", "facts", "people", "projects", "preferences", "drift", "refinements")
BASE = {"kind": "episode", "task": "t", "approach": "a", "outcome": "success", "duration_ms": 1}


def episode(**given):
    return Episode(**({"task": "t", "approach": "a", "outcome": "success", "duration_ms": 1} | given))


def cyberos(store, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "cyberos", "--store", str(store), *arguments], capture_output=True, text=True, timeout=60
    )


def corpus():
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines() if line.strip()]


# --- AC 1-3: the schema ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*OLD_KINDS, "episode"])
def test_ac01_kinds_are_valid(kind):
    whole = {"$ref": "#/definitions/MemoryKind", "definitions": SCHEMA["definitions"], "$defs": SCHEMA["$defs"]}
    for law in (SCHEMA["$defs"]["MemoryKind"], whole):
        valid = jsonschema.Draft202012Validator(law).is_valid
        assert valid(kind)
        assert not valid(kind.upper())


def test_ac01_an_unknown_kind_is_not():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate("episodes", SCHEMA["$defs"]["MemoryKind"])


@pytest.mark.parametrize("missing", ["task", "approach", "outcome", "duration_ms"])
def test_ac02_required_fields(missing):
    bad = {key: value for key, value in BASE.items() if key != missing}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(bad, SCHEMA["$defs"]["EpisodeFrontmatter"])
    assert [problem.rule for problem in contract.problems(bad)] == ["episode-frontmatter-required-field"]


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "facts"},
        {"kind": "decisions", "title": "x", "when": "2026-01-01", "nested": {"a": [1, {"b": None}]}},
        {"kind": "people", "name": "", "tags": []},
        {"kind": "drift", "score": 1.5, "outcome": "kinda-worked", "duration_ms": -1},
    ],
)
def test_ac03_old_kinds_are_as_free_as_before(values):
    assert contract.problems(values) == []
    jsonschema.validate(values, SCHEMA)
    jsonschema.validate(values, {"$ref": "#/$defs/MemoryFrontmatter", "$defs": SCHEMA["$defs"]})


def test_every_definition_that_others_refer_to_stands_alone():
    for name in ("MemoryKind", "EpisodeFrontmatter"):
        assert "$ref" not in json.dumps(SCHEMA["$defs"][name])
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


# --- AC 4, 18: the writer ---------------------------------------------------------------------------------------------


def test_ac04_log_writes_put_and_aux_rows(tmp_memory):
    before = tmp_memory.head_seq()
    path = episode_log(tmp_memory, episode(task="ship task", duration_ms=1800_000, quality_score=0.92), actor="stephen")
    assert tmp_memory.head_seq() == before + 2
    put, aux = tmp_memory.read_audit_row(before + 1), tmp_memory.read_audit_row(before + 2)
    assert (put["kind"], put["payload"]["path"], put["actor"]) == ("put", path.as_posix(), "stephen")
    assert aux["kind"] == "episode.logged"
    assert aux["payload"]["outcome"] == "success"
    assert aux["payload"]["quality_score"] == 0.92


def test_ac18_projection(tmp_memory):
    path = episode_log(tmp_memory, episode(outcome="failure", error="e", token_cost=7))
    aux = tmp_memory.read_audit_row(tmp_memory.head_seq())
    assert aux["payload"] == {
        "path": path.as_posix(),
        "outcome": "failure",
        "duration_ms": 1,
        "token_cost": 7,
        "quality_score": 0.5,
        "logged_at": aux["ts"],
    }
    assert isinstance(aux["payload"]["quality_score"], float)


# --- AC 5-9: the episode ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "error", "ok"),
    [
        ("success", None, True),
        ("partial", "dispatcher returned 502 once before recovering", True),
        ("failure", "tokens exhausted", True),
        ("failure", None, False),
        ("failure", "", False),
        ("partial", " \n\t", False),
        ("kinda", None, False),
        ("kinda-worked", "x", False),
        ("Success", None, False),
        (None, None, False),
    ],
)
def test_ac05_and_ac08_outcome_is_closed_and_error_required(outcome, error, ok):
    if ok:
        assert episode(outcome=outcome, error=error).outcome == outcome
    else:
        with pytest.raises(ValueError, match="outcome|error"):
            episode(outcome=outcome, error=error)


@pytest.mark.parametrize(
    ("score", "ok"),
    [(0.0, True), (1.0, True), (0.5, True), (None, True), (1, True), (1e-05, True)]
    + [(bad, False) for bad in (-0.0001, 1.0001, 1.1, True, "0.5", float("nan"), float("inf"), -float("inf"))],
)
def test_ac06_quality_score_range(score, ok):
    if ok:
        assert episode(quality_score=score).quality_score == score
    else:
        with pytest.raises(InvalidMemory) as caught:
            episode(quality_score=score)
        assert caught.value.rule == "episode-quality-score-range"


@pytest.mark.parametrize(
    ("duration", "ok"), [(0, True), (2**53 - 1, True)] + [(d, False) for d in (-1, True, 1.0, 1e3, 2**53, "1", None)]
)
def test_ac07_duration_is_a_whole_number_from_zero_up(duration, ok):
    if ok:
        assert episode(duration_ms=duration).duration_ms == duration
    else:
        with pytest.raises(ValueError, match="duration_ms"):
            episode(duration_ms=duration)


@pytest.mark.parametrize(
    ("cost", "ok"), [(0, True), (None, True), (2**53 - 1, True)] + [(c, False) for c in (-1, True, 5.0, 2**53, "1")]
)
def test_a_token_cost_is_a_whole_number_from_zero_up_or_unknown(cost, ok):
    if ok:
        assert episode(token_cost=cost).token_cost == cost
    else:
        with pytest.raises(InvalidMemory) as caught:
            episode(token_cost=cost)
        assert caught.value.rule == "episode-token-cost-non-negative"


def test_ac09_searchable_document_is_exact():
    assert (
        episode(task="X", approach="Y", notes="N").searchable_document()
        == "Task: X\nApproach: Y\nOutcome: success\nNotes: N"
    )
    assert episode(task="X", approach="Y").searchable_document() == "Task: X\nApproach: Y\nOutcome: success\nNotes: "
    with_lesson = episode(
        task="X", approach="Y", outcome="failure", error="not in it", lesson="L"
    ).searchable_document()
    assert with_lesson == "Task: X\nApproach: Y\nOutcome: failure\nNotes: \nLesson: L"


# --- AC 10: the command line ------------------------------------------------------------------------------------------


def test_ac10_log_and_read_round_trip(tmp_memory):
    given = ["--task", "Audit the MEMORY module", "--approach", "cross-ref vs AGENTS.md", "--outcome", "success"]
    given += [
        "--duration-ms",
        "1847000",
        "--token-cost",
        "145000",
        "--quality-score",
        "0.92",
        "--tag",
        "a",
        "--tag",
        "b",
    ]
    logged = cyberos(tmp_memory.path, "episode", "log", *given)
    path = logged.stdout.strip()
    assert re.fullmatch(r"memories/episodes/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{8}-[0-9a-f]{6}\.md", path), logged.stderr
    read = json.loads(cyberos(tmp_memory.path, "read", path, "--json").stdout)
    expected = {"kind": "episode", "task": "Audit the MEMORY module", "approach": "cross-ref vs AGENTS.md"}
    expected |= {
        "outcome": "success",
        "duration_ms": 1847000,
        "token_cost": 145000,
        "quality_score": 0.92,
        "tags": ["a", "b"],
    }
    assert read["frontmatter"] == expected
    assert read["path"] == path


def test_ac10_run_takes_any_object(tmp_memory):
    args = SimpleNamespace(
        task="t",
        approach="a",
        outcome="partial",
        duration_ms=1,
        token_cost=None,
        quality_score=None,
        notes="",
        error="half",
    )
    path = episode_run(tmp_memory, args, "agent")
    assert (tmp_memory.path / path).is_file()


# --- AC 11-17, 21: recall (more in tests/cli/test_recall.py) ------------------------------------------------------------


def test_ac11_recall_similar_gives_only_episodes(seeded_memory):
    hits = semantic_recall(seeded_memory.path, "ship a task", k=10, min_relevance=0.0, memory_kind="episode")
    assert len(hits) == 5
    assert all(hit.frontmatter["kind"] == "episode" for hit in hits)


def test_ac12_quality_orders_what_is_equally_relevant(tmp_memory):
    for score in (0.4, 0.9):
        episode_log(tmp_memory, episode(task="ship the release", approach="tag and push", quality_score=score))
    out = recall_run(tmp_memory.path, SimpleNamespace(task="ship the release", k=5, min_relevance=0.0))
    assert [match["quality_score"] for match in out["matches"]] == [0.9, 0.4]


def test_ac13_absent_quality_ranks_as_half():
    assert combined_score(0.8, None, 1.0) == combined_score(0.8, 0.5, 1.0)
    assert combined_score(0.8, 0.4, 1.0) < combined_score(0.8, None, 1.0) < combined_score(0.8, 0.9, 1.0)


def test_ac15_k_caps(tmp_memory):
    for _ in range(10):
        episode_log(tmp_memory, episode(task="ship the release"))
    out = recall_run(tmp_memory.path, SimpleNamespace(task="ship the release", k=3, min_relevance=0.0))
    assert len(out["matches"]) == 3


def test_ac21_no_episodes(empty_memory):
    out = recall_run(empty_memory.path, SimpleNamespace(task="x", k=3, min_relevance=0.65))
    assert out["matches"] == []
    assert out["reason"] == "no_episodes_in_store"


# --- AC 19: the corpus ------------------------------------------------------------------------------------------------


def test_ac19_corpus_round_trips():
    rows = corpus()
    assert len(rows) >= 120
    for row in rows:
        made = Episode(**row)
        values = made.frontmatter()
        jsonschema.validate(values, SCHEMA["$defs"]["EpisodeFrontmatter"])
        assert Episode.from_frontmatter(values) == made
        parsed = frontmatter.parse(made.render())
        assert Episode.from_frontmatter(parsed.frontmatter) == made
        assert body_of(values) == made.searchable_document()


def test_ac19_corpus_has_its_groups():
    groups = [row["tags"][0] for row in corpus()]
    assert {group: groups.count(group) >= 30 for group in set(groups)} == dict.fromkeys(
        ("success", "partial", "failure", "edge"), True
    )
    rows = corpus()
    assert any(row["duration_ms"] == 0 for row in rows)
    assert {0.0, 1.0} <= {row.get("quality_score") for row in rows}
    assert any("\n" in row["task"] for row in rows)
    assert any(set(row) == {"task", "approach", "outcome", "duration_ms", "tags"} for row in rows)


def test_ac19_probes_name_rows_of_the_corpus():
    names = {row["tags"][1] for row in corpus()}
    probes = [
        json.loads(line) for line in CORPUS.with_name("episode_probes.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert len(probes) >= 60
    assert {name for probe in probes for name in probe["relevant"]} <= names
    assert all(bool(probe["relevant"]) != (probe["kind"] == "foreign") for probe in probes)


# --- AC 22, 23 --------------------------------------------------------------------------------------------------------


def test_ac22_the_walker_rejects_an_outcome_outside_the_enum(broken_memory):
    done = cyberos(broken_memory, "doctor")
    assert done.returncode == 1
    assert "episode-outcome-closed-enum" in done.stderr


def test_ac23_changelog():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(r"^## \d+\.\d+\.\d+ - \d{4}-\d\d-\d\d$(.*)", text, re.MULTILINE | re.DOTALL).group(1)
    assert all(words in section for words in ("TASK-MEMORY-112", "kind: episode", "episode log", "recall-similar"))


# --- what else an episode promises ------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", ["", " ", "\n\t ", "\u00a0\u3000", "\u200b\u2060", "\ufeff"])
@pytest.mark.parametrize("name", ["task", "approach"])
def test_blank_text_is_refused(name, blank):
    with pytest.raises(InvalidMemory) as caught:
        episode(**{name: blank})
    assert (caught.value.rule, caught.value.pointer) == ("episode-text-blank", f"/{name}")


@pytest.mark.parametrize("bad", ["a\x00b", "a\rb", "a\x1b", "a\x7f", "a\x85", "a\ud800"])
def test_forbidden_characters_are_refused_with_field_and_offset(bad):
    with pytest.raises(InvalidMemory, match="notes holds .* at character 1"):
        episode(notes=bad)


def test_ansi_and_crlf_are_cleaned():
    made = episode(task="\x1b[1;31mred\x1b[0m", approach="a\r\nb", notes="\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\")
    assert (made.task, made.approach, made.notes) == ("red", "a\nb", "link")


def test_a_huge_task_is_refused_in_words():
    with pytest.raises(InvalidMemory) as caught:
        episode(task="x" * 10_000_000)
    assert caught.value.rule == "layout-file-size"


@pytest.mark.parametrize("evidence", ["test", "exit_code", "user", "judge"])
def test_evidence_must_be_named(evidence):
    with pytest.raises(InvalidMemory) as caught:
        episode(evidence=evidence)
    assert caught.value.rule == "episode-evidence-ref"
    assert episode(evidence=evidence, evidence_ref="pytest -q -> exit 0").evidence == evidence


def test_defaults_stay_out_of_the_file():
    made = episode(notes="", error="", evidence="none", ended="completed", scope="default", tags=[], lesson="")
    assert made.frontmatter() == BASE
    assert episode(quality_score=1).frontmatter()["quality_score"] == 1.0
    assert '"quality_score": 1.0\n' not in made.render()
    assert '"quality_score": 0.00001,' in episode(quality_score=1e-05).render()


def test_occurred_at_is_written_in_utc():
    assert episode(occurred_at="2026-03-01T01:30:00+02:00").occurred_at == "2026-02-28T23:30:00Z"
    for bad in ("2026-02-30T00:00:00Z", "2026-03-01", "2026-03-01T00:00:00", "yesterday", "2026-03-01T00:00:00Z\n"):
        with pytest.raises(InvalidMemory) as caught:
            episode(occurred_at=bad)
        assert caught.value.rule == "episode-occurred-at"


def test_an_unknown_field_names_the_nearest():
    with pytest.raises(InvalidMemory) as caught:
        Episode.from_frontmatter(BASE | {"qualty_score": 0.5})
    assert caught.value.rule == "episode-unknown-key"
    assert "quality_score" in caught.value.hint


def test_the_path_begins_with_the_sha256_of_the_task(tmp_memory):
    path = episode_log(tmp_memory, episode(task="Ünïcode ✓")).as_posix()
    assert path.startswith(layout.episode_stem("Ünïcode ✓"))
    assert layout.path_problem(path) is None
