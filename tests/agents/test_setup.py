"""`cyberos init --agent`: what it adds to a repository, and that it goes again without a trace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cyberos.agents.clients import CLIENTS
from support import git

GOLDEN = Path(__file__).parents[1] / "golden" / "agents"

THEIRS = {
    ".claude/settings.json": '{"permissions": {"allow": ["Bash(ls)"]}}\n',
    ".mcp.json": '{\n\t"mcpServers": {}\n}',
    ".codex/config.toml": 'model = "x"',
    ".codex/hooks.json": '{\n    "hooks": {\n        "Stop": [{"hooks": []}]\n    }\n}\n',
    ".gemini/settings.json": "{}\n",
    ".cursor/hooks.json": '{"version": 1, "hooks": {}}',
    ".vscode/mcp.json": '{"servers": {"other": {"command": "x"}}}\n',
    "opencode.json": '{"$schema": "https://opencode.ai/config.json"}\n',
    "AGENTS.md": "# For agents\r\n\r\nRun the tests.\r\n",
    "CLAUDE.md": "Be brief.",
    "GEMINI.md": "",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "repository"
    top.mkdir()
    git(top, "init", "-q")
    git(top, "commit", "-q", "--allow-empty", "-m", "begin")
    cyberos(top, "init")
    return top


def cyberos(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cyberos", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done


def everything(top: Path) -> dict[str, bytes]:
    return {
        file.relative_to(top).as_posix(): file.read_bytes()
        for file in sorted(top.rglob("*"))
        if file.is_file() and not {".git", ".cyberos"} & set(file.relative_to(top).parts)
    }


def write_theirs(top: Path) -> None:
    for path, text in THEIRS.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(text.encode())


@pytest.mark.parametrize("has_files", [False, True], ids=["fresh", "with the user's files"])
@pytest.mark.parametrize("agent", [*CLIENTS, "all"])
def test_an_agent_is_added_once_and_taken_out_without_a_trace(repository, agent, has_files):
    if has_files:
        write_theirs(repository)
    before = everything(repository)
    cyberos(repository, "init", "--agent", agent, "--check", code=1)
    assert everything(repository) == before
    said = cyberos(repository, "init", "--agent", agent).stdout
    assert "still to do: " in said
    added = everything(repository)
    assert added.keys() >= before.keys()
    cyberos(repository, "init", "--agent", agent, "--check")
    assert "all there already" in cyberos(repository, "init", "--agent", agent).stdout
    assert everything(repository) == added
    cyberos(repository, "init", "--agent", agent, "--remove")
    assert everything(repository) == before
    assert not [folder for folder in repository.iterdir() if folder.name in (".agents", ".claude")] or has_files


@pytest.mark.parametrize("agent", CLIENTS)
def test_what_an_agent_gets_is_what_was_agreed(repository, agent):
    before = everything(repository)
    cyberos(repository, "init", "--agent", agent)
    added = {path: blob for path, blob in everything(repository).items() if path not in before}
    assert added == everything(GOLDEN / agent)


def test_every_file_is_what_its_program_can_read(repository):
    write_theirs(repository)
    cyberos(repository, "init", "--agent", "all")
    for path, blob in everything(repository).items():
        if path.endswith(".json"):
            json.loads(blob)
    config = tomllib.loads((repository / ".codex/config.toml").read_text(encoding="utf-8"))
    assert config == {"model": "x", "mcp_servers": {"cyberos": {"command": "cyberos", "args": ["mcp"]}}}
    hooks = json.loads((repository / ".claude/settings.json").read_bytes())["hooks"]
    assert hooks.keys() == {"SessionStart", "UserPromptSubmit", "Stop", "PreCompact"}
    skill = (repository / ".claude/skills/cyberos/SKILL.md").read_text(encoding="utf-8")
    assert skill.startswith("---\nname: cyberos\n")


def test_what_two_agents_share_stays_while_one_needs_it(repository):
    cyberos(repository, "init", "--agent", "codex")
    alone = everything(repository)
    cyberos(repository, "init", "--agent", "opencode")
    cyberos(repository, "init", "--agent", "opencode", "--remove")
    assert everything(repository) == alone


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".mcp.json", '{ // my servers\n  "mcpServers": {}\n}\n'),
        (".mcp.json", "{"),
        (".claude/settings.json", '{"hooks": []}'),
        ("CLAUDE.md", "<!-- END CYBEROS -->\n"),
        (".claude/skills/cyberos/SKILL.md", "my own skill\n"),
        ("CLAUDE.md", b"\xff\xfe"),
    ],
)
def test_a_file_that_cannot_be_added_to_leaves_all_as_they_were(repository, path, text):
    (repository / path).parent.mkdir(parents=True, exist_ok=True)
    (repository / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    before = everything(repository)
    said = cyberos(repository, "init", "--agent", "claude-code", code=1).stderr
    assert path in said
    assert "no file was changed" in said
    assert everything(repository) == before


def test_a_link_is_not_written_through(repository, tmp_path):
    outside = tmp_path / "outside.md"
    outside.write_text("mine\n", encoding="utf-8")
    (repository / "CLAUDE.md").symlink_to(outside)
    cyberos(repository, "init", "--agent", "claude-code", code=1)
    assert outside.read_text(encoding="utf-8") == "mine\n"
    assert (repository / "CLAUDE.md").is_symlink()


def test_an_edited_block_is_stale_and_is_made_new(repository):
    cyberos(repository, "init", "--agent", "codex")
    file = repository / "AGENTS.md"
    fresh = file.read_text(encoding="utf-8")
    file.write_text(fresh.replace("remembers", "forgets"), encoding="utf-8")
    assert "stale" in cyberos(repository, "init", "--agent", "codex", "--check", code=1).stdout
    cyberos(repository, "init", "--agent", "codex")
    assert file.read_text(encoding="utf-8") == fresh


def test_a_server_that_the_user_starts_another_way_is_kept(repository):
    mine = '{\n  "mcpServers": {\n    "cyberos": {"command": "uvx", "args": ["cyberos", "mcp"]}\n  }\n}\n'
    (repository / ".mcp.json").write_text(mine, encoding="utf-8")
    cyberos(repository, "init", "--agent", "claude-code")
    assert (repository / ".mcp.json").read_text(encoding="utf-8") == mine


def test_a_vault_below_the_top_is_named(repository):
    cyberos(repository, "init", "notes")
    cyberos(repository / "notes", "init", "--agent", "codex")
    config = tomllib.loads((repository / ".codex/config.toml").read_text(encoding="utf-8"))
    assert config["mcp_servers"]["cyberos"]["args"] == ["--store", "notes", "mcp"]
    assert "cyberos --store notes hook stop" in (repository / ".codex/hooks.json").read_text(encoding="utf-8")


def test_print_shows_and_writes_nothing(repository):
    before = everything(repository)
    shown = cyberos(repository, "init", "--agent", "cursor", "--print").stdout
    assert "==> .cursor/hooks.json" in shown
    assert everything(repository) == before
    as_json = json.loads(cyberos(repository, "init", "--agent", "cursor", "--print", "--json").stdout)
    assert json.loads(as_json["files"][".cursor/hooks.json"])["version"] == 1


@pytest.mark.parametrize(
    "arguments",
    [["--check"], ["--agent", "clippy"], ["--agent", "codex", "--check", "--remove"], ["--print", "--json"]],
)
def test_usage(repository, arguments):
    cyberos(repository, "init", *arguments, code=2)


def test_from_below_the_vault_is_the_one_that_is_there(repository):
    (repository / "src" / "deep").mkdir(parents=True)
    cyberos(repository / "src" / "deep", "init", "--agent", "codex")
    assert everything(repository / "src") == {}
    assert (repository / ".codex/hooks.json").is_file()
    cyberos(repository / "src", "init", "--agent", "codex", "--check")
    cyberos(repository / "src", "init", "--agent", "codex", "--remove")
    assert not (repository / ".codex").exists()


def test_without_a_vault_one_is_made_at_the_top_even_before_the_first_commit(tmp_path):
    git(tmp_path, "init", "-q", "project")
    (tmp_path / "project" / "src").mkdir()
    cyberos(tmp_path / "project" / "src", "init", "--agent", "claude-code")
    assert (tmp_path / "project" / "memories").is_dir()
    assert (tmp_path / "project" / ".mcp.json").is_file()
    assert everything(tmp_path / "project" / "src") == {}


def test_a_vault_outside_the_repository_is_not_taken(tmp_path):
    cyberos(tmp_path, "init")
    git(tmp_path, "init", "-q", "project")
    cyberos(tmp_path / "project", "init", "--agent", "codex")
    assert (tmp_path / "project" / "memories").is_dir()


def test_in_a_worktree_the_files_are_the_worktrees_own(repository, tmp_path):
    cyberos(repository, "init", "--agent", "gemini")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "set up")
    git(repository, "worktree", "add", "-q", str(tmp_path / "other"))
    cyberos(tmp_path / "other", "init", "--agent", "gemini", "--check")
    before = everything(repository)
    cyberos(tmp_path / "other", "init", "--agent", "codex")
    assert (tmp_path / "other" / ".codex" / "hooks.json").is_file()
    assert everything(repository) == before


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="no mount can be made here")
def test_one_file_that_cannot_be_written_leaves_all_as_they_were(repository):
    (repository / "CLAUDE.md").write_text("Be brief.\n")
    before = everything(repository)
    script = f'mount --bind CLAUDE.md CLAUDE.md && exec "{sys.executable}" -m cyberos init --agent claude-code'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 1
    assert "CLAUDE.md: it cannot be written (" in done.stderr
    assert "no file was changed" in done.stderr
    assert everything(repository) == before
    assert not (repository / ".claude").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes")
def test_a_file_keeps_its_mode(repository):
    (repository / ".mcp.json").write_text("{}\n")
    (repository / ".mcp.json").chmod(0o600)
    cyberos(repository, "init", "--agent", "claude-code")
    assert (repository / ".mcp.json").stat().st_mode & 0o777 == 0o600


def test_a_program_that_is_not_on_the_path_is_told(repository, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(shutil.which("git"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "no 'cyberos' on the PATH" in cyberos(repository, "init", "--agent", "codex").stderr
    program = tmp_path / "bin" / "cyberos"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert cyberos(repository, "init", "--agent", "codex").stderr == ""
