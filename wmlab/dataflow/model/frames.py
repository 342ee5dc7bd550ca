"""The grid of frames: times every `size` units, and what a window aggregation holds for each of them.

Window ends lie on such a grid, and a source that is throttled sends only watermarks of it. A frame is one slide of
time, named by its exclusive end; the frame of a time is the lowest boundary above it. A window of n frames is named by
its end too, which is that of its last frame. `next` is the first end that has not been emitted, the lowest boundary
above the last watermark; MIN before the first one.

    watermark w     every window that ends from `next` to w and holds anything is emitted, in order; a frame goes with
                    the last window that it belongs to; `next` is the lowest boundary above w
    first of all    the ends begin at the lowest frame
    lower w         nothing is emitted and `next` goes back: after a restart windows open again

Source: "Keyed watermark support", Changes to window aggregation processors; upstream classes `SlidingWindowPolicy`,
`SlidingWindowP`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.aggregate import Accumulators, group_order
from wmlab.dataflow.model.items import MAX, MIN, FrozenMap
from wmlab.dataflow.model.processor import Values


@dataclass(frozen=True, slots=True)
class Frames:
    """The times `offset + n * size` for every whole n, in the unit of the times. Exact for negative times.

    Raises `ModelError` for a size below 1 and for an offset outside [0, size).
    """

    size: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ModelError(f"frame size {self.size} is not positive", remedy="Use a frame size of at least 1.")
        if not 0 <= self.offset < self.size:
            raise ModelError(
                f"frame offset {self.offset} is not within a frame of {self.size}",
                remedy="Use an offset from 0 up to the frame size, exclusive.",
            )

    def floor(self, time: int) -> int:
        """The highest time of the grid that is not above `time`; `MIN` if that is below the lowest time."""
        return max(MIN, time - (time - self.offset) % self.size)

    def higher(self, time: int) -> int:
        """The lowest time of the grid above `time`; `MAX` if that is beyond the highest time."""
        return min(MAX, time - (time - self.offset) % self.size + self.size)


Groups = FrozenMap[Values, Accumulators]
Combine = Callable[[Accumulators, Accumulators], Accumulators]


@dataclass(frozen=True, slots=True)
class WindowShape:
    """Windows of `size`, one every `slide`, in the unit of the event times; tumbling if both are equal.

    Raises `ModelError` unless the slide is at least 1 and the size a multiple of it. Source: upstream
    `SlidingWindowPolicy`.
    """

    size: int
    slide: int

    def __post_init__(self) -> None:
        if self.slide < 1 or self.size < self.slide or self.size % self.slide:
            raise ModelError(
                f"No window has size {self.size} and slide {self.slide}.",
                remedy="Give a slide of at least 1 and a size that is a multiple of it.",
            )

    @property
    def frames(self) -> Frames:
        """The grid of frames."""
        return Frames(self.slide)

    def oldest_frame(self, end: int) -> int:
        """The first frame of the window that ends at `end`."""
        return end - self.size + self.slide

    def last_end(self, frame: int) -> int:
        """The end of the last window that a frame belongs to."""
        return frame + self.size - self.slide

    def windows_of(self, time: int) -> tuple[tuple[int, int], ...]:
        """The [start, end) of every window that holds a time, ascending. Source: upstream class `WindowUtils`."""
        frame = self.frames.higher(time)
        return tuple((end - self.size, end) for end in range(frame, self.last_end(frame) + 1, self.slide))


@dataclass(frozen=True, slots=True)
class FrameStore:
    """Accumulators by frame and group, and the end of the next window."""

    frames: FrozenMap[int, Groups] = field(default_factory=FrozenMap)
    next: int = MIN

    @property
    def accumulators(self) -> int:
        """How many (frame, group) pairs are held."""
        return sum(map(len, self.frames.values()))

    def find(self, frame: int, group: Values) -> Accumulators | None:
        """The accumulators of a group in a frame; None if it has none."""
        groups = self.frames.get(frame)
        return None if groups is None else groups.get(group)

    def put(self, frame: int, group: Values, accumulators: Accumulators) -> FrameStore:
        """With new accumulators for a group in a frame."""
        groups: Groups = self.frames.get(frame, FrozenMap())
        return replace(self, frames=self.frames.put(frame, groups.put(group, accumulators)))

    def content(self, shape: WindowShape, end: int, combine: Combine) -> list[tuple[Values, Accumulators]]:
        """What the window that ends at `end` holds, by group in a fixed order."""
        found: dict[Values, Accumulators] = {}
        for frame in range(shape.oldest_frame(end), end + 1, shape.slide):
            for group, accumulators in self.frames.get(frame, {}).items():
                found[group] = combine(found[group], accumulators) if group in found else accumulators
        return sorted(found.items(), key=lambda entry: group_order(entry[0]))

    def ends(self, shape: WindowShape, upto: int, *, every: bool = False) -> Iterator[int]:
        """The ends of the windows that a watermark at `upto` closes, ascending; empty windows only with `every`.

        Without `every` a gap is crossed in one step, to the first window that holds the next occupied frame.
        """
        waiting = sorted(self.frames, reverse=True)
        if not waiting:
            return
        end = self.next if self.next != MIN else waiting[-1]
        while waiting or every:
            while waiting and shape.last_end(waiting[-1]) < end:
                waiting.pop()
            if waiting and not every:
                end = max(end, waiting[-1])
            if end > upto or not (waiting or every):
                return
            yield end
            end += shape.slide

    def closed(self, shape: WindowShape, watermark: int) -> FrameStore:
        """After all windows that end up to `watermark` were emitted."""
        kept = {frame: groups for frame, groups in self.frames.items() if shape.last_end(frame) > watermark}
        return FrameStore(FrozenMap(kept), shape.frames.higher(watermark))


def restored(own: FrameStore, others: Iterable[FrameStore], shape: WindowShape, combine: Combine) -> FrameStore:
    """The store of an instance after a restart, perhaps with another window.

    `next` is the lowest of all instances, moved up to a boundary; frames off the grid are moved up to it and merged;
    those that no window still to come holds are left out. Source: upstream class `SlidingWindowP` (restore).
    """
    start = min((store.next for store in (own, *others)), default=MIN)
    start = start if start == MIN else ceiling(shape, start)
    store = FrameStore(next=start)
    for frame, groups in sorted(own.frames.items()):
        moved = ceiling(shape, frame)
        if shape.last_end(moved) < start:
            continue
        for group, accumulators in groups.items():
            there = store.find(moved, group)
            store = store.put(moved, group, accumulators if there is None else combine(there, accumulators))
    return store


def ceiling(shape: WindowShape, time: int) -> int:
    """The lowest boundary at or above a time. Source: upstream class `SlidingWindowPolicy`."""
    return time if shape.frames.floor(time) == time else shape.frames.higher(time)
