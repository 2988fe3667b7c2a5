"""What every full-text engine must do: subclass FullTextContract and give it a fixture `make`."""

from __future__ import annotations

import random
import threading

import pytest

from cyberos.index.fulltext import Document

NASTY = [
    "", " ", "\n\t", "*", "?", '"', "'", '"unbalanced', "(", "(a OR b", "a AND", "NOT", "a NOT b", "-login", "+login",
    "task:foo", "text:login", "kind:episode", "http://localhost:8080/a?b=c#d", "[a TO b]", "{a TO b}", "login^3",
    "login~2", "lo*n", "TASK-AUTH-148", "token_store.py", "ENOENT: no such file", "C++", "don't", "a && b || !c",
    "🐛🐛", "\udcff login", "NEAR(a b, 2) \\ ; drop table words; --", "login " * 2_000,
]  # fmt: skip

# Text, a query that must find it.
FOUND = [
    ("Fix the token_store.py race", "token_store"),
    ("Fix the tokenStore race", "token_store"),
    ("Ship TASK-AUTH-148", "auth"),
    ("Ship TASK-AUTH-148", "task-auth-148"),
    ("ENOENT: no such file", "enoent"),
    ("Port the parser to C++", "c++"),
    ("Order at the café", "cafe"),
    ("Order at the cafe", "CAFÉ"),
    ("修复登录超时", "登录"),
    ("ログインの修正", "ログイン"),
    ("로그인 오류가 났다", "오류"),
    ("แก้ไขการเข้าสู่ระบบ", "เข้าสู่"),
    ("We were running migrations", "run the migration"),
    ("to be or not to be", "to be"),
    ("🚀 launch", "🚀"),
]


def episode(path: str, text: str, kind: str = "episode", scope: str = "default") -> Document:
    return Document(path, kind, scope, text)


def paths(engine, query, *, kind=None, scope=None, limit=10):
    return [hit.path for hit in engine.search(query, kind=kind, scope=scope, limit=limit)]


def corpus(count: int, seed: int = 7) -> list[Document]:
    chance = random.Random(seed)
    words = [f"word{number}" for number in range(80)]
    kinds, scopes = ("episode", "episode", "facts"), ("default", "work")
    return [
        episode(f"m/{number:04}.md", " ".join(chance.choices(words, k=20)), chance.choice(kinds), chance.choice(scopes))
        for number in range(count)
    ]


QUERIES = ["word1 word2 word3", "word7", "word11 word12 word13 word14 word15 unheard", "word40 word40 word41"]


class FullTextContract:
    @pytest.fixture
    def make(self):
        """Give a function that makes a new, empty engine, beside the others, and closes it after the test."""
        raise NotImplementedError

    @pytest.fixture
    def engine(self, make):
        return make()

    def test_nothing_yet(self, engine):
        assert engine.stamp() is None
        assert engine.count() == 0
        assert paths(engine, "login") == []

    def test_a_commit_carries_its_stamp(self, engine):
        engine.apply([episode("a", "login")], [], stamp="first")
        assert (engine.stamp(), engine.count()) == ("first", 1)
        engine.apply([], [], stamp="second")
        assert (engine.stamp(), engine.count()) == ("second", 1)

    def test_an_empty_commit_makes_a_usable_index(self, engine):
        engine.apply([], [], stamp="nothing")
        assert (engine.stamp(), engine.count(), paths(engine, "login")) == ("nothing", 0, [])

    def test_best_first_and_within_bounds(self, engine):
        engine.apply([episode("a", "login times out on the phone"), episode("b", "login"), episode("c", "deploy")],
                     [], stamp="1")  # fmt: skip
        hits = engine.search("the login times out", kind=None, scope=None, limit=10)
        assert [hit.path for hit in hits] == ["a", "b"]
        assert 1 >= hits[0].ratio > hits[1].ratio > 0

    def test_the_same_words_again_are_a_full_match(self, engine):
        engine.apply([episode("a", "fix login timeout"), episode("b", "fix deploy")], [], stamp="1")
        assert engine.search("fix login timeout", kind=None, scope=None, limit=1)[0].ratio == pytest.approx(1)

    def test_a_word_never_seen_lowers_the_ratio(self, engine):
        engine.apply([episode("a", "fix login timeout")], [], stamp="1")
        whole, part = (
            engine.search(query, kind=None, scope=None, limit=1)[0].ratio
            for query in ("login timeout", "login timeout zeppelin")
        )
        assert 0.5 < part < whole

    def test_the_labels_tell_nothing(self, engine):
        texts = ["Task: ship it\nApproach: rebase\nOutcome: success\nNotes: ",
                 "Task: bake bread\nApproach: yeast\nOutcome: success\nNotes: "]  # fmt: skip
        engine.apply([episode(str(number), text) for number, text in enumerate(texts)], [], stamp="1")
        for told, label in (("ship", "ship a task"), ("ship by rebase", "ship a task by rebase")):
            plain, ratios = (
                {hit.path: hit.ratio for hit in engine.search(query, kind=None, scope=None, limit=2)}
                for query in (told, label)
            )
            assert ratios["0"] == pytest.approx(plain["0"], abs=0.001)
            assert ratios["1"] < 0.1
        assert ratios["0"] > 0.9

    @pytest.mark.parametrize(("text", "query"), FOUND)
    def test_found(self, engine, text, query):
        others = [episode("z", "quite another thing"), episode("y", "一个别的 話 말")]
        engine.apply([episode("a", text), *others], [], stamp="1")
        assert paths(engine, query)[:1] == ["a"]

    @pytest.mark.parametrize("query", NASTY)
    def test_a_query_is_words_never_syntax(self, engine, query):
        engine.apply([episode("a", "login fails"), episode("b", "deploy fails")], [], stamp="1")
        assert paths(engine, query) in ([], ["a"])

    def test_a_path_that_comes_again_is_replaced(self, engine):
        engine.apply([episode("a", "login"), episode("b", "deploy")], [], stamp="1")
        engine.apply([episode("a", "deploy")], [], stamp="2")
        assert engine.count() == 2
        assert paths(engine, "login") == []
        assert paths(engine, "deploy") == ["a", "b"]

    def test_of_a_path_twice_in_one_commit_the_last_stands(self, engine):
        engine.apply([episode("a", "login"), episode("b", "deploy"), episode("a", "release")], [], stamp="1")
        assert engine.count() == 2
        assert (paths(engine, "login"), paths(engine, "release")) == ([], ["a"])
        engine.apply([episode("c", "login")], [], stamp="2")
        assert paths(engine, "login") == ["c"]

    def test_removes_go_before_adds(self, engine):
        engine.apply([episode("a", "login"), episode("b", "login")], [], stamp="1")
        engine.apply([episode("a", "login")], ["a", "b", "unknown"], stamp="2")
        assert paths(engine, "login") == ["a"]

    def test_everything_removed(self, engine):
        engine.apply([episode("a", "login")], [], stamp="1")
        engine.apply([], ["a"], stamp="2")
        assert (engine.stamp(), engine.count(), paths(engine, "login")) == ("2", 0, [])

    def test_doing_it_again_changes_nothing(self, engine):
        documents = corpus(40)
        engine.apply(documents, ["m/0001.md"], stamp="1")
        once = [engine.search(query, kind=None, scope=None, limit=50) for query in QUERIES]
        engine.apply(documents, ["m/0001.md"], stamp="1")
        assert engine.count() == 40
        assert [engine.search(query, kind=None, scope=None, limit=50) for query in QUERIES] == once

    def test_kind_and_scope_are_filtered_before_the_limit(self, engine):
        loud = [episode(f"f{number}", "login login login", "facts") for number in range(30)]
        quiet = [episode("e", "a long report which says login once", "episode", "work")]
        engine.apply([*loud, *quiet], [], stamp="1")
        assert paths(engine, "login", kind="episode", limit=1) == ["e"]
        assert paths(engine, "login", scope="work", limit=1) == ["e"]
        assert paths(engine, "login", kind="facts", scope="work") == []
        assert paths(engine, "login", kind="unknown") == []
        assert len(paths(engine, "login", kind="facts", scope="default", limit=99)) == 30

    def test_a_filter_is_an_exact_word(self, engine):
        engine.apply([episode("a", "login", "episode", "team a"), episode("b", "login", "episode", "Team")], [],
                     stamp="1")  # fmt: skip
        assert paths(engine, "login", scope="team") == []
        assert paths(engine, "login", scope="team a") == ["a"]

    def test_limits(self, engine):
        engine.apply(corpus(20), [], stamp="1")
        assert paths(engine, "word1 word2 word3", limit=0) == []
        assert len(paths(engine, "word1 word2 word3", limit=2)) == 2
        assert paths(engine, "word1 word2 word3", limit=2) == paths(engine, "word1 word2 word3", limit=99)[:2]

    def test_equal_hits_stand_by_path_also_at_the_cut(self, make):
        names = [f"p{number:02}" for number in range(30)]
        for seed in (1, 2):
            engine, shuffled = make(), random.Random(seed).sample(names, len(names))
            engine.apply([episode(name, "the same words") for name in shuffled], [], stamp="1")
            assert paths(engine, "same words", limit=4) == names[:4]

    def test_a_rebuild_answers_alike(self, make):
        documents = corpus(60)
        whole, grown = make(), make()
        whole.apply(documents, [], stamp="1")
        for number in range(0, 60, 7):
            grown.apply(list(reversed(documents))[number : number + 7], [], stamp=str(number))
        for query in QUERIES:
            for kind, scope in ((None, None), ("episode", "work")):
                hits = [engine.search(query, kind=kind, scope=scope, limit=9) for engine in (whole, grown)]
                assert [hit.path for hit in hits[0]] == [hit.path for hit in hits[1]]
                assert [hit.ratio for hit in hits[0]] == pytest.approx([hit.ratio for hit in hits[1]])

    def test_progress_counts_the_documents_added(self, engine):
        told = []
        engine.apply(corpus(3), [], stamp="1", progress=told.append)
        assert told == [1, 2, 3]

    def test_a_commit_that_fails_leaves_all_as_it_was(self, engine):
        engine.apply([episode("a", "login")], [], stamp="1")

        def broken():
            yield episode("b", "login")
            raise ValueError("no more")

        with pytest.raises(ValueError, match="no more"):
            engine.apply(broken(), ["a"], stamp="2")
        assert (engine.stamp(), engine.count(), paths(engine, "login")) == ("1", 1, ["a"])
        engine.apply([episode("c", "login")], [], stamp="3")
        assert (engine.stamp(), paths(engine, "login")) == ("3", ["a", "c"])

    def test_a_document_without_words_counts(self, engine):
        engine.apply([episode("a", ""), episode("b", "login"), episode("c", "…")], [], stamp="1")
        assert (engine.count(), paths(engine, "login")) == (3, ["b"])

    def test_long_texts_and_queries(self, engine):
        engine.apply([episode("a", "login " + "word " * 50_000), episode("b", "x" * 100_000)], [], stamp="1")
        assert paths(engine, " ".join(f"other{number}" for number in range(3_000)) + " login") == ["a"]

    def test_purge_keeps_what_is_there(self, engine):
        engine.purge()
        assert engine.stamp() is None
        documents = corpus(30)
        engine.apply(documents, [], stamp="1")
        engine.apply([], [document.path for document in documents[:20]], stamp="2")
        engine.purge()
        assert (engine.stamp(), engine.count()) == ("2", 10)
        left = {document.path for document in documents[20:]}
        assert set(paths(engine, " ".join(QUERIES), limit=99)) <= left

    def test_clear(self, engine):
        engine.apply([episode("a", "login")], [], stamp="1")
        engine.clear()
        assert (engine.stamp(), engine.count(), paths(engine, "login")) == (None, 0, [])
        engine.clear()
        engine.apply([episode("b", "login")], [], stamp="2")
        assert (engine.stamp(), paths(engine, "login")) == ("2", ["b"])

    def test_close_is_no_end(self, engine):
        engine.apply([episode("a", "login")], [], stamp="1")
        engine.close()
        engine.close()
        assert paths(engine, "login") == ["a"]

    def test_threads_may_share_it(self, engine):
        documents = corpus(40)
        engine.apply(documents, [], stamp="0")
        wrong: list[object] = []

        def read():
            for _ in range(20):
                found = paths(engine, QUERIES[0], limit=3)
                if len(found) != 3:
                    wrong.append(found)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for number in range(10):
            engine.apply(documents[number : number + 2], [], stamp=str(number))
        for reader in readers:
            reader.join()
        assert wrong == []
        assert (engine.stamp(), engine.count()) == ("9", 40)
