"""What a segment store keeps of a segment, and the error of a store that does not answer.

An event occupies 8 header bytes and its payload (upstream wire format). A sealed segment refuses appends.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from wmlab.core.errors import ModelError


@dataclass(slots=True)
class StoredSegment:
    """One segment: when it was created and sealed, its length in bytes, and where its events end.

    Events of one append have one size, so appends in a row of the same event size are kept as one run: (events before
    it, bytes before it, event size).
    """

    created_ms: int
    sealed_ms: int | None = None
    length: int = 0
    events: int = 0
    truncated_events: int = 0
    _runs: list[tuple[int, int, int]] = field(default_factory=list)

    def append(self, count: int, event_size: int) -> int:
        """Add `count` events of `event_size` bytes each; returns the length before them."""
        before = self.length
        if not self._runs or self._runs[-1][2] != event_size:
            self._runs.append((self.events, before, event_size))
        self.events += count
        self.length += count * event_size
        return before

    def truncate(self, offset: int) -> int:
        """Drop the events that end at or before an offset in bytes; returns where the segment starts now."""
        self.truncated_events = max(self.truncated_events, self.events_at(offset))
        return self.end_of(self.truncated_events)

    def end_of(self, events: int) -> int:
        """The offset after the first `events` events."""
        if events == 0:
            return 0
        events_before, before, size = self._runs[bisect_right(self._runs, events - 1, key=itemgetter(0)) - 1]
        return before + (events - events_before) * size

    def events_at(self, offset: int) -> int:
        """How many events end at or before an offset."""
        if not self._runs:
            return 0
        events_before, before, size = self._runs[bisect_right(self._runs, offset, key=itemgetter(1)) - 1]
        return events_before + (min(offset, self.length) - before) // size


UNAVAILABLE: Final = "unavailable"
"""The answer of a controller that is not there, or that cannot reach its store."""


class UnavailableError(ModelError):
    """A store that refuses to answer, or that a partition keeps out of reach."""

    def __init__(self, store: str) -> None:
        super().__init__(f"The {store} is unavailable.", remedy="Wait until it is back.")
        self.reason = f"{store} unavailable"
