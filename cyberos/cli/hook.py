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
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

from cyberos.agents import hooks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cyberos.core.files import Files

# seconds after which an agent goes on without an answer; what is left of one is the start and the end of Python
ENOUGH_S = 0.85
_LONGER = "CYBEROS_HOOK_SECONDS"  # in the environment: for a machine or a disk that is slow
_INPUT = 16 << 20
_LOOKED_AT = 200  # of the newest episodes, for those that did not succeed
_SETTINGS = 1 << 20
USAGE = f"usage: cyberos hook {'|'.join(hooks.EVENTS)} [--agent NAME] [--plugin], with the hook's JSON on stdin"


def run(store: str | None, arguments: Sequence[str]) -> int:
    """Answer one hook: JSON on stdout, or nothing. Always gives 0."""
    is_plugin = "--plugin" in arguments
    event, agent = _read_arguments([word for word in arguments if word != "--plugin"])
    if event is None:
        _complain([USAGE])
        return 0
    if is_plugin and _is_set_up(event):
        return 0
    said: list[dict[str, Any] | None] = []
    thread = threading.Thread(target=lambda: said.append(_attempt(store, event, agent)), daemon=True)
    thread.start()
    thread.join(_enough())
    if not said:
        _index_later(store)
    elif said[0] is not None:
        _print(sys.stdout, json.dumps(said[0]))
    os._exit(0)  # the thread may still be at work, and nobody waits for it


def _enough() -> float:
    try:
        return min(max(float(os.environ.get(_LONGER, ENOUGH_S)), 0.0), 60.0)
    except ValueError:
        return ENOUGH_S


def _print(stream: TextIO | None, text: str) -> None:
    """Print a line, unless the stream is closed or nobody reads it."""
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.write(f"{text}\n")
            stream.flush()


def _is_set_up(event: str) -> bool:
    """Report whether the repository has this hook in its own settings: then the plugin's would say it twice."""
    path = os.path.join(os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd(), ".claude", "settings.json")
    try:
        with open(path, "rb") as handle:
            return f" hook {event} --agent claude-code".encode() in handle.read(_SETTINGS)
    except OSError:
        return False


def _read_arguments(arguments: Sequence[str]) -> tuple[str | None, str]:
    words = [word for word in arguments if not word.startswith("--agent=")]
    named = [word.removeprefix("--agent=") for word in arguments if word.startswith("--agent=")]
    if "--agent" in words[:-1]:
        at = words.index("--agent")
        named.append(words[at + 1])
        del words[at : at + 2]
    return (words[0] if words and words[0] in hooks.EVENTS else None), (named or ["claude-code"])[-1]


def _read_input() -> dict[str, Any]:
    try:
        if sys.stdin is None or sys.stdin.isatty():
            return {}
        given = json.loads(sys.stdin.buffer.read(_INPUT))
    except (ValueError, RecursionError, OSError):
        return {}
    return given if isinstance(given, dict) else {}


def _attempt(store: str | None, event: str, agent: str) -> dict[str, Any] | None:
    from cyberos.cli.main import attempt

    def work() -> dict[str, Any] | None:
        from cyberos.core import discovery

        given = _read_input()
        start = given.get("cwd")
        place = start if isinstance(start, str) and os.path.isdir(start) else os.getcwd()
        named = _placed(store, place) if store is not None else None
        return hooks.answer(event, agent, given, Vault(discovery.discover(place, named)))

    return attempt(work, _complain)


def _placed(store: str, place: str) -> str:
    """Give where a vault is that is named from the top of a repository: an agent may have gone down into it."""
    folder = os.path.abspath(place)
    while not os.path.isdir(os.path.join(folder, store)):
        if folder == (folder := os.path.dirname(folder)):
            return store
    return os.path.join(folder, store)


def _complain(lines: list[str]) -> None:
    _print(sys.stderr, "\n".join(lines))


class Vault:
    """The vault as the hooks see it."""

    def __init__(self, root: Path) -> None:
        from cyberos.core.files import Files

        self.files: Files = Files(root)
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
        from cyberos.core import backends, semantic, settings
        from cyberos.core.prompt import prompt

        has_embedder = semantic.available() and settings.load(self._root)["embedder"].value != "none"
        asked = {"task": task, "k": most, "form": "prompt", "backend": backends.AUTO if has_embedder else "fts5"}
        return prompt(recall.run(self._root, SimpleNamespace(**asked))["matches"])

    def newest_us(self) -> int:
        """Give when the newest episode was logged, in microseconds since 1970."""
        from cyberos.core import layout
        from cyberos.index.bodies import moment_of
        from cyberos.index.sync import sync

        with sync(self._root, ()) as index:
            found = index.catalog.newest(layout.EPISODE, 1)
        return moment_of(found[0].last_seen_at) or 0 if found else 0

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


def _index_later(store: str | None) -> None:
    """Let the index be brought up to date by a process of its own, so that the next hook need not wait for it."""
    from cyberos.core import semantic

    _start(store, "index", *(() if semantic.available() else ("--backend", "fts5")))


def _start(store: str | None, *arguments: str) -> None:
    named = ["--store", store] if store is not None else []
    nothing = subprocess.DEVNULL
    apart: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.DETACHED_PROCESS}
    command = [sys.executable, "-m", "cyberos", *named, *arguments]
    try:
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, **apart)
    except OSError:
        return
