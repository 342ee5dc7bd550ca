"""Two queries, three sources, a join and its chunks give the identifiers that the document's diagram shows."""

from __future__ import annotations

from pathlib import Path

from tests.progress.sim.plans import identifiers, rows
from wmlab.progress.recording import PlanScenario
from wmlab.progress.sim.world import PlanWorld

DIAGRAM = Path(__file__).parents[3] / "data" / "scenarios" / "progress_diagram.yaml"


def test_the_buffers_carry_the_identifiers_of_the_diagram() -> None:
    world = PlanWorld(PlanScenario.load(DIAGRAM))
    world.run()
    assert identifiers(world, stream="query-1", operator="build", sequence=1) == [(1, 1, 0, True), (2, 1, 0, True)]
    assert identifiers(world, stream="query-1", operator="sink") == [
        (3, 1, 0, False),
        (3, 1, 1, True),
        (3, 2, 0, True),
    ]
    assert identifiers(world, stream="query-2", operator="sink", sequence=1) == [(1, 1, 0, True)]
    names = {(row["stream"], row["origin"]): row["emitter"] for row in rows(world, "buffers")}
    assert names == {
        ("query-1", 1): "source-1",
        ("query-1", 2): "source-2",
        ("query-1", 3): "build",
        ("query-2", 1): "source-3",
    }
