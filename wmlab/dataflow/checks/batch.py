"""Results against the batch query: windows and joins give what their on-time rows give, whatever the interleaving.

An execution that ended gave everything. One that was stopped gave at least what its last watermark released, and what
it gave must be among what the rows can give.

Source: "Stream-to-stream join", Semantics; the rows of a recording and `wmlab.dataflow.checks.batch_queries`.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from wmlab.core.spark.findings import findings, row_of, say, unjudged
from wmlab.dataflow.checks.batch_queries import PLACE, join_of, windows_of
from wmlab.dataflow.checks.recorded_rows import field, on_time_rows, progress_of, put_items
from wmlab.dataflow.model.join import LEFT, StreamJoin
from wmlab.dataflow.sim.rules import RecordedRule

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
