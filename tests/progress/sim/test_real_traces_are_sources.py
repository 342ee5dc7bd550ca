"""Flights and quakes as sources: what a trace that is not in order at its source does to windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.progress.sim.plans import rows
from wmlab.core.values import Problems
from wmlab.progress import Aggregate, PlanScenario, Query, Source
from wmlab.progress.sim.world import PlanWorld
from wmlab.progress.simulate import trace_records

SCENARIOS = Path(__file__).parents[3] / "data" / "scenarios"


@pytest.mark.parametrize(("name", "late"), [("flights", False), ("quakes", True)])
def test_a_trace_runs_through_a_plan(name: str, late: bool) -> None:
    """The sparse carrier among the flights holds time back so far that nothing can come late."""
    scenario = PlanScenario.load(SCENARIOS / f"progress_{name}.yaml")
    world = PlanWorld(scenario, trace_records(scenario))
    world.run()
    arrivals = rows(world, "buffers", operator="build")
    assert {row["emitter"] for row in arrivals} == {source.name for source in scenario.queries[0].sources}
    missed = sum(row["records"] for row in arrivals) - sum(row["records"] for row in rows(world, "windows_fired"))
    assert (missed > 0) == bool(rows(world, "incidents", kind="late")) == late


def test_a_source_that_is_no_writer_of_its_trace_is_refused() -> None:
    scenario = PlanScenario(
        "s", queries=[Query("q", sources=[Source("ZZ", trace="flights")], window=Aggregate(1))], duration_ms=1
    )
    with pytest.raises(Problems, match="has no writer 'ZZ'; it has: 9E") as raised:
        trace_records(scenario)
    assert [problem.path for problem in raised.value.problems] == ["queries[0].sources[0].name"]
