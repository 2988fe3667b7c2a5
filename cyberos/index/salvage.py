"""What a damaged catalog still gives: the counts of uses, the one thing in it that the ledger cannot give back.

Source: sqlite.org/pragma.html#pragma_cell_size_check.
"""

from __future__ import annotations

from contextlib import closing, suppress

from cyberos.index.database import quoted

_MOST = 1 << 32  # above this it is no count


def uses(path: str) -> dict[str, int]:
    """Read the counts by memory, whatever else in the catalog is damaged; what cannot be read is left out."""
    import sqlite3

    found: dict[str, int] = {}
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{quoted(path)}?mode=ro", uri=True)) as old:
        old.text_factory = bytes
        old.execute("PRAGMA cell_size_check = ON")
        for name, count in old.execute("SELECT path, uses FROM uses"):
            if isinstance(name, bytes) and isinstance(count, int) and 0 < count < _MOST:
                found[name.decode("utf-8", "replace")] = count
    return found
