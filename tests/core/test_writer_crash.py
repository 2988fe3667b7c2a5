"""A writer killed ahead of, or inside, any call that changes the disk.

Afterwards all that it acknowledged is there, nothing is half there, and the next write puts the rest right.
"""

from __future__ import annotations

import errno
import os
from hashlib import sha256

import pytest

from cyberos.core import commit
from cyberos.core.episode import log
from cyberos.core.files import Files
from cyberos.core.layout import episode_stem
from cyberos.core.state import load
from cyberos.core.writer import Writer
from faults import GROWING, OTHERS, calls_of, copy, killed_at, watched
from support import check, episode, fact, files, write_raw

HAND = fact("written by hand", "hand")
FACT = fact("", "name")[0]
EPISODE = f"{episode_stem(episode('to be forgotten').task)}abcdef.md"


def prepare(root):
    """Give the vault an open segment, a fact to replace, an episode to forget and a file to adopt."""
    writer = Writer(root)
    writer.put(*fact("one", "name"))
    writer.put(EPISODE, episode("to be forgotten").render())
    write_raw(root / HAND[0], HAND[1])
    return root


@pytest.fixture(autouse=True)
def _small_stage(monkeypatch):
    monkeypatch.setattr(commit, "_MAX_WAITING", 4)


def fill_stage(root):
    """Let exactly so many bodies wait that the next one is too many."""
    writer = Writer(prepare(root))
    while len(os.listdir(root / ".cyberos" / "stage")) < commit._MAX_WAITING:
        log(writer, episode("waits"))


def forget_cache(root):
    prepare(root)
    os.unlink(root / ".cyberos" / "HEAD")


def put(writer, say):
    for task in ("one", "two"):
        say(log(writer, episode(task)))


def batch(writer, say):
    with writer.transaction():
        paths = [log(writer, episode(f"one of {number}")) for number in range(3)]
        paths.append(writer.put(*fact("two", "name")))
        paths.append(writer.put(*fact("new")))
    for path in paths:
        say(path)


def big_batch(writer, say):
    with writer.transaction():
        paths = [log(writer, episode("the same task")) for _ in range(commit._MANY + 1)]
    for path in paths:
        say(path)


def adopt(writer, say):
    writer.adopt(HAND[0])
    say(HAND[0])


def replace(writer, say):
    for text in ("two", "one", "three"):
        writer.put(*fact(text, "name"))
        say(f"{FACT} {sha256(fact(text)[1].encode()).hexdigest()}")


def forget(writer, say):
    writer.forget(EPISODE, "r")
    say(f"{EPISODE} forgotten")
    writer.forget(FACT, "r")
    say(f"{FACT} forgotten")


def both(writer, say):
    with writer.transaction():
        writer.forget(EPISODE, "r")
        writer.put(*fact("two", "name"))
        log(writer, episode("one"))
    say(f"{EPISODE} forgotten")
    say(FACT)


CUTS = {
    "after a byte": lambda blob: 1,
    "after half": lambda blob: len(blob) // 2,
    "after a line": lambda blob: blob.find(b"\n") + 1,
    "before the last byte": lambda blob: len(blob) - 1,
    "after all": len,
}


def assert_said(root, said):
    """Insist that the last word that was said of each path is true."""
    found = check(root, heads=1)
    for path, digest in {line.split()[0]: line.split()[1:] for line in said}.items():
        memory = found.memories[path]
        assert memory.is_forgotten == (digest == ["forgotten"])
        if digest not in ([], ["forgotten"]):
            assert files(root)[path] == digest[0] or len(memory.puts) == 1


def assert_survives(root, said):
    """Judge a vault as a killed writer left it, write once more, and judge again."""
    check(root, is_settled=False, unlogged={HAND[0]})
    log(Writer(root), episode("the next write"))
    if HAND[0] not in check(root, heads=1, unlogged={HAND[0]}).memories:
        (root / HAND[0]).unlink()
    assert_said(root, said)
    log(Writer(root), episode("and one more"))
    check(root, heads=1)
    assert load(Files(root)) is not None


SCENARIOS = {
    "a put": (prepare, put),
    "a put that does not know the ledger": (forget_cache, put),
    "a put that empties the stage": (fill_stage, put),
    "a batch": (prepare, batch),
    "a big batch": (prepare, big_batch),
    "an adoption": (prepare, adopt),
    "a replacement": (prepare, replace),
    "a replacement that empties the stage": (fill_stage, replace),
    "a forgetting": (prepare, forget),
    "a forgetting and a put in one": (prepare, both),
}


def points(work, root, cuts):
    """Give every call of `work` to be killed at, and for the writes where to cut them."""
    for number, name in enumerate(calls_of(lambda say: work(Writer(root), say)), 1):
        yield number, name, "before", None
        if name == "write":
            for where, cut in cuts.items():
                yield number, name, where, cut


def kill_everywhere(template, target, work, judge, cuts=CUTS):
    """Kill `work` at every point in turn; give the number of points."""
    everywhere = list(points(work, copy(template, target), cuts))
    for number, name, where, cut in everywhere:
        root = copy(template, target)
        is_killed, said = killed_at(lambda say, root=root: work(Writer(root), say), number, cut)
        assert is_killed
        try:
            judge(root, said)
        except AssertionError as error:
            raise AssertionError(f"killed {where} of {name}, call {number}: {error}") from error
    return len(everywhere)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_anywhere_nothing_acknowledged_is_lost_and_nothing_is_half_there(scenario, root, tmp_path):
    set_up, work = SCENARIOS[scenario]
    set_up(root)
    assert kill_everywhere(root, tmp_path / "copy", work, assert_survives) > 15


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_whoever_reads_meanwhile_never_sees_half_of_it(scenario, root):
    set_up, work = SCENARIOS[scenario]
    set_up(root)
    texts = {fact(text)[1] for text in ("one", "two", "three")}

    def look(name, arguments):
        check(root, is_settled=False, unlogged={HAND[0]})
        if work in (put, batch, replace):
            assert (root / FACT).read_text() in texts

    with watched(GROWING + OTHERS, look):
        work(Writer(root), lambda path: check(root, unlogged={HAND[0]}))


@pytest.mark.parametrize("scenario", ["a put", "a batch", "a replacement", "a forgetting and a put in one"])
def test_killed_anywhere_where_there_are_no_hard_links(scenario, root, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    set_up, work = SCENARIOS[scenario]
    set_up(root)
    assert kill_everywhere(root, tmp_path / "copy", work, assert_survives) > 15


def test_killed_while_putting_right_what_a_killed_one_left(root, tmp_path):
    prepare(root)
    template, seen = tmp_path / "killed once", set()
    for number in range(1, len(calls_of(lambda say: both(Writer(copy(root, template)), say))) + 1):
        copy(root, template)
        _, said = killed_at(lambda say: both(Writer(template), say), number, None)
        left = tuple(sorted(name.name for name in template.rglob("*")))
        if left in seen:
            continue  # as the one before it, on disk
        seen.add(left)

        def judge(target, more, said=said):
            assert_survives(target, said + more)

        again = lambda writer, say: say(log(writer, episode("again")))  # noqa: E731
        kill_everywhere(template, tmp_path / "copy", again, judge, cuts={})
    assert len(seen) > 5
