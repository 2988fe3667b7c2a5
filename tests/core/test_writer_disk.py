"""A disk that refuses: full once or for good, read-only, without hard links. The error says so; nothing is half there."""

from __future__ import annotations

import errno
import os

import pytest

from cyberos.core import commit, ledger
from cyberos.core.episode import log
from cyberos.core.errors import BrokenLedger, CyberosError, WriteFailed
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from faults import GROWING, OTHERS, Full, calls_of, copy, watched
from support import check, episode, fact, files, hashes, write_raw

HAND = fact("written by hand", "hand")


@pytest.fixture(autouse=True)
def _small_stage(monkeypatch):
    monkeypatch.setattr(commit, "_MAX_WAITING", 4)


@pytest.fixture
def template(root):
    """Give a vault with an open segment, waiting bodies, a fact to replace and a file to adopt."""
    writer = Writer(root)
    writer.put(*fact("one", "name"))
    log(writer, episode("waits"))
    write_raw(root / HAND[0], HAND[1])
    return root


def put(writer):
    log(writer, episode("a put"))


def batch(writer):
    with writer.transaction():
        for number in range(5):
            log(writer, episode(f"{number}"))
        writer.put(*fact("two", "name"))


def big_batch(writer):
    with writer.transaction():
        for number in range(commit._MANY + 1):
            log(writer, episode(f"{number}"))


def replace(writer):
    writer.put(*fact("two", "name"))


def adopt(writer):
    writer.adopt(HAND[0])


def forget(writer):
    writer.forget(fact("", "name")[0], "r")


def both(writer):
    with writer.transaction():
        writer.forget(fact("", "name")[0], "r")
        log(writer, episode("a put"))


def nothing(writer):
    pass


def lose_cache(writer):
    os.unlink(writer.path / ".cyberos" / "HEAD")


def crash(writer):
    """Leave what a killed writer leaves: rows written, the body still in the stage."""
    os.unlink(writer.path / log(writer, episode("crashed")))


WORKS = {
    "a put": (nothing, put),
    "a batch": (nothing, batch),
    "a big batch": (nothing, big_batch),
    "a replacement": (nothing, replace),
    "an adoption": (nothing, adopt),
    "a forgetting": (nothing, forget),
    "a forgetting and a put in one": (nothing, both),
    "a put that does not know the ledger": (lose_cache, put),
    "a put after a crash": (crash, put),
}


def attempt(work, root, disk):
    """Do `work` on a failing disk; give the error, or None when it was acknowledged all the same."""
    writer = Writer(root)
    with watched(GROWING + (OTHERS if disk.code == errno.EROFS else ()), disk):
        try:
            work(writer)
        except CyberosError as error:
            return error
    return None


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("stays", [False, True], ids=["once", "from then on"])
def test_a_disk_full_at_any_call_is_an_error_and_nothing_is_half_there(name, stays, template, tmp_path):
    set_up, work = WORKS[name]
    set_up(Writer(template))
    count = len(calls_of(lambda _: work(Writer(copy(template, tmp_path / "copy")))))
    failed = 0
    for number in range(1, count + 1):
        root = copy(template, tmp_path / "copy")
        before, present = hashes(root), files(root)
        error = attempt(work, root, Full(number, stays=stays))
        check(root, is_settled=False, unlogged={HAND[0]})
        if error is not None:
            failed += 1
            assert isinstance(error, WriteFailed), number
            assert "No space left" in str(error)
            assert "nothing was logged" in str(error)
            assert error.hint
            assert hashes(root) == before, f"call {number}"
            may_hide = stays and work in (forget, both)  # the body waits in the stage where not even a rename goes
            assert files(root) == present or set_up is crash or may_hide, f"call {number}"
        log(Writer(root), episode("the next write"))
        check(root, heads=1, unlogged={HAND[0]})
        if error is not None:
            work(Writer(root))
        check(root, heads=1, unlogged={HAND[0]})
    assert failed > 3


@pytest.mark.parametrize("name", WORKS)
def test_a_disk_that_turns_read_only_at_any_call_leaves_all_or_nothing(name, template, tmp_path):
    """What was written cannot even be taken back, so only the next write can say which it was."""
    set_up, work = WORKS[name]
    set_up(Writer(template))
    number = undecided = 0
    while True:
        number += 1
        root = copy(template, tmp_path / "copy")
        disk = Full(number, stays=True, code=errno.EROFS)
        before = hashes(root)
        error = attempt(work, root, disk)
        if not disk.hits:
            break
        is_undecided = error is not None and "may have been logged" in str(error)
        undecided += is_undecided
        check(root, is_settled=False, unlogged={HAND[0]})
        log(Writer(root), episode("the next write"))
        check(root, heads=1, unlogged={HAND[0]})
        if error is not None and not is_undecided:
            assert "nothing was logged" in str(error)
            assert len(hashes(root)) == len(before) + 2, f"call {number}: the message is not true"
    assert number > 5
    assert undecided > 0


@pytest.mark.parametrize("stays", [False, True])
def test_a_disk_full_while_a_vault_is_made_is_an_error_and_trying_again_makes_it(stays, tmp_path):
    number = 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        disk = Full(number, stays=stays)
        with watched(GROWING, disk):
            try:
                init(folder)
            except WriteFailed as error:
                assert "No space left" in str(error)
        if not disk.hits:
            break
        made = init(folder)
        log(Writer(made.root), episode())
        check(made.root, heads=1)
        assert [file.name for file in folder.iterdir() if file.name.endswith(".tmp")] == []
    assert number > 5


def test_a_note_says_what_is_logged_but_not_in_its_place_and_the_next_write_places_it(template):
    writer = Writer(template)

    def no_links(name, arguments):
        if name in ("link", "mkdir"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with watched(GROWING, no_links):
        path = log(writer, episode("not yet"))
    assert [path.exists() for path in [template / path]] == [False]
    assert len(writer.notes) == 1
    assert "the next write puts it there" in writer.notes[0]
    check(template, is_settled=False, unlogged={HAND[0]})
    log(writer, episode("the next write"))
    assert (template / path).exists()
    assert len(writer.notes) == 1


# --- read-only ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("name", [name for name in WORKS if WORKS[name][0] is not crash])
def test_a_read_only_vault_refuses_every_write_and_is_still_read(name, code, template):
    set_up, work = WORKS[name]
    set_up(Writer(template))
    before = {file: file.stat().st_mtime_ns for file in template.rglob("*")}

    def refuse(name, arguments):
        raise OSError(code, os.strerror(code))

    writer = Writer(template)
    with watched(GROWING + OTHERS, refuse):
        with pytest.raises(WriteFailed) as caught:
            work(writer)
        assert writer.head_seq() == 4
        assert writer.read_audit_row(4)["kind"] == "episode.logged"
        check(template, unlogged={HAND[0]})
    assert os.strerror(code) in str(caught.value)
    assert {file: file.stat().st_mtime_ns for file in template.rglob("*")} == before


def test_a_vault_on_read_only_media_without_its_private_folder_is_read(template):
    import shutil

    shutil.rmtree(template / ".cyberos")

    def refuse(name, arguments):
        raise OSError(errno.EROFS, "Read-only file system")

    with watched(GROWING + OTHERS, refuse):
        writer = Writer(template)
        assert writer.head_seq() == 4
        with pytest.raises(WriteFailed):
            put(writer)
    assert not (template / ".cyberos").exists()


# --- what cannot be read, and what cannot be taken back ---------------------------------------------------------------


def named(handle):
    return os.readlink(f"/proc/self/fd/{handle}")


def test_a_ledger_that_cannot_be_read_is_not_one_without_the_memory(template, monkeypatch):
    real = os.open

    def refuse(path, *arguments, **options):
        if str(path).endswith(".jsonl"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, *arguments, **options)

    writer = Writer(template)
    writer.head_seq()
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(BrokenLedger, match="Input/output error"):
        forget(writer)
    monkeypatch.undo()
    check(template, unlogged={HAND[0]})
    forget(writer)


@pytest.mark.parametrize("is_new", [True, False], ids=["a new segment", "an open segment"])
def test_rows_that_can_be_neither_synced_nor_cut_off_keep_their_bodies(is_new, template):
    """The error says that it may have been logged; it was, and the next write shows it."""
    if is_new:
        lose_cache(Writer(template))

    def refuse(name, arguments):
        if name in {"fsync", "ftruncate"} and named(arguments[0]).endswith(".jsonl"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with watched(GROWING + OTHERS, refuse), pytest.raises(WriteFailed) as caught:
        put(Writer(template))
    assert "may have been logged" in str(caught.value)
    assert "cyberos list" in caught.value.hint
    before = len(ledger.scan(template).memories)
    log(Writer(template), episode("the next write"))
    assert len(check(template, heads=1, unlogged={HAND[0]}).memories) == before + 1


# --- no hard links --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
@pytest.mark.parametrize("durability", ["full", "none"])
def test_where_there_are_no_hard_links_everything_works_by_renaming(code, durability, root, monkeypatch):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    writer = Writer(root, durability=durability)
    for number in range(3):
        for work in (put, batch, replace, forget):
            work(writer)
            check(root, heads=1)
            assert os.listdir(root / ".cyberos" / "stage") == []
        write_raw(root / fact("", f"hand {number}")[0].replace(" ", "-"), HAND[1])
        writer.adopt(fact("", f"hand {number}")[0].replace(" ", "-"))
    check(root, heads=1)
    assert writer.notes == []
