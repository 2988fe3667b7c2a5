"""What a rule is for, from its entry in memory.invariants.yaml: for a terminal, for SARIF, and as docs/rules.md.

    python -m cyberos.doctor.explanation > docs/rules.md

Source: DESIGN section 5.
"""

from __future__ import annotations

from textwrap import fill, indent
from typing import TYPE_CHECKING, Any

from cyberos.core import contract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyberos.core.contract import Rule

_WIDTH = 100
_HEAD = """\
# The rules of the doctor

Written by `make docs` from memory.invariants.yaml; change it there. `cyberos doctor --explain ID` shows one of these in
the terminal, `--explain all --json` gives all of them to a program. [team-rules.md](team-rules.md) says how a team adds
its own.

An **error** makes `cyberos doctor` exit 1 and the hook refuse the commit; a **warning** and **info** are only said.
"""
_SCOPES = {
    "file": "Found in one memory file",
    "ledger": "Found in the ledger, or between ledger and files",
    "vault": "About the vault and the doctor itself",
    "git": "Found by comparing with git's history",
}


def text(rule: Rule) -> str:
    """Explain a rule as plain text."""
    parts = [f"{rule.id} ({rule.severity}, scope {rule.scope})", fill(rule.description, _WIDTH)]
    parts += [fill(f"Why: {rule.why}", _WIDTH)] if rule.why else []
    parts += [f"{name}:\n{indent(example.rstrip(), '    ')}" for name, example in _examples(rule)]
    parts += [fill(f"What to do: {rule.hint}", _WIDTH, break_on_hyphens=False)] if rule.hint else []
    return "\n\n".join(parts)


def markdown(rule: Rule) -> str:
    """Explain a rule as markdown, without a heading."""
    parts = [f"**{rule.description}**", f"`{rule.severity}`"]
    parts += [rule.why] if rule.why else []
    parts += [f"{name}:\n\n```\n{example.rstrip()}\n```" for name, example in _examples(rule)]
    parts += [f"What to do: {rule.hint}."] if rule.hint else []
    return "\n\n".join(parts)


def entry(rule: Rule) -> dict[str, Any]:
    """Give a rule as it stands in the JSON document."""
    names = ("id", "severity", "scope", "description", "why", "bad", "good", "hint", "fix")
    return {name: getattr(rule, name) for name in names}


def page() -> str:
    """Give docs/rules.md."""
    parts = [_HEAD]
    for scope, title in _SCOPES.items():
        chosen = [rule for rule in contract.rules().values() if rule.scope == scope]
        if chosen:
            parts.append(f"## {title}\n")
            parts += [f"### {rule.id}\n\n{markdown(rule)}\n" for rule in chosen]
    return "\n".join(parts)


def rules_url() -> str | None:
    """Give the address of docs/rules.md that the installed package names, or None."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        named = metadata("cyberos").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    pairs = (text.partition(", ") for text in named)
    return next((address for name, _, address in pairs if name == "Rules"), None)


def _examples(rule: Rule) -> Iterator[tuple[str, str]]:
    if rule.bad:
        yield "Bad", rule.bad
    if rule.good:
        yield "Good", rule.good


if __name__ == "__main__":
    print(page(), end="")
