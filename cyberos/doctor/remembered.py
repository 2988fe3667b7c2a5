"""The report of the last whole examination, for the exact state of the vault that it was about.

Source: DESIGN section 5.
"""

from __future__ import annotations

import json

from cyberos.core import layout
from cyberos.doctor import keeping
from cyberos.doctor.findings import Finding, Report

PATH = f"{layout.PRIVATE}/last-report"
_MOST = 1_000  # findings that are worth keeping


def load(root: str, key: bytes) -> Report | None:
    """Give the report on the state that `key` is the digest of."""
    rest = keeping.kept(root, PATH)
    if rest is None or not rest.startswith(key + b"\n"):
        return None
    try:
        found, files, rows = json.loads(rest[len(key) + 1 :])
        return Report([Finding(*one) for one in found], files, rows)
    except (ValueError, TypeError):
        return None


def save(root: str, key: bytes, report: Report) -> None:
    """Keep a report on the state that `key` is the digest of."""
    if len(report.findings) <= _MOST:
        keeping.keep(root, PATH, key + b"\n" + json.dumps([report.findings, report.files, report.rows]).encode())
