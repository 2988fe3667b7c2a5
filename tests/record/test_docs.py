"""The examples of docs/recording.md are what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cyberos.core.labels import label
from cyberos.record import evidence
from cyberos.record.transcript import Command, Edit, Stop, Turn

PAGE = Path(__file__).parents[2] / "docs" / "recording.md"
EXAMPLES = [
    block for block in re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL) if "=>" in block
]


def step(text: str):
    if text.startswith("$ "):
        command, _, code = text[2:].rpartition(" -> exit ")
        return Command(command, exit_code=int(code), state="done")
    kind, _, rest = text.partition(" ")
    if kind == "edit":
        return Edit(rest)
    if kind == "stop:":
        return Stop(rest, rest)
    return Turn({"user:": "user", "agent:": "assistant"}[kind], rest)


def test_there_is_an_example_of_each_rule():
    assert len(EXAMPLES) >= 9


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example(example):
    *lines, verdict = example.strip().splitlines()
    found = evidence.weigh([step(line) for line in lines])
    values = {"outcome": found.outcome, "evidence": found.evidence, "ended": found.ended}
    assert verdict == f"=> {label(values)}, {found.outcome}, {found.evidence}"
