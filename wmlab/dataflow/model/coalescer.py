"""Coalescing: one watermark of several inputs, for one key and for all keys.

One key. The coalesced watermark is the lowest one over the inputs that are neither idle nor ended, and it never goes
back. When no such input is left, it is the highest one ever seen, so that the order in which inputs became idle does
not matter. So do Hazelcast and Flink; the document has no such rule, and by `design` nothing comes out then. An input
that comes back behind what was emitted blocks the result until the lowest one passes it.

All keys. Keys are coalesced independently of each other, each from its first watermark on. A row or a watermark of
any key ends the idleness of its input for every key. When all inputs that have not ended are idle, one idle message is
emitted, once until one of them comes back.

Both change in place. Copy one before you branch.

Source: "Keyed watermark support", Description of current behavior, Coalescing of WMs with different keys and Handling
of keyed idle messages; upstream classes `WatermarkCoalescer`, `KeyedWatermarkCoalescer`.
"""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy
from typing import Final

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, MAX, MIN, Done, Idle, Item, Watermark
from wmlab.dataflow.model.processor import SOUND, Deviations, JobFailedError, Reason

EmittedItems = tuple[Watermark | Idle, ...]
NOTHING: Final[EmittedItems] = ()
_AFTER_END: Final = "Send the end once, and nothing behind it."


class Coalescer:
    """The watermark of one key over `inputs` inputs.

    `marks` has the last watermark per input, `MIN` before the first and `MAX` after the end; `idle` are the inputs that
    are excluded; `last` is the highest watermark that was emitted, `highest` the highest seen, both `MIN` at first.
    Unless it `flushes`, nothing is emitted when no input is active.
    """

    __slots__ = ("flushes", "highest", "idle", "last", "marks")

    def __init__(self, inputs: int, *, flushes: bool = True) -> None:
        self.marks = [MIN] * inputs
        self.idle: set[int] = set()
        self.last = MIN
        self.highest = MIN
        self.flushes = flushes

    def copy(self) -> Coalescer:
        """A coalescer in the same state, on its own."""
        twin = copy(self)
        twin.marks, twin.idle = self.marks.copy(), self.idle.copy()
        return twin

    @property
    def state(self) -> Hashable:
        """The state as a value; coalescers with equal ones behave alike from now on."""
        return tuple(self.marks), frozenset(self.idle), self.last, self.highest

    @property
    def lowest(self) -> int:
        """The lowest last watermark over the active inputs; `MAX` if there is none."""
        if not self.idle:
            return min(self.marks, default=MAX)
        return min((mark for index, mark in enumerate(self.marks) if index not in self.idle), default=MAX)

    def step(self, index: int, item: Item) -> int | None:
        """What comes on an input; returns the coalesced watermark if it moves. The key of an item is not looked at.

        Raises `JobFailedError` for a watermark that is not above the one before on its input. It does so for anything
        but a row after the end, and for a second end.
        """
        before = self.marks[index]
        if type(item) is Watermark:
            value = item.value
            if value <= before:
                raise _not_above(index, item, before)
            self.marks[index] = value
            if value > self.highest:
                self.highest = value
            if self.idle:
                self.idle.discard(index)
        elif type(item) is tuple:
            self.wake(index)
            return None
        elif before == MAX:
            raise _after_end(index, item)
        elif isinstance(item, Done):
            self.marks[index] = MAX
        else:
            self.idle.add(index)
        lowest = self.lowest if self.idle else min(self.marks)
        coalesced = self.highest if lowest == MAX else lowest
        if coalesced <= self.last or (lowest == MAX and not self.flushes):
            return None
        self.last = coalesced
        return coalesced

    def wake(self, index: int) -> bool:
        """A row came on an input; returns whether that ends an idleness."""
        was_idle = index in self.idle
        self.idle.discard(index)
        return was_idle


def _not_above(index: int, item: Watermark, before: int) -> JobFailedError:
    described = f"watermark {item.value} of key {item.key}"
    problem = f"{described} on input {index} is not above {before}, which came before it on that input"
    remedy = "Let whatever emits this key send each watermark above the one before."
    if before == MAX:
        problem, remedy = f"input {index} brings {described} after its end", _AFTER_END
    return JobFailedError(Reason.NON_MONOTONIC, problem, remedy=remedy)


def _after_end(index: int, item: Item) -> JobFailedError:
    reason = Reason.DUPLICATE_DONE if isinstance(item, Done) else Reason.NON_MONOTONIC
    return JobFailedError(reason, f"{item} came on input {index} after its end", remedy=_AFTER_END)


class KeyedCoalescer:
    """The watermarks of all keys over `inputs` inputs.

    `idle` and `done` are the inputs that are idle and that have ended; `keys` has the coalescer of each key seen so
    far; `announced`: an idle message was emitted since the last time an input was active.
    """

    __slots__ = ("announced", "deviations", "done", "idle", "inputs", "keys")

    def __init__(self, inputs: int, deviations: Deviations = SOUND) -> None:
        self.inputs = inputs
        self.deviations = deviations
        self.idle: set[int] = set()
        self.done: set[int] = set()
        self.keys: dict[int, Coalescer] = {}
        self.announced = False

    def copy(self) -> KeyedCoalescer:
        """A coalescer in the same state, on its own."""
        twin = copy(self)
        twin.idle, twin.done = self.idle.copy(), self.done.copy()
        twin.keys = {key: coalescer.copy() for key, coalescer in self.keys.items()}
        return twin

    @property
    def state(self) -> Hashable:
        """The state as a value; coalescers with equal ones behave alike from now on."""
        keys = frozenset((key, coalescer.state) for key, coalescer in self.keys.items())
        return frozenset(self.idle), frozenset(self.done), self.announced, keys

    def step(self, index: int, item: Item) -> EmittedItems:
        """What comes on an input; returns what that emits, watermarks by ascending key before an idle message.

        Raises `JobFailedError` for a watermark that is not above the one before of its key on its input. It does so for
        an idle message or a watermark after the end, and for a second end; `ModelError` for an input that is not there.
        An item that is refused changes nothing.
        """
        if not 0 <= index < self.inputs:
            raise ModelError(f"there is no input {index}, only {self.inputs} of them", remedy="Count inputs from 0.")
        if type(item) is Watermark:
            return self._watermark(index, item)
        if type(item) is tuple:
            self.wake(index)
            return NOTHING
        if index in self.done:
            raise _after_end(index, item)
        if isinstance(item, Idle) and item.key is not None:
            return self._idle_for_one_key(index, item, item.key)
        return self._idle_or_done(index, item)

    def wake(self, index: int) -> bool:
        """A row came on an input; returns whether that ends an idleness, of all keys or of one."""
        was_idle = index in self.idle
        ends = was_idle and (self.announced or not self.deviations.event_leaves_idle)
        if was_idle:
            self.announced = False
            if not self.deviations.event_leaves_idle:
                self.idle.discard(index)
        for coalescer in self.keys.values():
            if index in coalescer.idle:
                coalescer.idle.discard(index)
                ends = True
        return ends

    def _watermark(self, index: int, item: Watermark) -> EmittedItems:
        coalescer = self.keys.get(item.key) or self._new_key(item.key, woken=index)
        value = coalescer.step(index, item)
        self.keys[item.key] = coalescer
        if index in self.idle:
            self.idle.discard(index)
            self.announced = False
            if not self.deviations.watermark_wakes_one_key:
                for other in self.keys.values():
                    other.wake(index)
        if value is None:
            return NOTHING
        return (item if value == item.value else Watermark(item.key, value),)

    def _idle_or_done(self, index: int, item: Item) -> EmittedItems:
        # A watermark of a key can be the largest time of all, which is an end.
        if any(coalescer.marks[index] == MAX for coalescer in self.keys.values()):
            raise _after_end(index, item)
        if isinstance(item, Done):
            self.done.add(index)
            if not (self.deviations.late_key_replays_idle or self.deviations.end_counts_as_active):
                self.idle.discard(index)
        else:
            self.idle.add(index)
        moved = [(key, self.keys[key].step(index, item)) for key in sorted(self.keys)]
        watermarks = tuple(Watermark(key, value) for key, value in moved if value is not None)
        return (*watermarks, IDLE_MESSAGE) if self._announces(item) else watermarks

    def _idle_for_one_key(self, index: int, message: Idle, key: int) -> EmittedItems:
        """The input is excluded for one key; when all are, the message is forwarded."""
        coalescer = self.keys.get(key) or self._new_key(key)
        was_idle = coalescer.lowest == MAX
        value = coalescer.step(index, message)
        self.keys[key] = coalescer
        watermarks = () if value is None else (Watermark(key, value),)
        return (*watermarks, message) if coalescer.lowest == MAX and not was_idle else watermarks

    def _announces(self, item: Item) -> bool:
        """Whether all inputs that have not ended are idle now, and an idle message is due."""
        left = self.inputs - len(self.done)
        all_idle = len(self.idle - self.done) == left
        if self.deviations.end_counts_as_active:
            all_idle = len(self.idle) == self.inputs
        hidden = isinstance(item, Done) and self.deviations.done_hides_idle
        repeated = self.announced and not (isinstance(item, Idle) and self.deviations.idle_repeated)
        due = left > 0 and all_idle and not hidden and not repeated
        self.announced = self.announced or due
        return due

    def _new_key(self, key: int, *, woken: int | None = None) -> Coalescer:
        """The coalescer of a key that appears, whose inputs are idle or have ended as by now.

        `woken` is an input whose idleness ends. That a key has appeared is left to the caller that gives it an item.
        """
        idle = self.idle - {woken}
        if (both := idle & self.done) and self.deviations.late_key_replays_idle:
            raise JobFailedError(
                Reason.NON_MONOTONIC,
                f"key {key} appears after input {min(both)} was idle and then ended, and is told of both",
                remedy="Turn the deviation `late_key_replays_idle` off, or send the key before inputs end.",
            )
        coalescer = Coalescer(self.inputs, flushes=not self.deviations.highest_held_back)
        for index in sorted(self.done | idle):
            coalescer.step(index, DONE if index in self.done else IDLE_MESSAGE)
        return coalescer
