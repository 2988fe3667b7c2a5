"""Findings as a SARIF 2.1.0 log, for code scanning.

    {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "cyberos", "rules": [{"id", "help", …}]}},
      "results": [{"ruleId", "level", "message", "locations": [{"physicalLocation": …}], "partialFingerprints": …}]}]}

A location's URI is relative to the repository, under the base `%SRCROOT%`. A fingerprint is made of rule, path, pointer
and message, not of the line, so that a finding that moves is not a new one; equal ones are counted.

Source: DESIGN section 5; OASIS SARIF 2.1.0 with Errata 01; GitHub "SARIF support for code scanning".
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cyberos.core.render import escape
from cyberos.doctor import explanation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cyberos.core.contract import Rule
    from cyberos.doctor.findings import Finding, Report

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVEL = {"error": "error", "warning": "warning", "info": "note"}


def document(report: Report, folder: str, rules: Mapping[str, Rule], version: str) -> dict[str, Any]:
    """Give the log as Python values; `folder` is the vault's in its repository, empty or ending in a slash.

    `rules` are the installed ones and the team's. All are listed, also those that found nothing.
    """
    places = {name: number for number, name in enumerate(rules)}
    equal: Counter[str] = Counter()
    url = explanation.rules_url()
    driver = {
        "name": "cyberos",
        "fullName": "cyberos doctor",
        "version": version,
        "semanticVersion": version,
        "rules": [_rule(rule, url) for rule in rules.values()],
    }
    run = {
        "tool": {"driver": driver | ({"informationUri": url} if url else {})},
        "invocations": [{"executionSuccessful": True, "exitCode": 1 if report.count("error") else 0}],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The top folder of the repository."}}},
        "results": [_result(finding, folder, places, equal) for finding in report.findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule, url: str | None) -> dict[str, Any]:
    made = {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.split("-")),
        "shortDescription": {"text": rule.description},
        "fullDescription": {"text": " ".join(filter(None, (rule.description, rule.why)))},
        "help": {"text": explanation.text(rule), "markdown": explanation.markdown(rule)},
        "defaultConfiguration": {"level": _LEVEL[rule.severity]},
        "properties": {"tags": [rule.scope]},
    }
    return made | ({"helpUri": f"{url}#{rule.id}"} if url else {})


def _result(finding: Finding, folder: str, places: Mapping[str, int], equal: Counter[str]) -> dict[str, Any]:
    text = finding.message + (f"\nhint: {finding.hint}" if finding.hint else "")
    told = f"{finding.rule}\0{finding.path}\0{finding.pointer}\0{finding.message}"
    digest = sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    equal[digest] += 1
    place: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(folder + finding.path), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": finding.line},
        }
    }
    if finding.pointer:
        place["logicalLocations"] = [{"fullyQualifiedName": escape(finding.pointer), "kind": "member"}]
    made = {
        "ruleId": finding.rule,
        "level": _LEVEL[finding.severity],
        "message": {"text": escape(text)},
        "locations": [place],
        "partialFingerprints": {"primaryLocationLineHash": f"{digest}:{equal[digest]}"},
    }
    return made | ({"ruleIndex": places[finding.rule]} if finding.rule in places else {})


def _uri(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"), safe="/")
