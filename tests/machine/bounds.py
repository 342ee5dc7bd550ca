"""The time bounds of a recording by the model's tracker, in plain loops: what Spark has to come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

import pyarrow as pa

from wmlab.streams.model.log import Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import KeyRange, Segment, split_id
from wmlab.streams.model.window import Tracker

Row = dict[str, Any]
Bounds = tuple[int | None, int | None, int | None, int | None]
"""lower, upper, lower_seq, upper_seq."""


def rows_by_stream(table: pa.Table) -> dict[str, list[Row]]:
    """The rows of a table, apart for each stream."""
    rows = defaultdict(list)
    for row in table.to_pylist(maps_as_pydicts="strict"):
        rows[row["stream"]].append(row)
    return rows


class Log:
    """The log of one stream and its segments, as a tracker takes them."""

    def __init__(self, watermarks: list[Row], segments: list[Row]) -> None:
        rows = sorted(watermarks, key=itemgetter("seq"))
        self.seqs = [row["seq"] for row in rows]
        self.emitted_ms = [row["emitted_ms"] for row in rows]
        self.entries = [
            (row["revision"], Watermark(row["lower"], row["upper"], Position(row["cut"]), row["writers"]))
            for row in rows
        ]
        self.segments = {
            row["segment_id"]: Segment(*split_id(row["segment_id"]), KeyRange.parse(row["keys"])) for row in segments
        }

    def known(self, at_ms: int) -> int:
        """How many watermarks there were at that time."""
        return sum(emitted_ms <= at_ms for emitted_ms in self.emitted_ms)

    def bounds(self, tracker: Tracker) -> Bounds:
        """What a tracker says, with the places in the log."""
        seqs = (None if place is None else self.seqs[place] for place in (tracker.lower_seq, tracker.upper_seq))
        return tracker.window.lower, tracker.window.upper, *seqs

    def at(self, segment: int, offset: int) -> Bounds:
        """The bounds of one place, by a tracker that begins there."""
        return self.bounds(Tracker().advance(Position({segment: offset}), self.entries, self.segments))


def of_groups(
    tables: Mapping[str, pa.Table], *, visible: Literal["all", "then"]
) -> Iterator[tuple[str, str, int, int, Bounds]]:
    """stream, group, version, at_ms and bounds of every group, by one tracker that follows it until it is reset.

    That is at every version, and with `then` at every later millisecond up to the next version in which they changed.
    """
    logs = _logs(tables)
    for stream, rows in rows_by_stream(tables["positions"]).items():
        log = logs[stream]
        for group, changes in groupby(sorted(rows, key=itemgetter("group", "version")), itemgetter("group")):
            tracker, offsets = Tracker(), {}
            versions = [(key, list(update)) for key, update in groupby(changes, itemgetter("version", "at_ms"))]
            ends = [at_ms for (_, at_ms), _ in versions[1:]] + [2**63]
            for ((version, at_ms), update), end_ms in zip(versions, ends, strict=True):
                for row in update:
                    offsets[row["segment_id"]] = None if row["finished"] else row["offset"]
                tracker = Tracker() if all(row["reset"] for row in update) else tracker
                position = Position({segment: at for segment, at in offsets.items() if at is not None})
                emitted = {emitted_ms for emitted_ms in log.emitted_ms if at_ms < emitted_ms < end_ms}
                for moment_ms in (at_ms, *(sorted(emitted) if visible == "then" else ())):
                    until = log.known(moment_ms) if visible == "then" else len(log.entries)
                    before = log.bounds(tracker)
                    tracker = tracker.advance(position, log.entries[tracker.fetched : until], log.segments)
                    if moment_ms == at_ms or log.bounds(tracker) != before:
                        yield stream, group, version, moment_ms, log.bounds(tracker)


def of_events(tables: Mapping[str, pa.Table], every: int) -> Iterator[tuple[str, int, int, Bounds]]:
    """stream, segment, offset and bounds at the end of each event whose offset is a multiple of `every`."""
    logs = _logs(tables)
    for stream, rows in rows_by_stream(tables["events"]).items():
        for row in rows:
            if row["offset"] % every == 0:
                yield stream, row["segment_id"], row["offset"], logs[stream].at(row["segment_id"], row["offset"])


def _logs(tables: Mapping[str, pa.Table]) -> dict[str, Log]:
    watermarks = rows_by_stream(tables["watermarks"])
    return {
        stream: Log(watermarks.get(stream, []), rows) for stream, rows in rows_by_stream(tables["segments"]).items()
    }
