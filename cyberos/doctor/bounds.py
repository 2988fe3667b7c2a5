"""What a team's own rule may cost: a schema that stays in its file and ends soon on any memory.

    patterns   judged by jsonschema-rs' linear engine alone, never by Python's backtracking one
    $ref       a pointer such as #/$defs/ticket into the same schema, and never round in a circle
    size       1,000 subschemas at most when every $ref is written out, 2,000 in a vault
    speech     20 breaches of a rule in a file

Source: DESIGN section 5; docs.rs/regex "Untrusted input".
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from cyberos.core import contract

if TYPE_CHECKING:
    from collections.abc import Iterator

    import jsonschema
    import jsonschema_rs

MAX_COST = 1_000
MAX_TOTAL_COST = 2_000
MAX_BREACHES = 20
# what names another base, another dialect, or a second way to say the same with Python's own patterns
_REFUSED = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "patternProperties")


def cost(schema: dict[str, Any]) -> int:
    """Count the subschemas that a judgement may visit. Raises: ValueError for one that is refused or too large."""
    found = _Walk(schema).cost(schema)
    if found > MAX_COST:
        raise ValueError(f"it asks for {found:,} subschemas when every $ref is written out; {MAX_COST:,} is the limit")
    return found


class _Walk:
    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self.known: dict[str, int] = {}
        self.open: set[str] = set()

    def cost(self, node: Any) -> int:
        if isinstance(node, list):
            return sum(map(self.cost, node))
        if not isinstance(node, dict):
            return 0
        total = 1
        for key, value in node.items():
            if key in _REFUSED and (isinstance(value, str) or key == "patternProperties"):
                raise ValueError(f"a rule has no {key}" + _instead(key))
            if key == "$schema" and node is not self.schema and isinstance(value, str):
                raise ValueError("a $schema stands at the top alone")
            if key == "$ref" and isinstance(value, str):
                total += self.cost_of_ref(value)
            elif key not in ("$defs", "definitions"):  # those count where they are used
                total += self.cost(value)
        return total

    def cost_of_ref(self, ref: str) -> int:
        if ref in self.open:
            raise ValueError(f"{ref} leads back to itself; memories are flat, nothing in them needs that")
        if ref not in self.known:
            self.open.add(ref)
            self.known[ref] = self.cost(self._target(ref))
            self.open.discard(ref)
        return self.known[ref]

    def _target(self, ref: str) -> Any:
        if not ref.startswith("#/"):
            raise ValueError(f"{ref!r} is no pointer such as #/$defs/name")
        node: Any = self.schema
        for step in ref[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or name not in node:
                raise ValueError(f"{ref} points to nothing")
            node = node[name]
        return node


def _instead(key: str) -> str:
    return "; name the properties, or use propertyNames" if key == "patternProperties" else "; it stays in its own file"


def fast_validator(schema: Any) -> jsonschema_rs.Draft202012Validator:
    """Compile a schema whose patterns are linear and which fetches nothing. Raises: ValueError."""
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(
        schema, pattern_options=jsonschema_rs.RegexOptions(), retriever=_refuse_to_fetch
    )


def _refuse_to_fetch(address: str) -> Any:
    raise ValueError(f"{address} is not fetched")


@cache
def strict_validator() -> type[jsonschema.protocols.Validator]:
    """Give the strict validator class of the contract, with patterns judged by the linear engine."""
    import jsonschema

    def pattern(_: Any, wanted: str, value: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
        if isinstance(value, str) and not _matches(wanted, value):
            yield jsonschema.ValidationError(f"{value!r} does not match {wanted!r}")

    made: type[jsonschema.protocols.Validator] = jsonschema.validators.extend(
        contract.strict_validator(), validators={"pattern": pattern}
    )
    return made


def _matches(pattern: str, value: str) -> bool:
    try:
        return bool(_compiled(pattern).is_valid(value))
    except ValueError:  # half of a surrogate pair is no text that a pattern could fit
        return False


@cache
def _compiled(pattern: str) -> jsonschema_rs.Draft202012Validator:
    return fast_validator({"pattern": pattern})
