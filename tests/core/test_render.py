"""What a terminal is shown of a memory's text."""

import pytest

from cyberos.core.render import escape


@pytest.mark.parametrize("text", ["plain\ttext\n", "família 👨‍👩‍👧", "می‌خواهم", "☎️", "修复登录", "e\u0301"])
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
    ],
)
def test_what_hides_or_moves_text_is_shown(text, shown):
    assert escape(text) == shown
