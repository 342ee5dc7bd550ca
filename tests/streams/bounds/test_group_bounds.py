"""group_time_bounds against one pure tracker that follows each group, over generated streams in one query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from tests.streams.bounds.cases import Row, Stream, streams
from tests.streams.bounds.frames import CHANGES, WATERMARKS, Logs, frame, rows_of
from wmlab.core.errors import ModelError
from wmlab.streams.bounds.groups import group_time_bounds
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.window import Tracker

COLUMNS = ("stream", "group", "version", "at_ms", "lower", "upper", "lower_seq", "upper_seq")


def changes(stream: Stream, group: str, seed: int) -> Iterator[Row]:
    """A group that opens, reads, falls back in, finishes and reopens any segment, some versions in one go."""
    random = Random(f"{seed}/{stream.name}/{group}")
    offsets = dict.fromkeys(random.sample(stream.ids, random.randint(1, len(stream.ids))), 0)
    at_ms, moved = 0, dict(offsets)
    for version in range(0, random.choice([1, 10, 60]), random.choice([1, 3])):
        for segment in moved:
            finished = version > 0 and random.random() < 0.15
            row = {"stream": stream.name, "group": group, "version": version, "at_ms": at_ms}
            yield row | {"segment_id": segment, "offset": moved[segment], "finished": finished}
            offsets[segment] = moved[segment]
        at_ms += random.randint(0, 9)
        chosen = random.sample(stream.ids, random.randint(1, min(3, len(stream.ids))))
        moved = {segment: max(0, offsets.get(segment, 0) + random.choice([-3, 0, 1, 2, 8])) for segment in chosen}


def expected(stream: Stream, rows: list[Row], visible: str) -> Iterator[tuple[Any, ...]]:
    tracker, offsets, log = Tracker(), {}, list(enumerate(stream.log))
    for (version, at_ms), update in groupby(rows, key=itemgetter("version", "at_ms")):
        for row in update:
            offsets[row["segment_id"]] = None if row["finished"] else row["offset"]
        position = ReaderPosition({segment: offset for segment, offset in offsets.items() if offset is not None})
        known = len(log) if visible == "all" else sum(emitted_ms <= at_ms for emitted_ms in stream.emitted_ms)
        tracker = tracker.advance(position, log[tracker.fetched : known], stream.segments)
        lower, upper = (None if at is None else stream.seqs[at] for at in (tracker.lower_seq, tracker.upper_seq))
        yield stream.name, rows[0]["group"], version, at_ms, tracker.window.lower, tracker.window.upper, lower, upper


@pytest.mark.parametrize("visible", ["all", "then"])
def test_every_version_gets_what_a_tracker_that_follows_says(
    spark: SparkSession, visible: Literal["all", "then"]
) -> None:
    made = [(stream, group) for stream in streams(150, seed=4) for group in ("g", "h")]
    logs = Logs.of(spark, [stream for stream, group in made if group == "g"])
    told, rows = [], []
    for stream, group in made:
        log = list(changes(stream, group, seed=5))
        told += expected(stream, log, visible)
        rows += log
    Random(6).shuffle(rows)
    found = rows_of(
        group_time_bounds(frame(spark, rows, CHANGES), logs.watermarks, logs.segments, visible=visible), *COLUMNS
    )
    assert sorted(found, key=itemgetter(0, 1, 2)) == sorted(told, key=itemgetter(0, 1, 2))
    kinds = Counter((row[4] is None, row[5] is None) for row in found)
    assert min(kinds[kind] for kind in [(False, False), (False, True), (True, False), (True, True)]) > 100


def change(version: int, segment: int, offset: int, *, finished: bool = False) -> Row:
    row = {"stream": "s", "group": "g", "version": version, "at_ms": version * 10}
    return row | {"segment_id": segment, "offset": offset, "finished": finished}


def test_a_group_whose_segments_are_all_finished_has_passed_everything(spark: SparkSession) -> None:
    marks = [
        {"stream": "s", "seq": seq, "lower": seq, "upper": seq + 5, "emitted_ms": 0, "cut": {0: 10 * seq + 10}}
        for seq in range(3)
    ]
    logs = Logs.of(spark, [])
    watermarks = frame(spark, marks, WATERMARKS)
    positions = frame(spark, [change(0, 0, 0), change(1, 0, 15), change(2, 0, 15, finished=True)], CHANGES)
    found = rows_of(group_time_bounds(positions, watermarks, logs.segments), "version", "lower", "upper")
    assert sorted(found) == [(0, None, 5), (1, 0, 6), (2, 2, None)]


def test_a_group_of_a_stream_without_a_log_is_kept(spark: SparkSession) -> None:
    logs = Logs.of(spark, [])
    positions = frame(spark, [change(0, 0, 0), change(3, 0, 7)], CHANGES)
    found = rows_of(group_time_bounds(positions, logs.watermarks, logs.segments, visible="then"), *COLUMNS)
    assert sorted(found) == [("s", "g", version, version * 10, None, None, None, None) for version in (0, 3)]


def test_a_missing_column_is_named(spark: SparkSession) -> None:
    logs = Logs.of(spark, [])
    positions = frame(spark, [], CHANGES)
    with pytest.raises(ModelError, match="positions has no column 'finished'"):
        group_time_bounds(positions.drop("finished"), logs.watermarks, logs.segments)
    with pytest.raises(ModelError, match="visible is 'now'"):
        group_time_bounds(positions, logs.watermarks, logs.segments, visible="now")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="watermarks has no column 'emitted_ms'"):
        group_time_bounds(positions, logs.watermarks.drop("emitted_ms"), logs.segments, visible="then")
