"""Findings as text for people, on stderr.

    memories/episodes/…md:7: episode-outcome-closed-enum outcome is 'great'; it must be one of success, partial, failure
      hint: choose one; what is ambiguous belongs in notes
    why: `cyberos doctor --explain episode-outcome-closed-enum`
    1 error, no warnings (120 files, 345 rows)

A hint stands once, under the first finding that it helps; where it helps several it says PATH for their paths. What a
path or a value holds is escaped, so that only `paint` can speak to the terminal.

Source: DESIGN sections 5, 8 and 10.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cyberos.core.render import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cyberos.doctor.findings import Finding, Report

    # gives a text as it is to look in a role: "path", "error", "warning", "info" or "hint"
    Paint = Callable[[str, str], str]

_MANY = 40  # so many findings of one rule are summed up
_SHOWN = 10  # after so many of them


def _plain(text: str, _: str) -> str:
    return text


def lines(report: Report, paint: Paint = _plain) -> Iterator[str]:
    """Give the text line by line, the summary last. Forty findings of one rule or more: the first ten, and a count."""
    counts = Counter(finding.rule for finding in report.findings)
    hints = Counter(map(_advice, report.findings))
    shown: Counter[str] = Counter()
    for finding in report.findings:
        rule, advice = finding.rule, _advice(finding)
        shown[rule] += 1
        if counts[rule] < _MANY or shown[rule] <= _SHOWN:
            yield _spell(finding, paint)
            if finding.hint and hints[advice]:
                hint = finding.hint if hints[advice] == 1 else advice[1]
                yield f"  {paint('hint:', 'hint')} {_flat(hint)}"
                hints[advice] = 0  # said
        elif shown[rule] == counts[rule]:
            more = f"{counts[rule] - _SHOWN:,} more like these; `--format json` lists them all"
            yield f"... {paint(rule, finding.severity)}: {more}"
    wrong = list(dict.fromkeys(finding.rule for finding in report.findings if finding.severity == "error"))
    if wrong:
        also = "" if len(wrong) == 1 else ", or another id, or all"
        yield f"{paint('why:', 'hint')} `cyberos doctor --explain {wrong[0]}`{also}"
    yield _summary(report)


def _advice(finding: Finding) -> tuple[str, str]:
    """Give a finding's rule and its hint without the path, which is what findings of one kind share."""
    return finding.rule, (finding.hint or "").replace(finding.path, "PATH")


def _spell(finding: Finding, paint: Paint) -> str:
    level = "" if finding.severity == "error" else f"{finding.severity}: "
    place = paint(_flat(f"{finding.path}:{finding.line}:"), "path")
    return f"{place} {paint(finding.rule, finding.severity)} {level}{_flat(finding.message)}"


def _flat(text: str) -> str:
    """Keep to one line, and away from the terminal, whatever a path or a value holds."""
    return escape(text.replace("\n", "\\n").replace("\t", "\\t"))


def _summary(report: Report) -> str:
    told = report.summary
    found = [_count(told["errors"], "error"), _count(told["warnings"], "warning")]
    if told["info"]:
        found.append(f"{told['info']:,} info")
    return f"{', '.join(found)} ({_count(told['files'], 'file')}, {_count(told['rows'], 'row')})"


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{f'{number:,}' if number else 'no'} {name}s"
