"""The machine is no use if it cannot fail: what is known to break is found, and only where the fault is on."""

from __future__ import annotations

import pytest

from tests.machine.batch import given_of
from tests.machine.campaign import MACHINES, Made, smallest
from tests.machine.conftest import OF_HAZARDS
from tests.machine.hazards import Hazard
from tests.machine.judge import judge, violated
from wmlab.streams.api import Scenario

HAZARDS = {
    "pravega": {"I3", "I4", "I5"},
    "bug_6510": {"I3", "I7", "I11"},
    "stale": {"I6", "I12"},
}
SHARDS = {one.machine: one for one in OF_HAZARDS}


@pytest.mark.parametrize("machine", HAZARDS)
def test_a_hazard_breaks_what_it_is_known_to_break(made: list[Made], machine: str) -> None:
    broken = [invariants for one in made if one.shard.machine == machine for invariants in one.broken.values()]
    assert set().union(*broken) == HAZARDS[machine]


@pytest.mark.parametrize("machine", HAZARDS)
def test_the_same_scenarios_are_sound_without_the_fault(made: list[Made], machine: str) -> None:
    kind = MACHINES[machine]
    assert issubclass(kind, Hazard)
    broken = [one.scenarios[run] for one in made if one.shard.machine == machine for run in one.broken]
    assert broken
    for scenario in broken:
        mended = kind.mended(Scenario.from_yaml(scenario))
        assert violated(judge(given_of(mended.record(progress=False)))) == set()


@pytest.mark.parametrize(("machine", "invariant"), [(name, one) for name in HAZARDS for one in sorted(HAZARDS[name])])
def test_a_machine_fails_on_the_invariant_that_is_broken(machine: str, invariant: str) -> None:
    found = smallest(SHARDS[machine], invariant, shrink=False)
    assert found is not None
    assert invariant in found.invariants
    assert invariant in str(found)


def test_the_smallest_scenario_is_small_and_breaks_the_promise_again() -> None:
    found = smallest(SHARDS["bug_6510"], "I3")
    assert found is not None
    assert "I3" in violated(judge(given_of(found.scenario.record(progress=False))))
    assert len(found.scenario.writers) == 1
    assert found.scenario.script == ()
