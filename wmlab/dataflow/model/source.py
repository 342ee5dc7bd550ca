"""The watermarks of a source instance: a policy per partition, coalesced over those that are not idle; and throttling.

A policy is a fixed lag behind the highest time seen, a lag behind the clock, or a function of a user's own; its
state is a value. What it says may go back; the watermark of the source never does.

A row moves the watermark before it leaves, and no further than to its own time, so that it cannot make itself late.
What a policy says beyond that leaves at the next idle poll: one without a row.

A partition is idle when no row of it came for the idle timeout. When all are idle, or there is none, the highest
watermark seen is sent and then one idle message, again only after a row. Late rows pass: what drops them is a step of
its own.

The watermarks are throttled to a frame that depends on what is downstream. Finer ones than the windows need cost
without effect, coarser ones delay results. A join closes at no regular rhythm, so a tenth of its spread serves instead.

Source: "Keyed watermark support", WM generation and Handling of keyed idle messages; "Stream-to-stream join", watermark
throttling; upstream classes `WatermarkPolicy`, `EventTimeMapper`, `InsertWatermarksP` (idle polls),
`WatermarkThrottlingFrameSizeCalculator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Any, ClassVar, Final

from wmlab.dataflow.model.items import IDLE_MESSAGE, MAX, MIN, FrameGrid, Idle, Watermark
from wmlab.dataflow.model.processor import SOUND, Deviations


@dataclass(frozen=True, slots=True)
class LagPolicy:
    """A rule for the watermark of one partition, whose state is mostly a time, None at first; here others set it.

    `lag`, in the unit of the times and at least 0, is what the watermark is behind.
    """

    by_clock: ClassVar[bool] = False
    """Whether the watermark moves without events."""

    lag: int = 0

    def report(self, state: Any, time: int) -> Any:  # noqa: ARG002
        """The state after an event of this time."""
        return state

    def current(self, state: Any, now_ms: int) -> int | None:  # noqa: ARG002
        """The watermark at clock time `now_ms`; None: none yet."""
        mark: int | None = state
        return mark


class FixedLag(LagPolicy):
    """The highest time seen minus `lag`. Source: upstream `limitingLag`.

    A time so low that subtracting the lag would leave the 64 bits is not counted.
    """

    __slots__ = ()

    def report(self, state: int | None, time: int) -> int | None:
        """The watermark after an event of this time."""
        if time <= MIN + self.lag:
            return state
        mark = time - self.lag
        return mark if state is None or mark > state else state


@dataclass(frozen=True, slots=True)
class OwnLag(LagPolicy):
    """A rule of your own: `function(memory, time)` gives the next memory (None at first) and the watermark, or None.

    `lag` is taken off the watermark. The state is the pair of both. Source: upstream class `WatermarkPolicy`.
    """

    function: Callable[[Any, int], tuple[Any, int | None]] = field(kw_only=True)

    def report(self, state: Any, time: int) -> Any:
        """What the function says of an event of this time."""
        memory, mark = self.function(None if state is None else state[0], time)
        return memory, None if mark is None else mark - self.lag

    def current(self, state: Any, now_ms: int) -> int | None:  # noqa: ARG002
        """The last watermark that it gave."""
        return None if state is None else state[1]


class RealTimeLag(LagPolicy):
    """The clock minus `lag`; events do not matter, their times being clock times, in ms.

    Source: upstream `limitingRealTimeLag`.
    """

    __slots__ = ()
    by_clock: ClassVar[bool] = True

    def current(self, state: int | None, now_ms: int) -> int | None:  # noqa: ARG002
        """The clock time minus the lag."""
        return now_ms - self.lag


IDLE_TIMEOUT_MS: Final = 60_000
"""After how long without rows a partition is idle: by default in the Core API, always in the Pipeline API.

Source: "Keyed watermark support", Handling of keyed idle messages; upstream class `EventTimePolicy`.
"""
SQL_MAX_FRAME_MS: Final = 100


def sql_frame_ms(slides_ms: Iterable[int] = (), spreads_ms: Iterable[int] = ()) -> int:
    """The frame for a query with windows of these slides and stream-to-stream joins of these minimum spreads.

    Source: upstream class `WatermarkThrottlingFrameSizeCalculator`.
    """
    most = min([SQL_MAX_FRAME_MS, *(max(spread // 10, 1) for spread in spreads_ms)])
    return min(gcd(*slides_ms) or most, most)


EVERY_TIME = FrameGrid(1)
SourceItems = tuple[Watermark | Idle, ...]
"""What leaves a source besides its rows."""


@dataclass(slots=True)
class SourcePartition:
    """One partition: the state of its policy, its watermark (`MIN`: none yet), and when it is idle (None: never)."""

    policy: Any
    mark: int
    deadline_ms: int | None

    def idle(self, now_ms: int) -> bool:
        """Whether it is idle at this clock time; at the deadline it is."""
        return self.deadline_ms is not None and self.deadline_ms <= now_ms


@dataclass(slots=True)
class SourceState:
    """A source between two rows: `last` is the watermark sent, `top` the highest of any partition, `MIN` at first.

    `announced`: the idle message was sent since the last row.
    """

    partitions: list[SourcePartition] = field(default_factory=list)
    last: int = MIN
    top: int = MIN
    announced: bool = False

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """The clock time after `now_ms` at which the next partition turns idle if nothing comes; None: never."""
        deadlines = [p.deadline_ms for p in self.partitions if p.deadline_ms is not None and p.deadline_ms > now_ms]
        return min(deadlines) if deadlines else None

    def marks(self) -> list[int | None]:
        """The watermark of each partition, None: none yet; what a snapshot stores."""
        return [None if p.mark == MIN else p.mark for p in self.partitions]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeMapper:
    """The rules of one source instance, for a state that changes in place; what leaves besides rows is returned.

    `key` is that of its watermarks. `frames` are the times a watermark may have (None: no watermark is sent at all).
    `idle_timeout_ms` is clock time, by default that of upstream's pipelines (None: a partition is never idle).
    """

    policy: LagPolicy
    key: int = 0
    frames: FrameGrid | None = EVERY_TIME
    idle_timeout_ms: int | None = IDLE_TIMEOUT_MS
    deviations: Deviations = SOUND

    def start(self, partitions: int = 0, *, now_ms: int = 0) -> SourceState:
        """A source of so many partitions that have brought nothing."""
        state = SourceState()
        self.add(state, partitions, now_ms=now_ms)
        return state

    def add(self, state: SourceState, partitions: int = 1, *, now_ms: int) -> None:
        """New partitions, which hold the watermark until they have data or turn idle."""
        state.partitions += [SourcePartition(None, MIN, self.deadline_ms(now_ms)) for _ in range(partitions)]

    def remove(self, state: SourceState, partition: int, *, now_ms: int) -> SourceItems:
        """Without one partition; those behind it move down by one. What it held back is released."""
        del state.partitions[partition]
        return self.tick(state, now_ms=now_ms)

    def report(
        self, state: SourceState, *, partition: int, time: int, now_ms: int, rejected: bool = False
    ) -> SourceItems:
        """What leaves before a row of this event time.

        `rejected`: a filter within the source swallows it; it counts as any other, unless `rejected_rows_silent`.
        """
        if rejected and self.deviations.rejected_rows_silent:
            return ()
        about = state.partitions[partition]
        about.policy = self.policy.report(about.policy, time)
        about.deadline_ms = self.deadline_ms(now_ms)
        state.announced = False
        return self.tick(state, now_ms=now_ms, cap=time)

    def restore(self, state: SourceState, marks: Mapping[int, int | None]) -> None:
        """The watermarks that a snapshot stored for some of the partitions hold.

        The first watermark sent is above the lowest one of all partitions.
        """
        for number, mark in marks.items():
            if mark is not None:
                state.partitions[number].mark = mark
        state.last = min((partition.mark for partition in state.partitions), default=MIN)

    def deadline_ms(self, now_ms: int) -> int | None:
        """When a partition that had a row, or began, at `now_ms` is idle if nothing comes; None: never."""
        return None if self.idle_timeout_ms is None else now_ms + self.idle_timeout_ms

    def has_more_to_say(self, state: SourceState, *, now_ms: int) -> bool:
        """Whether an idle poll would raise a partition: its policy is further than the last row let it go."""
        for partition in state.partitions:
            if partition.deadline_ms is None or partition.deadline_ms > now_ms:
                current = self.policy.current(partition.policy, now_ms)
                if current is not None and current > partition.mark:
                    return True
        return False

    def tick(self, state: SourceState, *, now_ms: int, cap: int = MAX) -> SourceItems:
        """Ask the policies of all partitions that are not idle at this clock time; without `cap` it is an idle poll.

        `cap` is as far as a watermark may get by it: the time of the row that came, if one did.
        """
        lowest, highest, policy = None, state.top, self.policy
        for partition in state.partitions:
            if partition.deadline_ms is not None and partition.deadline_ms <= now_ms:
                continue
            mark = policy.current(partition.policy, now_ms)
            if mark is not None and mark > partition.mark and cap > partition.mark:
                partition.mark = mark if mark < cap else cap
            if lowest is None or partition.mark < lowest:
                lowest = partition.mark
            if partition.mark > highest:
                highest = partition.mark
        if lowest is None and state.announced:
            return ()
        state.top = highest
        # On the grid, above the last one, and not beyond what a watermark can carry.
        due = lowest if self.deviations.highest_held_back or lowest is not None else highest
        mark = MIN if self.frames is None or due is None else self.frames.floor(due)
        items: SourceItems = ()
        if state.last < mark < MAX:
            state.last = mark
            items = (Watermark(self.key, mark),)
        if lowest is None:
            state.announced = True
            return (*items, IDLE_MESSAGE)
        return items
