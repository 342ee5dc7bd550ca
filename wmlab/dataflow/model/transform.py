"""Steps that take rows one by one: map, filter, flat-map and merge; late drop; the stateful map; the custom processor.

Map, filter, flat-map and merge have no memory and forward watermarks at once. A merge is the identity with several
edges; a key that only some of them carry never gets through while the others are active.

Late drop drops rows below the last watermark of one key; a row exactly at it is on time. All watermarks of all
keys are forwarded. One that ignores keys, as all processors did before there were any, takes every watermark for its
own, so that it sees values go back.

A custom processor gets every row and every watermark, and may generate, drop and delay watermarks. The watermarks are
coalesced over all inputs, or those of each input by itself. It may answer "not now" to a row or a watermark, and is
asked again: meanwhile nothing else gets in, and its queues fill.

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
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final

from wmlab.dataflow.model.aggregate import group_of
from wmlab.dataflow.model.items import MAX, MIN, Idle, RowValues, Watermark, row_time
from wmlab.dataflow.model.processor import SOUND, Deviations, Drop, JobFailedError, Processor, Reason


@dataclass(eq=False)
class Transform(Processor[None]):
    """Every row, from any number of inputs, becomes the rows that `function` makes of it."""

    function: Callable[[RowValues], Iterable[RowValues]] = field(repr=False)

    def start(self) -> None:
        """It has no memory."""

    def row(self, values: RowValues, edge: int) -> None:  # noqa: ARG002
        """The rows that the function makes of it leave."""
        self.out += self.function(values)


@dataclass(kw_only=True, eq=False)
class LateDropProcessor(Processor[int]):
    """Drops by the time in column `time`, whose watermarks have `key`. The state is the last one."""

    time: int
    key: int = 0
    ignores_key: bool = False

    def start(self) -> int:
        """No watermark came."""
        return MIN

    def watermark(self, watermark: Watermark) -> None:
        """It is forwarded."""
        if self.ignores_key:
            watermark = Watermark(self.key, watermark.value)
        if watermark.key == self.key:
            self.state = watermark.value
        self.out.append(watermark)

    def row(self, values: RowValues, edge: int) -> None:
        """It is forwarded or dropped."""
        time = row_time(values, self.time)
        if time < self.state:
            self.drops.append(Drop(edge, values, "late drop", self.key, time, self.state))
        else:
            self.out.append(values)

    def restored(self, snapshots: Sequence[int]) -> int:
        """The lowest watermark of all instances."""
        return min(snapshots)


class Refusal(Enum):
    """What a custom processor answers of an item that it has not taken yet."""

    AGAIN = "again"

    def __repr__(self) -> str:
        return self.name


AGAIN: Final = Refusal.AGAIN
"""The item is offered again, before anything else; what was returned next to it holds.

Source: "Keyed watermark support", Processor API: the `boolean` that `tryProcessWatermark` returns.
"""
CustomAnswer = tuple[object, Iterable[RowValues | Watermark | Idle], bool]
"""The next state, what leaves, and whether the item is taken."""
CustomFunction = Callable[[object, RowValues | Watermark, int | None], CustomAnswer]


@dataclass(kw_only=True, eq=False)
class CustomProcessor(Processor[object]):
    """`function(state, item, edge)` gives the next state, which begins with `initial`, and what leaves.

    It also says whether the item is taken; if not, it is offered again after `retry_ms`. It must be pure. It gets every
    row with its input edge. `by_input` says which watermarks it gets: those of each edge, with that edge, or those over
    all edges, with None. Idle messages are forwarded, when all inputs are idle.
    Source: "Keyed watermark support", WM generation and Processor API (both `tryProcessWatermark`); upstream class
    `Processor`.
    """

    function: CustomFunction = field(repr=False)
    initial: object = None
    by_input: bool = False
    retry_ms: ClassVar[int | None] = 1

    def start(self) -> object:
        """The initial state."""
        return self.initial

    def row(self, values: RowValues, edge: int) -> bool:
        """What the function says."""
        return self._call(values, edge)

    def edge_watermark(self, watermark: Watermark, edge: int) -> bool:
        """What the function says, if it has chosen those of each edge."""
        return not self.by_input or self._call(watermark, edge)

    def watermark(self, watermark: Watermark) -> bool:
        """What the function says, if it has chosen those over all edges."""
        return self.by_input or self._call(watermark, None)

    def _call(self, item: RowValues | Watermark, edge: int | None) -> bool:
        self.state, left, is_taken = self.function(self.state, item, edge)
        self.out += left
        return is_taken

    def snapshot(self) -> object:
        """The state itself, which the function does not change."""
        return self.state

    def restore(self, snapshots: Sequence[object]) -> None:
        """Its own state."""
        self.state = snapshots[0]


GroupMemory = object
"""The state of a group: any immutable value."""
OnRow = Callable[[GroupMemory, RowValues], tuple[GroupMemory, Iterable[RowValues]]]
OnEvict = Callable[[GroupMemory, RowValues, int], Iterable[RowValues]]


@dataclass(slots=True)
class Memories:
    """The groups, least recently used first, each with its memory and the highest time of its rows; the watermark."""

    groups: dict[RowValues, tuple[GroupMemory, int]] = field(default_factory=dict)
    watermark: int = MIN


@dataclass(kw_only=True, eq=False)
class StatefulMapProcessor(Processor[Memories]):
    """`on_row(memory, row)` gives the new memory of the row's group and the rows that leave.

    A group begins with `initial`. `on_evict(memory, group, watermark)` gives the rows that leave when a group is
    removed; the watermark is MAX at the end of inputs. `ttl` has the unit of the times in column `time`, None for no
    limit.
    """

    on_row: OnRow = field(repr=False)
    initial: GroupMemory
    time: int
    group: tuple[int, ...] = ()
    ttl: int | None = None
    on_evict: OnEvict | None = field(default=None, repr=False)
    key: int = 0
    deviations: Deviations = SOUND

    def start(self) -> Memories:
        """There is no group."""
        return Memories()

    def complete(self) -> None:
        """All groups are removed."""
        for group in list(self.state.groups):
            self._evict(group, MAX)

    def row(self, values: RowValues, edge: int) -> None:
        """It changes the memory of its group, or is dropped."""
        time = row_time(values, self.time)
        if self.ttl is not None and time < self.state.watermark:
            self.drops.append(Drop(edge, values, "stateful map", self.key, time, self.state.watermark))
            return
        group = group_of(values, self.group)
        before, touched = self.state.groups.get(group, (self.initial, time))
        memory, rows = self.on_row(before, values)
        self.state.groups.pop(group, None)
        self.state.groups[group] = memory, max(touched, time)
        self.out += rows

    def watermark(self, watermark: Watermark) -> None:
        """Old groups are removed. Raises `JobFailedError` for a key other than 0 with the option `key_zero_only`."""
        if self.deviations.key_zero_only and watermark.key != 0:
            raise JobFailedError(
                Reason.UNSUPPORTED_KEY,
                f"A stateful map got the watermark {watermark.value} of key {watermark.key}.",
                remedy="Give its input key 0, or turn the option key_zero_only off.",
            )
        if watermark.key == self.key:
            self.state.watermark = watermark.value
            oldest = MIN if self.ttl is None else watermark.value - self.ttl
            for group, (_, touched) in list(self.state.groups.items()):
                if touched >= oldest:
                    break
                self._evict(group, watermark.value)
        self.out.append(watermark)

    def _evict(self, group: RowValues, watermark: int) -> None:
        memory, _ = self.state.groups.pop(group)
        if self.on_evict is not None:
            self.out += self.on_evict(memory, group, watermark)

    @property
    def size(self) -> int:
        """The groups."""
        return len(self.state.groups)

    def restored(self, snapshots: Sequence[Memories]) -> Memories:
        """Its own groups, and the lowest watermark of all instances."""
        return Memories(snapshots[0].groups, min(snapshot.watermark for snapshot in snapshots))
