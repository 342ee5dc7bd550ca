"""Two-sided time bounds of reader groups, at every moment at which they can change.

That is at every version of a group's state. For a reader that knows only what was emitted by then, it is also whenever
a watermark becomes visible to a group that has not moved. Between two rows of a group nothing changes.

A group's tracker compares its whole open position with a watermark, so no segment can answer alone. It never moves
back, so no version can either: the rule is sequential, and the model follows each group in one task
(`wmlab.streams.model.window.follow_group`).

Source: PDP-33, Client Changes; upstream classes `WatermarkReaderImpl` (compare, advanceTo) and `ReaderGroupState`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F

from wmlab.core.arguments import the_choice
from wmlab.core.errors import ModelError
from wmlab.core.schemas import LONG, TEXT
from wmlab.core.spark.schemas import require, spark_schema
from wmlab.streams.bounds.log_by_segment import (
    Ranges,
    WatermarkColumns,
    bounds_at,
    log_of,
    parts,
    segments_in,
)
from wmlab.streams.model.log import ALWAYS, known_from
from wmlab.streams.model.window import follow_group, position_moves

GROUP_COLUMNS: Final = ("stream", "group", "version", "at_ms")
_CHANGES: Final = {"stream": "string", "group": "string", "finished": "boolean"} | dict.fromkeys(
    ("segment_id", "offset", "version", "at_ms"), "long"
)
RESET: Final = "reset"
"""The column of positions that says that a group starts again; a log may lack it."""
POSITION: Final = ("version", "at_ms", "segment_id", "offset", "finished", RESET)
ROWS: Final = pa.schema(
    [
        *((name, TEXT) for name in ("stream", "group")),
        *((name, LONG) for name in ("version", "at_ms")),
        ("change", TEXT),
        *((name, LONG) for name in ("lower", "upper", "lower_seq", "upper_seq")),
    ]
)
"""The time bounds of groups, by the change from which on they hold."""
RunEnds = int | Mapping[str, int] | None
"""The end of the run (ms), or of each stream by its name; None: not known."""


def group_time_bounds(
    positions: DataFrame,
    watermarks: DataFrame,
    segments: DataFrame,
    *,
    visible: Literal["all", "then"] = "all",
    until_ms: RunEnds = None,
) -> DataFrame:
    """The time bounds of every reader group at every change, as a tracker that follows the group sees them.

    `positions` is a log of changes: from `version` and `at_ms` (ms) on, the group's last read offset in `segment_id`
    is `offset` (bytes), or, with `finished`, the segment has left its position. Rows of one version are one change. If
    there is a column `reset` and it is true in all of them, the group starts again with that version, as after a reset:
    another tracker follows it, which has passed nothing yet. `watermarks` and `segments` are as in `time_bounds`.

    The result is stream, group, version, at_ms, change, lower, upper, lower_seq, upper_seq; bounds are null while
    unknown, and hold until the next row of the group. `change` names the reason of the row:

    - `position`: a version of the group, with its at_ms;
    - `watermark`: a watermark became visible while the group was at this version, and changed its bounds. at_ms is that
      of the watermark and lies between those of this version and the next one. What becomes visible in the millisecond
      of a version is in the row of the version, and no row says that nothing changed;
    - `end`: the bounds of the group at `until_ms` (ms), the end of the run, if that is given and later than all else.

    `until_ms` may give each stream its own end, as when it was deleted. No row is later than the end of its stream.

    `visible="all"` uses the complete log from the beginning, so nothing becomes visible between two positions; with
    `"then"` a watermark is known from its emitted_ms on, as it was to readers. The function executes nothing. Raises
    `ModelError` for a missing column, or anything else as `visible`. Source: PDP-33, Client Changes; upstream class
    `WatermarkReaderImpl`.
    """
    the_choice(visible, "visible", ("all", "then"), ModelError)
    require(positions, "positions", _CHANGES)
    then = visible == "then"
    reset = F.col(RESET) if RESET in positions.columns else F.lit(False)
    changes = positions.select(
        *(F.col(name).cast(kind).alias(name) for name, kind in _CHANGES.items()), reset.cast("boolean").alias(RESET)
    )
    log = log_of(watermarks, segments, emitted=then)
    # Under another name: Spark cannot tell a column of `changes` from the same one come back by a join.
    groups = changes.select("stream", F.col("group").alias("of_group")).distinct()
    by_group = log.join(F.broadcast(groups), "stream").groupBy("stream", "of_group")

    def replayed(changes: pa.Table, log: pa.Table) -> pa.Table:
        """The bounds of one group; runs on an executor."""
        return bounds_of_group(changes, *parts(log), then=then, until_ms=until_ms)

    return changes.groupBy("stream", "group").cogroup(by_group).applyInArrow(replayed, spark_schema(ROWS))


def bounds_of_group(
    changes: pa.Table, watermarks: WatermarkColumns, ranges: Ranges, *, then: bool, until_ms: RunEnds
) -> pa.Table:
    """The rows of one group, as in `group_time_bounds`.

    `changes` are the rows of its positions, with a column `reset`; `watermarks` and `ranges` are the log of its stream.
    """
    known_ms = known_from(watermarks.emitted_ms.tolist()) if then else [ALWAYS] * len(watermarks.seq)
    log = list(zip(known_ms, watermarks.cuts, strict=True))
    moves = position_moves(changes.select(POSITION).to_pylist())
    seen = [state for state in follow_group(moves, log, segments_in(ranges)) if state.is_change]
    seqs = zip(*((state.tracker.lower_seq, state.tracker.upper_seq) for state in seen), strict=True)
    # In these columns -1 is none.
    lower, upper = (np.array([-1 if seq is None else seq for seq in of_bound], np.int64) for of_bound in seqs)
    columns = {
        **{name: [changes[name][0].as_py()] * len(seen) for name in ("stream", "group")},
        "version": np.array([state.move.version for state in seen], np.int64),
        "at_ms": np.array([state.at_ms for state in seen], np.int64),
        "change": [state.cause for state in seen],
        **bounds_at(watermarks, lower, upper),
    }
    return _ended(pa.table(columns), until_of(until_ms, changes["stream"][0].as_py()))


def until_of(until_ms: RunEnds, stream: str) -> int | None:
    """The end of one stream (ms); None: it is not known."""
    return until_ms.get(stream) if isinstance(until_ms, Mapping) else until_ms


def _ended(rows: pa.Table, end_ms: int | None) -> pa.Table:
    """The rows of one group up to its end, and one that begins there."""
    if end_ms is None:
        return rows
    rows = rows.filter(pc.less_equal(rows["at_ms"], end_ms))
    if not rows.num_rows or max(rows["at_ms"].to_pylist()) == end_ms:
        return rows
    last = rows.slice(rows.num_rows - 1).to_pylist()[0] | {"at_ms": end_ms, "change": "end"}
    return pa.concat_tables([rows, pa.Table.from_pylist([last], rows.schema)])
