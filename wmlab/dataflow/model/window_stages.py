"""A window aggregation in two stages: frames where the rows are, windows where their groups meet.

The first stage aggregates into frames and sends each one on when a watermark has passed it: less travels than rows.
The second combines frames into windows. Between them go rows (frame end, group..., accumulators...). A partial result
belongs to the frame that ends at or after its own end, so stages of different slides still work together. The results
are those of one stage.

Source: "Keyed watermark support", Changes to window aggregation processors; upstream classes `Processors`
(accumulateByFrameP, combineToSlidingWindowP) and `SlidingWindowP`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wmlab.dataflow.model.aggregate import Aggregate, combined, finished, group_order
from wmlab.dataflow.model.defaults import Values, by_default, time_of
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.frame_store import FrameStore, WindowShape, restored
from wmlab.dataflow.model.items import IDLE, Event
from wmlab.dataflow.model.processor import Complete, Drop, GlobalWatermark, InputIdle, Reply, Row, Stimulus
from wmlab.dataflow.model.window import Window, require_room, window_rows


@dataclass(frozen=True, slots=True)
class FrameStage:
    """The first stage: sends a frame on once the watermark of the key of `window` has passed it. Source: as above."""

    window: Window
    _frames: Window = field(init=False, repr=False)

    def __post_init__(self) -> None:
        slide = self.window.shape.slide
        frames = replace(self.window, shape=WindowShape(slide, slide), early=False, partly_late="drop")
        object.__setattr__(self, "_frames", frames)

    def start(self) -> FrameStore:
        """No row and no watermark came. Source: as the module."""
        return FrameStore()

    def step(self, state: FrameStore, stimulus: Stimulus) -> Reply[FrameStore]:
        """Rows are taken as a tumbling window takes them; frames leave unfinished. Source: as the module."""
        match stimulus:
            case GlobalWatermark(watermark) if watermark.key == self.window.key:
                out = self._partial(state, watermark.value)
                return Reply(state.closed(self._frames.shape, watermark.value), (*out, watermark))
            case InputIdle() if not self._frames.deviations.idle_overtakes:
                # What is held would come behind watermarks of those that go on, and be late there.
                flushed = self.flush(state)
                return Reply(flushed.state, (*flushed.out, IDLE))
            case Complete():
                return self.flush(state)
        return self._frames.step(state, stimulus)

    def flush(self, state: FrameStore) -> Reply[FrameStore]:
        """Sends on all frames, also open ones, as it does before a snapshot. Source: upstream class `SlidingWindowP`.

        Rows that come later for a frame that was sent make another partial result of it.
        """
        out = self._partial(state, max(state.frames)) if state.frames else ()
        return Reply(replace(state, frames=self.start().frames), out)

    def _partial(self, state: FrameStore, upto: int) -> tuple[Event, ...]:
        return tuple(
            Event((frame, *group, *accumulators))
            for frame, groups in sorted(state.frames.items())
            for group, accumulators in sorted(groups.items(), key=lambda entry: group_order(entry[0]))
            if frame <= upto
        )

    def size(self, state: FrameStore) -> int:
        """The (frame, group) pairs. Source: as the module."""
        return state.accumulators

    def may_snapshot(self, state: FrameStore) -> bool:  # noqa: ARG002
        """Always; what was not flushed before is part of the snapshot. Source: as the module."""
        return True

    def restore(self, snapshots: Sequence[FrameStore]) -> FrameStore:
        """As a tumbling window. Source: as the module."""
        return self._frames.restore(snapshots)


@dataclass(frozen=True, slots=True, kw_only=True)
class CombineStage:
    """The second stage: `groups` is the number of group columns between the frame end and the accumulators.

    Source: as the module.
    """

    shape: WindowShape
    aggregates: tuple[Aggregate, ...]
    groups: int = 0
    key: int = 0
    limit: int | None = None
    deviations: Deviations = DESIGN

    def start(self) -> FrameStore:
        """No partial result and no watermark came. Source: as the module."""
        return FrameStore()

    def step(self, state: FrameStore, stimulus: Stimulus) -> Reply[FrameStore]:
        """Raises `JobFailedError` at the state limit, `ModelError` for a row without a frame. Source: as the module."""
        match stimulus:
            case Row(edge, event):
                return self._partial(state, edge, event)
            case GlobalWatermark(watermark) if watermark.key == self.key:
                out = self._results(state, watermark.value)
                return Reply(state.closed(self.shape, watermark.value), (*out, watermark))
            case GlobalWatermark():
                return Reply(state)
            case Complete() if state.frames:
                out = self._results(state, self.shape.last_end(max(state.frames)))
                return Reply(replace(state, frames=self.start().frames), out)
        return by_default(state, stimulus)

    def _partial(self, state: FrameStore, edge: int, event: Event) -> Reply[FrameStore]:
        sent = time_of(event.values, 0)
        frame = self.shape.frames.higher(sent - 1)
        if frame < state.next:
            drop = Drop(edge, event, "window", self.key, sent, state.next - self.shape.slide + 1)
            return Reply(state, drops=(drop,))
        group, accumulators = event.values[1 : 1 + self.groups], event.values[1 + self.groups :]
        before = state.find(frame, group)
        if before is None:
            require_room(state.accumulators + 1, self.limit, self.deviations)
        return Reply(state.put(frame, group, accumulators if before is None else self.combine(before, accumulators)))

    def _results(self, state: FrameStore, upto: int) -> tuple[Event, ...]:
        ends = state.ends(self.shape, upto, every=self.deviations.every_boundary)
        return window_rows(state, self.shape, ends, self.combine, self._finished)

    def combine(self, one: Values, other: Values) -> Values:
        """The accumulators of two partial results together. Source: as the module."""
        return combined(self.aggregates, one, other)

    def _finished(self, accumulators: Values) -> Values:
        return finished(self.aggregates, accumulators)

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


def in_two_stages(window: Window) -> tuple[FrameStage, CombineStage]:
    """The two stages that give the results of `window`, without early ones. Source: as the module."""
    second = CombineStage(
        shape=window.shape,
        aggregates=window.aggregates,
        groups=len(window.group),
        key=window.key,
        limit=window.limit,
        deviations=window.deviations,
    )
    return FrameStage(window), second
