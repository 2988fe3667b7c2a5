"""The vault's own `memory.invariants.yaml`: rules that a team adds to the installed ones, and never in their place.

    version: 1
    rules:
      - id: our-ticket-in-tags
        severity: warning
        scope: file
        description: An episode names its ticket.
        schema: {kind: episode, frontmatter: {required: [tags]}}

A rule is a `schema` (a JSON Schema on the frontmatter, of one kind or of all), a `select` (errors of the data law) or
a `check` (an installed check). What it finds is reported beside what the installed rules find. A file that cannot be
used is `contract-valid`, one that would change an installed rule or look elsewhere for it is `contract-weakened`; then
none of its rules runs.

Source: DESIGN sections 1 and 5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core import contract
from cyberos.core.errors import ContractError, UnsafePath
from cyberos.core.files import Files
from cyberos.core.layout import EPISODE, OLD_KINDS
from cyberos.doctor import bounds
from cyberos.doctor.findings import Finding, finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import jsonschema
    import jsonschema_rs

    from cyberos.core.contract import Rule

CHECKS = ("contract-valid", "contract-weakened")
PATH = contract.INVARIANTS_NAME
MAX_BYTES = 256 * 1024
_MAX_RULES = 200
_MAX_DEPTH = 32
_MAX_SCALAR = 8 * 1024
_ID = re.compile(r"[a-z][a-z0-9-]{0,79}")
_DRAFT = "https://json-schema.org/draft/2020-12/schema"

# what a `schema` or `select` rule asks of a frontmatter: (pointer, message) for each breach
Law = Callable[[dict[str, Any]], Iterator[tuple[str, str]]]


class Team(NamedTuple):
    """A team's rules by id, the laws of those that have one, those that name an installed check, and what laws cost."""

    rules: dict[str, Rule]
    laws: list[tuple[Rule, Law]]
    names: dict[str, list[Rule]]
    costs: list[int]

    def judge(self, values: dict[str, Any]) -> Iterator[tuple[Rule, str, str]]:
        """Give (rule, pointer, message) for each breach of the team's laws."""
        for rule, law in self.laws:
            for pointer, message in islice(law(values), bounds.MAX_BREACHES):
                yield rule, pointer, message

    def echo(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Repeat what installed checks found under the team's names for them."""
        for found in findings:
            for rule in self.names.get(found.rule, ()):
                yield found._replace(rule=rule.id, severity=rule.severity, hint=rule.hint or found.hint)


NONE = Team({}, [], {}, [])


def load(root: str, checks: Collection[str]) -> tuple[Team, list[Finding]]:
    """Read the team's rules in the working tree; see `read`."""
    try:
        blob = Files(root).read(PATH, MAX_BYTES + 1)
    except FileNotFoundError:
        return NONE, []
    except (OSError, UnsafePath) as error:
        return unusable(str(getattr(error, "reason", None) or error))
    return read(blob, checks)


def unusable(message: str) -> tuple[Team, list[Finding]]:
    """Give no rules, and the finding that says why."""
    return NONE, [finding("contract-valid", PATH, message)]


def read(blob: bytes, checks: Collection[str]) -> tuple[Team, list[Finding]]:
    """Read the team's rules, which may name these checks; with any finding there are none."""
    if blob == contract.read_law(contract.INVARIANTS_NAME):
        return NONE, []  # the repository of cyberos itself, whose law is the installed one
    try:
        text = _checked(blob)
        rules = contract.parse_rules(text, PATH)
    except ContractError as error:
        return unusable(error.message)
    except (ValueError, TypeError, RecursionError) as error:
        return unusable(f"cannot be read: {type(error).__name__}")
    return _build(rules, text, checks)


def _checked(blob: bytes) -> str:
    """Decode the file, and refuse what could blow up in the reading. Raises: ContractError, UnicodeDecodeError."""
    import yaml

    if len(blob) > MAX_BYTES:
        raise ContractError(PATH, f"takes more than {MAX_BYTES:,} bytes")
    text = blob.decode("utf-8")
    depth = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise ContractError(PATH, "it uses a YAML anchor or alias")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH or len(getattr(event, "value", "")) > _MAX_SCALAR:
                raise ContractError(
                    PATH, f"nested deeper than {_MAX_DEPTH}, or a text above {_MAX_SCALAR:,} characters"
                )
    except yaml.YAMLError as error:
        raise ContractError(PATH, f"not YAML: {' '.join(str(error).split())}") from None
    return text


def _build(rules: list[Rule], text: str, checks: Collection[str]) -> tuple[Team, list[Finding]]:
    if len(rules) > _MAX_RULES:
        return unusable(f"{len(rules):,} rules; {_MAX_RULES} is the limit")
    made = Team({}, [], {}, [])
    found: list[Finding] = []
    for rule in rules:
        if rule == contract.rules().get(rule.id):
            continue  # said again, word for word
        fault = _weakening(rule) or _fault(rule, made, checks)
        if fault is None:
            made.rules[rule.id] = rule
        else:
            line = re.search(rf"^[\s-]*id:\s*[\"']?{re.escape(rule.id)}\b", text, re.MULTILINE)
            number = text.count("\n", 0, line.end()) + 1 if line else 1
            found.append(finding(fault[0], PATH, f"{rule.id}: {fault[1]}", line=number))
    return (NONE, found) if found else (made, [])


def _weakening(rule: Rule) -> tuple[str, str] | None:
    installed = contract.rules().get(rule.id)
    if installed is not None:
        levels = contract.SEVERITIES
        is_lower = levels.index(rule.severity) > levels.index(installed.severity)
        what = f"lowers an installed rule from {installed.severity} to {rule.severity}" if is_lower else "is taken"
        return "contract-weakened", f"this id {what}; an installed rule cannot be changed"
    remote = next(_remote_refs(rule.schema), None)
    if remote is not None:
        return "contract-weakened", f"refers to {remote!r}; a rule refers to nothing outside itself"
    return None


def _remote_refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(item, str) and not item.startswith("#"):
                yield item
            yield from _remote_refs(item)
    elif isinstance(value, list):
        for item in value:
            yield from _remote_refs(item)


def _fault(rule: Rule, made: Team, checks: Collection[str]) -> tuple[str, str] | None:
    """Add a rule's law to `made`, or say why it cannot be used."""
    if not _ID.fullmatch(rule.id) or rule.id in made.rules:
        return "contract-valid", "an id is of a-z, 0-9 and dashes, and stands once"
    if not all(isinstance(getattr(rule, name), str | None) for name in _TEXTS):
        return "contract-valid", f"{', '.join(_TEXTS)} are texts"
    if rule.check is not None:
        if rule.check not in checks:
            return "contract-valid", f"there is no check {rule.check!r}"
        made.names.setdefault(rule.check, []).append(rule)
        return None
    if rule.scope != "file":
        return "contract-valid", "a rule with `schema` or `select` has the scope file"
    try:
        made.costs.append(bounds.cost(_frontmatter_of(rule.schema)) if rule.schema is not None else 1)
        if sum(made.costs) > bounds.MAX_TOTAL_COST:
            raise ValueError(f"the rules up to here ask for more than {bounds.MAX_TOTAL_COST:,} subschemas together")
        law = _schema_law(rule.schema) if rule.schema is not None else _select_law(rule.select)
    except ValueError as error:
        return "contract-valid", " ".join(str(error).split())
    made.laws.append((rule, law))
    return None


_TEXTS = ("description", "hint", "why", "bad", "good", "fix")


def _frontmatter_of(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict) or not isinstance(given.get("frontmatter"), dict) or given.keys() - _SCHEMA_KEYS:
        raise ValueError("`schema` is {kind: …, frontmatter: {a JSON Schema}}; kind may be left out")
    found: dict[str, Any] = given["frontmatter"]
    return found


def _schema_law(given: dict[str, Any]) -> Law:
    """Compile `{kind: …, frontmatter: {a JSON Schema}}`. Raises: ValueError."""
    kind, schema = given.get("kind"), _frontmatter_of(given)
    if kind is not None and kind not in (EPISODE, *OLD_KINDS):
        raise ValueError(f"{kind!r} is no kind of memory")
    if schema.get("$schema", _DRAFT) != _DRAFT:
        raise ValueError(f"its $schema is not {_DRAFT}")
    fast, slow = bounds.fast_validator(schema), bounds.strict_validator()(schema)

    def law(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
        if (kind is None or values.get("kind") == kind) and not _obeys(fast, values):
            for error in slow.iter_errors(values):
                yield from _spell(error)

    return law


_SCHEMA_KEYS = {"kind", "frontmatter"}


def _obeys(fast: jsonschema_rs.Draft202012Validator, values: dict[str, Any]) -> bool:
    # the fast validator takes 1.0 for an integer, and no dates at all: the strict one is asked wherever that may matter
    if any(isinstance(value, float) and value.is_integer() for value in values.values()):
        return False
    try:
        return bool(fast.is_valid(values))
    except ValueError:
        return False


def _select_law(given: Any) -> Law:
    """Read `{kind: episode|other, at: pointer(s), keyword: keyword(s)}`. Raises: ValueError."""
    is_known = isinstance(given, dict) and not given.keys() - _SELECT_KEYS
    if not is_known or given.get("kind", EPISODE) not in (EPISODE, "other"):
        raise ValueError("`select` is {kind: episode|other, at: pointer(s), keyword: keyword(s)}, each may be left out")
    kind, pointers, keywords = given.get("kind"), _listed(given.get("at")), _listed(given.get("keyword"))

    def law(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
        is_other = values.get("kind") != EPISODE
        if (kind is not None and (kind == "other") != is_other) or contract.is_valid(values):
            return
        for error in contract.strict_validator()(contract.schema()).iter_errors(values):
            if keywords is None or error.validator in keywords:
                yield from (found for found in _spell(error) if pointers is None or found[0] in pointers)

    return law


_SELECT_KEYS = {"kind", "at", "keyword"}


def _listed(value: Any) -> list[str] | None:
    found = value if isinstance(value, list | None) else [value]
    if not all(isinstance(item, str) for item in found or ()):
        raise ValueError("`at` and `keyword` are texts or lists of texts")
    return found


def _spell(error: jsonschema.ValidationError) -> Iterator[tuple[str, str]]:
    pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in error.absolute_path)
    if error.validator == "required":
        for key in error.validator_value:
            if key not in error.instance:
                yield f"{pointer}/{key}", f"{key} is missing"
        return
    yield pointer, f"{pointer.removeprefix('/') or 'the frontmatter'} breaks its `{error.validator}`"
