"""The report in each format, held against that format's own schema or reading rules, for every vault under tests/bad."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import jsonschema_rs
import pytest
import xmlschema

from cyberos.cli.main import main
from cyberos.core import contract
from cyberos.doctor.examination import examine
from cyberos.doctor.findings import Finding, Report
from cyberos.doctor.formats import github, junit, sarif, text
from support import write_raw

TESTS = Path(__file__).parents[1]
SCHEMAS = TESTS / "schemas"
SARIF = jsonschema_rs.validator_for(json.loads((SCHEMAS / "sarif-2.1.0.json").read_text()), validate_formats=True)
JUNIT = xmlschema.XMLSchema10(str(SCHEMAS / "junit-10.xsd"))
RULES = contract.rules()

HARD = "a b,c:d%25%\r\n<&>\"' é\u2028\ufffe\x1b[2J\udcff"  # what some format must escape
BAD = sorted(path for path in (TESTS / "bad").glob("*/*") if path.parent.name != "layout-file-regular")


def made(rule="memory-modified", severity="error", path="memories/a.md", line=7, pointer="", message="x", hint="do"):
    return Finding(rule, severity, path, line, pointer, message, hint)


REPORTS = {
    "nothing": Report([], 3, 5),
    "hard": Report([made(path=f"memories/{HARD}.md", message=HARD, hint=HARD, pointer=f"/{HARD}")], 1, 1),
    "levels": Report(
        [
            made(severity="warning"),
            made(severity="info", hint=None),
            made("doctor-check-crashed"),
            made(),
            made(),
            made("our-own"),
        ],
        6,
        9,
    ),
} | {f"{path.parent.name}/{path.name}": path for path in BAD}


@pytest.fixture(params=REPORTS)
def report(request):
    found = REPORTS[request.param]
    return found if isinstance(found, Report) else examine(found)


# --- GitHub ---------------------------------------------------------------------------------------------------------


def read_command(line):
    """Read a workflow command as the runner does: split, then undo the escapes, `%25` last."""
    command, properties, data = re.fullmatch(r"::([a-z]+) ([^:]*)::(.*)", line).groups()

    def undo(value, *pairs):
        for old, new in (*pairs, ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            value = value.replace(old, new)
        return value

    pairs = (pair.partition("=") for pair in properties.split(","))
    return command, {key: undo(value, ("%3A", ":"), ("%2C", ",")) for key, _, value in pairs}, undo(data)


def test_github_lines_say_what_was_found(report):
    lines = list(github.lines(report, ""))
    assert len(lines) == len(report.findings)
    assert all(line.isprintable() or "é" in line for line in lines)
    read = [read_command(line) for line in lines]
    levels = {"error": "error", "warning": "warning", "info": "notice"}
    wanted = sorted((levels[one.severity], one.rule, one.line) for one in report.findings)
    assert sorted((command, named["title"], int(named["line"])) for command, named, _ in read) == wanted
    assert {tuple(named) for _, named, _ in read} <= {("file", "line", "title")}
    for one in report.findings:
        if one.message.isascii() and one.message.isprintable():
            assert any(named["file"] == one.path and data.startswith(one.message) for _, named, data in read)


def test_github_escapes_come_back_as_they_were():
    one = made(path="memories/a,b:c%2C%.md", message="50% of it\r\nand: the, rest %0A", hint=None)
    (line,) = github.lines(Report([one], 0, 0), "sub/folder/")
    assert "\n" not in line
    assert "\r" not in line
    command, named, data = read_command(line)
    assert (command, named["file"]) == ("error", f"sub/folder/{one.path}")
    assert data == one.message
    assert (
        "::error file=sub/folder/memories/a%2Cb%3Ac%252C%25.md,line=7,title=memory-modified::50%25 of it%0D%0A" in line
    )


def test_github_shows_ten_of_a_step_so_that_each_rule_is_among_the_first():
    found = [made(path=f"memories/{number}") for number in range(20)] + [made("ledger-hash", path="z")]
    assert [read_command(line)[1]["title"] for line in github.lines(Report(found, 0, 0), "")][:2] == [
        "memory-modified",
        "ledger-hash",
    ]


# --- SARIF ----------------------------------------------------------------------------------------------------------


def test_sarif_obeys_its_schema_and_says_what_was_found(report):
    document = sarif.document(report, "sub/a folder/", RULES, "1.2.3")
    json.dumps(document, allow_nan=False).encode("ascii")
    assert [str(error) for error in SARIF.iter_errors(document)] == []
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(RULES)
    for result, one in zip(run["results"], report.findings, strict=True):
        assert result["ruleId"] == one.rule
        assert one.rule not in RULES or rules[result["ruleIndex"]]["id"] == one.rule
        place = result["locations"][0]["physicalLocation"]
        assert unquote(place["artifactLocation"]["uri"], errors="surrogateescape") == f"sub/a folder/{one.path}"
        assert place["artifactLocation"]["uri"].isascii()
        assert place["region"] == {"startLine": one.line}
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]
    assert len(set(prints)) == len(prints)


def test_the_sarif_schema_can_fail():
    document = sarif.document(REPORTS["levels"], "", RULES, "1.2.3")
    document["runs"][0]["results"][0]["level"] = "fatal"
    assert list(SARIF.iter_errors(document))
    assert list(SARIF.iter_errors({"version": "2.1.0", "runs": [{}]}))


def test_a_fingerprint_stays_when_the_line_moves():
    def prints(line):
        (run,) = sarif.document(Report([made(line=line)], 0, 0), "", RULES, "1")["runs"]
        return run["results"][0]["partialFingerprints"]

    assert prints(3) == prints(300)


@pytest.mark.parametrize("address", [None, "https://example.org/docs/rules.md"])
def test_every_sarif_rule_explains_itself_and_names_its_place_in_the_docs_if_they_have_one(monkeypatch, address):
    monkeypatch.setattr("cyberos.doctor.explanation.rules_url", lambda: address)
    document = sarif.document(Report([], 0, 0), "", RULES, "1")
    assert [str(error) for error in SARIF.iter_errors(document)] == []
    for rule in document["runs"][0]["tool"]["driver"]["rules"]:
        assert rule.get("helpUri") == (f"{address}#{rule['id']}" if address else None)
        assert RULES[rule["id"]].why in rule["fullDescription"]["text"]
        assert "Bad:" in rule["help"]["text"]
        assert "```" in rule["help"]["markdown"]


# --- JUnit ----------------------------------------------------------------------------------------------------------


def test_junit_obeys_its_schema_and_says_what_was_found(report):
    document = junit.document(report, "sub/", RULES)
    assert [str(error.reason) for error in JUNIT.iter_errors(document)] == []
    top = ET.fromstring(document)  # noqa: S314 - our own
    (suite,) = top
    cases = list(suite)
    assert int(suite.get("tests")) == len(cases)
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(attribute)) == len(list(suite.iter(tag))), tag
    assert (int(suite.get("failures")) + int(suite.get("errors")) > 0) == (report.count("error") > 0)
    passed = {case.get("classname") for case in cases if not len(case)}
    broken = {one.rule for one in report.findings}
    assert passed == set(RULES) - broken
    assert {case.get("classname") for case in cases if len(case)} == broken


def test_the_junit_schema_can_fail():
    assert not JUNIT.is_valid("<testsuites><testsuite name='x'/></testsuites>")
    assert not JUNIT.is_valid(junit.document(Report([], 0, 0), "", RULES).replace("classname", "class"))


# --- text -----------------------------------------------------------------------------------------------------------


def test_text_keeps_each_finding_to_a_line_and_away_from_the_terminal(report):
    for line in text.lines(report):
        assert "\n" not in line
        assert "\x1b" not in line


def test_a_hint_stands_once_for_a_rule_and_under_one_finding_it_names_the_path():
    hint = "run `git checkout HEAD -- {}`"
    found = [made(path=f"memories/{name}", hint=hint.format(f"memories/{name}")) for name in "abc"]
    shown = list(text.lines(Report(found, 3, 3)))
    assert [line for line in shown if "hint" in line] == ["  hint: run `git checkout HEAD -- PATH`"]
    assert shown[1].startswith("  hint: ")
    shown = list(text.lines(Report(found[:1], 3, 3)))
    assert shown[1] == "  hint: run `git checkout HEAD -- memories/a`"


def test_a_rule_with_two_ways_out_shows_both():
    found = [made(hint="do this"), made(hint="do that"), made(hint="do this")]
    assert [line for line in text.lines(Report(found, 0, 0)) if "hint" in line] == [
        "  hint: do this",
        "  hint: do that",
    ]


def test_the_last_lines_say_where_to_read_on_and_how_much_there_is():
    assert list(text.lines(Report([made()], 1, 2)))[-2:] == [
        "why: `cyberos doctor --explain memory-modified`",
        "1 error, no warnings (1 file, 2 rows)",
    ]
    assert (
        list(text.lines(Report([made(severity="info")], 1, 2)))[-1] == "no errors, no warnings, 1 info (1 file, 2 rows)"
    )
    assert not any(line.startswith("why") for line in text.lines(Report([made(severity="warning")], 1, 2)))


# --- as the command line gives them ---------------------------------------------------------------------------------


@pytest.fixture
def vault(tmp_path, monkeypatch):
    """Give a vault with one wrong outcome, in a folder of a git repository, and go there."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    folder = tmp_path / "sub" / "my vault"
    shutil.copytree(next((TESTS / "bad" / "episode-outcome-closed-enum").iterdir()), folder)
    monkeypatch.chdir(folder)
    return folder


def test_paths_are_those_of_the_repository(vault, capfd):
    (path,) = {one.path for one in examine(vault).findings if one.rule == "episode-outcome-closed-enum"}
    assert main(["doctor", "--format", "github"]) == 1
    out, err = capfd.readouterr()
    assert err == ""
    assert f"sub/my vault/{path}" in {read_command(line)[1]["file"] for line in out.splitlines()}
    assert main(["doctor", "--format", "sarif"]) == 1
    document = json.loads(capfd.readouterr().out)
    assert SARIF.is_valid(document)
    uris = {
        one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in document["runs"][0]["results"]
    }
    assert f"sub/my%20vault/{path}" in uris
    assert main(["doctor", "--format", "junit"]) == 1
    out = capfd.readouterr().out
    assert JUNIT.is_valid(out)
    assert f'name="sub/my vault/{path}:' in out


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif", "junit"])
def test_the_format_may_come_from_the_environment_or_the_vaults_settings(vault, capfd, monkeypatch, form):
    assert main(["doctor", "--format", form]) == 1
    wanted = capfd.readouterr()
    monkeypatch.setenv("CYBEROS_OUTPUT_FORMAT", form)
    assert main(["doctor"]) == 1
    assert capfd.readouterr() == wanted
    monkeypatch.delenv("CYBEROS_OUTPUT_FORMAT")
    write_raw(vault / "cyberos.toml", f'output_format = "{form}"\n')
    assert main(["doctor"]) == 1
    assert capfd.readouterr() == wanted
    assert (wanted.out == "") == (form == "text")
    assert (wanted.err == "") == (form != "text")


def test_a_format_that_is_none_is_a_usage_error(vault, capfd, monkeypatch):
    assert main(["doctor", "--format", "xml"]) == 2
    monkeypatch.setenv("CYBEROS_OUTPUT_FORMAT", "xml")
    assert main(["doctor"]) == 2
    assert "CYBEROS_OUTPUT_FORMAT" in capfd.readouterr().err
    assert main(["doctor", "--json"]) == 1  # the flag wins


def on_a_terminal(command, **variables):
    """Run a command on a pseudo-terminal; give what it wrote there."""
    pty = pytest.importorskip("pty")
    top, inner = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"} | variables
    done = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environment)
    os.close(inner)
    shown = b""
    try:
        while part := os.read(top, 65536):
            shown += part
    except OSError:  # on Linux this is how the terminal's end is told
        pass
    os.close(top)
    done.wait()
    return shown.decode()


def test_colour_is_for_terminals_that_want_it(vault, capfd):
    command = [sys.executable, "-m", "cyberos", "doctor"]
    shown = on_a_terminal(command)
    assert "\x1b[31m\x1b[1mepisode-outcome-closed-enum\x1b[0m outcome is " in shown
    assert "\x1b[1mmemories/" in shown
    plain = subprocess.run(command, capture_output=True, text=True).stderr
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", shown).replace("\r\n", "\n") == plain
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert on_a_terminal(command, **variables).replace("\r\n", "\n") == plain


@pytest.mark.skipif("CYBEROS_TEST_NPM" not in os.environ, reason="`make test-formats` asks npm for the validator")
def test_microsofts_validator_finds_no_error(vault, tmp_path):
    file = tmp_path / "all.sarif"
    runs = [sarif.document(examine(path), "", RULES, "1.2.3") for path in BAD]
    runs[0]["runs"][0]["results"] = [result for run in runs for result in run["runs"][0]["results"]]
    file.write_text(json.dumps(runs[0]))
    log = tmp_path / "validation.sarif"
    # its own rules and those of GitHub's code scanning; npx hands its arguments to a shell, which would end at a `;`
    command = ["npx", "--yes", "@microsoft/sarif-multitool@5.7.0", "validate", file, "--output", log]
    command += ["--rule-kind", r"Sarif\;Ghas"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"npm_config_cache": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads(log.read_text())["runs"]
    # without an address there is no page to point at: each rule carries its whole help instead
    assert {one["ruleId"] for one in run["results"]} <= {"SARIF2005"}
    assert runs[0]["runs"][0]["results"]
