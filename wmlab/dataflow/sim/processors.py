"""What a vertex does, as the processor of `wmlab.dataflow.model` that does it: names become places, texts functions.

A source has one mapper per column with a key, which makes watermarks of its times.

Source: upstream classes `EventTimeMapper`, `WatermarkThrottlingFrameSizeCalculator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wmlab.core.errors import ScenarioError
from wmlab.dataflow.model import aggregate as model
from wmlab.dataflow.model.async_map import AsyncOrdered, AsyncUnordered
from wmlab.dataflow.model.expression import compiled
from wmlab.dataflow.model.items import Frames
from wmlab.dataflow.model.join import StreamJoin, minimum_spread
from wmlab.dataflow.model.processor import Deviations, Processor
from wmlab.dataflow.model.source import (
    EventTimeMapper,
    FixedLag,
    LagPolicy,
    RealTimeLag,
    pipeline_frame_ms,
    sql_frame_ms,
)
from wmlab.dataflow.model.transform import LateDrop as LateDropRule
from wmlab.dataflow.model.transform import StatefulMap as StatefulRule
from wmlab.dataflow.model.transform import Transform
from wmlab.dataflow.model.window import SessionWindow as SessionRule
from wmlab.dataflow.model.window import Window as WindowRule
from wmlab.dataflow.model.window import WindowShape, in_two_stages
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.join import places_of, rule_of
from wmlab.dataflow.scenario.parts import aggregate_of, function_name, is_function
from wmlab.dataflow.scenario.plan import Output, Plan
from wmlab.dataflow.scenario.source import EventTime, Source
from wmlab.dataflow.scenario.vertices import (
    AsyncMap,
    Filter,
    FlatMap,
    Join,
    LateDrop,
    Map,
    SessionWindow,
    StatefulMap,
    Window,
)
from wmlab.dataflow.sim.layout import Node


@dataclass(frozen=True, slots=True)
class Clocked:
    """A column with a key: its place in the row and its mapper.

    `promised`: it follows the lower bound of a stream, less `lag`; `by_clock`: it moves without rows.
    """

    place: int
    mapper: EventTimeMapper
    promised: bool = False
    by_clock: bool = False
    lag: int = 0


def clocked(dataflow: DataflowScenario, source: Source) -> tuple[Clocked, ...]:
    """The columns of a source that carry keys, by ascending key."""
    frame = frame_ms(dataflow, source)
    frames = None if frame == 0 else Frames(frame, source.frame_offset_ms)
    return tuple(
        Clocked(
            place=source.row_columns.index(time.column),
            mapper=EventTimeMapper(
                policy=_policy(time),
                key=time.key,
                frames=frames,
                idle_timeout_ms=source.idle_timeout_ms or None,
                deviations=dataflow.rules,
            ),
            promised=time.policy == "lower_bound",
            by_clock=time.policy == "real_time",
            lag=time.lag_ms,
        )
        for time in sorted(source.times, key=lambda time: time.key)
    )


def frame_ms(dataflow: DataflowScenario, source: Source) -> int:
    """The frame that the watermarks of a source are throttled to; 0: none is sent."""
    if isinstance(source.frame_ms, int):
        return source.frame_ms
    slides = [vertex.step_ms for vertex in dataflow.vertices if isinstance(vertex, Window)]
    if source.frame_ms == "pipeline":
        timeouts = [vertex.timeout_ms for vertex in dataflow.vertices if isinstance(vertex, SessionWindow)]
        return pipeline_frame_ms(slides, timeouts)
    return sql_frame_ms(slides, [spread_ms(dataflow, join) for join in dataflow.vertices if isinstance(join, Join)])


def spread_ms(dataflow: DataflowScenario, join: Join) -> int:
    """The width of the narrowest time range in which rows of a join can match."""
    plan = dataflow.plan
    left, right = (plan.outputs[edge.source] for edge in plan.inputs[join.name])
    return minimum_spread(rule_of(join, left, right).bounds, [key for key, _ in left.keys])


def _policy(time: EventTime) -> LagPolicy:
    if time.policy == "real_time":
        return RealTimeLag(time.lag_ms)
    return LagPolicy() if time.policy == "lower_bound" else FixedLag(time.lag_ms)


Values = tuple[Any, ...]
Gate = Callable[[], bool]
"""Whether a filter lets rows pass at the moment."""


def processor_of(dataflow: DataflowScenario, plan: Plan, node: Node, gate: Gate) -> Processor[Any]:
    """The processor of a node; `gate` closes a filter by a fault."""
    vertex, rules = node.vertex, dataflow.rules
    inputs = [plan.outputs[edge.source] for edge in plan.inputs[vertex.name]]
    given = inputs[0]
    match vertex:
        case Map() | FlatMap():
            return Transform(rows_of(vertex, given, node.output), node.kind)
        case Filter():
            keeps = condition_of(vertex.where, given.columns)
            return Transform.filter(lambda values: gate() and bool(keeps(values)))
        case AsyncMap():
            kind = AsyncOrdered if vertex.ordered else AsyncUnordered
            return kind(capacity=vertex.capacity, deviations=rules)
        case LateDrop():
            return LateDropRule(given.columns.index(vertex.column), _key(given, vertex.column))
        case StatefulMap():
            return _stateful(vertex, given, rules)
        case Window():
            return _window(vertex, given, rules, node.stage)
        case SessionWindow():
            return _session(vertex, given)
        case Join():
            return _join(dataflow, vertex, inputs[0], inputs[1])
    return Transform.merge()


def condition_of(where: Any, columns: Sequence[str]) -> Callable[[Values], Any]:
    """A condition as a function of a row."""
    if is_function(where):
        return lambda values: where(dict(zip(columns, values, strict=True)))
    return compiled(where, {name: place for place, name in enumerate(columns)})


def rows_of(vertex: Map | FlatMap | AsyncMap, given: Output, made: Output) -> Callable[[Values], tuple[Values, ...]]:
    """What a vertex makes of a row: a function from a row to rows."""
    if vertex.function is not None:
        return _called(vertex.function, given.columns, made.columns)
    places = {name: place for place, name in enumerate(given.columns)}
    selects = vertex.select if isinstance(vertex.select, tuple) else (vertex.select,)
    rows = [tuple(compiled(text, places) for text in select.values()) for select in selects if select is not None]
    if not rows:
        return lambda values: (values,)
    return lambda values: tuple(tuple(field(values) for field in row) for row in rows)


def _called(function: Callable[..., Any], given: Sequence[str], made: Sequence[str]) -> Callable[[Values], Any]:
    def call(values: Values) -> tuple[Values, ...]:
        found = function(dict(zip(given, values, strict=True)))
        rows: Iterable[Any] = () if found is None else (found,) if isinstance(found, Mapping) else found
        return tuple(_row(function, row, made) for row in rows)

    return call


def _row(function: Callable[..., Any], row: Any, made: Sequence[str]) -> Values:
    """What a function returned for a row, in the order of the columns."""
    if isinstance(row, Mapping) and row.keys() == set(made):
        return tuple(row[name] for name in made)
    raise ScenarioError(
        f"{function_name(function)} returned {row!r}, which is no row of the columns {', '.join(made)}.",
        remedy="return a dict of these columns, or give the vertex columns=.",
    )


def _key(given: Output, column: str) -> int:
    key = given.key_of(column)
    assert key is not None
    return key


def _aggregates(aggregates: Mapping[str, str], given: Output) -> tuple[model.Aggregate, ...]:
    found = [aggregate_of(text) for text in aggregates.values()]
    return tuple(
        model.Aggregate(function, None if column is None else given.columns.index(column))  # type: ignore[arg-type]
        for function, column in found
    )


def _group(by: Sequence[str], given: Output) -> tuple[int, ...]:
    return tuple(given.columns.index(column) for column in by)


def _window(vertex: Window, given: Output, rules: Deviations, stage: int | None) -> Processor[Any]:
    rule = WindowRule(
        shape=WindowShape(vertex.size_ms, vertex.step_ms),
        time=given.columns.index(vertex.column),
        aggregates=_aggregates(vertex.aggregates, given),
        group=_group(vertex.by, given),
        key=_key(given, vertex.column),
        limit=vertex.limit,
        deviations=rules,
    )
    return rule if stage is None else in_two_stages(rule)[stage - 1]


def _session(vertex: SessionWindow, given: Output) -> Processor[Any]:
    return SessionRule(
        timeout=vertex.timeout_ms,
        time=given.columns.index(vertex.column),
        aggregates=_aggregates(vertex.aggregates, given),
        group=_group(vertex.by, given),
        key=_key(given, vertex.column),
    )


def _stateful(vertex: StatefulMap, given: Output, rules: Deviations) -> Processor[Any]:
    aggregates = _aggregates(vertex.aggregates, given)

    def on_row(memory: Any, values: Values) -> tuple[Any, tuple[Values, ...]]:
        after = model.accumulated(aggregates, memory, values)
        return after, ((*values, *model.finished(aggregates, after)),)

    return StatefulRule(
        on_row=on_row,
        initial=model.created(aggregates),
        time=given.columns.index(vertex.column),
        group=_group(vertex.by, given),
        ttl=vertex.ttl_ms,
        key=_key(given, vertex.column),
        deviations=rules,
    )


def _join(dataflow: DataflowScenario, vertex: Join, left: Output, right: Output) -> Processor[Any]:
    condition = compiled(vertex.condition, places_of(left, right))

    def meets(values: Values) -> bool | None:
        found = condition(values)
        return None if found is None else bool(found)

    return StreamJoin(
        kind="inner" if vertex.outer is None else "left outer" if vertex.outer == "left" else "right outer",
        keys=(_timed(left), _timed(right)),
        widths=(len(left.columns), len(right.columns)),
        bounds=rule_of(vertex, left, right).bounds,
        condition=meets,
        output=vertex.emit,
        limit=vertex.limit,
        deviations=dataflow.rules,
    )


def _timed(output: Output) -> dict[int, int]:
    """The place of every column that carries a key."""
    return {key: output.columns.index(column) for key, column in output.keys if column is not None}
