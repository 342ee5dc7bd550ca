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

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import product
from numbers import Integral
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.progress.model.chunks import Completed, Effect, Finding
from wmlab.progress.model.numbers import FIRST_ORIGIN, INITIAL, ChunkBase, TupleBuffer
from wmlab.progress.model.tracker import OriginProgress, ProgressRules, ProgressTracker


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
FiringCause = Literal["watermark", "end of stream"]


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
    cause: FiringCause
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


class Firing:
    """The windows of one operator: records per slice, open windows, and how many have fired.

    `slices` counts the records in each slice of an open window, by the slice's start. `closed` is how many windows
    (from the first on, empty or not) the watermark has closed; `fired` has the numbers of fired windows and is only
    kept with `forget_fired`.
    """

    def __init__(self, rules: FiringRules) -> None:
        self.rules = rules
        self.slices: dict[int, int] = {}
        self.closed = 0
        self.ended = False
        self.outputs = 0
        self.fired: set[int] = set()
        self._open: set[int] = set()
        self._first_open: list[int] = []
        """The open windows as a heap."""

    def fill(self, times: Iterable[int]) -> tuple[Late, ...]:
        """Count the records of one buffer; those that come too late are named. Raises `ModelError` below time 0."""
        late: list[Late] = []
        windows = self.rules.windows
        for time in times:
            shut = self.count(time)
            if shut:
                late.append(Late(time, *windows.span(shut[0]), len(shut)))
        return tuple(late)

    def count(self, time: int, records: int = 1) -> range:
        """Count records of one time, or of one slice; the numbers of those of their windows that are closed."""
        start, _ = self.rules.windows.slice_of(time)
        within = self.rules.windows.windows_of(time)
        shut = len(within) if self.ended else min(max(0, self.closed - within.start), len(within))
        reachable = within if self.rules.forget_fired else within[shut:]
        if reachable:
            if start not in self.slices or shut:
                for number in reachable:
                    self._reopen(number)
            self.slices[start] = self.slices.get(start, 0) + records
        return within[:shut]

    def _reopen(self, number: int) -> None:
        if number not in self._open:
            self._open.add(number)
            heappush(self._first_open, number)

    def advance(self, watermark: int | None) -> tuple[Fired, ...]:
        """The windows that fire because the global watermark has come to `watermark` (None: unknown)."""
        if watermark is None:
            return ()
        reached = max(0, watermark - self.rules.emit_lag) + (self.rules.trigger == "exact")
        self.closed = max(self.closed, self.rules.windows.ended_before(reached))
        return self._fire("watermark")

    def end(self) -> tuple[Fired, ...]:
        """The windows that fire because the last input has ended: all that are open."""
        self.ended = True
        self.closed = max(self.closed, max(self._open, default=-1) + 1)
        return self._fire("end of stream")

    def _fire(self, cause: FiringCause) -> tuple[Fired, ...]:
        fired = []
        while self._first_open and self._first_open[0] < self.closed:
            number = heappop(self._first_open)
            self._open.remove(number)
            self.outputs += 1
            span = self.rules.windows.span(number)
            slices = [start for start in self.rules.windows.slices(*span) if start in self.slices]
            records = sum(self.slices[start] for start in slices)
            fired.append(Fired(self.outputs, *span, records, cause, number in self.fired))
            if self.rules.forget_fired:
                self.fired.add(number)
            for start in slices:
                if start // self.rules.windows.slide == number:  # It is the last window that holds the slice.
                    del self.slices[start]
        return tuple(fired)


@dataclass(slots=True)
class Side:
    """What one side of a join has built in a slice: how many records each key has, and the largest time of all."""

    keys: Counter[int] = field(default_factory=Counter)
    largest: int = 0


class JoinTables:
    """The tables of all slices, left and right, by the start of the slice."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.slices: dict[int, tuple[Side, Side]] = {}
        self._oldest: list[int] = []
        """The starts of the slices as a heap."""

    def build(self, times: Sequence[int], keys: Sequence[int], side: int) -> None:
        """Add the records of one buffer of a side; `times` and `keys` are parallel.

        Raises `ModelError` for a side that does not exist and for a negative time.
        """
        if side not in (0, 1):
            raise ModelError(f"There is no side {side} of a join.", remedy="Give 0 for left or 1 for right.")
        for time, key in zip(times, keys, strict=True):
            start, _ = self.windows.slice_of(time)
            if start not in self.slices:
                self.slices[start] = (Side(), Side())
                heappush(self._oldest, start)
            table = self.slices[start][side]
            table.keys[key] += 1
            table.largest = max(table.largest, time)

    def pairs(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """The pairs (left slice, right slice) of the window [start, end), by the starts of the slices."""
        starts = [begin for begin in self.windows.slices(start, end) if begin in self.slices]
        lefts, rights = ([begin for begin in starts if self.slices[begin][side].keys] for side in (0, 1))
        return tuple(product(lefts, rights))

    def matches(self, left: int, right: int) -> int:
        """How many pairs of records of two slices have equal keys."""
        ours, theirs = self.slices[left][0].keys, self.slices[right][1].keys
        return sum(count * theirs.get(key, 0) for key, count in ours.items())

    def largest(self, left: int, right: int) -> int:
        """The largest time of the records of two slices: what an output of them carries by the rule for all buffers.

        Source: "Watermarking and Progress", Watermark Timestamp and the outputs of the diagram.
        """
        return max(self.slices[left][0].largest, self.slices[right][1].largest)

    def collect(self, watermark: int | None) -> tuple[CollectedSlice, ...]:
        """Throw away the slices that the probe has done with at its watermark (None: unknown), ascending."""
        gone = []
        while watermark is not None and self._oldest:
            end = self.windows.slice_of(self._oldest[0])[1]
            if end + self.windows.size >= watermark:
                break
            start = heappop(self._oldest)
            left, right = self.slices.pop(start)
            gone.append(CollectedSlice(start, end, left.keys.total(), right.keys.total()))
        return tuple(gone)


@dataclass(frozen=True, slots=True)
class CollectedSlice:
    """Effect: the probe threw the slice [start, end) away, with so many records left and right."""

    start: int
    end: int
    left: int
    right: int


class Rechunking:
    """The emission of a pipeline without state, for one origin: its inputs and how many outputs each sequence has."""

    def __init__(self, rules: ProgressRules | None = None) -> None:
        self.rules = rules or ProgressRules()
        self.inputs = OriginProgress(self.rules)
        self.emitted: dict[int, int] = {}

    def emit(self, buffer: TupleBuffer, outputs: int = 1) -> tuple[tuple[TupleBuffer, ...], tuple[Effect, ...]]:
        """The buffers that one input becomes: `outputs` of them, at least one, the last of which may be the last.

        A buffer that breaks the protocol gives no output and a `Finding`. Raises `ModelError` for negative `outputs`.
        """
        if outputs < 0:
            raise ModelError(f"A buffer cannot become {outputs} buffers.", remedy="Give 0 or more.")
        effects = self.inputs.step(buffer)
        if any(isinstance(effect, Finding) for effect in effects):
            return (), effects
        closes = any(isinstance(effect, Completed) for effect in effects)
        count, before = max(1, outputs), self.emitted.pop(buffer.sequence, 0)
        made = chunked(
            buffer.origin, buffer.sequence, buffer.watermark, count, self.rules.chunk_base, before=before, closed=closes
        )
        if not closes:
            self.emitted[buffer.sequence] = before + count
        return made, effects


def chunked(
    origin: int, sequence: int, watermark: int, count: int, base: ChunkBase, *, before: int = 0, closed: bool = True
) -> tuple[TupleBuffer, ...]:
    """`count` chunks of a sequence after `before` earlier ones; if `closed`, the final one carries the last flag."""
    first = base + before
    return tuple(
        TupleBuffer(origin, sequence, first + index, closed and index == count - 1, watermark) for index in range(count)
    )


def window_output(fired: Fired, origin: int, base: ChunkBase = 0, *, pairs: int = 1) -> tuple[TupleBuffer, ...]:
    """The output of a window: one chunk per pair of slices of a join, an empty one without; one of an aggregation.

    It carries the start of the window, so that nothing downstream fires past results still to come.
    Source: upstream classes `AggregationProbePhysicalOperator` and `StreamJoinProbePhysicalOperator`.
    """
    return chunked(origin, fired.sequence, fired.start, max(1, pairs), base)


class Renumbering:
    """A blocking operator that hands on whole sequences in order, under an origin of its own.

    It waits for the longest consecutive sequence of each input and gives new, gapless numbers only to what lies in it;
    `ready` are the (origin, sequence) in one that wait for an input that has none yet. Nothing goes out while one of
    the inputs is silent. The last output of a step carries their smallest local watermark, those before it what went
    out last (`watermark`): the records behind them in the same step may be as old as that.

    Raises `ModelError` for no input or an origin that is its own input.
    """

    def __init__(self, origin: int, inputs: Sequence[int], rules: ProgressRules | None = None) -> None:
        if not inputs or origin in inputs or origin < FIRST_ORIGIN:
            raise ModelError(
                f"Origin {origin} cannot renumber the origins {list(inputs)}.",
                remedy="Give it at least one input and an origin id of its own.",
            )
        self.origin = origin
        self.inputs = ProgressTracker(inputs, rules)
        self.outputs = 0
        self.watermark = INITIAL
        self.ready: list[tuple[int, int]] = []

    def emit(self, buffer: TupleBuffer) -> tuple[tuple[Renumbered, ...], tuple[Effect, ...]]:
        """One buffer per input sequence that has become ready, once every input has one.

        Raises `ModelError` for an origin that is no input.
        """
        origin = self.inputs.origins.get(buffer.origin)
        before = 0 if origin is None else origin.prefix
        effects = self.inputs.step(buffer)
        assert origin is not None
        self.ready += [(buffer.origin, sequence) for sequence in range(before + 1, origin.prefix + 1)]
        reached = self.inputs.watermark
        if reached is None:
            return (), effects
        ready, self.ready = self.ready, []
        outputs = []
        for left, (number, sequence) in zip(reversed(range(len(ready))), ready, strict=True):
            self.outputs += 1
            self.watermark = self.watermark if left else reached
            stamp = TupleBuffer(self.origin, self.outputs, self.inputs.rules.chunk_base, True, self.watermark)
            outputs.append(Renumbered(stamp, number, sequence))
        return tuple(outputs), effects


@dataclass(frozen=True, slots=True)
class Renumbered:
    """An output of a renumbering, and the origin and sequence of the input it stands for."""

    buffer: TupleBuffer
    origin: int
    sequence: int
