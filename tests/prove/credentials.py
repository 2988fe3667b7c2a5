"""Credentials: each known kind in each disguise on each way of writing, refused or redacted; none kept, shown or traced.

The credentials are made at run time (tests/core/test_secrets.py), so this repository holds none.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import tempfile
import unicodedata
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from unittest import mock

from core.test_secrets import FORMS, made
from cyberos.cli import main as command_line
from cyberos.cli import serving
from cyberos.core.errors import CyberosError
from cyberos.core.secrets import KINDS, scan
from cyberos.core.text import ANSI
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from prove.table import Skipped, folder, promise
from prove.tools import DATA
from support import Repo, episode, fact, rows, write_raw

GOOD, TEXT = fact("we deploy on Tuesdays")
LONG = 9  # characters of a credential that nothing may show together
PLAIN = {"task": "t", "approach": "a", "outcome": "failure", "error": "e", "duration_ms": 1}


def bare(text: str) -> str:
    """Give a text as somebody could piece it together: nothing invisible, no blanks, no escapes of JSON."""
    text = re.sub(r"\\[nrt]|\\u[0-9a-f]{4}", "", ANSI.sub("", text))
    shown = (char for char in text if unicodedata.category(char)[0] not in "CZ" and not "\ufe00" <= char <= "\ufe0f")
    return unicodedata.normalize("NFKC", "".join(shown)).replace("\\", "")


class Leaks:
    """What is told and what is left on disk, searched for a credential."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.searched: set[tuple] = set()
        self.root = init(top / "vault").root
        writer = Writer(self.root, durability="none")
        writer.put(GOOD, TEXT)

    def run(self, *arguments: str) -> tuple[int, str]:
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = command_line.main(["--store", str(self.root), *arguments])
        return code, said.getvalue()

    def shows(self, said: str, credential: str) -> str:
        """Name where a long part of a credential is seen; empty for nowhere."""
        value = bare(credential)
        value = value.partition("-----\n")[2] or value
        parts = {value[place : place + LONG] for place in range(len(value) // 3, len(value) - LONG, 3)} or {value}
        if any(part in bare(said) for part in parts):
            return "what was said"
        for file in self.top.rglob("*"):
            if not file.is_file() or file.name == "source":
                continue
            status = file.stat()
            key = (str(file), status.st_mtime_ns, status.st_size, status.st_ino)
            if key in self.searched:  # it is older than the credential
                continue
            self.searched.add(key)
            if any(part in bare(file.read_bytes().decode("utf-8", "replace")) for part in parts):
                return str(file.relative_to(self.top))
        return ""


# --- the ways of writing; each gives what was said, and whether it was refused or redacted -----------------------------


def _flags(**fields: str) -> list[str]:
    values = PLAIN | {"duration_ms": "1"} | fields
    return [part for name, value in values.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def log_flags(leaks: Leaks, text: str, place: int):
    field = ("task", "approach", "error", "notes", "lesson", "scope", "tag", "actor", "evidence_ref")[place % 9]
    code, said = leaks.run("episode", "log", *_flags(**{field: text}))
    return said, code == 1


def log_json(leaks: Leaks, text: str, place: int):
    source = leaks.top / "source"
    source.write_text(json.dumps(PLAIN | {"notes": text, "tags": [text]}) + "\n")
    code, said = leaks.run("episode", "log", "--from-json", str(source), *(["--skip-bad"] * (place % 2)))
    return said, code == 1 or "skipped 1 bad row" in said


def put(leaks: Leaks, text: str, place: int):
    source = leaks.top / "source"
    source.write_bytes(f"{TEXT}\n{text}\n".encode("utf-8", "surrogatepass"))
    code, said = leaks.run("put", fact("another")[0], str(source))
    return said, code == 1


def adopt(leaks: Leaks, text: str, place: int):
    path = fact("by hand")[0]
    write_raw(leaks.root / path, f"{TEXT}\n{text}\n")
    code, said = leaks.run("adopt", path)
    code_of_doctor, told = leaks.run("doctor", "--format", ("text", "json", "github", "sarif", "junit")[place % 5])
    (leaks.root / path).unlink()
    return said + told, code == code_of_doctor == 1


def reasons(leaks: Leaks, text: str, place: int):
    verb = (("quarantine", GOOD), ("forget", GOOD), ("audit", "ack-gap"))[place % 3]
    code, said = leaks.run(*verb, "--reason", text)
    return said, code == 1


def mcp(leaks: Leaks, text: str, place: int):
    tool = serving.tools(str(leaks.root))["log_episode"]
    wrong = ({"notes": text}, {"notes": [text]}, {"outcome": text}, {"task": {"a": text}})[place % 4]
    given = tool.call(PLAIN | wrong, lambda done, total: None)
    return str(given), not isinstance(given, dict)


def wrong_value(leaks: Leaks, text: str, place: int):
    """It stands where no text may, so another rule speaks first."""
    source = leaks.top / "source"
    wrong = ({"outcome": text}, {"duration_ms": text}, {text: 1}, {"tags": {"a": text}}, {"evidence": text})[place % 5]
    source.write_text(json.dumps(PLAIN | wrong) + "\n")
    code, said = leaks.run("episode", "log", "--from-json", str(source))
    also, more = leaks.run("episode", "log", *_flags(outcome=text))
    return said + more, code == 1 and also in {1, 2}


def run(leaks: Leaks, text: str, place: int):
    code, said = leaks.run("run", "--task", "t", "--", "sh", "-c", "exit 3", text)
    return said, code in {1, 3}


def record(leaks: Leaks, text: str, place: int):
    source = leaks.top / "source"
    turns = [("user", f"log in with {text} please"), ("assistant", f"I used {text}"), ("user", "thanks")]
    source.write_text(json.dumps([{"role": role, "content": content} for role, content in turns]))
    code, said = leaks.run("episode", "record", str(source), "--format", "openai", "--no-llm")
    return said, code in {0, 1}


WAYS = (log_flags, log_json, put, adopt, reasons, mcp, wrong_value, run, record)
NO_ARGUMENT = "\0"


@promise("no known credential, in any disguise, is kept or shown by any way of writing")
def ways(scale: float) -> tuple[str, bool]:
    rng, done, missed = random.Random(11), 0, []
    with (
        folder() as top,
        mock.patch.dict(os.environ, TMPDIR=str(top)),
        mock.patch.object(tempfile, "tempdir", str(top)),
    ):
        leaks = Leaks(top)
        for number, kind in enumerate(KINDS):
            before, credential, after = made(kind, 1)[0]
            for place, (form, disguise) in enumerate(FORMS.items()):
                if scale < 1 and (number + place) % len(FORMS):
                    continue
                text = f"{before}{disguise(rng, credential)}{after}"
                assert scan(text), (kind, form)
                for way in WAYS:
                    said, is_stopped = way(leaks, text, done)
                    done += 1
                    if not is_stopped:
                        missed.append(f"{kind}, {form}: {way.__name__} took it: {said[:200]!r}")
                    elif where := leaks.shows(said, credential):
                        missed.append(f"{kind}, {form}: {way.__name__} left it in {where}")
    for one in missed:
        print(f"    {one!a}")
    return (
        f"{len(KINDS)} kinds, {len(FORMS)} forms, {len(WAYS)} ways: {done:,} tries, {len(missed)} came through",
        not missed,
    )


@promise("a credential that comes up in a crash is in no trace; staged text is judged; an allowed one leaves a row")
def around(scale: float) -> tuple[str, bool]:
    _, token, _ = made("github-token", 1)[0]
    with folder() as top, mock.patch.object(tempfile, "tempdir", str(top)):
        leaks = Leaks(top)
        with mock.patch.object(Writer, "put", side_effect=RuntimeError(token)):
            code, said = leaks.run("episode", "log", *_flags(notes="n"))
        assert (code, len(list(top.glob("cyberos-*.txt")))) == (3, 1)
        assert not leaks.shows(said, token)
        code, said = leaks.run("episode", "log", *_flags(notes=token), "--allow-secret", "github-token")
        assert code == 0
        assert rows(leaks.root)[-1]["kind"] == "secret.allowed"
        assert not leaks.shows(json.dumps(rows(leaks.root)), token) or token not in json.dumps(rows(leaks.root))
        repo = Repo.begin(top / "repo")
        path = fact("staged")[0]
        write_raw(repo.root / path, f"{TEXT}\n{token}\n")
        repo.git("add", "-A")
        (repo.root / path).write_text(TEXT)
        leaks.root = repo.root
        code, said = leaks.run("doctor", "--staged")
        assert code == 1
        assert "secret-in-memory" in said
        assert token[8:20] not in said
    return "crash, doctor --staged, --allow-secret", True


@promise("none of 11,653 real episodes is refused for a credential")
def clean(scale: float) -> tuple[str, bool]:
    if not DATA:
        raise Skipped("CYBEROS_BENCH_DATA names no folder with real episodes")
    count, refused = 0, []
    for file in sorted(Path(DATA).glob("*.episodes.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines()[:: 1 if scale == 1 else 10]:
            count += 1
            values = json.loads(line)
            texts = [
                text
                for value in values.values()
                for text in (value if isinstance(value, list) else [value])
                if isinstance(text, str)
            ]
            refused += [(file.name, found) for text in texts for found in scan(text)]
            with suppress(CyberosError):
                refused += [("document", found) for found in scan(episode(**values).render())]
    return f"{count:,} episodes, {len(refused)} refused {refused[:2] or ''}", not refused
