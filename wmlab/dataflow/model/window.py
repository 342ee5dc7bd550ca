"""Tumbling and sliding windows, aggregated by group and driven by the watermarks of one key, in one stage or in two.

    row              late if its frame ends before the next window does: dropped, also from windows still open
    watermark        of its key: results of all windows that end at or before it, then the watermark itself
                     of another key: nothing, since the output has no column for it
    end of inputs    results of all windows that hold anything, without a watermark

A row below the watermark is accepted while its frame is open. A result is the row (start, end, group, aggregates...);
windows without rows give none. The watermark on the output is that on the window end.

With two stages, the first aggregates into frames and sends each one on when a watermark has passed it: less travels
than rows. The second combines frames into windows. Between them go rows (frame end, group..., accumulators...). A
partial result belongs to the frame that ends at or after its own end, so stages of different slides still work
together. The results are those of one stage.

Source: "Keyed watermark support", Changes to window aggregation processors; upstream classes `SlidingWindowP` and
`Processors` (accumulateByFrameP, combineToSlidingWindowP).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wmlab.dataflow.model.aggregate import (
    Aggregate,
    accumulated,
    combined,
    created,
    finished,
    group_of,
    group_order,
)
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.frames import FrameStore, WindowShape, restored
from wmlab.dataflow.model.items import IDLE, Event
from wmlab.dataflow.model.processor import (
    Complete,
    Drop,
    GlobalWatermark,
    InputIdle,
    JobFailedError,
    Processor,
    Reason,
    Reply,
    Row,
    Stimulus,
    Values,
    by_default,
    time_of,
)

PartlyLate = Literal["drop", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windowing(Processor[FrameStore]):
    """What a window and its stages share: rows go into frames, watermarks of `key` close windows.

    `limit` is the state limit in (frame, group) pairs, None for none.
    """

    shape: WindowShape
    aggregates: tuple[Aggregate, ...]
    key: int = 0
    limit: int | None = None
    deviations: Deviations = DESIGN

    def start(self) -> FrameStore:
        """No row and no watermark came."""
        return FrameStore()

    def step(self, state: FrameStore, stimulus: Stimulus) -> Reply[FrameStore]:
        """Raises `JobFailedError` at the state limit, `ModelError` for a row without a time."""
        match stimulus:
            case Row(edge, event):
                return self._row(state, edge, event)
            case GlobalWatermark(watermark) if watermark.key == self.key:
                out = self._results(state, watermark.value)
                return Reply(state.closed(self.shape, watermark.value), (*out, watermark))
            case GlobalWatermark():
                return Reply(state)
            case Complete() if state.frames:
                out = self._results(state, self.shape.last_end(max(state.frames)))
                return Reply(replace(state, frames=self.start().frames), out)
        return by_default(state, stimulus)

    def _row(self, state: FrameStore, edge: int, event: Event) -> Reply[FrameStore]:
        raise NotImplementedError

    def _results(self, state: FrameStore, upto: int) -> tuple[Event, ...]:
        """The rows of the windows that end up to a time: (start, end, group..., results...)."""
        return tuple(
            Event((end - self.shape.size, end, *group, *finished(self.aggregates, accumulators)))
            for end in state.ends(self.shape, upto, every=self.deviations.every_boundary)
            for group, accumulators in state.content(self.shape, end, self.combine)
        )

    def combine(self, one: Values, other: Values) -> Values:
        """The accumulators of two frames together."""
        return combined(self.aggregates, one, other)

    def _require_room(self, state: FrameStore) -> None:
        """Refuse one more pair: when the count reaches the limit, or with `limit_when_exceeded`, when it is above it.

        Source: upstream class `SlidingWindowP` (maxProcessorAccumulatedRecords).
        """
        count = state.accumulators + 1
        if self.limit is not None and count >= self.limit + self.deviations.limit_when_exceeded:
            raise JobFailedError(
                Reason.LIMIT_EXCEEDED,
                f"The window would hold {count} accumulators at a limit of {self.limit}.",
                remedy="Raise the limit, or let the watermark come sooner so that windows close.",
            )

    def closed_by(self, end: int) -> int:
        """The lowest watermark that closes the window that ends at `end`. Source: as the module."""
        return end

    def size(self, state: FrameStore) -> int:
        """The (frame, group) pairs."""
        return state.accumulators

    def restore(self, snapshots: Sequence[FrameStore]) -> FrameStore:
        """Its own frames, and the lowest next window of all."""
        if not snapshots:
            return self.start()
        return restored(snapshots[0], snapshots[1:], self.shape, self.combine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(_Windowing):
    """Windows over the time in column `time`; `group` are the columns of the grouping key, none for one group.

    `partly_late="count"` takes a row into the windows that are still open when the first of its windows has closed.
    """

    time: int
    group: tuple[int, ...] = ()
    partly_late: PartlyLate = "drop"

    def _row(self, state: FrameStore, edge: int, event: Event) -> Reply[FrameStore]:
        time = time_of(event.values, self.time)
        frame = self.shape.frames.higher(time)
        closes = frame if self.partly_late == "drop" else self.shape.last_end(frame)
        if closes < state.next:
            limit = state.next - self.shape.slide - (closes - frame)
            return Reply(state, drops=(Drop(edge, event, "window", self.key, time, limit),))
        group = group_of(event.values, self.group)
        before = state.find(frame, group)
        if before is None:
            self._require_room(state)
            before = created(self.aggregates)
        return Reply(state.put(frame, group, accumulated(self.aggregates, before, event.values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameStage(Window):
    """The first stage: a tumbling window of one frame whose accumulators leave unfinished."""

    def step(self, state: FrameStore, stimulus: Stimulus) -> Reply[FrameStore]:
        """As a window; while all inputs are idle nothing is held back."""
        match stimulus:
            case InputIdle() if not self.deviations.idle_overtakes:
                # What is held would come behind watermarks of those that go on, and be late there.
                flushed = self.flush(state)
                return Reply(flushed.state, (*flushed.out, IDLE))
        return Window.step(self, state, stimulus)

    def flush(self, state: FrameStore) -> Reply[FrameStore]:
        """Sends on all frames, also open ones, as it does before a snapshot. Source: upstream class `SlidingWindowP`.

        Rows that come later for a frame that was sent make another partial result of it.
        """
        out = self._results(state, max(state.frames)) if state.frames else ()
        return Reply(replace(state, frames=self.start().frames), out)

    def _results(self, state: FrameStore, upto: int) -> tuple[Event, ...]:
        """The rows (frame end, group..., accumulators...)."""
        return tuple(
            Event((frame, *group, *accumulators))
            for frame, groups in sorted(state.frames.items())
            for group, accumulators in sorted(groups.items(), key=lambda entry: group_order(entry[0]))
            if frame <= upto
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CombineStage(_Windowing):
    """The second stage: `groups` is the number of group columns between the frame end and the accumulators."""

    groups: int = 0

    def _row(self, state: FrameStore, edge: int, event: Event) -> Reply[FrameStore]:
        sent = time_of(event.values, 0)
        frame = self.shape.frames.higher(sent - 1)
        if frame < state.next:
            drop = Drop(edge, event, "window", self.key, sent, state.next - self.shape.slide + 1)
            return Reply(state, drops=(drop,))
        group, accumulators = event.values[1 : 1 + self.groups], event.values[1 + self.groups :]
        before = state.find(frame, group)
        if before is None:
            self._require_room(state)
        return Reply(state.put(frame, group, accumulators if before is None else self.combine(before, accumulators)))


def in_two_stages(window: Window) -> tuple[FrameStage, CombineStage]:
    """The two stages that give the results of `window`."""
    first = FrameStage(
        shape=WindowShape(window.shape.slide, window.shape.slide),
        aggregates=window.aggregates,
        key=window.key,
        limit=window.limit,
        deviations=window.deviations,
        time=window.time,
        group=window.group,
    )
    second = CombineStage(
        shape=window.shape,
        aggregates=window.aggregates,
        key=window.key,
        limit=window.limit,
        deviations=window.deviations,
        groups=len(window.group),
    )
    return first, second
