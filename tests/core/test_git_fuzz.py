"""Random work in a repository (`walks.py`), a few short walks of it; `make prove` takes the long ones."""

from __future__ import annotations

import pytest

from cyberos.core import ledger
from support import check
from walks import Walk


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_work_loses_no_row(seed, repo):
    walk = Walk(repo, seed)
    for number in range(60):
        walk.step()
        if number % 10 == 9:
            check(repo.root, is_settled=False)
    walk.end()
    assert walk.refused < 6
    assert len(ledger.scan(repo.root).rows) > 30
