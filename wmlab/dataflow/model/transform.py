"""Steps that take rows one by one: map, filter, flat-map and merge; late drop; and the stateful map.

Map, filter, flat-map and merge have no memory. They forward watermarks at once, since what they say of the inputs holds
for the output: rows leave when they come and keep their times. A merge is the identity with several edges; a key that
only some of them carry never gets through while the others are active. So the same field needs the same key on all
inputs, and different fields different keys.

Late drop leaves out rows below the last watermark of one key; a row exactly at it is on time. All watermarks of all
keys are forwarded.

In the stateful map every row changes the state of its group and may give rows; a time to live removes old groups.

    row              late if below the last watermark, but only with a time to live: dropped
    watermark        of its key: groups are removed while the one that was used least recently was last touched before
                     watermark - ttl; then the watermark leaves
                     of another key: passes
    end of inputs    all groups are removed

A group is touched at the highest time of its rows, but used when a row comes. Removal stops at the first group that
stays, so a row of a late time can shield groups behind it.

Source: "Keyed watermark support", Changes to union/merge processor and WM rules; upstream classes `TransformP`,
`LateItemsDropP` (IMPOSE_ORDER in SQL), `TransformStatefulP`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.aggregate import group_of
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.items import MAX, MIN, Event, Watermark
from wmlab.dataflow.model.processor import (
    Complete,
    Drop,
    GlobalWatermark,
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


@dataclass(frozen=True, slots=True)
class Transform(Processor[None]):
    """Every row becomes the rows that `function` makes of it; `name` is for the reader."""

    function: Callable[[Values], Iterable[Values]] = field(repr=False)
    name: str = "flat map"

    @classmethod
    def map(cls, function: Callable[[Values], Values | None]) -> Transform:
        """One row for one row; a None is left out."""

        def apply(values: Values) -> tuple[Values, ...]:
            result = function(values)
            return () if result is None else (result,)

        return cls(apply, "map")

    @classmethod
    def filter(cls, keeps: Callable[[Values], bool]) -> Transform:
        """The rows for which `keeps` is true."""
        return cls(lambda values: (values,) if keeps(values) else (), "filter")

    @classmethod
    def merge(cls) -> Transform:
        """Every row as it is, from any number of inputs."""
        return cls(lambda values: (values,), "merge")

    def start(self) -> None:
        """There is no state."""

    def step(self, state: None, stimulus: Stimulus) -> Reply[None]:
        """Rows are transformed; the rest is as by default."""
        match stimulus:
            case Row(event=event):
                return Reply(state, tuple(Event(values) for values in self.function(event.values)))
        return by_default(state, stimulus)

    def size(self, state: None) -> int:  # noqa: ARG002
        """Nothing is held."""
        return 0

    def restore(self, snapshots: Sequence[None]) -> None:
        """There is nothing to restore."""


@dataclass(frozen=True, slots=True)
class LateDrop(Processor[int]):
    """Drops by the time in column `time`, whose watermarks have `key`. The state is the last one."""

    time: int
    key: int = 0

    def start(self) -> int:
        """No watermark came yet."""
        return MIN

    def step(self, state: int, stimulus: Stimulus) -> Reply[int]:
        """A row passes or is dropped; a watermark passes."""
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
        """No row is held."""
        return 0

    def restore(self, snapshots: Sequence[int]) -> int:
        """The lowest watermark of all instances."""
        return min(snapshots, default=MIN)


Memory = object
"""The state of a group: any immutable value."""
OnRow = Callable[[Memory, Values], tuple[Memory, Iterable[Values]]]
OnEvict = Callable[[Memory, Values, int], Iterable[Values]]


@dataclass(frozen=True, slots=True)
class Remembered:
    """A group, its state, and the highest time of its rows."""

    group: Values
    memory: Memory
    touched: int


@dataclass(frozen=True, slots=True)
class Memories:
    """The groups, least recently used first, and the last watermark."""

    groups: tuple[Remembered, ...] = ()
    watermark: int = MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulMap(Processor[Memories]):
    """`on_row(memory, row)` gives the new memory of the row's group and the rows that leave.

    A group begins with `initial`. `on_evict(memory, group, watermark)` gives the rows that leave when a group is
    removed; the watermark is MAX at the end of inputs. `ttl` has the unit of the times in column `time`, None for no
    limit. Raises `ModelError` for a `ttl` below 1.
    """

    on_row: OnRow = field(repr=False)
    initial: Memory
    time: int
    group: tuple[int, ...] = ()
    ttl: int | None = None
    on_evict: OnEvict | None = field(default=None, repr=False)
    key: int = 0
    deviations: Deviations = DESIGN

    def __post_init__(self) -> None:
        if self.ttl is not None and self.ttl < 1:
            raise ModelError(f"A time to live of {self.ttl} keeps nothing.", remedy="Give at least 1, or None.")

    def start(self) -> Memories:
        """No row and no watermark came."""
        return Memories()

    def step(self, state: Memories, stimulus: Stimulus) -> Reply[Memories]:
        """Raises `JobFailedError` for a key other than 0 with the option `key_zero_only`."""
        match stimulus:
            case Row(edge, event):
                return self._row(state, edge, event)
            case GlobalWatermark(watermark):
                return self._watermark(state, watermark)
            case Complete():
                return Reply(replace(state, groups=()), self._evicted(state.groups, MAX))
        return by_default(state, stimulus)

    def _row(self, state: Memories, edge: int, event: Event) -> Reply[Memories]:
        time = time_of(event.values, self.time)
        if self.ttl is not None and time < state.watermark:
            return Reply(state, drops=(Drop(edge, event, "stateful map", self.key, time, state.watermark),))
        group = group_of(event.values, self.group)
        others = tuple(one for one in state.groups if one.group != group)
        found = next((one for one in state.groups if one.group == group), Remembered(group, self.initial, time))
        memory, rows = self.on_row(found.memory, event.values)
        used = Remembered(group, memory, max(found.touched, time))
        return Reply(replace(state, groups=(*others, used)), tuple(map(Event, rows)))

    def _watermark(self, state: Memories, watermark: Watermark) -> Reply[Memories]:
        if self.deviations.key_zero_only and watermark.key != 0:
            raise JobFailedError(
                Reason.UNSUPPORTED_KEY,
                f"A stateful map got the watermark {watermark.value} of key {watermark.key}.",
                remedy="Give its input key 0, or turn the option key_zero_only off.",
            )
        if watermark.key != self.key:
            return Reply(state, (watermark,))
        stays = self._first_to_stay(state.groups, watermark.value)
        out = self._evicted(state.groups[:stays], watermark.value)
        return Reply(Memories(state.groups[stays:], watermark.value), (*out, watermark))

    def _first_to_stay(self, groups: tuple[Remembered, ...], watermark: int) -> int:
        if self.ttl is None:
            return 0
        oldest = watermark - self.ttl
        return next((number for number, one in enumerate(groups) if one.touched >= oldest), len(groups))

    def _evicted(self, groups: tuple[Remembered, ...], watermark: int) -> tuple[Event, ...]:
        if self.on_evict is None:
            return ()
        return tuple(Event(row) for one in groups for row in self.on_evict(one.memory, one.group, watermark))

    def size(self, state: Memories) -> int:
        """The groups."""
        return len(state.groups)

    def restore(self, snapshots: Sequence[Memories]) -> Memories:
        """Its own groups, and the lowest watermark of all instances."""
        if not snapshots:
            return self.start()
        return Memories(snapshots[0].groups, min(snapshot.watermark for snapshot in snapshots))
