"""Late drop: rows below the last watermark of one key are left out, everything else passes.

A row exactly at the watermark is on time. All watermarks of all keys are forwarded, also those of other keys.

Source: "Keyed watermark support", WM rules (No overtaking); upstream class `LateItemsDropP` (IMPOSE_ORDER in SQL).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wmlab.dataflow.model.defaults import by_default, time_of
from wmlab.dataflow.model.items import MIN, Event
from wmlab.dataflow.model.processor import Drop, GlobalWatermark, Reply, Row, Stimulus


@dataclass(frozen=True, slots=True)
class LateDrop:
    """Drops by the time in column `time`, whose watermarks have `key`. The state is the last one. Source: as above."""

    time: int
    key: int = 0

    def start(self) -> int:
        """No watermark came yet. Source: as the module."""
        return MIN

    def step(self, state: int, stimulus: Stimulus) -> Reply[int]:
        """A row passes or is dropped; a watermark passes. Source: as the module."""
        match stimulus:
            case Row(edge, event):
                return self._row(state, edge, event)
            case GlobalWatermark(watermark) if watermark.key == self.key:
                return Reply(watermark.value, (watermark,))
        return by_default(state, stimulus)

    def _row(self, state: int, edge: int, event: Event) -> Reply[int]:
        time = time_of(event.values, self.time)
        if time < state:
            return Reply(state, drops=(Drop(edge, event, "late drop", self.key, time, state),))
        return Reply(state, (event,))

    def size(self, state: int) -> int:  # noqa: ARG002
        """No row is held. Source: as the module."""
        return 0

    def may_snapshot(self, state: int) -> bool:  # noqa: ARG002
        """Always. Source: as the module."""
        return True

    def restore(self, snapshots: Sequence[int]) -> int:
        """The lowest watermark of all instances. Source: as the module."""
        return min(snapshots, default=MIN)
