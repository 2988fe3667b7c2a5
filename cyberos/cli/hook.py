"""`cyberos hook EVENT`: what an agent's hooks call. It fails open: whatever happens, exit code 0 within a second.

    echo '{"session_id": "s", "prompt": "fix the flaky login test"}' | cyberos hook prompt --agent claude-code

Source: DESIGN section 9.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from cyberos.agents import hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cyberos.core.files import Files

_BEGUN = time.monotonic()
_INPUT = 16 << 20
_LOOKED_AT = 200  # of the newest episodes, for those that did not succeed
Answer = TypeVar("Answer")
USAGE = f"usage: cyberos hook {'|'.join(hooks.EVENTS)} [--agent NAME], with the hook's JSON on stdin"


def run(store: str | None, arguments: Sequence[str]) -> int:
    """Answer one hook: JSON on stdout, or nothing. Always gives 0."""
    event, agent = _read_arguments(arguments)
    if event is None:
        print(USAGE, file=sys.stderr)
        return 0
    given = _read_input()
    vault = _attempt(lambda: Vault(_root(store, given)))
    if vault is not None:
        _answer(vault, event, agent, given)
    sys.stderr.flush()
    os._exit(0)  # the thread may still be at work, and nobody waits for it


def _answer(vault: Vault, event: str, agent: str, given: dict[str, Any]) -> None:
    """Print the answer, if there is one in time."""
    said: list[dict[str, Any] | None] = []

    def work() -> None:
        said.append(_attempt(lambda: hooks.answer(event, agent, given, vault)))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(vault.wait_s - (time.monotonic() - _BEGUN))
    if not said:
        vault.index_later()
    elif said[0] is not None:
        sys.stdout.write(json.dumps(said[0]) + "\n")
        sys.stdout.flush()


def _read_arguments(arguments: Sequence[str]) -> tuple[str | None, str]:
    words = [word for word in arguments if not word.startswith("--agent=")]
    named = [word.removeprefix("--agent=") for word in arguments if word.startswith("--agent=")]
    if "--agent" in words[:-1]:
        at = words.index("--agent")
        named.append(words[at + 1])
        del words[at : at + 2]
    return (words[0] if words and words[0] in hooks.EVENTS else None), (named or ["claude-code"])[-1]


def _read_input() -> dict[str, Any]:
    if sys.stdin is None or sys.stdin.isatty():
        return {}
    try:
        given = json.loads(sys.stdin.buffer.read(_INPUT))
    except (ValueError, RecursionError, OSError):
        return {}
    return given if isinstance(given, dict) else {}


def _root(store: str | None, given: dict[str, Any]) -> Path:
    from cyberos.core import discovery

    start = given.get("cwd")
    return discovery.discover(start if isinstance(start, str) and os.path.isdir(start) else None, store)


def _attempt(work: Callable[[], Answer]) -> Answer | None:
    from cyberos.cli.main import attempt

    return attempt(work, _complain)


def _complain(lines: list[str]) -> None:
    print("\n".join(lines), file=sys.stderr)


class Vault:
    """The vault as the hooks see it."""

    def __init__(self, root: Path) -> None:
        from cyberos.core import settings
        from cyberos.core.files import Files

        self.files: Files = Files(root)
        values = settings.load(root)
        self.wait_s = float(values["hook_wait"].value)
        self._has_embedder = values["embedder"].value != "none"
        self._root = root

    def failed(self, most: int) -> str:
        """Give the newest episodes that did not succeed, for a model to read."""
        from cyberos.core import layout
        from cyberos.core.prompt import prompt
        from cyberos.index import bodies
        from cyberos.index.entry import READY
        from cyberos.index.sync import sync

        matches: list[dict[str, Any]] = []
        with sync(self._root, ()) as index:
            for entry in index.catalog.newest(layout.EPISODE, _LOOKED_AT):
                if entry.state != READY or entry.label in ("success", "claimed_success") or len(matches) == most:
                    continue
                body = bodies.find(index.files, entry.path, entry.digests)
                if body is not None:
                    values = body.parsed.frontmatter
                    known = {"path": entry.path, "label": entry.label, "actor": entry.actor}
                    times = {"last_seen_at": entry.last_seen_at, "history": index.catalog.history(values["task"])}
                    matches.append({"evidence": "none"} | values | known | times)
        return prompt(matches)

    def similar(self, task: str, most: int) -> str:
        """Give episodes like a task, for a model to read; by words on FTS5, which is there sooner than Whoosh."""
        from cyberos.cli import recall
        from cyberos.core import backends, semantic
        from cyberos.core.prompt import prompt

        backend = backends.AUTO if self._has_embedder and semantic.available() else "fts5"
        asked = SimpleNamespace(task=task, k=most, form="prompt", backend=backend)
        return prompt(recall.run(self._root, asked)["matches"])

    def newest_us(self) -> int:
        """Give when the newest episode was logged, in microseconds since 1970."""
        from cyberos.core import layout
        from cyberos.index.bodies import moment_of
        from cyberos.index.sync import sync

        with sync(self._root, ()) as index:
            found = index.catalog.newest(layout.EPISODE, 1)
        return moment_of(found[0].last_seen_at) or 0 if found else 0

    def index_later(self) -> None:
        """Let a process of its own bring the index up to date, so that the next hook need not wait for it."""
        _start(str(self._root), "index")

    def record(self, transcript: str, session: str) -> None:
        """Start to record what of a transcript was not recorded yet."""
        from cyberos.agents import sessions

        if not os.path.isfile(transcript):
            return
        known = sessions.begin(self.files, session)
        size = os.path.getsize(transcript)
        if size <= known.recorded or not sessions.save(self.files, session, known._replace(recorded=size)):
            return
        _start(str(self._root), "episode", "record", transcript, "--no-llm", "--skip-bytes", str(known.recorded))


def _start(store: str, *arguments: str) -> None:
    nothing = subprocess.DEVNULL
    apart: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.DETACHED_PROCESS}
    command = [sys.executable, "-m", "cyberos", "--store", store, *arguments]
    try:
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, **apart)
    except OSError:
        return
