"""The index of the marks segment, from times to cuts and back; and the designs of the read side.

Next to the marks segment lies an index segment of fixed records of 16 bytes: a time and an offset in the marks
segment. The time is the lower bound of a watermark; the offset is where its entry begins, so that reading the log after
it gives the entry first. Lower bounds grow along the log, so both questions are binary searches over the records.

The log is written first, so the index may be shorter: after a crash between the two appends, or while another leader
is about to write. The next append fills in the records that are missing since the index was last written. The questions
look at the tail of the log themselves, so they never miss an entry.

Each design of the read side gives the time bounds that a reader could know at a position and a clock time. It also says
what it costs.

    design                    who joins the times of the writers      what is stored
    marks segment             a controller, in every cycle            watermarks, and 16 bytes of index for each
    extended attributes       a controller, in every cycle            24 bytes for each number of a watermark
    time index per segment    each segment, at every noted time       24 bytes whenever its smallest time grows
    ingestion time            nobody                                  16 bytes for each append

A segment's own index sees no transaction: only the controller learns, after the merge, where its events lie. With
ingestion time the bounds speak of the time of the append, whatever time the events have.

Source: PDP-33, Future Possibilities (index segment) and Client Changes (the readers' offset in the special segment);
upstream `WatermarkReaderImpl`. Pravega has no index (issue 4098); recovery and the layouts of the discarded
designs (PDP-33, Discarded Approaches) are wmlab's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from wmlab.core.errors import ModelError
from wmlab.streams.model.log import MarksLog, Watermark, entry_bytes
from wmlab.streams.model.position import Position
from wmlab.streams.model.replay import Received
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.window import TimeWindow, Tracker, compare_with_cut, joint

RECORD_BYTES: Final = 16
"""Length of a record."""


class IndexRecord(NamedTuple):
    """The lower bound of a watermark, and where its entry begins in the marks segment, in bytes."""

    time: int
    offset: int


MarksIndex = tuple[IndexRecord, ...]
"""An index segment; times and offsets grow along it."""


def missing(index: MarksIndex, log: MarksLog[Watermark]) -> tuple[IndexRecord, ...]:
    """The records of the watermarks that the index does not have yet, oldest first; ends of known time have none."""
    last = index[-1].offset if index else -1
    begin = max(last, log.oldest)
    entries = log.read_after(begin)
    starts = (begin, *(revision for revision, _ in entries))
    return tuple(
        IndexRecord(watermark.lower, start)
        for start, (_, watermark) in zip(starts, entries, strict=False)
        if watermark.known and start > last
    )


def caught_up(index: MarksIndex, log: MarksLog[Watermark]) -> MarksIndex:
    """The index with a record for every entry of the log."""
    records = missing(index, log)
    return (*index, *records) if records else index


def cut_at_time(index: MarksIndex, log: MarksLog[Watermark], time: int, *, closest: bool = False) -> Position | None:
    """The stream cut of the last watermark whose lower bound is not beyond a time; None before the first.

    With `closest` that of the watermark with the closest lower bound, see `record_at`. As far as the writers keep what
    they noted, no event beyond the cut is older than that watermark's lower bound. Raises `TruncatedError` when the
    entry was truncated.
    """
    record = record_at(index, log, time, closest=closest)
    return None if record is None else log.first_after(record.offset)[1].cut


def record_at(index: MarksIndex, log: MarksLog[Watermark], time: int, *, closest: bool = False) -> IndexRecord | None:
    """The record of the last watermark not beyond a time; None before the first.

    With `closest` that of the one whose lower bound is closest, which may be later than the time: before the first
    watermark it is the first, of two equally close ones the earlier; None only when there is no watermark.
    """
    index = caught_up(index, log)
    later = bisect_right(index, time, key=lambda record: record.time)
    if closest:
        around = index[max(0, later - 1) : later + 1]
        return min(around, key=lambda record: abs(record.time - time), default=None)
    return index[later - 1] if later else None


def window_at(
    index: MarksIndex, log: MarksLog[Watermark], position: Position, segments: Mapping[int, Segment]
) -> TimeWindow:
    """The time at a stream cut or reader position: what a reader that stands there can know.

    `lower` is that of the last watermark passed there, `upper` that of the first one ahead everywhere; None: there is
    no such watermark. The search relies on cuts that never move back, as the sound algorithm makes them; among others
    it still finds a watermark that is passed.
    """
    index = caught_up(index, log)

    def watermark(i: int) -> Watermark:
        return log.first_after(index[i].offset)[1]

    oldest = _first(0, len(index), lambda i: index[i].offset >= log.oldest)
    passed = _first(oldest, len(index), lambda i: compare_with_cut(position, watermark(i).cut, segments) != 1)
    ahead = _first(passed, len(index), lambda i: compare_with_cut(position, watermark(i).cut, segments) == -1)

    def order_at_end_after(i: int) -> int | None:
        """How the position compares with the end of known time right after a watermark; None: there is no such end."""
        revision, _ = log.first_after(index[i].offset)
        after = log.first_after(revision)[1] if revision < log.end else None
        return None if after is None or after.known else compare_with_cut(position, after.cut, segments)

    is_past_an_end = passed > oldest and order_at_end_after(passed - 1) == 1
    has_lower = passed > oldest and not is_past_an_end
    begin = max(oldest, passed - 1)
    has_upper = ahead < len(index) and all(order_at_end_after(i) is None for i in range(begin, ahead))
    return TimeWindow(watermark(passed - 1).lower if has_lower else None, watermark(ahead).upper if has_upper else None)


def start_of(log: MarksLog[Watermark], lower: int | None) -> int:
    """Where the entry with this lower bound begins in the log; its oldest revision when there is none."""
    entry = 0 if lower is None else _first(0, len(log.entries), lambda i: log.entries[i][1].lower >= lower)
    return log.entries[entry - 1][0] if 0 < entry < len(log.entries) else log.oldest


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first index in [low, high) for which a monotone condition holds; `high` if there is none."""
    return low + bisect_left(range(low, high), True, key=holds)


Known = Sequence[tuple[int, Watermark]]
"""Watermarks with the clock time in ms from which on each is known, ascending."""
BoundsAt = Callable[[Position, int], TimeWindow]
"""The bounds at a position and a clock time in ms."""

_TRIPLE_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class ReadSide:
    """A design: `window` gives the bounds; `requests` counts requests of writers and controllers only for time.

    `search` is how many requests find where to begin for a time, at the end of the run; a binary search asks for one
    record at a time.
    """

    name: str
    window: BoundsAt = field(repr=False)
    requests: int
    bytes_stored: int
    search: int
    attributes: Sequence[Watermark] | None = field(default=None, repr=False)
    """The watermarks that the store keeps as attributes under their times, ascending; None: it keeps none."""

    def find_next_attribute_following(self, time: int) -> Watermark | None:
        """The watermark with the smallest time after `time`, in one request; None: there is none.

        Only a design with attributes answers. Raises `ModelError` for another one.
        Source: PDP-33, Discarded Approaches (`findNextAttributeFollowing(Key)`).
        """
        if self.attributes is None:
            raise ModelError(
                f"The design {self.name!r} keeps no attributes.", remedy='Ask the design "extended attributes".'
            )
        following = bisect_right(self.attributes, time, key=attrgetter("lower"))
        return self.attributes[following] if following < len(self.attributes) else None


def marks_segment(log: Known, notes: int, segments: Mapping[int, Segment]) -> ReadSide:
    """The design: each of the `notes` goes to one controller, a watermark to the marks segment and to its index."""
    indexed = [watermark for _, watermark in log if watermark.known]
    stored = sum(entry_bytes(watermark) for _, watermark in log) + RECORD_BYTES * len(indexed)
    requests, search = notes + len(log) + len(indexed), _halvings([indexed]) + 1
    return ReadSide("marks segment", _following(log, segments), requests, stored, search)


def extended_attributes(log: Known, notes: int, segments: Mapping[int, Segment]) -> ReadSide:
    """The same watermarks as attributes under their times: the upper bound, each segment of the cut, and each writer.

    One call of `findNextAttributeFollowing` finds a time, see `ReadSide`.
    """
    stored = sum(_TRIPLE_BYTES * (1 + len(watermark.cut) + len(watermark.writers)) for _, watermark in log)
    timed = [watermark for _, watermark in log if watermark.known]
    return ReadSide("extended attributes", _following(log, segments), notes + len(log), stored, 1, timed)


def segment_index(notes: Sequence[Received], segments: Mapping[int, Segment], timeout_ms: int) -> ReadSide:
    """Each note goes to every segment that the writer has open, which joins it with what others noted there.

    `notes` are the accepted ones of writers: a segment never hears of a transaction. A writer counts until it has been
    silent for `timeout_ms`. The group's lower bound is the smallest of its segments', its upper bound the largest;
    unknown while one segment's is.
    """
    logs = {segment: _joined(segment, notes, timeout_ms) for segment in segments}

    def window(position: Position, now_ms: int) -> TimeWindow:
        offsets = position.offsets.items()
        windows = [_following(logs[s], segments)(Position({s: offset}), now_ms) for s, offset in offsets]
        return joint(windows)

    requests = sum(len(note.position) for note in notes)
    stored = _TRIPLE_BYTES * sum(map(len, logs.values()))
    return ReadSide("time index per segment", window, requests, stored, _halvings(logs.values()))


def ingestion_time(
    appends: Mapping[int, Sequence[tuple[int, int]]],
    sealed_ms: Mapping[int, int | None],
    segments: Mapping[int, Segment],
) -> ReadSide:
    """Each segment keeps where an append ended and when it was stored: pairs of (bytes, ms), ascending.

    The lower bound is the time of the first append not read, or of the seal where none follows any more, or now; the
    upper bound is the time of the last append read. A segment that was sealed after others of its scale ends, for this,
    with the first append to what replaces it, which may have taken the keys of the others already.
    """
    first_ms = {segment: stored[0][1] for segment, stored in appends.items() if stored}
    end_of = dict(sealed_ms)
    for segment, at_ms in sealed_ms.items():
        if at_ms is not None:
            keys = segments[segment].keys
            later = [first_ms[other] for other in first_ms if other > segment and segments[other].keys.overlaps(keys)]
            end_of[segment] = min([at_ms, *later])

    def window(position: Position, now_ms: int) -> TimeWindow:
        following: list[int] = []
        read: list[int] = []
        for segment, offset in position.offsets.items():
            stored, end_ms = appends.get(segment, ()), end_of[segment]
            first_unread = bisect_right(stored, offset or 0, key=lambda append: append[0])
            rest = [at_ms for _, at_ms in stored[first_unread : first_unread + 1]]
            following += [now_ms, *rest, *([] if end_ms is None else [end_ms])]
            read += [at_ms for _, at_ms in stored[max(0, first_unread - 1) : first_unread]]
        return TimeWindow(min(following, default=None), max(read, default=None))

    stored = RECORD_BYTES * sum(map(len, appends.values()))
    return ReadSide("ingestion time", window, 0, stored, _halvings(appends.values()))


def _following(log: Known, segments: Mapping[int, Segment]) -> BoundsAt:
    """What a reader that follows the log knows from the watermarks that there were by then."""

    def window(position: Position, now_ms: int) -> TimeWindow:
        known = log[: bisect_right(log, now_ms, key=lambda entry: entry[0])]
        return Tracker().advance(position, known, segments).window

    return window


def _joined(segment: int, notes: Sequence[Received], timeout_ms: int) -> Known:
    """A segment's own watermarks: one whenever the smallest time of its writers grows."""
    latest: dict[str, Received] = {}
    log: list[tuple[int, Watermark]] = []
    for note in notes:
        if segment not in note.position:
            continue
        latest[note.writer] = note
        counted = [n for n in latest.values() if n is note or note.received_ms - n.received_ms < timeout_ms]
        times = [n.time for n in counted if n.time is not None]
        if not log or min(times) > log[-1][1].lower:
            end = max(n.position[segment] or 0 for n in counted)
            log.append((note.received_ms, Watermark(min(times), max(times), Position({segment: end}))))
    return log


def _halvings(indexes: Iterable[Sequence[object]]) -> int:
    """How many records binary searches through all of these look at, at most."""
    return sum(len(index).bit_length() for index in indexes)
