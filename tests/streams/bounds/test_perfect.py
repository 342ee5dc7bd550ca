"""perfect_watermark and group_perfect_watermark against brute force over generated histories, and slack by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from tests.streams.bounds.cases import Row, a_history, segment_rows
from tests.streams.bounds.frames import CHANGES, EVENTS, POSITIONS, SEGMENTS, frame, placed, rows_of
from wmlab.core.errors import ModelError
from wmlab.streams.bounds import recorded
from wmlab.streams.bounds.quality import quality_of_bounds
from wmlab.streams.bounds.recorded import group_perfect_watermark, perfect_watermark, with_slack
from wmlab.streams.model.history import StreamHistory


@dataclass(frozen=True)
class Told:
    """A stream's history and, by segment, its events as (offset, event_time)."""

    name: str
    history: StreamHistory
    events: Mapping[int, list[tuple[int, int]]]

    def to_come(self, segment: int, offset: int) -> int | None:
        own = [time for end, time in self.events[segment] if end > offset]
        later = [
            time
            for part in self.history.segments
            if segment in {ancestor.id for ancestor in self.history.ancestors(part)}
            for _, time in self.events[part]
        ]
        return min(own + later, default=None)


def histories(count: int, seed: int) -> list[Told]:
    return [_told(f"s{number}", Random(f"{seed}/{number}")) for number in range(count)]


def _told(name: str, random: Random) -> Told:
    history = a_history(random)
    events = {}
    for epoch, segment in enumerate(history.segments):
        ends = sorted(random.sample(range(1, 60), random.choice([0, 1, 5, 20])))
        events[segment] = [(end, 100 * epoch + end + random.randint(-90, 30)) for end in ends]
    return Told(name, history, events)


def tables(spark: SparkSession, made: list[Told]) -> tuple[DataFrame, DataFrame]:
    """The events and the segments."""
    events = [
        {"stream": told.name, "segment_id": segment, "offset": end, "event_time": time}
        for told in made
        for segment, ends in told.events.items()
        for end, time in ends
    ]
    segments = [row for told in made for row in segment_rows(told.name, told.history.segments.values())]
    return frame(spark, events, EVENTS), frame(spark, segments, SEGMENTS)


@pytest.mark.parametrize("events_per_cell", [2, 10_000])
def test_every_position_gets_the_smallest_time_to_come(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, events_per_cell: int
) -> None:
    monkeypatch.setattr(recorded, "_EVENTS_PER_CELL", events_per_cell)
    made = histories(40, seed=1)
    asked = [(told, segment, offset) for told in made for segment in told.events for offset in range(0, 62, 3)]
    to_come = {(told.name, segment, offset): told.to_come(segment, offset) for told, segment, offset in asked}
    positions = placed(spark, *to_come)
    found = perfect_watermark(positions, *tables(spark, made))
    assert found.columns == [*positions.columns, "perfect_watermark"]
    answers = rows_of(found, "stream", "segment_id", "offset", "perfect_watermark")
    assert len(answers) == len(to_come)
    assert {answer[:3]: answer[3] for answer in answers} == to_come
    assert sum(least is None for least in to_come.values()) > 20


def test_positions_that_are_nowhere_are_kept(spark: SparkSession) -> None:
    nowhere = {"no stream": (None, 0, 5), "no segment": ("s0", None, 5), "other segment": ("s0", 10**12, 5)}
    nowhere |= {"no offset": ("s0", 0, None), "before the first": ("s0", 0, -1)}
    rows = [*nowhere.items(), *[("twice in another stream", ("elsewhere", 0, 5))] * 2]
    positions = spark.createDataFrame([(*place, tag) for tag, place in rows], POSITIONS)
    found = perfect_watermark(positions, *tables(spark, histories(3, seed=2)))
    assert sorted(rows_of(found, "tag", "perfect_watermark")) == sorted((tag, None) for tag, _ in rows)


def test_offsets_are_as_large_as_they_get(spark: SparkSession) -> None:
    events = frame(spark, [{"stream": "s", "segment_id": 0, "offset": 2**63 - 1, "event_time": 4}], EVENTS)
    segments = frame(spark, [{"stream": "s", "segment_id": 0, "low": 0.0, "high": 1.0}], SEGMENTS)
    positions = placed(spark, *(("s", 0, offset) for offset in (0, 2**63 - 2, 2**63 - 1)))
    found = perfect_watermark(positions, events, segments)
    assert dict(rows_of(found, "offset", "perfect_watermark")) == {0: 4, 2**63 - 2: 4, 2**63 - 1: None}


def test_a_group_gets_the_smallest_over_its_open_segments(spark: SparkSession) -> None:
    made = histories(30, seed=3)
    rows: list[Row] = []
    told = {}
    for one in made:
        log = _changes(one, Random(one.name))
        rows += log
        offsets: dict[int, int | None] = {}
        for version, update in groupby(log, key=itemgetter("version")):
            offsets |= {row["segment_id"]: None if row["finished"] else row["offset"] for row in update}
            to_come = [one.to_come(part, offset) for part, offset in offsets.items() if offset is not None]
            told[one.name, version] = min((time for time in to_come if time is not None), default=None)
    changes = frame(spark, rows, CHANGES)
    found = group_perfect_watermark(changes.withColumnRenamed("version", "Version"), *tables(spark, made))
    assert found.columns == ["stream", "group", "version", "at_ms", "perfect_watermark"]
    answers = rows_of(found, "stream", "version", "perfect_watermark")
    assert len(answers) == len(told)
    assert {answer[:2]: answer[2] for answer in answers} == told
    with pytest.raises(ModelError, match="positions has no column 'finished'"):
        group_perfect_watermark(changes.drop("finished"), *tables(spark, made))


def _changes(told: Told, random: Random) -> list[Row]:
    rows = []
    for version in range(0, 24, random.choice([1, 2])):
        for segment in random.sample(sorted(told.events), random.randint(1, len(told.events))):
            row = {"stream": told.name, "group": "g", "version": version, "at_ms": 7 * version}
            offset, finished = min(60, 3 * version + random.randint(-2, 2)), random.random() < 0.2
            rows.append(row | {"segment_id": segment, "offset": max(0, offset), "finished": finished})
    return rows


def test_streams_and_segments_may_be_ints(spark: SparkSession) -> None:
    ranges = "stream int, segment_id int, low double, high double"
    segments = spark.createDataFrame([(7, 0, 0.0, 1.0), (7, 1, 0.0, 1.0)], ranges)
    events = spark.createDataFrame([(7, 1, 5, 30)], "stream int, segment_id int, offset long, event_time long")
    positions = spark.createDataFrame([(7, 0, 0), (7, 1, 5)], "stream int, segment_id int, offset long")
    found = perfect_watermark(positions, events, segments)
    assert sorted(map(tuple, found.collect())) == [(7, 0, 0, 30), (7, 1, 5, None)]


def test_slack(spark: SparkSession) -> None:
    rows = [(10, 30, 20), (21, 30, 20), (None, 15, 20), (10, None, 20), (10, 30, None), (20, 20, 20)]
    bounds = spark.createDataFrame(rows, "lower long, upper long, perfect_watermark long")
    assert [tuple(row[3:]) for row in with_slack(bounds).collect()] == [
        (20, 10, 10, True),
        (9, -1, 10, False),
        (None, None, -5, True),
        (None, 10, None, True),
        (20, None, None, True),
        (0, 0, 0, True),
    ]
    with pytest.raises(ModelError, match="bounds has no column 'perfect_watermark'"):
        with_slack(bounds.drop("perfect_watermark"))


def test_a_column_that_would_be_overwritten_is_refused(spark: SparkSession) -> None:
    positions = frame(spark, [], POSITIONS).withColumn("perfect_watermark", F.lit(1))
    with pytest.raises(ModelError, match="positions already has a column 'perfect_watermark'"):
        perfect_watermark(positions, *tables(spark, []))


def test_the_quality_of_bounds_counts_and_averages_the_rows_of_each_group(spark: SparkSession) -> None:
    rows = [
        ("s", "g", 10, None, None, 3),
        ("s", "g", 20, 5, 9, 8),
        ("s", "g", 30, 12, None, 8),
        ("s", "g", 40, 30, None, None),
        ("s", "never", 10, None, None, 3),
    ]
    columns = "stream string, group string, at_ms long, lower long, upper long, perfect_watermark long"
    answer = quality_of_bounds(spark.createDataFrame(rows, columns)).orderBy("group").collect()
    assert [tuple(row) for row in answer] == [
        ("s", "g", 3, 20, 1, 4, 14, -1),
        ("s", "never", 0, None, 0, None, None, None),
    ]
