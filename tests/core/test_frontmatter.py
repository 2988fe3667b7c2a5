from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import frontmatter as python_frontmatter
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cyberos.core import contract, layout
from cyberos.core.episode import Episode
from cyberos.core.errors import InvalidMemory
from cyberos.core.frontmatter import parse, serialise
from cyberos.core.text import find_forbidden

GOLDEN = (Path(__file__).parents[1] / "golden" / "episode.md").read_bytes().decode()
RIGHT = {
    "task": "Add rate limiting to /search",
    "approach": 'token bucket in `middleware.py`; "leaky" was tried\nthen three tests\t(--- not a fence)',
    "outcome": "failure",
    "duration_ms": 1_800_000,
    "token_cost": 0,
    "quality_score": 1e-05,
    "notes": "8/9 Lücken — 漢字 \u2028 \ufeff \u00ad",
    "error": "CI: ENOENT C:\\redis\\fixture",
    "lesson": "CI has no redis; use the fakeredis fixture 🚀",
    "evidence": "test",
    "evidence_ref": "pytest -q -> exit 1",
    "ended": "abandoned",
    "scope": "api",
    "tags": ["rate-limit", "1e-05", "yes"],
    "commit": "198a5c5",
    "transcript_ref": "~/runs/1.jsonl sha256:5e5e",
    "occurred_at": "2026-11-30T17:08:03Z",
}


def block_of(text: str) -> str:
    return text.split("\n---\n", 1)[0].removeprefix("---\n")


# --- the golden bytes -----------------------------------------------------------------------------------------------


def test_an_episode_is_written_byte_for_byte_as_the_golden_file():
    assert Episode(**RIGHT).render() == GOLDEN


def test_the_golden_file_is_read_back_as_the_values_it_was_written_with():
    read = parse(GOLDEN)
    assert read.frontmatter == RIGHT | {"kind": "episode"}
    assert read.is_json
    assert read.block == block_of(GOLDEN)
    assert read.body == "\n" + Episode(**RIGHT).searchable_document() + "\n"


def test_every_yaml_reader_reads_the_golden_file_alike():
    assert yaml.safe_load(block_of(GOLDEN)) == RIGHT | {"kind": "episode"}
    assert yaml.load(block_of(GOLDEN), yaml.CSafeLoader) == RIGHT | {"kind": "episode"}
    assert python_frontmatter.loads(GOLDEN).metadata == RIGHT | {"kind": "episode"}


# --- both ways ------------------------------------------------------------------------------------------------------

allowed = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: find_forbidden(text) is None)
WORDS = "--- ... # #x yes null ~ 1e-05 0x1F 2026-01-01 12:30:45 << = @a \\u0041 \" ' { ] &a *a !x %Y a\u0300 \u202e"
ODD_TEXTS = ["", "\n---\n", "a: b", "|\n a", " lead", "trail ", "\ttab", "\n", "x" * 1_100, "😀" * 20]
SEPARATORS = ["\u2028", "\u2029", "\ufeff", "\ufffe", "\uffff", "\U0010ffff"]
tricky = st.sampled_from(WORDS.split() + ODD_TEXTS + SEPARATORS)
texts = allowed | tricky | st.lists(tricky).map("".join)
keys = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,20}", fullmatch=True)
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.none() | st.booleans() | numbers | texts | st.lists(texts, max_size=3)
mappings = st.dictionaries(keys, values, max_size=6)


@given(mappings, texts)
def test_parse_is_the_inverse_of_serialise(mapping, body):
    text = serialise(mapping, body)
    read = parse(text)
    assert read.frontmatter == mapping
    assert read.body == f"\n{body}\n"
    assert serialise(read.frontmatter, body) == text


@given(mappings)
def test_json_and_yaml_readers_see_the_same_values_whatever_the_text(mapping):
    text = serialise(mapping, "body")
    assert json.loads(block_of(text)) == mapping
    assert yaml.safe_load(block_of(text)) == mapping
    assert yaml.load(block_of(text), yaml.CSafeLoader) == mapping
    read = python_frontmatter.loads(text)
    assert (read.metadata, read.content) == (mapping, "body")


@given(mappings)
def test_a_value_keeps_its_type(mapping):
    read = yaml.safe_load(block_of(serialise(mapping, "")))
    assert {key: type(value) for key, value in read.items()} == {key: type(value) for key, value in mapping.items()}


visible = texts.filter(
    lambda text: contract.is_valid(
        {"kind": "episode", "task": text, "approach": "a", "outcome": "success", "duration_ms": 0}
    )
)


@given(task=visible, approach=visible, notes=texts, lesson=texts, tags=st.lists(visible, max_size=3))
def test_an_episode_of_any_allowed_text_comes_back_from_its_file(task, approach, notes, lesson, tags):
    made = Episode(
        task=task, approach=approach, outcome="success", duration_ms=0, notes=notes, lesson=lesson, tags=tags
    )
    read = parse(made.render())
    assert Episode.from_frontmatter(read.frontmatter) == made
    assert read.body == f"\n{made.searchable_document()}\n"
    assert made.task == task


def test_an_empty_frontmatter_and_an_empty_list_have_a_spelling():
    assert serialise({}, "x") == "---\n{}\n---\n\nx\n"
    assert serialise({"tags": []}, "") == '---\n{\n  "tags": []\n}\n---\n\n\n'


@pytest.mark.parametrize(
    "mapping",
    [
        {"a": {"b": 1}},
        {"a": set()},
        {"a": b"x"},
        {"a b": 1},
        {"": 1},
        {"é": 1},
        {"1a": 1},
        {"a\n": 1},
        {"k" * 65: 1},
    ],
    ids=lambda mapping: ascii(mapping)[:30],
)
def test_serialise_refuses_what_is_not_flat_or_no_plain_key(mapping):
    with pytest.raises(InvalidMemory) as caught:
        serialise(mapping, "")
    assert caught.value.rule == "frontmatter-schema"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_serialise_refuses_numbers_that_json_lacks(value):
    with pytest.raises(ValueError):
        serialise({"a": value}, "")


def test_serialise_refuses_what_is_too_long():
    for mapping, body in (({"a": "x" * layout.MAX_FRONTMATTER_BYTES}, ""), ({}, "é" * (layout.MAX_FILE_BYTES // 2))):
        with pytest.raises(InvalidMemory) as caught:
            serialise(mapping, body)
        assert caught.value.rule == "layout-file-size"


# --- what is no memory ----------------------------------------------------------------------------------------------

DEEP = "[" * 40 + "]" * 40
BAD = {
    "nothing": ("", 1),
    "no block": ("# A note\n", 1),
    "a blank line first": ('\n---\n{"kind": "facts"}\n---\n', 1),
    "a blank before the fence": (' ---\n{"kind": "facts"}\n---\n', 1),
    "four dashes": ('----\n{"kind": "facts"}\n----\n', 1),
    "a fence and no more": ("---", 1),
    "not closed": ('---\n{"kind": "facts"}\n', 1),
    "closed by four dashes": ("---\nkind: facts\n----\n", 1),
    "closed by an indented fence": ("---\nkind: facts\n ---\n", 1),
    "closed by dots": ("---\nkind: facts\n...\nbody\n", 3),
    "empty": ("---\n---\n", 2),
    "a comment": ("---\n# x\n---\n", 2),
    "a scalar": ("---\nfacts\n---\n", 2),
    "a number": ("---\n1\n---\n", 2),
    "a list": ("---\n- kind\n---\n", 2),
    "a JSON list": ('---\n["kind"]\n---\n', 2),
    "JSON cut short": ('---\n{"kind": "facts"\n---\n', 2),
    "JSON with a comma too many": ('---\n{\n  "kind": "facts",\n}\n---\n', 4),
    "JSON with a comment": ('---\n{"kind": "facts"} // x\n---\n', 2),
    "JSON with single quotes": ("---\n{'kind': 'facts'}\n---\n", 2),
    "a JSON key twice": ('---\n{"kind": "facts", "kind": "drift"}\n---\n', 2),
    "a deeper JSON key twice": ('---\n{"kind": "facts", "a": {"b": 1, "b": 2}}\n---\n', 2),
    "NaN": ('---\n{"kind": "facts", "a": NaN}\n---\n', 2),
    "Infinity": ('---\n{"kind": "facts", "a": -Infinity}\n---\n', 2),
    "an integer of 2^53": ('---\n{"kind": "facts", "a": 9007199254740992}\n---\n', 2),
    "a raw line break in a string": ('---\n{"kind": "fa\ncts"}\n---\n', 2),
    "deep JSON": (f'---\n{{"kind": "facts", "a": {DEEP}}}\n---\n', 2),
    "deeper than Python": (f'---\n{{"kind": "facts", "a": {"[" * 9_000}}}\n---\n', 2),
    "a YAML key twice": ("---\nkind: facts\na: 1\nkind: drift\n---\n", 4),
    "a deeper YAML key twice": ("---\nkind: facts\na:\n  b: 1\n  c: 1\n  b: 2\n---\n", 6),
    "a YAML key twice in a list": ("---\nkind: facts\na: [{b: 1, b: 2}]\n---\n", 3),
    "an anchor": ("---\nkind: &a facts\n---\n", 2),
    "an alias": ("---\nkind: facts\na: *a\n---\n", 3),
    "a bomb": ("---\na: &a [x, x]\nb: &b [*a, *a]\n---\n", 2),
    "deep YAML": (f"---\nkind: facts\na: {DEEP}\n---\n", 3),
    "deep YAML in blocks": ("---\n" + "".join(f"{'  ' * depth}a:\n" for depth in range(40)) + "---\n", 34),
    "a Python object": ("---\nkind: facts\na: !!python/object/apply:os.system [id]\n---\n", 3),
    "a tag of its own": ("---\nkind: facts\na: !secret x\n---\n", 3),
    "a key that is a list": ("---\nkind: facts\n? [a, b]\n: x\n---\n", 3),
    "a tab for indentation": ("---\nkind: facts\n\ta: 1\n---\n", 3),
    "two values on a line": ("---\nkind: facts: drift\n---\n", 2),
    "no such day": ("---\nkind: facts\nat: 2026-02-31\n---\n", 2),
    "an integer of 9,000 digits": (f"---\nkind: facts\na: {'9' * 9_000}\n---\n", 2),
    "a directive": ("---\n%YAML 1.1\nkind: facts\n---\n", 3),
}


@pytest.mark.parametrize(("text", "line"), BAD.values(), ids=BAD)
def test_a_frontmatter_that_cannot_be_read_is_refused_and_the_line_is_named(text, line):
    with pytest.raises(InvalidMemory) as caught:
        parse(text)
    assert (caught.value.rule, caught.value.line) == ("frontmatter-parse", line)
    assert caught.value.hint


def test_no_frontmatter_and_one_that_cannot_be_read_are_told_apart():
    with pytest.raises(InvalidMemory, match="no frontmatter"):
        parse("# A note\n")
    with pytest.raises(InvalidMemory, match="not JSON"):
        parse("---\n{x\n---\n")


@pytest.mark.parametrize(
    "text",
    [
        '---\n{"kind": "facts"}\n---\n---\n{"kind": "drift"}\n---\n',
        '---\n{"kind": "facts"}\n---\n\n\n---\n{\n  "kind": "drift"\n}\n---\nbody\n',
        "---\nkind: facts\n---\n\n---\nkind: drift\n---\n",
        "---\ntitle: added by an editor\n---\n---\nkind: facts\n---\n",
    ],
)
def test_a_second_block_is_a_finding_of_its_own(text):
    with pytest.raises(InvalidMemory) as caught:
        parse(text)
    assert caught.value.rule == "frontmatter-double"
    assert text.splitlines()[caught.value.line - 1] == "---"


@pytest.mark.parametrize("fence", ["---", '"---"'])
def test_too_long_a_block_is_refused_before_any_reader_sees_it(fence, monkeypatch):
    monkeypatch.setattr(yaml, "parse", None)
    with pytest.raises(InvalidMemory) as caught:
        parse(f"---\nkind: facts\na: {'x' * layout.MAX_FRONTMATTER_BYTES}\n---\n{fence}")
    assert caught.value.rule == "layout-file-size"


# --- odd, but a memory ----------------------------------------------------------------------------------------------

ODD = {
    "nothing after the fence": ('---\n{"kind": "facts"}\n---', {"kind": "facts"}, ""),
    "blanks after the fences": ('--- \n{"kind": "facts"}\n---\t \nx\n', {"kind": "facts"}, "x\n"),
    "a rule in the body": (
        '---\n{"kind": "facts"}\n---\n\n---\n\nText\n\n---\n',
        {"kind": "facts"},
        "\n---\n\nText\n\n---\n",
    ),
    "fences in a string": ('---\n{"kind": "facts", "a": "\\n---\\n"}\n---\n', {"kind": "facts", "a": "\n---\n"}, ""),
    "JSON on one line": ('---\n  {"kind":"facts","a":{"b":[1,{}]}}\n---\n', {"kind": "facts", "a": {"b": [1, {}]}}, ""),
    "brackets in strings": (
        f'---\n{{"kind": "facts", "a": "{"[{" * 99}"}}\n---\n',
        {"kind": "facts", "a": "[{" * 99},
        "",
    ),
    "indented block text": (
        "---\nkind: facts\na: |\n  x\n  ---\n  y\n---\n",
        {"kind": "facts", "a": "x\n---\ny\n"},
        "",
    ),
    "the same key at two depths": (
        "---\nkind: facts\na: {kind: x}\nb: [{c: 1}, {c: 2}]\n---\n",
        {"kind": "facts", "a": {"kind": "x"}, "b": [{"c": 1}, {"c": 2}]},
        "",
    ),
    "a value like a key": ("---\nkind: facts\na: kind\nb: a\n---\n", {"kind": "facts", "a": "kind", "b": "a"}, ""),
}


@pytest.mark.parametrize(("text", "values", "body"), ODD.values(), ids=ODD)
def test_an_odd_memory_is_read(text, values, body):
    read = parse(text)
    assert (read.frontmatter, read.body) == (values, body)


# --- old kinds (AC 3) -----------------------------------------------------------------------------------------------

# files as they were written before `episode` was a kind; each must read as it always did, and be valid
OLD = {
    "facts, YAML": (
        "---\nkind: facts\ntitle: The deploy script\ntags: [deploy, bin]\ncreated: 2024-03-04\n---\n\nIt lives at bin/deploy.\n",
        {"kind": "facts", "title": "The deploy script", "tags": ["deploy", "bin"], "created": date(2024, 3, 4)},
    ),
    "decisions, YAML": (
        "---\nkind: decisions\nid: DEC-181\nstatus: accepted\nat: 2024-03-04T10:00:00Z\nsupersedes: null\nreviewers:\n- ada\n- bob\n---\n# Why\n",
        {
            "kind": "decisions",
            "id": "DEC-181",
            "status": "accepted",
            "at": datetime(2024, 3, 4, 10, tzinfo=UTC),
            "supersedes": None,
            "reviewers": ["ada", "bob"],
        },
    ),
    "people, YAML with null values": (
        "---\nkind: people\nname: Ada Lovelace\nemail: ~\nphone:\nmeta:\n  role: {lead: true, since: 1843}\n---\n",
        {
            "kind": "people",
            "name": "Ada Lovelace",
            "email": None,
            "phone": None,
            "meta": {"role": {"lead": True, "since": 1843}},
        },
    ),
    "projects, JSON": (
        '---\n{"kind": "projects", "name": "cyberos", "budget": 1e3, "open": true, "links": [{"a": null}]}\n---\n\nText\n',
        {"kind": "projects", "name": "cyberos", "budget": 1000.0, "open": True, "links": [{"a": None}]},
    ),
    "preferences, YAML with text": (
        "---\nkind: preferences # always\nstyle: >\n  short\n  words\nweight: .5\nhex: 0x1F\n---\n",
        {"kind": "preferences", "style": "short words\n", "weight": 0.5, "hex": 31},
    ),
    "drift, YAML that looks like an episode": (
        "---\nkind: drift\ntask: ''\noutcome: kinda\nduration_ms: -1\nquality_score: 7\n---\n",
        {"kind": "drift", "task": "", "outcome": "kinda", "duration_ms": -1, "quality_score": 7},
    ),
    "refinements, YAML with odd keys": (
        "---\nkind: refinements\n1: one\n2024-01-01: day\n'a b': c\nnan: .nan\n---\n",
        None,
    ),
}


@pytest.mark.parametrize(("text", "values"), OLD.values(), ids=OLD)
def test_a_memory_of_an_old_kind_goes_on_validating_ac_3(text, values):
    read = parse(text)
    assert values is None or read.frontmatter == values
    assert contract.problems(read.frontmatter) == []
    contract.check(read.frontmatter)


@pytest.mark.parametrize("text", [text for name, (text, _) in OLD.items() if "YAML" in name])
def test_legacy_yaml_reads_as_python_frontmatter_reads_it_ac_3(text):
    assert repr(parse(text).frontmatter) == repr(python_frontmatter.parse(text)[0])


@pytest.mark.parametrize("kind", layout.OLD_KINDS)
def test_an_old_kind_needs_nothing_but_its_kind_ac_3(kind):
    assert contract.is_valid({"kind": kind})
    assert contract.is_valid({"kind": kind, "anything": {"deep": [1, None]}})


@pytest.mark.parametrize(("text", "values"), OLD.values(), ids=OLD)
def test_a_memory_of_an_old_kind_can_be_put_ac_3(text, values, tmp_memory):
    path = f"memories/{parse(text).frontmatter['kind']}/aa/bb/x.md"
    tmp_memory.put(path, text)
    assert (tmp_memory.path / path).read_bytes() == text.encode()


def test_crlf_was_never_allowed_in_a_file(tmp_memory):
    with pytest.raises(InvalidMemory) as caught:
        tmp_memory.put("memories/facts/aa/bb/x.md", "---\r\nkind: facts\r\n---\r\n")
    assert caught.value.rule == "text-encoding"
