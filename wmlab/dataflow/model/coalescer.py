"""Merging the watermarks of one key over several inputs.

The merged watermark is the lowest one over the inputs that are neither idle nor ended, and it never goes back. When no
such input is left, it is the highest one ever seen, so that the order in which inputs became idle does not matter. An
input that comes back behind what was already merged holds the result until the lowest one passes it.

`Folding` is the rule, as a working copy that a fold changes in place; `run` folds a batch over a frozen state, and one
step is a batch of one. The lowest watermark is kept together with how many inputs stand at it, so that an update looks
at the others only when the last of these moves.

Source: "Keyed watermark support", Description of current behavior; upstream class `WatermarkCoalescer`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import MAX, MIN, Done, Event, Idle, Item, Watermark
from wmlab.dataflow.model.processor import JobFailedError, Reason

Update = tuple[int, Item]
"""An input, counted from 0, and what came on it: an event, a watermark, an idle message or the end."""


@dataclass(frozen=True, slots=True)
class Coalescer:
    """The watermark of one key over several inputs.

    `marks` has the last watermark per input, `MIN` before the first and `MAX` after the end; `last` is the highest
    that was let through, `top` the highest seen, both `MIN` at first. `settled`: that all inputs are idle or have
    ended was already dealt with. Source: as the module.
    """

    marks: tuple[int, ...]
    idle: frozenset[int] = frozenset()
    last: int = MIN
    top: int = MIN
    settled: bool = False

    @classmethod
    def start(cls, inputs: int) -> Coalescer:
        """No input has brought anything. Source: as the module."""
        return cls((MIN,) * inputs)

    @property
    def done(self) -> frozenset[int]:
        """The inputs that have ended. Source: as the module."""
        return frozenset(place for place, mark in enumerate(self.marks) if mark == MAX)

    @property
    def idle_pending(self) -> bool:
        """Whether downstream is to be told that all inputs that have not ended are idle. Source: as the module."""
        return self.settled and any(mark < MAX for mark in self.marks)

    @property
    def coalesced(self) -> int | None:
        """The merged watermark; None: none yet. Source: as the module."""
        return None if self.last == MIN else self.last

    @property
    def top_observed(self) -> int | None:
        """The highest watermark of any input; None: none yet. Source: as the module."""
        return None if self.top == MIN else self.top


def run(state: Coalescer, updates: Iterable[Update]) -> tuple[Coalescer, list[int | None]]:
    """Fold a batch of updates; for each of them the new merged watermark, None if it does not move.

    The key of a watermark is not looked at. Raises `JobFailedError` for a watermark that is not above the one before
    on its input, for anything but an event after the end, and for a second end; `ModelError` for an input that is not
    there. Source: as the module.
    """
    fold = Folding(state)
    watermark, event = fold.watermark, fold.event
    found: list[int | None] = []
    add = found.append
    inputs = len(state.marks)
    for place, item in updates:
        if not 0 <= place < inputs:
            raise unknown_input(place, inputs)
        kind = type(item)
        if kind is Watermark:
            add(watermark(place, item))  # type: ignore[arg-type]
        elif kind is Event:
            event(place)
            add(None)
        else:
            add(fold.other(place, item))
    return fold.frozen(), found


def step(state: Coalescer, place: int, item: Item) -> tuple[Coalescer, int | None]:
    """One update, as in `run`. Source: as the module."""
    after, found = run(state, ((place, item),))
    return after, found[0]


class Folding:
    """A coalescer while it is being changed. `held` is what each input asks for: its mark, or `MAX` while it is idle.

    `low` is the lowest of these, `holders` how many inputs ask for it. Source: as the module.
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
        """The state that it has become. Source: as the module."""
        return Coalescer(tuple(self.marks), frozenset(self.idle), self.last, self.top, self.settled)

    def watermark(self, place: int, watermark: Watermark) -> int | None:
        """A watermark came; returns the new merged one, if it moves. Source: as the module."""
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
        """The input is active. Source: as the module."""
        if place in self.idle:
            self.idle.discard(place)
            self.settled = False
            self._hold(place, self.marks[place])

    def other(self, place: int, item: Item) -> int | None:
        """An idle message or the end came; returns the new merged watermark, if it moves. Source: as the module."""
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
    """The error for something that came on an input that is not there. Source: as the module."""
    return ModelError(f"there is no input {place}, only {inputs} of them", remedy="Count inputs from 0.")


def _after_end(place: int, what: str, reason: Reason = Reason.NON_MONOTONIC) -> JobFailedError:
    return JobFailedError(
        reason, f"input {place} {what} after its end", remedy="Send the end once, and nothing behind it."
    )
