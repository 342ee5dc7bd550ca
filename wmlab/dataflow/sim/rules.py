"""The rules of a dataflow by vertex, as values of the model: what it runs by, and what checks and answers use.

Names become indices, texts functions. A source has one mapper per column with a key, which makes watermarks of its
times.

Source: "Keyed watermark support", WM generation; "Stream-to-stream join", time bounds; upstream class
`EventTimeMapper`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, cast

from wmlab.core.errors import FunctionError, ScenarioError
from wmlab.core.expression import compiled
from wmlab.core.values import function_name, is_function
from wmlab.core.words import shown
from wmlab.dataflow.model import aggregate, transform, window
from wmlab.dataflow.model.async_map import AsyncOrdered, AsyncUnordered
from wmlab.dataflow.model.items import FrameGrid, Idle, RowValues, Watermark, watermark_instance
from wmlab.dataflow.model.join import LEFT, RIGHT, AnyJoin, BatchJoin, StreamJoin
from wmlab.dataflow.model.processor import Processor
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag, LagPolicy, OwnLag, RealTimeLag
from wmlab.dataflow.rules import Rules
from wmlab.dataflow.scenario import vertices as step
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.plan import Output, Plan, dotted, equal_columns
from wmlab.dataflow.scenario.source import EventTime, Source
from wmlab.dataflow.scenario.vertices import aggregate_of, plain_value
from wmlab.dataflow.sim.layout import Node


@dataclass(frozen=True, slots=True)
class WatermarkedColumn:
    """A column with a key: its index in the row and its mapper. `promised`: it follows the lower bound of a stream."""

    index: int
    mapper: EventTimeMapper
    promised: bool


def watermarked_columns(dataflow: DataflowScenario, source: Source) -> tuple[WatermarkedColumn, ...]:
    """The columns of a source that carry keys, by ascending key."""
    frames = None if source.frame_ms == 0 else FrameGrid(source.frame_ms)
    return tuple(
        WatermarkedColumn(
            index=source.row_columns.index(time.column),
            mapper=EventTimeMapper(
                policy=_policy(time, source.name),
                key=time.key,
                frames=frames,
                idle_timeout_ms=source.idle_timeout_ms or None,
                deviations=dataflow.rules.deviations,
            ),
            promised=time.policy == "lower_bound",
        )
        for time in sorted(source.times, key=lambda time: time.key)
    )


def _policy(time: EventTime, source: str) -> LagPolicy:
    if callable(time.policy):
        return OwnLag(time.lag_ms, function=_checked_policy(time.policy, source))
    return {"lag": FixedLag, "real_time": RealTimeLag, "lower_bound": LagPolicy}[time.policy](time.lag_ms)


def call_user_function(function: Callable[..., Any], *arguments: Any, vertex: str, item: str) -> Any:
    """What a function of a user's own answers.

    Raises `FunctionError`, from the error that the function raised, with the vertex and the `item` that it was given.
    """
    try:
        return function(*arguments)
    except Exception as error:
        raise FunctionError.of(f"{vertex}: {function_name(function)}", error, item) from error


def _row_in_words(row: Mapping[str, Any]) -> str:
    return f"the row {shown(dict(row))}"


def _checked_policy(policy: Callable[..., Any], source: str) -> Callable[[Any, int], tuple[Any, int | None]]:
    """A policy of your own whose answers are looked at."""

    def checked(memory: Any, time: int) -> tuple[Any, int | None]:
        item = f"the time {time} with the memory {shown(memory)}"
        answer = call_user_function(policy, memory, time, vertex=source, item=item)
        if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Real | None):
            return answer
        raise ScenarioError(
            f"{source}: {function_name(policy)} returned {answer!r}, which is not a memory with a watermark.",
            remedy="return (memory, watermark), the watermark a number or None.",
        )

    return checked


_Values = tuple[Any, ...]


def processor_of(
    dataflow: DataflowScenario, plan: Plan, node: Node, gate: Callable[[], bool] = lambda: True
) -> Processor[Any]:
    """The processor of a node; `gate` says whether a filter lets rows pass at the moment, which a fault may end."""
    vertex, rules = node.vertex, dataflow.rules
    inputs = plan.incoming(vertex.name)
    incoming = inputs[0]
    match vertex:
        case step.Map() | step.FlatMap():
            return transform.Transform(row_function(vertex, incoming, node.output))
        case step.Filter():
            keeps = condition_of(vertex.where, incoming.columns, vertex.name)
            return transform.Transform(lambda values: (values,) if gate() and keeps(values) else ())
        case step.AsyncMap():
            kind = AsyncOrdered if vertex.ordered else AsyncUnordered
            return kind(capacity=vertex.capacity, ignores_key=vertex.ignores_key)
        case step.Custom():
            function = _CustomFunction(vertex, inputs, node.output)
            return transform.CustomProcessor(function=function, initial=vertex.initial, by_input=vertex.by_input)
        case step.LateDrop():
            key = _key(incoming, vertex.column)
            column = incoming.columns.index(vertex.column)
            return transform.LateDropProcessor(time=column, key=key, ignores_key=vertex.ignores_key)
        case step.StatefulMap():
            return _stateful(vertex, incoming, rules)
        case step.Window():
            return _window(node, incoming, rules)
        case step.SessionWindow():
            return window.SessionProcessor(timeout=vertex.timeout_ms, **_grouping(vertex, incoming))
        case step.Join() | step.HashJoin():
            return _join(vertex, plan, inputs, rules)
    return transform.Transform(lambda values: (values,))


def _stateful(vertex: step.StatefulMap, incoming: Output, rules: Rules) -> transform.StatefulMapProcessor:
    grouping = _grouping(vertex, incoming)
    aggregates = grouping.pop("aggregates")

    def on_row(memory: Any, values: _Values) -> tuple[Any, tuple[_Values, ...]]:
        after = aggregate.accumulated(aggregates, memory, values)
        return after, ((*values, *aggregate.finished(aggregates, after)),)

    initial = aggregate.created(aggregates)
    return transform.StatefulMapProcessor(
        on_row=on_row, initial=initial, ttl=vertex.ttl_ms, deviations=rules.deviations, **grouping
    )


def _window(node: Node, incoming: Output, rules: Rules) -> Processor[Any]:
    """The window of a node."""
    vertex = node.vertex
    grouped = tuple((key, vertex.by.index(column)) for key, column in node.output.keys if column in vertex.by)
    return window.WindowProcessor(
        shape=window.WindowShape(vertex.size_ms, vertex.step_ms),
        limit=vertex.limit,
        bounds_only=rules.bounds_only,
        deviations=rules.deviations,
        ignores_key=vertex.ignores_key,
        times=tuple(map(incoming.columns.index, vertex.columns)),
        grouped=grouped,
        **_grouping(vertex, incoming),
    )


def _grouping(vertex: step.StatefulMap | step.Windowed, incoming: Output) -> dict[str, Any]:
    """What the rules of all vertices with groups need: indices of columns, the aggregates, and the key."""
    calls = [aggregate_of(text) for text in vertex.aggregates.values()]
    index = incoming.columns.index
    return {
        "time": index(vertex.column),
        "key": _key(incoming, vertex.column),
        "group": tuple(map(index, vertex.by)),
        "aggregates": tuple(
            aggregate.Aggregation(function, None if column is None else index(column))  # type: ignore[arg-type]
            for function, column in calls
        ),
    }


def _key(incoming: Output, column: str) -> int:
    return next(key for key, carried in incoming.keys if carried == column)


def _join(vertex: step.Joining, plan: Plan, inputs: Sequence[Output], rules: Rules) -> Processor[Any]:
    left, right = inputs
    indices = {name: index for index, name in enumerate(dotted(left, right))}
    condition = compiled(vertex.condition, indices)
    outer = {None: None, "left": LEFT, "right": RIGHT}[vertex.outer]
    if isinstance(vertex, step.HashJoin):
        pairs = equal_columns(vertex.condition)
        equal = tuple((left.columns.index(name), right.columns.index(other)) for name, other in pairs)
        return BatchJoin(outer=outer, width=len(right.columns), condition=condition, equal=equal)
    return StreamJoin(
        outer=outer,
        keys=(_indices_of_keys(left), _indices_of_keys(right)),
        widths=(len(left.columns), len(right.columns)),
        bounds=plan.joins[vertex.name].bounds,
        condition=condition,
        output=rules.emit,
        limit=vertex.limit,
        deviations=rules.deviations,
    )


def _indices_of_keys(output: Output) -> dict[int, int]:
    return {key: output.columns.index(column) for key, column in output.keys if column is not None}


def condition_of(where: Any, columns: Sequence[str], vertex: str) -> Callable[[_Values], Any]:
    """The condition of a vertex as a function of a row."""

    def holds(values: _Values) -> Any:
        row = dict(zip(columns, values, strict=True))
        return call_user_function(where, row, vertex=vertex, item=_row_in_words(row))

    if is_function(where):
        return holds
    return compiled(where, {name: index for index, name in enumerate(columns)})


def row_function(
    vertex: step.Selecting, incoming: Output, outgoing: Output
) -> Callable[[_Values], tuple[_Values, ...]]:
    """What a vertex makes of a row: a function from a row to rows."""
    if vertex.function is not None:
        return _called(vertex, incoming.columns, outgoing.columns)
    if vertex.select is None:
        return lambda values: (values,)
    indices = {name: index for index, name in enumerate(incoming.columns)}
    selects = vertex.select if isinstance(vertex.select, tuple) else (vertex.select,)
    rows = [tuple(compiled(text, indices) for text in select.values()) for select in selects]
    return lambda values: tuple(tuple(field(values) for field in row) for row in rows)


def _called(
    vertex: step.Selecting, incoming: Sequence[str], outgoing: Sequence[str]
) -> Callable[[_Values], tuple[_Values, ...]]:
    function: Callable[..., Any] = vertex.function  # type: ignore[assignment]

    def call(values: _Values) -> tuple[_Values, ...]:
        row = dict(zip(incoming, values, strict=True))
        result = call_user_function(function, row, vertex=vertex.name, item=_row_in_words(row))
        rows: Iterable[Any] = () if result is None else (result,) if isinstance(result, Mapping) else result
        return tuple(_row_of(row, function, outgoing) for row in rows)

    return call


def _row_of(row: Any, function: Callable[..., Any], outgoing: Sequence[str]) -> _Values:
    wrong = f"is not a row of the columns {', '.join(outgoing)}"
    if isinstance(row, Mapping) and row.keys() == set(outgoing):
        try:
            return tuple(plain_value(row[name]) for name in outgoing)
        except ValueError as error:
            wrong = str(error)
    raise ScenarioError(
        f"{function_name(function)} returned {row!r}, which {wrong}.",
        remedy="return a dict of these columns, or give the vertex columns=.",
    )


@dataclass(frozen=True, slots=True)
class _CustomFunction:
    """The function of a custom processor over items of the model; what it returns is checked."""

    vertex: step.Custom
    inputs: Sequence[Output]
    outgoing: Output

    def __call__(self, state: object, item: RowValues | Watermark, edge: int | None) -> transform.CustomAnswer:
        """The next state, what leaves, and whether it is taken, of a row or a watermark."""
        function, offered = self.vertex.function, cast("Any", item)
        if isinstance(item, Watermark):
            words = f"the watermark {item.value} of key {item.key}"
        else:
            offered = row = dict(zip(self.inputs[edge or 0].columns, item, strict=True))
            words = _row_in_words(row)
        of_input = f" of input {edge}" if self.vertex.by_input else ""
        arguments = (state, offered, edge) if self.vertex.by_input else (state, offered)
        words = f"{words}{of_input} in the state {shown(state)}"
        answer = call_user_function(function, *arguments, vertex=self.vertex.name, item=words)
        is_answer = isinstance(answer, tuple) and len(answer) in {2, 3} and isinstance(answer[1], list | tuple)
        if not is_answer or any(third is not transform.AGAIN for third in answer[2:]):
            raise ScenarioError(
                f"{function_name(function)} returned {answer!r}, which is not a state with a list of items.",
                remedy="return (state, [rows as dicts and Watermark(key, value)]), or with AGAIN as a third value.",
            )
        items = [
            self._watermark(entry, function)
            if isinstance(entry, Watermark)
            else _row_of(entry, function, self.outgoing.columns)
            for entry in answer[1]
        ]
        return answer[0], items, len(answer) == 2

    def _watermark(self, watermark: Watermark, function: Any) -> Watermark | Idle:
        """A watermark that was returned; refuses one whose key or value is not a whole number, or whose key is new."""
        for name, value in (("key", watermark.key), ("value", watermark.value)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise ScenarioError(
                    f"{function_name(function)} returned a watermark whose {name} is {value!r}, no whole number.",
                    remedy="return Watermark(key, value) with a key from -128 to 127 and a time in whole units.",
                )
        item = watermark_instance(watermark.key, watermark.value)
        known = dict(self.outgoing.keys)
        if isinstance(item, Watermark) and item.key not in known:
            raise ScenarioError(
                f"{self.vertex.name}: {function_name(function)} returned a watermark of key {item.key}; the keys that "
                f"leave {self.vertex.name} are {', '.join(map(str, known)) or 'none'}.",
                remedy=f"declare it with its column, as in keys={{{item.key}: 'column'}}, or return another key.",
            )
        return item


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRule:
    """A window or a join of a dataflow: what it is called in the tables, and the rule by which it ran.

    `inputs` are the columns on each input edge, `columns` those of its results.
    """

    vertex: str
    rule: window.WindowProcessor | window.SessionProcessor | AnyJoin
    inputs: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]

    @property
    def limit(self) -> int | None:
        """How many rows or accumulators an instance may hold; None: any number."""
        return None if isinstance(self.rule, window.SessionProcessor | BatchJoin) else self.rule.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowRules:
    """The rules of all vertices, those of the times of `sources` by name and key.

    `capacities`: how many calls an asynchronous vertex makes at once; `end_ms`: the end. Without a dataflow to take
    them from, all are empty.
    """

    sources: Mapping[str, Source] = field(default_factory=dict)
    times: Mapping[tuple[str, int], WatermarkedColumn] = field(default_factory=dict)
    results: Mapping[str, RecordedRule] = field(default_factory=dict)
    capacities: Mapping[str, int] = field(default_factory=dict)
    end_ms: int | None = None

    @property
    def windows(self) -> dict[str, RecordedRule]:
        """The windows and sessions."""
        return {name: result for name, result in self.results.items() if not isinstance(result.rule, AnyJoin)}

    @property
    def joins(self) -> dict[str, StreamJoin]:
        """The joins of streams."""
        return {name: result.rule for name, result in self.results.items() if isinstance(result.rule, StreamJoin)}


def rules_of(dataflow: DataflowScenario) -> DataflowRules:
    """The rules of a dataflow."""
    dataflow = dataflow.resolved
    vertices = dataflow.vertices
    sources = {source.name: source for source in vertices if isinstance(source, Source)}
    times_of = partial(watermarked_columns, dataflow)
    return DataflowRules(
        sources=sources,
        times={(name, time.mapper.key): time for name, source in sources.items() for time in times_of(source)},
        results={v.name: _result(dataflow, v) for v in vertices if isinstance(v, step.Windowed | step.Joining)},
        capacities={vertex.name: vertex.capacity for vertex in vertices if isinstance(vertex, step.AsyncMap)},
        end_ms=dataflow.start_ms + dataflow.duration_ms,
    )


def _result(dataflow: DataflowScenario, vertex: step.Windowed | step.Joining) -> RecordedRule:
    plan = dataflow.plan
    node = Node(vertex.name, vertex, plan.outputs[vertex.name])
    return RecordedRule(
        vertex=vertex.name,
        rule=processor_of(dataflow, plan, node),  # type: ignore[arg-type]
        inputs=tuple(incoming.columns for incoming in plan.incoming(vertex.name)),
        columns=node.output.columns,
    )
