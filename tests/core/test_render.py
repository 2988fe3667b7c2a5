"""What a terminal is shown of a memory's text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cyberos.core.render import escape


@pytest.mark.parametrize(
    "text", ["plain\ttext\n", "família 👨‍👩‍👧", "می‌خواهم", "☎️", "修复登录", "e\u0301", "❤️‍🔥", "👁️‍🗨️", "press 1️⃣ or #️⃣"]
)
def test_what_can_be_seen_stays(text):
    assert escape(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\u{1b}[31mred"),
        ("a\u200bb", "a\\u{200b}b"),
        ("a\u200db", "a\\u{200d}b"),
        ("pass\u200dword", "pass\\u{200d}word"),
        ("\u200d", "\\u{200d}"),
        ("\u202ereversed", "\\u{202e}reversed"),
        ("a\U000e0041b", "a\\u{e0041}b"),
        ("a\x9bb", "a\\u{9b}b"),
        ("a\rb", "a\\u{d}b"),
        ("é\u200d\u2060é", "é\\u{200d}\\u{2060}é"),
        ("é\u200d\u200c\u200dé", "é\\u{200d}\\u{200c}\\u{200d}é"),
        ("x\ufe0fy", "x\\u{fe0f}y"),
        (" \ufe0f\u200dé", " \\u{fe0f}\\u{200d}é"),
        ("☎\ufe0f\ufe0f", "☎\ufe0f\\u{fe0f}"),
        ("1\ufe0f2", "1\\u{fe0f}2"),
    ],
)
def test_what_hides_or_moves_text_is_shown(text, shown):
    assert escape(text) == shown


@given(st.text(st.sampled_from("a1# é☎登\u200c\u200d\ufe0f\ufe0e\u2060\u20e3\U000e0041\x1b")))
def test_what_is_shown_hides_nothing_more(text):
    assert escape(escape(text)) == escape(text)
