"""The progress bar of an index that is being built: none where nothing is built, or where stderr is no terminal."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from cyberos.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyberos.index.upkeep import Progress

_FEW = 200  # documents that are indexed before anybody looks up
FEW_EMBEDDED = 20


@contextmanager
def bar(work: str = "indexing", few: int = _FEW) -> Iterator[Progress]:
    """Give what an index calls with (done, all) documents; the bar appears with the first call, if they are many."""
    with ExitStack() as stack:
        shown: list[Any] = []

        def told(done: int, total: int) -> None:
            if total < few:
                return
            if not shown:
                shown.append(stack.enter_context(output.progress(work, total)))
            shown[0].update(done - shown[0].pos)

        yield told
