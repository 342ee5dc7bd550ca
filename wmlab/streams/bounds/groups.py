"""Two-sided time bounds of reader groups, at every version of a group's state.

A group's tracker compares its whole open position with a watermark, so no segment can answer alone, and it never moves
back, so no version can either: the rule is sequential and is replayed once per group (`wmlab.streams.bounds.replay`).
What goes into a replay has one row per change of a position, not one per version and segment.

Source: PDP-33, Client Changes; upstream classes `WatermarkReaderImpl` and `ReaderGroupState`.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from wmlab.core.spark.inputs import require
from wmlab.streams.bounds.intervals import bounds_of
from wmlab.streams.bounds.log import log_of, parts
from wmlab.streams.bounds.replay import replay
from wmlab.streams.bounds.seen import column

GROUP_COLUMNS: Final = ("stream", "group", "version", "at_ms")
_CHANGES: Final = {"segment_id": "long", "offset": "long", "finished": "boolean", "version": "long", "at_ms": "long"}
_ROWS: Final = (
    "stream string, group string, version long, at_ms long, lower long, upper long, lower_seq long, upper_seq long"
)


def group_time_bounds(
    positions: DataFrame, watermarks: DataFrame, segments: DataFrame, *, visible: Literal["all", "then"] = "all"
) -> DataFrame:
    """The time bounds of every version of every reader group, as one tracker that follows the group sees them.

    `positions` is a log of changes: from `version` and `at_ms` (ms) on, the group's last read offset in `segment_id`
    is `offset` (bytes), or, with `finished`, the segment has left its position. Rows of one version are one change.
    The result has one row per stream, group and version: stream, group, version, at_ms, lower, upper, lower_seq,
    upper_seq; bounds are null while unknown. `watermarks` and `segments` are as in `time_bounds`.

    `visible="all"` takes the complete log as known from the beginning; with `"then"` a watermark is known from its
    emitted_ms on, which is what a reader can have known. Nothing is executed here. Raises `ModelError` for a missing
    column. Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl`.
    """
    changes = changes_of(positions)
    log = log_of(watermarks, segments, emitted=visible == "then")
    # Under another name: Spark cannot tell a column of `changes` from the same one come back by a join.
    groups = changes.select("stream", F.col("group").alias("of_group")).distinct()
    by_group = log.join(F.broadcast(groups), "stream").groupBy("stream", "of_group")
    return changes.groupBy("stream", "group").cogroup(by_group).applyInArrow(_THEN[visible], _ROWS)


def changes_of(positions: DataFrame) -> DataFrame:
    """The columns of a log of changes, in their types. Raises `ModelError` for a missing column."""
    require(positions, "positions", ["stream", "group", *_CHANGES])
    return positions.select("stream", "group", *(F.col(name).cast(kind).alias(name) for name, kind in _CHANGES.items()))


def _in_hindsight(changes: pa.Table, log: pa.Table) -> pa.Table:
    return _replayed(changes, log, then=False)


def _at_the_time(changes: pa.Table, log: pa.Table) -> pa.Table:
    return _replayed(changes, log, then=True)


_THEN: Final = {"all": _in_hindsight, "then": _at_the_time}


def _replayed(changes: pa.Table, log: pa.Table, *, then: bool) -> pa.Table:
    """The bounds of one group; runs on an executor."""
    marks, ranges = parts(log)
    versions = changes.group_by("version").aggregate([("at_ms", "max")]).sort_by("version")
    if then:
        # A watermark is known when it and all before it in the log have been emitted.
        known = np.maximum.accumulate(marks.emitted_ms).searchsorted(column(versions, "at_ms_max"), side="right")
    else:
        known = np.full(versions.num_rows, len(marks.seq))
    lower, upper = replay(marks, ranges, changes.sort_by("version"), known)
    count = versions.num_rows
    return pa.table(
        {
            "stream": [changes["stream"][0].as_py()] * count,
            "group": [changes["group"][0].as_py()] * count,
            "version": versions["version"],
            "at_ms": versions["at_ms_max"],
        }
        | bounds_of(marks, lower, upper)
    )
