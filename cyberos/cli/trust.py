"""Which memories a recall may answer from: those of named actors, and those that are committed.

Source: DESIGN sections 6 and 8 (what a stranger could have written).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cyberos.core import git, layout

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from cyberos.index.entry import Entry


def accepts(root: str | os.PathLike[str], actors: str | None, *, is_committed: bool) -> Callable[[Entry], bool] | None:
    """Give the question put to each candidate, or None where every one may answer; `actors` are parted by commas.

    Raises: click.UsageError where there is no commit.
    """
    names = None if actors is None else {name.strip() for name in actors.split(",")}
    paths = _committed(root) if is_committed else None
    if names is None and paths is None:
        return None
    return lambda entry: (names is None or entry.actor in names) and (paths is None or entry.path in paths)


def _committed(root: str | os.PathLike[str]) -> set[str]:
    found = git.run(root, "ls-tree", "-r", "-z", "--name-only", "HEAD", "--", f"{layout.MEMORIES}/")
    if found is None:
        raise click.UsageError("--committed-only: the vault is in no git repository, or nothing is committed yet")
    return set(found.decode("utf-8", "surrogateescape").split("\0"))
