"""The stateful map: every row changes the state of its group and may give rows; a time to live removes old groups.

    row              late if below the last watermark, but only with a time to live: dropped
    watermark        of its key: groups are removed while the one that was used least recently was last touched before
                     watermark - ttl; then the watermark leaves
                     of another key: passes
    end of inputs    all groups are removed

A group is touched at the highest time of its rows, but used when a row comes. Removal stops at the first group that
stays, so a row of a late time can shield groups behind it.

Source: "Keyed watermark support", WM rules; upstream class `TransformStatefulP`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.aggregate import group_of
from wmlab.dataflow.model.defaults import Values, by_default, time_of
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.items import MAX, MIN, Event, Watermark
from wmlab.dataflow.model.processor import Complete, Drop, GlobalWatermark, JobFailedError, Reason, Reply, Row, Stimulus

Memory = object
"""The state of a group: any immutable value."""
OnRow = Callable[[Memory, Values], tuple[Memory, Iterable[Values]]]
OnEvict = Callable[[Memory, Values, int], Iterable[Values]]


@dataclass(frozen=True, slots=True)
class Remembered:
    """A group, its state, and the highest time of its rows. Source: as the module."""

    group: Values
    memory: Memory
    touched: int


@dataclass(frozen=True, slots=True)
class Memories:
    """The groups, least recently used first, and the last watermark. Source: as the module."""

    groups: tuple[Remembered, ...] = ()
    watermark: int = MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulMap:
    """`on_row(memory, row)` gives the new memory of the row's group and the rows that leave.

    A group begins with `initial`. `on_evict(memory, group, watermark)` gives the rows that leave when a group is
    removed; the watermark is MAX at the end of inputs. `ttl` has the unit of the times in column `time`, None for no
    limit. Raises `ModelError` for a `ttl` below 1. Source: as the module.
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
        """No row and no watermark came. Source: as the module."""
        return Memories()

    def step(self, state: Memories, stimulus: Stimulus) -> Reply[Memories]:
        """Raises `JobFailedError` for a key other than 0 with the option `key_zero_only`. Source: as the module."""
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
        """The groups. Source: as the module."""
        return len(state.groups)

    def may_snapshot(self, state: Memories) -> bool:  # noqa: ARG002
        """Always. Source: as the module."""
        return True

    def restore(self, snapshots: Sequence[Memories]) -> Memories:
        """Its own groups, and the lowest watermark of all instances. Source: as the module (restore)."""
        if not snapshots:
            return self.start()
        return Memories(snapshots[0].groups, min(snapshot.watermark for snapshot in snapshots))
