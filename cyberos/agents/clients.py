"""What each agent expects in a repository: its settings, hooks, MCP servers, skills and instructions.

    claude-code  .claude/settings.json  .mcp.json           .claude/skills/cyberos/SKILL.md  CLAUDE.md
    codex        .codex/hooks.json      .codex/config.toml  .agents/skills/cyberos/SKILL.md  AGENTS.md
    gemini       .gemini/settings.json (hooks and server)                                    GEMINI.md
    cursor       .cursor/hooks.json     .cursor/mcp.json                                     AGENTS.md
    copilot      .github/hooks/cyberos.json  .vscode/mcp.json                                AGENTS.md
    opencode     opencode.json (server)                     .agents/skills/cyberos/SKILL.md  AGENTS.md

Source: the documentation of each agent; docs/agents.md says which of them were run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.agents.blocks import HASH
from cyberos.agents.guidance import BLOCK, SKILL
from cyberos.agents.jsontext import Entry
from cyberos.agents.pieces import Block, Json, Whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from cyberos.agents.pieces import Piece

_S = 10  # seconds after which an agent gives a hook up; ours ends within one


class Client(NamedTuple):
    """An agent; `pieces` makes them for the words that start cyberos; `approve` is what its user must still do."""

    pieces: Callable[[list[str]], list[Piece]]
    approve: str


def _claude_code(start: list[str]) -> list[Piece]:
    hooks: dict[str, tuple[str, str | None]] = {
        "SessionStart": ("session-start", "startup|resume|clear|compact"),
        "UserPromptSubmit": ("prompt", None),
        "Stop": ("stop", None),
        "PreCompact": ("pre-compact", None),
    }
    return [
        *_hooks(".claude/settings.json", start, "claude-code", hooks, timeout=_S),
        _server(".mcp.json", "mcpServers", start),
        Whole(".claude/skills/cyberos/SKILL.md", SKILL),
        Block("CLAUDE.md", BLOCK),
    ]


def _codex(start: list[str]) -> list[Piece]:
    hooks: dict[str, tuple[str, str | None]] = {
        "SessionStart": ("session-start", "startup|resume|clear|compact"),
        "UserPromptSubmit": ("prompt", None),
        "Stop": ("stop", None),
    }
    table = f"[mcp_servers.cyberos]\ncommand = {json.dumps(start[0])}\nargs = {json.dumps([*start[1:], 'mcp'])}\n"
    return [
        *_hooks(".codex/hooks.json", start, "codex", hooks, timeout=_S),
        Block(".codex/config.toml", table, HASH, "mcp_servers.cyberos"),
        Whole(".agents/skills/cyberos/SKILL.md", SKILL),
        Block("AGENTS.md", BLOCK),
    ]


def _gemini(start: list[str]) -> list[Piece]:
    hooks: dict[str, tuple[str, str | None]] = {
        "SessionStart": ("session-start", None),
        "BeforeAgent": ("prompt", None),
        "AfterAgent": ("stop", None),
        # no PreCompress: up to 0.61 at least it comes before every request, whether something is compressed or not
    }
    return [
        *_hooks(".gemini/settings.json", start, "gemini", hooks, timeout=_S * 1000),
        _server(".gemini/settings.json", "mcpServers", start),
        Block("GEMINI.md", BLOCK),
    ]


def _cursor(start: list[str]) -> list[Piece]:
    path, events = ".cursor/hooks.json", {"sessionStart": "session-start", "stop": "stop", "preCompact": "pre-compact"}
    seed = '{\n  "version": 1\n}\n'
    hooks = [
        Json(path, Entry(("hooks", name), None, {"command": _hook(start, event, "cursor")}, _is_ours), seed)
        for name, event in events.items()
    ]
    return [*hooks, _server(".cursor/mcp.json", "mcpServers", start), Block("AGENTS.md", BLOCK)]


def _copilot(start: list[str]) -> list[Piece]:
    events = {"SessionStart": "session-start", "UserPromptSubmit": "prompt", "PreCompact": "pre-compact"}
    hooks = {name: [_shells(_hook(start, event, "copilot"))] for name, event in events.items()}
    text = json.dumps({"version": 1, "hooks": hooks}, indent=2) + "\n"
    return [
        Whole(".github/hooks/cyberos.json", text),
        _server(".vscode/mcp.json", "servers", start),
        Block("AGENTS.md", BLOCK),
    ]


def _opencode(start: list[str]) -> list[Piece]:
    server = {"type": "local", "command": [*start, "mcp"], "enabled": True}
    return [
        Json("opencode.json", Entry(("mcp",), "cyberos", server, lambda _: True)),
        Whole(".agents/skills/cyberos/SKILL.md", SKILL),
        Block("AGENTS.md", BLOCK),
    ]


CLIENTS: dict[str, Client] = {
    "claude-code": Client(
        _claude_code, "start `claude` here once, trust the folder, and approve the MCP server cyberos (`/mcp`)"
    ),
    "codex": Client(_codex, "start `codex` here once, trust the project, and trust its hooks (`/hooks`)"),
    "gemini": Client(_gemini, "start `gemini` here once and trust the folder"),
    "cursor": Client(_cursor, "open the folder in Cursor and enable the MCP server cyberos in its settings"),
    "copilot": Client(_copilot, "start the MCP server cyberos once from .vscode/mcp.json, and trust it"),
    "opencode": Client(_opencode, "nothing: opencode starts the server by itself"),
}


def _hooks(
    path: str, start: list[str], agent: str, events: dict[str, tuple[str, str | None]], *, timeout: int
) -> list[Piece]:
    made: list[Piece] = []
    for name, (event, matcher) in events.items():
        command = {"type": "command", "command": _hook(start, event, agent), "timeout": timeout}
        group = ({"matcher": matcher} if matcher else {}) | {"hooks": [command]}
        made.append(Json(path, Entry(("hooks", name), None, group, _is_ours)))
    return made


def _hook(start: list[str], event: str, agent: str) -> str:
    return f"{' '.join(start)} hook {event} --agent {agent}"


def _shells(command: str) -> dict[str, Any]:
    return {"type": "command", "bash": command, "powershell": command, "timeoutSec": _S}


def _server(path: str, key: str, start: list[str]) -> Json:
    return Json(path, Entry((key,), "cyberos", {"command": start[0], "args": [*start[1:], "mcp"]}, lambda _: True))


def _is_ours(item: Any) -> bool:
    """Report whether a hook runs cyberos, however it is started."""
    text = json.dumps(item)
    return "cyberos" in text and " hook " in text


def _of_plugin(group: dict[str, Any]) -> dict[str, Any]:
    """Give a hook that is silent where a repository has it in its own settings too."""
    return group | {"hooks": [each | {"command": f"{each['command']} --plugin"} for each in group["hooks"]]}


def plugin(version: str) -> dict[str, str]:
    """Give the files of the Claude Code plugin, by their paths in this repository (`make plugin` writes them)."""
    about = "Have I done this before, and how did it really go? This repository's memory, checked by a doctor."
    author = {"name": "the cyberos authors"}
    hooks: dict[str, list[Any]] = {}
    server: dict[str, Any] = {}
    for piece in _claude_code(["cyberos"]):
        if isinstance(piece, Json) and piece.entry.key is None:
            hooks[piece.entry.path[1]] = [_of_plugin(piece.entry.value)]
        elif isinstance(piece, Json):
            server = {str(piece.entry.key): piece.entry.value}
    manifest = {"name": "cyberos", "version": version, "description": about, "author": author, "license": "MIT"}
    listed = {"name": "cyberos", "source": "./plugins/cyberos", "description": about}
    market = {"name": "cyberos", "owner": author, "metadata": {"description": about}, "plugins": [listed]}
    made = {
        ".claude-plugin/marketplace.json": market,
        "plugins/cyberos/.claude-plugin/plugin.json": manifest | {"mcpServers": server},
        "plugins/cyberos/hooks/hooks.json": {"hooks": hooks},
    }
    texts = {path: json.dumps(value, indent=2) + "\n" for path, value in made.items()}
    return texts | {"plugins/cyberos/skills/cyberos/SKILL.md": SKILL}
