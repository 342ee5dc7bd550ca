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

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.items import DONE, IDLE, MAX, MIN, Barrier, Done, Event, Idle, Item, Watermark
from wmlab.dataflow.model.processor import JobFailedError, Reason

Update = tuple[int, Item]
"""An input, counted from 0, and what came on it: an event, a watermark, an idle message or the end."""


@dataclass(frozen=True, slots=True)
class Coalescer:
    """The watermark of one key over several inputs.

    `marks` has the last watermark per input, `MIN` before the first and `MAX` after the end; `last` is the highest
    that was let through, `top` the highest seen, both `MIN` at first. `settled`: that all inputs are idle or have
    ended was already dealt with.
    """

    marks: tuple[int, ...]
    idle: frozenset[int] = frozenset()
    last: int = MIN
    top: int = MIN
    settled: bool = False

    @classmethod
    def start(cls, inputs: int) -> Coalescer:
        """No input has brought anything."""
        return cls((MIN,) * inputs)

    @property
    def done(self) -> frozenset[int]:
        """The inputs that have ended."""
        return frozenset(place for place, mark in enumerate(self.marks) if mark == MAX)

    @property
    def idle_pending(self) -> bool:
        """Whether downstream is to be told that all inputs that have not ended are idle."""
        return self.settled and any(mark < MAX for mark in self.marks)

    @property
    def coalesced(self) -> int | None:
        """The merged watermark; None: none yet."""
        return None if self.last == MIN else self.last

    @property
    def top_observed(self) -> int | None:
        """The highest watermark of any input; None: none yet."""
        return None if self.top == MIN else self.top

    def run(self, updates: Iterable[Update]) -> tuple[Coalescer, list[int | None]]:
        """Fold a batch of updates; for each of them the new merged watermark, None if it does not move.

        The key of a watermark is not looked at. Raises `JobFailedError` for a watermark that is not above the one
        before on its input, for anything but an event after the end, and for a second end; `ModelError` for an input
        that is not there.
        """
        fold = Folding(self)
        watermark, event = fold.watermark, fold.event
        merged: list[int | None] = []
        add = merged.append
        inputs = len(self.marks)
        for index, item in updates:
            if not 0 <= index < inputs:
                raise unknown_input(index, inputs)
            kind = type(item)
            if kind is Watermark:
                add(watermark(index, item))  # type: ignore[arg-type]
            elif kind is Event:
                event(index)
                add(None)
            else:
                add(fold.other(index, item))
        return fold.frozen(), merged

    def step(self, index: int, item: Item) -> tuple[Coalescer, int | None]:
        """One update, as in `run`."""
        after, merged = self.run(((index, item),))
        return after, merged[0]


class Folding:
    """The rule for one key, as a working copy that a fold changes in place.

    `held` is what each input asks for: its mark, or `MAX` while it is idle. `low` is the lowest of these, `holders` how
    many inputs ask for it, so that an update looks at the others only when the last of these moves.
    """

    __slots__ = ("held", "holders", "idle", "last", "low", "marks", "settled", "top")

    def __init__(self, state: Coalescer) -> None:
        self.marks = list(state.marks)
        self.idle = set(state.idle)
        self.last = state.last
        self.top = state.top
        self.settled = state.settled
        self.held = [MAX if place in state.idle else mark for place, mark in enumerate(state.marks)]
        self.low = min(self.held, default=MAX)
        self.holders = self.held.count(self.low)

    def frozen(self) -> Coalescer:
        """The state that it has become."""
        return Coalescer(tuple(self.marks), frozenset(self.idle), self.last, self.top, self.settled)

    def watermark(self, place: int, watermark: Watermark) -> int | None:
        """A watermark came; returns the new merged one, if it moves."""
        value = watermark.value
        before = self.marks[place]
        if value <= before:
            raise _backwards(place, watermark, before)
        self.marks[place] = value
        if value > self.top:
            self.top = value
        if place in self.idle:
            self.event(place)
        elif before != self.low:
            self.held[place] = value
            return None
        else:
            self.held[place] = value
            self.holders -= 1
            if self.holders:
                return None
            self.low = min(self.held)
            self.holders = self.held.count(self.low)
        return self._moved()

    def event(self, place: int) -> None:
        """The input is active."""
        if place in self.idle:
            self.idle.discard(place)
            self.settled = False
            self._hold(place, self.marks[place])

    def other(self, place: int, item: Item) -> int | None:
        """An idle message or the end came; returns the new merged watermark, if it moves."""
        if isinstance(item, Idle):
            if self.marks[place] == MAX:
                raise _after_end(place, "is idle")
            self.idle.add(place)
        elif isinstance(item, Done):
            if self.marks[place] == MAX:
                raise _after_end(place, "ends again", Reason.DUPLICATE_DONE)
            self.marks[place] = MAX
        else:
            raise ModelError(f"{item} takes no part in merging watermarks", remedy="Keep barriers out of coalescing.")
        self._hold(place, MAX)
        return self._moved()

    def _hold(self, place: int, value: int) -> None:
        self.held[place] = value
        self.low = min(self.held)
        self.holders = self.held.count(self.low)

    def _moved(self) -> int | None:
        if self.settled:
            return None
        self.settled = self.low == MAX
        merged = self.top if self.settled else self.low
        if merged <= self.last:
            return None
        self.last = merged
        return merged


def _backwards(place: int, watermark: Watermark, before: int) -> JobFailedError:
    if before == MAX:
        return _after_end(place, f"brings watermark {watermark.value} of key {watermark.key}")
    return JobFailedError(
        Reason.NON_MONOTONIC,
        f"watermark {watermark.value} of key {watermark.key} on input {place} is not above {before}, "
        "which came before it on that input",
        remedy="Let whatever emits this key send each watermark above the one before.",
    )


def unknown_input(place: int, inputs: int) -> ModelError:
    """The error for something that came on an input that is not there."""
    return ModelError(f"there is no input {place}, only {inputs} of them", remedy="Count inputs from 0.")


def _after_end(place: int, what: str, reason: Reason = Reason.NON_MONOTONIC) -> JobFailedError:
    return JobFailedError(
        reason, f"input {place} {what} after its end", remedy="Send the end once, and nothing behind it."
    )


Emitted = tuple[Watermark | Idle, ...]
NOTHING: Emitted = ()


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

    @classmethod
    def start(cls, inputs: int) -> Keyed:
        """No input has brought anything."""
        return cls(inputs)

    @property
    def active(self) -> frozenset[int]:
        """The inputs that take part in merging."""
        return frozenset(range(self.inputs)) - self.idle - self.done

    def of(self, key: int) -> Coalescer | None:
        """The coalescer of one key; None before its first watermark."""
        return next((coalescer for known, coalescer in self.keys if known == key), None)

    def coalesced(self, key: int) -> int | None:
        """The merged watermark of one key; None: none yet."""
        coalescer = self.of(key)
        return None if coalescer is None else coalescer.coalesced

    def run(self, updates: Iterable[Update], deviations: Deviations = DESIGN) -> tuple[Keyed, list[Emitted]]:
        """Fold a batch of updates; for each of them what it lets through, watermarks by ascending key before idle.

        Raises `JobFailedError` for a watermark that is not above the one before of its key on its input, for an idle
        message or a watermark after the end, and for a second end; `ModelError` for an input that is not there.
        """
        fold = _KeyedFolding(self, deviations)
        watermark, event = fold.watermark, fold.event
        merged: list[Emitted] = []
        add = merged.append
        inputs = self.inputs
        for index, item in updates:
            if not 0 <= index < inputs:
                raise unknown_input(index, inputs)
            kind = type(item)
            if kind is Watermark:
                add(watermark(index, item))  # type: ignore[arg-type]
            elif kind is Event:
                event(index)
                add(NOTHING)
            else:
                add(fold.other(index, item))
        return fold.frozen(), merged

    def step(self, index: int, item: Item, deviations: Deviations = DESIGN) -> tuple[Keyed, Emitted]:
        """One update, as in `run`."""
        # Only with this deviation can an input be idle for some key without being idle.
        partly_idle = deviations.watermark_wakes_one_key and any(index in key.idle for _, key in self.keys)
        if type(item) is Event and index not in self.idle and not partly_idle:
            return self, NOTHING
        after, merged = self.run(((index, item),), deviations)
        return after, merged[0]


@dataclass(frozen=True, slots=True)
class Merge:
    """Effect: one step of coalescing. What came on input `place` was `item`, `emitted` what that let through.

    At level "edge" the inputs are the queues of edge `edge`, at level "global" the edges of the instance, and `edge` is
    the one it came from. `after` is the state behind the step. An event is listed if it ended an idleness.
    """

    level: Literal["edge", "global"]
    edge: int
    place: int
    item: Item
    emitted: Emitted
    after: Keyed = field(repr=False)


class _KeyedFolding:
    """The keyed coalescer while it is being changed."""

    def __init__(self, state: Keyed, deviations: Deviations) -> None:
        self.inputs = state.inputs
        self.idle = set(state.idle)
        self.done = set(state.done)
        self.keys = {key: Folding(coalescer) for key, coalescer in state.keys}
        self.announced = state.announced
        self.deviations = deviations

    def frozen(self) -> Keyed:
        keys = tuple((key, self.keys[key].frozen()) for key in sorted(self.keys))
        return Keyed(self.inputs, frozenset(self.idle), frozenset(self.done), keys, self.announced)

    def watermark(self, place: int, watermark: Watermark) -> Emitted:
        if place in self.idle:
            self._wake(place, every_key=not self.deviations.watermark_wakes_one_key)
        key = watermark.key
        coalescer = self.keys.get(key)
        if coalescer is None:
            coalescer = self.keys[key] = self._first(key)
        value = coalescer.watermark(place, watermark)
        if value is None:
            return NOTHING
        return (watermark if value == watermark.value else Watermark(key, value),)

    def event(self, place: int) -> None:
        if place in self.idle:
            self._wake(place, every_key=True)
        elif self.deviations.watermark_wakes_one_key:
            for coalescer in self.keys.values():
                coalescer.event(place)

    def other(self, place: int, item: Item) -> Emitted:
        if place in self.done:
            reason = Reason.DUPLICATE_DONE if isinstance(item, Done) else Reason.NON_MONOTONIC
            raise JobFailedError(
                reason,
                f"{item} came on input {place} after its end",
                remedy="Send the end once, and nothing behind it.",
            )
        if isinstance(item, Done):
            self.done.add(place)
            if not self.deviations.late_key_replays_idle:
                self.idle.discard(place)
        else:
            self.idle.add(place)
        emitted = [
            Watermark(key, value)
            for key in sorted(self.keys)
            if (value := self.keys[key].other(place, item)) is not None
        ]
        return (*emitted, IDLE) if self._announces(item) else tuple(emitted)

    def _announces(self, item: Item) -> bool:
        """Whether all inputs that have not ended are idle now, and that is to be said."""
        left = self.inputs - len(self.done)
        if not left or len(self.idle - self.done) < left:
            return False
        if isinstance(item, Done) and self.deviations.done_hides_idle:
            return False
        if self.announced and not (isinstance(item, Idle) and self.deviations.idle_repeated):
            return False
        self.announced = True
        return True

    def _wake(self, place: int, *, every_key: bool) -> None:
        self.idle.discard(place)
        self.announced = False
        if every_key:
            for coalescer in self.keys.values():
                coalescer.event(place)

    def _first(self, key: int) -> Folding:
        """The coalescer of a key that appears, which knows the inputs that are idle or have ended by now."""
        if both := self.idle & self.done:
            raise JobFailedError(
                Reason.NON_MONOTONIC,
                f"key {key} appears after input {min(both)} was idle and then ended, and is told of both",
                remedy="Turn the deviation `late_key_replays_idle` off, or send the key before inputs end.",
            )
        coalescer = Folding(Coalescer.start(self.inputs))
        for place in sorted(self.done):
            coalescer.other(place, DONE)
        for place in sorted(self.idle):
            coalescer.other(place, IDLE)
        return coalescer


Guarantee = Literal["none", "at_least_once", "exactly_once"]
"""What snapshots promise; only `exactly_once` makes a queue wait behind its barrier."""
Special = Watermark | Idle | Barrier


class Progress(StrEnum):
    """What a drain achieved. Source: upstream class `ProgressState`."""

    MADE_PROGRESS = "made progress"
    NO_PROGRESS = "no progress"
    DONE = "done"
    """This drain gave the last there is."""
    WAS_ALREADY_DONE = "was already done"


@dataclass(frozen=True, slots=True)
class QueueMerge:
    """Effect: what one item of queue `queue` did to the watermarks of the edge."""

    queue: int
    item: Item
    emitted: Emitted
    after: Keyed = field(repr=False)


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain gave: either events or specials in `out`; `taken` counts the items that left each queue."""

    edge: EdgeStream
    progress: Progress
    out: tuple[Item, ...] = ()
    taken: tuple[tuple[int, int], ...] = ()
    merges: tuple[QueueMerge, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class EdgeStream:
    """The queues of one edge with what lies on them, None for one that has ended.

    `keyed` merges the queues; `marked` are those whose `barrier` has come, `waiting` whether these are left alone;
    `stash` is what was set aside.
    """

    queues: tuple[tuple[Item, ...] | None, ...]
    keyed: Keyed
    waiting: bool = False
    marked: frozenset[int] = frozenset()
    barrier: Barrier | None = None
    stash: tuple[Special, ...] = ()

    @classmethod
    def start(cls, queues: int, guarantee: Guarantee = "at_least_once") -> EdgeStream:
        """An edge of empty queues."""
        return cls(((),) * queues, Keyed.start(queues), guarantee == "exactly_once")

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many items lie on each queue; 0 for one that has ended."""
        return tuple(len(queue or ()) for queue in self.queues)

    @property
    def exhausted(self) -> bool:
        """Whether every queue has ended; something may still be set aside."""
        return self.queues.count(None) == len(self.queues)

    @property
    def ended(self) -> bool:
        """Whether nothing can come any more."""
        return not self.stash and self.exhausted

    def push(self, queue: int, items: Iterable[Item]) -> EdgeStream:
        """The edge with `items` at the end of a queue. Raises `ModelError` for one that is not there or has ended."""
        if not 0 <= queue < len(self.queues):
            raise ModelError(
                f"there is no queue {queue}, only {len(self.queues)} of them", remedy="Count queues from 0."
            )
        lying = self.queues[queue]
        if lying is None:
            raise ModelError(f"queue {queue} has ended", remedy="Push nothing behind the end.")
        queues = (*self.queues[:queue], (*lying, *items), *self.queues[queue + 1 :])
        return EdgeStream(queues, self.keyed, self.waiting, self.marked, self.barrier, self.stash)


def drain(edge: EdgeStream, deviations: Deviations = DESIGN) -> Drained:
    """One drain of all queues; raises `JobFailedError` when merging does."""
    if edge.stash:
        after = replace(edge, stash=())
        last = after.ended and not deviations.last_watermark_lost
        return Drained(after, Progress.DONE if last else Progress.MADE_PROGRESS, edge.stash)
    if edge.exhausted:
        return Drained(edge, Progress.WAS_ALREADY_DONE)
    ready = [(n, lying) for n, lying in enumerate(edge.queues) if lying and not (edge.waiting and n in edge.marked)]
    if not ready:
        return Drained(edge, Progress.NO_PROGRESS)
    work = _Draining(edge, deviations)
    for queue, lying in ready:
        if work.take(queue, lying):
            break
    return work.drained()


class _Draining:
    """An edge while it is drained."""

    def __init__(self, edge: EdgeStream, deviations: Deviations) -> None:
        self.queues = list(edge.queues)
        self.keyed = edge.keyed
        self.waiting = edge.waiting
        self.marked = set(edge.marked)
        self.barrier = edge.barrier
        self.stash: list[Special] = []
        self.events: list[Event] = []
        self.taken: list[tuple[int, int]] = []
        self.merges: list[QueueMerge] = []
        self.deviations = deviations

    def take(self, queue: int, lying: tuple[Item, ...]) -> bool:
        """Take from one queue; returns whether a barrier is complete, which ends the drain."""
        count = next((n for n, item in enumerate(lying) if type(item) is not Event), len(lying))
        events: tuple[Event, ...] = lying[:count]  # type: ignore[assignment]
        special = lying[count] if count < len(lying) else None
        self.events += events
        self.queues[queue] = lying[count + (special is not None) :]
        self.taken.append((queue, count + (special is not None)))
        if events and not self.deviations.event_after_special:
            self._merge(queue, events[-1])
        if special is not None:
            self._interpret(queue, special)
        if events and self.deviations.event_after_special:
            self._merge(queue, events[-1])
        return special is not None and self._barrier_complete()

    def _interpret(self, queue: int, special: Item) -> None:
        if isinstance(special, Barrier):
            self._observe(queue, special)
            return
        if isinstance(special, Done):
            self.queues[queue] = None
            self.marked.discard(queue)
        self._merge(queue, special)

    def _merge(self, queue: int, item: Item) -> None:
        after, emitted = self.keyed.step(queue, item, self.deviations)
        if after is not self.keyed:
            self.merges.append(QueueMerge(queue, item, emitted, after))
        self.keyed = after
        self.stash += emitted

    def _observe(self, queue: int, barrier: Barrier) -> None:
        if self.barrier is not None and self.barrier != barrier:
            raise ModelError(
                f"queue {queue} brings barrier {barrier.snapshot} while {self.barrier.snapshot} is under way",
                remedy="Begin a snapshot after the one before has ended.",
            )
        self.barrier = barrier
        self.marked.add(queue)
        # The end comes right behind a terminal barrier, and must not move the watermark before the snapshot is taken.
        self.waiting = self.waiting or barrier.terminal

    def _barrier_complete(self) -> bool:
        live = [queue for queue, lying in enumerate(self.queues) if lying is not None]
        if self.barrier is None or not live or not self.marked.issuperset(live):
            return False
        self.stash.append(self.barrier)
        self.barrier = None
        self.marked.clear()
        return True

    def drained(self) -> Drained:
        kept = tuple(self.stash) if self.events else ()
        edge = EdgeStream(tuple(self.queues), self.keyed, self.waiting, frozenset(self.marked), self.barrier, kept)
        finished = edge.exhausted if self.deviations.last_watermark_lost else edge.ended
        out: tuple[Item, ...] = tuple(self.events) or tuple(self.stash)
        return Drained(
            edge, Progress.DONE if finished else Progress.MADE_PROGRESS, out, tuple(self.taken), tuple(self.merges)
        )
