"""Joins whose inputs have event times that do not overlap, so that no row of one can meet a row of the other.

Source: "Stream-to-stream join", on bounds; PDP-33, Applications reading from multiple streams.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.overlap import TimeRange, apart_text, without_common_times
from wmlab.core.recording import Recording
from wmlab.dataflow.model.join import LEFT, RIGHT, StreamJoin


def joins_apart(
    recording: Recording, joins: Mapping[str, StreamJoin], *, until_ms: int | None = None
) -> dict[str, str]:
    """By name, those of the joins in which no two rows could meet, since their times do not overlap, with a sentence.

    Joins count whose inputs have one watermarked time each, and rows that came at the same time, by `until_ms` (clock).
    """
    answers = {}
    for name, join in joins.items():
        ranges = _ranges(recording, name, until_ms)
        if len(ranges) == 2 and _out_of_reach(join, ranges) and (apart := without_common_times(ranges)):
            answers[name] = apart_text(f"the inputs of {name}", apart)
    return answers


def _ranges(recording: Recording, join: str, until_ms: int | None) -> list[TimeRange]:
    """The event times of the rows that the join got from its left and its right input."""
    queues = [queue for queue in recording.table("queues").to_pylist() if queue["target"] == join]
    items = recording.table("items").select(["queue", "time", "put_ms"]).drop_null()
    items = items if until_ms is None else items.filter(pc.less_equal(items["put_ms"], until_ms))
    ranges = []
    for edge in (LEFT, RIGHT):
        of_edge = [queue for queue in queues if queue["edge"] == edge]
        rows = items.filter(pc.is_in(items["queue"], pa.array([queue["queue"] for queue in of_edge], pa.int64())))
        if rows.num_rows:
            first, last = pc.min_max(rows["time"]).as_py().values()
            ranges.append(TimeRange(of_edge[0]["source"], first, last, *pc.min_max(rows["put_ms"]).as_py().values()))
    return ranges


def _out_of_reach(join: StreamJoin, ranges: list[TimeRange]) -> bool:
    """Whether a bound of the join lies between all times of one side and all times of the other."""
    if any(len(keys) != 1 for keys in join.keys):
        return False
    (left,), (right,) = join.keys
    of_left, of_right = ranges
    amounts = (join.bounds[right][left], join.bounds[left][right])
    return of_left.last < of_right.first - amounts[0] or of_right.last < of_left.first - amounts[1]
