"""Times that a user types: a span back from now, or a date."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from cyberos.core.settings import half_life_days

HOUR_US = 3_600_000_000
_DAY_US = 24 * HOUR_US


def since(when: str | None, now_us: int) -> int | None:
    """Read `7d`, `2026-11-30` or a full time, as microseconds since 1970. Raises: click.UsageError."""
    if when is None:
        return None
    from cyberos.index.bodies import moment_of

    try:
        return now_us - round(half_life_days(when) * _DAY_US)
    except (ValueError, OverflowError):
        moment = moment_of(when)
    if moment is None:
        raise click.UsageError(f"--since {when!r}: a span such as 7d, or a date such as 2026-11-30")
    return moment


def shown(moment_us: int) -> str:
    """Give microseconds since 1970 as `2026-11-30T17:08:03Z`."""
    return datetime.fromtimestamp(moment_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
