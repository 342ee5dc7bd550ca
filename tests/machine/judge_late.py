"""The second judge on late events: I6, event by event.

An event is late when it is first read after a window of its group showed a larger lower bound. That is nobody's fault
when its writer had noted nothing, had been dropped, or had noted a larger time at a place that does not cover the
event; then it does not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.machine.judge_cuts import overlapping, read_at

Row = dict[str, Any]
Rows = Mapping[str, list[Row]]


def nothing_late(rows: Rows) -> tuple[int, list[int]]:
    """I6."""
    judged, broken = 0, []
    overlaps = None
    for event, promised, read_ms in deliveries(rows):
        judged += 1
        if event["event_time"] < promised:
            overlaps = overlaps or overlapping(rows)
            if _is_wrong(rows, event, promised, overlaps):
                broken.append(read_ms)
    return judged, broken


def deliveries(rows: Rows) -> Iterator[tuple[Row, int, int]]:
    """Every event that a group read while it had a bound: the event, the largest bound shown before, and when."""
    events = defaultdict(list)
    for event in rows["events"]:
        events[event["segment_id"]].append(event)
    shown = defaultdict(list)
    for window in rows["windows"]:
        if window["lower"] is not None:
            shown[window["group"]].append((window["at_ms"], window["lower"]))
    for read in rows["reads"]:
        promised = max((lower for at, lower in shown[read["group"]] if at < read["at_ms"]), default=None)
        if promised is not None and not read["again"]:
            for event in events[read["segment_id"]]:
                if read["from_offset"] < event["offset"] <= read["to_offset"]:
                    yield event, promised, read["at_ms"]


def _is_wrong(rows: Rows, event: Row, promised: int, overlaps: Mapping[int, set[int]]) -> bool:
    """Whether one of the bounds above the event that were shown was wrong about its writer."""
    marks = [mark for mark in rows["writer_marks"] if (mark["writer"], mark["outcome"]) == (event["writer"], "success")]
    if not marks:
        return False
    bounds = [entry for entry in rows["watermarks"] if event["event_time"] < entry["lower"] <= promised]
    return not bounds or any(not _excused(rows, event, entry, marks, overlaps) for entry in bounds)


def _excused(rows: Rows, event: Row, entry: Row, marks: list[Row], overlaps: Mapping[int, set[int]]) -> bool:
    """Whether a bound is right about the writer of a late event all the same."""
    writer = event["writer"]
    if writer in entry["writers"]:
        counted = [
            mark
            for mark in marks
            if mark["time"] == entry["writers"][writer] and mark["received_ms"] <= entry["emitted_ms"]
        ]
        if not counted:
            return False
        position = max(counted, key=lambda mark: mark["received_ms"])["position"]
        return not _covers(position, event, overlaps)
    noted = [mark["received_ms"] for mark in marks if mark["received_ms"] < read_at(rows, entry)]
    if not noted:
        return True
    return any(writer in row["removed"] and max(noted) <= row["at_ms"] <= entry["emitted_ms"] for row in rows["cycles"])


def _covers(position: Mapping[int, int | None], event: Row, overlaps: Mapping[int, set[int]]) -> bool:
    """Whether a position lies beyond an event."""
    segment = event["segment_id"]
    if segment in position:
        return position[segment] is not None and position[segment] >= event["offset"]
    return any(other > segment for other in overlaps[segment] & position.keys())
