"""Findings as workflow commands, which GitHub shows beside the changed lines of a pull request.

    ::error file=memories/facts/3a/9f/a.md,line=1,title=memory-modified::the file is not as it was logged%0Ahint: …

Paths are relative to the repository. `%`, CR and LF are escaped everywhere, `:` and `,` in properties too.

Source: DESIGN section 5; docs.github.com "Workflow commands"; actions/toolkit `command.ts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyberos.core.render import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyberos.doctor.findings import Finding, Report

_COMMAND = {"error": "error", "warning": "warning", "info": "notice"}


def lines(report: Report, folder: str) -> Iterator[str]:
    """Give one line for each finding; `folder` is the vault's in its repository, empty or ending in a slash.

    GitHub shows the first ten errors, and the first ten warnings, of a step: so the first finding of each rule leads.
    """
    seen: set[str] = set()
    leading: list[Finding] = []
    rest: list[Finding] = []
    for finding in report.findings:
        (rest if finding.rule in seen else leading).append(finding)
        seen.add(finding.rule)
    for finding in (*leading, *rest):
        yield _spell(finding, folder)


def _spell(finding: Finding, folder: str) -> str:
    values = {"file": folder + finding.path, "line": str(finding.line), "title": finding.rule}
    properties = ",".join(f"{name}={_property(value)}" for name, value in values.items())
    text = finding.message + (f"\nhint: {finding.hint}" if finding.hint else "")
    return f"::{_COMMAND[finding.severity]} {properties}::{_data(text)}"


def _data(text: str) -> str:
    # a CR stays what it is, since here it is escaped in GitHub's own way
    kept = "\r".join(map(escape, text.split("\r")))
    return kept.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
