"""Mistakes in machines are found and shrunk to a test that fails; a machine of the rule itself never is."""

from __future__ import annotations

import pytest

from tests.testing.mutants import MUTANTS
from wmlab.testing.compare import compare_with_rule, find_disagreement
from wmlab.testing.rules import RULES


def test_nearly_all_mutants_are_found() -> None:
    missed = [
        (rule, mistake)
        for rule, mistake, machine in MUTANTS
        if find_disagreement(machine, rule, examples=300, shrink=False) is None
    ]
    assert len(MUTANTS) >= 30
    assert missed == []
    assert {rule for rule, _, _ in MUTANTS} == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_machine_of_the_rule_itself_is_never_refused(rule: str) -> None:
    compare_with_rule(RULES[rule].start, rule, examples=60)
