"""The log and the segments of a stream in one DataFrame, so that one function on an executor gets both.

A row is a watermark or a segment; `seq` is null in the rows of segments.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from wmlab.core.spark.inputs import require
from wmlab.streams.bounds.seen import BELOW, NEVER, Marks, Ranges

_WATERMARKS: Final = {"seq": "long", "lower": "long", "upper": "long", "cut": "map<long, long>"}
_SEGMENTS: Final = {"segment_id": "long", "low": "double", "high": "double"}


def log_of(watermarks: DataFrame, segments: DataFrame, *, emitted: bool = False) -> DataFrame:
    """All watermarks and segments: stream, seq, lower, upper, cut, emitted_ms, segment_id, low, high.

    Key ranges are compared as doubles; rounding keeps order, so ranges that do not overlap still do not. Raises
    `ModelError` for a missing column. `emitted` says whether emitted_ms is needed; otherwise it is 0.
    """
    require(watermarks, "watermarks", ["stream", *_WATERMARKS, *(["emitted_ms"] if emitted else [])])
    require(segments, "segments", ["stream", *_SEGMENTS])
    marks = watermarks.select(
        "stream",
        *(F.col(name).cast(kind).alias(name) for name, kind in _WATERMARKS.items()),
        (F.col("emitted_ms") if emitted else F.lit(0)).cast("long").alias("emitted_ms"),
    )
    ranges = segments.select("stream", *(F.col(name).cast(kind).alias(name) for name, kind in _SEGMENTS.items()))
    return marks.unionByName(ranges, allowMissingColumns=True)


def extremes_of(watermarks: DataFrame) -> DataFrame:
    """Per watermark the least and the most segment id of its cut: stream, seq, lower, upper, least, most.

    For a cut that names nothing they are the wrong way round: no id is above the least, none below the most.
    """
    ids = F.map_keys("cut")
    return watermarks.select(
        "stream",
        *(F.col(name).cast("long").alias(name) for name in ("seq", "lower", "upper")),
        F.coalesce(F.array_min(ids), F.lit(NEVER)).cast("long").alias("least"),
        F.coalesce(F.array_max(ids), F.lit(BELOW)).cast("long").alias("most"),
    )


def parts(rows: pa.Table) -> tuple[Marks, Ranges]:
    """The two halves of one stream's rows."""
    is_segment = pc.is_null(rows["seq"])
    return Marks.from_arrow(rows.filter(pc.invert(is_segment))), Ranges.from_arrow(rows.filter(is_segment))
