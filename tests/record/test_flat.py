"""What is laid on one line, or cut to its end, is rid of credentials first."""

import random

import pytest

from core.test_secrets import FORMS, armour, made
from cyberos.core.secrets import scan
from cyberos.record.keeping import flat, last_lines, made_storable

_, TOKEN, _ = made("github-token", 1)[0]


@pytest.mark.parametrize("form", FORMS)
def test_a_split_credential_does_not_hide_behind_blanks(form):
    text = f"log in with {FORMS[form](random.Random(3), TOKEN)} please"
    assert flat(text) == "log in with [redacted:github-token] please"


def test_what_was_redacted_early_is_told_all_the_same():
    values, redacted = made_storable({"task": flat(f"use {TOKEN}"), "notes": "[redacted:no-such-kind]"})
    assert values["task"] == "use [redacted:github-token]"
    assert redacted == [("github-token", "task")]


def test_the_end_of_a_private_key_is_not_what_is_left_of_it():
    key = armour(random.Random(1))
    lines = key.split("\n")
    long = "\n".join([lines[0], *lines[1:-2] * 6, *lines[-2:]])
    shown = last_lines(f"it is\n{long}\ndone".encode())
    assert shown == "it is\n[redacted:private-key]\ndone"
    assert not scan(shown)
