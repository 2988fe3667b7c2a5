"""What a finding says where its rule alone does not tell two faults apart, and what only a failing disk shows."""

import errno
import os

import pytest

from cyberos.core import contract
from cyberos.core.contract import Problem
from cyberos.doctor import walker
from cyberos.doctor.examination import examine
from doctor.test_fixtures import TESTS
from support import fact, write_raw

BAD = TESTS / "bad"


@pytest.mark.parametrize(
    ("case", "pointer", "said"),
    [
        ("frontmatter-canonical/yaml", "", "the frontmatter is YAML; cyberos writes an episode's as JSON"),
        ("frontmatter-canonical/order", "", "the frontmatter is not spelled as cyberos writes it"),
        ("secret-in-memory/episode", "/notes", "notes holds what looks like a credential"),
        ("secret-in-memory/fact", "", "its body holds what looks like a credential"),
        ("memory-unlinked/staged", "", "the file is not in its place yet"),
        ("memory-unlinked/an-earlier-one-in-its-place", "", "the file is an earlier one; the newer bytes wait"),
        ("contract-valid/hint-no-text", "", "ours: description, hint, why, bad, good, fix are texts"),
        ("contract-valid/scope", "", "ours: a rule with `schema` or `select` has the scope file"),
    ],
)
def test_a_finding_says_which_fault_it_is(case, pointer, said):
    rule = case.split("/")[0]
    (found,) = [one for one in examine(BAD / case).findings if one.rule == rule]
    assert found.pointer == pointer
    assert found.message.startswith(said)


def only(root, chosen=None):
    ((path, message),) = [
        (one.path, one.message) for one in examine(root, chosen).findings if one.rule == "layout-file-regular"
    ]
    return path, message


def test_a_link_and_a_fifo_are_told_apart(root):
    place = root / "memories/facts/ab/cd"
    place.mkdir(parents=True)
    (place / "one.md").symlink_to("/etc/hostname")
    assert only(root) == ("memories/facts/ab/cd/one.md", "is a symbolic link")
    assert only(root, {"memories/facts/ab/cd/one.md"}) == ("memories/facts/ab/cd/one.md", "is a symbolic link")
    (place / "one.md").unlink()
    os.mkfifo(place / "one.md")
    assert [entry.fault for entry in walker.walk(str(root))] == [("layout-file-regular", "is no regular file")]
    assert only(root) == ("memories/facts/ab/cd/one.md", "is no regular file")
    assert only(root, {"memories/facts/ab/cd/one.md"}) == ("memories/facts/ab/cd/one.md", "is no regular file")


def test_what_is_chosen_below_a_link_is_not_read(root, tmp_path):
    path, body = fact("we deploy on Tuesdays", "deploy")
    write_raw(tmp_path / path.removeprefix("memories/facts/"), body)
    (root / "memories/facts").symlink_to(tmp_path)
    folder = path.rsplit("/", 1)[0]
    assert only(root, {folder}) == (folder, "is a symbolic link or no folder")
    assert only(root, {path})[0] == path


def refuse(monkeypatch, module, name, is_meant):
    """Let a call fail as it does on a disk that fails."""
    call = getattr(module, name)

    def failing(*arguments, **options):
        if is_meant(arguments[0]):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return call(*arguments, **options)

    monkeypatch.setattr(module, name, failing)


def test_a_file_that_cannot_be_read_is_told_and_the_others_are_judged(root, monkeypatch):
    first, second = (fact(text, text.replace(" ", "-")) for text in ("one", "two"))
    for path, body in (first, second):
        write_raw(root / path, body)
    refuse(monkeypatch, os, "open", lambda name: str(name).endswith(first[0].rsplit("/", 1)[1]))
    assert only(root) == (first[0], "cannot be read: Input/output error")
    assert [one.path for one in examine(root).findings if one.rule == "memory-unlogged"] == [second[0]]


def test_a_folder_that_cannot_be_listed_is_told(root, monkeypatch):
    path, body = fact("we deploy on Tuesdays")
    write_raw(root / path, body)
    folder = path.rsplit("/", 1)[0]
    inode = os.stat(root / folder).st_ino
    refuse(monkeypatch, walker.os, "scandir", lambda where: isinstance(where, int) and os.fstat(where).st_ino == inode)
    assert only(root) == (folder, "cannot be read: Input/output error")


def test_where_only_the_fast_validator_says_no_its_verdict_stands(monkeypatch):
    import jsonschema_rs

    monkeypatch.setattr(contract, "_fast", lambda: jsonschema_rs.Draft202012Validator(False))
    (problem,) = contract.problems({"kind": "facts"})
    assert problem == Problem("frontmatter-schema", "", problem.message)
    assert "False schema does not allow" in problem.message
