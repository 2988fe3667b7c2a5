"""The ids are those of the package `tokenizers`: `tests/golden/wordpiece.json` holds what it says of nasty strings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cyberos.embed import wordpiece
from cyberos.embed.base import EmbedderUnavailable
from cyberos.embed.wordpiece import WordPiece

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "wordpiece.json").read_text())


def test_every_golden_string_has_the_reference_ids():
    encoder = WordPiece()
    assert len(GOLDEN) > 300
    assert [text for text, ids in GOLDEN if encoder.encode(text, 256) != ids] == []


def test_lone_surrogates_are_dropped():
    encoder = WordPiece()
    assert encoder.encode("fix\ud800 the \udfff login", 256) == encoder.encode("fix the login", 256)


def test_a_long_text_is_cut_and_ends_as_any_other():
    ids = WordPiece().encode("word " * 100_000, 256)
    assert len(ids) == 256
    assert (ids[0], ids[-1]) == (101, 102)


def test_a_vocabulary_that_somebody_changed_is_an_error(tmp_path, monkeypatch):
    shipped = Path(wordpiece._HERE, "vocab.txt").read_bytes()
    (tmp_path / "vocab.txt").write_bytes(shipped.replace(b"\ntest\n", b"\ntent\n"))
    monkeypatch.setattr(wordpiece, "_HERE", str(tmp_path))
    with pytest.raises(EmbedderUnavailable, match="not as it was shipped"):
        WordPiece()
