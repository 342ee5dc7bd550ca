"""time_bounds against the pure tracker, row by row, over generated streams in one query."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.streams.bounds.cases import Row, Stream, streams
from tests.streams.bounds.frames import CHANGES, POSITIONS, SEGMENTS, WATERMARKS, Logs, frame, rows_of
from wmlab.core.errors import ModelError
from wmlab.streams.bounds.bounds import time_bounds
from wmlab.streams.bounds.groups import group_time_bounds
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.window import Tracker

BOUNDS = ("lower", "upper", "lower_seq", "upper_seq")
NOTHING = (None, None, None, None)


def expected(stream: Stream, segment: int, offset: int) -> tuple[Any, ...]:
    tracker = Tracker().advance(ReaderPosition({segment: offset}), list(enumerate(stream.log)), stream.segments)
    lower, upper = (None if place is None else stream.seqs[place] for place in (tracker.lower_seq, tracker.upper_seq))
    return tracker.window.lower, tracker.window.upper, lower, upper


def position(stream: str | int | None, segment: int | None, offset: int | None, tag: str = "") -> Row:
    return {"stream": stream, "segment_id": segment, "offset": offset, "tag": tag}


def test_every_position_gets_what_a_fresh_tracker_says(spark: SparkSession) -> None:
    made = streams(150, seed=1)
    asked = [(stream, segment, offset) for stream in made for segment in stream.ids for offset in (*range(31), 10**15)]
    positions = frame(spark, [position(stream.name, segment, offset) for stream, segment, offset in asked], POSITIONS)
    logs = Logs.of(spark, made)
    found = rows_of(time_bounds(positions, logs.watermarks, logs.segments), "stream", "segment_id", "offset", *BOUNDS)
    told = {(stream.name, segment, offset): expected(stream, segment, offset) for stream, segment, offset in asked}
    assert len(found) == len(asked)
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
    marks = [
        {"stream": "s", "seq": seq, "lower": seq, "upper": seq, "emitted_ms": 0, "cut": {0: offset}}
        for seq, offset in enumerate(offsets)
    ]
    logs = Logs.of(spark, [])
    watermarks = frame(spark, marks, WATERMARKS)
    asked = sorted({max(0, offset + step) for offset in offsets for step in (-1, 0, 1)} | {0})
    positions = frame(spark, [position("s", 0, offset) for offset in asked], POSITIONS)
    found = dict(rows_of(time_bounds(positions, watermarks, logs.segments), "offset", "lower_seq"))
    assert found == {
        offset: max((s for s, cut in enumerate(offsets) if cut <= offset), default=None) for offset in asked
    }


def test_unknown_segments_lie_between_many_ids(spark: SparkSession) -> None:
    ids = [*range(0, 40, 2), *range(50, 110, 3), 2**62 + 1, *range(2**62 + 7, 2**62 + 90, 2)]
    log = tuple(Watermark(seq, seq + 1, {segment: 10}, {"w": seq}) for seq, segment in enumerate(sorted(ids, key=hash)))
    asked = sorted({max(0, segment + step) for segment in ids for step in (-1, 0, 1)} | {2**63 - 2**31 - 1})
    stream = Stream("s", {}, log, tuple(range(len(log))), (0,) * len(log), tuple(asked))
    logs = Logs.of(spark, [stream])
    positions = frame(spark, [position("s", segment, 10) for segment in asked], POSITIONS)
    found = rows_of(time_bounds(positions, logs.watermarks, logs.segments), "segment_id", *BOUNDS)
    assert {row[0]: row[1:] for row in found} == {segment: expected(stream, segment, 10) for segment in asked}
    assert len({row[1:] for row in found}) > 40


def test_positions_in_ints_are_those_in_longs(spark: SparkSession) -> None:
    made = streams(10, seed=3)
    rows = [position(stream.name, segment, offset) for stream in made for segment in stream.ids for offset in (3, 17)]
    longs = frame(spark, [row for row in rows if abs(row["segment_id"]) < 2**31], POSITIONS)
    ints = longs.withColumns({name: F.col(name).cast("int") for name in ("segment_id", "offset")})
    logs = Logs.of(spark, made)
    found, again = (
        rows_of(time_bounds(asked, logs.watermarks, logs.segments), "stream", "segment_id", "offset", *BOUNDS)
        for asked in (longs, ints)
    )
    assert sorted(found, key=str) == sorted(again, key=str) != []


def test_rows_and_columns_are_kept(spark: SparkSession) -> None:
    stream = next(stream for stream in streams(20, seed=2) if stream.log and len(stream.segments) > 1)
    segment = next(iter(stream.segments))
    rows = [
        position(stream.name, segment, 7, "first"),
        position(stream.name, segment, 7, "again"),
        position(stream.name, segment, 7, "again"),
        position(stream.name, segment, None, "no offset"),
        position(stream.name, segment, -1, "negative"),
        position(stream.name, 5, -1, "negative in no segment"),
        position(stream.name, None, 7, "no segment"),
        position(None, segment, 7, "no stream"),
        position("elsewhere", segment, 7, "no such stream"),
    ]
    named = frame(spark, rows, POSITIONS).withColumn("a.b", F.lit(1)).withColumn("key", F.lit(2))
    logs = Logs.of(spark, [stream])
    found = time_bounds(named, logs.watermarks, logs.segments)
    assert found.columns == [*named.columns, *BOUNDS]
    told = Counter({("first", expected(stream, segment, 7)): 1, ("again", expected(stream, segment, 7)): 2})
    told += Counter((row["tag"], NOTHING) for row in rows[3:])
    assert Counter((row[0], row[1:]) for row in rows_of(found, "tag", *BOUNDS)) == told
    assert {(row["a.b"], row["key"]) for row in found.collect()} == {(1, 2)}


def test_without_watermarks_nothing_is_known(spark: SparkSession) -> None:
    logs = Logs.of(spark, [])
    positions = frame(spark, [position("s", 0, 7)], POSITIONS)
    assert rows_of(time_bounds(positions, logs.watermarks, logs.segments), *BOUNDS) == [NOTHING]


def test_a_watermark_may_have_one_bound_only(spark: SparkSession) -> None:
    marks = [
        {"stream": "s", "seq": seq, "lower": lower, "upper": upper, "emitted_ms": 0, "cut": {0: 10 * seq}}
        for seq, (lower, upper) in enumerate([(-5, None), (None, 7), (9, None)])
    ]
    positions = frame(spark, [position("s", 0, offset) for offset in (0, 10, 20)], POSITIONS)
    found = time_bounds(positions, frame(spark, marks, WATERMARKS), Logs.of(spark, []).segments)
    assert sorted(rows_of(found, "offset", *BOUNDS)) == [
        (0, -5, 7, 0, 1),
        (10, None, None, 1, 2),
        (20, 9, None, 2, None),
    ]


def test_a_watermark_without_a_cut_is_left_out_and_a_negative_offset_in_a_cut_is_the_end(spark: SparkSession) -> None:
    cuts: list[dict[int, int] | None] = [{0: 10}, None, {0: -1}]
    marks = [
        {"stream": "s", "seq": seq, "lower": seq, "upper": seq + 5, "emitted_ms": 0, "cut": cut}
        for seq, cut in enumerate(cuts)
    ]
    found = time_bounds(
        frame(spark, [position("s", 0, offset) for offset in (0, 10)], POSITIONS),
        frame(spark, marks, WATERMARKS),
        Logs.of(spark, []).segments,
    )
    assert sorted(rows_of(found, "offset", *BOUNDS)) == [(0, None, 5, None, 0), (10, 0, 7, 0, 2)]


def test_streams_may_have_numbers_for_names(spark: SparkSession) -> None:
    mark = {"seq": 0, "lower": 3, "upper": 5, "emitted_ms": 0, "cut": {0: 10}}
    watermarks = frame(spark, [mark | {"stream": 7}], WATERMARKS.replace("stream string", "stream int"))
    segments = frame(spark, [], SEGMENTS.replace("stream string", "stream int"))
    positions = frame(spark, [position(7, 0, 10), position(8, 0, 10)], POSITIONS.replace("stream string", "stream int"))
    found = rows_of(time_bounds(positions, watermarks, segments), "stream", "lower")
    assert sorted(found) == [(7, 3), (8, None)]
    change = {"group": "g", "version": 0, "at_ms": 0, "finished": False, "stream": 7, "segment_id": 0, "offset": 10}
    changes = frame(spark, [change], CHANGES.replace("stream string", "stream int"))
    assert rows_of(group_time_bounds(changes, watermarks, segments), "stream", "lower") == [("7", 3)]


def test_the_rows_are_neither_sorted_nor_shuffled(spark: SparkSession) -> None:
    logs = Logs.of(spark, streams(2, seed=3))
    positions = frame(spark, [position("s0", 0, 7)], POSITIONS)
    plan = time_bounds(positions, logs.watermarks, logs.segments)._jdf.queryExecution().sparkPlan().toString()
    before_broadcasts = [line for line in plan.splitlines() if "Join" in line or "Sort" in line or "Window" in line]
    assert len(before_broadcasts) == 2
    assert all("BroadcastHashJoin [(xxhash64" in line or "BroadcastHashJoin [if" in line for line in before_broadcasts)


def test_a_column_that_is_missing_or_would_be_overwritten_is_refused(spark: SparkSession) -> None:
    logs = Logs.of(spark, [])
    positions = frame(spark, [], POSITIONS)
    for column in ("lower", "Upper", "lower_seq"):
        with pytest.raises(ModelError, match=f"positions already has a column '{column}'"):
            time_bounds(positions.withColumnRenamed("tag", column), logs.watermarks, logs.segments)
    with pytest.raises(ModelError, match="positions has no column 'offset'"):
        time_bounds(positions.drop("offset"), logs.watermarks, logs.segments)
    with pytest.raises(ModelError, match="watermarks has no column 'cut'"):
        time_bounds(positions, logs.watermarks.drop("cut"), logs.segments)
    with pytest.raises(ModelError, match="segments has the column 'low' 2 times"):
        time_bounds(positions, logs.watermarks, logs.segments.select("*", F.lit(0.0).alias("low")))
