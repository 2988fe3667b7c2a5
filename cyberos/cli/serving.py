"""What the tools of `cyberos mcp` do: the same functions as the verbs, with the same words when they refuse.

Source: DESIGN section 9.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.agents.mcp import Failed
from cyberos.agents.tools import complaints, definition

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cyberos.agents.mcp import Tool
    from cyberos.index.upkeep import Progress

FINDINGS = 50  # that one answer holds; the summary counts them all


def tools(store: str | None) -> dict[str, Tool]:
    """Give the tools by name. The vault is looked for at each call, as each verb does."""
    bodies = (_log_episode, _recall_similar, _search, _read_memory, _doctor)
    return {body.__name__[1:]: _Verb(body.__name__[1:], body, store) for body in bodies}


class Call(NamedTuple):
    """One call: of which vault, with what, and whom to tell how far it is."""

    root: Path
    arguments: dict[str, Any]
    progress: Progress


class _Verb:
    """A tool whose body is loaded when it is first called."""

    def __init__(self, name: str, body: Callable[[Call], dict[str, Any]], store: str | None) -> None:
        self._name = name
        self._body = body
        self._store = store

    @property
    def definition(self) -> dict[str, Any]:
        return definition(self._name)

    def call(self, arguments: dict[str, Any], progress: Progress) -> dict[str, Any] | Failed:
        from cyberos.cli.main import attempt

        return attempt(lambda: self._checked(arguments, progress), lambda lines: Failed("\n".join(lines)))

    def _checked(self, arguments: dict[str, Any], progress: Progress) -> dict[str, Any] | Failed:
        if self._name == "log_episode":
            from cyberos.core.admission import check_values

            check_values(arguments)  # first: a complaint quotes what it complains about
        wrong = complaints(self._name, arguments)
        if wrong:
            return Failed("\n".join((f"{self._name}: nothing was done", *wrong)))
        return self._body(Call(self._root(), arguments, progress))

    def _root(self) -> Path:
        from cyberos.core import discovery

        return discovery.discover(store=self._store)


def _log_episode(call: Call) -> dict[str, Any]:
    from cyberos.core import settings
    from cyberos.core.episode import Episode, log
    from cyberos.core.writer import Writer

    writer = Writer(call.root)
    path = log(writer, Episode.from_frontmatter(call.arguments), actor=str(settings.load(call.root)["actor"].value))
    return {"path": path.as_posix(), "seq": writer.head_seq(), "notes": list(writer.notes)}


def _recall_similar(call: Call) -> dict[str, Any]:
    from cyberos.cli import recall

    return recall.run(call.root, SimpleNamespace(**call.arguments), call.progress)


def _search(call: Call) -> dict[str, Any]:
    from cyberos.core import semantic, settings

    cut = call.arguments.get("min_relevance", settings.load(call.root)["min_relevance"].value)
    hits = semantic.recall(call.root, call.arguments["query"], call.arguments.get("k", 5), cut)
    return {
        "matches": [
            {
                "path": hit.path,
                "relevance": round(hit.relevance, 3),
                "last_seen_at": hit.last_seen_at,
                "frontmatter": hit.frontmatter,
            }
            for hit in hits
        ]
    }


def _read_memory(call: Call) -> dict[str, Any]:
    from cyberos.cli.place import path_of
    from cyberos.cli.read import as_document, load
    from cyberos.index.sync import sync

    name = path_of(call.root, call.arguments["path"])
    with sync(call.root, ()) as index:
        blob, warning = load(index, name)
    return as_document(name, blob) | {"warning": warning}


def _doctor(call: Call) -> dict[str, Any]:
    from cyberos.doctor import examination

    report = examination.examine(call.root, anchor="auto")
    told = ("rule", "severity", "path", "message", "hint")
    worst = sorted(report.findings, key=lambda finding: ("error", "warning", "info").index(finding.severity))
    return {
        "findings": [{name: getattr(finding, name) for name in told} for finding in worst[:FINDINGS]],
        "omitted": max(0, len(worst) - FINDINGS),
        "summary": report.summary,
    }
