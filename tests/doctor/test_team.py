"""A team's own rules: the examples of docs/team-rules.md run, and a hostile file can neither hang nor reach anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cyberos.cli.main import main
from cyberos.core import contract
from cyberos.core.episode import log
from cyberos.core.writer import Writer
from cyberos.doctor import bounds
from cyberos.doctor.examination import examine
from cyberos.doctor.findings import Finding
from support import episode, fact, write_raw

PAGE = (Path(__file__).parents[2] / "docs" / "team-rules.md").read_text(encoding="utf-8")
EXAMPLE, WEAKENED = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
SAID, WEAKENED_SAID = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
LAW = contract.INVARIANTS_NAME


@pytest.fixture
def vault(root, monkeypatch):
    """Give a vault with one episode, whose task is a long run of one letter, and a fact; go there."""
    writer = Writer(root)
    log(writer, episode("a" * 5000 + "!"))
    writer.put(*fact("we deploy on Tuesdays"))
    monkeypatch.chdir(root)
    return root


def own(root):
    return [one for one in examine(root).findings if one.rule.startswith("our")]


def rules_of(root):
    return [one.rule for one in examine(root).findings]


# --- the docs -------------------------------------------------------------------------------------------------------


def test_the_example_of_the_docs_says_what_the_docs_say(vault, capsys):
    write_raw(vault / LAW, EXAMPLE)
    assert main(["doctor"]) == 1
    err = capsys.readouterr().err
    pattern = re.escape(SAID).replace("…", ".*")
    assert re.match(pattern, err), err
    assert main(["doctor", "--explain", "our-ticket-in-tags"]) == 0
    shown = capsys.readouterr().out
    assert "retrospective" in shown
    assert '{"tags": ["login", "AUTH-17"]}' in shown
    assert main(["doctor", "--select", "our-no-"]) == 0
    assert main(["doctor", "--ignore", "our-"]) == 0


def test_the_example_is_satisfied_by_what_it_asks_for(root):
    write_raw(root / LAW, EXAMPLE)
    log(Writer(root), episode(tags=["login", "AUTH-17"], evidence="test", evidence_ref="pytest -> exit 0"))
    assert examine(root).findings == []
    path = log(Writer(root), episode("other", tags=["login"], outcome="failure", error="no")).as_posix()
    assert [(one.rule, one.path, one.message) for one in own(root)] == [
        ("our-ticket-in-tags", path, "tags breaks its `contains`")
    ]
    (root / path).write_bytes((root / path).read_bytes() + b"\n")
    assert "our-edits-are-for-review" in rules_of(root)


def test_what_may_not_be_done_is_refused_as_the_docs_say(vault, capsys):
    write_raw(vault / LAW, WEAKENED)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err.startswith(WEAKENED_SAID.rstrip("\n") + "\n")


@pytest.mark.parametrize("installed", contract.rules().values(), ids=lambda rule: rule.id)
def test_no_installed_rule_can_be_lowered_or_taken(vault, installed):
    for severity in contract.SEVERITIES:
        entry = {"id": installed.id, "severity": severity, "scope": "file", "description": "x", "select": {"at": "/x"}}
        write_raw(vault / LAW, yaml.safe_dump({"version": 1, "rules": [entry]}))
        assert rules_of(vault) == ["contract-weakened"]


# --- hostile files --------------------------------------------------------------------------------------------------


def with_schema(schema, **more):
    entry = {"id": "ours", "severity": "error", "scope": "file", "description": "x"}
    return yaml.safe_dump({"version": 1, "rules": [entry | {"schema": {"frontmatter": schema} | more}]})


def doubling(depth):
    """Give a schema of few lines that asks for 2^depth judgements."""
    laws = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$defs": laws | {f"d{depth}": {"required": ["task"]}}, "$ref": "#/$defs/d0"}


def nested(depth):
    schema = {"required": ["task"]}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


def task(pattern):
    return {"properties": {"task": {"pattern": pattern}}}


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

REFUSED = {
    "a look-ahead": with_schema(task("(?=(a+)+$)a")),
    "a back reference": with_schema(task(r"^(a+)+\1$")),
    "a pattern that compiles to gigabytes": with_schema(task("^(((a{1,999}b?){1,999}){1,999}){1,999}c$")),
    "no pattern": with_schema(task("(")),
    "patterns as keys": with_schema({"patternProperties": {"(a+)+$": True}}),
    "patterns as keys, below": with_schema({"allOf": [{"patternProperties": {"(a+)+$": True}}]}),
    "an exponential schema": with_schema(doubling(25)),
    "a schema without end": with_schema({"$ref": "#"}),
    "a circle": with_schema({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
    "a base elsewhere": with_schema({"$id": "https://127.0.0.1:9/a", "$ref": "#/b"}),
    "a dialect elsewhere": with_schema({"properties": {"task": {"$schema": "https://127.0.0.1:9/a"}}}),
    "a moving reference": with_schema({"$dynamicRef": "#a"}),
    "a named place": with_schema({"$ref": "#a"}),
    "a pointer to nothing": with_schema({"$ref": "#/$defs/none"}),
    "an alias bomb": BOMB,
    "an object": "version: 1\nrules: !!python/object/apply:os.system ['touch hacked']\n",
    "deep flow nesting": "rules: " + "[" * 100_000,
    "deep block nesting": "".join(f"{' ' * depth}a:\n" for depth in range(500)),
    "deep schema": with_schema(nested(40)),
    "a huge file": "# x\n" * 100_000,
    "a number that takes long": "rules: " + "1:" * 100_000 + "1\n",
    "thousands of rules": yaml.safe_dump(
        {
            "rules": [
                {"id": f"our-{n}", "severity": "info", "scope": "file", "description": "x", "select": {}}
                for n in range(900)
            ]
        }
    ),
    "a crowd of subschemas": with_schema({"allOf": [{"required": ["task"]}] * 1500}),
    "many costly rules": yaml.safe_dump(
        {
            "rules": [
                {"id": f"our-{n}", "severity": "info", "scope": "file", "description": "x"}
                | {"schema": {"frontmatter": {"allOf": [{"minProperties": 1}] * 900}}}
                for n in range(5)
            ]
        }
    ),
    "a list for a text": "rules: [{id: ours, severity: error, scope: file, description: [x], select: {}}]",
    "a mapping for a reason": "rules: [{id: ours, severity: error, scope: file, description: x, why: {a: b}, select: {}}]",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_file_is_refused_and_the_installed_rules_go_on(vault, name):
    (vault / fact("we deploy on Tuesdays")[0]).unlink()
    write_raw(vault / LAW, REFUSED[name])
    # in a process of its own: what hangs in a regular expression hears no other call for help
    command = [sys.executable, "-m", "cyberos", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    found = re.findall(r"^\S+:\d+: ([a-z-]+) ", done.stderr, re.MULTILINE)
    assert sorted(set(found)) == ["contract-valid", "memory-missing"], done.stderr
    assert not (vault / "hacked").exists()


@pytest.mark.parametrize(
    "ref", ["https://127.0.0.1:9/law.json", "file:///etc/passwd", "other.json", "//x/y", "urn:a:b"]
)
@pytest.mark.parametrize("key", ["$ref", "$dynamicRef", "$recursiveRef"])
def test_nothing_is_fetched(vault, ref, key):
    write_raw(vault / LAW, with_schema({"properties": {"task": {key: ref}}}))
    assert rules_of(vault) == ["contract-weakened"]


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(a*)*b$", "^(.*.*.*.*.*.*)$x", "(a?){40}a{40}b"]
)
def test_patterns_that_hang_elsewhere_are_judged_in_a_moment(vault, pattern):
    write_raw(vault / LAW, with_schema(task(pattern), kind="episode"))
    command = [sys.executable, "-m", "cyberos", "doctor", "--select", "ours"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "ours task breaks its `pattern`" in done.stderr
    assert "\n1 error" in done.stderr


def test_a_schema_that_asks_the_strict_validator_uses_the_linear_engine_too(vault):
    # a score of 1.0 may not pass for an integer, so that the slower validator judges; its patterns are the same
    log(Writer(vault), episode("b" * 40 + "!", quality_score=1.0))
    write_raw(vault / LAW, with_schema(task("^(b+)+$") | {"$defs": {"x": {"type": "integer"}}}, kind="episode"))
    assert rules_of(vault) == ["ours", "ours"]


def test_a_rule_says_at_most_so_much_of_one_file(vault):
    write_raw(vault / LAW, with_schema({"allOf": [{"required": [f"x{n}"]} for n in range(200)]}, kind="episode"))
    assert len(rules_of(vault)) == bounds.MAX_BREACHES


def test_what_a_reference_costs():
    assert bounds.cost({}) == 1
    assert bounds.cost({"$defs": {"a": {"not": {}}}}) == 1
    assert bounds.cost({"$defs": {"a": {"not": {}}}, "allOf": [{"$ref": "#/$defs/a"}] * 3}) == 1 + 3 * (1 + 2)
    assert bounds.cost({"properties": {"$ref": {"type": "string"}}}) == 3
    assert bounds.cost({"$defs": {"a/b~": {}}, "$ref": "#/$defs/a~1b~0"}) == 2


def test_half_a_surrogate_pair_is_no_text_that_fits_a_pattern(vault):
    path = vault / fact("half")[0]
    write_raw(path, '---\n{"kind": "facts", "x": "\\ud800"}\n---\n\nhalf\n')
    write_raw(vault / LAW, with_schema({"properties": {"x": {"pattern": "."}}}))
    assert "doctor-check-crashed" not in rules_of(vault)


def test_texts_of_the_team_cannot_speak_to_the_terminal(vault, capsys):
    entry = {"id": "our-x", "severity": "error", "scope": "file", "description": "\x1b[2J", "hint": "\x1b[2J\nx"}
    entry |= {"why": "\x9b2J", "bad": "\u202e", "schema": {"frontmatter": {"required": ["\x1b[2J"]}}}
    write_raw(vault / LAW, yaml.safe_dump({"rules": [entry]}, allow_unicode=False))
    for arguments in (
        [],
        ["--statistics"],
        ["--explain", "our-x"],
        *(["--format", f] for f in ("github", "junit", "sarif")),
    ):
        main(["doctor", *arguments])
        out, err = capsys.readouterr()
        assert not re.search("[\x1b\x9b\u202e]", out + err), arguments
    assert isinstance(own(vault)[0], Finding)
