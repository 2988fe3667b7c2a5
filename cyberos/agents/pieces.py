"""What an agent's set-up is made of: entries in JSON files, blocks in text files, and whole files of ours.

Each piece knows whether it is there, adds itself to what its file holds, and takes itself out again. All three work
on texts; `installation` reads and writes the files.

Source: DESIGN section 9.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from cyberos.agents import blocks, jsontext

State = Literal["current", "stale", "missing"]


class Piece(Protocol):
    """One piece; `path` is its file, relative to the top of the repository.

    None stands for no file. Each method raises ValueError on a text that it cannot read.
    """

    @property
    def path(self) -> str: ...

    def state(self, text: str | None) -> State: ...

    def add(self, text: str | None) -> str: ...

    def remove(self, text: str) -> str | None: ...


class Json(NamedTuple):
    """An entry in a JSON file. `seed` is what a new file begins with; a file that holds no more is taken away."""

    path: str
    entry: jsontext.Entry
    seed: str | None = None

    def state(self, text: str | None) -> State:
        return "current" if text is not None and jsontext.has(text, self.entry) else "missing"

    def add(self, text: str | None) -> str:
        return jsontext.add(self.seed if text is None else text, self.entry)

    def remove(self, text: str) -> str | None:
        left = jsontext.remove(text, self.entry)
        return None if left == self.seed else left


class Block(NamedTuple):
    """A marked block in a text file. With a `name`, a TOML table of the user's of that name stands in for it."""

    path: str
    inside: str
    style: tuple[str, str] = blocks.MARKDOWN
    name: str | None = None

    def state(self, text: str | None) -> State:
        found = blocks.find(text, self.style) if text is not None else None
        if found is not None:
            return "current" if found.inside == self.inside and found.is_whole else "stale"
        if self.name is not None and text is not None and f"[{self.name}]" in text.splitlines():
            return "current"
        return "missing"

    def add(self, text: str | None) -> str:
        if self.state(text) == "current" and text is not None:
            return text
        made = blocks.add(text, self.inside, self.style)
        if self.name is not None:
            _check_toml(made)
        return made

    def remove(self, text: str) -> str | None:
        return blocks.remove(text, self.style)


class Whole(NamedTuple):
    """A file that is ours from its first byte to its last; `mark` is in each version of it."""

    path: str
    text: str
    mark: str = "cyberos"

    def state(self, text: str | None) -> State:
        if text is None:
            return "missing"
        return "current" if text == self.text else "stale"

    def add(self, text: str | None) -> str:
        if text is not None and self.mark not in text:
            raise ValueError("it is there already and is not of cyberos")
        return self.text

    def remove(self, text: str) -> str | None:
        return text if self.mark not in text else None


def _check_toml(text: str) -> None:
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is no TOML ({error})") from None
