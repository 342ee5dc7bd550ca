"""Windows and joins of the on-time rows of a recording as batch queries, and the results of the dataflow against them.

A batch query knows no watermarks: a window is an interval of time, a session a run of rows without a gap, and a join a
join. Only what a row of the result looks like is left to the functions of `wmlab.dataflow.model`, row by row.

An execution that ended gave everything. One that was stopped gave at least what its last watermark released, and what
it gave must be among what the rows can give.

Source: "Stream-to-stream join", Semantics; "Keyed watermark support", Changes to window aggregation processors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.errors import ModelError
from wmlab.core.spark.findings import findings, row_of, say, unjudged
from wmlab.dataflow.checks.items import field, on_time_rows, progress_of, put_items
from wmlab.dataflow.model.aggregate import accumulated, created, finished, group_of
from wmlab.dataflow.model.join import LEFT, RIGHT, StreamJoin
from wmlab.dataflow.model.window import SessionWindow
from wmlab.dataflow.model.window import Window as WindowRule
from wmlab.dataflow.sim.rules import RecordedRule

WINDOW_COLUMNS: Final = ("stream", "execution", "instance", "start", "end", "row")
JOIN_COLUMNS: Final = ("stream", "execution", "instance", "padded", "time", "row")
PLACE: Final = ("stream", "execution", "instance")
Batches = Iterable[pa.RecordBatch]
Values = tuple[Any, ...]


def windows_of_on_time_rows(items: DataFrame, queues: DataFrame, drops: DataFrame, window: RecordedRule) -> DataFrame:
    """Every window or session that holds an on-time row, with its result.

    Takes tables of a recording and a window or session of it. Returns stream, execution, instance (null for a window in
    two stages, whose results do not depend on it), start and end (exclusive) in the unit of the times, and row: the
    result as the JSON text that the dataflow writes. Nothing is executed here. Raises `ModelError` for a join.
    Source: upstream classes `SlidingWindowP` and `SessionWindowP`.
    """
    return windows_of(on_time_rows(items, queues, drops, window.entry), window)


def join_of_on_time_rows(items: DataFrame, queues: DataFrame, drops: DataFrame, join: RecordedRule) -> DataFrame:
    """Every pair of on-time rows that meet the condition and, on the outer side, every row without a partner.

    Takes tables of a recording and a join of it. Returns stream, execution, instance, padded (whether the row has no
    partner), time (of a padded row, by the lowest key of its side; else null), and row: the result as the JSON text
    that the dataflow writes. Nothing is executed here. Raises `ModelError` for a window.
    Source: upstream class `StreamToStreamJoinP`.
    """
    rows = on_time_rows(items, queues, drops, join.entry)
    return join_of(rows.withColumn("sure", F.lit(True)), join).drop("sure")


def windows_of(rows: DataFrame, window: RecordedRule) -> DataFrame:
    """As `windows_of_on_time_rows`, of the rows that `wmlab.dataflow.checks.items.on_time_rows` gives."""
    rule = window.rule
    if isinstance(rule, StreamJoin):
        raise ModelError(f"{window.vertex!r} is a join.", remedy="Ask join_of_on_time_rows.")
    columns = window.inputs[0]
    instance = F.col("instance") if window.one_stage else F.lit(None).cast("long")
    groups = {f"_group{n}": field(columns[place]) for n, place in enumerate(rule.group)}
    timed = {"instance": instance, "_time": field(columns[rule.time]).cast("long")}
    placed, by = _placed(rows.withColumns(timed | groups), rule, tuple(groups))
    texts = F.transform(F.sort_array(F.collect_list(F.struct("taken", "row"))), lambda one: one["row"])
    if isinstance(rule, SessionWindow):
        bounds = F.min("_time").alias("start"), (F.max("_time") + rule.timeout).alias("end")
        found = placed.groupBy(*by).agg(*bounds, texts.alias("rows"))
    else:
        found = placed.groupBy(*by).agg(texts.alias("rows"))
    shape = "stream string, execution long, instance long, start long, end long, row string"
    return found.select(*WINDOW_COLUMNS[:-1], "rows").mapInArrow(_aggregating(window, rule), shape)


def _placed(
    rows: DataFrame, rule: WindowRule | SessionWindow, groups: tuple[str, ...]
) -> tuple[DataFrame, tuple[str, ...]]:
    """Each row once for every window that it belongs to, and the columns that tell the windows apart."""
    if isinstance(rule, SessionWindow):
        lane = Window.partitionBy(*PLACE, *groups).orderBy("_time", "taken")
        gap = F.coalesce(F.col("_time") - F.lag("_time").over(lane) >= rule.timeout, F.lit(True))
        opened = rows.withColumn("_opens", gap.cast("long"))
        number = F.sum("_opens").over(lane.rowsBetween(Window.unboundedPreceding, Window.currentRow))
        return opened.withColumn("_session", number), (*PLACE, *groups, "_session")
    size, slide = rule.shape.size, rule.shape.slide
    first = F.col("_time") - F.pmod("_time", F.lit(slide)) + slide
    ends = F.explode(F.sequence(first, first + (size - slide), F.lit(slide)))
    placed = rows.withColumn("end", ends).withColumn("start", F.col("end") - size)
    return placed, (*PLACE, *groups, "start", "end")


def _aggregating(window: RecordedRule, rule: WindowRule | SessionWindow) -> Callable[[Batches], Any]:
    """The results of windows, given with the rows that they hold in the order in which these were taken."""

    def result(start: int, end: int, texts: list[str]) -> str:
        rows = [_values(text, window.inputs[0]) for text in texts]
        accumulators = created(rule.aggregates)
        for values in rows:
            accumulators = accumulated(rule.aggregates, accumulators, values)
        group, aggregates = group_of(rows[0], rule.group), finished(rule.aggregates, accumulators)
        return _text(window.columns, (start, end, *group, *aggregates))

    def results(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parts = (batch[name].to_pylist() for name in ("start", "end", "rows"))
            yield _with_rows(batch, [result(*one) for one in zip(*parts, strict=True)], WINDOW_COLUMNS)

    return results


def join_of(rows: DataFrame, join: RecordedRule) -> DataFrame:
    """As `join_of_on_time_rows`, of the rows that `wmlab.dataflow.checks.items.on_time_rows` gives, with
    `sure`.

    `sure` tells rows and pairs of them whose turn has come for certain. Rows without a partner are looked for among
    those alone.
    """
    rule = join.rule
    if not isinstance(rule, StreamJoin):
        raise ModelError(f"{join.vertex!r} is no join.", remedy="Ask windows_of_on_time_rows.")
    sides = [rows.where(F.col("edge") == side) for side in (LEFT, RIGHT)]
    pairs = _candidates(rule, *sides).mapInArrow(_meeting(join, rule.condition), _PAIRS)
    found = pairs.select(*PLACE, F.lit(False).alias("padded"), F.lit(None).cast("long").alias("time"), "sure", "row")
    if rule.outer is None:
        return found
    place = "left_taken" if rule.outer == LEFT else "right_taken"
    partnered = pairs.where("sure").select(*PLACE, F.col(place).alias("taken")).distinct()
    alone = sides[rule.outer].where("sure").join(partnered, [*PLACE, "taken"], "left_anti")
    shape = "stream string, execution long, instance long, time long, row string"
    padded = alone.select(*PLACE, "time", "row").mapInArrow(_padding(join, rule.outer), shape)
    return found.unionByName(padded.withColumns({"padded": F.lit(True), "sure": F.lit(True)}))


_PAIRS: Final = (
    "stream string, execution long, instance long, left_taken long, right_taken long, sure boolean, row string"
)


def _candidates(rule: StreamJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    """The pairs of an instance that the bounds between the lowest keys of both sides leave."""
    one, two = (
        side.select(*PLACE, *(F.col(name).alias(f"{which}_{name}") for name in ("taken", "time", "sure", "row")))
        for which, side in (("left", left), ("right", right))
    )
    key_left, key_right = min(rule.keys[LEFT]), min(rule.keys[RIGHT])
    back = rule.bounds.get(key_left, {}).get(key_right)
    ahead = rule.bounds.get(key_right, {}).get(key_left)
    both = F.col("left_sure") & F.col("right_sure")
    if back is None or ahead is None:
        return one.join(two, list(PLACE)).withColumn("sure", both)
    # right.time is in [left.time - back, left.time + ahead]: equal cells first, the exact bounds as the rest.
    width = max(1, back + ahead)
    low, high = F.col("left_time") - back, F.col("left_time") + ahead
    cells = F.sequence(_cell(low, width), _cell(F.greatest(low, high), width), F.lit(width))
    spread = one.withColumn("_cell", F.explode(cells))
    gathered = two.withColumn("_cell", _cell(F.col("right_time"), width))
    return (
        spread.join(gathered, [*PLACE, "_cell"]).where(F.col("right_time").between(low, high)).withColumn("sure", both)
    )


def _cell(time: Column, width: int) -> Column:
    return time - F.pmod(time, F.lit(width))


def _meeting(join: RecordedRule, condition: Callable[[Values], bool | None]) -> Callable[[Batches], Any]:
    """The candidates that meet the condition, with the joined row."""

    def meeting(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pairs = zip(batch["left_row"].to_pylist(), batch["right_row"].to_pylist(), strict=True)
            joined = [(*_values(one, join.inputs[LEFT]), *_values(two, join.inputs[RIGHT])) for one, two in pairs]
            meets = [condition(values) is True for values in joined]
            texts = [_text(join.columns, values) for values, met in zip(joined, meets, strict=True) if met]
            yield _with_rows(batch.filter(pa.array(meets, pa.bool_())), texts, _PAIR_COLUMNS)

    return meeting


_PAIR_COLUMNS: Final = (*PLACE, "left_taken", "right_taken", "sure", "row")


def _padding(join: RecordedRule, side: int) -> Callable[[Batches], Any]:
    """The rows of one side with nulls in place of the other."""
    nulls = (None,) * len(join.inputs[1 - side])

    def padding(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [_values(text, join.inputs[side]) for text in batch["row"].to_pylist()]
            texts = [_text(join.columns, row + nulls if side == LEFT else nulls + row) for row in rows]
            yield _with_rows(batch, texts, (*PLACE, "time", "row"))

    return padding


def _with_rows(batch: pa.RecordBatch, texts: list[str], columns: tuple[str, ...]) -> pa.RecordBatch:
    """The named columns of a batch, of which `row` is now `texts`."""
    arrays = [pa.array(texts, pa.string()) if name == "row" else batch[name] for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _values(text: str, columns: tuple[str, ...]) -> Values:
    row = json.loads(text)
    return tuple(row[column] for column in columns)


def _text(columns: tuple[str, ...], values: Values) -> str:
    return json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False)


_DIGITS: Final = 9
_PARTS: Final = ("least", "most", "came")


def windows_equal_batch(
    items: DataFrame, queues: DataFrame, drops: DataFrame, executions: DataFrame, rules: tuple[RecordedRule, ...]
) -> DataFrame:
    """K10: the results of a window or session are those of the batch query; one finding per result."""
    mine = [rule for rule in rules if not isinstance(rule.rule, StreamJoin)]
    return _all([_windows(items, queues, drops, executions, rule) for rule in mine], executions)


def joins_equal_batch(
    items: DataFrame, queues: DataFrame, drops: DataFrame, executions: DataFrame, rules: tuple[RecordedRule, ...]
) -> DataFrame:
    """K11: the results of a join are those of the batch query; one finding per result."""
    mine = [rule for rule in rules if isinstance(rule.rule, StreamJoin)]
    return _all([_joined(items, queues, drops, executions, rule) for rule in mine], executions)


def _all(found: list[DataFrame], executions: DataFrame) -> DataFrame:
    restarted = executions.where(F.col("snapshot").isNotNull() & F.lit(bool(found)))
    told = unjudged(restarted, F.lit("the execution began from a snapshot, whose rows are not in its tables"))
    return reduce(DataFrame.unionByName, found, told)


def _windows(
    items: DataFrame, queues: DataFrame, drops: DataFrame, executions: DataFrame, rule: RecordedRule
) -> DataFrame:
    assert not isinstance(rule.rule, StreamJoin)
    far = progress_of(items, queues, executions, rule, rule.rule.key)
    rows = on_time_rows(items, queues, drops, rule.entry).join(F.broadcast(far), list(rule.place)).where(_SURE)
    batch = windows_of(rows.select(*_ROW), rule).select(*PLACE, "end", "row", *_times(least=1, most=1))
    left = _results(items, queues, rule).withColumn("end", field("end").cast("long"))
    came = left.select(*PLACE, "end", "row", *_times(F.col("put_ms"), came=1))
    both = batch.unionByName(came).join(F.broadcast(far), list(rule.place))
    open_ = F.col("end") + rule.rule.closed_by(0) > F.col("released")
    return _compared(both.where(F.col("completed") | ~F.coalesce(open_, F.lit(True))), rule)


def _joined(
    items: DataFrame, queues: DataFrame, drops: DataFrame, executions: DataFrame, rule: RecordedRule
) -> DataFrame:
    assert isinstance(rule.rule, StreamJoin)
    side = LEFT if rule.rule.outer is None else rule.rule.outer
    far = progress_of(items, queues, executions, rule, min(rule.rule.keys[side]))
    rows = on_time_rows(items, queues, drops, rule.entry).join(F.broadcast(far), list(rule.place))
    batch = join_of(rows.withColumn("sure", F.expr(_SURE)).select(*_ROW, "sure"), rule).join(
        F.broadcast(far), list(rule.place)
    )
    # A row without a partner leaves when the watermark of the output has passed it, at the latest.
    passed = F.col("completed") | F.coalesce(F.col("time") < F.col("released"), F.lit(False))
    due = F.col("sure") & (~F.col("padded") | passed)
    expected = batch.select(*PLACE, "row", *_times(least=due.cast("long"), most=1))
    left = _results(items, queues, rule).select(*PLACE, "row", *_times(F.col("put_ms"), came=1))
    return _compared(expected.unionByName(left.join(F.broadcast(far.select(*rule.place)), list(rule.place))), rule)


_ROW: Final = (*PLACE, "edge", "taken", "time", "row")
_SURE: Final = "completed or taken_ms < busy_ms"
"""Whether the turn of a row has come for certain."""


def _times(at_ms: Column | None = None, **counts: Column | int) -> list[Column]:
    """How often a result has to come at least and at most, and how often it came, and when."""
    found = [_long(counts.get(name, 0)).alias(name) for name in _PARTS]
    return [*found, _long(at_ms).alias("at_ms")]


def _long(value: Column | int | None) -> Column:
    return (value if isinstance(value, Column) else F.lit(value)).cast("long")


def _results(items: DataFrame, queues: DataFrame, rule: RecordedRule) -> DataFrame:
    """What left the vertex: stream, execution, instance (null for a window in two stages), put_ms, row."""
    left = put_items(items, queues).where(
        (F.col("kind") == "event") & (F.col("vertex") == rule.vertex) & F.col("first")
    )
    instance = F.col("instance") if rule.one_stage else F.lit(None).cast("long")
    return left.select("stream", "execution", instance.alias("instance"), "put_ms", "row")


def _compared(results: DataFrame, rule: RecordedRule) -> DataFrame:
    """A finding for every result that came or has to come: it came often enough, and not too often."""
    alike = F.udf(_alike, "string", useArrow=True)(F.col("row"))
    both = results.groupBy(*PLACE, alike.alias("result")).agg(
        *(F.sum(name).alias(name) for name in _PARTS), F.min("at_ms").alias("at_ms"), F.min("row").alias("row")
    )
    judged = both.where("least > 0 or came > 0").withColumn("vertex", F.lit(rule.vertex))
    times = F.when(F.col("came") < F.col("least"), F.col("least")).otherwise(F.col("most"))
    what = say(rule.vertex, " gave ", F.col("came"), " of ", F.col("row"), ", where its on-time rows give ", times)
    proof = row_of("items", "vertex", "execution", "instance", "row", "came", times.alias("batch"))
    ok = F.col("came").between(F.col("least"), F.col("most"))
    return findings(judged, ok=ok, at_ms=F.col("at_ms"), what=what, evidence=[proof])


def _alike(row: str | None) -> str | None:
    """A result as a text that is the same for equal ones: sums of fractions rounded, lists in any order."""
    return None if row is None else json.dumps(_plain(json.loads(row)), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return sorted((_plain(part) for part in value), key=lambda part: json.dumps(part))
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return value
