"""The answer of a recall as text for a human: what was tried, how it really went, and who says so.

    1  Fix the flaky login test                                             0.912
       success, verified by a test: pytest -q -> exit 0
       tried    freeze the clock in the fixture
       lesson   CI has no clock; inject one
       memories/episodes/d4/12/d4127a3b-1f2c3d.md, last seen 2026-11-30, relevance 0.78
       this task in the vault: 1 success, 2 failure

Source: DESIGN sections 6 and 8 (verified or claimed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyberos.core.render import counted, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = 100


def lines(answer: dict[str, Any]) -> Iterator[str]:
    """Give the answer line by line, unescaped."""
    for number, match in enumerate(answer["matches"], 1):
        yield f"{number}  {_flat(match['task'])}"
        yield f"   {verdict(match)}"
        for name, key in (("tried", "approach"), ("lesson", "lesson"), ("notes", "notes")):
            if match[key]:
                yield f"   {name:<8} {_flat(match[key])}"
        yield (
            f"   {match['path']}, last seen {match['last_seen_at'][:10]}, "
            f"score {match['combined_score']:.3f}, relevance {match['relevance']:.3f}, recency {match['recency']:.3f}"
        )
        if sum(match["history"].values()) > 1:
            yield f"   this task in the vault: {counted(match['history'])}"
        if "factors" in match:
            yield f"   {_told(match['factors'])}"
        yield ""
    if not answer["matches"]:
        yield _nothing(answer)
    yield from remarks(answer)


def _told(factors: dict[str, Any]) -> str:
    parts = []
    for name, value in factors.items():
        inner = value.items() if isinstance(value, dict) else ()
        parts += [f"{name} of {key} {number:g}" for key, number in inner]
        parts += [] if inner else [f"{name} {value:.4g}"]
    return ", ".join(parts).replace("_", " ")


def _nothing(answer: dict[str, Any]) -> str:
    if answer["reason"] == "no_episodes_in_store":
        return "nothing found: the vault holds no episodes yet"
    if answer["below_cutoff"]:
        return (
            f"nothing found: {_counted(answer['below_cutoff'])} with words of it, not enough to be a repeat; "
            "--min-relevance lowers the cut"
        )
    return "nothing found: no episode shares a telling word with it"


def remarks(answer: dict[str, Any]) -> Iterator[str]:
    """Say what was not searched, what searched, and why it was no better one."""
    if answer["unseen"]:
        yield (
            f"{_counted(answer['unseen'])} not searched in full: file missing or changed (`cyberos doctor` names it), "
            "or not indexed yet (`cyberos index` does it)"
        )
    yield f"searched by {answer['backend']}" + (f": {answer['degraded']}" if answer["degraded"] else "")


def _counted(number: int) -> str:
    return f"{number:,} episode" + ("" if number == 1 else "s")


def _flat(text: str) -> str:
    """Put a text on one line, cut to a bearable length."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 3 * _WIDTH else f"{flat[: 3 * _WIDTH]}…"
