"""The segment store: append-only segments of bytes that acknowledge with their new length.

An event occupies 8 header bytes and its payload (upstream wire format). A sealed segment refuses appends.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

EVENT_HEADER_BYTES = 8


@dataclass(slots=True)
class StoredSegment:
    """One segment: its length in bytes, and where its events end.

    Events of one append have one size, so an append is kept as (events before it, bytes before it, event size).
    """

    length: int = 0
    events: int = 0
    sealed: bool = False
    truncated_events: int = 0
    _events_before: list[int] = field(default_factory=list)
    _appends: list[tuple[int, int]] = field(default_factory=list)

    def append(self, count: int, event_size: int) -> int:
        """Add `count` events of `event_size` bytes each; returns the length before them."""
        before = self.length
        self._events_before.append(self.events)
        self._appends.append((before, event_size))
        self.events += count
        self.length += count * event_size
        return before

    def truncate(self, offset: int) -> int:
        """Drop the events that end at or before an offset in bytes; returns where the segment starts now."""
        place = bisect_right(self._appends, offset, key=lambda append: append[0]) - 1
        if place >= 0:
            before, size = self._appends[place]
            kept = self._events_before[place] + (min(offset, self.length) - before) // size
            self.truncated_events = max(self.truncated_events, kept)
        return self.end_of(self.truncated_events)

    def end_of(self, events: int) -> int:
        """The offset after the first `events` events."""
        if events == 0:
            return 0
        place = bisect_right(self._events_before, events - 1) - 1
        before, size = self._appends[place]
        return before + (events - self._events_before[place]) * size

    def events_at(self, offset: int) -> int:
        """How many events end at or before an offset."""
        place = bisect_right(self._appends, offset, key=lambda append: append[0]) - 1
        if place < 0:
            return 0
        before, size = self._appends[place]
        following = self._events_before[place + 1] if place + 1 < len(self._appends) else self.events
        return min(self._events_before[place] + (offset - before) // size, following)


class SegmentStore(dict[int, StoredSegment]):
    """All segments of a stream, by id."""

    def open(self, segment_id: int) -> None:
        """Create an empty segment."""
        self[segment_id] = StoredSegment()

    def seal(self, segment_id: int) -> None:
        """Refuse appends from now on."""
        self[segment_id].sealed = True
