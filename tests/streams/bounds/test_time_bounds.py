"""time_bounds against the pure tracker, row by row, over generated streams in one query."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.streams.bounds.cases import Stream, streams
from tests.streams.bounds.frames import CHANGES, POSITIONS, Logs, frame, placed, rows_of
from wmlab.core.errors import ModelError
from wmlab.streams.bounds.bounds import time_bounds
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.position import Position, ReaderPosition
from wmlab.streams.model.window import Tracker

BOUNDS = ("lower", "upper", "lower_seq", "upper_seq")
NOTHING = (None, None, None, None)


def expected(stream: Stream, segment: int, offset: int) -> tuple[Any, ...]:
    log = list(enumerate(stream.log))
    return stream.bounds(Tracker().advance(ReaderPosition({segment: offset}), log, stream.segments))


def test_every_position_gets_what_a_fresh_tracker_says(spark: SparkSession) -> None:
    made = streams(150, seed=1)
    asked = [(stream, segment, offset) for stream in made for segment in stream.ids for offset in (*range(31), 10**15)]
    told = {(stream.name, segment, offset): expected(stream, segment, offset) for stream, segment, offset in asked}
    found = Logs.of(spark, made).bounds(placed(spark, *told), "stream", "segment_id", "offset", *BOUNDS)
    assert len(found) == len(told)
    assert {row[:3]: row[3:] for row in found} == told
    kinds = Counter((row[3] is None, row[4] is None) for row in found)
    assert min(kinds[kind] for kind in [(False, False), (False, True), (True, False), (True, True)]) > 200


@pytest.mark.parametrize(
    "offsets",
    [
        # One cell of the grid has almost every cut, as does one of the grid inside; offsets are as large as can be.
        [*range(100, 400), 10**6, 2**62, 2**63 - 2],
        # Of the cells that hold many, some begin with a cut, and some hold one more than the search steps over.
        sorted({*range(0, 10**9, 10**7), *range(5 * 10**8, 5 * 10**8 + 20_000, 70), *range(2**29, 2**29 + 6)}),
    ],
)
def test_unevenly_spread_cuts(spark: SparkSession, offsets: list[int]) -> None:
    asked = sorted({max(0, offset + step) for offset in offsets for step in (-1, 0, 1)} | {0})
    logs = Logs.cutting(spark, [{0: offset} for offset in offsets])
    assert dict(logs.bounds(placed(spark, *(("s", 0, offset) for offset in asked)), "offset", "lower_seq")) == {
        offset: max((s for s, cut in enumerate(offsets) if cut <= offset), default=None) for offset in asked
    }


def test_unknown_segments_lie_between_many_ids(spark: SparkSession) -> None:
    ids = [*range(0, 40, 2), *range(50, 110, 3), 2**62 + 1, *range(2**62 + 7, 2**62 + 90, 2)]
    cuts = [Position({segment: 10}) for segment in sorted(ids, key=hash)]
    log = tuple(Watermark(seq, seq + 1, cut, {"w": seq}) for seq, cut in enumerate(cuts))
    asked = sorted({max(0, segment + step) for segment in ids for step in (-1, 0, 1)} | {2**63 - 2**31 - 1})
    stream = Stream("s", {}, log, tuple(range(len(log))), (0,) * len(log), tuple(asked))
    positions = placed(spark, *(("s", segment, 10) for segment in asked))
    found = Logs.of(spark, [stream]).bounds(positions, "segment_id", *BOUNDS)
    assert {row[0]: row[1:] for row in found} == {segment: expected(stream, segment, 10) for segment in asked}
    assert len({row[1:] for row in found}) > 40


def test_positions_in_ints_are_those_in_longs(spark: SparkSession) -> None:
    made = streams(10, seed=3)
    small = ((stream.name, segment) for stream in made for segment in stream.ids if segment < 2**31)
    longs = placed(spark, *((*place, offset) for place in small for offset in (3, 17)))
    ints = longs.withColumns({name: F.col(name).cast("int") for name in ("segment_id", "offset")})
    logs, columns = Logs.of(spark, made), ("stream", "segment_id", "offset", *BOUNDS)
    found = sorted(logs.bounds(longs, *columns), key=str)
    assert found == sorted(logs.bounds(ints, *columns), key=str) != []


def test_rows_and_columns_are_kept(spark: SparkSession) -> None:
    stream = next(stream for stream in streams(20, seed=2) if stream.log and len(stream.segments) > 1)
    segment = next(iter(stream.segments))
    known = [(stream.name, segment, 7, "first"), *[(stream.name, segment, 7, "again")] * 2]
    nowhere = [
        (stream.name, segment, None, "no offset"),
        (stream.name, segment, -1, "negative"),
        (stream.name, 5, -1, "negative in no segment"),
        (stream.name, None, 7, "no segment"),
        (None, segment, 7, "no stream"),
        ("elsewhere", segment, 7, "no such stream"),
    ]
    positions = spark.createDataFrame([*known, *nowhere], POSITIONS)
    named = positions.withColumn("a.b", F.lit(1)).withColumn("key", F.lit(2))
    logs = Logs.of(spark, [stream])
    found = time_bounds(named, logs.watermarks, logs.segments)
    assert found.columns == [*named.columns, *BOUNDS]
    told = Counter((tag, expected(stream, segment, 7)) for *_, tag in known)
    told += Counter((tag, NOTHING) for *_, tag in nowhere)
    assert Counter((row[0], row[1:]) for row in rows_of(found, "tag", *BOUNDS)) == told
    assert {(row["a.b"], row["key"]) for row in found.collect()} == {(1, 2)}


def test_without_watermarks_nothing_is_known(spark: SparkSession) -> None:
    assert Logs.of(spark, []).bounds(placed(spark, ("s", 0, 7)), *BOUNDS) == [NOTHING]


def test_a_watermark_may_have_one_bound_only(spark: SparkSession) -> None:
    logs = Logs.cutting(spark, [{0: 0}, {0: 10}, {0: 20}], [(-5, None), (None, 7), (9, None)])
    positions = placed(spark, *(("s", 0, offset) for offset in (0, 10, 20)))
    assert sorted(logs.bounds(positions, "offset", *BOUNDS)) == [
        (0, -5, 7, 0, 1),
        (10, None, None, 1, 2),
        (20, 9, None, 2, None),
    ]


def test_a_watermark_without_a_cut_is_left_out_and_a_negative_offset_in_a_cut_is_the_end(spark: SparkSession) -> None:
    logs = Logs.cutting(spark, [{0: 10}, None, {0: -1}])
    found = logs.bounds(placed(spark, ("s", 0, 0), ("s", 0, 10)), "offset", *BOUNDS)
    assert sorted(found) == [(0, None, 5, None, 0), (10, 0, 7, 0, 2)]


def test_streams_may_have_numbers_for_names(spark: SparkSession) -> None:
    logs = Logs.cutting(spark, [{0: 10}], [(3, 5)])
    numbered = Logs(logs.watermarks.withColumn("stream", F.lit(7)), logs.segments.withColumn("stream", F.lit(7)))
    positions = spark.createDataFrame([(7, 0, 10), (8, 0, 10)], "stream int, segment_id long, offset long")
    assert sorted(numbered.bounds(positions, "stream", "lower")) == [(7, 3), (8, None)]
    changes = spark.createDataFrame([("", "g", 0, 0, 0, 10, False)], CHANGES).withColumn("stream", F.lit(7))
    assert numbered.group_bounds(changes, "stream", "lower") == [("7", 3)]


def test_the_rows_are_neither_sorted_nor_shuffled(spark: SparkSession) -> None:
    logs = Logs.of(spark, streams(2, seed=3))
    bounds = time_bounds(placed(spark, ("s0", 0, 7)), logs.watermarks, logs.segments)
    plan = bounds._jdf.queryExecution().sparkPlan().toString()
    before_broadcasts = [line for line in plan.splitlines() if "Join" in line or "Sort" in line or "Window" in line]
    assert len(before_broadcasts) == 2
    assert all("BroadcastHashJoin [(xxhash64" in line or "BroadcastHashJoin [if" in line for line in before_broadcasts)


def test_a_column_that_is_missing_or_would_be_overwritten_is_refused(spark: SparkSession) -> None:
    logs = Logs.of(spark, [])
    positions = frame(spark, [], POSITIONS)
    for column in ("lower", "Upper", "lower_seq"):
        with pytest.raises(ModelError, match=f"positions already has a column '{column}'"):
            logs.bounds(positions.withColumnRenamed("tag", column))
    with pytest.raises(ModelError, match="positions has no column 'offset'"):
        logs.bounds(positions.drop("offset"))
    with pytest.raises(ModelError, match="watermarks has no column 'cut'"):
        Logs(logs.watermarks.drop("cut"), logs.segments).bounds(positions)
    with pytest.raises(ModelError, match="segments has the column 'low' 2 times"):
        Logs(logs.watermarks, logs.segments.select("*", F.lit(0.0).alias("low"))).bounds(positions)
