"""Which columns and which watermark keys travel over every edge of a dataflow, found in the order of the flow.

Which watermark keys leave a vertex, and on which column, is what a dataflow is planned by:

    source        the keys of its times, each on its column
    map           a column keeps its key if it is the plain column of the input; a key whose column is gone still has
                  watermarks, of no column
    merge         the keys of all inputs; the same key has to be on the same column. A key that only some inputs have is
                  stuck: it goes on only while all others are idle or have ended
    join          both sides keep theirs; of a join with a batch the left side, as a batch has none
    window        the key of its time column, on the end of the window; it ends all other keys, but for those of grouped
                  columns where it is told to keep them
    other         as its input

A column that is taken twice keeps its key on the first of its copies. The author of a dataflow chooses the keys, as in
upstream's Core API; in its SQL the planner does (class `WatermarkKeysAssigner`).

Of the condition of a join only the parts joined by `and` at the top say something about time and equal columns, as
`wmlab.core.expression` has it; all of it is applied to the rows. What does not fit is a problem with its location in
the dataflow.

Source: "Keyed watermark support", Extending the behavior for multiple keys, Changes to union/merge processor and to
window aggregation processors; "Stream-to-stream join", time bounds; upstream class `StreamToStreamJoinPhysicalRule`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from wmlab.core.expression import columns_read, join_time_bounds, required_comparisons
from wmlab.core.values import Problem, unknown
from wmlab.dataflow.scenario import vertices as step
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import Edge, HashJoin, Join, Joining, Sink, aggregate_of

Location = tuple[str | int, ...]
RESULT_TIMES: Final = ("start", "end")
"""The columns of a window's result that say which window it is."""


Keys = tuple[tuple[int, str | None], ...]
"""The watermark keys on an edge, ascending, each with the column that carries it or None."""


@dataclass(frozen=True, slots=True)
class MergedKeys:
    """The keys of several inputs together.

    `conflicts`: (input, key, its column there, its column on the inputs before). `stuck`: (key, inputs without it).
    """

    keys: Keys
    conflicts: tuple[tuple[int, int, str | None, str | None], ...] = ()
    stuck: tuple[tuple[int, tuple[int, ...]], ...] = ()


def keys_of_source(columns: Mapping[int, str]) -> Keys:
    """The keys of a source, from the column of each."""
    return tuple(sorted(columns.items()))


def keys_after_map(keys: Keys, selects: Sequence[Mapping[str, str]]) -> Keys:
    """After a map whose rows are made by `selects`: new column to expression, one select for each row that it makes.

    A column keeps its key if it is that plain column in every select.
    """
    kept: dict[str, str] = {}
    for name, text in selects[0].items():
        if all(select.get(name) == text for select in selects):
            kept.setdefault(text, name)
    return tuple((key, None if column is None else kept.get(column)) for key, column in keys)


def keys_after_merge(inputs: Sequence[Keys]) -> MergedKeys:
    """After a merge of inputs with the same columns."""
    keys: dict[int, str | None] = {}
    conflicts = []
    for number, given in enumerate(inputs):
        for key, column in given:
            if keys.setdefault(key, column) != column:
                conflicts.append((number, key, column, keys[key]))
    without = [(key, tuple(n for n, given in enumerate(inputs) if key not in dict(given))) for key in keys]
    stuck = tuple((key, missing) for key, missing in without if missing)
    return MergedKeys(tuple(sorted(keys.items())), tuple(conflicts), stuck)


def keys_after_join(left: Keys, right: Keys, renamed: Mapping[str, str]) -> Keys:
    """After a join; `renamed` has the output column of every column of the right side."""
    right = tuple((key, None if column is None else renamed[column]) for key, column in right)
    return tuple(sorted(dict(left + right).items()))


def keys_after_window(keys: Keys, time: str, end: str, group_columns: Sequence[str] = ()) -> Keys:
    """After a window over column `time` with its end in column `end` that keeps the keys of `group_columns`.

    Empty if the column carries no key.
    """
    key = key_on_column(keys, time)
    others = ((other, column) for other, column in keys if column in group_columns and other != key)
    return () if key is None else tuple(sorted([(key, end), *others]))


def key_on_column(keys: Keys, column: str) -> int | None:
    """The key that a column carries."""
    return next((key for key, carried in keys if carried == column), None)


@dataclass(frozen=True, slots=True)
class Output:
    """What leaves a vertex: its columns, and the keys of its watermarks, ascending, each with its column or None.

    `ends`: it comes to an end by itself, because all sources that it comes from do.
    """

    columns: tuple[str, ...] = ()
    keys: Keys = ()
    ends: bool = False

    @property
    def time(self) -> str | None:
        """The column of the lowest key that has one: what counts as the time of a row."""
        return next((column for _, column in self.keys if column is not None), None)


@dataclass(frozen=True, slots=True)
class JoinRule:
    """What the condition of a join of streams says.

    `bounds`: key a to keys of the other side, each with an amount: "time of the other >= time of a - amount".
    `equal`: pairs of a left and a right column that must be equal as they are.
    """

    bounds: Mapping[int, Mapping[int, int]]
    equal: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The output of each vertex, in the order of the flow, the edges into each, and keys that can get stuck.

    `stuck`: (vertex, key, inputs without this key); such a key advances only while all these inputs are idle or have
    ended. `problems` lists everything that prevents the dataflow from running.
    """

    outputs: Mapping[str, Output]
    inputs: Mapping[str, tuple[Edge, ...]]
    stuck: tuple[tuple[str, int, tuple[str, ...]], ...] = ()
    joins: Mapping[str, JoinRule] = field(default_factory=dict, repr=False)
    problems: tuple[Problem, ...] = field(default=(), repr=False)

    def incoming(self, name: str) -> list[Output]:
        """What each input of a vertex brings."""
        return [self.outputs[edge.source] for edge in self.inputs[name]]


def plan_of(vertices: Sequence[Any], edges: Sequence[Edge]) -> Plan:
    """The plan of a dataflow."""
    by_name = {vertex.name: (number, vertex) for number, vertex in enumerate(vertices)}
    problems = list(_graph_problems(vertices, edges))
    inputs: dict[str, list[Edge]] = {name: [] for name in by_name}
    for edge in edges:
        if edge.target in by_name and edge.source in by_name:
            inputs[edge.target].append(edge)
    outputs: dict[str, Output] = {}
    joins: dict[str, JoinRule] = {}
    stuck: list[tuple[str, int, tuple[str, ...]]] = []
    for name in _in_order(inputs, problems):
        number, vertex = by_name[name]
        known = [(edge.source, outputs[edge.source]) for edge in inputs[name] if edge.source in outputs]
        if len(known) < len(inputs[name]) or (not known and not isinstance(vertex, Source)):
            continue
        output = _Planning(vertex, ("vertices", number), known, problems, stuck, joins).output()
        if output is not None:
            ends = vertex.ends if isinstance(vertex, Source) else all(incoming.ends for _, incoming in known)
            outputs[name] = replace(output, ends=ends)
    for number, edge in enumerate(edges):
        for index, column in enumerate(edge.by if edge.source in outputs else ()):
            problems += unknown(("edges", number, "by", index), "column", column, outputs[edge.source].columns)
    return Plan(outputs, {name: tuple(into) for name, into in inputs.items()}, tuple(stuck), joins, tuple(problems))


def _in_order(inputs: Mapping[str, Sequence[Edge]], problems: list[Problem]) -> tuple[str, ...]:
    try:
        return tuple(TopologicalSorter({n: [e.source for e in into] for n, into in inputs.items()}).static_order())
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        problems.append(Problem(("edges",), f"go in a circle: {circle}; a dataflow has a beginning and an end"))
        return ()


def _graph_problems(vertices: Sequence[Any], edges: Sequence[Edge]) -> Iterator[Problem]:
    names = [vertex.name for vertex in vertices]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Problem(("vertices", number, "name"), f"another vertex is called {name!r} too")
    by_name = {vertex.name: vertex for vertex in vertices}
    for number, edge in enumerate(edges):
        yield from _edge_problems(("edges", number), edge, by_name)
    for number, vertex in enumerate(vertices):
        if not isinstance(vertex, Source) and not any(edge.target == vertex.name for edge in edges):
            yield Problem(("vertices", number), f"nothing flows into {vertex.name!r}; add an edge to it")
        if not isinstance(vertex, Sink) and not any(edge.source == vertex.name for edge in edges):
            yield Problem(("vertices", number), f"nothing flows out of {vertex.name!r}; add an edge, at last to a Sink")


def _edge_problems(location: Location, edge: Edge, by_name: Mapping[str, Any]) -> Iterator[Problem]:
    for end, name in (("source", edge.source), ("target", edge.target)):
        yield from unknown((*location, end), "vertex", name, by_name)
    source, target = by_name.get(edge.source), by_name.get(edge.target)
    if isinstance(target, Source):
        yield Problem((*location, "target"), f"{target.name!r} is a source; nothing flows into it")
    if isinstance(source, Sink):
        yield Problem((*location, "source"), f"{source.name!r} is a sink; nothing flows out of it")
    if source is None or target is None or edge.routing != "isolated" or source.parallelism == target.parallelism:
        return
    message = f"isolated needs equal parallelism, {source.name!r} has {source.parallelism}, {target.name!r} "
    yield Problem((*location, "routing"), message + str(target.parallelism))


@dataclass(frozen=True, slots=True)
class _Planning:
    """One vertex: from what its inputs bring to what leaves it; `problems`, `stuck` and `joins` are of all vertices."""

    vertex: Any
    location: Location
    inputs: Sequence[tuple[str, Output]]
    problems: list[Problem]
    stuck: list[tuple[str, int, tuple[str, ...]]]
    joins: dict[str, JoinRule]

    def output(self) -> Output | None:
        """What leaves the vertex; None if that cannot be said."""
        vertex = self.vertex
        if isinstance(vertex, Source):
            return Output(vertex.row_columns, keys_of_source({time.key: time.column for time in vertex.times}))
        if isinstance(vertex, Join):
            return self._join(vertex)
        if isinstance(vertex, HashJoin):
            return self._hash_join(vertex)
        if isinstance(vertex, step.Custom) and vertex.by_input:
            return self._own_by_input(vertex)
        incoming = self._merged()
        return None if incoming is None else self._made_of(vertex, incoming)

    def _made_of(self, vertex: Any, incoming: Output) -> Output:
        """What leaves a vertex whose inputs together bring `incoming`."""
        match vertex:
            case step.Selecting(select=None) | step.Custom(keys=None):
                columns = vertex.columns or incoming.columns
                return Output(columns, keys_after_map(incoming.keys, [{column: column for column in columns}]))
            case step.Selecting():
                return self._selected(vertex, incoming)
            case step.Custom(keys=dict(keys)):
                return self._own(keys, vertex.columns or incoming.columns)
            case step.Filter(where=str(where)):
                self._require(("where",), columns_read(where), incoming.columns)
            case step.LateDrop():
                self._require_key(vertex.column, incoming)
            case step.Window() | step.SessionWindow():
                self._require_groups(vertex, incoming)
                columns = (*RESULT_TIMES, *vertex.by, *vertex.aggregates)
                group_columns = vertex.by if isinstance(vertex, step.Window) and vertex.grouped_times else ()
                return Output(columns, keys_after_window(incoming.keys, vertex.column, RESULT_TIMES[1], group_columns))
            case step.StatefulMap():
                self._require_groups(vertex, incoming)
                for name in (name for name in vertex.aggregates if name in incoming.columns):
                    self._note(("aggregates", name), f"a column of the input is called {name!r} too")
                return Output((*incoming.columns, *vertex.aggregates), incoming.keys)
        return incoming

    def _note(self, where: Location, message: str) -> None:
        self.problems.append(Problem((*self.location, *where), message))

    def _own(self, keys: Mapping[int, str], columns: tuple[str, ...]) -> Output:
        """What leaves a processor of your own that says its keys."""
        for key, column in keys.items():
            self._require(("keys", key), [column], columns)
        return Output(columns, keys_of_source(keys))

    def _own_by_input(self, vertex: step.Custom) -> Output | None:
        """What leaves a processor of your own that gets the watermarks of each input; none is stuck before it."""
        columns = vertex.columns or self._same_columns()
        if columns is None or vertex.keys is not None:
            return None if columns is None else self._own(vertex.keys or {}, columns)
        own = {column: column for column in columns}
        return Output(columns, self._together([keys_after_map(output.keys, [own]) for _, output in self.inputs]).keys)

    def _same_columns(self) -> tuple[str, ...] | None:
        """The columns that all inputs have; None if they differ."""
        name, first = self.inputs[0]
        for other, output in self.inputs[1:]:
            if output.columns != first.columns:
                theirs, ours = ", ".join(output.columns), ", ".join(first.columns)
                self._note((), f"{other!r} brings {theirs}, but {name!r} brings {ours}; give them the same columns")
                return None
        return first.columns

    def _together(self, keys: Sequence[Keys]) -> MergedKeys:
        """The keys of all inputs; the same key has to be on the same column."""
        together = keys_after_merge(keys)
        for number, key, column, before in together.conflicts:
            message = f"key {key} is of {before!r} and, from {self.inputs[number][0]!r}, of {column!r}; "
            self._note((), message + "the same field needs the same key on all inputs, and others another")
        return together

    def _merged(self) -> Output | None:
        """What the inputs bring together: the same columns each, and the keys of all."""
        columns = self._same_columns()
        if columns is None:
            return None
        together = self._together(list(self._keys_of_inputs(columns)))
        for key, without in together.stuck:
            self.stuck.append((self.vertex.name, key, tuple(self.inputs[number][0] for number in without)))
        return Output(columns, together.keys)

    def _keys_of_inputs(self, columns: tuple[str, ...]) -> Iterator[Keys]:
        """The keys of each input; a window reads the time of each input as that of the first."""
        times = self.vertex.columns if isinstance(self.vertex, step.Window) else ()
        if times and len(times) != len(self.inputs):
            self._note(("columns",), f"needs one column for each of {len(self.inputs)} inputs (got {len(times)})")
        for number, (_, output) in enumerate(self.inputs):
            mine = times[number] if number < len(times) else None
            self._require(("columns", number), [mine], columns)
            yield tuple(
                (key, times[0] if mine is not None and column == mine else column) for key, column in output.keys
            )

    def _selected(self, vertex: step.Selecting, incoming: Output) -> Output:
        several = isinstance(vertex.select, tuple)
        selects = vertex.select if isinstance(vertex.select, tuple) else (vertex.select,)
        for number, select in enumerate(selects):
            for name, text in select.items():
                where = ("select", number, name) if several else ("select", name)
                self._require(where, columns_read(text), incoming.columns)
        return Output(tuple(selects[0]), keys_after_map(incoming.keys, selects))

    def _require_groups(self, vertex: step.Windowed | step.StatefulMap, incoming: Output) -> None:
        self._require_key(vertex.column, incoming)
        for number, column in enumerate(vertex.by):
            self._require(("by", number), [column], incoming.columns)
        for name, text in vertex.aggregates.items():
            self._require(("aggregates", name), [aggregate_of(text)[1]], incoming.columns)

    def _require_key(self, column: str, incoming: Output) -> None:
        """The key of a column that the vertex waits for."""
        self._require(("column",), [column], incoming.columns)
        if key_on_column(incoming.keys, column) is None and column in incoming.columns:
            carried = ", ".join(f"{name} (key {number})" for number, name in incoming.keys if name) or "none"
            message = f"column {column!r} carries no watermark here, so {self.vertex.name!r} would wait for ever; "
            self._note(("column",), message + f"columns that do: {carried}")

    def _require(self, where: Location, columns: Iterable[str | None], known: Sequence[str]) -> None:
        for column in columns:
            self.problems.extend(unknown((*self.location, *where), "column", column, known))

    def _join(self, vertex: Join) -> Output | None:
        if (sides := self._sides(vertex)) is None:
            return None
        left, right = sides
        rule = self.joins[vertex.name] = _join_rule(vertex.condition, left, right)
        for message in _join_problems(vertex.condition, left, right, rule):
            self._note(("condition",), message)
        renamed = self._renamed(left, right)
        return Output((*left.columns, *renamed.values()), keys_after_join(left.keys, right.keys, renamed))

    def _hash_join(self, vertex: HashJoin) -> Output | None:
        if (sides := self._sides(vertex)) is None:
            return None
        left, right = sides
        name = self.inputs[1][0]
        if right.keys:
            keys = ", ".join(f"key {key}" for key, _ in right.keys)
            self._note((), f"a batch has no watermarks, but {name!r} brings {keys}; leave out the times of its sources")
        if not right.ends:
            self._note((), f"the batch has to end, but {name!r} does not; give its sources ends=True")
        return Output((*left.columns, *self._renamed(left, right).values()), left.keys)

    def _sides(self, vertex: Joining) -> tuple[Output, Output] | None:
        """The left and the right input of a join, whose condition reads their columns; None if there are not two."""
        if len(self.inputs) != 2:
            names = ", ".join(repr(name) for name, _ in self.inputs)
            self._note((), f"a join has two inputs, left and right, in this order (got {names})")
            return None
        (_, left), (_, right) = self.inputs
        self._require(("condition",), columns_read(vertex.condition), dotted(left, right))
        return left, right

    def _renamed(self, left: Output, right: Output) -> dict[str, str]:
        """What the columns of the right side are called in a joined row."""
        renamed = {name: f"right_{name}" if name in left.columns else name for name in right.columns}
        columns = (*left.columns, *renamed.values())
        for name in dict.fromkeys(name for name in columns if columns.count(name) > 1):
            self._note((), f"two columns of its rows would be called {name!r}; rename one of them before it")
        return renamed


def dotted(left: Output, right: Output) -> tuple[str, ...]:
    """The columns of a joined row as its condition names them."""
    return (*(f"left.{name}" for name in left.columns), *(f"right.{name}" for name in right.columns))


def _join_rule(condition: str, left: Output, right: Output) -> JoinRule:
    indices = {name: index for index, name in enumerate(dotted(left, right))}
    keys = [{indices[f"{side}.{c}"]: k for k, c in o.keys if c} for side, o in (("left", left), ("right", right))]
    by_key = keys[0] | keys[1]
    bounds = {
        by_key[index]: {by_key[other]: amount for other, amount in amounts.items()}
        for index, amounts in join_time_bounds(condition, indices, keys[0], keys[1]).items()
    }
    return JoinRule(bounds, equal_columns(condition))


def equal_columns(condition: str) -> tuple[tuple[str, str], ...]:
    """Pairs of a left and a right column that the condition of a join wants equal as they are, each once."""
    pairs: dict[tuple[str, str], None] = {}
    for sides in required_comparisons(condition):
        match sides:
            case ast.Attribute() as one, ast.Eq(), ast.Attribute() as other:
                columns = dict(ast.unparse(side).split(".") for side in (one, other))
                if len(columns) == 2:
                    pairs[columns["left"], columns["right"]] = None
    return tuple(pairs)


def _join_problems(condition: str, left: Output, right: Output, rule: JoinRule) -> Iterator[str]:
    """Why the join cannot run: the same key on both sides, or a bound that is missing, spelled out."""
    both = [key for key, _ in left.keys if key in dict(right.keys)]
    for key in both:
        sides = f"left.{dict(left.keys)[key]} and right.{dict(right.keys)[key]}"
        yield f"both sides have watermark key {key} ({sides}); give the times of one side another key"
    if both:
        return
    for side, output in (("left", left), ("right", right)):
        if output.time is None:
            yield f"the {side} side has no column with a watermark; give its source times="
            return
    for this_side, other_side, this, other in (("left", "right", left, right), ("right", "left", right, left)):
        theirs = dict(other.keys)
        if not any(bounded in theirs for key in dict(this.keys) for bounded in rule.bounds.get(key, {})):
            wanted = f"{other_side}.{other.time} >= {this_side}.{this.time} - N"
            yield (
                f"nothing bounds a time of the {other_side} side from below by one of the {this_side} side, so its "
                f"rows would be kept for ever; add a part like `{wanted}` to the condition with `and` "
                f"(got {condition!r})"
            )
