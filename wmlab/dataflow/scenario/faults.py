"""What can go wrong in a dataflow, as values, and the mistakes that no single part of a dataflow shows.

Times are ms after its start; without `for_ms` a fault lasts to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from wmlab.core.values import Ms, Period, Problem, tagged
from wmlab.dataflow.scenario.join import join_problems
from wmlab.dataflow.scenario.plan import Plan
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import AsyncMap, Filter, Join

if TYPE_CHECKING:
    from wmlab.dataflow.scenario.dataflow import DataflowScenario

Number = Annotated[int, Field(ge=0, lt=1_000, strict=True)]
"""A partition or an instance, from 0."""


@tagged
class SilentPartition:
    """Rows of a partition that would arrive in that time never do."""

    source: str
    partition: Number
    _: KW_ONLY
    at_ms: Ms = 0
    for_ms: Period | None = None


@tagged
class LatePartition:
    """Rows of a partition that would arrive in that time do so `by_ms` later, and those behind them not before."""

    source: str
    partition: Number
    _: KW_ONLY
    by_ms: Period
    at_ms: Ms = 0
    for_ms: Period | None = None


@tagged
class AddPartition:
    """A partition that its source does not know before `at_ms`; rows of it that came before arrive then."""

    source: str
    partition: Number
    _: KW_ONLY
    at_ms: Period


@tagged
class RemovePartition:
    """A partition that is gone from `at_ms` on, with all its rows to come."""

    source: str
    partition: Number
    _: KW_ONLY
    at_ms: Period


@tagged
class Disorder:
    """Rows of a source that would arrive in that time do so up to `by_ms` later, each by its own draw."""

    source: str
    _: KW_ONLY
    by_ms: Period
    at_ms: Ms = 0
    for_ms: Period | None = None


@tagged
class SlowCalls:
    """Calls that an asynchronous vertex makes in that time take `by_ms` longer; `first` of them only, if given."""

    vertex: str
    _: KW_ONLY
    by_ms: Period
    first: Annotated[int, Field(ge=1, strict=True)] | None = None
    at_ms: Ms = 0
    for_ms: Period | None = None


@tagged
class FailCall:
    """The first call that an asynchronous vertex makes from `at_ms` on fails when it returns, and the job with it."""

    vertex: str
    _: KW_ONLY
    at_ms: Ms = 0


@tagged
class Stall:
    """A vertex, or one instance of it, stands still: it takes nothing, and a source reads nothing."""

    vertex: str
    _: KW_ONLY
    instance: Number | None = None
    at_ms: Ms = 0
    for_ms: Period | None = None


@tagged
class SwallowAll:
    """A filter, or the filter of a source, lets no row pass."""

    vertex: str
    _: KW_ONLY
    at_ms: Ms = 0
    for_ms: Period | None = None


@tagged
class Restart:
    """The job is stopped at once and begins again from its last complete snapshot; sources read again from there.

    With `after_snapshot` a terminal snapshot is taken first, and the job restarts from that when it is complete.
    """

    at_ms: Period
    _: KW_ONLY
    after_snapshot: bool = False


Fault = Annotated[
    SilentPartition
    | LatePartition
    | AddPartition
    | RemovePartition
    | Disorder
    | SlowCalls
    | FailCall
    | Stall
    | SwallowAll
    | Restart,
    Field(discriminator="kind"),
]
"""Any entry of a dataflow's `faults`."""


def problems_across(dataflow: DataflowScenario, plan: Plan) -> Iterator[Problem]:
    """All mistakes across the parts of a dataflow."""
    yield from plan.problems
    for number, edge in enumerate(dataflow.edges):
        output = plan.outputs.get(edge.source)
        for place, column in enumerate(edge.by):
            if output is not None and column not in output.columns:
                message = f"no column is called {column!r}; there are: {', '.join(output.columns)}"
                yield Problem(("edges", number, "by", place), message)
    for number, vertex in enumerate(dataflow.vertices):
        inputs = [plan.outputs.get(edge.source) for edge in plan.inputs.get(vertex.name, ())]
        if isinstance(vertex, Join) and vertex.name in plan.outputs and len(inputs) == 2:
            left, right = inputs
            assert left is not None
            assert right is not None
            for message in join_problems(vertex, left, right):
                yield Problem(("vertices", number, "condition"), message)
    if dataflow.guarantee == "none" and dataflow.snapshot_every_ms is not None:
        yield Problem(("snapshot_every_ms",), "without a guarantee there are no snapshots; choose a guarantee")
    for number, fault in enumerate(dataflow.faults):
        yield from _fault_problems(dataflow, ("faults", number), fault)


def _fault_problems(dataflow: DataflowScenario, location: tuple[str | int, ...], fault: Fault) -> Iterator[Problem]:
    if fault.at_ms >= dataflow.duration_ms:
        message = f"lies at or after the end of the dataflow, {dataflow.duration_ms} (got {fault.at_ms})"
        yield Problem((*location, "at_ms"), message)
    if isinstance(fault, Restart):
        if fault.after_snapshot and dataflow.guarantee == "none":
            yield Problem((*location, "after_snapshot"), "without a guarantee there are no snapshots")
        return
    admitted = _admitted(fault)
    field = "source" if hasattr(fault, "source") else "vertex"
    name = getattr(fault, field)
    named = [vertex for vertex in dataflow.vertices if vertex.name == name]
    if not named or not isinstance(named[0], admitted):
        fitting = [vertex.name for vertex in dataflow.vertices if isinstance(vertex, admitted)]
        what = {AsyncMap: "asynchronous map", Source: "source", Filter: "filter"}.get(admitted[0], "vertex")
        yield Problem((*location, field), f"no {what} is called {name!r}; there are: {', '.join(fitting) or 'none'}")
        return
    if isinstance(fault, SwallowAll) and isinstance(named[0], Source) and named[0].where is None:
        yield Problem((*location, field), f"source {name!r} has no filter; give it where=")
    yield from _number_problems(location, fault, named[0])


def _number_problems(location: tuple[str | int, ...], fault: Any, vertex: Any) -> Iterator[Problem]:
    """Partitions and instances that do not exist."""
    for field, limit in (("partition", getattr(vertex, "partitions", None)), ("instance", vertex.parallelism)):
        number = getattr(fault, field, None)
        # How many partitions a trace or a stream has is known only when it is read.
        if number is None or limit is None or number < limit or getattr(vertex, "rows", ()) is None:
            continue
        yield Problem((*location, field), f"{vertex.name!r} has {field}s 0 to {limit - 1} (got {number})")


def _admitted(fault: Fault) -> tuple[type, ...]:
    """The kinds of vertices that a fault can happen to."""
    if hasattr(fault, "source"):
        return (Source,)
    if isinstance(fault, SlowCalls | FailCall):
        return (AsyncMap,)
    return (object,) if isinstance(fault, Stall) else (Filter, Source)
