"""What is added to a user's JSON can be taken out again, and every byte of theirs is where it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cyberos.agents import jsontext
from cyberos.agents.jsontext import Entry

SERVER = Entry(("mcpServers",), "cyberos", {"command": "cyberos", "args": ["mcp"]}, lambda _: True)
STOP, START = (
    Entry(("hooks", name), None, {"hooks": [{"command": "cyberos hook"}]}, lambda item: "cyberos" in json.dumps(item))
    for name in ("Stop", "Start")
)
ENTRIES = (SERVER, STOP, START)

SPACE = st.sampled_from(["", " ", "\n", "\n  ", "\t", "\r\n", "\n\n"])
KEYS = st.sampled_from(["a", "hooks", "Stop", "mcpServers", "x y", 'q"\\'])
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


@st.composite
def spelled(draw: st.DrawFn) -> str:
    """Give a JSON object with any white space that JSON allows."""

    def spell(value: object) -> str:
        if isinstance(value, dict):
            inside = ",".join(
                f"{draw(SPACE)}{json.dumps(key)}{draw(SPACE)}:{draw(SPACE)}{spell(each)}{draw(SPACE)}"
                for key, each in value.items()
            )
            return "{" + (inside or draw(SPACE)) + "}"
        if isinstance(value, list):
            inside = ",".join(f"{draw(SPACE)}{spell(each)}{draw(SPACE)}" for each in value)
            return "[" + (inside or draw(SPACE)) + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    return draw(SPACE) + spell(draw(st.dictionaries(KEYS, VALUES, max_size=4))) + draw(SPACE)


@settings(max_examples=500)
@given(spelled(), st.permutations(ENTRIES), st.permutations(ENTRIES))
def test_what_was_added_goes_without_a_trace(text, order, back):
    assume("cyberos" not in text)
    made, added = text, []
    for entry in order:
        try:
            made = jsontext.add(made, entry)
        except ValueError:
            continue  # the user keeps something else under this name
        added.append(entry)
        assert jsontext.has(made, entry)
        assert jsontext.add(made, entry) == made
    for entry in back:
        if entry in added:
            made = jsontext.remove(made, entry)
    assert made == text


@given(spelled())
def test_the_users_values_stay(text):
    assume("cyberos" not in text)
    before = json.loads(text)
    try:
        after = json.loads(jsontext.add(text, SERVER))
    except ValueError:
        assert not isinstance(before["mcpServers"], dict)
        return
    assert after["mcpServers"].pop("cyberos") == SERVER.value
    assert after == before | {"mcpServers": before.get("mcpServers", {})}


def test_a_file_that_was_made_is_taken_away():
    text = None
    for entry in ENTRIES:
        text = jsontext.add(text, entry)
    assert list(json.loads(text)) == ["mcpServers", "hooks"]
    for entry in ENTRIES:
        text = jsontext.remove(text, entry)
    assert text is None


def test_a_hook_that_the_user_adds_to_ours_stays():
    text = jsontext.add(None, STOP)
    values = json.loads(text)
    values["hooks"]["Stop"].append({"hooks": [{"command": "make lint"}]})
    left = jsontext.remove(json.dumps(values, indent=2), STOP)
    assert json.loads(left) == {"hooks": {"Stop": [{"hooks": [{"command": "make lint"}]}]}}


def test_indentation_and_line_ends_are_those_of_the_file():
    made = jsontext.add('{\r\n\t"a": {\r\n\t\t"b": 1\r\n\t}\r\n}\r\n', SERVER)
    assert '\r\n\t"mcpServers": {\r\n\t\t"cyberos": {\r\n\t\t\t"command"' in made
    assert "\n" not in made.replace("\r\n", "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"a": 1, "a": 2}',
        '{"a": 1} // why',
        "{'a': 1}",
        '{"a": 1,}',
        "\ufeff{}",
        "[" * 5000,
        '{"mcpServers": 3}',
    ],
)
def test_what_is_no_plain_json_object_is_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        jsontext.add(text, SERVER)
