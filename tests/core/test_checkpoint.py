from __future__ import annotations

import base64
from hashlib import sha256

import pytest

from cyberos.core import ledger
from cyberos.core.checkpoint import Checkpoint, broken, checkpoint_of, format_checkpoint, format_note, parse_note
from cyberos.core.episode import log
from cyberos.core.errors import InvalidCheckpoint
from cyberos.core.writer import Writer
from support import episode

VAULT, ONE, TWO = "3f9c1d2e4b5a6978", "1" * 64, "2" * 64
TAKEN = Checkpoint(VAULT, 41, (ONE, TWO))
TEXT = (
    "cyberos.vault/3f9c1d2e4b5a6978\n"
    "41\n"
    "U2vcGUDnQOZ9AVoT2Tz9idWKZhNGL+UY6qbYp2cAxjk=\n"
    f"head {ONE}\n"
    f"head {TWO}\n"
)  # fmt: skip
SIGNATURE = b"SSHSIG\x00 and more"


def test_the_bytes():
    root = base64.b64encode(sha256(f"head {ONE}\nhead {TWO}\n".encode()).digest()).decode()
    assert format_checkpoint(TAKEN) == TEXT.replace("U2vcGUDnQOZ9AVoT2Tz9idWKZhNGL+UY6qbYp2cAxjk=", root)


def test_a_note_has_the_form_of_c2sp():
    text, blank, line = format_note(TAKEN, SIGNATURE).partition("\n\n")
    assert (text + "\n", blank) == (format_checkpoint(TAKEN), "\n\n")
    dash, name, value = line.removesuffix("\n").split(" ")
    assert (dash, name) == ("\u2014", f"cyberos.vault/{VAULT}")
    key = sha256(name.encode() + b"\n\xffSSHSIG cyberos-checkpoint").digest()[:4]
    assert base64.b64decode(value) == key + SIGNATURE


def test_reading_is_the_inverse_of_writing():
    assert parse_note(format_checkpoint(TAKEN)).checkpoint == TAKEN
    note = parse_note(format_note(TAKEN, SIGNATURE))
    assert (note.checkpoint, note.text, note.signatures) == (TAKEN, format_checkpoint(TAKEN), (SIGNATURE,))


def test_signatures_of_others_are_passed_over():
    other = "\u2014 witness.example " + base64.b64encode(b"abcd" + b"x" * 64).decode()
    assert parse_note(format_note(TAKEN, SIGNATURE) + other + "\n").signatures == (SIGNATURE,)


GOOD = format_note(TAKEN, SIGNATURE)
BAD = {
    "nothing": "",
    "no heads' line end": format_checkpoint(TAKEN)[:-1],
    "another size spelled oddly": GOOD.replace("\n41\n", "\n041\n"),
    "a negative size": GOOD.replace("\n41\n", "\n-1\n"),
    "a head taken out": GOOD.replace(f"head {TWO}\n", ""),
    "heads in another order": format_checkpoint(Checkpoint(VAULT, 41, (TWO, ONE))),
    "a head twice": format_checkpoint(Checkpoint(VAULT, 41, (ONE, ONE))),
    "another root": GOOD.replace("=\nhead", "A=\nhead", 1),
    "CRLF": GOOD.replace("\n", "\r\n"),
    "no such origin": GOOD.replace("cyberos.vault/", "example.org/"),
    "a tail that is no signature": GOOD + "x\n",
    "signatures cut off": GOOD.partition("\n\n")[0] + "\n\n",
    "a signature without its line end": GOOD[:-1],
    "a signature that is no base64": GOOD[:-2] + "\n",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_no_other_text_is_one(text):
    with pytest.raises(InvalidCheckpoint):
        parse_note(text)


def test_a_ledger_extends_itself_and_what_it_was(root):
    writer = Writer(root)
    taken = []
    for number in range(3):
        log(writer, episode(f"task {number}"))
        taken.append(checkpoint_of(ledger.scan(root)))
    assert [one.rows for one in taken] == [3, 5, 7]
    assert [broken(one, ledger.scan(root)) for one in taken] == [""] * 3


def test_both_sides_of_a_merge_extend_what_was_before(repo):
    before = checkpoint_of(ledger.scan(repo.root))
    repo.branch("side")
    repo.log("side")
    repo.commit()
    side = checkpoint_of(ledger.scan(repo.root))
    repo.switch("main")
    repo.log("main")
    repo.commit()
    main = checkpoint_of(ledger.scan(repo.root))
    assert "heads are gone" in broken(side, ledger.scan(repo.root))
    repo.git("merge", "-q", "side")
    merged = checkpoint_of(ledger.scan(repo.root))
    assert len(merged.heads) == 2
    repo.log("after")
    assert [broken(one, ledger.scan(repo.root)) for one in (before, side, main, merged)] == [""] * 4


def test_every_row_that_is_taken_out_is_missed(root):
    writer = Writer(root)
    for number in range(4):
        log(writer, episode(f"task {number}"))
    taken = checkpoint_of(ledger.scan(root))
    log(writer, episode("one more"))
    whole = [
        (file, number)
        for file in root.glob("audit/*/*/*.jsonl")
        for number in range(len(file.read_bytes().splitlines()))
    ]
    missed = 0
    for file, number in whole:
        blob = file.read_bytes()
        lines = blob.splitlines(keepends=True)
        file.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
        missed += broken(taken, ledger.scan(root)) != ""
        file.write_bytes(blob)
    # the newest two came after it, so it says nothing of them
    assert missed == len(whole) - 2


def test_another_vault_is_another(root):
    assert "it is one of vault 0000000000000000" in broken(Checkpoint("0" * 16, 0, ()), ledger.scan(root))
