"""Steps that take rows one by one: map, filter, flat-map and merge; late drop; the stateful map; one's own processor.

Map, filter, flat-map and merge have no memory and forward watermarks at once. A merge is the identity with several
edges; a key that only some of them carry never gets through while the others are active.

Late drop leaves out rows below the last watermark of one key; a row exactly at it is on time. All watermarks of all
keys are forwarded. One that ignores keys, as all processors did before there were any, takes every watermark for its
own, so that it sees values go back.

One's own processor gets every row and every watermark, and may generate, drop and delay watermarks. The watermarks are
coalesced over all inputs, or those of each input by itself.

In the stateful map every row changes the state of its group and may give rows; a time to live removes old groups.

    row              late if below the last watermark, but only with a time to live: dropped
    watermark        of its key: groups are removed while the one that was used least recently was last touched before
                     watermark - ttl; then the watermark leaves
                     of another key: passes
    end of inputs    all groups are removed

A group is touched at the highest time of its rows, but used when a row comes. Removal stops at the first group that
stays, so a row of a late time can shield groups behind it.

Source: "Keyed watermark support", Processor API, Changes to union/merge processor and WM rules; upstream classes
`Processor`, `TransformP`,
`LateItemsDropP` (IMPOSE_ORDER in SQL), `TransformStatefulP`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import ClassVar

from wmlab.dataflow.model.aggregate import group_of
from wmlab.dataflow.model.items import MAX, MIN, Event, Idle, RowValues, Watermark, row_time
from wmlab.dataflow.model.processor import DESIGN, Deviations, Drop, JobFailedError, Processor, Reason, Reply


@dataclass(frozen=True, slots=True)
class Transform(Processor[None]):
    """Every row, from any number of inputs, becomes the rows that `function` makes of it."""

    function: Callable[[RowValues], Iterable[RowValues]] = field(repr=False)

    def row(self, state: None, edge: int, event: Event) -> Reply[None]:  # noqa: ARG002
        """The rows that the function makes of it."""
        return Reply(state, tuple(map(Event, self.function(event.values))))


@dataclass(frozen=True, slots=True)
class LateDropProcessor(Processor[int]):
    """Drops by the time in column `time`, whose watermarks have `key`. The state is the last one."""

    empty: ClassVar[int] = MIN

    time: int
    key: int = 0
    ignores_key: bool = False

    def watermark(self, state: int, watermark: Watermark) -> Reply[int]:
        """It passes."""
        if self.ignores_key:
            watermark = Watermark(self.key, watermark.value)
        return Reply(watermark.value if watermark.key == self.key else state, (watermark,))

    def row(self, state: int, edge: int, event: Event) -> Reply[int]:
        """It passes or is dropped."""
        time = row_time(event.values, self.time)
        if time < state:
            return Reply(state, drops=(Drop(edge, event, "late drop", self.key, time, state),))
        return Reply(state, (event,))

    def restore(self, snapshots: Sequence[int]) -> int:
        """The lowest watermark of all instances."""
        return min(snapshots)


OwnAnswer = tuple[object, Iterable[Event | Watermark | Idle]]
OwnFunction = Callable[[object, Event | Watermark, int | None], OwnAnswer]
OwnEnd = Callable[[object, int | None], OwnAnswer]


@dataclass(frozen=True, slots=True)
class CustomProcessor(Processor[object]):
    """`function(state, item, edge)` gives the next state, which begins with `initial`, and what leaves.

    It must be pure. It gets every row with its input edge. `by_input` says which watermarks it gets: those of each
    edge, with that edge, or those over all edges, with None. Idle messages pass, when all inputs are idle.
    `at_edge_end(state, edge)` and `at_end(state, None)`, where they are given, say what leaves when an input has ended,
    and when all have.
    Source: "Keyed watermark support", WM generation and Processor API (both `tryProcessWatermark`); upstream class
    `Processor` (`complete`, `completeEdge`).
    """

    function: OwnFunction = field(repr=False)
    initial: object = None
    by_input: bool = False
    at_end: OwnEnd | None = field(default=None, repr=False)
    at_edge_end: OwnEnd | None = field(default=None, repr=False)

    def start(self) -> object:
        """The initial state."""
        return self.initial

    def row(self, state: object, edge: int, event: Event) -> Reply[object]:
        """What the function says."""
        return self._called(state, event, edge)

    def edge_watermark(self, state: object, edge: int, watermark: Watermark) -> Reply[object]:
        """What the function says, if it has chosen those of each edge."""
        return self._called(state, watermark, edge) if self.by_input else Reply(state)

    def watermark(self, state: object, watermark: Watermark) -> Reply[object]:
        """What the function says, if it has chosen those over all edges."""
        return Reply(state) if self.by_input else self._called(state, watermark, None)

    def complete_edge(self, state: object, edge: int) -> Reply[object]:
        """What its function for the end of an input says, if it has one."""
        return self._ended(self.at_edge_end, state, edge)

    def complete(self, state: object) -> Reply[object]:
        """What its function for the end of all inputs says, if it has one."""
        return self._ended(self.at_end, state, None)

    def _called(self, state: object, item: Event | Watermark, edge: int | None) -> Reply[object]:
        after, out = self.function(state, item, edge)
        return Reply(after, tuple(out))

    def _ended(self, ask: OwnEnd | None, state: object, edge: int | None) -> Reply[object]:
        if ask is None:
            return Reply(state)
        after, out = ask(state, edge)
        return Reply(after, tuple(out))

    def restore(self, snapshots: Sequence[object]) -> object:
        """Its own state."""
        return snapshots[0]


GroupMemory = object
"""The state of a group: any immutable value."""
OnRow = Callable[[GroupMemory, RowValues], tuple[GroupMemory, Iterable[RowValues]]]
OnEvict = Callable[[GroupMemory, RowValues, int], Iterable[RowValues]]


@dataclass(frozen=True, slots=True)
class Remembered:
    """A group, its state, and the highest time of its rows."""

    group: RowValues
    memory: GroupMemory
    touched: int


@dataclass(frozen=True, slots=True)
class Memories:
    """The groups, least recently used first, and the last watermark."""

    groups: tuple[Remembered, ...] = ()
    watermark: int = MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulMapProcessor(Processor[Memories]):
    """`on_row(memory, row)` gives the new memory of the row's group and the rows that leave.

    A group begins with `initial`. `on_evict(memory, group, watermark)` gives the rows that leave when a group is
    removed; the watermark is MAX at the end of inputs. `ttl` has the unit of the times in column `time`, None for no
    limit.
    """

    empty: ClassVar[Memories] = Memories()

    on_row: OnRow = field(repr=False)
    initial: GroupMemory
    time: int
    group: tuple[int, ...] = ()
    ttl: int | None = None
    on_evict: OnEvict | None = field(default=None, repr=False)
    key: int = 0
    deviations: Deviations = DESIGN

    def complete(self, state: Memories) -> Reply[Memories]:
        """All groups are removed."""
        return Reply(replace(state, groups=()), self._evicted(state.groups, MAX))

    def row(self, state: Memories, edge: int, event: Event) -> Reply[Memories]:
        """It changes the memory of its group, or is dropped."""
        time = row_time(event.values, self.time)
        if self.ttl is not None and time < state.watermark:
            return Reply(state, drops=(Drop(edge, event, "stateful map", self.key, time, state.watermark),))
        group = group_of(event.values, self.group)
        others = tuple(other for other in state.groups if other.group != group)
        known = next((entry for entry in state.groups if entry.group == group), Remembered(group, self.initial, time))
        memory, rows = self.on_row(known.memory, event.values)
        used = Remembered(group, memory, max(known.touched, time))
        return Reply(replace(state, groups=(*others, used)), tuple(map(Event, rows)))

    def watermark(self, state: Memories, watermark: Watermark) -> Reply[Memories]:
        """Old groups are removed. Raises `JobFailedError` for a key other than 0 with the option `key_zero_only`."""
        if self.deviations.key_zero_only and watermark.key != 0:
            raise JobFailedError(
                Reason.UNSUPPORTED_KEY,
                f"A stateful map got the watermark {watermark.value} of key {watermark.key}.",
                remedy="Give its input key 0, or turn the option key_zero_only off.",
            )
        if watermark.key != self.key:
            return Reply(state, (watermark,))
        oldest = MIN if self.ttl is None else watermark.value - self.ttl
        stays = tuple(dropwhile(lambda entry: entry.touched < oldest, state.groups))
        out = self._evicted(state.groups[: len(state.groups) - len(stays)], watermark.value)
        return Reply(Memories(stays, watermark.value), (*out, watermark))

    def _evicted(self, groups: tuple[Remembered, ...], watermark: int) -> tuple[Event, ...]:
        if self.on_evict is None:
            return ()
        return tuple(Event(row) for entry in groups for row in self.on_evict(entry.memory, entry.group, watermark))

    def size(self, state: Memories) -> int:
        """The groups."""
        return len(state.groups)

    def restore(self, snapshots: Sequence[Memories]) -> Memories:
        """Its own groups, and the lowest watermark of all instances."""
        return Memories(snapshots[0].groups, min(snapshot.watermark for snapshot in snapshots))
