"""Two-sided time bounds for positions: which event times can still come behind a position, and which are behind it.

A fresh tracker (`wmlab.model.window.Tracker`) that is given one position and the complete log stops at the first
watermark that is ahead of the position: that one gives the upper bound, the last one passed before it the lower
bound. Seen from one segment, only the watermarks that reach further than all before them can be "the first ahead".
So every segment has a list of intervals of offsets with a constant answer, and the question is a lookup.

The lookup is one broadcast join. Each segment's offsets are cut at a regular grid whose width is a power of two, the
cells of all segments are numbered through without a hole, and an interval is written out once per cell it touches.
Spark keeps a broadcast table with one long key of consecutive numbers as a plain array, so a position costs one
shift, one array access and the range test of about two intervals. Another small join finds where a segment's cells
begin. Nothing is shuffled on the side of the positions.

Source: PDP-33, Watermarking in the Reader; upstream class `WatermarkReaderImpl`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.spark.inputs import refuse, require
from wmlab.spark.reach import ALWAYS, FIRST, NEVER, gaps, known_segments, named, require_log, runs, unnamed

BOUND_COLUMNS: Final = ("lower", "upper", "lower_seq", "upper_seq")
POSITION_COLUMNS: Final = ("stream", "segment_id", "offset")
_TARGET: Final = ("stream", "segment_id", "gap")
_OWN: Final = "_wmlab_"


def time_bounds(positions: DataFrame, watermarks: DataFrame, segments: DataFrame) -> DataFrame:
    """The time bounds of every position, as a fresh tracker over the complete log gives them.

    `positions` needs stream, segment_id and offset (bytes read); all its columns and rows are kept as they are, in
    any number and with duplicates. `watermarks` needs stream, seq (unique and increasing along a stream's log),
    lower, upper and cut; `segments` needs stream, segment_id, low and high. Added are, all nullable longs:

    - lower, lower_seq: of the last watermark passed; null when none is;
    - upper, upper_seq: of the first watermark ahead, or of the last undecided one when the log ends undecided.

    A position with a null or negative offset, without segment, or in a stream without watermarks gets four nulls.
    A segment that is not in `segments` overlaps every other, as it does for a reader. Nothing is executed here.
    Raises `ModelError` for a missing column, and for one that is there already under an added name.
    Source: PDP-33, Watermarking in the Reader; upstream class `WatermarkReaderImpl`.
    """
    require(positions, "positions", POSITION_COLUMNS)
    refuse(positions, "positions", BOUND_COLUMNS)
    require_log(watermarks, segments)
    targets = _targets(watermarks, segments)
    steps = _steps(watermarks, segments, targets)
    grid = _grid(steps, targets)
    return _looked_up(positions, grid, _cells(_intervals(steps), grid))


def _targets(watermarks: DataFrame, segments: DataFrame) -> DataFrame:
    """All that a position can be in: the known segments, and the gaps between their ids (range unknown)."""
    known = known_segments(watermarks, segments).withColumn("gap", F.lit(False)).withColumn("before", F.lit(None))
    between = gaps(watermarks).select("stream", F.col("after").alias("segment_id"), "before", F.lit(True).alias("gap"))
    return known.unionByName(between, allowMissingColumns=True)


def _steps(watermarks: DataFrame, segments: DataFrame, targets: DataFrame) -> DataFrame:
    """The log seen from every target: seq, lower, upper and reach, the offset from which on it is passed.

    Reach is null for "mixed". Each target's last step is never passed and carries no bounds: the end of the log.
    """
    cuts = named(watermarks)
    own = cuts.select(
        "stream", "segment_id", F.lit(False).alias("gap"), "seq", "lower", "upper",
        F.coalesce("cut_offset", F.lit(NEVER)).alias("reach"),
    )  # fmt: skip
    other = unnamed(runs(watermarks), targets, known_segments(watermarks, segments))
    # A whole run compares alike: it is passed up to its last watermark, or stops the tracker at its first.
    mark = F.when(F.col("newer") & ~F.col("older"), F.col("first")).otherwise(F.col("last"))
    reach = F.when(~F.col("newer"), F.lit(ALWAYS)).when(~F.col("older"), F.lit(NEVER)).cast("long")
    other = other.select(*_TARGET, mark["seq"].alias("seq"), mark["lower"].alias("lower"), mark["upper"].alias("upper"),
                         reach.alias("reach"))  # fmt: skip
    nothing = F.lit(None).cast("long")
    end = targets.select(*_TARGET, F.lit(NEVER).alias("seq"), nothing.alias("lower"), nothing.alias("upper"),
                         F.lit(NEVER).alias("reach"))  # fmt: skip
    return own.unionByName(other).unionByName(end)


def _intervals(steps: DataFrame) -> DataFrame:
    """Intervals [start, stop) of a target's offsets with their bounds; they are disjoint and cover all from 0."""
    earlier = Window.partitionBy(*_TARGET).orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)

    def last_where(condition: Column, bound: str) -> Column:
        return F.last(F.when(condition, F.struct("seq", bound)), ignorenulls=True).over(earlier)

    decided = F.col("reach").isNotNull()
    seen = steps.select(
        "*",
        F.coalesce(F.max("reach").over(earlier), F.lit(ALWAYS)).alias("start"),
        last_where(decided, "lower").alias("passed"),
        last_where(~decided, "upper").alias("mixed"),
    )
    is_end = F.col("seq") == NEVER
    return seen.where(F.col("reach") > F.col("start")).select(
        *_TARGET,
        "start",
        F.col("reach").alias("stop"),
        F.col("passed.lower").alias("lower"),
        F.when(is_end, F.col("mixed.upper")).otherwise(F.col("upper")).alias("upper"),
        F.col("passed.seq").alias("lower_seq"),
        F.when(is_end, F.col("mixed.seq")).otherwise(F.col("seq")).alias("upper_seq"),
    )


def _grid(steps: DataFrame, targets: DataFrame) -> DataFrame:
    """Per target the grid over its offsets: shift (cell width 2^shift), last (cell), base (number of its cell 0)."""
    finite = F.when(F.col("reach") < NEVER, F.col("reach"))
    sized = steps.groupBy(*_TARGET).agg(F.count("*").alias("count"), F.coalesce(F.max(finite), F.lit(0)).alias("top"))
    width = F.greatest(F.lit(1.0), F.col("top") / F.col("count"))
    shaped = sized.withColumn("shift", F.floor(F.log2(width)).cast("int"))
    shaped = shaped.withColumn("last", F.expr("shiftright(top, shift)"))
    before = Window.orderBy(*_TARGET).rowsBetween(Window.unboundedPreceding, -1)
    based = shaped.withColumn("base", F.coalesce(F.sum(F.col("last") + 1).over(before), F.lit(0)))
    gap = targets.where("gap").select(*_TARGET, "before")
    return based.join(F.broadcast(gap), list(_TARGET), "left").select(*_TARGET, "before", "shift", "last", "base")


def _cells(intervals: DataFrame, grid: DataFrame) -> DataFrame:
    """The intervals, once per cell they touch; `cell` numbers the cells of all targets through."""
    placed = intervals.join(F.broadcast(grid), list(_TARGET))
    cells = F.expr("explode(sequence(shiftright(start, shift), least(last, shiftright(stop - 1, shift))))")
    within = placed.select("start", "stop", *BOUND_COLUMNS, "base", cells.alias("cell"))
    return within.select((F.col("base") + F.col("cell")).alias("cell"), "start", "stop", *BOUND_COLUMNS)


def _looked_up(positions: DataFrame, grid: DataFrame, cells: DataFrame) -> DataFrame:
    stream, segment, offset = (F.col(name) for name in POSITION_COLUMNS)

    def own(frame: DataFrame, *columns: str) -> DataFrame:
        return frame.select(*(F.col(column).alias(_OWN + column) for column in columns))

    home = own(grid.where(~F.col("gap")).withColumn("key", F.xxhash64("stream", "segment_id")),
               "key", "stream", "segment_id", "shift", "last", "base")  # fmt: skip
    gap = own(grid.where("gap").withColumn("key", F.xxhash64("stream")),
              "key", "stream", "segment_id", "before", "shift", "last", "base")  # fmt: skip
    return positions
