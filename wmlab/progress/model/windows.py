"""Windows over event time and their slices, and the buffers that operators put out.

The windows are [k·slide, k·slide + size) for k = 0, 1, ...; slices are cut at all their starts and ends. A window is
the disjoint union of its slices, so a record is kept once however many windows overlap. Windows that are shorter than
their slide leave slices in between that belong to no window.

Windows fill, fire and are gone; a stateful operator may hand a window on as follows.

    state          on a record                             on the watermark W or the end of the stream
    open           counted in its slice                    fires at end <= W (exact) or end < W (strict), or at the end
    fired, empty   late: named, counted in open windows    nothing
    forgotten      late: named, and the window is open     fires again: named as a double fire
                   again (only with `forget_fired`)

Windows fire in the order of their ends; each one that holds a record takes the next output number from 1. The trigger
sees the largest watermark so far, so one that goes back fires and reopens nothing.

A windowed join keeps what both sides have built in each slice; the probe matches pairs of slices.

    call      side    does
    build     build   adds the records of a buffer to the table of their slice and side
    pairs     probe   the pairs of slices of a window in which both sides have records; each is a task and a chunk
    matches   probe   how many pairs of records with equal keys a pair of slices has
    collect   probe   throws away the slices [s, e) with e + size < W, W being the watermark of the probe

The probe's watermark is that of the join's own outputs, which carry the start of their window: a slice is needed until
no window that holds it can still be probed.

A pipeline without state keeps origin and sequence and numbers its outputs in the order in which it emits them,
whatever the order of its inputs; the output that closes the last missing input carries the last flag. An input that
leaves no record still gives an empty buffer, or the sequence would never be complete downstream.

A window goes out under the operator's own origin, with the window's output number as sequence: one chunk for an
aggregation, one chunk per pair of slices for a join.

Source: "Watermarking and Progress", Triggering windows and ChunkNumber; upstream classes `SliceAssigner`,
`WindowBasedOperatorHandler`, `DefaultTimeBasedSliceStore` (states of a window, garbage collection),
`StreamJoinOperatorHandler`, `StreamJoinProbePhysicalOperator`, `EmitOperatorHandler` and
`AggregationProbePhysicalOperator`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from numbers import Integral
from typing import Final, Literal, NamedTuple

from wmlab.core.errors import ModelError
from wmlab.progress.model.chunks import Completed, Effect
from wmlab.progress.model.numbers import FIRST_ORIGIN, INITIAL, ChunkBase, NumberMap, TupleBuffer
from wmlab.progress.model.tracker import OriginProgress, Progress, ProgressRules, step, take


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of one size and slide, in the unit of the event times; tumbling if both are equal.

    Raises `ModelError` unless both are whole numbers of at least 1.
    """

    size: int
    slide: int

    def __post_init__(self) -> None:
        if not all(isinstance(length, Integral) and length >= 1 for length in (self.size, self.slide)):
            raise ModelError(
                f"No window has size {self.size!r} and slide {self.slide!r}.", remedy="Give whole numbers from 1 on."
            )

    def slice_of(self, time: int) -> tuple[int, int]:
        """The slice [start, end) of a time. Raises `ModelError` for a negative time."""
        _require_time(time)
        begun = time - time % self.slide
        if time < self.size:
            return begun, min(begun + self.slide, self.size)
        ended = time - (time - self.size) % self.slide
        return max(begun, ended), min(begun, ended) + self.slide

    def slices(self, start: int, end: int) -> Iterator[int]:
        """The starts of the slices in [start, end), ascending; the first begins at `start`."""
        while start < end:
            yield start
            start = self.slice_of(start)[1]

    def windows_of(self, time: int) -> range:
        """The numbers k of all windows that hold a time, ascending. Raises as `slice_of`."""
        _require_time(time)
        first = max(0, (time - self.size) // self.slide + 1)
        return range(first, time // self.slide + 1)

    def span(self, number: int) -> tuple[int, int]:
        """The window's [start, end)."""
        return number * self.slide, number * self.slide + self.size

    def ended_before(self, time: int) -> int:
        """How many windows end before a time, that is, end < time."""
        return max(0, (time - self.size - 1) // self.slide + 1)


def _require_time(time: int) -> None:
    if time < 0:
        raise ModelError(f"The time {time} is before the first window.", remedy="Give times of at least 0.")


Trigger = Literal["strict", "exact"]
Cause = Literal["watermark", "end of stream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringRules:
    """Which windows, and when they fire.

    `exact` fires at end <= W, since W promises that no record with a time below it follows; `strict`, as the engine
    does, at end < W. `emit_lag` is taken off every watermark first. `forget_fired` is what an engine does that throws
    away fired windows and looks at nothing else: a late record makes a new window, which fires again. Raises
    `ModelError` for a negative lag.
    """

    windows: Windows
    trigger: Trigger = "exact"
    emit_lag: int = 0
    forget_fired: bool = False

    def __post_init__(self) -> None:
        if self.emit_lag < 0:
            raise ModelError(f"An emit lag of {self.emit_lag} is no rule.", remedy="Give a lag of at least 0.")


@dataclass(frozen=True, slots=True)
class Fired:
    """Effect: a window was handed on as output number `sequence`.

    `records` counts what it held, `again` tells a double fire.
    """

    sequence: int
    start: int
    end: int
    records: int
    cause: Cause
    again: bool = False


@dataclass(frozen=True, slots=True)
class Late:
    """Effect: a record came for windows that the watermark had closed, the first of which is [start, end).

    The source was not in order, or its promise was not kept.
    """

    time: int
    start: int
    end: int
    closed: int


@dataclass(frozen=True, slots=True)
class Firing:
    """The windows of one operator: records per slice, open windows, and how many have fired.

    `closed` is how many windows (from the first on, empty or not) the watermark has closed; `fired` keeps the numbers
    of fired windows and is only kept with `forget_fired`.
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

        Raises `ModelError` for a negative time.
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
        """The windows after the global watermark has come to `watermark` (None: unknown), and those that fire."""
        if watermark is None:
            return self, ()
        reached = max(0, watermark - self.rules.emit_lag) + (self.rules.trigger == "exact")
        closed = max(self.closed, self.rules.windows.ended_before(reached))
        return self._fire(closed, "watermark")

    def end(self) -> tuple[Firing, tuple[Fired, ...]]:
        """The windows after the last input has ended: all that are open fire."""
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
        windows = self.rules.windows
        return sum(self.slices.get(start) or 0 for start in windows.slices(*windows.span(number)))


class Side(NamedTuple):
    """What one side of a join has built in a slice: how many records each key has, and the largest time of all."""

    keys: NumberMap[int] = NumberMap()
    largest: int = 0


_EMPTY: Final = (Side(), Side())


@dataclass(frozen=True, slots=True)
class JoinTables:
    """The tables of all slices, left and right, by the start of the slice."""

    windows: Windows
    slices: NumberMap[tuple[Side, Side]] = field(default_factory=NumberMap)

    def build(self, times: Sequence[int], keys: Sequence[int], side: int) -> JoinTables:
        """The tables after the records of one buffer of a side; `times` and `keys` are parallel.

        Raises `ModelError` for a side that does not exist and for a negative time or key.
        """
        if side not in (0, 1):
            raise ModelError(f"There is no side {side} of a join.", remedy="Give 0 for left or 1 for right.")
        slices = self.slices
        for time, key in zip(times, keys, strict=True):
            start, _ = self.windows.slice_of(time)
            left, right = slices.get(start) or _EMPTY
            known, largest = (left, right)[side]
            mine = Side(known.put(key, (known.get(key) or 0) + 1), max(largest, time))
            slices = slices.put(start, (mine, right) if side == 0 else (left, mine))
        return replace(self, slices=slices)

    def _sides(self, start: int) -> tuple[Side, Side]:
        return self.slices.get(start) or _EMPTY

    def records(self, start: int) -> tuple[int, int]:
        """How many records the slice has left and right."""
        left, right = self._sides(start)
        return sum(count for _, count in left.keys), sum(count for _, count in right.keys)

    def pairs(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """The pairs (left slice, right slice) of the window [start, end), by the starts of the slices."""
        tables = [(begin, self._sides(begin)) for begin in self.windows.slices(start, end)]
        lefts = (begin for begin, (left, _) in tables if left.keys)
        return tuple(product(lefts, (begin for begin, (_, right) in tables if right.keys)))

    def matches(self, left: int, right: int) -> int:
        """How many pairs of records of two slices have equal keys."""
        ours, theirs = self._sides(left)[0].keys, self._sides(right)[1].keys
        return sum(count * (theirs.get(key) or 0) for key, count in ours)

    def largest(self, left: int, right: int) -> int:
        """The largest time of the records of two slices: what an output of them carries by the rule for all buffers.

        Source: "Watermarking and Progress", Watermark Timestamp and the outputs of the diagram.
        """
        return max(self._sides(left)[0].largest, self._sides(right)[1].largest)

    def collect(self, watermark: int | None) -> tuple[JoinTables, tuple[int, ...]]:
        """The tables without the slices that the probe has done with, and the starts of these, ascending.

        `watermark` is the probe's, None: unknown.
        """
        kept, gone = self.slices, list[int]()
        while watermark is not None and (first := kept.first()) is not None:
            if self.windows.slice_of(first[0])[1] + self.windows.size >= watermark:
                break
            kept = kept.without(first[0])
            gone.append(first[0])
        return replace(self, slices=kept), tuple(gone)


@dataclass(frozen=True, slots=True)
class Rechunking:
    """The emission of a pipeline without state, for one origin: its inputs and how many outputs each sequence has."""

    rules: ProgressRules = field(default_factory=ProgressRules)
    inputs: OriginProgress = field(default_factory=OriginProgress)
    emitted: NumberMap[int] = field(default_factory=NumberMap)

    def emit(
        self, buffer: TupleBuffer, outputs: int = 1
    ) -> tuple[Rechunking, tuple[TupleBuffer, ...], tuple[Effect, ...]]:
        """The buffers that one input becomes: `outputs` of them, at least one, the last of which may be the last.

        A buffer that breaks the protocol gives no output and a `Finding`. Raises `ModelError` for negative `outputs`.
        """
        if outputs < 0:
            raise ModelError(f"A buffer cannot become {outputs} buffers.", remedy="Give 0 or more.")
        inputs, effects = take(self.inputs, buffer, self.rules)
        if inputs is self.inputs:
            return self, (), effects
        closes = any(isinstance(effect, Completed) for effect in effects)
        count = max(1, outputs)
        before = self.emitted.get(buffer.sequence) or 0
        made = chunked(
            buffer.origin, buffer.sequence, buffer.watermark, count, self.rules.chunk_base, before=before, closed=closes
        )
        emitted = self.emitted.without(buffer.sequence) if closes else self.emitted.put(buffer.sequence, before + count)
        return Rechunking(self.rules, inputs, emitted), made, effects


def chunked(
    origin: int, sequence: int, watermark: int, count: int, base: ChunkBase, *, before: int = 0, closed: bool = True
) -> tuple[TupleBuffer, ...]:
    """`count` chunks of a sequence after `before` earlier ones; if `closed`, the final one carries the last flag."""
    first = base + before
    return tuple(
        TupleBuffer(origin, sequence, first + place, closed and place == count - 1, watermark) for place in range(count)
    )


def window_output(fired: Fired, origin: int, base: ChunkBase = 0, *, pairs: int = 1) -> tuple[TupleBuffer, ...]:
    """The output of a window: one chunk per pair of slices of a join, an empty one without; one of an aggregation.

    It carries the start of the window, so that nothing downstream fires past results still to come.
    Source: upstream classes `AggregationProbePhysicalOperator` and `StreamJoinProbePhysicalOperator`.
    """
    return chunked(origin, fired.sequence, fired.start, max(1, pairs), base)


@dataclass(frozen=True, slots=True)
class Renumbering:
    """A blocking operator that hands on whole sequences in order, under an origin of its own.

    It waits for the longest complete prefix of each input and gives new, gapless numbers only to what lies in it;
    `held` are the (origin, sequence) in a prefix that wait for an input that has none yet. Nothing goes out
    while one of the inputs is silent. The last output of a step carries their smallest local watermark, those before it
    what went out last (`watermark`): the records behind them in the same step may be as old as that.
    """

    origin: int
    inputs: Progress
    outputs: int = 0
    watermark: int = INITIAL
    held: tuple[tuple[int, int], ...] = ()

    @classmethod
    def start(cls, origin: int, inputs: Sequence[int], rules: ProgressRules | None = None) -> Renumbering:
        """An operator that has seen nothing. Raises `ModelError` for no input or an origin that is its own input."""
        if not inputs or origin in inputs or origin < FIRST_ORIGIN:
            raise ModelError(
                f"Origin {origin} cannot renumber the origins {list(inputs)}.",
                remedy="Give it at least one input and an origin id of its own.",
            )
        return cls(origin, Progress.start(inputs, rules))

    def emit(self, buffer: TupleBuffer) -> tuple[Renumbering, tuple[Renumbered, ...], tuple[Effect, ...]]:
        """One buffer per input sequence that has entered a prefix, once every input has one.

        Raises `ModelError` for an origin that is no input.
        """
        before = self.inputs.of(buffer.origin).prefix
        inputs, effects = step(self.inputs, buffer)
        entered = range(before + 1, inputs.of(buffer.origin).prefix + 1)
        ready = (*self.held, *((buffer.origin, sequence) for sequence in entered))
        reached = inputs.watermark
        if reached is None:
            return replace(self, inputs=inputs, held=ready), (), effects
        outputs = self.outputs + len(ready)
        base = self.inputs.rules.chunk_base
        made = tuple(
            Renumbered(
                TupleBuffer(self.origin, number, base, True, reached if number == outputs else self.watermark), *old
            )
            for number, old in enumerate(ready, self.outputs + 1)
        )
        watermark = reached if made else self.watermark
        return Renumbering(self.origin, inputs, outputs, watermark), made, effects


@dataclass(frozen=True, slots=True)
class Renumbered:
    """An output of a renumbering, and the origin and sequence of the input it stands for."""

    buffer: TupleBuffer
    origin: int
    sequence: int
