"""Canonical JSON: one value has one spelling.

A ledger row is compact ASCII (`{"a":1,"b":[0.5]}`), keys sorted at every depth. A float is Python's shortest
repr, expanded without an exponent and always with a point (`1e-05` is `0.00001`, `-0.0` is `0.0`), because YAML
readers take `1e-05` for a string. NaN and Infinity do not exist; integers stay within ±(2^53 - 1), which every
JSON reader keeps exact. Duplicate keys are refused when reading: two readers would disagree on the value.

Source: RFC 8259; RFC 8785 for the idea; DESIGN section 3 for the spelling of floats.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

MAX_INTEGER = 2**53 - 1


def format_float(value: float) -> str:
    """Spell a finite float without exponent and with a point; the inverse is `float`."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN is not itself
        raise ValueError("NaN and Infinity have no JSON spelling")
    if value == 0:
        return "0.0"
    text = repr(value)
    if "e" not in text:
        return text
    from decimal import Decimal

    text = format(Decimal(text), "f")
    return text if "." in text else text + ".0"


def dump(value: Any) -> str:
    """Give the canonical compact ASCII JSON of `value`. Raises: ValueError for what JSON cannot hold."""
    text = _COMPACT.encode(value)
    # json spells a float by its repr, which is ours too but for exponents and the negative zero
    may_have_odd_float = "e-" in text or "e+" in text or "-0.0" in text  # in a string it only costs time
    return _dump(value) if may_have_odd_float else text


_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def _dump(value: Any) -> str:
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_dump(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_dump(item) for item in value) + "]"
    return json.dumps(value)


def load(text: str) -> Any:
    """Read JSON strictly. Raises: ValueError for a duplicate key, NaN, Infinity, or text that is not JSON."""
    try:
        return _decoder().decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


_DECODER: json.JSONDecoder | None = None


def _decoder() -> json.JSONDecoder:
    global _DECODER  # noqa: PLW0603 - built once, on first use
    if _DECODER is None:
        _DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_integer)
    return _DECODER


def _integer(text: str) -> int:
    # a number of thousands of digits is refused before Python spends quadratic time on it
    if len(text) > len(str(MAX_INTEGER)) + 1 or abs(value := int(text)) > MAX_INTEGER:
        raise ValueError(f"the integer {text[:20]} is beyond 2^53 - 1")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} stands twice")
            seen.add(key)
    return made
