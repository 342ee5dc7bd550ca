"""time_bounds against the pure tracker, row by row, over generated streams in one query."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as F

from tests.repetitions import repetitions
from tests.streams.bounds.cases import Stream, streams
from tests.streams.bounds.frames import CHANGES, POSITIONS, Logs, cutting, frame, placed
from wmlab.core.errors import ModelError
from wmlab.streams.bounds.bounds import time_bounds
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.window import Tracker

BOUNDS = ("lower", "upper", "lower_seq", "upper_seq")
NOTHING = (None, None, None, None)


Bounds = dict[tuple[int, int], tuple[int | None, ...]]
"""lower, upper, lower_seq and upper_seq by segment and offset."""


def of_fresh_trackers(stream: Stream, segments: Iterable[int], offsets: Iterable[int]) -> Bounds:
    log, asked = list(enumerate(stream.log)), product(segments, offsets)
    return {
        (segment, offset): stream.bounds(Tracker().advance(Position({segment: offset}), log, stream.segments))
        for segment, offset in asked
    }


UNEVEN: dict[str, list[int]] = {
    # One cell of the grid has almost every cut, as does one of the grid inside; offsets are as large as can be.
    "many in one cell": [*range(100, 400), 10**6, 2**62, 2**63 - 2],
    # Of the cells that hold many, some begin with a cut, and some hold one more than the search steps over.
    "many in some cells": sorted(
        {*range(0, 10**9, 10**7), *range(5 * 10**8, 5 * 10**8 + 20_000, 70), *range(2**29, 2**29 + 6)}
    ),
}
"""The offsets of the cuts of segment 0, unevenly spread."""
MANY_IDS = [*range(0, 40, 2), *range(50, 110, 3), 2**62 + 1, *range(2**62 + 7, 2**62 + 90, 2)]
SMALL: dict[str, tuple[list[Any], list[Any], Bounds]] = {
    "one bound only": (
        [{0: 0}, {0: 10}, {0: 20}],
        [(-5, None), (None, 7), (9, None)],
        {(0, 0): (-5, 7, 0, 1), (0, 10): (None, None, 1, 2), (0, 20): (9, None, 2, None)},
    ),
    # A watermark without a cut is left out, and a negative offset is the end of the segment.
    "no cut and an end": ([{0: 10}, None, {0: -1}], [], {(0, 0): (None, 5, None, 0), (0, 10): (0, 7, 0, 2)}),
}
"""Cuts and bounds of small logs, and what they say of some positions."""


def of_cuts(offsets: list[int]) -> Bounds:
    """Next to each of these cuts of segment 0, which ascend."""
    bounds: Bounds = {}
    for asked in {max(0, offset + step) for offset in offsets for step in (-1, 0, 1)} | {0}:
        ahead = bisect_right(offsets, asked)
        lower = ahead - 1 if ahead > 0 else None
        upper, upper_seq = (ahead + 5, ahead) if ahead < len(offsets) else (None, None)
        bounds[0, asked] = lower, upper, lower, upper_seq
    return bounds


@pytest.fixture(scope="module")
def generated() -> list[Stream]:
    return streams(repetitions(50, long=150), seed=1)


@pytest.fixture(scope="module")
def many_ids() -> Stream:
    """Each watermark cuts a segment that nobody knows."""
    cuts = [Position({segment: 10}) for segment in sorted(MANY_IDS, key=hash)]
    log = tuple(Watermark(seq, seq + 1, cut, {"w": seq}) for seq, cut in enumerate(cuts))
    asked = sorted({max(0, segment + step) for segment in MANY_IDS for step in (-1, 0, 1)} | {2**63 - 2**31 - 1})
    return Stream("many ids", {}, log, tuple(range(len(log))), (0,) * len(log), tuple(asked))


@pytest.fixture(scope="module")
def expected(generated: list[Stream], many_ids: Stream) -> dict[str, Bounds]:
    """The bounds that each stream should have."""
    return {
        **{stream.name: of_fresh_trackers(stream, stream.ids, (*range(31), 10**15)) for stream in generated},
        many_ids.name: of_fresh_trackers(many_ids, many_ids.ids, [10]),
        **{name: of_cuts(offsets) for name, offsets in UNEVEN.items()},
        **{name: bounds for name, (_, _, bounds) in SMALL.items()},
    }


@pytest.fixture(scope="module")
def answers(
    spark: SparkSession, generated: list[Stream], many_ids: Stream, expected: dict[str, Bounds]
) -> dict[str, Bounds]:
    """The bounds that each stream has, by one query."""
    rows = [row for name, offsets in UNEVEN.items() for row in cutting(name, [{0: offset} for offset in offsets])]
    rows += [row for name, (cuts, bounds, _) in SMALL.items() for row in cutting(name, cuts, bounds)]
    positions = placed(spark, *((name, *position) for name, bounds in expected.items() for position in bounds))
    logs = Logs.of(spark, [*generated, many_ids], rows)
    bounds_of: dict[str, Bounds] = {name: {} for name in expected}
    for stream, segment, offset, *bounds in logs.bounds(positions, "stream", "segment_id", "offset", *BOUNDS):
        assert (segment, offset) not in bounds_of[stream]
        bounds_of[stream][segment, offset] = tuple(bounds)
    return bounds_of


def test_every_position_gets_what_a_fresh_tracker_says(
    generated: list[Stream], expected: dict[str, Bounds], answers: dict[str, Bounds]
) -> None:
    names = [stream.name for stream in generated]
    assert {name: answers[name] for name in names} == {name: expected[name] for name in names}
    kinds = Counter((lower is None, upper is None) for name in names for lower, upper, *_ in answers[name].values())
    assert min(kinds[kind] for kind in [(False, False), (False, True), (True, False), (True, True)]) > 200


@pytest.mark.parametrize("name", [*UNEVEN, *SMALL])
def test_logs_of_a_certain_shape(name: str, expected: dict[str, Bounds], answers: dict[str, Bounds]) -> None:
    assert answers[name] == expected[name]


def test_unknown_segments_lie_between_many_ids(
    many_ids: Stream, expected: dict[str, Bounds], answers: dict[str, Bounds]
) -> None:
    assert answers[many_ids.name] == expected[many_ids.name]
    assert len(set(answers[many_ids.name].values())) > 40


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
    (bounds,) = of_fresh_trackers(stream, [segment], [7]).values()
    rows = found.collect()
    assert Counter((row.tag, tuple(row[name] for name in BOUNDS)) for row in rows) == Counter(
        [*((tag, bounds) for *_, tag in known), *((tag, NOTHING) for *_, tag in nowhere)]
    )
    assert {(row["a.b"], row["key"]) for row in rows} == {(1, 2)}


def test_without_watermarks_nothing_is_known(spark: SparkSession) -> None:
    assert Logs.of(spark, []).bounds(placed(spark, ("s", 0, 7)), *BOUNDS) == [NOTHING]


def test_streams_may_have_numbers_for_names_and_positions_may_be_ints(spark: SparkSession) -> None:
    made = streams(10, seed=3)
    logs = Logs.of(spark, made)
    number = F.substring("stream", 2, 9).cast("int").alias("stream")
    numbered = Logs(*(table.select(number, *table.columns[1:]) for table in (logs.watermarks, logs.segments)))
    expected = {
        (int(stream.name[1:]), *position, *bounds)
        for stream in made
        for position, bounds in of_fresh_trackers(stream, [s for s in stream.ids if s < 2**31], (3, 17)).items()
    }
    asked = [row[:3] for row in expected] + [(99, 0, 3)]
    positions = spark.createDataFrame(asked, "stream int, segment_id int, offset int")
    rows = numbered.bounds(positions, "stream", "segment_id", "offset", *BOUNDS)
    assert sorted(rows, key=str) == sorted([*expected, (99, 0, 3, *NOTHING)], key=str)
    assert len({row[3:] for row in rows}) > 10


def test_groups_of_streams_may_have_numbers_for_names(spark: SparkSession) -> None:
    logs = Logs.of(spark, [], cutting("", [{0: 10}], [(3, 5)]))
    numbered = Logs(logs.watermarks.withColumn("stream", F.lit(7)), logs.segments.withColumn("stream", F.lit(7)))
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
