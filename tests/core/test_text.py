from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cyberos.core import text
from cyberos.core.errors import InvalidMemory

ALLOWED = "a\tb\nc é 漢字 🚀👩‍👩‍👧 \u00a0\u00ad\u200b\u2028\u2029\ufeff\ufffe\uffff\U0010ffff --- \\ \" '"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mx\x1b[K", "x"),
        ("\x1b]0;title\x07shown", "shown"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x1b(Bx\x1b7\x1bc", "x"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("a\r\r\nb", "a\r\nb"),
        (ALLOWED, ALLOWED),
        ("  as it is  ", "  as it is  "),
        ("e\u0301", "e\u0301"),
        ("", ""),
    ],
)
def test_clean_takes_escape_sequences_and_crlf_and_nothing_else(given, kept):
    assert text.clean(given) == kept


@pytest.mark.parametrize(
    ("given", "offset", "name"),
    [
        ("ab\x00", 2, "NUL"),
        ("\x07", 0, "U+0007"),
        ("a\rb", 1, "a lone carriage return"),
        ("a\r", 1, "a lone carriage return"),
        ("\x0b", 0, "U+000B"),
        ("\x0c", 0, "U+000C"),
        ("\x1b", 0, "an escape character"),
        ("x\x7f", 1, "DEL"),
        ("\x85", 0, "U+0085"),
        ("\x9b31m", 0, "U+009B"),
        ("\x9f", 0, "U+009F"),
        ("😀\ud83d", 1, "U+D83D"),
        ("\udc00", 0, "U+DC00"),
        ("\udfff", 0, "U+DFFF"),
    ],
)
def test_check_names_the_field_the_character_and_its_offset(given, offset, name):
    with pytest.raises(InvalidMemory) as caught:
        text.check(given, "notes")
    assert caught.value.rule == "text-encoding"
    assert caught.value.pointer == "/notes"
    assert caught.value.message == f"notes holds {name} at character {offset}"
    assert caught.value.hint


def test_check_allows_everything_else():
    text.check(ALLOWED, "notes")
    assert text.find_forbidden(ALLOWED) is None


def test_exactly_the_forbidden_characters_are_refused():
    forbidden = [code for code in range(0x110000) if text.find_forbidden(chr(code)) is not None]
    c0 = [code for code in range(0x20) if code not in (0x09, 0x0A)]
    assert forbidden == [*c0, *range(0x7F, 0xA0), *range(0xD800, 0xE000)]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_what_clean_leaves_has_no_escape_sequence_and_cleaning_twice_is_cleaning_once(given):
    assert text.ANSI.search(text.clean(text.clean(given))) is None or "\x1b" in given
    if "\x1b" not in given and "\r" not in given:
        assert text.clean(given) == given


@pytest.mark.parametrize(
    ("blob", "line", "said"),
    [
        (b"\xef\xbb\xbf---\n", 1, "the file begins with a UTF-8 BOM"),
        ("---\n".encode("utf-16"), 1, "the file begins with UTF-16"),
        (b"\xfe\xff\x00-", 1, "the file begins with UTF-16"),
        (b"a\nb\xff", 2, "byte 3 is not UTF-8"),
        (b"\xed\xa0\x80", 1, "byte 0 is not UTF-8"),
        (b"\xc0\x80", 1, "byte 0 is not UTF-8"),
        (b"a\r\nb\r\n", 1, "the file holds CRLF line ends"),
        (b"a\nb\rc", 2, "the file holds a lone carriage return"),
        (b"a\n\n\x00", 3, "the file holds NUL"),
        (b"\x1b[0m", 1, "the file holds an escape character"),
        (b"\xc2\x85", 1, "the file holds U+0085"),
    ],
)
def test_decode_refuses_a_file_and_says_where(blob, line, said):
    with pytest.raises(InvalidMemory) as caught:
        text.decode(blob)
    assert (caught.value.rule, caught.value.line, caught.value.message) == ("text-encoding", line, said)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t\n")))
def test_decode_gives_what_was_encoded(given):
    if not given.startswith("\ufeff"):
        assert text.decode(given.encode()) == given
