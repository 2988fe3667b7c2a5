from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fulltext_contract import FullTextContract, corpus, episode, paths

from cyberos.core.errors import VaultLocked
from cyberos.index import calibration, fulltext_whoosh, tokens, voucher
from cyberos.index.calibration import relevance
from cyberos.index.fulltext import IndexDamaged
from cyberos.index.fulltext_whoosh import WhooshFullText

WRITER = """
import sys
from pathlib import Path
from cyberos.index.fulltext import Document
from cyberos.index.fulltext_whoosh import WhooshFullText
engine = WhooshFullText(Path(sys.argv[1]))
for number in range(6):
    document = Document(f"{sys.argv[2]}{number}", "episode", "default", "login")
    engine.apply([document], [], stamp=sys.argv[2])
"""


class TestInMemory(FullTextContract):
    @pytest.fixture
    def make(self):
        made = []
        yield lambda: made.append(WhooshFullText(None)) or made[-1]
        for engine in made:
            engine.close()


class TestOnDisk(FullTextContract):
    @pytest.fixture
    def make(self, tmp_path):
        made = []
        yield lambda: made.append(WhooshFullText(tmp_path / "new" / str(len(made)))) or made[-1]
        for engine in made:
            engine.close()


@pytest.fixture
def folder(tmp_path):
    """Give the folder of an index of two commits."""
    engine = WhooshFullText(tmp_path / "whoosh")
    engine.apply(corpus(30), [], stamp="1")
    engine.apply([episode("a", "login times out"), episode("b", "secretword leaves traces")], [], stamp="2")
    engine.close()
    return tmp_path / "whoosh"


def only(folder: Path, ending: str) -> Path:
    return max(folder.glob(f"*{ending}"), key=lambda path: path.stat().st_size)


def damage_missing(path: Path) -> None:
    path.unlink()


def damage_empty(path: Path) -> None:
    path.write_bytes(b"")


def damage_truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damage_garbage(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def damage_grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def damage_one_bit(path: Path) -> None:
    blob = bytearray(path.read_bytes())
    blob[len(blob) // 2] ^= 1
    path.write_bytes(blob)


def damage_link(path: Path) -> None:
    path.rename(path.with_suffix(".away"))
    path.symlink_to(path.with_suffix(".away").name)


DAMAGES = [damage_missing, damage_empty, damage_truncated, damage_garbage, damage_grown, damage_one_bit, damage_link]


@pytest.mark.parametrize("ending", [".seg", ".toc", ".toc.json"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_seen_and_a_rebuild_mends_it(folder, damage, ending):
    if (damage, ending) == (damage_link, ".toc.json"):
        pytest.skip("a sheet vouches for itself, wherever it lies")
    damage(only(folder, ending))
    engine = WhooshFullText(folder)
    assert engine.stamp() is None
    if (damage, ending) != (damage_missing, ".toc"):  # without its table an index is absent, not damaged
        for ask in (engine.count, engine.purge, lambda: paths(engine, "login")):
            with pytest.raises(IndexDamaged):
                ask()
        with pytest.raises(IndexDamaged):
            engine.apply([episode("c", "login")], [], stamp="3")
    engine.clear()
    engine.apply([episode("c", "login")], [], stamp="4")
    assert (engine.stamp(), engine.count(), paths(engine, "login")) == ("4", 1, ["c"])
    engine.close()


# Whoosh leaves a file open that it cannot read.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", range(30))
def test_damage_behind_our_back_is_an_error_of_ours_or_none(folder, seed):
    path = only(folder, (".seg", ".toc")[seed % 2])
    before, blob = path.stat(), bytearray(path.read_bytes())
    start = seed * len(blob) // 30
    blob[start : start + 40] = bytes(byte ^ 0x5A for byte in blob[start : start + 40])
    path.write_bytes(blob)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    engine = WhooshFullText(folder)
    try:
        for number in range(20):
            engine.search(f"login word{number}", kind="episode", scope="default", limit=3)
        engine.apply([episode("c", "login")], ["a"], stamp="3")
    except IndexDamaged as error:
        assert "whoosh" in str(error)
        assert error.hint
    engine.clear()
    engine.close()


def test_a_copy_is_known_by_its_checksums(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    engine = WhooshFullText(tmp_path / "copy", readonly=True)
    assert (engine.stamp(), paths(engine, "login")) == ("2", ["a"])
    engine.close()


@pytest.mark.parametrize("what", ["tokenizer", "whoosh", "format"])
def test_another_version_makes_another_index(folder, monkeypatch, what):
    import whoosh

    if what == "tokenizer":
        monkeypatch.setattr(tokens, "VERSION", tokens.VERSION + 1)
    elif what == "whoosh":
        monkeypatch.setattr(whoosh, "__version_str__", "99.0")
    else:
        monkeypatch.setattr(fulltext_whoosh, "FORMAT", 99)
    engine = WhooshFullText(folder)
    assert engine.stamp() is None
    with pytest.raises(IndexDamaged, match="another version"):
        paths(engine, "login")


class Hostile:
    """Stands where whoosh keeps its list of segments, and makes a folder when unpickled."""

    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_index_from_elsewhere_runs_no_code(folder, tmp_path):
    target = tmp_path / "pwned"
    table = folder / "_MAIN_2.toc"
    blob = table.read_bytes()
    start = blob.index(b"cwhoosh.codec.whoosh3") if b"cwhoosh.codec.whoosh3" in blob else blob.rindex(b"\x80\x05")
    table.write_bytes(blob[:start] + pickle.dumps(Hostile(str(target))))
    sheet = json.loads((folder / "_MAIN_2.toc.json").read_bytes()[65:])
    files = {name: name for name in sheet["files"]}
    forged = voucher.write_sheet(str(folder), files, sheet["made_by"], sheet["stamp"])
    (folder / "_MAIN_2.toc.json").write_bytes(forged)
    engine = WhooshFullText(folder)
    with pytest.raises(IndexDamaged, match="has no place in an index"):
        paths(engine, "login")
    assert not target.exists()


def test_purge_leaves_no_trace_on_disk(folder):
    def bytes_on_disk():
        return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())

    engine = WhooshFullText(folder)
    assert b"secretword" in bytes_on_disk()
    engine.apply([], ["b"], stamp="3")
    engine.purge()
    assert b"secretword" not in bytes_on_disk()
    assert (engine.stamp(), engine.count()) == ("3", 31)
    engine.close()


def test_read_only(folder):
    before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
    engine = WhooshFullText(folder, readonly=True)
    assert paths(engine, "login") == ["a"]
    for write in (lambda: engine.apply([], [], stamp="3"), engine.purge, engine.clear):
        with pytest.raises(PermissionError):
            write()
    engine.close()
    assert sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir()) == before


def test_a_lock_held_elsewhere_is_waited_for_and_then_reported(folder, monkeypatch):
    monkeypatch.setattr(fulltext_whoosh, "LOCK_WAIT_S", 0.05)
    engine, other = WhooshFullText(folder), WhooshFullText(folder)

    def meanwhile():
        with pytest.raises(VaultLocked):
            other.apply([], [], stamp="other")
        yield episode("c", "login")

    engine.apply(meanwhile(), [], stamp="3")
    assert (engine.stamp(), other.stamp(), paths(other, "login")) == ("3", "3", ["c", "a"])
    engine.close()
    other.close()


def test_a_crash_at_the_commit_leaves_the_commit_before(folder, monkeypatch):
    engine = WhooshFullText(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(OSError("power")))
        with pytest.raises(OSError, match="power"):
            engine.apply([episode("c", "login")], ["a"], stamp="3")
    for again in (engine, WhooshFullText(folder)):
        assert (again.stamp(), again.count(), paths(again, "login")) == ("2", 32, ["a"])
        again.close()
    engine.apply([episode("c", "login")], ["a"], stamp="3")
    assert (engine.stamp(), paths(engine, "login")) == ("3", ["c"])
    assert len(list(folder.glob("*.json"))) == 1
    engine.close()


def test_an_open_engine_sees_what_another_commits_or_rebuilds(folder):
    reader, writer = WhooshFullText(folder), WhooshFullText(folder)
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


def test_two_processes_write_while_a_third_reads(tmp_path):
    folder = tmp_path / "whoosh"
    WhooshFullText(folder).apply([episode("start", "login")], [], stamp="0")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder), name]) for name in ("a", "b")]
    engine = WhooshFullText(folder)
    while any(writer.poll() is None for writer in writers):
        assert "start" in paths(engine, "login", limit=99)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert engine.count() == 13
    assert engine.stamp() in ("a", "b")
    engine.close()


def test_many_small_commits_make_few_segments(tmp_path):
    engine = WhooshFullText(tmp_path)
    for number, document in enumerate(corpus(40)):
        engine.apply([document], [], stamp=str(number))
    assert engine.count() == 40
    assert len(list(tmp_path.glob("*.seg"))) < 10
    engine.close()


def test_removed_documents_do_not_pile_up(tmp_path):
    engine, fresh = WhooshFullText(tmp_path / "a"), WhooshFullText(tmp_path / "b")
    documents = corpus(40)
    fresh.apply(documents, [], stamp="1")
    for _ in range(5):
        engine.apply(documents, [], stamp="1")
    hits = [one.search("word1 word2", kind=None, scope=None, limit=9) for one in (engine, fresh)]
    assert hits[0] == hits[1]
    engine.close()
    fresh.close()


def test_whoosh_is_not_imported_before_it_is_used():
    code = "import sys; import cyberos.index.fulltext_whoosh; sys.exit('whoosh' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_relevance_grows_with_x_and_stays_within_bounds():
    values = [relevance("whoosh", x / 20) for x in range(21)]
    assert values == sorted(values)
    assert all(0 < value < 1 for value in values)
    assert values[0] < 0.1
    assert values[-1] > 0.99


def test_relevance_of_an_engine_never_calibrated():
    with pytest.raises(KeyError):
        relevance("guesswork", 0.5)


def test_the_constants_cannot_be_changed_in_passing():
    with pytest.raises(TypeError):
        calibration.CONSTANTS["whoosh"] = (1, 1)
