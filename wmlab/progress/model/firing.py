"""Windows that fill, fire and are gone: when a stateful operator may hand a window on.

    state          on a record                             on the watermark W or the end of the stream
    open           counted in its slice                    fires at end < W (strict) or end <= W (exact), or at the end
    fired, empty   late: named, counted in open windows    nothing
    forgotten      late: named, and the window is open     fires again: named as a double fire
                   again (only with `forget_fired`)

Windows fire in the order of their ends; each one that holds a record takes the next output number from 1. The trigger
sees the largest watermark so far, so one that goes back fires and reopens nothing.

Source: "Watermarking and Progress", Triggering windows; upstream classes `DefaultTimeBasedSliceStore` (states of a
window, garbage collection) and `WindowBasedOperatorHandler`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.progress.model.number_map import NumberMap
from wmlab.progress.model.slices import Windows

Trigger = Literal["strict", "exact"]
Cause = Literal["watermark", "end of stream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringRules:
    """Which windows, and when they fire.

    `emit_lag` is taken off every watermark first. `forget_fired` is what an engine does that throws away fired windows
    and looks at nothing else: a late record makes a new window, which fires again. Raises `ModelError` for a negative
    lag. Source: upstream class `DefaultTimeBasedSliceStore` (triggers; garbage collection).
    """

    windows: Windows
    trigger: Trigger = "strict"
    emit_lag: int = 0
    forget_fired: bool = False

    def __post_init__(self) -> None:
        if self.emit_lag < 0:
            raise ModelError(f"An emit lag of {self.emit_lag} is no rule.", remedy="Give a lag of at least 0.")


@dataclass(frozen=True, slots=True)
class Fired:
    """Effect: a window was handed on as output number `sequence`.

    `records` counts what it held, `again` tells a double fire. Source: as the module.
    """

    sequence: int
    start: int
    end: int
    records: int
    cause: Cause
    again: bool = False

    @property
    def watermark(self) -> int:
        """What its output carries: the start, so that nothing downstream fires past results still to come.

        Source: upstream classes `AggregationProbePhysicalOperator` and `StreamJoinProbePhysicalOperator`.
        """
        return self.start


@dataclass(frozen=True, slots=True)
class Late:
    """Effect: a record came for windows that the watermark had closed, the first of which is [start, end).

    The source was not in order, or its promise was not kept. Source: as the module.
    """

    time: int
    start: int
    end: int
    closed: int


Effect = Fired | Late


@dataclass(frozen=True, slots=True)
class Firing:
    """The windows of one operator: records per slice, open windows, and how many have fired.

    `closed` is how many windows (from the first on, empty or not) the watermark has closed; `fired` keeps the numbers
    of fired windows and is only kept with `forget_fired`. Source: upstream class `DefaultTimeBasedSliceStore`.
    """

    rules: FiringRules
    slices: NumberMap[int] = field(default_factory=NumberMap)
    open: NumberMap[None] = field(default_factory=NumberMap)
    closed: int = 0
    ended: bool = False
    outputs: int = 0
    fired: NumberMap[None] = field(default_factory=NumberMap)

    def fill(self, times: Sequence[int]) -> tuple[Firing, tuple[Late, ...]]:
        """The windows after the records of one buffer; late ones are named.

        Raises `ModelError` for a negative time. Source: as the module.
        """
        late: list[Late] = []
        slices, opened = self.slices, self.open
        for time in times:
            within = self.rules.windows.windows_of(time)
            shut = [k for k in within if self.ended or k < self.closed]
            if shut:
                late.append(Late(time, *self.rules.windows.span(shut[0]), len(shut)))
            reachable = within if self.rules.forget_fired else within[len(shut) :]
            if reachable:
                begin, _ = self.rules.windows.slice_of(time)
                count = slices.get(begin)
                if count is None or shut:
                    for number in reachable:
                        opened = opened.put(number, None)
                slices = slices.put(begin, (count or 0) + 1)
        return replace(self, slices=slices, open=opened), tuple(late)

    def advance(self, watermark: int | None) -> tuple[Firing, tuple[Fired, ...]]:
        """The windows after the global watermark has come to `watermark` (None: unknown), and those that fire.

        Source: "Watermarking and Progress", Triggering windows.
        """
        if watermark is None:
            return self, ()
        reached = max(0, watermark - self.rules.emit_lag) + (self.rules.trigger == "exact")
        closed = max(self.closed, self.rules.windows.ended_before(reached))
        return self._fire(closed, "watermark")

    def end(self) -> tuple[Firing, tuple[Fired, ...]]:
        """The windows after the last input has ended: all that are open fire. Source: as the class (flush)."""
        last = self.open.last()
        state, fired = self._fire(self.closed if last is None else max(self.closed, last[0] + 1), "end of stream")
        return replace(state, ended=True), fired

    def _fire(self, closed: int, cause: Cause) -> tuple[Firing, tuple[Fired, ...]]:
        opened, outputs, past = self.open, self.outputs, self.fired
        fired: list[Fired] = []
        while (first := opened.first()) is not None and first[0] < closed:
            number = first[0]
            opened, outputs = opened.without(number), outputs + 1
            again = number in past
            fired.append(Fired(outputs, *self.rules.windows.span(number), self._content(number), cause, again))
            if self.rules.forget_fired:
                past = past.put(number, None)
        kept = self.slices
        while (oldest := kept.first()) is not None and oldest[0] // self.rules.windows.slide < closed:
            kept = kept.without(oldest[0])
        state = replace(self, slices=kept, open=opened, closed=closed, outputs=outputs, fired=past)
        return state, tuple(fired)

    def _content(self, number: int) -> int:
        begin, end = self.rules.windows.span(number)
        records = 0
        while begin < end:
            records += self.slices.get(begin) or 0
            begin = self.rules.windows.slice_of(begin)[1]
        return records
