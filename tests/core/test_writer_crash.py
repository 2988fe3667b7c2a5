"""A writer killed ahead of, or inside, any call that changes the disk.

Afterwards all that it acknowledged is there, nothing is half there, and the next write puts the rest right.
"""

from __future__ import annotations

import errno
import os

import pytest

from crashes import (
    CUTS,
    FACT,
    HAND,
    SCENARIOS,
    SMALL_STAGE,
    assert_survives,
    batch,
    both,
    prepare,
    put,
    replace,
)
from cyberos.core import commit
from cyberos.core.episode import log
from cyberos.core.writer import Writer
from faults import GROWING, OTHERS, calls_of, copy, killed_at, watched
from support import check, episode, fact


@pytest.fixture(autouse=True)
def _small_stage(monkeypatch):
    monkeypatch.setattr(commit, "_MAX_WAITING", SMALL_STAGE)


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
