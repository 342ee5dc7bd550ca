"""Which columns and which watermark keys travel over every edge of a dataflow, found in the order of the flow.

A key travels with the column that carries it, by the rule of `wmlab.dataflow.model.keys`. What does not fit is a
problem with its place in the dataflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from wmlab.core.values import Problem
from wmlab.dataflow.model.expression import columns_of
from wmlab.dataflow.model.keys import Keys, joined, key_of, merged, of_source, selected, windowed
from wmlab.dataflow.scenario.edges import Edge
from wmlab.dataflow.scenario.parts import aggregate_of
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import (
    AsyncMap,
    Filter,
    FlatMap,
    Join,
    LateDrop,
    Map,
    SessionWindow,
    Sink,
    StatefulMap,
    Window,
)

Location = tuple[str | int, ...]
RESULT_TIMES: Final = ("start", "end")
"""The columns of a window's result that say which window it is."""


@dataclass(frozen=True, slots=True)
class Output:
    """What leaves a vertex: its columns, and the keys of its watermarks, ascending, each with its column or None."""

    columns: tuple[str, ...] = ()
    keys: Keys = ()

    def key_of(self, column: str) -> int | None:
        """The key that a column carries."""
        return key_of(self.keys, column)

    @property
    def time(self) -> str | None:
        """The column of the lowest key that has one: what counts as the time of a row."""
        return next((column for _, column in self.keys if column is not None), None)


@dataclass(frozen=True, slots=True)
class Plan:
    """The vertices in the order of the flow, what leaves each, the edges into each, and keys that can get stuck.

    `stuck`: (vertex, key, inputs that have it not); such a key goes on only while all those are idle or have ended.
    """

    order: tuple[str, ...]
    outputs: Mapping[str, Output]
    inputs: Mapping[str, tuple[Edge, ...]]
    stuck: tuple[tuple[str, int, tuple[str, ...]], ...] = ()
    problems: tuple[Problem, ...] = field(default=(), repr=False)


def plan(vertices: Sequence[Any], edges: Sequence[Edge]) -> Plan:
    """The plan of a dataflow; `problems` has everything that keeps it from running."""
    by_name = {vertex.name: (number, vertex) for number, vertex in enumerate(vertices)}
    problems = list(_graph_problems(vertices, edges))
    inputs: dict[str, list[Edge]] = {name: [] for name in by_name}
    for edge in edges:
        if edge.target in by_name and edge.source in by_name:
            inputs[edge.target].append(edge)
    try:
        order = tuple(TopologicalSorter({n: [e.source for e in found] for n, found in inputs.items()}).static_order())
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        problems.append(Problem(("edges",), f"go in a circle: {circle}; a dataflow has a beginning and an end"))
        return Plan((), {}, {}, (), tuple(problems))
    outputs: dict[str, Output] = {}
    stuck: list[tuple[str, int, tuple[str, ...]]] = []
    for name in order:
        number, vertex = by_name[name]
        known = [(edge.source, outputs[edge.source]) for edge in inputs[name] if edge.source in outputs]
        if len(known) < len(inputs[name]) or (not known and not isinstance(vertex, Source)):
            continue
        planned = _Planning(vertex, ("vertices", number), known)
        made = planned.output()
        problems += planned.problems
        stuck += planned.stuck
        if made is not None:
            outputs[name] = made
    return Plan(order, outputs, {name: tuple(found) for name, found in inputs.items()}, tuple(stuck), tuple(problems))


def _graph_problems(vertices: Sequence[Any], edges: Sequence[Edge]) -> Iterator[Problem]:
    names = [vertex.name for vertex in vertices]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Problem(("vertices", number, "name"), f"another vertex is called {name!r} too")
    kinds = {vertex.name: vertex for vertex in vertices}
    for number, edge in enumerate(edges):
        yield from _edge_problems(("edges", number), edge, kinds)
    for number, vertex in enumerate(vertices):
        if not isinstance(vertex, Source) and not any(edge.target == vertex.name for edge in edges):
            yield Problem(("vertices", number), f"nothing flows into {vertex.name!r}; add an edge to it")
        if not isinstance(vertex, Sink) and not any(edge.source == vertex.name for edge in edges):
            yield Problem(("vertices", number), f"nothing flows out of {vertex.name!r}; add an edge, at last to a Sink")


def _edge_problems(location: Location, edge: Edge, kinds: Mapping[str, Any]) -> Iterator[Problem]:
    for end in ("source", "target"):
        name = getattr(edge, end)
        if name not in kinds:
            yield Problem((*location, end), f"no vertex is called {name!r}; there are: {', '.join(kinds)}")
    source, target = kinds.get(edge.source), kinds.get(edge.target)
    if isinstance(target, Source):
        yield Problem((*location, "target"), f"{target.name!r} is a source; nothing flows into it")
    if isinstance(source, Sink):
        yield Problem((*location, "source"), f"{source.name!r} is a sink; nothing flows out of it")
    if source is None or target is None or edge.routing != "isolated" or source.parallelism == target.parallelism:
        return
    message = f"isolated needs equal parallelism, {source.name!r} has {source.parallelism}, {target.name!r} "
    yield Problem((*location, "routing"), message + str(target.parallelism))


class _Planning:
    """One vertex: from what its inputs bring to what leaves it."""

    def __init__(self, vertex: Any, location: Location, inputs: Sequence[tuple[str, Output]]) -> None:
        self.vertex = vertex
        self.location = location
        self.inputs = inputs
        self.problems: list[Problem] = []
        self.stuck: list[tuple[str, int, tuple[str, ...]]] = []

    def output(self) -> Output | None:
        """What leaves the vertex; None if that cannot be said."""
        vertex = self.vertex
        if isinstance(vertex, Source):
            return Output(vertex.row_columns, of_source({time.key: time.column for time in vertex.times}))
        if isinstance(vertex, Join):
            return self._join(vertex)
        merged = self._merged()
        if merged is None:
            return None
        if isinstance(vertex, Map | FlatMap | AsyncMap):
            return self._selected(vertex, merged)
        if isinstance(vertex, Window | SessionWindow):
            return self._window(vertex, merged)
        if isinstance(vertex, Filter):
            self._require_readable(("where",), vertex.where, merged.columns)
        if isinstance(vertex, LateDrop):
            self._require_key(vertex.column, merged)
        if isinstance(vertex, StatefulMap):
            return self._stateful(vertex, merged)
        return merged

    def _note(self, field_: Location, message: str) -> None:
        self.problems.append(Problem((*self.location, *field_), message))

    def _merged(self) -> Output | None:
        """What the inputs bring together: the same columns each, and the keys of all."""
        name, first = self.inputs[0]
        for other, output in self.inputs[1:]:
            if output.columns != first.columns:
                theirs, ours = ", ".join(output.columns), ", ".join(first.columns)
                self._note((), f"{other!r} brings {theirs}, but {name!r} brings {ours}; give them the same columns")
                return None
        together = merged([output.keys for _, output in self.inputs])
        for number, key, column, before in together.conflicts:
            message = f"key {key} is of {before!r} and, from {self.inputs[number][0]!r}, of {column!r}; "
            self._note((), message + "the same field needs the same key on all inputs, and others another")
        for key, without in together.stuck:
            self.stuck.append((self.vertex.name, key, tuple(self.inputs[number][0] for number in without)))
        return Output(first.columns, together.keys)

    def _selected(self, vertex: Map | FlatMap | AsyncMap, given: Output) -> Output:
        selects = vertex.select if isinstance(vertex.select, tuple) else (vertex.select,)
        if selects == (None,):
            columns = vertex.columns or given.columns
            selects = ({column: column for column in columns},)
        else:
            columns = tuple(selects[0] or ())
            for number, select in enumerate(selects):
                where = ("select", number) if isinstance(vertex.select, tuple) else ("select",)
                for name, text in (select or {}).items():
                    self._require_readable((*where, name), text, given.columns)
        return Output(columns, selected(given.keys, [select or {} for select in selects]))

    def _window(self, vertex: Window | SessionWindow, given: Output) -> Output:
        self._require_key(vertex.column, given)
        self._require_columns(vertex, given)
        columns = (*RESULT_TIMES, *vertex.by, *vertex.aggregates)
        return Output(columns, windowed(given.keys, vertex.column, RESULT_TIMES[1]))

    def _stateful(self, vertex: StatefulMap, given: Output) -> Output:
        self._require_key(vertex.column, given)
        self._require_columns(vertex, given)
        for name in vertex.aggregates:
            if name in given.columns:
                self._note(("aggregates", name), f"a column of the input is called {name!r} too")
        return Output((*given.columns, *vertex.aggregates), given.keys)

    def _require_columns(self, vertex: Window | SessionWindow | StatefulMap, given: Output) -> None:
        for number, column in enumerate(vertex.by):
            self._require_column(("by", number), column, given.columns)
        for name, text in vertex.aggregates.items():
            column_or_none = aggregate_of(text)[1]
            if column_or_none is not None:
                self._require_column(("aggregates", name), column_or_none, given.columns)

    def _require_key(self, column: str, given: Output) -> None:
        """The key of a column that the vertex waits for."""
        self._require_column(("column",), column, given.columns)
        if given.key_of(column) is None and column in given.columns:
            carried = ", ".join(f"{name} (key {number})" for number, name in given.keys if name) or "none"
            message = f"column {column!r} carries no watermark here, so {self.vertex.name!r} would wait for ever; "
            self._note(("column",), message + f"columns that do: {carried}")

    def _require_column(self, where: Location, column: str, known: Iterable[str]) -> None:
        if column not in known:
            self._note(where, f"no column is called {column!r}; there are: {', '.join(known)}")

    def _require_readable(self, where: Location, expression: object, known: Sequence[str]) -> None:
        for column in columns_of(expression) if isinstance(expression, str) else ():
            self._require_column(where, column, known)

    def _join(self, vertex: Join) -> Output | None:
        if len(self.inputs) != 2:
            names = ", ".join(repr(name) for name, _ in self.inputs)
            self._note((), f"a join has two inputs, left and right, in this order (got {names})")
            return None
        (_, left), (_, right) = self.inputs
        known = [*(f"left.{name}" for name in left.columns), *(f"right.{name}" for name in right.columns)]
        self._require_readable(("condition",), vertex.condition, known)
        renamed = {name: f"right_{name}" if name in left.columns else name for name in right.columns}
        columns = (*left.columns, *renamed.values())
        return Output(columns, joined(left.keys, right.keys, renamed))
