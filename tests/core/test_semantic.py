"""Recall by meaning and words, on real engines: the seed's criteria, what is damaged, what is missing, what is asked.

Each test runs with the embedder for tests, and with MiniLM where its weights are installed.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from types import SimpleNamespace

import pytest

from cyberos.cli.main import main
from cyberos.cli.recall import run
from cyberos.core import layout, reader, semantic
from cyberos.core.episode import log
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from cyberos.embed import choice
from cyberos.embed.base import EmbedderUnavailable
from cyberos.embed.hashing import Hashing
from cyberos.index import joining, meaning
from cyberos.index.joined import Joined
from support import Repo, episode, fact, in_fresh_process, write_raw

np = pytest.importorskip("numpy")

WORDS = "fts5"


def usable(setting):
    with suppress(EmbedderUnavailable):
        choice.make(setting)
        return True
    return False


@pytest.fixture(params=["hash", "minilm"])
def embedder(request, monkeypatch):
    """Name the embedder of a test."""
    if request.param == "minilm" and not usable("minilm"):
        pytest.skip("the weights of MiniLM are not installed")
    monkeypatch.setenv("CYBEROS_EMBEDDER", request.param)
    monkeypatch.setenv("CYBEROS_EMBED_BUDGET", "600")
    return request.param


@pytest.fixture
def hashing(monkeypatch):
    monkeypatch.setenv("CYBEROS_EMBEDDER", "hash")


@pytest.fixture(autouse=True)
def no_memory_of_other_tests():
    meaning._aside.clear()
    meaning._open.clear()


@pytest.fixture
def injected(monkeypatch, hashing):
    """Let a test say how relevant each path is, whatever its words."""
    values = {}

    def relevant(self, query, *, kind, scope, limit):
        from cyberos.index.fulltext import Scored

        return [Scored(*pair) for pair in sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))][:limit]

    monkeypatch.setattr(Joined, "relevant", relevant)
    return values


def add(root, task="ship the login form", **fields):
    return log(Writer(root, durability="none"), episode(task, **fields)).as_posix()


def ns(task="ship", **fields):
    return SimpleNamespace(**{"task": task, "k": 5, "min_relevance": 0.0} | fields)


def matched(root, **fields):
    answer = run(root, ns(**fields))
    assert answer["backend"] == "semantic"
    return [match["path"] for match in answer["matches"]]


def answered(root, task="ship"):
    """What a caller sees, without what a rebuild may change."""
    answer = run(root, ns(task, k=50))
    assert (answer["backend"], answer["degraded"]) == ("semantic", None)
    return [(match["path"], match["relevance"]) for match in answer["matches"]]


# --- the seed's criteria ---------------------------------------------------------------------------------------------


def test_ac11_five_episodes_and_no_fact(seeded_memory, embedder, capsys):
    arguments = ("recall-similar", "how we ship a task", "--k", "5", "--min-relevance", "0", "--json")
    assert main(["--store", str(seeded_memory.path), *arguments]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["backend"], answer["engines"]) == ("semantic", [embedder, WORDS])
    assert len(answer["matches"]) == 5
    assert all(match["path"].startswith("memories/episodes/") for match in answer["matches"])
    hits = semantic.recall(seeded_memory.path, "ship a task", k=10, min_relevance=0.0, memory_kind="episode")
    assert len(hits) == 5
    assert all(hit.frontmatter["kind"] == "episode" for hit in hits)


def test_ac12_of_equal_relevance_the_better_result_comes_first(root, injected):
    worse, better = add(root, "one", quality_score=0.4), add(root, "two", quality_score=0.9)
    injected |= {worse: 0.8, better: 0.8}
    assert matched(root) == [better, worse]


def test_ac12_on_the_text_itself(seeded_memory, embedder):
    scores = [match["quality_score"] for match in run(seeded_memory.path, ns())["matches"]]
    assert scores[0] is None or scores[0] >= (scores[1] if scores[1] is not None else 0.5)


def test_ac13_no_quality_ranks_as_one_half(root, injected):
    paths = {quality: add(root, f"task {quality}", quality_score=quality) for quality in (0.4, None, 0.9)}
    injected |= dict.fromkeys(paths.values(), 0.8)
    assert matched(root) == [paths[0.9], paths[None], paths[0.4]]


def test_ac14_what_is_under_the_cut_is_left_out(root, injected):
    paths = [add(root, f"task {number}") for number in range(3)]
    injected |= dict(zip(paths, (0.8, 0.7, 0.6), strict=True))
    answer = run(root, ns(min_relevance=0.65))
    assert {match["path"] for match in answer["matches"]} == set(paths[:2])
    assert answer["below_cutoff"] == 1


def test_ac15_never_more_than_k(root, embedder):
    for number in range(10):
        add(root, f"ship task {number}")
    assert len(matched(root, k=3)) == 3


@pytest.mark.parametrize("fallback", ["fts5", "whoosh"])
def test_ac16_without_an_embedder_words_answer_and_say_so(seeded_memory, monkeypatch, fallback):
    monkeypatch.setenv("CYBEROS_EMBEDDER", "auto")
    monkeypatch.setenv("CYBEROS_FALLBACK", fallback)
    monkeypatch.setattr("cyberos.core.semantic.available", lambda: False)
    for backend in ("auto", "semantic"):
        answer = run(seeded_memory.path, ns(k=3, backend=backend))
        assert (answer["backend"], answer["engines"]) == (fallback, [fallback])
        assert "cyberos[local]" in answer["degraded"]
        assert len(answer["matches"]) == 3


def test_ac17_without_a_kind_all_kinds_answer(seeded_memory, embedder):
    hits = semantic.recall(seeded_memory.path, "ship a task", k=20, min_relevance=0.0)
    kinds = [hit.frontmatter["kind"] for hit in hits]
    assert (kinds.count("episode"), kinds.count("facts")) == (5, 5)
    assert hits == semantic.recall(seeded_memory.path, "ship a task", 20, 0.0, None)
    assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)


def test_ac21_nothing_found_says_why(root, embedder):
    answer = run(root, ns("x", min_relevance=0.65))
    assert (answer["matches"], answer["reason"], answer["backend"]) == ([], "no_episodes_in_store", "semantic")
    add(root, "ship the login form")
    answer = run(root, ns("entirely unrelated zebra crossing", min_relevance=1.0))
    assert (answer["matches"], answer["reason"]) == ([], "no_episodes_above_min_relevance")
    assert answer["below_cutoff"] == 1


# --- meaning and words ----------------------------------------------------------------------------------------------


def test_each_candidate_has_both_signals_whoever_found_it(root, hashing, monkeypatch):
    """Of 30 episodes one is near by vector alone and one by words alone; each is judged by both signals."""
    paths = [add(root, f"ship the form number {number}") for number in range(30)]
    monkeypatch.setattr(joining, "NEAREST", 3)
    monkeypatch.setattr(joining, "WORDIEST", 3)
    seen = {}
    relevances = joining.relevances

    def noting(family, cosine, ratio, query):
        seen["pairs"] = list(zip(cosine, ratio, strict=True))
        return relevances(family, cosine, ratio, query)

    monkeypatch.setattr(joining, "relevances", noting)
    run(root, ns("ship the form number 7", k=1))
    assert 3 <= len(seen["pairs"]) <= 51
    assert all(ratio > 0 and cosine > 0 for cosine, ratio in seen["pairs"])
    assert paths


def test_the_very_task_comes_first(root, embedder):
    for task in ("restart the mail queue", "rename the customer table", "make the login page faster"):
        add(root, task)
    path = add(root, "rotate the signing keys of the api")
    assert matched(root, task="rotate the signing keys of the api", min_relevance=0.65)[0] == path


def test_minilm_finds_what_shares_no_word(root, monkeypatch):
    if not usable("minilm"):
        pytest.skip("the weights of MiniLM are not installed")
    monkeypatch.setenv("CYBEROS_EMBEDDER", "minilm")
    add(root, "bake bread", approach="flour and water")
    path = add(root, "delete all files older than one week", approach="find with mtime")
    assert matched(root, task="remove documents that are more than seven days old", k=1) == [path]


def test_what_has_no_vector_yet_is_found_by_its_words_and_counted(root, hashing, monkeypatch):
    monkeypatch.setenv("CYBEROS_EMBED_BUDGET", "0")
    path = add(root, "rotate the signing keys")
    answer = run(root, ns("rotate the signing keys", min_relevance=0.65))
    assert [match["path"] for match in answer["matches"]] == [path]
    assert answer["unseen"] == 1
    assert main(["--store", str(root), "index"]) == 0
    assert run(root, ns("rotate the signing keys"))["unseen"] == 0


def test_a_thousand_episodes_of_one_task(root, embedder):
    with Writer(root, durability="none").transaction() as writer:
        for number in range(1000):
            log(writer, episode("deploy the api", duration_ms=number))
    other = add(root, "deploy the website")
    answer = run(root, ns("deploy the api", k=3))
    assert len(answer["matches"]) == 3
    assert answer["matches"][0]["history"] == {"claimed_success": 1000}
    assert other in {hit.path for hit in semantic.recall(root, "deploy the website", 1, 0.0)}


@pytest.mark.parametrize("k", [1, 4, 25, 10**6])
def test_any_k_gives_that_many_or_all(root, embedder, k):
    for number in range(20):
        add(root, f"ship task {number}")
    hits = semantic.recall(root, "ship task", k, 0.0)
    assert len(hits) == min(k, 20)
    assert [hit.path for hit in hits] == [hit.path for hit in semantic.recall(root, "ship task", 10**6, 0.0)][:k]


@pytest.mark.parametrize(("k", "cut"), [(0, 0.5), (-1, 0.5), (3, -0.1), (3, 1.1), (3, float("nan"))])
def test_what_cannot_be_asked_is_refused(root, embedder, k, cut):
    with pytest.raises(ValueError, match="k is at least 1"):
        semantic.recall(root, "x", k, cut)


NASTY = ["", " ", '"', "*", "a AND", "(((", "NEAR/3", "\x00", "\ud800", "🦓", "修复登录", "the of and", "x " * 5000]


def test_no_query_breaks_it(seeded_memory, embedder):
    for task in NASTY:
        answer = run(seeded_memory.path, ns(task))
        assert answer["backend"] == "semantic"
        assert len(answer["matches"]) <= 5


def test_scope_and_since_bound_what_is_found(root, embedder):
    here = add(root, "ship it", scope="here", occurred_at="2026-01-01T00:00:00Z")
    there = add(root, "ship it", scope="there", occurred_at="2026-06-01T00:00:00Z")
    assert matched(root, scope="here") == [here]
    assert matched(root, since="2026-03-01") == [there]
    assert matched(root, scope="nowhere") == []


# --- a hit is a promise ----------------------------------------------------------------------------------------------


def test_edited_deleted_and_forgotten_episodes_are_no_hits(root, embedder):
    kept, edited, deleted, forgotten = (add(root, f"ship {name}") for name in ("one", "two", "three", "four"))
    assert len(matched(root)) == 4
    for entry in (root / layout.STAGE).iterdir():
        entry.unlink()
    write_raw(root / edited, (root / edited).read_text().replace("two", "2"))
    (root / deleted).unlink()
    Writer(root).forget(forgotten, "no more")
    assert matched(root) == [kept]
    assert run(root, ns())["unseen"] == 2


def test_branches_show_their_own_episodes(tmp_path, embedder):
    repo = Repo.begin(tmp_path / "repo")
    here = add(repo.root, "ship on main")
    repo.commit()
    repo.branch("side")
    there = add(repo.root, "ship on the side")
    repo.commit()
    assert set(matched(repo.root)) == {here, there}
    repo.switch("main")
    assert matched(repo.root) == [here]
    repo.git("merge", "-q", "side")
    assert set(matched(repo.root)) == {here, there}


def test_a_file_that_changes_while_it_is_read_is_no_hit(root, hashing, monkeypatch):
    kept, changed = add(root, "ship one"), add(root, "ship two")
    matched(root)
    for entry in (root / layout.STAGE).iterdir():
        entry.unlink()
    relevant = Joined.relevant

    def meanwhile(self, *given, **options):
        found = relevant(self, *given, **options)
        with suppress(FileNotFoundError):
            (root / changed).unlink()
        return found

    monkeypatch.setattr(Joined, "relevant", meanwhile)
    assert matched(root) == [kept]


# --- damage ----------------------------------------------------------------------------------------------------------


def put_in_place(file, blob):
    """Replace a file: what has been mapped must never shrink under its reader."""
    fresh = file.with_name("fresh")
    fresh.write_bytes(blob)
    os.replace(fresh, file)


def corrupt(file):
    blob = file.read_bytes()
    third = len(blob) // 3
    put_in_place(
        file, blob[:third] + bytes(byte ^ 0x55 for byte in blob[third : 2 * third + 1]) + blob[2 * third + 1 :]
    )


def cut(file):
    put_in_place(file, file.read_bytes()[: file.stat().st_size // 2])


def swap(file):
    put_in_place(file, b"something else\n" * 100)


HARM = {
    "corrupt": corrupt, "cut": cut, "foreign": swap, "deleted": os.unlink, "emptied": lambda file: put_in_place(file, b""),
}  # fmt: skip


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("pattern", ["vectors-*.roster", "vectors-*.f32", "catalog.sqlite", "fts5/*"])
def test_a_damaged_file_of_the_index_changes_no_answer(root, hashing, pattern, harm):
    for number in range(40):
        add(root, f"ship task {number}", notes="note " * number)
    Writer(root, durability="none").put(*fact("how to ship"))
    expected = answered(root, "ship task 7")
    for file in sorted((root / layout.INDEX).glob(pattern)):
        HARM[harm](file)
        assert answered(root, "ship task 7") == expected, file.name
    assert answered(root, "ship task 7") == expected
    fresh = in_fresh_process(_ASKING, str(root))
    assert json.loads(fresh.stdout) == [list(pair) for pair in expected], fresh.stderr


_ASKING = """
import json, sys
from types import SimpleNamespace
from cyberos.cli.recall import run
answer = run(sys.argv[1], SimpleNamespace(task="ship task 7", k=50, min_relevance=0.0))
print(json.dumps([[match["path"], match["relevance"]] for match in answer["matches"]]))
"""


def test_a_rebuilt_index_answers_the_same(root, embedder):
    for number in range(30):
        add(root, f"ship task {number}")
    expected = answered(root, "ship task 7")
    shutil.rmtree(root / layout.INDEX)
    assert answered(root, "ship task 7") == expected
    assert main(["--store", str(root), "index", "--rebuild"]) == 0
    assert answered(root, "ship task 7") == expected


def test_an_index_of_another_embedder_is_not_compared(root, hashing, monkeypatch):
    path = add(root, "ship one")
    matched(root)
    monkeypatch.setattr(Hashing, "stamp", "cd" * 32)
    monkeypatch.setattr(Hashing, "dim", 12)
    monkeypatch.setattr(
        Hashing, "embed", lambda self, texts, progress=None: np.full((len(texts), 12), 12**-0.5, np.float32)
    )
    assert matched(root) == [path]
    assert len(list((root / layout.INDEX).glob("vectors-*.roster"))) == 2


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_weights_that_give_no_numbers_are_refused_and_words_answer(root, hashing, monkeypatch, value):
    path = add(root, "ship one")
    monkeypatch.setattr(
        Hashing, "embed", lambda self, texts, progress=None: np.full((len(texts), self.dim), value, np.float32)
    )
    answer = run(root, ns())
    assert answer["backend"] == "whoosh"
    assert "unit length" in answer["degraded"]
    assert [match["path"] for match in answer["matches"]] == [path]


def test_an_embedder_that_cannot_be_made_is_named(root, monkeypatch):
    add(root, "ship one")

    def broken(setting):
        raise EmbedderUnavailable("minilm", "its weights are not those that it was made of", "install them again")

    monkeypatch.setenv("CYBEROS_EMBEDDER", "minilm")
    monkeypatch.setattr(choice, "make", broken)
    answer = run(root, ns())
    assert answer["backend"] == "whoosh"
    assert "its weights are not those that it was made of" in answer["degraded"]
    assert "install them again" in answer["degraded"]


def test_who_switched_meaning_off_is_not_told_that_it_is_off(root):
    add(root, "ship one")
    assert run(root, ns())["degraded"] is None


def test_a_vault_that_cannot_be_written_is_searched_by_meaning_all_the_same(root, embedder):
    path = add(root, "ship one")
    write_raw(root / layout.INDEX, "a file where the folder should be")
    answer = run(root, ns())
    assert answer["backend"] == "semantic"
    assert [match["path"] for match in answer["matches"]] == [path]
    assert "in memory" in answer["degraded"]


def test_an_empty_vault_answers(root, embedder):
    assert semantic.recall(root, "anything", 5, 0.0) == []
    assert main(["--store", str(root), "index"]) == 0


def test_a_vault_is_made_and_asked_by_several_threads(root, hashing):
    from concurrent.futures import ThreadPoolExecutor

    paths = {add(root, f"ship task {number}") for number in range(50)}
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: {hit.path for hit in semantic.recall(root, "ship task", 50, 0.0)}, range(12)):
            assert found == paths


def test_two_vaults_in_one_process_do_not_mix(tmp_path, embedder):
    roots = [init(tmp_path / name).root for name in ("a", "b")]
    paths = [add(each, f"ship {each.name}") for each in roots]
    for each, path in zip(roots * 2, paths * 2, strict=True):
        assert [hit.path for hit in reader.recall(each, "ship", 5, 0.0)] == [path]
        assert [hit.path for hit in semantic.recall(each, "ship", 5, 0.0)] == [path]
