"""WordPiece as BERT uncased has it: "Ship RLS" is [CLS] ship r ##ls [SEP], 101 2911 1054 4877 102.

    vocab.txt         one piece a line; its number, from 0, is the id; pieces inside a word begin with ##
    characters.json   {"dropped": "0-8 b …", "space": "9-a …", "alone": "21-2f …", "becomes": {"É": "e", …}}

Each character is dropped, parts words, is a word, becomes others, or stays. A word is cut from the left into the
longest pieces; a word that cannot be, or of more than 100 characters, is [UNK]. The ids are those of the package
`tokenizers` for every string that it can take, under any Python: `bench/characters.py` asked it about each character.

Source: Devlin et al. 2018 and `BertNormalizer`, `BertPreTokenizer`, `WordPiece` of Hugging Face's tokenizers; the
vocabulary of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0, see `vocab.LICENSE`).
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from hashlib import sha256

from cyberos.embed.base import EmbedderUnavailable

VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
SPECIAL = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}  # read as such in a text too
LONGEST_WORD = 100

_CLS, _SEP, _UNK = SPECIAL["[CLS]"], SPECIAL["[SEP]"], SPECIAL["[UNK]"]
_MARKS = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")
_HERE = os.path.dirname(__file__)


class _Characters(dict[int, str | int]):
    """A table for `str.translate` that reads characters.json when it first meets one beyond ASCII."""

    def __init__(self) -> None:
        super().__init__()
        for point in range(128):
            character = chr(point)
            if character.isalnum():
                self[point] = character.lower()
            elif character in "\t\n\r ":
                self[point] = " "
            else:
                self[point] = f" {character} " if character.isprintable() else ""
        self._is_whole = False

    def __missing__(self, point: int) -> str | int:
        if not self._is_whole:
            self._read()
            self._is_whole = True
            if point in self:
                return self[point]
        if 0xAC00 <= point <= 0xD7A3:  # noqa: PLR2004 - Hangul syllables, taken apart by arithmetic in any Unicode
            import unicodedata

            return unicodedata.normalize("NFD", chr(point))
        return point

    def _read(self) -> None:
        import json

        with open(os.path.join(_HERE, "characters.json"), encoding="utf-8") as handle:
            table = json.load(handle)
        for name in ("dropped", "space", "alone"):
            for span in table[name].split():
                first, _, last = span.partition("-")
                for point in range(int(first, 16), int(last or first, 16) + 1):
                    self[point] = {"dropped": "", "space": " ", "alone": f" {chr(point)} "}[name]
        self.update({ord(character): text for character, text in table["becomes"].items()})


class WordPiece:
    """Turns a text into the ids that the model reads."""

    def __init__(self) -> None:
        with open(os.path.join(_HERE, "vocab.txt"), "rb") as handle:
            vocabulary = handle.read()
        if sha256(vocabulary).hexdigest() != VOCABULARY_SHA256:
            raise EmbedderUnavailable("minilm", f"{handle.name} is not as it was shipped", "install cyberos again")
        pieces = vocabulary.decode("utf-8").splitlines()
        self._ids = dict(zip(pieces, range(len(pieces)), strict=True))
        self._longest = max(map(len, pieces))
        self._characters = _Characters()
        self._cut = lru_cache(1 << 15)(self._pieces)

    def encode(self, text: str, limit: int) -> list[int]:
        """Give at most `limit` ids, [CLS] and [SEP] among them."""
        ids = [_CLS]
        for part in _MARKS.split(text):
            if part in SPECIAL:
                ids.append(SPECIAL[part])
                continue
            for word in part.translate(self._characters).split():
                ids += self._cut(word)
                if len(ids) >= limit:
                    break
        return [*ids[: limit - 1], _SEP]

    def _pieces(self, word: str) -> tuple[int, ...]:
        if len(word) > LONGEST_WORD:
            return (_UNK,)
        ids, start, prefix = [], 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                found = self._ids.get(prefix + word[start:end])
                if found is not None:
                    ids.append(found)
                    start, prefix = end, "##"
                    break
            else:
                return (_UNK,)
        return tuple(ids)
