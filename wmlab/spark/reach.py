"""How far a segment has to be read for each watermark of its stream: the cuts, seen from one segment.

A watermark's cut is a map from segment to offset. Seen from one segment, the same rule of the readers
(`wmlab.model.window.compare`) leaves four cases: the cut names the segment, then its offset decides; or it names only
older segments of that key range, then every position in this one is beyond it; or only newer ones, then none is; or
both, then the answer is "mixed" whatever the offset. A segment of unknown range overlaps every other.

Only what the cut names is written out per watermark. The rest depends on which segments the cut names and on nothing
else, so it is written once per run of consecutive watermarks that name the same segments, about once per epoch.

Ids that neither the segments table nor any cut knows are answered for by `gaps`: all ids strictly between two
neighbouring ids of the cuts compare alike.

Source: PDP-33, Watermarking in the Reader; upstream class `WatermarkReaderImpl`, method compare.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.spark.inputs import require

ALWAYS: Final = 0
"""A reach that every offset has: the watermark is passed by being in the segment at all."""
NEVER: Final = 2**63 - 1
"""A reach that no offset has: no position in the segment passes the watermark."""
FIRST: Final = -(2**63)
"""Below every segment id and every seq."""

WATERMARK_COLUMNS: Final = ("stream", "seq", "lower", "upper", "cut")
SEGMENT_COLUMNS: Final = ("stream", "segment_id", "low", "high")


def require_log(watermarks: DataFrame, segments: DataFrame) -> None:
    """Refuse tables that lack a column which the comparison with cuts needs. Raises `ModelError`."""
    require(watermarks, "watermarks", WATERMARK_COLUMNS)
    require(segments, "segments", SEGMENT_COLUMNS)


def named(watermarks: DataFrame) -> DataFrame:
    """One row per watermark and segment of its cut: stream, segment_id, seq, lower, upper, cut_offset.

    A null cut_offset is the end of the segment (issue 6510 upstream).
    """
    return watermarks.select(
        F.col("stream"),
        F.col("seq").cast("long").alias("seq"),
        F.col("lower").cast("long").alias("lower"),
        F.col("upper").cast("long").alias("upper"),
        F.explode("cut").alias("segment_id", "cut_offset"),
    )


def known_segments(watermarks: DataFrame, segments: DataFrame) -> DataFrame:
    """Every segment of the segments table or of a cut: stream, segment_id, low, high; null range: unknown."""
    cuts = watermarks.select("stream", F.explode(F.map_keys("cut")).alias("segment_id"))
    ranges = segments.select("stream", F.col("segment_id").cast("long").alias("segment_id"), "low", "high")
    nowhere = [F.lit(None).cast(ranges.schema[bound].dataType).alias(bound) for bound in ("low", "high")]
    both = ranges.unionByName(cuts.distinct().select("stream", "segment_id", *nowhere))
    return both.groupBy("stream", "segment_id").agg(F.max("low").alias("low"), F.max("high").alias("high"))


def gaps(watermarks: DataFrame) -> DataFrame:
    """The open intervals of ids between neighbours named in cuts: stream, after, before.

    A stream whose cuts name nothing has one gap over all ids.
    """
    cuts = watermarks.select("stream", F.explode(F.map_keys("cut")).alias("after")).distinct()
    heads = watermarks.select("stream", F.lit(FIRST).alias("after")).distinct()
    by_id = Window.partitionBy("stream").orderBy("after")
    following = F.lead("after", 1, NEVER).over(by_id)
    return heads.unionByName(cuts).select("stream", "after", following.alias("before"))


def runs(watermarks: DataFrame) -> DataFrame:
    """Runs of consecutive watermarks whose cuts name the same segments.

    Columns: stream, run, ids (ascending), first_seq, last_seq, and lower and upper of both as the structs `first`
    and `last` (seq, lower, upper).
    """
    by_seq = Window.partitionBy("stream").orderBy("seq")
    mark = F.struct(*(F.col(name).cast("long").alias(name) for name in ("seq", "lower", "upper")))
    ids = F.coalesce(F.array_sort(F.map_keys("cut")), F.array().cast("array<bigint>"))
    shaped = watermarks.select("stream", "seq", mark.alias("mark"), ids.alias("ids"))
    starts = F.coalesce(F.col("ids") != F.lag("ids").over(by_seq), F.lit(True))
    numbered = shaped.withColumn("starts", starts.cast("int")).withColumn("run", F.sum("starts").over(by_seq))
    ends = (F.min("mark").alias("first"), F.max("mark").alias("last"))
    return numbered.groupBy("stream", "run", "ids").agg(*ends)


def unnamed(runs_of_cuts: DataFrame, targets: DataFrame, segments: DataFrame) -> DataFrame:
    """How each target compares with the runs that do not name it.

    `targets` has stream, segment_id, gap, low, high; with `gap` it stands for the unknown ids right after segment_id.
    Columns: those of the target's key, `first` and `last` of the run, and `older` and `newer`: whether the cut names
    an overlapping segment that the target is beyond, or one that is beyond the target.
    """
    ranges = segments.select(
        "stream",
        F.col("segment_id").cast("long").alias("cut_id"),
        F.col("low").alias("cut_low"),
        F.col("high").alias("cut_high"),
    )
    parts = runs_of_cuts.select("*", F.explode_outer("ids").alias("cut_id")).join(
        F.broadcast(ranges), ["stream", "cut_id"], "left"
    )
    apart = (F.col("low") >= F.col("cut_high")) | (F.col("cut_low") >= F.col("high"))
    overlaps = F.coalesce(~apart, F.col("cut_id").isNotNull())
    is_named = ~F.col("gap") & F.array_contains("ids", F.col("segment_id"))
    pairs = parts.join(F.broadcast(targets), "stream").where(~is_named)
    return pairs.groupBy("stream", "segment_id", "gap", "run").agg(
        F.first("first").alias("first"),
        F.first("last").alias("last"),
        _any(overlaps & (F.col("cut_id") <= F.col("segment_id"))).alias("older"),
        _any(overlaps & (F.col("cut_id") > F.col("segment_id"))).alias("newer"),
    )


def _any(condition: Column) -> Column:
    return F.coalesce(F.bool_or(condition), F.lit(False))
