"""What a writer can be killed in, and the verdict on what it leaves.

Each scenario is (prepare the vault, work on it); work says each path when it has been acknowledged.
"""

from __future__ import annotations

import os
from hashlib import sha256

from cyberos.core import commit
from cyberos.core.episode import log
from cyberos.core.files import Files
from cyberos.core.layout import episode_stem
from cyberos.core.state import load
from cyberos.core.writer import Writer
from support import check, episode, fact, files, write_raw

SMALL_STAGE = 4  # bodies that may wait, for the tests: so the stage is emptied within them

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
        memory = found.memories.get(path)
        assert memory is not None, f"{path} is lost"
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
