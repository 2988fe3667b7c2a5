"""The progress bar of an index that is being built: none where nothing is built, or where stderr is no terminal."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from cyberos.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyberos.index.upkeep import Progress

_FEW = 200  # documents that are indexed before anybody looks up


@contextmanager
def bar() -> Iterator[Progress]:
    """Give what an index calls with (done, all) documents; the bar appears with the first call."""
    with ExitStack() as stack:
        shown: list[Any] = []

        def told(done: int, total: int) -> None:
            if total < _FEW:
                return
            if not shown:
                shown.append(stack.enter_context(output.progress("indexing", total)))
            shown[0].update(done - shown[0].pos)

        yield told
