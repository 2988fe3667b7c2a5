"""`--explain`, `--statistics`, `--select`, `--exit-zero`: and that every rule is explained, by examples that are true."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cyberos.cli.main import main
from cyberos.core import contract
from cyberos.doctor import explanation
from support import episode, write_raw

ROOT = Path(__file__).parents[2]
RULES = contract.rules()
SELECTING = [rule for rule in RULES.values() if rule.select is not None]
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")


# --- the texts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_every_installed_rule_says_why_and_shows_a_bad_and_a_good_example(rule):
    for text in (rule.why, rule.bad, rule.good, rule.hint):
        assert text
        assert text.strip()
    assert len(rule.why) <= 400, "short"
    assert rule.why.endswith(".")
    assert rule.bad != rule.good
    assert max(map(len, f"{rule.bad}\n{rule.good}".splitlines())) <= 130


def fields(example):
    """Lay an example over a sound episode; one with a kind of its own stands alone."""
    given = json.loads(example)
    return given if "kind" in given else episode().frontmatter() | given


@pytest.mark.parametrize("rule", SELECTING, ids=lambda rule: rule.id)
def test_the_examples_of_a_field_are_true(rule):
    assert {problem.rule for problem in contract.problems(fields(rule.bad))} == {rule.id}
    assert contract.problems(fields(rule.good)) == []


def test_the_page_of_rules_is_what_the_rules_say():
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert page == explanation.page(), "docs/rules.md is stale: run `make docs`"
    assert re.findall(r"^### (\S+)$", page, re.MULTILINE) == sorted(
        RULES, key=lambda name: [*explanation._SCOPES].index(RULES[name].scope)
    )


def test_the_page_is_printed_by_the_module():
    command = [sys.executable, "-m", "cyberos.doctor.explanation"]
    assert subprocess.run(command, capture_output=True, check=True).stdout.decode() == explanation.page()


def test_the_address_of_the_page_is_what_the_package_says(monkeypatch):
    from email.message import Message

    named = Message()
    monkeypatch.setattr("importlib.metadata.metadata", lambda _: named)
    assert explanation.rules_url() is None
    named["Project-URL"] = "Source, https://example.org"
    named["Project-URL"] = "Rules, https://example.org/docs/rules.md"
    assert explanation.rules_url() == "https://example.org/docs/rules.md"


# --- --explain ------------------------------------------------------------------------------------------------------


def test_a_rule_is_explained_on_stdout_without_a_vault(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--explain", "memory-modified"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("memory-modified (error, scope ledger)\n\nA memory's bytes")
    for part in ("Why: ", "Bad:\n    $ sed", "Good:\n    $ cyberos episode log", "What to do: bring it back"):
        assert part in out


def test_all_rules_or_those_of_a_prefix_are_explained(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--explain", "all"]) == 0
    assert re.findall(r"^(\S+) \((?:error|warning|info), scope ", capsys.readouterr().out, re.MULTILINE) == list(RULES)
    assert main(["doctor", "--explain", "all", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["rules"]
    assert [item["id"] for item in items] == list(RULES)
    assert list(items[0]) == ["id", "severity", "scope", "description", "why", "bad", "good", "hint", "fix"]
    assert main(["doctor", "--explain", "contract-", "--format", "json"]) == 0
    assert [item["id"] for item in json.loads(capsys.readouterr().out)["rules"]] == [
        "contract-valid",
        "contract-weakened",
    ]


def test_an_unknown_rule_is_a_usage_error_that_names_the_nearest(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--explain", "memory-modifed"]) == 2
    assert "Did you mean 'memory-modified'?" in capsys.readouterr().err


# --- what is reported -----------------------------------------------------------------------------------------------


@pytest.fixture
def broken(seeded_memory, monkeypatch):
    """Give a vault with three edited facts and a file that is no memory, and go there."""
    root = seeded_memory.path
    monkeypatch.chdir(root)
    for path in sorted((root / "memories/facts").rglob("*.md"))[:3]:
        path.write_bytes(path.read_bytes() + b"edited\n")
    write_raw(root / "memories/notes.txt", "x")
    return root


def test_statistics_count_each_rule_the_most_frequent_first(broken, capsys):
    assert main(["doctor", "--statistics"]) == 1
    out, err = capsys.readouterr()
    assert [line.split()[:2] for line in out.splitlines()] == [["3", "memory-modified"], ["1", "layout-path-safe"]]
    assert err == ""
    assert main(["doctor", "--statistics", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [(item["rule"], item["severity"], item["count"]) for item in document["statistics"]] == [
        ("memory-modified", "error", 3),
        ("layout-path-safe", "error", 1),
    ]
    assert document["summary"]["errors"] == 4
    assert main(["doctor", "--statistics", "--format", "sarif"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "found"),
    [
        (["--select", "memory-"], 1, {"memory-modified"}),
        (["--select", "memory"], 1, {"memory-modified"}),
        (["--select", "layout-path-"], 1, {"layout-path-safe"}),
        (["--select", "ledger-,layout-path-safe"], 1, {"layout-path-safe"}),
        (["--select", "memory-", "--ignore", "memory-modified"], 0, set()),
        (["--ignore", "memory-,layout-"], 0, set()),
        (["--exit-zero"], 0, {"memory-modified", "layout-path-safe"}),
    ],
)
def test_rules_are_chosen_by_id_or_by_prefix(broken, capsys, arguments, code, found):
    assert main(["doctor", "--json", *arguments]) == code
    assert {one["rule"] for one in json.loads(capsys.readouterr().out)["findings"]} == found


@pytest.mark.parametrize(
    ("name", "near"),
    [("ledgr-", "ledger-"), ("memory-modifed", "memory-modified"), ("mem", None), ("", None), ("-", None)],
)
def test_a_name_that_no_rule_has_is_a_usage_error(broken, capsys, name, near):
    for option in ("--select", "--ignore"):
        assert main(["doctor", option, name, "--exit-zero"]) == 2
        err = capsys.readouterr().err
        assert f"No rule is called {name!r}." in err
        assert near is None or f"Did you mean {near!r}?" in err


# --- docs/guarantees.md ---------------------------------------------------------------------------------------------


def test_every_test_that_the_guarantees_name_exists():
    named = re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`", GUARANTEES)
    assert len(named) > 20
    for file, name in named:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in source, f"{file} has no {name}"


def test_every_rule_that_the_guarantees_name_exists():
    families = {name.split("-")[0] for name in RULES}
    for name in re.findall(r"`([a-z]+(?:-[a-z]+)+)`", GUARANTEES):
        assert name in RULES or name.split("-")[0] not in families, name
