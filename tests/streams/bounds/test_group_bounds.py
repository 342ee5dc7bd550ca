"""group_time_bounds against one pure tracker that follows each group, over generated streams in one query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.repetitions import repetitions
from tests.streams.bounds.cases import Row, Stream, streams
from tests.streams.bounds.frames import CHANGES, Logs, cutting, frame
from wmlab.core.errors import ModelError
from wmlab.streams.model.position import Position
from wmlab.streams.model.window import Tracker

COLUMNS = ("stream", "group", "version", "at_ms", "change", "lower", "upper", "lower_seq", "upper_seq")
UNTIL_MS = 1_000
"""Later than anything that happens here."""


def changes(stream: Stream, group: str, seed: int) -> Iterator[Row]:
    """A group that opens, reads, falls back in, finishes and reopens any segment, some versions in one go.

    With some of them it starts again.
    """
    random = Random(f"{seed}/{stream.name}/{group}")
    offsets = dict.fromkeys(random.sample(stream.ids, random.randint(1, len(stream.ids))), 0)
    at_ms, moved = 0, dict(offsets)
    for version in range(0, random.choice([1, 10, 60]), random.choice([1, 3])):
        reset = version > 0 and random.random() < 0.05
        for segment in moved:
            finished = version > 0 and random.random() < 0.15
            row = {"stream": stream.name, "group": group, "version": version, "at_ms": at_ms}
            yield row | {"segment_id": segment, "offset": moved[segment], "finished": finished, "reset": reset}
            offsets[segment] = moved[segment]
        at_ms += random.randint(0, 9)
        chosen = random.sample(stream.ids, random.randint(1, min(3, len(stream.ids))))
        moved = {segment: max(0, offsets.get(segment, 0) + random.choice([-3, 0, 1, 2, 8])) for segment in chosen}


def expected(stream: Stream, rows: list[Row], visible: str) -> Iterator[tuple[Any, ...]]:
    tracker, offsets, log = Tracker(), {}, list(enumerate(stream.log))
    versions = [(key, list(update)) for key, update in groupby(rows, key=itemgetter("version", "at_ms"))]
    for number, ((version, at_ms), update) in enumerate(versions):
        for row in update:
            offsets[row["segment_id"]] = None if row["finished"] else row["offset"]
        position = Position({segment: offset for segment, offset in offsets.items() if offset is not None})
        if any(row["reset"] for row in update):
            tracker = Tracker()
        next_ms = versions[number + 1][0][1] if number + 1 < len(versions) else UNTIL_MS
        emissions = sorted(set(stream.emitted_ms)) if visible == "then" else []
        for moment_ms in (at_ms, *(emitted for emitted in emissions if at_ms < emitted < next_ms)):
            known = len(log) if visible == "all" else sum(emitted <= moment_ms for emitted in stream.emitted_ms)
            before, tracker = tracker, tracker.advance(position, log[tracker.fetched : known], stream.segments)
            if moment_ms == at_ms:
                yield stream.name, rows[0]["group"], version, at_ms, "position", *stream.bounds(tracker)
            elif stream.bounds(tracker) != stream.bounds(before):
                yield stream.name, rows[0]["group"], version, moment_ms, "watermark", *stream.bounds(tracker)
    yield stream.name, rows[0]["group"], version, UNTIL_MS, "end", *stream.bounds(tracker)


@pytest.mark.parametrize("visible", ["all", "then"])
def test_every_version_gets_what_a_tracker_that_follows_says(spark: SparkSession, visible: str) -> None:
    made = streams(repetitions(50, long=150), seed=4)
    told, rows = [], []
    for stream in made:
        for group in ("g", "h"):
            log = list(changes(stream, group, seed=5))
            told += expected(stream, log, visible)
            rows += log
    Random(6).shuffle(rows)
    positions = frame(spark, rows, CHANGES + ", reset boolean")
    found = Logs.of(spark, made).group_bounds(positions, *COLUMNS, visible=visible, until_ms=UNTIL_MS)
    assert sorted(found, key=itemgetter(0, 1, 2, 3)) == sorted(told, key=itemgetter(0, 1, 2, 3))
    kinds = Counter((row[5] is None, row[6] is None) for row in found)
    assert min(kinds[kind] for kind in [(False, False), (False, True), (True, False), (True, True)]) > 100
    assert sum(row["reset"] for row in rows) > 50
    assert sum(not stream.log for stream in made) > 3
    assert sum(len(set(stream.emitted_ms)) < len(stream.emitted_ms) for stream in made) > 3
    assert sum(not stream.segments.keys() >= set(stream.ids[:-1]) for stream in made) > 20


def changed(spark: SparkSession, positions: Mapping[str, Iterable[tuple[int, int, bool]]]) -> DataFrame:
    """Changes of segment 0 by stream, each from version, offset and whether it is finished."""
    rows = [(name, "g", version, version * 10, 0, *rest) for name, of in positions.items() for version, *rest in of]
    return spark.createDataFrame(rows, CHANGES)


CUTS = [{0: 10}, {0: 15}, {0: 20}, {0: 30}]
EMITTED_MS = [5, 12, 14, 16]
READS = [(0, 0, False), (1, 15, False), (2, 20, False)]
"""At 10 ms the group has read 15 bytes; the watermarks at 15, 20 and 30 bytes become visible after that."""
SEEN = [
    (0, "position", None, None),
    (5, "watermark", None, 5),
    (10, "position", 0, None),
    (12, "watermark", 1, None),
    (14, "watermark", 1, 7),
    (20, "position", 2, 8),
]
"""What the group sees: at_ms, change, lower and upper."""
OF_ENDS: dict[int | None, list[tuple[Any, ...]]] = {
    40: [*SEEN, (40, "end", 2, 8)],
    20: SEEN,
    13: [*SEEN[:4], (13, "end", 1, None)],
    12: SEEN[:4],
    -1: [],
    None: SEEN,
}
"""What the group of a stream sees that ends then (ms), or whose end is not known."""


def test_a_group_that_stands_still_sees_each_watermark_that_becomes_visible_until_its_stream_ends(
    spark: SparkSession,
) -> None:
    names = {f"ends at {end_ms}": end_ms for end_ms in OF_ENDS}
    positions = changed(spark, dict.fromkeys(names, READS) | {"no log": [(0, 0, False), (3, 7, False)]})
    logs = Logs.of(spark, [], [row for name in names for row in cutting(name, CUTS, emitted_ms=EMITTED_MS)])
    until_ms = {name: end_ms for name, end_ms in names.items() if end_ms is not None}
    columns = ("stream", "at_ms", "change", "lower", "upper")
    rows = sorted(logs.group_bounds(positions, *columns, visible="then", until_ms=until_ms), key=itemgetter(0, 1))
    assert {name: [row[1:] for row in rows if row[0] == name] for name in (*names, "no log")} == {
        **{name: OF_ENDS[end_ms] for name, end_ms in names.items()},
        "no log": [(0, "position", None, None), (30, "position", None, None)],
    }


def test_in_hindsight_only_positions_change_bounds_and_who_has_finished_all_segments_has_passed_all(
    spark: SparkSession,
) -> None:
    positions = changed(spark, {"reads on": READS, "finishes": [(0, 0, False), (1, 15, False), (2, 15, True)]})
    logs = Logs.of(spark, [], [row for name in ("reads on", "finishes") for row in cutting(name, CUTS)])
    rows = logs.group_bounds(positions, "stream", "at_ms", "change", "lower", "upper", until_ms={"reads on": 40})
    assert sorted(rows, key=itemgetter(0, 1)) == [
        ("finishes", 0, "position", None, 5),
        ("finishes", 10, "position", 1, 7),
        ("finishes", 20, "position", 3, None),
        ("reads on", 0, "position", None, 5),
        ("reads on", 10, "position", 1, 7),
        ("reads on", 20, "position", 2, 8),
        ("reads on", 40, "end", 2, 8),
    ]


def test_who_sees_a_new_position_knows_of_the_watermark_of_its_millisecond(spark: SparkSession) -> None:
    logs = Logs.of(spark, [], cutting("s", [{0: 10}, {0: 20}], emitted_ms=[10, 30]))
    positions = changed(spark, {"s": [(0, 0, False), (1, 15, False)]})
    assert logs.group_bounds(positions, "at_ms", "lower", "upper", visible="then")[:2] == [
        (0, None, None),
        (10, 0, None),
    ]


def test_a_missing_column_is_named(spark: SparkSession) -> None:
    logs, positions = Logs.of(spark, []), changed(spark, {})
    with pytest.raises(ModelError, match="positions has no column 'finished'"):
        logs.group_bounds(positions.drop("finished"))
    with pytest.raises(ModelError, match="visible is 'now'"):
        logs.group_bounds(positions, visible="now")
    with pytest.raises(ModelError, match="watermarks has no column 'emitted_ms'"):
        Logs(logs.watermarks.drop("emitted_ms"), logs.segments).group_bounds(positions, visible="then")
