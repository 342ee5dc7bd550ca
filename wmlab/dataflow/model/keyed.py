"""Merging the watermarks of all keys over several inputs, and their idleness, which belongs to the input as a whole.

Keys are merged independently of each other, each from its first watermark on. An event or a watermark of any key ends
the idleness of its input for every key. When all inputs that have not ended are idle, one idle message leaves, once
until one of them comes back.

Source: "Keyed watermark support", Coalescing of WMs with different keys and Handling of keyed idle messages; upstream
class `KeyedWatermarkCoalescer`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from wmlab.dataflow.model.coalescer import Coalescer, Folding, Update, unknown_input
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.items import DONE, IDLE, Done, Event, Idle, Item, Watermark
from wmlab.dataflow.model.processor import JobFailedError, Reason

Emitted = tuple[Watermark | Idle, ...]
NOTHING: Emitted = ()


@dataclass(frozen=True, slots=True)
class Keyed:
    """The watermarks of all keys over `inputs` inputs.

    `idle` and `done` are the inputs that are idle and that have ended; `keys` the coalescer of each key seen so far,
    by ascending key; `announced`: an idle message has left since the last time an input was active.
    Source: as the module.
    """

    inputs: int
    idle: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()
    keys: tuple[tuple[int, Coalescer], ...] = ()
    announced: bool = False

    @classmethod
    def start(cls, inputs: int) -> Keyed:
        """No input has brought anything. Source: as the module."""
        return cls(inputs)

    @property
    def active(self) -> frozenset[int]:
        """The inputs that take part in merging. Source: as the module."""
        return frozenset(range(self.inputs)) - self.idle - self.done

    def of(self, key: int) -> Coalescer | None:
        """The coalescer of one key; None before its first watermark. Source: as the module."""
        return next((coalescer for known, coalescer in self.keys if known == key), None)

    def coalesced(self, key: int) -> int | None:
        """The merged watermark of one key; None: none yet. Source: as the module."""
        coalescer = self.of(key)
        return None if coalescer is None else coalescer.coalesced

    def top(self, key: int) -> int | None:
        """The highest watermark of one key on any input; None: none yet. Source: as the module."""
        coalescer = self.of(key)
        return None if coalescer is None else coalescer.top_observed

    def holders(self, key: int) -> frozenset[int]:
        """The active inputs with the lowest watermark of `key`, which hold it; all active ones before its first.

        Source: as the module.
        """
        coalescer = self.of(key)
        if coalescer is None or not self.active:
            return self.active
        low = min(coalescer.marks[place] for place in self.active)
        return frozenset(place for place in self.active if coalescer.marks[place] == low)


@dataclass(frozen=True, slots=True)
class Merge:
    """Effect: one step of coalescing. What came on input `place` was `item`, `emitted` what that let through.

    At level "edge" the inputs are the queues of edge `edge`, at level "global" the edges of the instance, and `edge` is
    the one it came from. `after` is the state behind the step. An event is listed if it ended an idleness.
    Source: as the module.
    """

    level: Literal["edge", "global"]
    edge: int
    place: int
    item: Item
    emitted: Emitted
    after: Keyed = field(repr=False)


def run(state: Keyed, updates: Iterable[Update], deviations: Deviations = DESIGN) -> tuple[Keyed, list[Emitted]]:
    """Fold a batch of updates; for each of them what it lets through, watermarks by ascending key before idle.

    Raises `JobFailedError` for a watermark that is not above the one before of its key on its input, for an idle
    message or a watermark after the end, and for a second end; `ModelError` for an input that is not there.
    Source: as the module.
    """
    fold = _Folding(state, deviations)
    watermark, event = fold.watermark, fold.event
    found: list[Emitted] = []
    add = found.append
    for place, item in updates:
        if not 0 <= place < state.inputs:
            raise unknown_input(place, state.inputs)
        kind = type(item)
        if kind is Watermark:
            add(watermark(place, item))  # type: ignore[arg-type]
        elif kind is Event:
            event(place)
            add(NOTHING)
        else:
            add(fold.other(place, item))
    return fold.frozen(), found


def step(state: Keyed, place: int, item: Item, deviations: Deviations = DESIGN) -> tuple[Keyed, Emitted]:
    """One update, as in `run`. Source: as the module."""
    # Only with this deviation can an input be idle for some key without being idle.
    partly_idle = deviations.watermark_wakes_one_key and any(place in key.idle for _, key in state.keys)
    if type(item) is Event and place not in state.idle and not partly_idle:
        return state, NOTHING
    after, found = run(state, ((place, item),), deviations)
    return after, found[0]


class _Folding:
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
