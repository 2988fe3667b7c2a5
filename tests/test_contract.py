"""One id, one rule: every id of memory.invariants.yaml has its check or select, and a vault that breaks it."""

from pathlib import Path

from cyberos.core import contract
from cyberos.doctor.examination import CHECKS

TESTS = Path(__file__).parent
RULES = contract.rules()
# no vault makes a check crash, which test_doctor.py does, and no folder is a shallow clone, which test_git.py makes
IN_A_TEST = {"doctor-check-crashed", "anchor-blind"}


def test_every_check_of_the_doctor_is_a_rule_and_every_rule_has_one():
    named = {rule.check for rule in RULES.values() if rule.check is not None}
    assert len(CHECKS) == len(set(CHECKS))
    assert named == set(CHECKS)
    assert all(rule.check in (None, rule.id) for rule in RULES.values())


def test_every_rule_has_exactly_one_way_to_be_judged_and_says_what_to_do():
    for rule in RULES.values():
        assert sum(way is not None for way in (rule.select, rule.schema, rule.check)) == 1, rule.id
        assert rule.hint, rule.id


def test_every_rule_has_a_vault_that_breaks_it_and_every_such_vault_a_rule():
    folders = {path.name for path in (TESTS / "bad").iterdir()}
    assert folders == set(RULES) - IN_A_TEST


def test_every_select_names_what_the_schema_can_say():
    fields = set(contract.episode_fields())
    for rule in RULES.values():
        places = (rule.select or {}).get("at", [])
        for place in [places] if isinstance(places, str) else places:
            assert place.removeprefix("/") in fields, rule.id
