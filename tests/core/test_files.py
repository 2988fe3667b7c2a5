from __future__ import annotations

import errno
import os

import pytest

from cyberos.core import syscalls
from cyberos.core.errors import UnsafePath
from cyberos.core.files import Files

BLOB = b"memory\n"


@pytest.fixture
def inside(tmp_path):
    """Give Files on a root that holds a/b/c/x.md, and beside it an outside that nothing may touch."""
    (tmp_path / "root" / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "root" / "a" / "b" / "c" / "x.md").write_bytes(b"old")
    (tmp_path / "outside" / "b" / "c").mkdir(parents=True)
    (tmp_path / "outside" / "b" / "c" / "x.md").write_bytes(b"precious")
    (tmp_path / "outside" / "c").mkdir()
    (tmp_path / "outside" / "c" / "x.md").write_bytes(b"precious")
    (tmp_path / "outside" / "x.md").write_bytes(b"precious")
    return Files(tmp_path / "root")


def picture(folder):
    """Give everything that can change below a folder."""
    return {
        str(entry): (
            entry.lstat().st_ino,
            entry.lstat().st_mtime_ns,
            entry.lstat().st_nlink,
            entry.is_file() and entry.read_bytes(),
        )
        for entry in [folder, *sorted(folder.rglob("*"))]
    }


def every_call(files: Files, path: str) -> dict:
    folder = path.rsplit("/", 1)[0]
    return {
        "create": lambda: files.create(f"{folder}/new.md", BLOB, sync=True),
        "create here": lambda: files.create(path, BLOB, sync=True),
        "append": lambda: files.append(path, BLOB, 8, sync=True),
        "append anew": lambda: files.append(f"{folder}/new.md", BLOB, 0, sync=True),
        "truncate": lambda: files.truncate(path, 0),
        "overwrite": lambda: files.overwrite(path, BLOB),
        "link to": lambda: files.link("y.md", f"{folder}/new.md"),
        "link from": lambda: files.link(path, "z.md"),
        "replace onto": lambda: files.replace("y.md", path),
        "replace from": lambda: files.replace(path, "z.md"),
        "remove": lambda: files.remove(path),
        "remove folder": lambda: files.remove_folder(folder),
        "make folder": lambda: files.make_folder(f"{folder}/new/newer"),
        "stamp": lambda: files.stamp(path, 0),
        "sync": lambda: files.sync_folder(folder),
        "read": lambda: files.read(path),
        "stat": lambda: files.stat(path),
        "names": lambda: files.names(folder),
    }


CALLS = list(every_call(Files(""), "a/b/c/x.md"))
TO_FOLDER = ["a", "a/b", "a/b/c"]


@pytest.mark.parametrize("has_dir_fd", [True, False])
@pytest.mark.parametrize("component", TO_FOLDER)
@pytest.mark.parametrize("call", CALLS)
def test_no_call_passes_a_symbolic_link_in_any_component(call, component, has_dir_fd, inside, tmp_path, monkeypatch):
    monkeypatch.setattr(syscalls, "HAS_DIR_FD", has_dir_fd and syscalls.HAS_DIR_FD)
    link = tmp_path / "root" / component
    os.rename(link, tmp_path / "root" / "moved")
    link.symlink_to(tmp_path / "outside" / component.removeprefix("a").strip("/"))
    (tmp_path / "root" / "y.md").write_bytes(BLOB)
    before = picture(tmp_path / "outside")
    if call == "remove folder":
        assert not inside.remove_folder(component)
    elif call == "sync" and not has_dir_fd:
        inside.sync_folder(component)
    else:
        with pytest.raises(UnsafePath):
            every_call(inside, "a/b/c/x.md")[call]()
    assert picture(tmp_path / "outside") == before


@pytest.mark.parametrize(
    "call", ["create here", "append", "truncate", "overwrite", "link from", "replace onto", "read"]
)
def test_no_call_writes_or_reads_through_a_link_at_the_end(call, inside, tmp_path):
    target = tmp_path / "root" / "a" / "b" / "c" / "x.md"
    target.unlink()
    target.symlink_to(tmp_path / "outside" / "x.md")
    (tmp_path / "root" / "y.md").write_bytes(BLOB)
    before = picture(tmp_path / "outside")
    if call in ("overwrite", "link from"):
        every_call(inside, "a/b/c/x.md")[call]()  # the link itself is replaced, or gets a second name
    else:
        with pytest.raises((UnsafePath, FileExistsError)):
            every_call(inside, "a/b/c/x.md")[call]()
    assert picture(tmp_path / "outside") == before


def test_nothing_is_appended_through_a_hard_link(inside, tmp_path):
    target = tmp_path / "root" / "a" / "b" / "c" / "x.md"
    target.unlink()
    os.link(tmp_path / "outside" / "x.md", target)
    with pytest.raises(UnsafePath, match="hard link"):
        inside.append("a/b/c/x.md", BLOB, 8, sync=True)
    assert target.read_bytes() == b"precious"


def test_a_temporary_that_somebody_planted_is_not_written_through(inside, tmp_path):
    planted = tmp_path / "root" / f"HEAD.{os.getpid()}.tmp"
    for plant in (os.link, os.symlink):
        plant(tmp_path / "outside" / "x.md", planted)
        inside.overwrite("HEAD", BLOB)
        assert (tmp_path / "outside" / "x.md").read_bytes() == b"precious"
        assert (tmp_path / "root" / "HEAD").read_bytes() == BLOB
        assert not os.path.lexists(planted)


@pytest.mark.parametrize("call", ["create here", "append", "replace onto", "read"])
def test_a_fifo_neither_blocks_nor_is_taken_for_a_file(call, inside, tmp_path):
    target = tmp_path / "root" / "a" / "b" / "c" / "x.md"
    target.unlink()
    os.mkfifo(target)
    reader = os.open(target, os.O_RDONLY | os.O_NONBLOCK)
    (tmp_path / "root" / "y.md").write_bytes(BLOB)
    with pytest.raises((UnsafePath, FileExistsError)):
        every_call(inside, "a/b/c/x.md")[call]()
    assert os.read(reader, 100) == b""
    os.close(reader)


@pytest.mark.parametrize(
    "path", ["../outside/x.md", "a/../../outside/x.md", "/etc/passwd", "a//x.md", "./a", "a\\b", "a\0b", ""]
)
@pytest.mark.parametrize("call", [call for call in CALLS if call != "sync"])
def test_no_call_leaves_the_root(call, path, inside, tmp_path):
    (tmp_path / "root" / "y.md").write_bytes(BLOB)
    before = picture(tmp_path)
    with pytest.raises(UnsafePath):
        every_call(inside, f"{path}/b/c/x.md")[call]()
    assert picture(tmp_path) == before


def test_the_root_itself_may_be_reached_through_a_link(inside, tmp_path):
    (tmp_path / "way").symlink_to(tmp_path / "root")
    assert Files(tmp_path / "way").read("a/b/c/x.md") == b"old"


# --- whole writes ---------------------------------------------------------------------------------------------------


def test_short_writes_are_continued(inside, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, blob: write(fd, bytes(blob)[:7]))
    blob = bytes(range(256)) * 5
    inside.create("new", blob, sync=True)
    inside.append("new", blob, len(blob), sync=True)
    inside.overwrite("other", blob)
    assert inside.read("new") == blob * 2
    assert inside.read("other") == blob


def test_short_reads_are_continued(inside, monkeypatch):
    read = os.read
    monkeypatch.setattr(os, "read", lambda fd, size: read(fd, min(size, 7)))
    inside.create("new", b"x" * 100, sync=False)
    assert inside.read("new") == b"x" * 100
    assert inside.read("new", 50) == b"x" * 50


def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(inside, tmp_path, monkeypatch):
    fstat = os.fstat

    def and_grow(fd):
        status = fstat(fd)
        with (tmp_path / "root" / "a" / "b" / "c" / "x.md").open("ab") as other:
            other.write(b"more")
        return status

    monkeypatch.setattr(os, "fstat", and_grow)
    assert inside.read("a/b/c/x.md").startswith(b"oldmore")


def full(monkeypatch, name, after=0):
    """Let the disk be full from the call of `name` on that follows `after` others."""
    call, calls = getattr(os, name), []

    def refuse(*arguments, **options):
        calls.append(name)
        if len(calls) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        return call(*arguments, **options)

    monkeypatch.setattr(os, name, refuse)


@pytest.mark.parametrize("name", ["write", "fsync"])
@pytest.mark.parametrize("is_torn", [False, True])
def test_a_full_disk_leaves_an_appended_file_as_it_was(name, is_torn, inside, monkeypatch):
    if is_torn:
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, blob: write(fd, bytes(blob)[:3]))
    full(monkeypatch, name, after=1 if is_torn and name == "write" else 0)
    with pytest.raises(OSError, match="No space"):
        inside.append("a/b/c/x.md", BLOB, 3, sync=True)
    assert inside.read("a/b/c/x.md") == b"old"
    with pytest.raises(OSError, match="No space"):
        inside.append("a/b/c/new", BLOB, 0, sync=True)
    assert inside.names("a/b/c") == ["x.md"]


@pytest.mark.parametrize("name", ["write", "fsync"])
def test_a_full_disk_leaves_no_half_made_file(name, inside, monkeypatch):
    full(monkeypatch, name)
    with pytest.raises(OSError, match="No space"):
        inside.create("a/b/c/new", BLOB, sync=True)
    assert inside.names("a/b/c") == ["x.md"]


@pytest.mark.parametrize("name", ["write", "replace"])
def test_a_full_disk_leaves_an_overwritten_file_as_it_was_and_no_temporary(name, inside, monkeypatch):
    full(monkeypatch, name)
    with pytest.raises(OSError, match="No space"):
        inside.overwrite("a/b/c/x.md", BLOB)
    assert inside.names("a/b/c") == ["x.md"]
    assert inside.read("a/b/c/x.md") == b"old"


def test_append_insists_on_the_size_that_its_caller_knows(inside):
    for size in (2, 4):
        with pytest.raises(UnsafePath, match="holds 3 bytes"):
            inside.append("a/b/c/x.md", BLOB, size, sync=False)
    with pytest.raises(FileExistsError):
        inside.append("a/b/c/x.md", BLOB, 0, sync=False)
    with pytest.raises(FileNotFoundError):
        inside.append("a/b/c/none", BLOB, 1, sync=False)
    assert inside.read("a/b/c/x.md") == b"old"


def test_create_never_takes_a_name_that_is_taken(inside):
    with pytest.raises(FileExistsError):
        inside.create("a/b/c/x.md", BLOB, sync=False)
    assert inside.read("a/b/c/x.md") == b"old"


@pytest.mark.parametrize("code", ["EPERM", "EOPNOTSUPP", "ENOSYS", "EMLINK", "EXDEV"])
def test_where_there_are_no_hard_links_the_file_is_moved(code, inside, monkeypatch):
    def refuse(*_, **__):
        raise OSError(getattr(errno, code), code)

    monkeypatch.setattr(os, "link", refuse)
    assert inside.link("a/b/c/x.md", "d/e/y.md") is False
    assert inside.read("d/e/y.md") == b"old"
    assert inside.names("a/b/c") == []
    inside.create("z", BLOB, sync=False)
    with pytest.raises(FileExistsError):
        inside.link("z", "d/e/y.md")
    assert inside.read("d/e/y.md") == b"old"


def test_a_link_is_a_second_name(inside):
    assert inside.link("a/b/c/x.md", "d/e/y.md") is True
    assert inside.stat("a/b/c/x.md").st_nlink == 2
    with pytest.raises(FileExistsError):
        inside.link("a/b/c/x.md", "d/e/y.md")


def test_make_folder_names_the_folders_that_got_a_new_entry(inside):
    assert inside.make_folder("a/n/o") == ["a", "a/n"]
    assert inside.make_folder("a/n/o") == []
    assert inside.make_folder("p") == [""]


def test_what_is_not_there_is_nothing_to_look_at_or_remove(inside):
    assert inside.stat("a/none/x") is None
    assert inside.names("a/none") == []
    inside.remove("a/none/x")
    inside.remove("a/b/c/none")
    assert not inside.remove_folder("a/none")
    assert not inside.remove_folder("a/b/c")


def test_a_batch_closes_what_it_kept_open(inside):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileExistsError), inside.keeping_open():
        inside.create("a/b/c/new", BLOB, sync=False)
        inside.link("a/b/c/new", "a/b/c/newer")
        inside.create("a/b/c/new", BLOB, sync=False)
    assert len(os.listdir("/proc/self/fd")) == before
