"""Rows of generated streams as DataFrames, and their bounds as rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.streams.bounds.cases import Row, Stream, segment_rows
from wmlab.streams.bounds.bounds import time_bounds
from wmlab.streams.bounds.groups import group_time_bounds

SEGMENTS = "stream string, segment_id long, low double, high double"
WATERMARKS = "stream string, seq long, lower long, upper long, emitted_ms long, cut map<long, long>"
COUNTED = WATERMARKS + ", writers map<string, long>"
POSITIONS = "stream string, segment_id long, offset long, tag string"
CHANGES = "stream string, group string, version long, at_ms long, segment_id long, offset long, finished boolean"
EVENTS = "stream string, segment_id long, offset long, event_time long"


def frame(spark: SparkSession, rows: Iterable[Row], schema: str) -> DataFrame:
    names = [part.split()[0] for part in re.sub("<.*?>", "", schema).split(", ")]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)


def placed(spark: SparkSession, *places: tuple[str, int, int]) -> DataFrame:
    """Positions from stream, segment and offset."""
    return spark.createDataFrame([(*place, "") for place in places], POSITIONS)


def cutting(
    stream: str,
    cuts: Sequence[Mapping[int, int] | None],
    bounds: Sequence[Sequence[int | None]] = (),
    *,
    emitted_ms: Sequence[int] = (),
) -> Iterator[Row]:
    """The log of a stream by its cuts; without `bounds` they are the place in the log and five more."""
    at_ms = emitted_ms or [0] * len(cuts)
    for seq, cut in enumerate(cuts):
        lower, upper = bounds[seq] if bounds else (seq, seq + 5)
        row = {"stream": stream, "seq": seq, "lower": lower, "upper": upper, "emitted_ms": at_ms[seq], "cut": cut}
        yield row | {"writers": {"w": 0}}


@dataclass(frozen=True)
class Logs:
    """Watermarks and segments of some streams."""

    watermarks: DataFrame
    segments: DataFrame

    @classmethod
    def of(cls, spark: SparkSession, streams: Iterable[Stream], cutting: Iterable[Row] = ()) -> Logs:
        """The logs of these streams, and the rows of further ones whose segments nobody knows."""
        kept = list(streams)
        marks = [*(row for stream in kept for row in stream.watermark_rows()), *cutting]
        # The order of rows is nothing to rely on.
        marks.reverse()
        segments = [row for stream in kept for row in segment_rows(stream.name, stream.segments.values())]
        return cls(frame(spark, marks, COUNTED), frame(spark, segments, SEGMENTS))

    def bounds(self, positions: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
        return rows_of(time_bounds(positions, self.watermarks, self.segments), *columns)

    def group_bounds(
        self, changes: DataFrame, *columns: str, visible: Any = "all", until_ms: int | None = None
    ) -> list[tuple[Any, ...]]:
        logs = self.watermarks, self.segments
        return rows_of(group_time_bounds(changes, *logs, visible=visible, until_ms=until_ms), *columns)


def rows_of(found: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found.select(*columns).collect()]
