"""The settings of a vault, each with the place that it came from.

Order: flag > `CYBEROS_<NAME>` > `cyberos.toml` > `[tool.cyberos]` in pyproject.toml > default.

Source: DESIGN section 10.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from cyberos.core.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Callable


class Setting(NamedTuple):
    """A setting's default, what it does, and the check that makes its value."""

    default: Any
    description: str
    parse: Callable[[Any], Any]


class Value(NamedTuple):
    """A setting's value and where it came from."""

    value: Any
    source: str


def _choice(*allowed: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return str(value)

    return parse


def _number(low: float, high: float) -> Callable[[Any], float]:
    def parse(value: Any) -> float:
        try:
            number = float(value) if not isinstance(value, bool) else float("nan")
        except (ValueError, TypeError, OverflowError):
            number = float("nan")
        if not low <= number <= high:
            raise ValueError(f"must be a number from {low:g} to {high:g}")
        return number

    return parse


def _actor(value: Any) -> str:
    from cyberos.core.rows import ACTOR

    if not isinstance(value, str) or not ACTOR.fullmatch(value):
        raise ValueError("must be 1 to 64 of a-z 0-9 . _ @ -")
    return value


def _duration(value: Any) -> str:
    half_life_days(value)
    return str(value)


def half_life_days(value: Any) -> float:
    """Read a span such as `30d`, `12h` or `2w` as days. Raises: ValueError."""
    text = str(value)
    unit = {"h": 1 / 24, "d": 1.0, "w": 7.0}.get(text[-1:])
    if unit is None or not text[:-1].replace(".", "", 1).isdecimal() or float(text[:-1]) <= 0:
        raise ValueError("must be a span such as 12h, 30d or 2w")
    return float(text[:-1]) * unit


def _weights(value: Any) -> list[float]:
    parts = value.split(",") if isinstance(value, str) else value
    weights = [_number(0, 1)(part) for part in parts] if isinstance(parts, list) else []
    if len(weights) != 3 or abs(sum(weights) - 1) > 1e-9:  # noqa: PLR2004
        raise ValueError("must be three numbers from 0 up that sum to 1: relevance, quality, recency")
    return weights


FOREVER = "forever"


def _window(value: Any) -> str:
    if value != FOREVER:
        half_life_days(value)
    return str(value)


EMBEDDERS = ("auto", "minilm", "sentence-transformers", "hash", "none")


def embedder(value: Any) -> str:
    """Give back the name of an embedder; `sentence-transformers:` may name a model. Raises: ValueError."""
    text = str(value)
    family, colon, model = text.partition(":")
    if family not in EMBEDDERS or (colon and not (family == "sentence-transformers" and model)):
        raise ValueError(f"must be one of {', '.join(EMBEDDERS)}, or sentence-transformers:NAME-OR-PATH")
    return text


REPORTS = ("text", "json", "github", "sarif", "junit")

SETTINGS: dict[str, Setting] = {
    "actor": Setting("agent", "who is named in the ledger's rows", _actor),
    "durability": Setting(
        "full", "full | batch | none: which writes wait for the disk", _choice("full", "batch", "none")
    ),
    "embedder": Setting(
        "auto", "auto | minilm | sentence-transformers[:NAME-OR-PATH] | hash | none: what recalls by meaning", embedder
    ),
    "embed_budget": Setting(0.5, "seconds that a recall may spend on embedding what is new", _number(0, 86_400)),
    "lock_wait": Setting(10.0, "seconds to wait for the vault's lock", _number(0, 86_400)),
    "min_relevance": Setting(0.65, "what recall answers at least, in [0, 1]", _number(0, 1)),
    "fallback": Setting(
        "whoosh", "whoosh | fts5: which engine finds by words, where no embedder is", _choice("whoosh", "fts5")
    ),
    "recency": Setting("none", "none | park | half-life: how age lowers a score", _choice("none", "park", "half-life")),
    "half_life": Setting("30d", "the age at which recency is one half", _duration),
    "retention": Setting(FOREVER, "forever, or a span such as 365d: what `cyberos retain` keeps", _window),
    "output_format": Setting("text", f"{' | '.join(REPORTS)}: how the doctor reports", _choice(*REPORTS)),
    "weights": Setting([0.4, 0.3, 0.3], "of relevance, quality and recency; they sum to 1", _weights),
}


def load(root: str | os.PathLike[str]) -> dict[str, Value]:
    """Read all settings of a vault. Raises: ContractError naming the file or variable and what is wrong."""
    found = {name: Value(setting.default, "default") for name, setting in SETTINGS.items()}
    pyproject = _toml(os.path.join(root, "pyproject.toml"), lenient=True).get("tool", {})
    layers = [
        ("[tool.cyberos] in pyproject.toml", pyproject.get("cyberos", {}) if isinstance(pyproject, dict) else {}),
        ("cyberos.toml", _toml(os.path.join(root, "cyberos.toml"))),
    ]
    for source, values in layers:
        for name, value in values.items():
            if name not in SETTINGS:
                raise ContractError(source, f"no setting is called {name!r}; there are {', '.join(SETTINGS)}")
            found[name] = Value(_parse(name, value, source), source)
    for name in SETTINGS:
        variable = f"CYBEROS_{name.upper()}"
        if os.environ.get(variable):
            found[name] = Value(_parse(name, os.environ[variable], variable), variable)
    return found


def _parse(name: str, value: Any, source: str) -> Any:
    try:
        return SETTINGS[name].parse(value)
    except (ValueError, TypeError) as error:
        raise ContractError(source, f"{name} = {value!r}: {error}") from None


def _toml(path: str, *, lenient: bool = False) -> dict[str, Any]:
    if not os.path.isfile(path):
        return {}
    with open(path, "rb") as handle:
        blob = handle.read()
    if lenient and b"cyberos" not in blob:
        return {}  # most projects' pyproject says nothing of us, and reading TOML costs more than looking
    import tomllib

    try:
        return tomllib.loads(blob.decode("utf-8"))
    except ValueError as error:
        raise ContractError(path, f"not TOML: {error}") from None
