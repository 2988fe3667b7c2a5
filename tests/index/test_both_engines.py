"""A vault with either full-text engine: the same answers, whatever happens to the index."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from cyberos.cli.main import main
from cyberos.core import reader
from cyberos.core.episode import log
from cyberos.core.writer import Writer
from cyberos.index import engines, fulltext_fts5, sync
from support import episode, fact

ENGINES = ("whoosh", "fts5")
ODD = [
    'un"balanced login', "task:login", "a AND login", "OR", "NOT login", "login*", "*", "(login", ")", "((", "🦓 login",
    "the of and", "", " ", "login " * 1_667, "NEAR(login 2)", "^login", "-login", "\\", "'; DROP TABLE words; --",
]  # fmt: skip


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture
def vault(root, engine, monkeypatch):
    """Give a vault of 25 episodes and a fact that the engine has indexed."""
    monkeypatch.setenv("CYBEROS_FALLBACK", engine)
    with Writer(root, durability="none").transaction() as writer:
        for number in range(25):
            log(writer, episode(f"ship part {number} of the login form", notes=f"note {number}", scope="web"))
        writer.put(*fact("how we ship the login"))
    ask(root, engine)
    return root


def ask(root, engine, query="ship the login", kind=None, **options):
    asked = reader.Query(query, 50, 0.0, kind, **options)
    found = reader.ask(root, lambda index: reader.search(index, asked).hits, stores=(engine,))
    return [(hit.path, round(hit.relevance, 9)) for hit in found]


def stores(root):
    return sorted(path.name for path in (root / ".cyberos/index").iterdir() if path.is_dir())


def add(root, task, **fields):
    return log(Writer(root, durability="none"), episode(task, **fields)).as_posix()


def test_both_give_the_same_answer(vault):
    for query in ("ship the login", "part 7", "note 3 of the form", "how we ship", "zebra"):
        for options in ({}, {"kind": "episode"}, {"kind": "facts"}, {"scope": "web"}, {"scope": "none"}):
            assert ask(vault, "whoosh", query, **options) == ask(vault, "fts5", query, **options)


def test_only_what_is_asked_for_is_built(vault, engine):
    assert stores(vault) == [engine]
    other = ENGINES[1 - ENGINES.index(engine)]
    assert ask(vault, other) == ask(vault, engine)
    assert stores(vault) == sorted(ENGINES)


def test_each_store_follows_in_its_own_time(vault, engine):
    other = ENGINES[1 - ENGINES.index(engine)]
    ask(vault, other)
    new = add(vault, "ship the zebra")
    assert new in dict(ask(vault, engine))
    gone, _ = ask(vault, engine, "part 7")[0]
    Writer(vault).forget(gone, "private")
    for name in (engine, other):
        found = dict(ask(vault, name))
        assert new in found
        assert gone not in found


@pytest.mark.parametrize("by", ["purge", "next recall", "a recall of the other engine"])
def test_what_was_forgotten_leaves_no_bytes_in_any_store(vault, engine, by):
    other = ENGINES[1 - ENGINES.index(engine)]
    path = add(vault, "ship the Quetzalcoatlus", notes="xylophonist")
    for name in ENGINES:
        assert path in dict(ask(vault, name, "Quetzalcoatlus"))
    Writer(vault).forget(path, "private")
    if by == "purge":
        sync.purge(vault)
    else:
        ask(vault, engine if by == "next recall" else other)
    held = b"".join(file.read_bytes() for file in (vault / ".cyberos").rglob("*") if file.is_file()).lower()
    assert b"quetzalcoatlu" not in held
    assert b"xylophonist" not in held
    assert ask(vault, "whoosh") == ask(vault, "fts5")


@pytest.mark.parametrize("harm", ["deleted", "emptied", "cut in half", "overwritten", "one byte"])
def test_a_damaged_file_changes_no_answer(vault, engine, harm):
    expected = ask(vault, engine)
    names = [file for file in (vault / ".cyberos/index" / engine).iterdir() if file.suffix != ".lock"]
    assert len(names) >= 2
    for number, file in enumerate(sorted(names)):
        if not file.exists() or not (blob := file.read_bytes()):
            continue
        if harm == "deleted":
            file.unlink()
        else:
            place = random.Random(number).randrange(len(blob))
            flipped = blob[:place] + bytes([blob[place] ^ 0x20]) + blob[place + 1 :]
            changed = {"emptied": b"", "cut in half": blob[: len(blob) // 2], "overwritten": os.urandom(len(blob))}
            file.write_bytes(changed.get(harm, flipped))
        assert ask(vault, engine) == expected
    shutil.rmtree(vault / ".cyberos/index" / engine)
    assert ask(vault, engine) == expected


def test_an_index_that_may_not_be_written_is_made_in_memory(vault, engine):
    expected = ask(vault, engine)
    shutil.rmtree(vault / ".cyberos/index")
    found = reader.recall(vault, "ship the login", 50, 0.0, writable=False)
    assert [hit.path for hit in found] == [path for path, _ in expected]
    assert not (vault / ".cyberos/index").exists()


def test_two_processes_may_index_together(vault, engine):
    expected = ask(vault, engine)
    shutil.rmtree(vault / ".cyberos/index")
    command = [sys.executable, "-m", "cyberos", "--store", str(vault), "recall", "login", "--k", "50", "--json"]
    command += ["--min-relevance", "0", "--backend", engine]
    asking = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    answers = [json.loads(one.communicate()[0]) for one in asking]
    assert [one.returncode for one in asking] == [0, 0, 0]
    complete = [{match["path"] for match in answer["matches"]} for answer in answers if not answer["unseen"]]
    assert complete
    assert all(found == {path for path, _ in expected} for found in complete)


def test_threads_may_ask_together(vault, engine):
    expected = ask(vault, engine)
    with ThreadPoolExecutor(4) as pool:
        assert all(answer == expected for answer in pool.map(lambda _: ask(vault, engine), range(12)))


def test_an_empty_vault(root, engine):
    assert ask(root, engine) == []


def test_a_thousand_episodes_of_one_task(root, engine):
    with Writer(root, durability="none").transaction() as writer:
        made = {log(writer, episode("ship the login form")).as_posix() for _ in range(1000)}
    add(root, "deploy")
    found = ask(root, engine, "ship the login form")
    assert len(found) == 200
    assert {path for path, _ in found} <= made
    assert len({value for _, value in found}) == 1


@pytest.mark.parametrize("query", ODD)
@pytest.mark.parametrize("verb", ["recall", "recall-similar"])
def test_a_query_is_words_never_syntax(vault, engine, capsys, query, verb):
    arguments = ["--store", str(vault), verb, "--backend", engine, "--json", "--min-relevance", "0", "--", query]
    assert main(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["backend"] == engine
    # of a query of stop words alone even these are asked for
    assert bool(answer["matches"]) == ("login" in query or query == "the of and")


# --- which engine answers -------------------------------------------------------------------------------------------


def answered(vault, capsys, *arguments, verb="recall-similar"):
    assert main(["--store", str(vault), verb, "ship the login", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_setting_names_the_fallback(vault, engine, capsys):
    for arguments in ((), ("--backend", "auto"), ("--backend", "semantic")):
        answer = answered(vault, capsys, *arguments)
        assert (answer["backend"], answer["engines"]) == (engine, [engine])
        assert ("no embedder" in (answer["degraded"] or "")) is ("semantic" in arguments)


@pytest.mark.parametrize("verb", ["recall", "recall-similar"])
@pytest.mark.parametrize("wanted", ENGINES)
def test_the_flag_names_the_engine_and_nothing_is_degraded(vault, capsys, wanted, verb):
    answer = answered(vault, capsys, "--backend", wanted, verb=verb)
    assert (answer["backend"], answer["engines"], answer["degraded"]) == (wanted, [wanted], None)


def test_without_fts5_whoosh_answers_and_says_so(vault, capsys, monkeypatch):
    monkeypatch.setattr(fulltext_fts5, "why_not", lambda: "this Python's SQLite was built without FTS5")
    monkeypatch.setattr(engines, "_open", {})
    answer = answered(vault, capsys, "--backend", "fts5")
    assert answer["backend"] == "whoosh"
    assert answer["degraded"] == "this Python's SQLite was built without FTS5"
    assert answer["matches"]


# --- cyberos recall -------------------------------------------------------------------------------------------------


def test_recall_finds_every_kind_and_narrows(vault, capsys):
    found = answered(vault, capsys, "--k", "50", "--min-relevance", "0", verb="recall")
    assert {match["kind"] for match in found["matches"]} == {"episode", "facts"}
    assert list(found) == ["backend", "engines", "degraded", "matches", "reason", "below_cutoff", "unseen"]
    match = found["matches"][0]
    assert list(match) == ["path", "kind", "title", "relevance", "last_seen_at", "frontmatter"]
    found = answered(vault, capsys, "--kind", "facts", "--min-relevance", "0", verb="recall")
    assert [match["kind"] for match in found["matches"]] == ["facts"]
    found = answered(vault, capsys, "--k", "2", "--scope", "web", "--min-relevance", "0", verb="recall")
    assert [match["frontmatter"]["scope"] for match in found["matches"]] == ["web", "web"]


def test_recall_without_a_match_is_exit_0_and_says_why(vault, root, capsys):
    assert answered(vault, capsys, "--kind", "people", verb="recall")["reason"] == "no_memories_in_store"
    assert main(["--store", str(vault), "recall", "zebra"]) == 0
    assert "no memory shares" in capsys.readouterr().out
    assert main(["--store", str(vault), "recall", "ship a zebra quickly over there", "--min-relevance", "1"]) == 0
    assert "--min-relevance lowers it" in capsys.readouterr().out
    assert main(["--store", str(vault), "recall", "ship the login"]) == 0
    assert "searched by" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [("--k", "0"), ("--k", "-1"), ("--min-relevance", "1.1"), ("--min-relevance", "nan"), ("--kind", "x"),
     ("--since", "yesterday"), ("--backend", "semantic")],
)  # fmt: skip
def test_recall_refuses_what_cannot_be(root, capsys, arguments):
    assert main(["--store", str(root), "recall", "ship", *arguments]) == 2
    assert capsys.readouterr().out == ""


def test_a_huge_k_gives_all(vault, engine, capsys):
    found = answered(vault, capsys, "--k", str(10**9), "--min-relevance", "0", "--backend", engine, verb="recall")
    assert len(found["matches"]) == 26


@pytest.mark.parametrize("query", ["Deploy the billing service to staging", "deploy billing service, staging"])
def test_a_vault_of_one_task_knows_it(root, engine, monkeypatch, query):
    monkeypatch.setenv("CYBEROS_FALLBACK", engine)
    with Writer(root, durability="none").transaction() as writer:
        for number in range(1_000):
            log(writer, episode("Deploy the billing service to staging", approach=f"attempt {number}"))
    found = ask(root, engine, query)
    assert min(relevance for _, relevance in found) > 0.9
    # one word of a vault that holds no other proves nothing, nor does one that any task may have
    assert all(relevance < 0.5 for word in ("deploy", "the") for _, relevance in ask(root, engine, word))
    assert ask(root, engine, "restart the web server") == []


def test_to_say_it_again_proves_nothing_more(vault, engine):
    once, often = (ask(vault, engine, query) for query in ("login", "login " * 1_667))
    assert once == often != []


def test_a_row_that_the_catalog_lost_comes_back(vault, engine):
    expected = ask(vault, engine)
    with closing(sqlite3.connect(vault / ".cyberos/index/catalog.sqlite")) as catalog, catalog:
        lost = catalog.execute("DELETE FROM memories WHERE path = ?", [expected[3][0]]).rowcount
    assert lost == 1
    assert ask(vault, engine) == expected
