"""The table of promises at a tenth of its scale; `make prove` is the whole of it."""

from __future__ import annotations

import pytest

from prove.table import SAMPLE, Skipped, rows


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.run.__module__.split('.')[-1]}.{row.run.__name__}")
def test_the_promise_is_kept(row):
    try:
        figure, is_kept = row.run(SAMPLE)
    except Skipped as reason:
        pytest.skip(str(reason))
    print(f"{row.promise}: {figure}")
    assert is_kept, figure
