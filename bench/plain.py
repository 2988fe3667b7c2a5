"""What every engine of ours must beat: plain SQLite FTS5, porter stemmer, BM25, OR of the words but stop words."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

from cyberos.index.tokens import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from cyberos.index.fulltext import Document

LIMIT = 12


def fts5(documents: list[Document]) -> Callable[[str], list[str]]:
    """Give what searches these documents."""
    database = sqlite3.connect(":memory:")
    database.execute("create virtual table words using fts5(path unindexed, text, tokenize='porter unicode61')")
    database.executemany("insert into words values (?, ?)", [(row.path, row.text) for row in documents])

    def search(query: str) -> list[str]:
        words = re.findall(r"\w+", query.lower())
        wanted = " OR ".join(f'"{word}"' for word in words if word not in STOP_WORDS)
        if not wanted:
            return []
        rows = database.execute("select path from words where words match ? order by rank limit ?", (wanted, LIMIT))
        return [path for (path,) in rows]

    return search
