"""Findings as JUnit XML, for the test reports of CI servers.

    <testsuites …><testsuite name="cyberos doctor" tests="2" failures="1" errors="0" skipped="0">
      <testcase classname="ledger-hash" name="holds"/>
      <testcase classname="memory-modified" name="memories/…md:1"><failure type="memory-modified" …>…</failure>…

A rule that nothing broke is a test that passed; each finding of level error is one that failed. Warnings and
information are skipped tests, since they do not make the doctor fail either. A check that crashed is an error.

Source: DESIGN section 5; the junit-10.xsd of Jenkins' xunit plugin; XML 1.0 section 2.2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cyberos.core.render import escape

if TYPE_CHECKING:
    from collections.abc import Iterable
    from xml.etree.ElementTree import Element

    from cyberos.doctor.findings import Finding, Report

_CRASH = "doctor-check-crashed"
_NO_XML = re.compile("[\ufffe\uffff]")  # what XML cannot hold and `escape` leaves as it is


def document(report: Report, folder: str, rules: Iterable[str]) -> str:
    """Give the XML text; `folder` is the vault's in its repository, empty or ending in a slash."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    broken = {finding.rule for finding in report.findings}
    kept = [rule for rule in rules if rule not in broken]
    kinds = [_kind(finding) for finding in report.findings]
    counts = {
        "tests": str(len(kept) + len(kinds)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
    }
    top = Element("testsuites", {"name": "cyberos doctor"} | counts)
    suite = SubElement(top, "testsuite", {"name": "cyberos doctor"} | counts | {"skipped": str(kinds.count("skipped"))})
    for finding, kind in zip(report.findings, kinds, strict=True):
        _add(suite, finding, kind, folder)
    for rule in kept:
        SubElement(suite, "testcase", {"classname": rule, "name": "holds"})
    indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(top, encoding="unicode")}\n'


def _add(suite: Element, finding: Finding, kind: str, folder: str) -> None:
    from xml.etree.ElementTree import SubElement

    place = _clean(f"{folder}{finding.path}:{finding.line}")
    case = SubElement(suite, "testcase", {"classname": finding.rule, "name": place})
    told = SubElement(case, kind, {"type": finding.rule, "message": _clean(finding.message)})
    told.text = _clean(f"{place}: {finding.message}" + (f"\nhint: {finding.hint}" if finding.hint else ""))


def _kind(finding: Finding) -> str:
    if finding.severity != "error":
        return "skipped"
    return "error" if finding.rule == _CRASH else "failure"


def _clean(text: str) -> str:
    return _NO_XML.sub(lambda found: f"\\u{{{ord(found.group()):x}}}", escape(text))
