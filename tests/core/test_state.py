from __future__ import annotations

import os
import shutil

import pytest

from cyberos.core import ledger, recovery
from cyberos.core.episode import log
from cyberos.core.files import Files
from cyberos.core.state import load
from cyberos.core.writer import Writer
from support import check, episode, fact, rows, write_raw


@pytest.fixture
def warm(root):
    """Give a vault whose cache is true."""
    writer = Writer(root)
    writer.put(*fact("one", "name"))
    log(writer, episode())
    assert load(Files(root)) is not None
    return root


def segment_of(root):
    return next(file for file in root.glob("audit/*/*/*.jsonl") if b'"seq":2' in file.read_bytes())


def test_a_true_cache_knows_what_the_ledger_says(warm):
    state, found = load(Files(warm)), ledger.scan(warm)
    assert state.heads == {row["hash"]: row["seq"] for row in found.heads}
    assert state.vaults == found.vaults
    assert state.head_seq == found.head_seq == Writer(warm).head_seq()
    assert warm / state.segment == segment_of(warm)
    assert set(state.waiting) == set(os.listdir(warm / ".cyberos" / "stage"))


def test_with_a_true_cache_no_write_reads_the_ledger(warm, monkeypatch):
    monkeypatch.setattr(ledger, "scan", None)
    for number in range(40):
        log(Writer(warm), episode(str(number)))
    with Writer(warm).transaction() as writer:
        writer.put(*fact("new"))
    monkeypatch.undo()
    check(warm, heads=1)


def new_segment(root, name="ab" * 8):
    write_raw(segment_of(root).with_name(f"{name}.jsonl"), "")


CHANGES = {
    "a segment came": new_segment,
    "a segment went": lambda root: next(file for file in root.glob("audit/*/*/*") if file != segment_of(root)).unlink(),
    "a segment of another day came": lambda root: write_raw(root / "audit" / "2001-01" / "01" / "x.jsonl", ""),
    "the open segment grew": lambda root: segment_of(root).write_bytes(segment_of(root).read_bytes() + b"x"),
    "the open segment was cut": lambda root: os.truncate(segment_of(root), 100),
    "the open segment went": lambda root: segment_of(root).unlink(),
    "a stage entry came": lambda root: write_raw(root / ".cyberos" / "stage" / "x", "x"),
    "a stage entry went": lambda root: next((root / ".cyberos" / "stage").iterdir()).unlink(),
    "a memory went": lambda root: (root / fact("", "name")[0]).unlink(),
    "a memory was written anew": lambda root: os.replace(
        shutil.copy(root / fact("", "name")[0], root / "x"), root / fact("", "name")[0]
    ),
    "it is missing": lambda root: (root / ".cyberos" / "HEAD").unlink(),
    "it is empty": lambda root: (root / ".cyberos" / "HEAD").write_bytes(b""),
    "it is cut": lambda root: os.truncate(root / ".cyberos" / "HEAD", 30),
    "it is no object": lambda root: (root / ".cyberos" / "HEAD").write_text("[1]"),
    "it is of another version": lambda root: (root / ".cyberos" / "HEAD").write_text('{"v": 2}'),
    "it has other keys": lambda root: (root / ".cyberos" / "HEAD").write_text('{"v": 1, "x": 2}'),
    "it is a link": lambda root: (
        os.rename(root / ".cyberos" / "HEAD", root / "x") or (root / ".cyberos" / "HEAD").symlink_to(root / "x")
    ),
    "all of it is gone": lambda root: shutil.rmtree(root / ".cyberos"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_difference_makes_it_void(change, warm):
    CHANGES[change](warm)
    assert load(Files(warm)) is None


@pytest.mark.parametrize(
    "change", [change for change in CHANGES if change.startswith(("it ", "all", "a stage", "a memory"))]
)
def test_a_void_cache_costs_a_reading_and_nothing_else(change, warm):
    CHANGES[change](warm)
    log(Writer(warm), episode("the next write"))
    assert check(warm, heads=1).head_seq == 6
    assert load(Files(warm)) is not None


def test_a_change_in_the_same_tick_of_the_clock_is_seen(warm):
    """The times of folders are set by the writer, to a time that the file system gives to no change of others."""
    for number in range(50):
        os.unlink(warm / ".cyberos" / "HEAD")
        log(Writer(warm), episode(str(number)))  # a new segment, and its folders stamped
        assert load(Files(warm)) is not None
        new_segment(warm, f"{number:016x}")
        assert load(Files(warm)) is None
        segment_of(warm).with_name(f"{number:016x}.jsonl").unlink()


def test_what_git_brings_while_a_writer_reads_is_seen_by_the_next(warm, tmp_path, monkeypatch):
    """A pull between reading the ledger and noting the times of its folders."""
    shutil.copytree(warm, tmp_path / "other", symlinks=True)
    (tmp_path / "other" / ".cyberos" / "HEAD").unlink()
    log(Writer(tmp_path / "other"), episode("from another clone"))
    recover = recovery.recover

    def recover_and_pull(files, found):
        recover(files, found)
        for folder in ("memories", "audit"):
            shutil.copytree(tmp_path / "other" / folder, warm / folder, dirs_exist_ok=True)
        monkeypatch.undo()

    monkeypatch.setattr(recovery, "recover", recover_and_pull)
    (warm / ".cyberos" / "HEAD").unlink()
    log(Writer(warm), episode("while it came"))
    assert len(ledger.scan(warm).heads) == 2
    log(Writer(warm), episode("the next write"))
    assert len(rows(warm)) == 10
    check(warm, heads=1)
