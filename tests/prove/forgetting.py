"""After `forget` a memory's text is nowhere under the vault, the ledger verifies, and git accepts it.

The line that `cyberos forget` prints for git's history is run for real where git-filter-repo is (`make prove-tools`).
"""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
from contextlib import redirect_stderr, redirect_stdout

from cyberos.agents import hooks
from cyberos.cli import main as command_line
from cyberos.cli.hook import Vault
from cyberos.core.episode import log
from cyberos.core.writer import Writer
from cyberos.doctor.examination import examine
from prove.table import folder, promise
from prove.tools import program
from support import Repo, check, episode, fact, git

WORD = "zyzzogeton"  # stands in every text of the memories that are forgotten, and nowhere else


def run(repo: Repo, *arguments: str) -> str:
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(io.StringIO()):
        assert command_line.main(["--store", str(repo.root), *arguments]) == 0, said.getvalue()
    return said.getvalue()


def left(repo: Repo) -> list[str]:
    """Name the files outside .git that hold the word in any spelling an index may give it."""
    forms = {WORD, WORD[::-1], WORD.upper(), WORD[:8]}
    spelled = {form.encode(code) for form in forms for code in ("utf-8", "utf-16-le", "utf-32-le")}
    found = []
    for file in repo.root.rglob("*"):
        if file.is_file() and ".git" not in file.relative_to(repo.root).parts:
            blob = file.read_bytes().lower()
            found += [file.relative_to(repo.root).as_posix()] * any(form.lower() in blob for form in spelled)
    return found


def remembered(repo: Repo) -> list[str]:
    """Put the word wherever cyberos lets a memory come to; give the paths of the memories."""
    writer = Writer(repo.root)
    for number in range(8):
        log(writer, episode(f"an honest task {number}", notes="kept"))
    text = f"the {WORD} project"
    one = episode(
        text,
        approach=text,
        notes=text,
        lesson=text,
        outcome="failure",
        error=text,
        tags=[WORD],
        evidence="user",
        evidence_ref=text,
    )
    paths = [log(writer, one).as_posix(), log(writer, episode(f"again {text}")).as_posix()]
    path, body = fact(text, "a-fact")
    writer.put(path, body)
    writer.put(
        path, body.replace("project", "undertaking")
    )  # the older text waits in lost+found or the stage, if anywhere
    for backend in ("fts5", "whoosh"):
        assert paths[0] in run(repo, "recall-similar", text, "--backend", backend, "--min-relevance", "0.01", "--json")
    run(repo, "recall", text)
    for event in ("session-start", "prompt"):
        hooks.answer(event, "claude-code", {"session_id": WORD, "prompt": text}, Vault(repo.root))
    return [*paths, path]


@promise("what was forgotten is nowhere under the vault, the ledger verifies, and git as anchor accepts it")
def forgotten(scale: float) -> tuple[str, bool]:
    with folder() as top:
        repo = Repo.begin(top / "repo")
        paths = remembered(repo)
        repo.commit()
        assert left(repo), "the word was there"
        for path in paths:
            run(repo, "forget", path, "--reason", "it names a customer")
        found = left(repo)
        assert run(repo, "audit", "verify")
        check(repo.root)
        errors = [
            one.rule for one in examine(repo.root, anchor="auto", is_full=True).findings if one.severity == "error"
        ]
        repo.commit()
        errors += [
            one.rule for one in examine(repo.root, anchor="auto", is_full=True).findings if one.severity == "error"
        ]
        for backend in ("fts5", "whoosh"):
            assert WORD not in run(repo, "recall-similar", WORD, "--backend", backend, "--min-relevance", "0.01")
        found += left(repo)
    return (
        f"{len(paths)} memories: {len(found)} files hold the text {found or ''}, {len(errors)} errors {errors or ''}",
        not (found or errors),
    )


@promise("the git-filter-repo line that forget prints leaves no blob of it")
def history(scale: float) -> tuple[str, bool]:
    tool = program("git-filter-repo")
    with folder() as top:
        repo = Repo.begin(top / "repo")
        paths = remembered(repo)
        repo.commit()
        repo.log("after")
        repo.commit()
        lines = [json.loads(run(repo, "forget", path, "--reason", "r", "--json"))["git_command"] for path in paths]
        repo.commit()
        assert WORD in blobs(repo)
        seen = os.environ | {"PATH": f"{os.path.dirname(tool)}:{os.environ['PATH']}"}
        for line in lines:
            words = shlex.split(line)
            done = subprocess.run(
                [*words, "--force"], cwd=repo.root, env=seen, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        kept = WORD in blobs(repo)
        assert git(repo.root, "log", "--oneline").count("\n") >= 2
        check(repo.root)
        errors = {
            one.rule for one in examine(repo.root, anchor="auto", is_full=True).findings if one.severity == "error"
        }
    return (
        f"{len(lines)} lines run, the text is {'still' if kept else 'not'} in a blob; doctor: {', '.join(errors) or 'no error'}",
        not (kept or errors),
    )


def blobs(repo: Repo) -> str:
    """Give all that git holds in its objects, reachable or not."""
    names = [
        line.split()[0]
        for line in git(repo.root, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
        if " blob " in line
    ]
    return "\n".join(git(repo.root, "cat-file", "blob", name) for name in names)
