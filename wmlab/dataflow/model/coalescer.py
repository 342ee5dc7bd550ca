"""Merging watermarks: of one key over several inputs, of all keys together, and over the queues of an edge.

One key. The merged watermark is the lowest one over the inputs that are neither idle nor ended, and it never goes back.
When no such input is left, it is the highest one ever seen, so that the order in which inputs became idle does not
matter. An input that comes back behind what was already merged holds the result until the lowest one passes it.

All keys. Keys are merged independently of each other, each from its first watermark on. An event or a watermark of any
key ends the idleness of its input for every key. When all inputs that have not ended are idle, one idle message leaves,
once until one of them comes back.

An edge has one queue per producing instance. A drain visits the queues in order and takes items until a queue is empty
or a special one was taken: a watermark, an idle message, a barrier or the end. Events leave at once, specials are
merged over the queues and what that releases is set aside. One drain gives either events or specials, never both; what
was set aside is the next one. A queue whose barrier has come is left alone until the barrier is there on all of them,
if the snapshots are exactly once or the barrier is terminal; otherwise what lies behind the barrier overtakes it.

Source: "Keyed watermark support", Description of current behavior, Coalescing of WMs with different keys and Handling
of keyed idle messages; upstream classes `WatermarkCoalescer`, `KeyedWatermarkCoalescer`, `ConcurrentInboundEdgeStream`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import DONE, IDLE, MAX, MIN, Barrier, Done, Event, Idle, Item, Watermark
from wmlab.dataflow.model.processor import DESIGN, Deviations, JobFailedError, Reason

Update = tuple[int, Item]
"""An input, counted from 0, and what came on it: an event, a watermark, an idle message or the end."""
Emitted = tuple[Watermark | Idle, ...]
NOTHING: Emitted = ()
_AFTER_END: Final = "Send the end once, and nothing behind it."


@dataclass(frozen=True, slots=True)
class Coalescer:
    """The watermark of one key over several inputs.

    `marks` has the last watermark per input, `MIN` before the first and `MAX` after the end; `last` is the highest
    that was let through, `top` the highest seen, both `MIN` at first.
    """

    marks: tuple[int, ...]
    idle: frozenset[int] = frozenset()
    last: int = MIN
    top: int = MIN

    @classmethod
    def start(cls, inputs: int) -> Coalescer:
        """No input has brought anything."""
        return cls((MIN,) * inputs)

    def run(self, updates: Iterable[Update]) -> tuple[Coalescer, list[int | None]]:
        """Fold a batch of updates; for each of them the new merged watermark, None if it does not move.

        The key of a watermark is not looked at. Raises `JobFailedError` for a watermark that is not above the one
        before on its input, for anything but an event after the end, and for a second end; `ModelError` for an input
        that is not there.
        """
        return _run(_KeyFold(self), len(self.marks), updates, None)


class _KeyFold:
    """The rule for one key, as a working copy that updates change in place.

    `held` is the time that each input holds the result at: its mark, or `MAX` while it is idle. `low` is the lowest of
    these, `holders` how many inputs are at it, so that an update looks at the others only when the last of these moves.
    Unless it `flushes`, nothing is let through when no input is active.
    """

    __slots__ = ("flushes", "held", "holders", "idle", "last", "low", "marks", "top")

    def __init__(self, state: Coalescer, *, flushes: bool = True) -> None:
        self.flushes = flushes
        self.marks = list(state.marks)
        self.idle = set(state.idle)
        self.last = state.last
        self.top = state.top
        self.held = [MAX if n in self.idle else m for n, m in enumerate(self.marks)] if self.idle else self.marks[:]
        self._lowest()

    def frozen(self) -> Coalescer:
        """The state that it has become."""
        return Coalescer(tuple(self.marks), frozenset(self.idle), self.last, self.top)

    def watermark(self, index: int, watermark: Watermark) -> int | None:
        """A watermark came; returns the new merged one, if it moves."""
        value = watermark.value
        before = self.marks[index]
        if value <= before:
            described = f"watermark {value} of key {watermark.key}"
            problem = f"{described} on input {index} is not above {before}, which came before it on that input"
            remedy = "Let whatever emits this key send each watermark above the one before."
            if before == MAX:
                problem, remedy = f"input {index} brings {described} after its end", _AFTER_END
            raise JobFailedError(Reason.NON_MONOTONIC, problem, remedy=remedy)
        self.marks[index] = value
        if value > self.top:
            self.top = value
        if index in self.idle:
            self.event(index)
            return self._moved()
        self.held[index] = value
        if before == self.low:
            self.holders -= 1
            if not self.holders:
                self._lowest()
                return self._moved()
        # What an event has brought back into force may still be due where it was not let through before.
        return None if self.flushes else self._moved()

    def event(self, index: int) -> None:
        """The input is active."""
        if index in self.idle:
            self.idle.discard(index)
            self.held[index] = self.marks[index]
            self._lowest()

    def other(self, index: int, item: Item) -> int | None:
        """An idle message or the end came; returns the new merged watermark, if it moves."""
        if self.marks[index] == MAX:
            raise _after_end(index, item)
        if isinstance(item, Idle):
            self.idle.add(index)
        else:
            self.marks[index] = MAX
        self.held[index] = MAX
        self._lowest()
        return self._moved()

    def _lowest(self) -> None:
        self.low = min(self.held, default=MAX)
        self.holders = self.held.count(self.low)

    def _moved(self) -> int | None:
        merged = self.top if self.low == MAX else self.low
        if merged <= self.last or (self.low == MAX and not self.flushes):
            return None
        self.last = merged
        return merged


def _after_end(index: int, item: Item) -> JobFailedError:
    reason = Reason.DUPLICATE_DONE if isinstance(item, Done) else Reason.NON_MONOTONIC
    return JobFailedError(reason, f"{item} came on input {index} after its end", remedy=_AFTER_END)


@dataclass(frozen=True, slots=True)
class Keyed:
    """The watermarks of all keys over `inputs` inputs.

    `idle` and `done` are the inputs that are idle and that have ended; `keys` the coalescer of each key seen so far,
    by ascending key; `announced`: an idle message has left since the last time an input was active.
    """

    inputs: int
    idle: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()
    keys: tuple[tuple[int, Coalescer], ...] = ()
    announced: bool = False

    def run(self, updates: Iterable[Update], deviations: Deviations = DESIGN) -> tuple[Keyed, list[Emitted]]:
        """Fold a batch of updates; for each of them what it lets through, watermarks by ascending key before idle.

        Raises `JobFailedError` for a watermark that is not above the one before of its key on its input, for an idle
        message or a watermark after the end, and for a second end; `ModelError` for an input that is not there.
        """
        return _run(_KeyedFold(self, deviations), self.inputs, updates, NOTHING)

    def step(self, index: int, item: Item, deviations: Deviations = DESIGN) -> tuple[Keyed, Emitted]:
        """One update, as in `run`."""
        # Only with these deviations can an input be idle for some key without being idle.
        partly = deviations.watermark_wakes_one_key or deviations.keyed_idle
        partly_idle = partly and any(index in key.idle for _, key in self.keys)
        if type(item) is Event and index not in self.idle and not partly_idle:
            return self, NOTHING
        after, merged = self.run(((index, item),), deviations)
        return (self if type(item) is Event and after == self else after), merged[0]


class _KeyedFold:
    """The rule for all keys, as `_KeyFold` for one."""

    def __init__(self, state: Keyed, deviations: Deviations) -> None:
        self.inputs = state.inputs
        self.idle = set(state.idle)
        self.done = set(state.done)
        self.flushes = not deviations.highest_held_back
        self.keys = {key: _KeyFold(coalescer, flushes=self.flushes) for key, coalescer in state.keys}
        self.announced = state.announced
        self.deviations = deviations

    def frozen(self) -> Keyed:
        keys = tuple((key, self.keys[key].frozen()) for key in sorted(self.keys))
        return Keyed(self.inputs, frozenset(self.idle), frozenset(self.done), keys, self.announced)

    def watermark(self, index: int, watermark: Watermark) -> Emitted:
        if index in self.idle:
            self._wake(index, every_key=not self.deviations.watermark_wakes_one_key)
        key = watermark.key
        coalescer = self.keys.get(key)
        if coalescer is None:
            coalescer = self.keys[key] = self._first(key)
        value = coalescer.watermark(index, watermark)
        if value is None:
            return NOTHING
        return (watermark if value == watermark.value else Watermark(key, value),)

    def event(self, index: int) -> None:
        if index in self.idle or self.deviations.watermark_wakes_one_key or self.deviations.keyed_idle:
            self._wake(index, every_key=True, leaves_idle=self.deviations.event_leaves_idle)

    def other(self, index: int, item: Item) -> Emitted:
        if index in self.done:
            raise _after_end(index, item)
        if isinstance(item, Idle) and item.key is not None:
            return self._idle_for_one_key(index, item, item.key)
        if isinstance(item, Done):
            self.done.add(index)
            if not (self.deviations.late_key_replays_idle or self.deviations.end_counts_as_active):
                self.idle.discard(index)
        else:
            self.idle.add(index)
        merged = [(key, self.keys[key].other(index, item)) for key in sorted(self.keys)]
        emitted = tuple(Watermark(key, value) for key, value in merged if value is not None)
        return (*emitted, IDLE) if self._announces(item) else emitted

    def _idle_for_one_key(self, index: int, message: Idle, key: int) -> Emitted:
        """The input is left out for one key; when all are, the message goes on."""
        fold = self.keys[key] = self.keys.get(key) or self._first(key)
        said = fold.low == MAX
        value = fold.other(index, message)
        emitted = () if value is None else (Watermark(key, value),)
        return (*emitted, message) if fold.low == MAX and not said else emitted

    def _announces(self, item: Item) -> bool:
        """Whether all inputs that have not ended are idle now, and an idle message is due."""
        left = self.inputs - len(self.done)
        hidden = isinstance(item, Done) and self.deviations.done_hides_idle
        repeated = self.announced and not (isinstance(item, Idle) and self.deviations.idle_repeated)
        all_idle = len(self.idle - self.done) == left
        if self.deviations.end_counts_as_active:
            all_idle = len(self.idle) == self.inputs
        due = left > 0 and all_idle and not hidden and not repeated
        self.announced = self.announced or due
        return due

    def _wake(self, index: int, *, every_key: bool, leaves_idle: bool = False) -> None:
        if index in self.idle:
            self.announced = False
            if not leaves_idle:
                self.idle.discard(index)
        if every_key:
            for coalescer in self.keys.values():
                coalescer.event(index)

    def _first(self, key: int) -> _KeyFold:
        """The coalescer of a key that appears; the inputs that are idle or have ended by now are so for it too."""
        if (both := self.idle & self.done) and self.deviations.late_key_replays_idle:
            raise JobFailedError(
                Reason.NON_MONOTONIC,
                f"key {key} appears after input {min(both)} was idle and then ended, and is told of both",
                remedy="Turn the deviation `late_key_replays_idle` off, or send the key before inputs end.",
            )
        coalescer = _KeyFold(Coalescer.start(self.inputs), flushes=self.flushes)
        for index in sorted(self.done | self.idle):
            coalescer.other(index, DONE if index in self.done else IDLE)
        return coalescer


def _run(fold: _KeyFold | _KeyedFold, inputs: int, updates: Iterable[Update], nothing: object) -> tuple[Any, list[Any]]:
    """The state after all updates, and what each of them lets through; `nothing` for an event."""
    watermark, event = fold.watermark, fold.event
    merged: list[Any] = []
    add = merged.append
    for index, item in updates:
        if not 0 <= index < inputs:
            raise ModelError(f"there is no input {index}, only {inputs} of them", remedy="Count inputs from 0.")
        kind = type(item)
        if kind is Watermark:
            add(watermark(index, item))  # type: ignore[arg-type]
        elif kind is Event:
            event(index)
            add(nothing)
        else:
            add(fold.other(index, item))
    return fold.frozen(), merged


@dataclass(frozen=True, slots=True)
class Merge:
    """Effect: one step of coalescing. What came on input `place` was `item`, `emitted` what that let through.

    The inputs are the queues of edge `edge`, or with None the edges of the instance. `after` is the state behind the
    step. An event is listed if it ended an idleness.
    """

    edge: int | None
    place: int
    item: Item
    emitted: Emitted
    after: Keyed = field(repr=False)


Guarantee = Literal["none", "at_least_once", "exactly_once"]
"""How often an item counts after a restart; only with `exactly_once` does a queue wait behind its barrier."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs as they are merged and aligned: the queues of an edge, or the edges of an instance.

    `marked` are the inputs that have brought the `barrier` under way; `waits`: these are left alone until all have.
    """

    keyed: Keyed
    waits: bool
    barrier: Barrier | None = None
    marked: frozenset[int] = frozenset()

    def blocks(self, index: int) -> bool:
        """Whether an input is left alone."""
        return self.waits and index in self.marked

    def complete(self, live: Collection[int]) -> Barrier | None:
        """The barrier if it has come on all inputs that have not ended."""
        return self.barrier if self.marked.issuperset(live) else None

    def passed(self) -> Inputs:
        """The snapshot was taken."""
        return Inputs(self.keyed, self.waits)

    def take(
        self, index: int, items: Iterable[Item], deviations: Deviations, edge: int | None = None
    ) -> tuple[Inputs, list[Merge]]:
        """These items came on an input; the steps of coalescing by them, of edge `edge` as `Merge` has it.

        Raises `JobFailedError` when merging does. Barriers are of one snapshot, until `passed`.
        """
        keyed, waits, barrier, marked = self.keyed, self.waits, self.barrier, self.marked
        merges: list[Merge] = []
        for item in items:
            if isinstance(item, Barrier):
                # The end comes right behind a terminal barrier, and must not move the watermark before the snapshot.
                waits, barrier, marked = waits or item.terminal, item, marked | {index}
                continue
            if isinstance(item, Done):
                marked -= {index}
            after, emitted = keyed.step(index, item, deviations)
            if after is not keyed:
                merges.append(Merge(edge, index, item, emitted, after))
            keyed = after
        return Inputs(keyed, waits, barrier, marked), merges


class Progress(StrEnum):
    """What a drain achieved. Source: upstream class `ProgressState`."""

    MADE_PROGRESS = "made progress"
    NO_PROGRESS = "no progress"
    DONE = "done"
    """This drain gave the last there is."""
    WAS_ALREADY_DONE = "was already done"


@dataclass(frozen=True, slots=True)
class Taken:
    """Effect: the first `count` items of queue `queue` of input edge `edge` were taken."""

    edge: int
    queue: int
    count: int


@dataclass(frozen=True, slots=True)
class EdgeStream:
    """The queues of an edge with what lies on them, None for one that has ended; `number` is that of the edge.

    `stash` is what was set aside.
    """

    queues: tuple[tuple[Item, ...] | None, ...]
    inputs: Inputs
    number: int = 0
    stash: tuple[Watermark | Idle | Barrier, ...] = ()

    @classmethod
    def start(cls, queues: int, guarantee: Guarantee = "at_least_once", number: int = 0) -> EdgeStream:
        """An edge of empty queues."""
        return cls(((),) * queues, Inputs(Keyed(queues), guarantee == "exactly_once"), number)

    @property
    def exhausted(self) -> bool:
        """Whether every queue has ended; something may still be set aside."""
        return self.queues.count(None) == len(self.queues)

    @property
    def ended(self) -> bool:
        """Whether nothing can come any more."""
        return not self.stash and self.exhausted

    def push(self, queue: int, items: Iterable[Item]) -> EdgeStream:
        """The edge with `items` at the end of a queue that has not ended."""
        lying = self.queues[queue]
        assert lying is not None
        return replace(self, queues=(*self.queues[:queue], (*lying, *items), *self.queues[queue + 1 :]))


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain gave: either events or specials in `out`; `taken` counts the items that left each queue."""

    edge: EdgeStream
    progress: Progress
    out: tuple[Item, ...] = ()
    taken: tuple[Taken, ...] = ()
    merges: tuple[Merge, ...] = field(default=(), repr=False)


def drain(edge: EdgeStream, deviations: Deviations = DESIGN) -> Drained:
    """One drain of all queues; raises `JobFailedError` when merging does."""
    if edge.stash:
        after = replace(edge, stash=())
        last = after.exhausted and not deviations.last_watermark_lost
        return Drained(after, Progress.DONE if last else Progress.MADE_PROGRESS, edge.stash)
    queues, inputs = list(edge.queues), edge.inputs
    events: list[Item] = []
    specials: list[Watermark | Idle | Barrier] = []
    taken: list[Taken] = []
    merges: list[Merge] = []
    for queue, lying in enumerate(edge.queues):
        if not lying or inputs.blocks(queue):
            continue
        count = next((n for n, item in enumerate(lying) if type(item) is not Event), len(lying))
        events += lying[:count]
        special = lying[count : count + 1]
        queues[queue] = None if special == (DONE,) else lying[count + 1 :]
        taken.append(Taken(edge.number, queue, count + len(special)))
        # Of the events one is enough to wake the queue.
        items = (*lying[:count][-1:], *special)
        items = items[::-1] if deviations.event_after_special else items
        inputs, steps = inputs.take(queue, items, deviations, edge.number)
        merges += steps
        specials += (item for step in steps for item in step.emitted)
        live = [number for number, left in enumerate(queues) if left is not None]
        if special and live and (barrier := inputs.complete(live)):
            specials.append(barrier)
            inputs = inputs.passed()
            break
    if not taken:
        return Drained(edge, Progress.WAS_ALREADY_DONE if edge.exhausted else Progress.NO_PROGRESS)
    after = EdgeStream(tuple(queues), inputs, edge.number, tuple(specials) if events else ())
    finished = after.exhausted if deviations.last_watermark_lost else after.ended
    progress = Progress.DONE if finished else Progress.MADE_PROGRESS
    return Drained(after, progress, tuple(events or specials), tuple(taken), tuple(merges))
