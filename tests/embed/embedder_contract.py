"""What every embedder promises; each runs these tests on itself."""

from __future__ import annotations

import threading

import numpy as np
import pytest

NASTY = [
    "",
    " \t\n",
    "fix the login test",
    'Task: ship\nApproach: "quotes" AND (parens) * :\nOutcome: success\nNotes: ',
    "émigré naïve Ünïcödé",
    "日本語のタスク 한국어 Ελληνικά русский عربى",
    "👩‍👩‍👧‍👦 🏳️‍🌈 e\u0301\u0327",
    "\x00\x01\x7f\x85\u2028\ufeff\ufffd",
    "\ud800 lone \udfff",
    "[SEP] [CLS] [MASK]",
    "x" * 10_000,
    "word " * 2_000,
]


class EmbedderContract:
    @pytest.fixture
    def embedder(self):
        raise NotImplementedError

    def test_it_says_what_it_is(self, embedder):
        assert embedder.name
        assert embedder.dim > 0
        assert len(bytes.fromhex(embedder.stamp)) == 32

    def test_no_texts_give_no_rows(self, embedder):
        rows = embedder.embed([])
        assert rows.shape == (0, embedder.dim)
        assert rows.dtype == np.float32

    def test_any_string_has_a_row_of_unit_length(self, embedder):
        rows = embedder.embed(NASTY)
        assert rows.shape == (len(NASTY), embedder.dim)
        assert rows.dtype == np.float32
        assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)

    def test_a_text_has_the_same_row_alone_and_among_others_in_any_order(self, embedder):
        rows = embedder.embed(NASTY)
        assert np.abs(embedder.embed(NASTY[::-1])[::-1] - rows).max() < 2e-6
        for text, row in zip(NASTY, rows, strict=True):
            assert np.abs(embedder.embed([text])[0] - row).max() < 2e-6

    def test_many_texts_keep_their_order_and_progress_adds_up(self, embedder):
        texts = [f"task number {n} " * (1 + n % 3) for n in range(300)]
        heard = []
        rows = embedder.embed(texts, progress=heard.append)
        assert sum(heard) == len(texts)
        some = [0, 1, 150, 299]
        assert np.abs(embedder.embed([texts[n] for n in some]) - rows[some]).max() < 2e-6

    def test_texts_that_say_the_same_lie_nearer_than_others(self, embedder):
        first, second, other = embedder.embed(
            ["fix the failing login test", "fix the login test", "bake bread with walnuts"]
        )
        assert first @ second > first @ other + 0.2

    def test_surrogates_count_for_nothing(self, embedder):
        with_them, without = embedder.embed(["fix \ud800the login", "fix the login"])
        assert np.abs(with_them - without).max() < 2e-6

    def test_threads_may_share_it(self, embedder):
        texts = NASTY[2:6]
        wanted = embedder.embed(texts)
        got = []
        threads = [threading.Thread(target=lambda: got.append(embedder.embed(texts))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 4
        assert all(np.abs(rows - wanted).max() < 2e-6 for rows in got)
