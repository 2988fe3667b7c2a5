"""Findings as text for people and as one JSON document for programs.

    memories/episodes/…md:7: episode-outcome-closed-enum outcome is 'great'; it must be one of success, partial, failure
      hint: choose one; what is ambiguous belongs in notes
    1 error, no warnings (120 files, 345 rows)

    {"findings": [{"rule", "severity", "path", "line", "pointer", "message", "hint"}],
     "summary": {"errors", "warnings", "info", "files", "rows"}}

Source: DESIGN section 5.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyberos.doctor.findings import Finding, Report

_MANY = 40  # so many findings of one rule are summed up
_SHOWN = 10  # after so many of them


def document(report: Report) -> dict[str, Any]:
    """Give the JSON document as Python values."""
    return {"findings": [finding._asdict() for finding in report.findings], "summary": report.summary}


def lines(report: Report) -> Iterator[str]:
    """Give the text line by line, the summary last. Forty findings of one rule or more: the first ten, and a count."""
    counts = Counter(finding.rule for finding in report.findings)
    shown: Counter[str] = Counter()
    for finding in report.findings:
        rule = finding.rule
        shown[rule] += 1
        if counts[rule] < _MANY or shown[rule] <= _SHOWN:
            yield from _spell(finding)
        elif shown[rule] == counts[rule]:
            yield f"... {rule}: {counts[rule] - _SHOWN:,} more like these; `--format json` lists them all"
    yield _summary(report)


def _spell(finding: Finding) -> Iterator[str]:
    level = "" if finding.severity == "error" else f"{finding.severity}: "
    yield _flat(f"{finding.path}:{finding.line}: {finding.rule} {level}{finding.message}")
    if finding.hint:
        yield _flat(f"  hint: {finding.hint}")


def _flat(text: str) -> str:
    """Keep to one line whatever a path or a value holds."""
    return text.replace("\n", "\\n").replace("\t", "\\t")


def _summary(report: Report) -> str:
    counts = report.summary
    found = [_count(counts["errors"], "error"), _count(counts["warnings"], "warning")]
    if counts["info"]:
        found.append(f"{counts['info']:,} info")
    return f"{', '.join(found)} ({_count(counts['files'], 'file')}, {_count(counts['rows'], 'row')})"


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{f'{number:,}' if number else 'no'} {name}s"
