"""Tumbling and sliding windows, aggregated by group in one stage and driven by the watermarks of one key.

    row              late if its frame ends before the next window does: dropped, also from windows still open
    watermark        of its key: results of all windows that end at or before it, then the watermark itself
                     of another key: nothing, since the output has no column for it
    end of inputs    results of all windows that hold anything, without a watermark

A row below the watermark is accepted while its frame is open. A result is the row (start, end, group, aggregates...);
windows without rows give none. The watermark on the output is that on the window end.

Source: "Keyed watermark support", Changes to window aggregation processors; upstream class `SlidingWindowP`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from wmlab.dataflow.model.aggregate import Aggregate, accumulated, combined, created, finished, group_of
from wmlab.dataflow.model.defaults import Values, by_default, time_of
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.frame_store import Combine, FrameStore, WindowShape, restored
from wmlab.dataflow.model.items import MIN, Event, Value
from wmlab.dataflow.model.processor import Complete, Drop, GlobalWatermark, JobFailedError, Reason, Reply, Row, Stimulus

PartlyLate = Literal["drop", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Windows over the time in column `time`; `group` are the columns of the grouping key, none for one group.

    `limit` is the state limit in (frame, group) pairs, None for none. With `early` results carry a last column that
    tells early ones. `partly_late="count"` takes a row into the windows that are still open when the first of its
    windows has closed. Source: as the module.
    """

    shape: WindowShape
    time: int
    aggregates: tuple[Aggregate, ...]
    group: tuple[int, ...] = ()
    key: int = 0
    limit: int | None = None
    early: bool = False
    partly_late: PartlyLate = "drop"
    deviations: Deviations = DESIGN

    def start(self) -> FrameStore:
        """No row and no watermark came. Source: as the module."""
        return FrameStore()

    def step(self, state: FrameStore, stimulus: Stimulus) -> Reply[FrameStore]:
        """Raises `JobFailedError` at the state limit, `ModelError` for a row without a time. Source: as the module."""
        match stimulus:
            case Row(edge, event):
                return self._row(state, edge, event)
            case GlobalWatermark(watermark) if watermark.key == self.key:
                out = self._results(state, watermark.value)
                return Reply(state.closed(self.shape, watermark.value), (*out, watermark))
            case GlobalWatermark():
                return Reply(state)
            case Complete():
                return Reply(replace(state, frames=self.start().frames), self._results(state, self._last_end(state)))
        return by_default(state, stimulus)

    def _row(self, state: FrameStore, edge: int, event: Event) -> Reply[FrameStore]:
        time = time_of(event.values, self.time)
        frame = self.shape.frames.higher(time)
        if late := late_row(self, state, edge, event, frame):
            return Reply(state, drops=(late,))
        group = group_of(event.values, self.group)
        before = state.find(frame, group)
        if before is None:
            require_room(state.accumulators + 1, self.limit, self.deviations)
            before = created(self.aggregates)
        return Reply(state.put(frame, group, accumulated(self.aggregates, before, event.values)))

    def _results(self, state: FrameStore, upto: int) -> tuple[Event, ...]:
        ends = state.ends(self.shape, upto, every=self.deviations.every_boundary)
        return window_rows(state, self.shape, ends, self.combine, self._finished)

    def early_results(self, state: FrameStore) -> tuple[Event, ...]:
        """What the open windows hold now, each row told as early; the state stays. Source: upstream `SlidingWindowP`.

        Shape: as the results, with true in the last column, which `early` gives to the others as false.
        """
        finish = partial(self._finished, early=True)
        return window_rows(state, self.shape, state.ends(self.shape, self._last_end(state)), self.combine, finish)

    def combine(self, one: Values, other: Values) -> Values:
        """The accumulators of two frames together. Source: as the module."""
        return combined(self.aggregates, one, other)

    def _finished(self, accumulators: Values, early: bool = False) -> Values:
        results = finished(self.aggregates, accumulators)
        return (*results, early) if self.early else results

    def _last_end(self, state: FrameStore) -> int:
        return self.shape.last_end(max(state.frames)) if state.frames else MIN

    def size(self, state: FrameStore) -> int:
        """The (frame, group) pairs. Source: as the module."""
        return state.accumulators

    def may_snapshot(self, state: FrameStore) -> bool:  # noqa: ARG002
        """Always. Source: as the module."""
        return True

    def restore(self, snapshots: Sequence[FrameStore]) -> FrameStore:
        """Its own frames, and the lowest next window of all. Source: as the module (restore)."""
        if not snapshots:
            return self.start()
        return restored(snapshots[0], snapshots[1:], self.shape, self.combine)


def late_row(window: Window, state: FrameStore, edge: int, event: Event, frame: int) -> Drop | None:
    """What is dropped if the frame of a row is closed for it, else None. Source: upstream class `SlidingWindowP`."""
    closes = frame if window.partly_late == "drop" else window.shape.last_end(frame)
    if closes >= state.next:
        return None
    limit = state.next - window.shape.slide - (closes - frame)
    return Drop(edge, event, "window", window.key, time_of(event.values, window.time), limit)


def window_rows(
    state: FrameStore,
    shape: WindowShape,
    ends: Iterable[int],
    combine: Combine,
    finish: Callable[[Values], Values],
) -> tuple[Event, ...]:
    """The rows of the windows that end at `ends`: (start, end, group..., results...). Source: as the module."""
    rows = []
    for end in ends:
        for group, accumulators in state.content(shape, end, combine):
            bounds: tuple[Value, ...] = (end - shape.size, end)
            rows.append(Event((*bounds, *group, *finish(accumulators))))
    return tuple(rows)


def require_room(count: int, limit: int | None, deviations: Deviations) -> None:
    """Raises `JobFailedError` if a state may not hold `count` accumulators.

    It may not when the count reaches the limit, or with the option `limit_when_exceeded`, when it is above it.
    Source: upstream class `SlidingWindowP` (maxProcessorAccumulatedRecords).
    """
    if limit is not None and (count > limit if deviations.limit_when_exceeded else count >= limit):
        raise JobFailedError(
            Reason.LIMIT_EXCEEDED,
            f"The window would hold {count} accumulators at a limit of {limit}.",
            remedy="Raise the limit, or let the watermark come sooner so that windows close.",
        )
