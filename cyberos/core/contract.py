"""The law of a vault: `memory.schema.json` (what data may be) and `memory.invariants.yaml` (what the doctor enforces).

The verdict on a frontmatter comes from jsonschema-rs, compiled once. Only when it says no does jsonschema supply the
errors, each turned into the rule that selects it by pointer and keyword; if jsonschema names nothing, the fast
verdict stands with its own message. `integer` is strict here: a number written `1.0` or `1e3` is none.

Source: DESIGN section 5; JSON Schema 2020-12.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import canonical
from cyberos.core.errors import ContractError, InvalidMemory
from cyberos.core.layout import EPISODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import jsonschema
    import jsonschema_rs

SCHEMA_NAME = "memory.schema.json"
INVARIANTS_NAME = "memory.invariants.yaml"
SEVERITIES = ("error", "warning", "info")
_SHOWN = 60  # characters of a wrong value that a message repeats
SCOPES = ("file", "ledger", "vault", "git")


class Rule(NamedTuple):
    """One invariant. Exactly one of `select`, `schema` and `check` says how it is judged.

    `why`, `bad` and `good` explain it: why it exists, what breaks it, and how that looks when it is right.
    """

    id: str
    severity: str
    scope: str
    description: str
    hint: str | None = None
    fix: str | None = None
    why: str | None = None
    bad: str | None = None
    good: str | None = None
    select: dict[str, Any] | None = None
    schema: dict[str, Any] | None = None
    check: str | None = None


class Problem(NamedTuple):
    """One way in which a frontmatter breaks the law."""

    rule: str
    pointer: str
    message: str


def law_file(name: str) -> str:
    """Find one of the two law files: in the installed package, or at the top of a source tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(here, name)
    return installed if os.path.isfile(installed) else os.path.join(os.path.dirname(os.path.dirname(here)), name)


def read_law(name: str) -> bytes:
    """Read one of the two law files as it is installed. Raises: OSError."""
    with open(law_file(name), "rb") as handle:
        return handle.read()


@cache
def schema() -> dict[str, Any]:
    """Load the data law. Raises: ContractError when the file is missing or no JSON."""
    path = law_file(SCHEMA_NAME)
    try:
        loaded: dict[str, Any] = canonical.load(read_law(SCHEMA_NAME).decode())
    except (OSError, ValueError) as error:
        raise ContractError(path, str(error), is_ours=True) from None
    return loaded


@cache
def rules() -> dict[str, Rule]:
    """Load the rules by id, in the order of the file. Raises: ContractError when they cannot be used."""
    path = law_file(INVARIANTS_NAME)
    try:
        text = read_law(INVARIANTS_NAME).decode()
    except (OSError, ValueError) as error:
        raise ContractError(path, str(error), is_ours=True) from None
    return {rule.id: rule for rule in parse_rules(text, path)}


def parse_rules(text: str, source: str) -> list[Rule]:
    """Read an invariants file. Raises: ContractError naming the rule and what is wrong with it."""
    import yaml

    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ContractError(source, f"not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict) or not isinstance(document.get("rules"), list):
        raise ContractError(source, "expected a mapping with a list `rules`")
    return [_parse_rule(entry, source) for entry in document["rules"]]


def _parse_rule(entry: Any, source: str) -> Rule:
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        raise ContractError(source, f"a rule is a mapping with an `id`, not {entry!r}")
    unknown = set(entry) - set(Rule._fields)
    missing = {"severity", "scope", "description"} - set(entry)
    if unknown or missing:
        raise ContractError(source, f"{entry['id']}: unknown {sorted(unknown)}, missing {sorted(missing)}")
    if entry["severity"] not in SEVERITIES or entry["scope"] not in SCOPES:
        raise ContractError(source, f"{entry['id']}: severity is one of {SEVERITIES}, scope one of {SCOPES}")
    if sum(key in entry for key in ("select", "schema", "check")) != 1:
        raise ContractError(source, f"{entry['id']}: give exactly one of select, schema, check")
    return Rule(**entry)


def episode_fields() -> tuple[str, ...]:
    """Name the fields of an episode, in the order of the schema."""
    return tuple(schema()["$defs"]["EpisodeFrontmatter"]["properties"])


@cache
def _integer_fields() -> frozenset[str]:
    properties = schema()["$defs"]["EpisodeFrontmatter"]["properties"]
    return frozenset(name for name, law in properties.items() if law.get("type") == "integer")


@cache
def _fast() -> jsonschema_rs.Draft202012Validator:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(schema())


def is_valid(frontmatter: dict[str, Any]) -> bool:
    """Report whether the data law accepts a frontmatter (about 2 µs)."""
    if frontmatter.get("kind") == EPISODE:
        for name in _integer_fields():
            if type(frontmatter.get(name)) is float:
                return False
    try:
        verdict = _fast().is_valid(frontmatter)
    except ValueError:  # YAML reads what JSON has not, a date or a key that is no text: only the slow one takes it
        verdict = _slow().is_valid(frontmatter)
    return verdict and _has_real_time(frontmatter)


def _has_real_time(frontmatter: dict[str, Any]) -> bool:
    # the schema bounds the digits of a date; that February has no 30th is the calendar's to say
    moment = frontmatter.get("occurred_at")
    if not isinstance(moment, str) or frontmatter.get("kind") != EPISODE:
        return True
    from datetime import datetime

    try:
        datetime.fromisoformat(moment)
    except ValueError:
        return False
    return True


def problems(frontmatter: dict[str, Any]) -> list[Problem]:
    """List every way in which a frontmatter breaks the data law, each under the rule that selects it."""
    if is_valid(frontmatter):
        return []
    found = list(dict.fromkeys(_problems(frontmatter)))
    if not found and not _has_real_time(frontmatter):
        return [
            Problem("episode-occurred-at", "/occurred_at", f"occurred_at is {frontmatter['occurred_at']!r}, no date")
        ]
    return found or [Problem("frontmatter-schema", "", str(next(_fast().iter_errors(frontmatter), "not valid")))]


def check(frontmatter: dict[str, Any], path: str | None = None) -> None:
    """Refuse a frontmatter that breaks the law. Raises: InvalidMemory for the first problem."""
    if is_valid(frontmatter):
        return
    first = problems(frontmatter)[0]
    hint = rules()[first.rule].hint
    raise InvalidMemory(first.rule, first.message, path=path, pointer=first.pointer, advice=hint)


@cache
def strict_validator() -> type[jsonschema.protocols.Validator]:
    """Give jsonschema's 2020-12 validator class with the strict `integer`."""
    import jsonschema

    def is_integer(_: Any, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    checker = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", is_integer)
    made: type[jsonschema.protocols.Validator] = jsonschema.validators.extend(
        jsonschema.Draft202012Validator, type_checker=checker
    )
    return made


@cache
def _slow() -> jsonschema.protocols.Validator:
    return strict_validator()(schema())


def _problems(frontmatter: dict[str, Any]) -> Iterator[Problem]:
    kind = EPISODE if frontmatter.get("kind") == EPISODE else "other"
    for error in _slow().iter_errors(frontmatter):
        for pointer, keyword, message in _spell(error):
            yield Problem(_select(kind, pointer, keyword), pointer, message)


def _spell(error: jsonschema.ValidationError) -> Iterator[tuple[str, str, str]]:
    pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in error.absolute_path)
    name = pointer.removeprefix("/") or "the frontmatter"
    value = _show(error.instance)
    if error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        for key in missing:
            yield f"{pointer}/{key}", "required", f"{key} is missing"
    elif error.validator in ("enum", "const"):
        allowed = error.validator_value if error.validator == "enum" else [error.validator_value]
        yield pointer, error.validator, f"{name} is {value}; it must be one of {', '.join(map(str, allowed))}"
    elif error.validator == "type":
        wanted = error.validator_value
        wanted = " or ".join(wanted) if isinstance(wanted, list) else wanted
        yield pointer, "type", f"{name} is {value}; it must be of type {wanted}"
    elif error.validator in ("minimum", "not"):
        yield pointer, error.validator, f"{name} is {value}; it must be a number of at least 0"
    elif error.validator == "maximum":
        yield pointer, "maximum", f"{name} is {value}; it must be at most {error.validator_value}"
    elif error.validator == "pattern" and error.validator_value.startswith("[^"):
        yield pointer, "pattern", f"{name} is blank"
    elif error.validator == "pattern":
        yield pointer, "pattern", f"{name} is {value}; it must look like 2026-11-30T17:08:03Z"
    else:
        yield pointer, str(error.validator), error.message


def _show(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"


def _select(kind: str, pointer: str, keyword: str) -> str:
    """Name the first rule whose `select` fits: its `kind`, `at` and `keyword` each equal or absent."""
    for rule in rules().values():
        chosen = rule.select
        if chosen is None or chosen.get("kind", kind) != kind:
            continue
        if _fits(chosen.get("at"), pointer) and _fits(chosen.get("keyword"), keyword):
            return rule.id
    raise ContractError(INVARIANTS_NAME, f"no rule selects {keyword} at {pointer}")


def _fits(wanted: str | list[str] | None, actual: str) -> bool:
    if wanted is None:
        return True
    return actual in wanted if isinstance(wanted, list) else actual == wanted
