from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cyberos.core import canonical

floats = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "0.0"),
        (1.0, "1.0"),
        (0.92, "0.92"),
        (-2.5, "-2.5"),
        (1e-05, "0.00001"),
        (-1.5e-07, "-0.00000015"),
        (1e16, "10000000000000000.0"),
        (1.5e300, "15" + "0" * 299 + ".0"),
        (1e308, "1" + "0" * 308 + ".0"),
        (5e-324, "0." + "0" * 323 + "5"),
        (0.1 + 0.2, "0.30000000000000004"),
        (2.0**53, "9007199254740992.0"),
    ],
)
def test_a_float_has_one_spelling_with_a_point_and_no_exponent(value, text):
    assert canonical.format_float(value) == text
    assert canonical.dump(value) == text
    assert canonical.dump({"a": [value]}) == f'{{"a":[{text}]}}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_json_cannot_hold_has_no_spelling(value):
    with pytest.raises(ValueError):
        canonical.format_float(value)
    for nested in (value, [value], {"a": {"b": value}}, [1e-05, value]):
        with pytest.raises(ValueError):
            canonical.dump(nested)


@given(floats)
def test_a_float_comes_back_with_every_bit(value):
    text = canonical.format_float(value)
    assert "." in text
    assert "e" not in text.lower()
    assert struct.pack("d", float(text)) == struct.pack("d", value + 0.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": {"d": 2, "c": 3}}, '{"a":{"c":3,"d":2},"b":1}'),
        ({"b": 1e-05, "a": {"d": 2, "c": 3}}, '{"a":{"c":3,"d":2},"b":0.00001}'),
        ({"😀": 1, "z": 2, "é": 3, "\uffff": 4}, '{"z":2,"\\u00e9":3,"\\uffff":4,"\\ud83d\\ude00":1}'),
        ({"1e-5": -0.0, "z": "1e+5 -0.0"}, '{"1e-5":0.0,"z":"1e+5 -0.0"}'),
        (("a", [None, True, False]), '["a",[null,true,false]]'),
        ('\x00\x7f"\\/\u2028', '"\\u0000\\u007f\\"\\\\/\\u2028"'),
    ],
)
def test_dump_is_compact_ascii_with_keys_in_the_order_of_code_points(value, text):
    assert canonical.dump(value) == text
    assert json.loads(text) == (list(value) if isinstance(value, tuple) else value)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":1,"a":2}',
        '{"a":{"b":1,"b":1}}',
        '[{"a":1,"\\u0061":2}]',
        "NaN",
        "[Infinity]",
        "-Infinity",
        "9007199254740992",
        "-9007199254740992",
        '{"a":[123456789012345678901234567890]}',
        "9" * 100_000,
        "[" * 100_000,
        '{"a":1',
        "{} {}",
        "'a'",
        "",
        "{'a':1}",
        '{"a":1,}',
        '"\x01"',
    ],
    ids=lambda text: repr(text[:20]),
)
def test_load_refuses(text):
    with pytest.raises(ValueError):
        canonical.load(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740991", 2**53 - 1),
        ("-9007199254740991", -(2**53) + 1),
        ("1e3", 1000.0),
        ('"\\ud800"', "\ud800"),
        (' {"a" : [ ] } ', {"a": []}),
        ("1e999", float("inf")),
    ],
)
def test_load_takes_what_is_odd_but_json(text, value):
    assert canonical.load(text) == value


def test_the_repeated_key_is_named():
    with pytest.raises(ValueError, match="'dup' stands twice"):
        canonical.load('{"x":1,"dup":1,"y":2,"dup":3}')


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | floats | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_load_is_the_inverse_of_dump(value):
    text = canonical.dump(value)
    assert canonical.load(text) == value
    assert canonical.dump(canonical.load(text)) == text
    assert text.isascii()
