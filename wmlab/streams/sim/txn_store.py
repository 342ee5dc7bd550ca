"""The events of open transactions: kept beside the segments, invisible until they are merged.

Source: PDP-33, "Server Changes"; upstream transaction segments, one for each segment of the transaction's epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wmlab.core.journal import Journal
from wmlab.streams.sim.store import EVENT_HEADER_BYTES, StoredSegment

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True)
class StoredTxn:
    """What one transaction of the writer with that index has written, by segment of its epoch."""

    writer: int
    event_bytes: int
    events: int = 0
    _times: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    _merged: set[int] = field(default_factory=set)

    def write(self, segment_id: int, event_times: NDArray[np.int64]) -> None:
        """Add events to the transaction's part of a segment."""
        self._times.setdefault(segment_id, []).append(event_times)
        self.events += len(event_times)

    def delete(self) -> None:
        """Forget the events of an aborted transaction."""
        self._times.clear()

    def merge(self, source_id: int, target_id: int, target: StoredSegment, journal: Journal, now_ms: int) -> bool:
        """Append one part to a segment, all at once; False when that was done before."""
        if source_id in self._merged:
            return False
        self._merged.add(source_id)
        parts = self._times.pop(source_id, [])
        if parts:
            times = np.concatenate(parts)
            size = EVENT_HEADER_BYTES + self.event_bytes
            before = target.append(len(times), size)
            journal.append(target_id, before, size, times, now_ms, self.writer)
        return True
