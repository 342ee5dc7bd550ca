"""Windows and joins of the on-time rows of a recording as batch queries, and the results of the dataflow against them.

A batch query knows no watermarks: a window is an interval of time, a session a run of rows without a gap, and a join a
join. Only what a row of the result looks like is left to the functions of `wmlab.dataflow.model`, row by row. One query
has all windows and sessions of a dataflow, and another one all its joins.

An execution that ended gave everything. One that was stopped gave at least what its last watermark released, and what
it gave must be among what the rows can give.

Source: "Stream-to-stream join", Semantics; "Keyed watermark support", Changes to window aggregation processors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.errors import ModelError
from wmlab.core.invariants import TableRow, TableRows
from wmlab.core.spark.schemas import spark_schema
from wmlab.core.spark.verdict import SO_FAR, batch_invariant, findings, row_of, undecided
from wmlab.dataflow.checks.channels import Channels
from wmlab.dataflow.model.aggregate import accumulated, created, finished, group_of
from wmlab.dataflow.model.items import MAX, MIN, RowValues
from wmlab.dataflow.model.join import LEFT, RIGHT, AnyJoin, BatchJoin
from wmlab.dataflow.model.window import SessionProcessor
from wmlab.dataflow.model.window import WindowProcessor as WindowRule
from wmlab.dataflow.sim.rules import DataflowRules, RecordedRule

_OF_RESULT: Final = ("stream", "execution", "instance", "vertex")
_DIGITS: Final = 9
_RESULT: Final = {
    "stream": pa.string(),
    "execution": pa.int64(),
    "instance": pa.int64(),
    "vertex": pa.string(),
}


def windows_of_on_time_rows(items: DataFrame, queues: DataFrame, drops: DataFrame, window: RecordedRule) -> DataFrame:
    """Every window or session that holds an on-time row, with its result.

    Takes tables of a recording and a window or session of it. Returns stream, execution, instance, start and end
    (exclusive) in the unit of the times, and row: the result as the JSON text that the dataflow writes. Nothing is
    executed here. Raises `ModelError` for a join.
    Source: upstream classes `SlidingWindowP` and `SessionWindowP`.
    """
    if isinstance(window.rule, AnyJoin):
        raise ModelError(f"{window.vertex!r} is a join.", remedy="Ask join_of_on_time_rows.")
    rows = on_time_rows(_taken_rows(items, queues), drops, (window,))
    return windows_of(rows, (window,), None).select("stream", "execution", "instance", "start", "end", "row")


def join_of_on_time_rows(items: DataFrame, queues: DataFrame, drops: DataFrame, join: RecordedRule) -> DataFrame:
    """Every pair of on-time rows that meet the condition and, on the outer side, every row without a partner.

    Takes tables of a recording and a join of it. Returns stream, execution, instance, padded (whether the row has no
    partner), time (of a padded row, by the lowest key of its side; else null), and row: the result as the JSON text
    that the dataflow writes. Nothing is executed here. Raises `ModelError` for a window.
    Source: upstream class `StreamToStreamJoinP`.
    """
    if not isinstance(join.rule, AnyJoin):
        raise ModelError(f"{join.vertex!r} is no join.", remedy="Ask windows_of_on_time_rows.")
    rows = on_time_rows(_taken_rows(items, queues), drops, (join,))
    return joins_of(rows, (join,), None).select("stream", "execution", "instance", "padded", "time", "row")


_TAKEN: Final = "taken is not null and kind = 'event'"


def _taken_rows(items: DataFrame, queues: DataFrame) -> DataFrame:
    """The rows that instances took: the items with vertex, instance and edge, see `on_time_rows`."""
    targets = queues.selectExpr("stream", "queue", "target as vertex", "target_instance as instance", "edge")
    return items.where(_TAKEN).join(F.broadcast(targets), ["stream", "queue"])


_TAKEN_ROWS: Final = pa.schema(
    _RESULT | {"edge": pa.int64(), "row": pa.string(), "taken": pa.int64(), "taken_ms": pa.int64(), "time": pa.int64()}
)


def taken_by_channels(items: DataFrame, channels: Channels) -> DataFrame:
    """The same of one dataflow, whose channels are known, so that no table of queues is sent to all executors."""

    def taken(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        vertex, instance = channels.target[item["queue"]]
        at = {"vertex": vertex, "instance": instance, "edge": channels.edge[item["queue"]]}
        yield _same(item, "stream", "execution", "row", "taken", "taken_ms", "time") | at

    columns = ("stream", "execution", "queue", "row", "taken", "taken_ms", "time")
    return _mapped(items.where(_TAKEN).select(*columns), taken, _TAKEN_ROWS)


def on_time_rows(taken: DataFrame, drops: DataFrame, rules: Iterable[RecordedRule]) -> DataFrame:
    """The rows that windows or joins took and did not drop.

    Columns: stream, execution, vertex (the one that took it), instance, edge, taken, taken_ms, time, row. A dropped row
    is known by its text. Of several with the same text as many are left out as were dropped.
    """
    entries = [rule.vertex for rule in rules]
    same = ("stream", "execution", "vertex", "instance", "edge", "row")
    rows = taken.select(*same, "taken", "taken_ms", "time", F.lit(0).alias("_dropped"))
    dropped = drops.select(*same, F.lit(1).alias("_dropped"))
    both = rows.unionByName(dropped, allowMissingColumns=True).where(F.col("vertex").isin(entries))
    alike = Window.partitionBy(*same)
    number = F.row_number().over(alike.orderBy("_dropped", "taken"))
    counted = both.withColumns({"_number": number, "_gone": F.sum("_dropped").over(alike)})
    return counted.where("_dropped = 0 and _number > _gone").drop("_dropped", "_number", "_gone")


class ResultProgress(NamedTuple):
    """How far an instance of a window or join had come in an execution that began without a snapshot.

    completed: whether the execution came to its end, so that all results are out. busy_ms: when it took something last;
    what it took then may still wait for its turn, all else is done with. released: the watermark of the key of its
    results that had left before `busy_ms`; None: none had.
    """

    completed: bool
    busy_ms: int
    released: int | None

    def handled(self, taken_ms: int) -> bool:
        """Whether the turn of a row that was taken then has come for certain."""
        return self.completed or taken_ms < self.busy_ms

    def passed(self, time: int | None) -> bool:
        """Whether all results below a watermark have come out for certain."""
        return self.completed or (self.released is not None and time is not None and time <= self.released)


ReachedByInstance = Mapping[tuple[str, int, int], ResultProgress]
"""What windows and joins had reached, by vertex, execution and instance."""


def reached_by_instance(
    rules: DataflowRules,
    specials: TableRows,
    queue_loads: TableRows,
    channels: Channels,
    executions: TableRows,
) -> ReachedByInstance:
    """How far each window and join of a dataflow had come."""
    completed = {row["execution"]: row["outcome"] == "completed" for row in executions if row["snapshot"] is None}
    watermarks: dict[str, list[TableRow]] = {}
    for item in specials:
        if item["kind"] == "watermark":
            watermarks.setdefault(channels.source[item["queue"]][0], []).append(item)
    reached: dict[tuple[str, int, int], ResultProgress] = {}
    for rule in rules.results.values():
        for (execution, instance), busy_ms in _busy_ms(rule, queue_loads, channels).items():
            if execution in completed:
                left = [
                    item
                    for item in watermarks.get(rule.vertex, ())
                    if item["execution"] == execution and item["key"] == _key_of(rule) and item["put_ms"] < busy_ms
                ]
                released = _released(left, channels, instance)
                reached[rule.vertex, execution, instance] = ResultProgress(completed[execution], busy_ms, released)
    return reached


def _key_of(rule: RecordedRule) -> int | None:
    """The key of the watermark that releases results; of a join, rows without a partner; None: it waits for none."""
    if isinstance(rule.rule, BatchJoin):
        return None
    if isinstance(rule.rule, AnyJoin):
        return min(rule.rule.keys[LEFT if rule.rule.outer is None else rule.rule.outer])
    return rule.rule.key


def _busy_ms(rule: RecordedRule, queue_loads: TableRows, channels: Channels) -> dict[tuple[int, int], int]:
    """When each instance took something last, by execution and instance."""
    busy: dict[tuple[int, int], int] = {}
    for load in queue_loads:
        vertex, instance = channels.target[load["queue"]]
        if vertex == rule.vertex and load["taken_ms"] is not None:
            where = load["execution"], instance
            busy[where] = max(busy.get(where, load["taken_ms"]), load["taken_ms"])
    return busy


def _released(left: TableRows, channels: Channels, instance: int) -> int | None:
    """The highest of these watermarks that left an instance."""
    highest: dict[int, int] = {}
    for item in left:
        _, sender = channels.source[item["queue"]]
        highest[sender] = max(highest.get(sender, item["value"]), item["value"])
    return highest.get(instance)


def _mapped(
    frame: DataFrame, made: Callable[[dict[str, Any]], Iterable[dict[str, Any]]], schema: pa.Schema
) -> DataFrame:
    """What a function makes of each row of a frame, which are rows of `schema`."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            results = [result for row in batch.to_pylist() for result in made(row)]
            yield from pa.Table.from_pylist(results, schema=schema).to_batches()

    return frame.mapInArrow(rows, spark_schema(schema))


def _same(row: TableRow, *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _text(names: tuple[str, ...], values: RowValues) -> str:
    """A result as the dataflow writes it."""
    return json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)


def _values(text: str, columns: tuple[str, ...]) -> RowValues:
    row = json.loads(text)
    return tuple(row[column] for column in columns)


_IN_WINDOW: Final = (*_OF_RESULT, "group", "window")
_PLACED: Final = pa.schema(
    _RESULT
    | {"group": pa.string(), "window": pa.string(), "timeout": pa.int64(), "time": pa.int64()}
    | {"taken": pa.int64(), "row": pa.string()}
)
"""A row in one of the windows that it belongs to; window is null in a session, and timeout is in a window.

The bounds of a window are text, [start, end] as JSON: beside a time of 64 bits they may be beyond 64 bits."""
_WINDOWS: Final = pa.schema(_RESULT | {"start": pa.int64(), "end": pa.int64(), "row": pa.string()})


def windows_of(rows: DataFrame, rules: Iterable[RecordedRule], reached: ReachedByInstance | None) -> DataFrame:
    """The windows and sessions of rows that vertices took and did not drop; rows of others are left out.

    Returns stream, execution, instance, vertex, start, end and row, as `windows_of_on_time_rows`. With `reached` only
    those that must have come out.
    """
    by_vertex = {rule.vertex: rule for rule in rules}

    def placed(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        rule = by_vertex.get(row["vertex"])
        if rule is None:
            return
        instance = row["instance"]
        if reached is not None:
            known = reached.get((rule.vertex, row["execution"], instance))
            if known is None or not known.handled(row["taken_ms"]):
                return
        at = _same(row, "stream", "execution", "taken", "row") | {"vertex": rule.vertex, "instance": instance}
        for window in _windows_of_row(rule, _values(row["row"], rule.inputs[0]), row["edge"]):
            yield at | window

    def result(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        rule = by_vertex[row["vertex"]]
        assert not isinstance(rule.rule, AnyJoin)
        start, end = _bounds(rule.rule, row)
        if reached is not None:
            known = reached[rule.vertex, row["execution"], row["instance"]]
            if not known.passed(rule.rule.closed_by(end)):
                return
        taken = [_values(text, rule.inputs[0]) for text in row["rows"]]
        accumulators = created(rule.rule.aggregates)
        for values in taken:
            accumulators = accumulated(rule.rule.aggregates, accumulators, values)
        group, aggregates = group_of(taken[0], rule.rule.group), finished(rule.rule.aggregates, accumulators)
        text = _text(rule.columns, (start, end, *group, *aggregates))
        yield _same(row, *_OF_RESULT) | {"start": max(MIN, start), "end": min(MAX, end), "row": text}

    in_windows = _mapped(rows, placed, _PLACED)
    in_order = Window.partitionBy(*_IN_WINDOW).orderBy("time", "taken")
    # Only in a session is there a timeout, so that a window is one run. A distance beyond 64 bits is null.
    before = F.lag("time").over(in_order)
    beyond = F.col("timeout").isNotNull() & before.isNotNull()
    gap = F.coalesce(F.try_subtract("time", before) >= F.col("timeout"), beyond)
    run = F.sum(F.col("_gap").cast("long")).over(in_order.rowsBetween(*SO_FAR))
    runs = in_windows.withColumn("_gap", gap).withColumn("_run", run)
    texts = F.transform(F.sort_array(F.collect_list(F.struct("taken", "row"))), lambda taken: taken["row"])
    gathered = runs.groupBy(*_IN_WINDOW, "_run").agg(
        texts.alias("rows"), F.min("time").alias("_first"), F.max("time").alias("_last")
    )
    return _mapped(gathered.select(*_OF_RESULT, "window", "_first", "_last", "rows"), result, _WINDOWS)


def _bounds(rule: WindowRule | SessionProcessor, row: dict[str, Any]) -> tuple[int, int]:
    """The start and the end of a window, or of the session of rows from the time `_first` to `_last`."""
    if isinstance(rule, SessionProcessor):
        return row["_first"], min(MAX, row["_last"] + rule.timeout)
    start, end = json.loads(row["window"])
    return start, end


def _windows_of_row(rule: RecordedRule, values: RowValues, edge: int) -> Iterator[dict[str, Any]]:
    """The windows that a row belongs to, or its session, whose bounds other rows decide."""
    assert not isinstance(rule.rule, AnyJoin)
    time = values[rule.rule.time_on(edge) if isinstance(rule.rule, WindowRule) else rule.rule.time]
    if not isinstance(time, int):
        return
    at = {"group": json.dumps(group_of(values, rule.rule.group)), "time": time}
    if isinstance(rule.rule, SessionProcessor):
        yield at | {"timeout": rule.rule.timeout}
        return
    for window in rule.rule.shape.windows_of(time):
        yield at | {"window": json.dumps(window)}


_SIDES: Final = pa.schema(
    _RESULT
    | {"edge": pa.int64(), "taken": pa.int64(), "time": pa.int64(), "handled": pa.bool_(), "pads": pa.bool_()}
    | {"cells": pa.list_(pa.int64()), "low": pa.int64(), "high": pa.int64(), "row": pa.string()}
)
"""A row on one side of a join. `pads`: it comes out without a partner. A left row has a partner on the right only in
one of its `cells`, at a time in [low, high], which are null where nothing bounds it; a right row is in one cell."""
_RESULTS: Final = pa.schema(
    _RESULT | {"taken": pa.int64(), "padded": pa.bool_(), "time": pa.int64(), "due": pa.bool_(), "row": pa.string()}
)


def joins_of(rows: DataFrame, rules: Iterable[RecordedRule], reached: ReachedByInstance | None) -> DataFrame:
    """The pairs of rows that joins took and did not drop, and the rows without a partner; others are left out.

    Returns stream, execution, instance, vertex, padded, time and row, as `join_of_on_time_rows`, and due: whether it
    must have come out; without `reached` all must. Rows without a partner are looked for among those alone whose turn
    has come for certain.
    """
    by_vertex = {rule.vertex: rule for rule in rules}

    def side(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if row["vertex"] not in by_vertex:
            return
        join = _join_of(by_vertex[row["vertex"]])
        known = None if reached is None else reached.get((row["vertex"], row["execution"], row["instance"]))
        if reached is None or known is not None:
            handled = known is None or known.handled(row["taken_ms"])
            at = _same(row, *_OF_RESULT, "edge", "taken", "time", "row") | {"handled": handled}
            yield at | {"pads": row["edge"] == join.outer} | _cells(join, row["edge"], row["time"])

    def pair(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        rule = by_vertex[row["vertex"]]
        join = _join_of(rule)
        values = *_values(row["left_row"], rule.inputs[LEFT]), *_values(row["right_row"], rule.inputs[RIGHT])
        if join.condition(values) is True:
            taken = row["right_taken" if join.outer == RIGHT else "left_taken"]
            about = {"taken": taken, "padded": False, "due": row["handled"], "row": _text(rule.columns, values)}
            yield _same(row, *_OF_RESULT) | about

    def alone(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        rule = by_vertex[row["vertex"]]
        outer = _join_of(rule).outer
        assert outer is not None
        values, nulls = _values(row["row"], rule.inputs[outer]), (None,) * len(rule.inputs[1 - outer])
        text = _text(rule.columns, values + nulls if outer == LEFT else nulls + values)
        known = None if reached is None else reached[row["vertex"], row["execution"], row["instance"]]
        # It leaves when the watermark of the output has passed it, at the latest; from a batch nothing more comes.
        due = (
            known is None
            or isinstance(_join_of(rule), BatchJoin)
            or known.passed(None if row["time"] is None else row["time"] + 1)
        )
        yield _same(row, *_OF_RESULT, "taken", "time") | {"padded": True, "due": due, "row": text}

    sides = _mapped(rows, side, _SIDES)
    results = _mapped(_candidates(sides), pair, _RESULTS)
    if any(_join_of(rule).outer is not None for rule in by_vertex.values()):
        padded = _mapped(sides.where("pads and handled"), alone, _RESULTS)
        # A join of the rows with their pairs would look for the pairs twice.
        of_row = Window.partitionBy(*_OF_RESULT, "taken")
        partnered = F.max(F.col("due") & ~F.col("padded")).over(of_row)
        both = results.unionByName(padded).withColumn("_partnered", partnered)
        results = both.where("not (padded and _partnered)").drop("_partnered")
    return results.drop("taken")


def _join_of(rule: RecordedRule) -> AnyJoin:
    assert isinstance(rule.rule, AnyJoin)
    return rule.rule


def _cells(join: AnyJoin, edge: int, time: int | None) -> dict[str, Any]:
    """Where partners of a row are: equal cells first, the exact bounds as the rest."""
    if isinstance(join, BatchJoin):
        return {"cells": [0]}
    key_left, key_right = min(join.keys[LEFT]), min(join.keys[RIGHT])
    back = join.bounds.get(key_left, {}).get(key_right)
    ahead = join.bounds.get(key_right, {}).get(key_left)
    if back is None or ahead is None:
        return {"cells": [0]}
    if time is None:
        return {"cells": []}
    # right.time is in [left.time - back, left.time + ahead].
    width = max(1, back + ahead)
    if edge == RIGHT:
        return {"cells": [max(MIN, time - time % width)]}
    # No time is beyond 64 bits, so nothing is lost where the bounds are.
    low, high = min(MAX, max(MIN, time - back)), max(MIN, min(MAX, time + ahead))
    cells = (max(MIN, cell) for cell in range(low - low % width, max(low, high) + 1, width))
    return {"cells": [*dict.fromkeys(cells)], "low": low, "high": high}


def _candidates(sides: DataFrame) -> DataFrame:
    """The pairs of each instance that the bounds between the lowest keys of both sides leave."""
    cell = F.explode("cells").alias("_cell")
    lefts = sides.where(F.col("edge") == LEFT).select(
        *_OF_RESULT, cell, "low", "high", *(F.col(name).alias(f"left_{name}") for name in ("taken", "handled", "row"))
    )
    rights = sides.where(F.col("edge") == RIGHT).select(
        *_OF_RESULT, cell, *(F.col(name).alias(f"right_{name}") for name in ("taken", "time", "handled", "row"))
    )
    pairs = lefts.join(rights.hint("merge"), [*_OF_RESULT, "_cell"]).where(
        "low is null or right_time between low and high"
    )
    handled = (F.col("left_handled") & F.col("right_handled")).alias("handled")
    return pairs.select(*_OF_RESULT, "left_taken", "right_taken", "left_row", "right_row", handled)


@batch_invariant(
    "windows are those of a batch query over the on-time rows", "no window or session gave a result, or had to"
)
def windows_equal_batch(
    on_time: DataFrame,
    items: DataFrame,
    executions: DataFrame,
    rules: DataflowRules,
    channels: Channels,
    reached: ReachedByInstance,
) -> DataFrame:
    """K10: the results of a window or session are those of the batch query; one finding per result."""
    windows = tuple(rules.windows.values())
    if not windows:
        return _restarted(executions.limit(0))

    def counts(row: dict[str, Any]) -> bool:
        rule = rules.windows[row["vertex"]].rule
        end = json.loads(row["row"]).get("end")
        known = reached[row["vertex"], row["execution"], row["instance"]]
        return known.passed(rule.closed_by(end) if isinstance(end, int) else None)  # type: ignore[union-attr]

    expected = windows_of(on_time, windows, reached)
    due = expected.withColumn("due", F.lit(True))
    return _compared(due, _came(items, windows, channels, reached, counts)).unionByName(_restarted(executions))


@batch_invariant("joins are those of a batch query over the on-time rows", "no join gave a result, or had to")
def joins_equal_batch(
    on_time: DataFrame,
    items: DataFrame,
    executions: DataFrame,
    rules: DataflowRules,
    channels: Channels,
    reached: ReachedByInstance,
) -> DataFrame:
    """K11: the results of a join are those of the batch query; one finding per result."""
    joins = tuple(rule for rule in rules.results.values() if isinstance(rule.rule, AnyJoin))
    if not joins:
        return _restarted(executions.limit(0))
    expected = joins_of(on_time, joins, reached)
    came = _came(items, joins, channels, reached, lambda _: True)
    return _compared(expected, came).unionByName(_restarted(executions))


def _restarted(executions: DataFrame) -> DataFrame:
    why = "the execution began from a snapshot, whose rows are not in its tables"
    return undecided(executions.where("snapshot is not null"), F.lit(why))


_COUNTED: Final = pa.schema(
    _RESULT
    | {"result": pa.string(), "row": pa.string(), "least": pa.int64(), "most": pa.int64(), "came": pa.int64()}
    | {"at_ms": pa.int64()}
)
"""A result that came, or has to come `least` times and at `most` so often; `result` is the same text for equal ones."""


def _came(
    items: DataFrame,
    rules: Iterable[RecordedRule],
    channels: Channels,
    reached: ReachedByInstance,
    counts: Callable[[dict[str, Any]], bool],
) -> DataFrame:
    """The results that left windows or joins and are judged, as `_COUNTED`."""
    by_vertex = {rule.vertex: rule for rule in rules}

    def came(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        vertex, sender = channels.source[item["queue"]]
        if vertex not in by_vertex or item["queue"] not in channels.first:
            return
        instance = sender
        at = _same(item, "stream", "execution", "row") | {"vertex": vertex, "instance": instance}
        if (vertex, item["execution"], instance) in reached and counts(at):
            yield at | {"result": _alike(item["row"]), "least": 0, "most": 0, "came": 1, "at_ms": item["put_ms"]}

    events = items.where("kind = 'event'").select("stream", "execution", "queue", "put_ms", "row")
    return _mapped(events, came, _COUNTED)


def _compared(expected: DataFrame, came: DataFrame) -> DataFrame:
    """A finding for every result that came or has to come: it came often enough, and not too often."""

    def counted(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        counts = {"result": _alike(row["row"]), "least": int(row["due"]), "most": 1, "came": 0}
        yield _same(row, *_OF_RESULT, "row") | counts

    both = _mapped(expected.select(*_OF_RESULT, "row", "due"), counted, _COUNTED).unionByName(came)
    sums = (F.sum(name).alias(name) for name in ("least", "most", "came"))
    results = both.groupBy(*_OF_RESULT, "result").agg(*sums, F.min("at_ms").alias("at_ms"), F.min("row").alias("row"))
    times = F.when(F.col("came") < F.col("least"), F.col("least")).otherwise(F.col("most"))
    return findings(
        results.where("least > 0 or came > 0").withColumn("batch", times),
        ok=F.col("came").between(F.col("least"), F.col("most")),
        at_ms="at_ms",
        what="{vertex} gave {came} of {row}, where its on-time rows give {batch}",
        evidence=[row_of("items", "vertex", "execution", "instance", "row", "came", "batch")],
    )


def _alike(row: str) -> str:
    """A result as a text that is the same for equal ones: sums of fractions rounded, lists in any order."""
    return json.dumps(_plain(json.loads(row)), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return sorted((_plain(part) for part in value), key=lambda part: json.dumps(part))
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return value
