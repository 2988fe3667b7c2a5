"""The six labels of an episode, derived from its fields and never stored.

A success that nobody checked is a claimed one: the agent's own word, and an LLM judge's, count for less than a test,
an exit code or the user.

Source: seed 000 section 3 (outcome labelling); DESIGN section 2.
"""

from __future__ import annotations

from typing import Any

LABELS = ("success", "claimed_success", "partial", "failure", "abandoned", "unknown")
VERIFIED = ("test", "exit_code", "user")


def label(frontmatter: dict[str, Any]) -> str:
    """Derive the label of an episode from its frontmatter."""
    ended = frontmatter.get("ended", "completed")
    if ended in ("abandoned", "unknown"):
        return str(ended)
    if frontmatter["outcome"] == "success" and frontmatter.get("evidence", "none") not in VERIFIED:
        return "claimed_success"
    return str(frontmatter["outcome"])
