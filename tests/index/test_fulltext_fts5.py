"""FTS5 as an engine: the contract, damage of its files, crashes, and that SQLite alters no term of ours."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from fulltext_contract import FOUND, NASTY, QUERIES, FullTextContract, corpus, episode, paths

from cyberos.index import fts5_view, fulltext_fts5, tokens
from cyberos.index.fts5_view import LENGTHS, length_code
from cyberos.index.fulltext import EngineUnavailable, IndexDamaged
from cyberos.index.fulltext_fts5 import Fts5FullText
from cyberos.index.fulltext_whoosh import WhooshFullText

WRITER = """
import sys
from pathlib import Path
from cyberos.index.fulltext import Document
from cyberos.index.fulltext_fts5 import Fts5FullText
engine = Fts5FullText(Path(sys.argv[1]))
for number in range(10_000):
    words = f"login round{number} " + "filler " * 50
    engine.apply([Document(f"{number}-{k}", "episode", "default", words) for k in range(50)], (), stamp=str(number))
    print(number, flush=True)
"""


class TestInMemory(FullTextContract):
    @pytest.fixture
    def make(self):
        made = []
        yield lambda: made.append(Fts5FullText(None)) or made[-1]
        for engine in made:
            engine.clear()


class TestOnDisk(FullTextContract):
    @pytest.fixture
    def make(self, tmp_path):
        made = []
        yield lambda: made.append(Fts5FullText(tmp_path / "new" / str(len(made)))) or made[-1]
        for engine in made:
            engine.close()


@pytest.fixture
def folder(tmp_path):
    """Give the folder of an index of two commits."""
    engine = Fts5FullText(tmp_path / "fts5")
    engine.apply(corpus(30), [], stamp="1")
    engine.apply([episode("a", "login times out"), episode("b", "secretword leaves traces")], [], stamp="2")
    engine.close()
    return tmp_path / "fts5"


# --- terms ----------------------------------------------------------------------------------------------------------


def test_sqlite_alters_no_term_of_any_script():
    """Every character that can stand in a term comes back as it went in, alone and beside others."""
    chance = random.Random(11)
    everything = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    chunks = ["".join(chance.choices(everything, k=60)) for _ in range(1500)]
    chunks += ["".join(everything[start : start + 200]) for start in range(0, 0x3100, 200)]
    chunks += [text for text, _ in FOUND] + [text for text in NASTY if text.isascii()]
    found = {term for chunk in chunks for term in tokens.terms(chunk)}
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(fulltext_fts5._SCHEMA)
        database.execute("INSERT INTO words (rowid, terms) VALUES (1, ?)", (" ".join(sorted(found)),))
        assert {term for (term,) in database.execute("SELECT term FROM frequency")} == found
    assert len(found) > 10_000


def test_lengths_are_kept_as_whoosh_keeps_them():
    from whoosh.util.numeric import byte_to_length, length_to_byte

    for length in (*range(3_000), 10**4, 10**5, 106_373, 106_374, 10**6):
        assert LENGTHS[length_code(length)] == byte_to_length(length_to_byte(length))


# --- the same answer as Whoosh --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_both_engines_give_the_same_hits_in_the_same_order(seed):
    chance = random.Random(seed)
    words = [f"word{int(chance.paretovariate(0.7)) % 500}" for _ in range(4000)]
    documents = [
        episode(f"m/{n:04}", " ".join(chance.choices(words, k=chance.randint(0, 60))), chance.choice(("episode", "facts")))
        for n in range(600)
    ]  # fmt: skip
    engines = [Fts5FullText(None), WhooshFullText(None)]
    for engine in engines:
        engine.apply(documents, [], stamp="1")
    for _ in range(60):
        query = " ".join(chance.choices(words, k=chance.randint(1, 20)))
        options = {"kind": chance.choice((None, "episode")), "scope": None, "limit": chance.choice((1, 3, 50, 900))}
        one, two = (engine.search(query, **options) for engine in engines)
        assert [hit.path for hit in one] == [hit.path for hit in two]
        assert [hit.ratio for hit in one] == pytest.approx([hit.ratio for hit in two], abs=1e-12)


@pytest.mark.parametrize("make", [Fts5FullText, WhooshFullText])
def test_what_is_left_out_as_hopeless_could_not_have_been_among_the_best(make, monkeypatch):
    """The answer with few asked for begins the answer with all, also where looking into documents never pays."""
    engine = make(None)
    engine.apply(corpus(300), [], stamp="1")
    for probe in (0, 8, 10**9):
        monkeypatch.setattr(fts5_view, "_PROBE", probe)
        for query in (*QUERIES, " ".join(QUERIES)):
            whole = engine.search(query, kind="episode", scope=None, limit=999)
            for limit in (1, 2, 5, 20):
                few = engine.search(query, kind="episode", scope=None, limit=limit)
                assert [hit.path for hit in few] == [hit.path for hit in whole[:limit]]
                assert [hit.ratio for hit in few] == pytest.approx([hit.ratio for hit in whole[:limit]])


@pytest.mark.parametrize("make", [Fts5FullText, WhooshFullText])
def test_named_documents_are_compared_too(make):
    engine = make(None)
    engine.apply(
        [episode("a", "login login fails"), episode("b", "a long text in which login stands once, and much else"),
         episode("c", "deploy"), episode("d", "login", "facts")], [], stamp="1",
    )  # fmt: skip
    every = engine.search("login fails", kind="episode", scope=None, limit=9)
    plan, hits = engine.compare("login fails", kind="episode", scope=None, limit=1, also=["b", "c", "d", "a", "none"])
    assert [hit.path for hit in every] == ["a", "b"]
    assert [hit.path for hit in hits] == ["a", "b"]
    assert [hit.ratio for hit in hits] == pytest.approx([hit.ratio for hit in every])
    assert {term for term, _ in plan.asked} == {"login", "fail"}
    assert engine.compare("zebra", kind=None, scope=None, limit=1, also=["a"]).hits == []


# --- damage ---------------------------------------------------------------------------------------------------------

DAMAGES = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "garbage": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
    "grown": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "one bit": lambda path: path.write_bytes(flipped(path.read_bytes(), path.stat().st_size // 2)),
    "a link": lambda path: (path.rename(path.with_suffix(".away")), path.symlink_to(path.with_suffix(".away").name)),
}


def flipped(blob, place):
    return blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]


@pytest.mark.parametrize("name", ["fts5.sqlite", "sheet"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_seen_and_a_rebuild_mends_it(folder, damage, name):
    if (damage, name) == ("a link", "sheet"):
        pytest.skip("a sheet vouches for itself, wherever it lies")
    DAMAGES[damage](folder / name)
    engine = Fts5FullText(folder)
    assert engine.stamp() is None
    for ask in (engine.count, engine.purge, lambda: paths(engine, "login")):
        with pytest.raises(IndexDamaged):
            ask()
    with pytest.raises(IndexDamaged):
        engine.apply([episode("c", "login")], [], stamp="3")
    engine.clear()
    engine.apply([episode("c", "login")], [], stamp="4")
    assert (engine.stamp(), engine.count(), paths(engine, "login")) == ("4", 1, ["c"])
    engine.close()


@pytest.mark.parametrize("seed", range(30))
def test_damage_behind_our_back_is_an_error_of_ours_or_none(folder, seed):
    path = folder / "fts5.sqlite"
    before, blob = path.stat(), bytearray(path.read_bytes())
    start = seed * len(blob) // 30
    blob[start : start + 40] = bytes(byte ^ 0x5A for byte in blob[start : start + 40])
    path.write_bytes(blob)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    engine = Fts5FullText(folder)
    try:
        for number in range(20):
            engine.search(f"login word{number}", kind="episode", scope="default", limit=3)
        engine.apply([episode("c", "login")], ["a"], stamp="3")
    except IndexDamaged as error:
        assert "fts5" in str(error)
        assert error.hint
    engine.clear()
    engine.close()


def test_a_copy_is_known_by_its_checksums(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    engine = Fts5FullText(tmp_path / "copy", readonly=True)
    assert (engine.stamp(), paths(engine, "login")) == ("2", ["a"])
    engine.close()


@pytest.mark.parametrize("what", ["tokenizer", "format"])
def test_another_version_makes_another_index(folder, monkeypatch, what):
    if what == "tokenizer":
        monkeypatch.setattr(tokens, "VERSION", tokens.VERSION + 1)
    else:
        monkeypatch.setattr(fulltext_fts5, "FORMAT", 99)
    engine = Fts5FullText(folder)
    assert engine.stamp() is None
    with pytest.raises(IndexDamaged, match="another version"):
        paths(engine, "login")


def test_a_link_in_the_place_of_the_folder_is_not_followed_by_a_rebuild(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "fts5").symlink_to(tmp_path / "elsewhere")
    engine = Fts5FullText(tmp_path / "fts5")
    engine.clear()
    engine.apply([episode("a", "login")], [], stamp="1")
    engine.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []


# --- forgetting -----------------------------------------------------------------------------------------------------


def test_purge_leaves_no_trace_on_disk(folder):
    def bytes_on_disk():
        return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())

    engine = Fts5FullText(folder)
    assert b"secretword" in bytes_on_disk()
    engine.apply([], ["b"], stamp="3")
    engine.purge()
    assert b"secretword" not in bytes_on_disk()
    assert b"trace" not in bytes_on_disk()
    assert (engine.stamp(), engine.count(), paths(engine, "login")) == ("3", 31, ["a"])
    engine.close()
    assert Fts5FullText(folder, readonly=True).stamp() == "3"


def test_what_was_removed_counts_in_nothing(folder):
    engine, fresh = Fts5FullText(folder), Fts5FullText(None)
    documents = corpus(60)
    engine.apply(documents, ["a", "b"], stamp="3")
    engine.apply([], [one.path for one in documents[40:]], stamp="4")
    fresh.apply(documents[:40], [], stamp="1")
    for query in QUERIES:
        assert engine.search(query, kind=None, scope=None, limit=99) == fresh.search(
            query, kind=None, scope=None, limit=99
        )
    engine.close()


# --- processes ------------------------------------------------------------------------------------------------------


def test_read_only(folder):
    before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
    engine = Fts5FullText(folder, readonly=True)
    assert paths(engine, "login") == ["a"]
    for write in (lambda: engine.apply([], [], stamp="3"), engine.purge, engine.clear):
        with pytest.raises(PermissionError):
            write()
    engine.close()
    assert sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir()) == before


def test_an_open_engine_sees_what_another_commits_or_rebuilds(folder):
    reader, writer = Fts5FullText(folder), Fts5FullText(folder)
    assert paths(reader, "login") == ["a"]
    writer.apply([episode("c", "login")], ["a"], stamp="3")
    assert (reader.stamp(), paths(reader, "login")) == ("3", ["c"])
    writer.clear()
    assert (reader.stamp(), paths(reader, "login")) == (None, [])
    for number in range(1, 4):
        writer.apply([episode("d", "login")], [], stamp=str(number))
    assert (reader.stamp(), reader.count(), paths(reader, "login")) == ("3", 1, ["d"])
    reader.close()
    writer.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_writer_that_is_killed_leaves_a_commit_or_damage_that_is_seen(tmp_path, seed):
    folder = tmp_path / "fts5"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
    for _ in range(seed % 3 + 1):
        last = int(writer.stdout.readline())
    time.sleep(random.Random(seed).random() / 30)
    writer.kill()
    last = int(([last, *map(int, writer.stdout.read().split())])[-1])
    writer.wait()
    writer.stdout.close()
    engine = Fts5FullText(folder)
    stamp = engine.stamp()
    if stamp is not None:
        assert int(stamp) >= last, "what was acknowledged is there"
        found = [path.split("-")[0] for path in paths(engine, "login", limit=99_999)]
        assert (found.count(stamp), found.count(str(int(stamp) + 1))) == (50, 0)
        assert engine.count() == 50 * (int(stamp) + 1)
    else:
        with pytest.raises(IndexDamaged):
            engine.count()
    engine.clear()
    engine.apply([episode("a", "login")], [], stamp="again")
    assert paths(engine, "login") == ["a"]
    engine.close()


def test_a_commit_that_was_cut_off_is_rolled_back(folder):
    """The journal of a writer that died still lies there, and half of its pages are in the file."""
    shutil.copytree(folder, folder.parent / "before")
    code = (
        "import os, sys; from pathlib import Path; from fulltext_contract import corpus, episode\n"
        "from cyberos.index.fulltext_fts5 import Fts5FullText, _Commit\n"
        "engine = Fts5FullText(Path(sys.argv[1])); db = engine._open().db\n"
        "db.write('PRAGMA cache_size = 2'); db.write('BEGIN IMMEDIATE')\n"
        "_Commit(db).write([*corpus(300), episode('zz', 'zebra')], ['a'], 'never', None); os.kill(os.getpid(), 9)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, str(folder)], env=environment, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert (folder / "fts5.sqlite-journal").stat().st_size > 0
    engine = Fts5FullText(folder)
    assert (engine.stamp(), engine.count(), paths(engine, "login"), paths(engine, "zebra")) == ("2", 32, ["a"], [])
    engine.close()


# --- without FTS5 ---------------------------------------------------------------------------------------------------


def test_a_python_without_fts5_is_told_so(monkeypatch):
    monkeypatch.setattr(fulltext_fts5, "why_not", lambda: "this Python's SQLite was built without FTS5")
    with pytest.raises(EngineUnavailable, match="built without FTS5") as caught:
        Fts5FullText(None)
    assert "--backend whoosh" in caught.value.hint


def test_here_it_can_be_used():
    assert fulltext_fts5.why_not() is None
