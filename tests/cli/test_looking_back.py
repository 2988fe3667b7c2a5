"""`timeline`, `stats`, `retain` and `quarantine`, each through the command line as a user calls it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from cyberos.cli.main import main
from cyberos.core import ledger
from cyberos.core.episode import log
from cyberos.core.writer import Writer
from cyberos.record.health import Counted, health
from support import check, episode, rows


def ago(**span):
    return (datetime.now(UTC) - timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def add(root, task="ship the login form", **fields):
    return log(Writer(root, durability="none"), episode(task, **fields)).as_posix()


@pytest.fixture
def call(root, capsys):
    """Run a verb on the vault; give exit code, stdout and stderr."""

    def run(*arguments):
        capsys.readouterr()
        code = main(["--store", str(root), *arguments])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def items(call):
    def run(*arguments):
        code, out, err = call(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return run


# --- timeline -------------------------------------------------------------------------------------------------------


def test_the_timeline_is_by_the_time_of_the_event_the_last_first(root, items):
    old = add(root, "the old one", occurred_at=ago(days=9))
    new = add(root, "the new one", occurred_at=ago(days=1), scope="web")
    older = add(root, "the oldest one, imported last", occurred_at=ago(days=400))
    assert [item["path"] for item in items("timeline")["items"]] == [new, old, older]
    assert [item["path"] for item in items("timeline", "--since", "10d")["items"]] == [new, old]
    assert [item["path"] for item in items("timeline", "--since", ago(days=2)[:10])["items"]] == [new]
    assert [item["path"] for item in items("timeline", "--scope", "default")["items"]] == [old, older]
    assert [item["path"] for item in items("timeline", "--limit", "1")["items"]] == [new]


def test_the_timeline_has_a_fixed_shape(root, items):
    add(root, evidence="test", evidence_ref="pytest -> exit 0", lesson="l", duration_ms=61_000)
    [item] = items("timeline")["items"]
    assert list(item) == [
        "path", "at", "task", "outcome", "label", "evidence", "duration_ms", "scope", "actor", "lesson", "error", "state",
    ]  # fmt: skip
    assert (item["label"], item["actor"], item["state"]) == ("success", "agent", "ready")


def test_the_timeline_reads_by_day(root, call):
    add(
        root,
        "fix it",
        outcome="failure",
        error="e",
        occurred_at="2026-03-04T17:08:03Z",
        lesson="no redis",
        duration_ms=90_000,
    )
    add(root, "again\x1b[31m\nand on", occurred_at="2026-03-05T01:02:03Z", duration_ms=0)
    code, out, _ = call("timeline")
    assert code == 0
    assert out == (
        "2026-03-05\n"
        "  01:02  claimed success          again and on\n"
        "2026-03-04\n"
        "  17:08  failure          1.5 min  fix it\n"
        "                                   lesson: no redis\n"
    )


def test_an_empty_timeline_says_so(call, items):
    assert call("timeline")[1] == "nothing was logged in that time\n"
    assert items("timeline") == {"items": []}


def test_a_time_that_is_none_is_refused(call):
    assert call("timeline", "--since", "yesterday")[0] == 2


def test_forgotten_episodes_are_gone_and_lost_ones_marked(root, call, items):
    gone, lost, hidden = add(root, "a"), add(root, "b"), add(root, "c")
    Writer(root).forget(gone, "private")
    Writer(root).quarantine(hidden, "doubtful")
    shutil.rmtree(root / ".cyberos" / "stage")
    (root / lost).unlink()
    assert {item["path"]: item["state"] for item in items("timeline")["items"]} == {
        lost: "absent",
        hidden: "quarantined",
    }
    assert "(absent)" in call("timeline")[1]


# --- stats ----------------------------------------------------------------------------------------------------------


def test_stats_count(root, items):
    add(root, "a", evidence="test", evidence_ref="r", occurred_at="2025-01-02T03:04:05Z")
    add(root, "b", occurred_at="2026-01-02T03:04:05.5Z")
    add(root, "c", outcome="failure", error="e", ended="abandoned", occurred_at="2025-06-01T00:00:00Z")
    Writer(root).quarantine(
        add(root, "d", outcome="partial", error="e", occurred_at="2025-06-02T00:00:00Z"), "doubtful"
    )
    Writer(root).forget(add(root, "e"), "private")
    found = items("stats")
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file() and ".cyberos" not in file.parts)
    assert found == {
        "episodes": 4,
        "outcomes": {"success": 2, "partial": 1, "failure": 1},
        "labels": {"success": 1, "claimed_success": 1, "partial": 1, "failure": 0, "abandoned": 1, "unknown": 0},
        "oldest": "2025-01-02T03:04:05Z",
        "newest": "2026-01-02T03:04:05Z",
        "bytes": size
        - sum((root / name).stat().st_size for name in (".gitattributes", ".ignore", "memories/.gitkeep")),
        "health": [],
    }


def test_an_empty_vault_has_stats_too(call, items):
    assert items("stats")["oldest"] is None
    assert call("stats")[1] == "the vault holds no episodes yet\n"


def test_stats_draw_histograms(root, call):
    for number in range(3):
        add(root, f"a {number}", occurred_at="2026-03-04T00:00:00Z")
    add(root, "b", outcome="failure", error="e", occurred_at="2026-03-05T00:00:00Z")
    out = call("stats")[1]
    assert out.startswith("4 episodes from 2026-03-04 to 2026-03-05; ")
    assert f"  success                  3   75.0 %  {'█' * 30}\n" in out
    assert f"  claimed success          3   75.0 %  {'█' * 30}\n" in out
    assert "  partial                  0\n" in out
    assert out.endswith("health\n  - nothing to complain of\n")


def test_stats_name_what_is_lost(root, items):
    for number in range(6):
        path = add(root, f"a {number}")
    shutil.rmtree(root / ".cyberos" / "stage")
    (root / path).unlink()
    assert any("1 episode not counted" in sentence for sentence in items("stats")["health"])


@pytest.mark.parametrize("verb", ["stats", "timeline"])
def test_they_are_right_without_an_index_and_where_none_can_be_written(root, items, verb, monkeypatch):
    for number in range(5):
        add(root, f"task {number}")
    shutil.rmtree(root / ".cyberos", ignore_errors=True)
    expected = items(verb)
    shutil.rmtree(root / ".cyberos" / "index")
    (root / ".cyberos" / "index").write_text("in the way")
    source = "import sys; from cyberos.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", source, "--store", str(root), verb, "--json"], capture_output=True, text=True
    )
    assert json.loads(done.stdout) == expected
    assert "built in memory" in done.stderr


def counted(
    number=0, *, outcome="failure", label="failure", evidence="test", scope="default", at=None, task="", lesson=""
):
    moment = (number * 3_600 * 1_000_000) if at is None else at
    return Counted(outcome, label, evidence, scope, moment, task or f"task {number}", lesson)


def sound(count=40):
    """Give episodes with nothing to complain of."""
    names = ("success", "failure", "partial", "success")
    return [counted(number, label=names[number % 4], lesson=f"use port {number} for it") for number in range(count)]


def test_health_is_silent_where_all_is_well_and_where_there_is_too_little():
    assert health(sound()) == []
    assert health([counted(label="success", evidence="none", at=0)] * 4) == []


@pytest.mark.parametrize(
    ("episodes", "said"),
    [
        ([each._replace(label="success") for each in sound()], "all 40 episodes are labelled success"),
        ([*[each._replace(label="unknown") for each in sound(39)], counted(40)], "39 of 40 episodes are labelled unknown"),
        ([each._replace(evidence="agent") for each in sound()], "nothing is verified"),
        ([*[each._replace(evidence="none") for each in sound()], counted(40)], "only 1 of 41 outcomes are verified"),
        ([each._replace(lesson="") for each in sound()], "no episode has a lesson"),
        ([each._replace(lesson=f"Tasks: {each.task}.") for each in sound()], "40 of 40 lessons only repeat their task"),
        ([each._replace(lesson="be careful") for each in sound()], "40 of 40 lessons are one and the same"),
        (
            [*sound(), *[counted(at=10**15 + n * 1_000_000, scope="web", task=f"t {n}") for n in range(24)]],
            "24 episodes of scope web lie within ten minutes",
        ),
    ],
)  # fmt: skip
def test_health_says_what_has_stopped_carrying_information(episodes, said):
    assert [sentence for sentence in health(episodes) if sentence.startswith(said)] != []


# --- retain ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def aged(root):
    """Give a vault of an old, an old verified, an old taught and a new episode; give their paths."""
    return [
        add(root, "old", occurred_at=ago(days=500)),
        add(root, "old but verified", occurred_at=ago(days=400), evidence="test", evidence_ref="r"),
        add(root, "old but taught", occurred_at=ago(days=399), lesson="use the fixture"),
        add(root, "new", occurred_at=ago(days=300)),
    ]


def test_a_dry_run_names_what_would_go_and_forgets_nothing(root, aged, items, call):
    before = rows(root)
    assert items("retain", "--older-than", "365d", "--dry-run") == {
        "older_than": "365d",
        "dry_run": True,
        "items": aged[:3],
    }
    code, out, _ = call("retain", "--older-than", "52w", "--dry-run")
    assert (code, out.splitlines()[0]) == (0, "3 episodes older than 52w")
    assert rows(root) == before


def test_it_forgets_through_the_ledger(root, aged, call, capsys):
    code, _, err = call("retain", "--older-than", "365d", "--yes", "--actor", "ada")
    assert code == 0
    assert "forgot 3 episodes; not reached: git's history" in err
    found = check(root, is_settled=False)
    assert [path for path in aged if found.memories[path].is_forgotten] == aged[:3]
    told = [row for row in found.rows if row["kind"] == "memory.forgotten"]
    assert {(row["actor"], row["payload"]["reason"]) for row in told} == {("ada", "older than 365d")}
    assert call("doctor")[0] == 0
    assert json.loads(call("retain", "--older-than", "365d", "--yes", "--json")[1])["items"] == []


def test_what_is_to_be_kept_is_kept(aged, items):
    kept = items("retain", "--older-than", "365d", "--dry-run", "--keep-verified")
    assert kept["items"] == [aged[0], aged[2]]
    kept = items("retain", "--older-than", "365d", "--dry-run", "--keep-verified", "--keep-lessons")
    assert kept["items"] == [aged[0]]
    assert items("retain", "--older-than", "365d", "--dry-run", "--scope", "web")["items"] == []


def test_many_go_in_one_transaction(root, call):
    with (writer := Writer(root, durability="none")).transaction():
        for number in range(40):
            log(writer, episode(f"task {number}", occurred_at=ago(days=2)))
    assert call("retain", "--older-than", "1d", "--yes")[0] == 0
    assert list((root / "memories/episodes").rglob("*.md")) == []
    assert len({tuple(row["tx"])[1] for row in rows(root) if row["kind"] == "memory.forgotten"}) == 1
    check(root)


def test_nobody_is_asked_where_nobody_can_answer(root, aged, call):
    code, _, err = call("retain", "--older-than", "365d")
    assert code == 2
    assert "--dry-run" in err
    assert not any(memory.is_forgotten for memory in ledger.scan(root).memories.values())


def test_no_is_an_answer(root, aged):
    outlet, inlet = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "cyberos", "--store", str(root), "retain", "--older-than", "365d"],
        stdin=inlet, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.write(outlet, b"n\n")
    _, err = child.communicate()
    os.close(outlet)
    os.close(inlet)
    assert child.returncode == 130
    assert b"Forget 3 episodes?" in err
    assert not any(memory.is_forgotten for memory in ledger.scan(root).memories.values())


def test_the_window_is_a_setting_and_forever_unless_set(root, aged, call, items, monkeypatch):
    code, _, err = call("retain", "--dry-run")
    assert code == 2
    assert "for ever" in err
    (root / "cyberos.toml").write_text('retention = "450d"\n')
    assert items("retain", "--dry-run")["items"] == aged[:1]
    monkeypatch.setenv("CYBEROS_RETENTION", "never")
    assert call("retain", "--dry-run")[0] == 1


# --- quarantine -----------------------------------------------------------------------------------------------------


def recalled(call, *options):
    out = call("recall-similar", "ship the login form", "--min-relevance", "0", "--json", *options)[1]
    return [match["path"] for match in json.loads(out)["matches"]]


def test_quarantine_hides_release_shows_and_history_keeps_both(root, call, items):
    path = add(root)
    assert recalled(call) == [path]
    assert call("quarantine", path, "--reason", "poisoned")[:2] == (0, f"quarantined {path}\n")
    assert recalled(call) == []
    assert (root / path).exists()
    released = items("quarantine", path, "--release", "--reason", "it was right", "--actor", "ada")
    assert released == {"path": path, "quarantined": False, "seq": 5}
    assert recalled(call) == [path]
    told = items("history", path)["items"]
    assert [row["kind"] for row in told] == ["put", "episode.logged", "memory.quarantined", "memory.released"]
    assert (told[-1]["actor"], told[-1]["payload"]["reason"]) == ("ada", "it was right")
    assert call("doctor")[0] == 0


def test_only_what_is_quarantined_can_be_released(root, call):
    path = add(root)
    code, _, err = call("quarantine", path, "--release", "--reason", "r")
    assert (code, "it is not quarantined" in err) == (1, True)
    assert call("quarantine", "memories/episodes/aa/bb/aabbccdd-000000.md", "--reason", "r")[0] == 1


# --- whom a recall trusts -------------------------------------------------------------------------------------------


def test_only_trusted_actors_answer(root, call):
    mine = log(Writer(root), episode(), actor="ada").as_posix()
    other = log(Writer(root), episode(), actor="stranger").as_posix()
    assert set(recalled(call)) == {mine, other}
    assert recalled(call, "--trusted-actors", "ada") == [mine]
    assert set(recalled(call, "--trusted-actors", "ada, stranger")) == {mine, other}
    assert recalled(call, "--trusted-actors", "") == []


def test_untrusted_episodes_do_not_crowd_out_trusted_ones(root, call):
    mine = log(Writer(root), episode("ship the login form, at last"), actor="ada").as_posix()
    with (writer := Writer(root, durability="none")).transaction():
        for _ in range(120):
            log(writer, episode(), actor="stranger")
    assert recalled(call, "--trusted-actors", "ada", "--k", "1") == [mine]


def test_only_what_is_committed_answers(repo, capsys):
    def ask(*options):
        capsys.readouterr()
        main(["--store", str(repo.root), "recall-similar", "ship", "--min-relevance", "0", "--json", *options])
        return len(json.loads(capsys.readouterr().out)["matches"])

    repo.log("ship it", 2)
    repo.commit("episodes")
    repo.log("ship it", 1)
    assert (ask(), ask("--committed-only")) == (3, 2)


def test_outside_git_nothing_is_committed(root, call):
    add(root)
    code, _, err = call("recall-similar", "ship", "--committed-only")
    assert (code, "--committed-only" in err) == (2, True)
