"""Small scenarios of query plans, and their rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from wmlab.progress.model.numbers import stamp_of
from wmlab.progress.model.tracker import ProgressRules, ProgressTracker
from wmlab.progress.recording import PlanScenario
from wmlab.progress.scenario import Aggregate, Emit, Join, PlanOperator, Projection, Query, Source, Workers
from wmlab.progress.sim.query import run_queries
from wmlab.progress.sim.records import Records
from wmlab.progress.sim.world import PlanWorld

TUMBLING = Aggregate(1_000)


def scenario(**fields: Any) -> PlanScenario:
    given: dict[str, Any] = {
        "queries": [query()],
        "workers": Workers(4, service_mean_ms=20),
        "duration_ms": 10_000,
        "seed": 5,
    }
    return PlanScenario("test", **(given | fields))


def query(
    *sources: Source,
    operators: Sequence[PlanOperator] = (),
    window: Aggregate | Join | None = TUMBLING,
    output: Sequence[PlanOperator] = (),
    **fields: Any,
) -> Query:
    """A query of operators in the order of these arguments, by default over the sources "a" and "b"."""
    chain = [*operators, *([] if window is None else [window]), *output]
    return Query("q", sources=sources or (source("a"), source("b")), operators=chain, **fields)


def growing(name: str, growth: float, **fields: Any) -> Source:
    """A source whose buffers are re-chunked into `growth` or, if not full, fewer."""
    return source(name, operators=[Projection(growth), Emit()], **fields)


def source(name: str, **fields: Any) -> Source:
    if not {"times_ms", "trace", "rate_per_s", "rows"} & fields.keys():
        fields["rate_per_s"] = 200
    return Source(name, **({"buffer_records": 10} | fields))


def run(traces: Mapping[str, Records] | None = None, **fields: Any) -> PlanWorld:
    world = PlanWorld(scenario(**fields), traces)
    run_queries(world)
    return world


def rows(world: PlanWorld, table: str, **where: object) -> list[Mapping[str, Any]]:
    found = world.journal.rows.get(table, [])
    return [row for row in found if all(row[name] == value for name, value in where.items())]


def identifiers(world: PlanWorld, **where: object) -> list[tuple[int, int, int, bool]]:
    """(origin, sequence, chunk, last) of the buffers at a place, in order."""
    return sorted((r["origin"], r["sequence"], r["chunk"], r["last"]) for r in rows(world, "buffers", **where))


def tracked(
    world: PlanWorld, *, operator: str = "build", origins: Sequence[int] = (1, 2), **rules: Any
) -> list[tuple[Mapping[str, Any], ProgressTracker]]:
    """The arrivals at an operator, each with the state of a tracker after it."""
    tracker, arrivals = ProgressTracker(origins, ProgressRules(**rules)), []
    for row in rows(world, "buffers", operator=operator):
        tracker.step(stamp_of(row))
        arrivals.append((row, copy.deepcopy(tracker)))
    return arrivals


def fired(world: PlanWorld, **where: object) -> list[tuple[int, int, int]]:
    """(start, records, results) of every window that fired, in order."""
    return [(row["start"], row["records"], row["results"]) for row in rows(world, "windows_fired", **where)]
