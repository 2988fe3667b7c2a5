"""Episodes with probes, and further kinds of probes made of them.

A folder holds <set>.episodes.jsonl (an episode's fields plus `tags: [id]`) and <set>.probes.jsonl
(`{query, relevant: [ids], kind}`). The kinds below are made of these by fixed seeds; relevant to a made probe is
what was relevant to the probe that it was made of, or has the very task.

    typos      a letter in every fourth long word is dropped, doubled or swapped      Exit the shel immediately
    keywords   four content words in their order                                      exit shell error encountered
    truncated  the first six tenths of the words                                      Exit the shell immediately
    noisy      between sentences that say nothing of the task                         Hi, picking this up … Exit …
    question   asked instead of told                                                  How did we exit the shell … ?
    one_slot   the task less its stop words, where another differs in one word        Print top 10 lines file1.txt
    part       the second half of the approach and notes: commands, names, errors     | sort -u
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.index.fulltext import Document
from cyberos.index.tokens import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

MADE = 150  # probes of a kind, at most
LONG_WORD = 4

_BEFORE = "Hi, picking this up from yesterday. I need you to do the following and tell me when it is finished:"
_AFTER = "Please be careful, keep the change small, run the checks before you say that it is done, and ask when unsure."
_TICKET = "You are working in my repository. Read the instructions first, then begin. The ticket says:"
_THANKS = "Write down what you did in a short summary. Thanks a lot, this has been on my list for weeks."
NOISE = ((_BEFORE, _AFTER), (_TICKET, _THANKS))
QUESTIONS = ("How did we {} last time?", "How do I {}?", "Have we ever tried to {}?")


class Probe(NamedTuple):
    query: str
    relevant: frozenset[str]
    kind: str


class Data(NamedTuple):
    name: str
    rows: list[dict[str, Any]]
    documents: list[Document]
    probes: list[Probe]


def document(row: dict[str, Any]) -> Document:
    lines = [f"Task: {row['task']}", f"Approach: {row['approach']}", f"Outcome: {row['outcome']}"]
    lines.append(f"Notes: {row.get('notes') or ''}")
    if row.get("lesson"):
        lines.append(f"Lesson: {row['lesson']}")
    return Document(row["tags"][0], "episode", "default", "\n".join(lines))


def load(folder: Path, name: str) -> Data:
    rows, probes = (
        [json.loads(line) for line in (folder / f"{name}.{what}.jsonl").read_text(encoding="utf-8").splitlines()]
        for what in ("episodes", "probes")
    )
    probes = [Probe(row["query"], frozenset(row["relevant"]), row["kind"]) for row in probes]
    return Data(name, rows, [document(row) for row in rows], probes)


def names(folder: Path) -> list[str]:
    return sorted(file.name.removesuffix(".probes.jsonl") for file in folder.glob("*.probes.jsonl"))


def recall_at_3(found: Sequence[str], relevant: frozenset[str]) -> float:
    return len(relevant.intersection(found[:3])) / min(3, len(relevant))


def reciprocal_rank(found: Sequence[str], relevant: frozenset[str]) -> float:
    return next((1 / rank for rank, path in enumerate(found[:12], 1) if path in relevant), 0.0)


def made(data: Data) -> list[Probe]:
    """Make probes of every further kind, at most MADE of each, the same ones every time."""
    chance = random.Random(data.name)
    tasks = _by_task(data)
    told = [*data.probes, *(Probe(row["task"], tasks[_key(row)], "") for row in chance.sample(data.rows, MADE))]
    found = []
    for kind, change in CHANGES.items():
        changed = [
            Probe(query, probe.relevant, kind)
            for probe in told
            if (query := change(probe.query, chance)) != probe.query
        ]
        found += chance.sample(changed, min(MADE, len(changed)))
    for kind, probes in (("one_slot", list(_one_slot(tasks))), ("part", list(_parts(data, tasks)))):
        found += [probe._replace(kind=kind) for probe in chance.sample(probes, min(MADE, len(probes)))]
    return found


def _key(row: dict[str, Any]) -> str:
    return " ".join(row["task"].casefold().split())


def _by_task(data: Data) -> dict[str, frozenset[str]]:
    found = defaultdict(set)
    for row in data.rows:
        found[_key(row)].add(row["tags"][0])
    return {task: frozenset(ids) for task, ids in found.items()}


def _typos(text: str, chance: random.Random) -> str:
    words = text.split()
    for number, word in enumerate(words):
        if len(word) > LONG_WORD and word.isalpha() and chance.random() < 0.25:
            at = chance.randrange(1, len(word) - 1)
            swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
            words[number] = chance.choice(
                (word[:at] + word[at + 1 :], word[:at] + word[at : at + 1] + word[at:], swapped)
            )
    return " ".join(words)


def _keywords(text: str, chance: random.Random) -> str:
    words = [word.strip(".,:;?!\"'()") for word in text.split() if word.casefold() not in STOP_WORDS]
    kept = sorted(chance.sample(range(len(words)), min(4, len(words))))
    return " ".join(words[number] for number in kept)


def _truncated(text: str, chance: random.Random) -> str:  # noqa: ARG001
    words = text.split()
    return " ".join(words[: max(3, round(0.6 * len(words)))])


def _noisy(text: str, chance: random.Random) -> str:
    before, after = chance.choice(NOISE)
    return f"{before} {text} {after}"


def _question(text: str, chance: random.Random) -> str:
    return chance.choice(QUESTIONS).format((text[:1].lower() + text[1:]).rstrip(".?! "))


CHANGES: dict[str, Callable[[str, random.Random], str]] = {
    "typos": _typos,
    "keywords": _keywords,
    "truncated": _truncated,
    "noisy": _noisy,
    "question": _question,
}


def _one_slot(tasks: dict[str, frozenset[str]]) -> Iterator[Probe]:
    """Give the tasks that are like another but for one word."""
    gaps = defaultdict(set)
    for task in tasks:
        words = task.split()
        for number in range(len(words)):
            gaps[(*words[:number], "", *words[number + 1 :])].add(task)
    twins = sorted(set().union(*(found for found in gaps.values() if len(found) > 1)))
    for task in twins:
        short = " ".join(word for word in task.split() if word not in STOP_WORDS)
        if short != task:
            yield Probe(short, tasks[task], "")


def _parts(data: Data, tasks: dict[str, frozenset[str]]) -> Iterator[Probe]:
    for row in data.rows:
        words = f"{row['approach']} {row.get('notes') or ''}".split()
        if len(words) > 2 * LONG_WORD:
            half = " ".join(words[len(words) // 2 :][:40])
            yield Probe(half, tasks[_key(row)], "")
