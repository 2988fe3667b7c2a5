"""Write cyberos/embed/characters.json: what the reference tokenizer makes of each character.

    python bench/characters.py TOKENIZER.JSON      (needs the package `tokenizers`)

`tokenizers` keeps the character classes of an old Unicode, Python brings those of its own release. So that a text has
one row under every Python, each of the 1,112,064 characters is shown to the reference once and its answer kept.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = Path(__file__).parents[1] / "cyberos" / "embed" / "characters.json"
SURROGATES = range(0xD800, 0xE000)
HANGUL = range(0xAC00, 0xD7A4)


def answers(tokenizer: Tokenizer) -> Iterator[tuple[int, str]]:
    """Yield each code point with what stands for it between two letters: words parted by spaces."""
    for point in range(sys.maxunicode + 1):
        if point in SURROGATES:
            yield point, ""  # no Rust string holds one
            continue
        normal = tokenizer.normalizer.normalize_str(f"a{chr(point)}b")
        words = [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)]
        yield point, " ".join(words)[1:-1]


def ranges(points: list[int]) -> str:
    """Write ascending numbers as `9-a d 20`."""
    spans: list[list[int]] = []
    for point in points:
        if spans and spans[-1][1] == point - 1:
            spans[-1][1] = point
        else:
            spans.append([point, point])
    return " ".join(f"{first:x}" if first == last else f"{first:x}-{last:x}" for first, last in spans)


def characters(tokenizer: Tokenizer) -> dict[str, object]:
    """Sort the characters into dropped, spaces, words of their own, and those that become others."""
    found: dict[str, list[int]] = {"dropped": [], "space": [], "alone": []}
    becomes: dict[str, str] = {}
    for point, answer in answers(tokenizer):
        character = chr(point)
        if point in HANGUL:
            assert answer == unicodedata.normalize("NFD", character)
        elif answer == "":
            found["dropped"].append(point)
        elif answer == " ":
            found["space"].append(point)
        elif answer == f" {character} ":
            found["alone"].append(point)
        elif answer != character:
            becomes[character] = answer
    return {name: ranges(points) for name, points in found.items()} | {"becomes": becomes}


if __name__ == "__main__":
    table = characters(Tokenizer.from_file(sys.argv[1]))
    TARGET.write_text(json.dumps(table, separators=(",", ":"), ensure_ascii=True) + "\n")
