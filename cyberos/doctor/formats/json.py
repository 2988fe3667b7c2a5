"""Findings as one JSON document, for programs.

    {"findings": [{"rule", "severity", "path", "line", "pointer", "message", "hint"}],
     "summary": {"errors", "warnings", "info", "files", "rows"}}

Paths are relative to the vault.

Source: DESIGN section 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyberos.doctor.findings import Report


def document(report: Report) -> dict[str, Any]:
    """Give the JSON document as Python values."""
    return {"findings": [finding._asdict() for finding in report.findings], "summary": report.summary}
