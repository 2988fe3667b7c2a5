"""Which commands change files of the tree that is worked on, so that a check before them no longer counts.

    sed -i s/a/b/ x.py · cat > x.py <<EOF · tee x.py · git apply · git checkout . · mv a b · black . · python - <<EOF
    -> the file, or the command's name

In doubt a command has changed something: a stale pass is worse than an unverified one.

Source: DESIGN section 7; the manuals of the tools named here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyberos.record.shell import Part

_ALWAYS = {"apply_patch", "patch", "mv", "cp", "rsync", "install", "truncate", "ed", "ex", "ln", "unzip", "touch"}
_ALWAYS |= {"autopep8", "yapf", "codemod", "2to3", "pyupgrade", "str_replace_editor", "edit", "create", "insert"}
_GIT = {"apply", "am", "merge", "rebase", "pull", "cherry-pick", "revert", "rm", "mv", "clean", "restore", "checkout"}
_GIT |= {"switch", "reset", "stash", "filter-repo"}
_PACKAGES = {("cargo", "add"), ("cargo", "fix"), ("cargo", "fmt"), ("go", "mod"), ("go", "get"), ("go", "fmt")}
_PACKAGES |= {("cargo", "remove"), ("go", "generate"), ("mix", "format"), ("terraform", "fmt"), ("deno", "fmt")}
_PACKAGES |= {("dart", "format"), ("dotnet", "format"), ("ruff", "format"), ("biome", "format"), ("uv", "add")}
_FIXES = {"--fix", "--write", "-w", "--fix-only", "--unsafe-fixes", "--autocorrect", "--auto-correct", "-a", "-A"}
_FIXERS = {"ruff", "eslint", "prettier", "biome", "rubocop", "gofmt", "goimports", "stylelint", "oxlint", "ktlint"}
_FIXERS |= {"golangci-lint", "swiftlint", "standard", "xo", "clang-format", "clippy"}
_FORMATS = {"black", "isort"}
_CHECKS_ONLY = {"--check", "-c", "--check-only", "--diff", "-l", "--list-different"}
_WRITES = re.compile(
    r"""\bopen\([^)]*,\s*(?:mode\s*=\s*)?['"][rb]*[wax+]|\.write_(?:text|bytes)\(|writeFile|fs\.(?:rename|unlink|append)
    |shutil\.(?:copy|move)|os\.(?:remove|rename|replace)|File\.write""",
    re.VERBOSE,
)
_SCRIPTED = re.compile(r"(?:python|pypy)[\d.]*\Z|node\Z|ruby\Z|perl\Z|deno\Z|bun\Z")
_WRAPPERS = {"sudo", "env", "time", "nice", "npx", "bunx", "xargs", "command", "uvx"}
# what is no part of the tree: devices, logs, a file that lies directly in /tmp, what tools leave behind
_APART = re.compile(
    r"/dev/|/tmp/[^/]+\Z|\$?\{?TMPDIR|.*\.(?:log|out|pyc|tmp)\Z|.*(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache)"
    r"|.*(?:node_modules|\.coverage|htmlcov|coverage)(?:/|\Z)|&"
)


def changed(part: Part, *, is_output: bool = False) -> str:
    """Name what a simple command changes, or give the empty string.

    `is_output` says that what it writes is the output of a check.
    """
    if not is_output:
        for path in part.writes:
            if path and not _APART.match(path):
                return path[:200]
    words = part.words
    while words and words[0].rsplit("/", 1)[-1] in _WRAPPERS and len(words) > 1:
        words = words[1:]
        while len(words) > 1 and (words[0].startswith("-") or "=" in words[0]):
            words = words[1:]
    if not words:
        return ""
    return _by_name(words[0].rsplit("/", 1)[-1], words[1:], part.here, is_output=is_output)


def _by_name(name: str, rest: list[str], here: str, *, is_output: bool) -> str:
    flags, plain = {word for word in rest if word.startswith("-")}, [word for word in rest if not word.startswith("-")]
    if name in ("sed", "gsed", "perl"):
        is_in_place = any(re.match(r"-[a-zA-Z]*i|--in-place", flag) for flag in flags)
        return (plain[-1] if plain else name)[:200] if is_in_place else ""
    if name == "tee":
        written = [path for path in plain if not _APART.match(path)]
        return written[0][:200] if written and not is_output else ""
    if name in ("rm", "rmdir", "unlink"):
        gone = [path for path in plain if not _APART.match(path)]
        return gone[0][:200] if gone else ""
    if name in _ALWAYS:
        return (plain[-1] if plain and name != "apply_patch" else name)[:200]
    if name == "git":
        return _git(plain, flags)
    if name in _FORMATS:
        return "" if flags & _CHECKS_ONLY else name
    if (name, plain[0] if plain else "") in _PACKAGES:
        return "" if flags & _CHECKS_ONLY or "--verify-no-changes" in flags else f"{name} {plain[0]}"
    if name in _FIXERS | {"cargo", "npm", "yarn", "pnpm"} and flags & _FIXES and not (name == "npm" and "-w" in flags):
        return f"{name} {min(flags & _FIXES)}"
    if name == "dd":
        return next((word[3:] for word in rest if word.startswith("of=") and not _APART.match(word[3:])), "")
    if _SCRIPTED.match(name) and _WRITES.search("\n".join([here, *rest])):
        return f"{name} script"
    return ""


def _git(plain: list[str], flags: set[str]) -> str:
    verb = plain[0] if plain else ""
    if verb not in _GIT:
        return ""
    is_new_branch = verb in ("checkout", "switch") and flags & {"-b", "-c", "-B", "-C", "--orphan"}
    is_soft = verb == "reset" and not flags & {"--hard", "--merge", "--keep"}
    is_look = (verb == "stash" and plain[1:2] in (["list"], ["show"])) or "--dry-run" in flags
    is_index = verb == "restore" and "--staged" in flags and "--worktree" not in flags
    return "" if is_new_branch or is_soft or is_look or is_index else f"git {verb}"
