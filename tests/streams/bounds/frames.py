"""Rows of generated streams as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.streams.bounds.cases import Row, Stream

SEGMENTS = "stream string, segment_id long, low double, high double"
WATERMARKS = "stream string, seq long, lower long, upper long, emitted_ms long, cut map<long, long>"
COUNTED = WATERMARKS + ", writers map<string, long>"
POSITIONS = "stream string, segment_id long, offset long, tag string"
CHANGES = "stream string, group string, version long, at_ms long, segment_id long, offset long, finished boolean"
EVENTS = "stream string, segment_id long, offset long, event_time long"


def frame(spark: SparkSession, rows: Iterable[Row], schema: str) -> DataFrame:
    names = [
        part.split()[0]
        for part in schema.replace("map<long, long>", "map").replace("map<string, long>", "map").split(", ")
    ]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)


@dataclass(frozen=True)
class Logs:
    """Watermarks and segments of some streams."""

    watermarks: DataFrame
    segments: DataFrame

    @classmethod
    def of(cls, spark: SparkSession, streams: Iterable[Stream]) -> Logs:
        kept = list(streams)
        marks = [row for stream in kept for row in stream.watermark_rows()]
        # The order of rows is nothing to rely on.
        marks.reverse()
        segments = [row for stream in kept for row in stream.segment_rows()]
        return cls(frame(spark, marks, COUNTED), frame(spark, segments, SEGMENTS))


def rows_of(found: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found.select(*columns).collect()]
