"""Of a late event whether its writer broke its promise, and how it is described (I6).

A bound above the event is right about a writer that it counted if the writer had noted that time without having the
event acknowledged; and about one that it did not count if that had been removed or had noted nothing. If any of the
bounds that were shown was wrong about it, nothing excuses the event.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from operator import itemgetter
from typing import Final

from wmlab.core.invariants import Evidence, TableRow, TableRows, name_text, time_text
from wmlab.streams.checks.facts import (
    NOT_NOTED,
    WriterView,
    accepted_marks,
    counting_log,
    marks_by_writer,
    ordered_log,
    views_by_writer,
)
from wmlab.streams.model.segment import segment_name

WRITER_BROKE_PROMISE: Final = "of a writer that had noted a larger time"
WRITER_NOTED_ITS_TIME: Final = "of a writer that had noted its time"
"""Two more excuses of an event: what its writer had noted while the event was not acknowledged."""


class Excuses:
    """The excuses of the late events of one stream, from its log, and what each writer had noted when."""

    def __init__(self, watermarks: TableRows, writer_marks: TableRows, cycles: TableRows, segments: TableRows) -> None:
        marks = marks_by_writer(accepted_marks(writer_marks), cycles)
        views = views_by_writer(counting_log(ordered_log(watermarks)), marks)
        ordered = {
            writer: sorted(of_writer, key=lambda view: int(view.row["lower"])) for writer, of_writer in views.items()
        }
        self.by_lower = {
            writer: ([view.row["lower"] for view in of_writer], of_writer) for writer, of_writer in ordered.items()
        }
        self.later_segments = later_segments(segments)

    def of(self, event: TableRow) -> str | None:
        """The excuse of an event, see `EVENT_FACTS`; None if a bound was wrong about it."""
        if event["writer"] not in self.by_lower:
            return NOT_NOTED
        lowers, views = self.by_lower[event["writer"]]
        at_bound = event["event_time"] == event["shown_lower"]
        first = (bisect_left if at_bound else bisect_right)(lowers, event["event_time"])
        above = views[first : bisect_right(lowers, event["shown_lower"])]
        excuses = [(view.row["seq"], self._of_bound(view, event)) for view in above]
        if not excuses or any(excuse is None for _, excuse in excuses):
            return None
        excuse = max(excuses, key=itemgetter(0))[1]
        return WRITER_NOTED_ITS_TIME if at_bound and excuse == WRITER_BROKE_PROMISE else excuse

    def _of_bound(self, view: WriterView, event: TableRow) -> str | None:
        """Why a bound is right about the writer of an event; None: it is wrong about it."""
        if view.time is None:
            return view.excuse
        return None if view.position is None or self._covers(view.position, event) else WRITER_BROKE_PROMISE

    def _covers(self, position: Mapping[int, int | None], event: TableRow) -> bool:
        """Whether a position covers the event: its segment that far, or only what came after the segment."""
        segment = event["segment_id"]
        if segment in position:
            reached = position[segment]
            return reached is not None and reached >= event["offset"]
        return not self.later_segments.get(segment, frozenset()).isdisjoint(position)


def later_segments(segments: TableRows) -> dict[int, frozenset[int]]:
    """Of every segment the ids of those that came after it over some of its keys."""
    return {
        segment["segment_id"]: frozenset(
            other["segment_id"]
            for other in segments
            if other["segment_id"] > segment["segment_id"]
            and other["low"] < segment["high"]
            and segment["low"] < other["high"]
        )
        for segment in segments
    }


def describe(event: TableRow) -> str:
    """A late event, see `EVENT_FACTS`, in words."""
    return (
        f"an event of {name_text(event['writer'])} with time {time_text(event['event_time'])} in "
        f"{segment_name(event['segment_id'])} is read at {time_text(event['read_ms'])}, after "
        f"{name_text(event['shown_to'])} saw the lower bound {time_text(event['shown_lower'])}"
    )


def proof_of(event: TableRow) -> list[Evidence]:
    """The window that showed the bound, the event below it, and the read that delivered it."""
    bound = {"reader": event["shown_to"], "lower": event["shown_lower"], "at_ms": event["shown_ms"]}
    read = {"from_offset": event["after"], "to_offset": event["reached"], "at_ms": event["read_ms"]}
    return [
        Evidence.of("windows", event, "stream", "group", **bound),
        Evidence.of("events", event, "stream", "segment_id", "offset", "event_time", "append_ms", "writer"),
        Evidence.of("reads", event, "stream", "group", "reader", "segment_id", **read),
    ]
