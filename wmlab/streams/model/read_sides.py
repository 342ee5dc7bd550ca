"""Designs of the read side: the one that PDP-33 chose and those that it discarded, with one interface.

Each gives the time bounds that a reader could know at a position and a clock time, and says what it costs.

    design                    who joins the times of the writers      what is stored
    marks segment             a controller, in every cycle            watermarks, and 16 bytes of index for each
    extended attributes       a controller, in every cycle            24 bytes for each number of a watermark
    time index per segment    each segment, at every noted time       24 bytes whenever its smallest time grows
    ingestion time            nobody                                  16 bytes for each append

A segment's own index sees no transaction: only the controller learns, after the merge, where its events lie. With
ingestion time the bounds speak of the time of the append, whatever time the events have.

Source: PDP-33, Discarded Approaches, and Future Possibilities (index segment). Layouts of the discarded are wmlab's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from wmlab.streams.model.index import RECORD_BYTES
from wmlab.streams.model.log import Watermark, entry_bytes
from wmlab.streams.model.position import Position, ReaderPosition
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.window import TimeWindow, Tracker, joint

Known = Sequence[tuple[int, Watermark]]
"""Watermarks with the clock time in ms from which on each is known, ascending."""
Window = Callable[[ReaderPosition, int], TimeWindow]
"""The bounds at a position and a clock time in ms."""

_TRIPLE_BYTES: Final = 24


class NotedTime(NamedTuple):
    """An accepted note: when it arrived (ms), by whom, its time and position, and whether a transaction made it."""

    at_ms: int
    writer: str
    time: int
    position: Position
    is_txn: bool = False


@dataclass(frozen=True, slots=True)
class ReadSide:
    """A design: `window` gives the bounds; `requests` are those that writers and controllers make for the sake of time.

    `search` is how many requests find where to begin for a time, at the end of the run; a binary search asks for one
    record at a time.
    """

    name: str
    window: Window = field(repr=False)
    requests: int
    bytes_stored: int
    search: int


def marks_segment(log: Known, notes: Sequence[NotedTime], segments: Mapping[int, Segment]) -> ReadSide:
    """The design: a note goes to one controller, a watermark to the marks segment and to its index."""
    indexed = [watermark for _, watermark in log if watermark.known]
    stored = sum(entry_bytes(watermark) for _, watermark in log) + RECORD_BYTES * len(indexed)
    requests, search = len(notes) + len(log) + len(indexed), _halvings([indexed]) + 1
    return ReadSide("marks segment", _following(log, segments), requests, stored, search)


def extended_attributes(log: Known, notes: Sequence[NotedTime], segments: Mapping[int, Segment]) -> ReadSide:
    """The same watermarks as attributes under their times: the upper bound, and each segment of the cut.

    One call of `findNextAttributeFollowing` finds a time.
    """
    stored = sum(_TRIPLE_BYTES * (1 + len(watermark.cut)) for _, watermark in log)
    return ReadSide("extended attributes", _following(log, segments), len(notes) + len(log), stored, 1)


def segment_index(notes: Sequence[NotedTime], segments: Mapping[int, Segment], timeout_ms: int) -> ReadSide:
    """Each note goes to every segment that the writer has open, which joins it with what others noted there.

    A writer counts until it has been silent for `timeout_ms`. The group's lower bound is the smallest of its segments',
    its upper bound the largest; unknown while one segment's is.
    """
    logs = {segment: _joined(segment, notes, timeout_ms) for segment in segments}

    def window(position: ReaderPosition, now_ms: int) -> TimeWindow:
        offsets = position.offsets.items()
        found = [_following(logs[s], segments)(ReaderPosition({s: offset}), now_ms) for s, offset in offsets]
        return joint(found)

    requests = sum(len(note.position) for note in notes if not note.is_txn)
    stored = _TRIPLE_BYTES * sum(map(len, logs.values()))
    return ReadSide("time index per segment", window, requests, stored, _halvings(logs.values()))


def ingestion_time(appends: Mapping[int, Sequence[tuple[int, int]]], sealed_ms: Mapping[int, int | None]) -> ReadSide:
    """Each segment keeps where an append ended and when it was stored: pairs of (bytes, ms), ascending.

    The lower bound is the time of the first append not read, or of the seal where none follows any more, or now; the
    upper bound is the time of the last append read.
    """

    def window(position: ReaderPosition, now_ms: int) -> TimeWindow:
        following: list[int] = []
        read: list[int] = []
        for segment, offset in position.offsets.items():
            stored, end_ms = appends.get(segment, ()), sealed_ms[segment]
            place = bisect_right(stored, offset, key=lambda append: append[0])
            rest = [at_ms for _, at_ms in stored[place : place + 1]]
            following += [now_ms, *rest, *([] if end_ms is None else [end_ms])]
            read += [at_ms for _, at_ms in stored[max(0, place - 1) : place]]
        return TimeWindow(min(following, default=None), max(read, default=None))

    stored = RECORD_BYTES * sum(map(len, appends.values()))
    return ReadSide("ingestion time", window, 0, stored, _halvings(appends.values()))


def _following(log: Known, segments: Mapping[int, Segment]) -> Window:
    """What a reader that follows the log knows from the watermarks that there were by then."""

    def window(position: ReaderPosition, now_ms: int) -> TimeWindow:
        known = log[: bisect_right(log, now_ms, key=lambda entry: entry[0])]
        return Tracker().advance(position, known, segments).window

    return window


def _joined(segment: int, notes: Sequence[NotedTime], timeout_ms: int) -> Known:
    """A segment's own watermarks: one whenever the smallest time of its writers grows."""
    latest: dict[str, NotedTime] = {}
    log: list[tuple[int, Watermark]] = []
    for note in notes:
        if note.is_txn or segment not in note.position:
            continue
        latest[note.writer] = note
        counted = [n for n in latest.values() if n is note or note.at_ms - n.at_ms < timeout_ms]
        times = [n.time for n in counted]
        if not log or min(times) > log[-1][1].lower:
            end = max(n.position[segment] or 0 for n in counted)
            log.append((note.at_ms, Watermark(min(times), max(times), Position({segment: end}))))
    return log


def _halvings(indexes: Iterable[Sequence[object]]) -> int:
    """How many records binary searches through all of these look at, at most."""
    return sum(len(index).bit_length() for index in indexes)
