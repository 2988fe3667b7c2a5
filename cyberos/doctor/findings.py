"""What the doctor says of a vault: values, never raised.

    Finding("episode-outcome-closed-enum", "error", "memories/…md", 7, "/outcome", "outcome is 'great'; …", "choose…")

Severity and hint come from the rule's entry in memory.invariants.yaml; a hint's PATH is the finding's path.

Source: DESIGN section 5.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import contract

if TYPE_CHECKING:
    from collections.abc import Collection

    from cyberos.core.contract import Rule
    from cyberos.core.errors import InvalidMemory


class Finding(NamedTuple):
    """One way in which a vault breaks a rule.

    `path` is relative to the vault, `line` counts from 1 and is 1 where no line says more, `pointer` is an RFC 6901
    pointer into the frontmatter or empty.
    """

    rule: str
    severity: str
    path: str
    line: int
    pointer: str
    message: str
    hint: str | None


CRASHED = "doctor-check-crashed"


class Report(NamedTuple):
    """All findings, sorted by path and line, and how many memory files and ledger rows were looked at."""

    findings: list[Finding]
    files: int
    rows: int

    def only(self, select: Collection[str], ignore: Collection[str]) -> Report:
        """Keep the findings of the rules in `select` (empty: of all) and not in `ignore`.

        That a check crashed is told unless it is ignored by name: what was selected may be what it did not find.
        """
        kept = [
            finding
            for finding in self.findings
            if finding.rule not in ignore and (not select or finding.rule in select or finding.rule == CRASHED)
        ]
        return self._replace(findings=kept)

    def count(self, severity: str) -> int:
        """Count the findings of one severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Give each rule that found something, and how often: the most frequent first, then by id."""
        found = Counter(finding.rule for finding in self.findings)
        return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))

    @property
    def summary(self) -> dict[str, int]:
        """Give the counts as they stand in the JSON document."""
        names = {"errors": "error", "warnings": "warning", "info": "info"}
        return {name: self.count(severity) for name, severity in names.items()} | {
            "files": self.files,
            "rows": self.rows,
        }


def finding(
    rule: str, path: str, message: str, *, line: int = 1, pointer: str = "", hint: str | None = None, severity: str = ""
) -> Finding:
    """Make a finding of an installed rule; `hint` and `severity` replace those of the rule."""
    made = of_rule(contract.rules()[rule], path, message, line=line, pointer=pointer, hint=hint)
    return made._replace(severity=severity) if severity else made


def of_rule(
    rule: Rule, path: str, message: str, *, line: int = 1, pointer: str = "", hint: str | None = None
) -> Finding:
    """Make a finding of any rule, a team's own included."""
    advice = hint or rule.hint
    return Finding(
        rule.id, rule.severity, path, line, pointer, message, advice.replace("PATH", path) if advice else None
    )


def of_error(error: InvalidMemory, path: str, *, line: int = 1) -> Finding:
    """Turn a refusal into a finding; the refusal's own line and advice come first."""
    return finding(error.rule, path, error.message, line=error.line or line, pointer=error.pointer, hint=error.hint)
