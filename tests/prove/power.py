"""Power cuts: after every call of several works the disk is left in each of many states that the model allows.

Of the calls that nothing has made durable: none is there, all are, each alone is, each alone is missing, each write
is torn in each way among all or none of the others, and then draws of all these at random. Each sync is then left out
in turn: a sync without which no state turns bad would be a cost without use.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import crashes
from cyberos.core import commit
from cyberos.core.episode import log
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from cyberos.doctor.examination import examine
from prove.disk import VARIANTS, WHOLE, Trace
from prove.table import folder, promise, share
from support import check, episode, fact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STATES = 6_000
THEIRS = "*.png binary\n"
TORN = b'{"actor":"torn","kind":"put","payload":{"memory'
UNLOGGED = frozenset({crashes.HAND[0]})


class Work(NamedTuple):
    prepare: Callable[[Path], object]
    do: Callable[[Path, Callable[[str], None]], None]


def several(root, say):
    """Do one thing after the other, so that what one left unsynced meets the syncs of the next."""
    for work in (crashes.put, crashes.replace, crashes.batch, crashes.put, crashes.forget):
        work(Writer(root), say)


def many(root, say):
    crashes.big_batch(Writer(root), say)
    with (writer := Writer(root)).transaction():
        for number in range(commit._MANY):
            writer.put(*fact(f"{number}"))
    with writer.transaction():
        for number in range(commit._MANY):
            writer.forget(fact(f"{number}")[0], "r")
    for number in range(commit._MANY):
        say(f"{fact(f'{number}')[0]} forgotten")


def empty(root):
    """Leave a folder in which nothing but a user's own lines stands."""
    shutil.rmtree(root)
    root.mkdir()
    (root / ".gitattributes").write_text(THEIRS)


def begin(root, say):
    init(root)
    say("begun")
    crashes.put(Writer(root), say)


def again(root, say):
    crashes.put(Writer(root), say)


def cloned(root):
    """Leave what a fresh clone has: no private folder."""
    crashes.prepare(root)
    shutil.rmtree(root / ".cyberos")


def crashed(root):
    crashes.prepare(root)
    os.unlink(root / log(Writer(root), episode("waits")))
    segment = max(root.glob("audit/*/*/*.jsonl"), key=os.path.getmtime)
    with segment.open("ab") as handle:
        handle.write(TORN)


WORKS = {
    "one after the other": Work(crashes.prepare, several),
    "a full stage": Work(crashes.fill_stage, lambda root, say: crashes.both(Writer(root), say)),
    "big batches": Work(crashes.prepare, many),
    "a new vault": Work(empty, begin),
    "a fresh clone": Work(cloned, again),
    "after a crash": Work(crashed, again),
}


def record(name: str, root: Path) -> Trace:
    work = WORKS[name]
    init(root)
    work.prepare(root)
    trace = Trace(root)
    with trace.recording():
        work.do(root, trace.say)
    return trace


def fates(trace: Trace, pending: dict[int, str], chosen: random.Random, draws: int) -> Iterator[dict[int, str]]:
    """Give what may become of the calls that are not durable; below 0 `draws`, only the two extremes."""
    writes = [number for number in pending if trace.ops[number].kind == "write"]
    none, everything = pending, dict.fromkeys(pending, WHOLE)
    yield none
    yield everything
    if draws < 0:
        return
    for base in (none, everything):
        yield from (base | {number: how} for number in writes for how in VARIANTS)
    for number in pending:
        yield none | {number: WHOLE}
        yield everything | {number: none[number]}
    for _ in range(draws):
        yield {
            number: chosen.choice((WHOLE, none[number], *(VARIANTS if number in writes else ()))) for number in pending
        }


def states(trace: Trace, moments: list[int], chosen: random.Random, draws: int, without: str = ""):
    """Give (moment, disk), each disk once for what had been acknowledged by then."""
    seen = set()
    for moment in moments:
        said = sum(at <= moment for at, _ in trace.said)
        for fate in fates(trace, trace.pending(moment, without), chosen, draws):
            image = trace.image(moment, fate)
            if (key := (said, image.key())) not in seen:
                seen.add(key)
                yield moment, image


def judge(trace: Trace, moment: int, image, place: Path) -> None:
    """Insist that what was acknowledged is there, nothing is half there, and all is well after the next write."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    image.write(place)
    said = [text for at, text in trace.said if at <= moment]
    if "audit" not in trace.before.folders:
        assert THEIRS in (place / ".gitattributes").read_text(), "the user's own lines are gone"
        if "begun" not in said:
            init(place)  # whoever got no answer asks again
    if any(blob.endswith(TORN) for blob in trace.before.blobs.values()):
        kept = [*place.glob("audit/*/*/*.jsonl"), *place.glob(".cyberos/lost+found/*")]
        assert any(file.read_bytes().endswith(TORN) for file in kept), "what a crash tore is gone"
    check(place, is_settled=False, unlogged=UNLOGGED)
    log(Writer(place), episode("the next write"))
    found = check(place, heads=1, unlogged=UNLOGGED)
    coming = {text.split()[0] for at, text in trace.said if at > moment and text.endswith(" forgotten")}
    begun = {path for path in coming & set(found.memories) if found.memories[path].is_forgotten}
    if crashes.HAND[0] not in found.memories:
        (place / crashes.HAND[0]).unlink(missing_ok=True)
    crashes.assert_said(place, [text for text in said if text != "begun" and text.split()[0] not in begun])
    findings = [one for one in examine(place).findings if one.severity == "error"]
    assert findings == [], findings


def is_bad(trace: Trace, moment: int, image, place: Path) -> str | None:
    try:
        judge(trace, moment, image, place)
    except Exception as error:  # noqa: BLE001 - whatever the vault raises is what the user would get
        return f"{type(error).__name__}: {error}"
    return None


@promise("a power cut at any call, any unsynced write or name lost or torn: nothing acknowledged is lost or half there")
def cuts(scale: float) -> tuple[str, bool]:
    chosen, bad, total = random.Random(8), [], 0
    with mock.patch.object(commit, "_MAX_WAITING", crashes.SMALL_STAGE), folder() as place:
        for name in WORKS:
            trace = record(name, place / name)
            moments = chosen.sample(range(len(trace.ops) + 1), len(trace.ops) + 1)
            wanted = share(STATES // len(WORKS), scale)
            for _, (moment, image) in zip(range(wanted), states(trace, moments, chosen, 12), strict=False):
                total += 1
                if (what := is_bad(trace, moment, image, place / "cut")) is not None:
                    bad.append(f"{name}, after call {moment}: {what}")
    return f"{total:,} states of {len(WORKS)} traces: {len(bad)} bad" + "".join(f"; {one}" for one in bad[:3]), not bad


@promise("each sync is needed: without it a power cut loses something")
def syncs(scale: float) -> tuple[str, bool]:
    needed: dict[str, str] = {}
    sites: set[str] = set()
    with mock.patch.object(commit, "_MAX_WAITING", crashes.SMALL_STAGE), folder() as place:
        for name in WORKS:
            trace = record(name, place / name)
            mine = {op.site for op in trace.ops if op.site}
            sites |= mine
            for site in sorted(mine - set(needed)):
                what = first_bad(trace, site, place / "cut", draws=4 if scale >= 1 else 0)
                if what is not None:
                    needed[site] = what
    idle = sorted(sites - set(needed))
    figure = f"{len(needed)} of {len(sites)} places that sync are caught when left out"
    return figure + "".join(f"; not caught: {site}" for site in idle), not idle


def first_bad(trace: Trace, site: str, place: Path, draws: int) -> str | None:
    """Look for a state that is bad only because the syncs asked for at `site` were left out."""
    acknowledged = sorted({at for at, _ in trace.said})
    others = [moment for moment in range(len(trace.ops) + 1) if moment not in acknowledged]
    for depth in (-1, draws):  # most show at an extreme already
        for moment, image in states(trace, acknowledged + others, random.Random(9), depth, site):
            if (what := is_bad(trace, moment, image, place)) is not None:
                return what
    return None
