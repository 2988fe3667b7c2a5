"""`cyberos init --agent`: what it adds, looks at, takes out and shows.

Source: DESIGN section 9.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from cyberos.agents import installation
from cyberos.agents.clients import CLIENTS
from cyberos.cli import output
from cyberos.core import discovery, repository
from cyberos.core.errors import VaultNotFound

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cyberos.agents.pieces import Piece

_PROGRAM = "cyberos"


def chosen(agent: str) -> list[str]:
    """Give the agents that a name stands for. Raises: click.UsageError."""
    if agent == "all":
        return list(CLIENTS)
    if agent not in CLIENTS:
        raise click.UsageError(f"--agent {agent}: one of {', '.join(CLIENTS)}, all")
    return [agent]


def nearest() -> str:
    """Give the vault that the current folder is in if its repository holds it, else the top of the repository."""
    top = _top(os.getcwd())
    with suppress(VaultNotFound):
        found = os.path.realpath(discovery.discover())
        if os.path.commonpath([top, found]) == top:
            return found
    return top


def install(root: Path, clients: list[str], *, is_quiet: bool) -> list[dict[str, Any]]:
    """Add what the agents need; say what was written, and what their users must still do."""
    top = _top(root)
    done = []
    for name in clients:
        changed = installation.install(top, _pieces(name, root, top))
        done.append({"agent": name, "changed": changed, "approve": CLIENTS[name].approve})
        if not is_quiet:
            output.line(f"{name}: " + (f"wrote {', '.join(changed)}" if changed else "all there already"))
            output.line(f"  still to do: {CLIENTS[name].approve}")
    if shutil.which(_PROGRAM) is None:
        output.note(f"warning: no {_PROGRAM!r} on the PATH: the agent starts it by that name (`pipx install cyberos`)")
    return done


def check(place: str | os.PathLike[str], clients: list[str], *, as_json: bool) -> int:
    """Say how each piece stands; exit code 1 when one is missing or stale."""
    top = _top(place)
    found = [
        {"agent": name, "path": piece.path, "state": piece.state}
        for name in clients
        for piece in installation.look(top, _pieces(name, place, top))
    ]
    if as_json:
        output.document({"items": found})
    else:
        for text in output.table(tuple(str(value) for value in item.values()) for item in found):
            output.line(text)
    return int(any(item["state"] != "current" for item in found))


def remove(place: str | os.PathLike[str], clients: list[str], *, as_json: bool) -> int:
    """Take the pieces out; a file that another agent here needs too is left."""
    top = _top(place)
    others = [name for name in CLIENTS if name not in clients and _is_set_up(name, place, top)]
    needed = {piece.path for name in others for piece in _pieces(name, place, top)}
    done = []
    for name in clients:
        going = [piece for piece in _pieces(name, place, top) if piece.path not in needed]
        done.append({"agent": name, "changed": installation.remove(top, going)})
    if as_json:
        output.document({"agents": done})
        return 0
    for item in done:
        changed = item["changed"]
        output.line(f"{item['agent']}: " + (f"taken out of {', '.join(changed)}" if changed else "nothing was there"))
    return 0


def show(place: str | os.PathLike[str], clients: list[str], *, as_json: bool) -> int:
    """Show what each file would hold if it were not there yet."""
    top = _top(place)
    texts = installation.preview(piece for name in clients for piece in _pieces(name, place, top))
    if as_json:
        output.document({"files": texts})
        return 0
    for path, text in texts.items():
        output.line(f"==> {path}")
        for line in text.splitlines():
            output.line(line)
        output.line()
    return 0


MODES: dict[str, Callable[..., int]] = {"check": check, "remove": remove, "show": show}


def _top(place: str | os.PathLike[str]) -> str:
    """Give the top of the repository that a vault is in, or the vault's own folder outside git."""
    found = repository.open_at(place)
    return found.top if found is not None else os.path.abspath(place)


def _pieces(name: str, root: str | os.PathLike[str], top: str) -> list[Piece]:
    below = os.path.relpath(os.path.realpath(root), top).replace(os.sep, "/")
    return CLIENTS[name].pieces([_PROGRAM] if below == "." else [_PROGRAM, "--store", below])


def _is_set_up(name: str, place: str | os.PathLike[str], top: str) -> bool:
    return all(standing.state != "missing" for standing in installation.look(top, _pieces(name, place, top)))
