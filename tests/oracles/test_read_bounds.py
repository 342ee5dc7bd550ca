"""Spark calls a lower bound of a group by `design` unsafe exactly where an earlier event is still to be read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql import SparkSession

import wmlab as wm
from tests.oracles.read_bounds import GroupReads
from tests.oracles.runs import drawn_run
from tests.repetitions import Count, repetitions

RUNS = (*range(repetitions(5, long=200)), 217)
"""The last one is reset to a checkpoint."""
TABLES = ("events", "reads", "windows", "positions", "incidents")
Row = Mapping[str, Any]


def rows_by_group(run: Any, spark: SparkSession) -> Iterator[tuple[GroupReads, list[Row]]]:
    """What each group read, and the rows that Spark gives for it, in the order of time."""
    tables = {name: run.complete(name).to_pylist(maps_as_pydicts="strict") for name in TABLES}
    rows = [row.asDict() for row in wm.spark.with_slack(run.time_bounds(spark)).collect()]
    key = itemgetter("stream", "group")
    for (stream, group), of_group in groupby(sorted(rows, key=itemgetter("stream", "group", "version", "at_ms")), key):
        of_stream = {name: [row for row in table if row["stream"] == stream] for name, table in tables.items()}
        yield GroupReads(of_stream, group), list(of_group)


def test_a_bound_by_design_is_unsafe_where_an_earlier_event_is_still_to_be_read(
    spark: SparkSession, count: Count
) -> None:
    judged, unsafe = 0, 0
    for seed in RUNS:
        run = drawn_run(seed).with_rules("design").record(progress=False)
        for reads, rows in rows_by_group(run, spark) if run.counts["positions"] else ():
            said = {(row["version"], row["at_ms"]): not row["safe"] for row in rows}
            expected = {(row["version"], row["at_ms"]): reads.unsafe(row["at_ms"], row["lower"]) for row in rows}
            assert said == expected, (seed, reads.group)
            earliest = {row["at_ms"]: row["perfect_watermark"] for row in rows}
            assert earliest == {at_ms: reads.earliest_unread(at_ms) for at_ms in earliest}, (seed, reads.group)
            (quality,) = wm.spark.quality_of_bounds(frame_of(rows, spark)).collect()
            assert quality.unsafe == sum(expected.values()), (seed, reads.group)
            moments = [row["at_ms"] for row in rows]
            for window in reads.windows:
                row = rows[bisect_right(moments, window["at_ms"]) - 1]
                is_unsafe = reads.unsafe(window["at_ms"], window["lower"])
                assert not (is_unsafe and row["safe"]) or row["lower"] != window["lower"], (seed, window)
            judged, unsafe = judged + len(rows), unsafe + sum(expected.values())
    assert 0 < unsafe < judged / 5
    count(judged, "lower bounds by design, safe or unsafe")


def frame_of(rows: list[Row], spark: SparkSession) -> Any:
    """What `quality_of_bounds` needs of these rows."""
    names = ("stream", "group", "at_ms", "lower", "upper", "perfect_watermark")
    schema = "stream string, `group` string, at_ms long, lower long, upper long, perfect_watermark long"
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)
