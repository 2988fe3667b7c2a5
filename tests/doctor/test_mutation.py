"""A doctor that is blind to a rule fails that rule's fixtures. `make mutation` breaks the checks themselves as well."""

import pytest

import mutation
from cyberos.core import contract
from doctor import test_fixtures

# what no vault can show: cyberos itself at fault, and a clone without its history
WITHOUT = {"doctor-check-crashed", "anchor-blind"}


@pytest.mark.parametrize("rule", [rule for rule in contract.rules() if rule not in WITHOUT])
def test_without_its_findings_every_fixture_of_a_rule_fails(rule, monkeypatch):
    cases = [case for case in test_fixtures.BAD if case.split("/")[0] == rule]
    assert cases
    assert not any(mutation.catches(case) for case in cases)
    mutation.drop(rule, test_fixtures, monkeypatch.setattr)
    assert all(mutation.catches(case) for case in cases)


def test_a_condition_that_never_holds():
    text = 'def f(x):\n    if x:\n        yield finding("ledger-gap")\n    elif not x:\n        y = 1\n    else:\n        raise E("ledger-tx")\n    g("ledger-seq")\n'
    import ast

    broken = []
    for number in range(3):
        tree = ast.parse(text)
        mutation.break_place(tree, number)
        broken.append(ast.unparse(tree))
    assert "if False:" in broken[0]
    assert "elif True:" in broken[1]
    assert "ledger-seq" not in broken[2]
