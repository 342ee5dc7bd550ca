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
from pyspark.sql import types as T

from wmlab.core.errors import ModelError
from wmlab.core.spark.verdict import SO_FAR, batch_invariant, findings, row_of, undecided
from wmlab.dataflow.checks.rows import field, on_time_rows, progress_of, put_items
from wmlab.dataflow.model.aggregate import accumulated, created, finished, group_of
from wmlab.dataflow.model.join import LEFT, RIGHT, StreamJoin
from wmlab.dataflow.model.window import SessionProcessor
from wmlab.dataflow.model.window import WindowProcessor as WindowRule
from wmlab.dataflow.sim.rules import DataflowRules, RecordedRule

PLACE: Final = ("stream", "execution", "instance")
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
    """As `windows_of_on_time_rows`, of the rows that a vertex took and did not drop, one each."""
    rule = window.rule
    if isinstance(rule, StreamJoin):
        raise ModelError(f"{window.vertex!r} is a join.", remedy="Ask join_of_on_time_rows.")
    columns = window.inputs[0]
    groups = {f"_group{n}": field(columns[place]) for n, place in enumerate(rule.group)}
    time = field(columns[rule.time])
    for edge, place in enumerate(rule.times if isinstance(rule, WindowRule) else ()):
        time = F.when(F.col("edge") == edge, field(columns[place])).otherwise(time)
    timed = {"instance": _instance(window), "_time": time.cast("long")}
    placed, by = _placed(rows.withColumns(timed | groups), rule, tuple(groups))
    texts = F.transform(F.sort_array(F.collect_list(F.struct("taken", "row"))), lambda taken: taken["row"])
    bounds: tuple[Column, ...] = ()
    if isinstance(rule, SessionProcessor):
        bounds = F.min("_time").alias("start"), (F.max("_time") + rule.timeout).alias("end")
    found = placed.groupBy(*by).agg(*bounds, texts.alias("rows"))

    def result(held: dict[str, Any]) -> Values:
        taken = [_values(text, columns) for text in held["rows"]]
        accumulators = created(rule.aggregates)
        for values in taken:
            accumulators = accumulated(rule.aggregates, accumulators, values)
        group, aggregates = group_of(taken[0], rule.group), finished(rule.aggregates, accumulators)
        return held["start"], held["end"], *group, *aggregates

    return _with_rows(found.select(*PLACE, "start", "end", "rows"), ("rows",), window.columns, result)


def _placed(
    rows: DataFrame, rule: WindowRule | SessionProcessor, groups: tuple[str, ...]
) -> tuple[DataFrame, tuple[str, ...]]:
    """Each row once for every window that it belongs to, and the columns that tell the windows apart."""
    if isinstance(rule, SessionProcessor):
        lane = Window.partitionBy(*PLACE, *groups).orderBy("_time", "taken")
        gap = F.coalesce(F.col("_time") - F.lag("_time").over(lane) >= rule.timeout, F.lit(True))
        opened = rows.withColumn("_opens", gap.cast("long"))
        number = F.sum("_opens").over(lane.rowsBetween(*SO_FAR))
        return opened.withColumn("_session", number), (*PLACE, *groups, "_session")
    size, slide = rule.shape.size, rule.shape.slide
    first = F.col("_time") - F.pmod("_time", F.lit(slide)) + slide
    ends = F.explode(F.sequence(first, first + (size - slide), F.lit(slide)))
    placed = rows.withColumn("end", ends).withColumn("start", F.col("end") - size)
    return placed, (*PLACE, *groups, "start", "end")


def join_of(rows: DataFrame, join: RecordedRule) -> DataFrame:
    """As `join_of_on_time_rows`, of the rows that a vertex took and did not drop, one each, with `sure`.

    That tells rows and pairs of them whose turn has come for certain. Rows without a partner are looked for among
    those alone.
    """
    rule = join.rule
    if not isinstance(rule, StreamJoin):
        raise ModelError(f"{join.vertex!r} is no join.", remedy="Ask windows_of_on_time_rows.")
    sides = [rows.where(F.col("edge") == side) for side in (LEFT, RIGHT)]
    condition = rule.condition

    def joined(pair: dict[str, Any]) -> Values | None:
        values = *_values(pair["left_row"], join.inputs[LEFT]), *_values(pair["right_row"], join.inputs[RIGHT])
        return values if condition(values) is True else None

    pairs = _with_rows(_candidates(rule, *sides), ("left_row", "right_row"), join.columns, joined)
    columns = (*PLACE, F.lit(False).alias("padded"), F.lit(None).cast("long").alias("time"), "sure", "row")
    if rule.outer is None:
        return pairs.select(*columns)
    outer, taken = rule.outer, ("left_taken", "right_taken")[rule.outer]

    def padded(alone: dict[str, Any]) -> Values:
        values = _values(alone["row"], join.inputs[outer])
        return values + nulls if outer == LEFT else nulls + values

    nulls = (None,) * len(join.inputs[1 - outer])
    sure = sides[outer].where("sure").select(*PLACE, F.lit(True).alias("padded"), "time", "sure", "taken", "row")
    alone = _with_rows(sure, ("row",), join.columns, padded)
    both = pairs.select(*columns, F.col(taken).alias("taken")).unionByName(alone)
    # A join of the rows with their pairs would look for the pairs twice.
    partnered = F.max(F.col("sure") & ~F.col("padded")).over(Window.partitionBy(*PLACE, "taken"))
    return both.withColumn("_partnered", partnered).where("not (padded and _partnered)").drop("taken", "_partnered")


def _candidates(rule: StreamJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    """The pairs of an instance that the bounds between the lowest keys of both sides leave."""
    lefts, rights = (
        side.select(*PLACE, *(F.col(name).alias(f"{which}_{name}") for name in ("taken", "time", "sure", "row")))
        for which, side in (("left", left), ("right", right))
    )
    key_left, key_right = min(rule.keys[LEFT]), min(rule.keys[RIGHT])
    back = rule.bounds.get(key_left, {}).get(key_right)
    ahead = rule.bounds.get(key_right, {}).get(key_left)
    if back is None or ahead is None:
        pairs = lefts.join(rights, list(PLACE))
    else:
        # right.time is in [left.time - back, left.time + ahead]: equal cells first, the exact bounds as the rest.
        width = max(1, back + ahead)
        low, high = F.col("left_time") - back, F.col("left_time") + ahead
        cells = F.sequence(_cell(low, width), _cell(F.greatest(low, high), width), F.lit(width))
        spread = lefts.withColumn("_cell", F.explode(cells))
        gathered = rights.withColumn("_cell", _cell(F.col("right_time"), width))
        pairs = spread.join(gathered, [*PLACE, "_cell"]).where(F.col("right_time").between(low, high))
    return pairs.withColumn("sure", F.col("left_sure") & F.col("right_sure"))


def _cell(time: Column, width: int) -> Column:
    return time - F.pmod(time, F.lit(width))


def _with_rows(
    frame: DataFrame, taken: tuple[str, ...], names: tuple[str, ...], result: Callable[[dict[str, Any]], Any]
) -> DataFrame:
    """The rows of a frame that have a result, with that as `row`, the JSON text of the `names`, instead of `taken`."""
    kept = [T.StructField(field.name, field.dataType) for field in frame.schema if field.name not in taken]

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            results = [result(row) for row in batch.to_pylist()]
            texts = [
                None if values is None else json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)
                for values in results
            ]
            columns = {field.name: batch[field.name] for field in kept}
            yield pa.RecordBatch.from_pydict(columns | {"row": pa.array(texts, pa.string())})

    schema = T.StructType([*kept, T.StructField("row", T.StringType())])
    return frame.mapInArrow(rows, schema).where("row is not null")


def _values(text: str, columns: tuple[str, ...]) -> Values:
    row = json.loads(text)
    return tuple(row[column] for column in columns)


_DIGITS: Final = 9


@batch_invariant(
    "windows are those of a batch query over the on-time rows", "no window or session gave a result, or had to"
)
def windows_equal_batch(
    items: DataFrame, queues: DataFrame, drops: DataFrame, executions: DataFrame, rules: DataflowRules
) -> DataFrame:
    """K10: the results of a window or session are those of the batch query; one finding per result."""
    return _all([_windows(items, queues, drops, executions, rule) for rule in rules.windows.values()], executions)


@batch_invariant("joins are those of a batch query over the on-time rows", "no join gave a result, or had to")
def joins_equal_batch(
    items: DataFrame, queues: DataFrame, drops: DataFrame, executions: DataFrame, rules: DataflowRules
) -> DataFrame:
    """K11: the results of a join are those of the batch query; one finding per result."""
    mine = [rule for rule in rules.results.values() if isinstance(rule.rule, StreamJoin)]
    return _all([_joined(items, queues, drops, executions, rule) for rule in mine], executions)


def _all(found: list[DataFrame], executions: DataFrame) -> DataFrame:
    restarted = executions.where(F.col("snapshot").isNotNull() & F.lit(bool(found)))
    why = undecided(restarted, F.lit("the execution began from a snapshot, whose rows are not in its tables"))
    return reduce(DataFrame.unionByName, found, why)


def _windows(
    items: DataFrame, queues: DataFrame, drops: DataFrame, executions: DataFrame, rule: RecordedRule
) -> DataFrame:
    assert not isinstance(rule.rule, StreamJoin)
    far = progress_of(items, queues, executions, rule, rule.rule.key)
    rows = on_time_rows(items, queues, drops, rule.entry).join(F.broadcast(far), list(rule.result_key)).where(_SURE)
    batch = windows_of(rows.select(*_ROW), rule).withColumns({"least": F.lit(1), "most": F.lit(1)})
    came = _results(items, queues, rule).withColumn("end", field("end").cast("long"))
    both = batch.unionByName(came, allowMissingColumns=True).join(F.broadcast(far), list(rule.result_key))
    open_ = F.col("end") + rule.rule.closed_by(0) > F.col("released")
    return _compared(both.where(F.col("completed") | ~F.coalesce(open_, F.lit(True))), rule)


def _joined(
    items: DataFrame, queues: DataFrame, drops: DataFrame, executions: DataFrame, rule: RecordedRule
) -> DataFrame:
    assert isinstance(rule.rule, StreamJoin)
    side = LEFT if rule.rule.outer is None else rule.rule.outer
    far = progress_of(items, queues, executions, rule, min(rule.rule.keys[side]))
    rows = on_time_rows(items, queues, drops, rule.entry).join(F.broadcast(far), list(rule.result_key))
    sure = rows.withColumn("sure", F.expr(_SURE)).select(*_ROW, "sure")
    batch = join_of(sure, rule).join(F.broadcast(far), list(rule.result_key))
    # A row without a partner leaves when the watermark of the output has passed it, at the latest.
    passed = F.col("completed") | F.coalesce(F.col("time") < F.col("released"), F.lit(False))
    due = F.col("sure") & (~F.col("padded") | passed)
    expected = batch.select(*PLACE, "row", due.cast("long").alias("least"), F.lit(1).alias("most"))
    came = _results(items, queues, rule).join(F.broadcast(far.select(*rule.result_key)), list(rule.result_key))
    return _compared(expected.unionByName(came, allowMissingColumns=True), rule)


_ROW: Final = (*PLACE, "edge", "taken", "time", "row")
_SURE: Final = "completed or taken_ms < busy_ms"
"""Whether the turn of a row has come for certain."""


def _results(items: DataFrame, queues: DataFrame, rule: RecordedRule) -> DataFrame:
    """What left the vertex: stream, execution, instance (null for a window in two stages), row, at_ms, came (1)."""
    left = put_items(items, queues).where("first and kind = 'event'").where(F.col("vertex") == rule.vertex)
    instance = _instance(rule).alias("instance")
    return left.select("stream", "execution", instance, "row", F.col("put_ms").alias("at_ms"), F.lit(1).alias("came"))


def _instance(rule: RecordedRule) -> Column:
    return F.col("instance") if rule.one_stage else F.lit(None).cast("long")


def _compared(results: DataFrame, rule: RecordedRule) -> DataFrame:
    """A finding for every result that came or has to come: it came often enough, and not too often."""
    alike = F.udf(_alike, "string", useArrow=True)(F.col("row"))
    both = results.groupBy(*PLACE, alike.alias("result")).agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("least", "most", "came")),
        F.min("at_ms").alias("at_ms"),
        F.min("row").alias("row"),
    )
    times = F.when(F.col("came") < F.col("least"), F.col("least")).otherwise(F.col("most"))
    return findings(
        both.where("least > 0 or came > 0").withColumns({"vertex": F.lit(rule.vertex), "batch": times}),
        ok=F.col("came").between(F.col("least"), F.col("most")),
        at_ms="at_ms",
        what="{vertex} gave {came} of {row}, where its on-time rows give {batch}",
        evidence=[row_of("items", "vertex", "execution", "instance", "row", "came", "batch")],
    )


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
