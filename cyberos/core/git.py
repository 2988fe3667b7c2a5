"""Questions put to the git program, as plumbing: no hook, no fsmonitor, no external diff, no transport, no prompt.

Nothing on the write path comes here: see `gitdir` for what is read from git's own files.

Source: git(1); DESIGN section 5.
"""

from __future__ import annotations

import os

_OFF = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.quotePath=false", "diff.external=")
QUIET = (*(word for setting in _OFF for word in ("-c", setting)), "--no-pager", "--no-optional-locks")
# a partial clone fetches what it lacks, by whatever program its configuration names
OFFLINE = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}


def run(root: str | os.PathLike[str], *arguments: str) -> bytes | None:
    """Give git's output, or None when it says no or is not there."""
    import subprocess

    environment = {key: value for key, value in os.environ.items() if key not in ("GIT_EXTERNAL_DIFF", "GIT_PAGER")}
    try:
        done = subprocess.run(
            ["git", *QUIET, "-C", os.fspath(root), *arguments],
            capture_output=True,
            check=False,
            env=environment | OFFLINE,
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def text(root: str | os.PathLike[str], *arguments: str) -> str | None:
    """Give git's output as text without its last line end, or None."""
    output = run(root, *arguments)
    return None if output is None else output.decode("utf-8", "surrogateescape").strip("\n")


def first_commit(root: str | os.PathLike[str]) -> str | None:
    """Give the root of HEAD's first-parent chain; None outside git, on an unborn branch, and in a shallow clone."""
    if text(root, "rev-parse", "--is-shallow-repository") != "false":
        return None
    chain = text(root, "rev-list", "--first-parent", "--max-parents=0", "HEAD")
    return chain.splitlines()[-1] if chain else None


def is_ignored(root: str | os.PathLike[str], path: str) -> bool:
    """Report whether git would leave this path out."""
    return run(root, "check-ignore", "-q", "--no-index", path) is not None


def vault_elsewhere(start: str | os.PathLike[str]) -> str | None:
    """Say in words where git has a vault that the folder does not show: its index, or another branch."""
    top = text(start, "rev-parse", "--show-toplevel")
    if top is None:
        return None
    if text(top, "ls-files", "--", "audit/*.jsonl", "*/audit/*.jsonl"):
        return "git's index holds one whose files are gone"
    for branch in (text(top, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes") or "").split():
        if text(top, "ls-tree", "-d", branch, "audit") and text(top, "ls-tree", "-d", branch, "memories"):
            return f"the branch {branch} holds one"
    return None
