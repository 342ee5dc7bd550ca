"""What a writer process has: its clock, the events it has to write, what has become of them, and where it sends them.

A synthetic load is a Poisson process drawn as arrays, one span of events after the other; a real trace is the same
arrays, read from a log. An event waits until the tick of its batch; it is settled once it is acknowledged (or, in a
transaction, once its commit was requested), and nothing is promised about it any more. Whole arrays move, never single
events, and settled events leave memory when the next span is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wmlab.core.errors import ScenarioError
from wmlab.core.expression import number_by
from wmlab.core.simulation import generator
from wmlab.core.words import moment
from wmlab.streams.model.segment import KeyRange, Segment
from wmlab.streams.scenario.clocks import LocalClock
from wmlab.streams.scenario.noting import Compute, EarliestOpen, LastEventTime, MaxMinusSlack, Never, Noting, WallClock
from wmlab.streams.scenario.parts import WriterPart
from wmlab.streams.scenario.scenario import StreamScenario

_KEYS = 2**64
_SCAN = 4_096
SPAN = 16_384
"""How many events of a synthetic load are drawn at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Events of one writer in the order in which they happen; all arrays have one entry per event.

    `happens_ms` and `arrives_ms` are simulated clock time in ms, `key` is the event's key as a
    multiple of 2**-64.
    """

    happens_ms: NDArray[np.int64]
    arrives_ms: NDArray[np.int64]
    key: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.happens_ms)

    def __getitem__(self, events: slice | NDArray[np.int64]) -> Load:
        return Load(self.happens_ms[events], self.arrives_ms[events], self.key[events])

    @staticmethod
    def of(happens_ms: NDArray[np.int64], arrives_ms: NDArray[np.int64], key: NDArray[np.uint64]) -> Load:
        """Events in any order; those that happen together keep the order given."""
        return Load(happens_ms, arrives_ms, key)[np.argsort(happens_ms, kind="stable")]

    @staticmethod
    def whole(spans: Iterable[Load]) -> Load:
        """Spans that follow each other in time as one."""
        nothing = Load(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64))
        columns = zip(*((span.happens_ms, span.arrives_ms, span.key) for span in (nothing, *spans)), strict=True)
        return Load(*map(np.concatenate, columns))


def synthetic(writer: WriterPart, scenario: StreamScenario) -> Iterator[Load]:
    """Draw the load of a writer with `rate_per_s`: Poisson events, exponential delays, uniform keys in its range.

    The spans follow each other in time. All gaps are drawn before all delays and these before all keys, each by a copy
    of the generator that stands where its draws begin; so the spans do not depend on their size.
    """
    first = scenario.start_ms + writer.starts_ms
    span = max(0, scenario.start_ms + scenario.duration_ms - first)
    draws = generator(scenario.seed, f"load of {writer.name}")
    count = int(draws.poisson((writer.rate_per_s or 0.0) * span / 1_000))
    sizes = [min(SPAN, count - begin) for begin in range(0, count, SPAN)]
    gaps, total = deepcopy(draws), np.float64(0)
    for size in [*sizes, 1]:
        total = _sums(draws, size, total)[-1]
    delays = deepcopy(draws)
    for size in sizes:
        draws.exponential(size=size)
    keys = KeyRange.parse(writer.keys)
    low, high = ceil(keys.low * _KEYS), ceil(keys.high * _KEYS)
    before = np.float64(0)
    for size in sizes:
        # Normalised sums of exponential gaps are sorted uniform draws, without the sort.
        sums = _sums(gaps, size, before)
        before = sums[-1]
        happens = first + (sums / total * span).astype(np.int64)
        late = (delays.exponential(size=size) * writer.delay_mean_ms).astype(np.int64)
        yield Load(happens, happens + late, draws.integers(low, high, size=size, dtype=np.uint64))


def _sums(draws: np.random.Generator, size: int, before: np.float64) -> NDArray[np.float64]:
    """The next sums of exponential gaps, added one by one as in one array."""
    gaps = draws.exponential(size=size)
    gaps[0] += before
    return np.cumsum(gaps)


class Backlog:
    """The load of one process, its events named by their index; times are ms of the simulated clock.

    `load` may come in spans that follow each other in time. Of those only a window is in memory: the events that are
    not settled, and the spans that have begun. The time of an event is what the writer's clock showed when it happened,
    or what `time_by` makes of that.

    Two orders of events in memory. By index, from event `_first` on: `_window`, `_times` and `_settled`, of which
    `_first_open` is the first that is not settled. By the tick of their batch: `_queue` and `_queue_ticks`, in which
    the first `_answered` events are settled, those up to `_sent` are sent, and the others wait.
    """

    def __init__(
        self, load: Iterable[Load], clock: LocalClock, *, start_ms: int, batch_ms: int, time_by: Any | None = None
    ) -> None:
        self._time_by = None if time_by is None else number_by(time_by)
        self._start_ms = start_ms
        self._batch_ms = batch_ms
        self._first = 0
        self._window = Load.whole(())
        self._times = np.empty(0, np.int64)
        self._queue = np.empty(0, np.int64)
        self._queue_ticks = np.empty(0, np.int64)
        self._sent = 0
        self._answered = 0
        self._settled_bytes = bytearray()
        self._settled: NDArray[np.bool_] = np.empty(0, bool)
        self._first_open = 0
        self._has_gaps = False
        self.clock = clock
        self._acknowledged: list[NDArray[np.int64]] = []
        self._highest: int | None = None
        self._last: int | None = None
        self._spans = (span for span in load if len(span))
        self._next = next(self._spans, None)
        if self._next is not None:
            self._extend(self._next)

    def keys_of(self, events: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The keys of these events, as multiples of 2**-64; they are not settled."""
        return self._window.key[events - self._first]

    def times_of(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """The times of these events, which are not settled."""
        return self._times[events - self._first]

    def _reach(self, until_ms: int) -> None:
        """Have all events at hand that happen until then."""
        while self._next is not None and self._next.happens_ms[0] <= until_ms:
            self._extend(self._next)

    def _extend(self, span: Load) -> None:
        """Take a span into memory, and line its events up with those that wait for the ticks of their batches."""
        self._next = next(self._spans, None)
        self._let_go_of_settled()
        begin = self._first + len(self._times)
        times = self.clock.read_all(span.happens_ms)
        if self._time_by is not None:
            times = np.fromiter((self.time_of(clock_ms) for clock_ms in times.tolist()), np.int64, len(times))
        self._window = Load.whole((self._window, span))
        self._times = np.concatenate([self._times, times])
        self._settled_bytes = self._settled_bytes + bytes(len(span))
        self._settled = np.frombuffer(self._settled_bytes, bool)
        ticks = self._start_ms - (self._start_ms - span.arrives_ms) // self._batch_ms * self._batch_ms
        waiting = np.concatenate([self._queue[self._sent :], np.arange(begin, begin + len(span))])
        waiting_ticks = np.concatenate([self._queue_ticks[self._sent :], ticks])
        order = np.argsort(waiting_ticks, kind="stable")
        self._queue = np.concatenate([self._queue[: self._sent], waiting[order]])
        self._queue_ticks = np.concatenate([self._queue_ticks[: self._sent], waiting_ticks[order]])

    def _let_go_of_settled(self) -> None:
        """Forget the answered part of the queue, and the settled events before the first that is still needed."""
        self._condense()
        self._skip_answered()
        self._skip_settled()
        self._queue, self._queue_ticks = self._queue[self._answered :], self._queue_ticks[self._answered :]
        self._sent, self._answered = self._sent - self._answered, 0
        count = int(self._queue.min(initial=self._first_open)) - self._first
        self._window, self._times = self._window[count:], self._times[count:]
        self._settled_bytes = self._settled_bytes[count:]
        self._first += count

    def time_of(self, clock_ms: int) -> int:
        """The application's time when the clock shows that. Raises `ScenarioError` when it has none."""
        if self._time_by is None:
            return clock_ms
        time = self._time_by({"clock": clock_ms})
        if time is None:
            raise ScenarioError(
                f"event_time is missing for clock {moment(clock_ms)}.", remedy="give every event a time."
            )
        return time

    @property
    def next_tick(self) -> int | None:
        """When the next batch is due; None when there is none left."""
        while self._sent == len(self._queue):
            if self._next is None:
                return None
            self._extend(self._next)
        self._reach(int(self._queue_ticks[self._sent]))
        return int(self._queue_ticks[self._sent])

    def take(self, until_ms: int) -> NDArray[np.int64]:
        """The events whose batch is due by then, to be sent now."""
        self._reach(until_ms)
        end = max(self._sent, int(self._queue_ticks.searchsorted(until_ms, side="right")))
        batch = self._queue[self._sent : end]
        self._sent = end
        return self._sendable(batch)

    def _sendable(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """The events of a batch that were not given up before they were due."""
        return batch[~self._settled[batch - self._first]] if self._has_gaps else batch

    def pop_ready(self, now_ms: int) -> NDArray[np.int64]:
        """The events that the writer was given by now, without waiting for the tick of their batch."""
        self._reach(now_ms)
        end = int(np.searchsorted(self._queue_ticks, now_ms, side="right"))
        if end < len(self._queue):
            end = int(np.searchsorted(self._queue_ticks, self._queue_ticks[end], side="right"))
        window = self._queue[self._sent : end]
        arrived = self._window.arrives_ms[window - self._first] <= now_ms
        batch = window[arrived]
        self._queue[self._sent : end] = np.concatenate([batch, window[~arrived]])
        self._sent += len(batch)
        return self._sendable(batch)

    def finish(self, events: NDArray[np.int64]) -> None:
        """Nothing can happen to these events any more."""
        self._settled[events - self._first] = True

    def acknowledge(self, events: NDArray[np.int64]) -> None:
        """These events are in the stream, or will be when their transaction is committed."""
        if len(events):
            self.finish(events)
            self._acknowledged.append(events)
            if len(self._acknowledged) == _SCAN:
                self._condense()

    def _condense(self) -> None:
        """Keep of the acknowledged events the highest time and the last one, which are asked for."""
        if self._acknowledged:
            times = self.times_of(np.concatenate(self._acknowledged))
            highest = int(times.max())
            self._highest = highest if self._highest is None else max(self._highest, highest)
            self._last = int(times[-1])
            self._acknowledged.clear()

    @property
    def acknowledged_times(self) -> tuple[int | None, int | None]:
        """The time of the event that was acknowledged last, and the highest of all; None while there is none."""
        self._condense()
        return self._last, self._highest

    def reopen(self, events: NDArray[np.int64]) -> None:
        """These events were settled too early: somebody will send them once more.

        They have to be at hand still, as all events of a load in one span are.
        """
        if len(events):
            self._settled[events - self._first] = False
            self._first_open = min(self._first_open, int(events.min()))

    def unanswered(self) -> NDArray[np.int64]:
        """The events that were sent and are not settled."""
        self._skip_answered()
        sent = self._queue[self._answered : self._sent]
        return sent[~self._settled[sent - self._first]]

    def _skip_answered(self) -> None:
        while self._answered < self._sent:
            scanned = self._queue[self._answered : min(self._sent, self._answered + _SCAN)]
            window = self._settled[scanned - self._first]
            first = int(window.argmin())
            if not window[first]:
                self._answered += first
                break
            self._answered += len(window)

    def all_settled(self, events: NDArray[np.int64]) -> bool:
        """Whether all of these are settled."""
        at_hand = events[events >= self._first]
        return bool(self._settled[at_hand - self._first].all())

    def earliest_open(self, now_ms: int) -> int | None:
        """Time of the earliest event that has happened and is not settled."""
        self._reach(now_ms)
        self._skip_settled()
        first = self._first_open - self._first
        return int(self._times[first]) if first < len(self) and self._window.happens_ms[first] <= now_ms else None

    def __len__(self) -> int:
        """How many events are in memory."""
        return len(self._times)

    def _skip_settled(self) -> None:
        """Find the first event that is not settled; the one after the window if all are."""
        index = self._settled_bytes.find(0, self._first_open - self._first)
        self._first_open = self._first + (len(self) if index < 0 else index)

    def start_over(self, now_ms: int, *, keep: bool) -> None:
        """The process died: what it sent is out of its hands; what it had not sent it loses, or keeps."""
        self.finish(self._queue[: self._sent])
        self._acknowledged.clear()
        self._highest = self._last = None
        if not keep:
            self.abandon(now_ms)

    def abandon(self, now_ms: int) -> None:
        """What has happened and was not sent will never be."""
        self._reach(now_ms)
        self._has_gaps = True
        waiting = self._queue[self._sent :]
        self.finish(waiting[self._window.happens_ms[waiting - self._first] < now_ms])

    def from_now_on(self, now_ms: int, *, moves: bool) -> Load:
        """The load that happens from now on, for another process; with `moves` this one does without it."""
        while self._next is not None:
            self._extend(self._next)
        later = np.flatnonzero(self._window.happens_ms > now_ms)
        if moves:
            self._has_gaps = True
            self._settled[later] = True
        return self._window[later]


def time_to_note(policy: Noting, backlog: Backlog, now_ms: int) -> int | None:
    """The time to note, or None to note nothing; the application chooses (PDP-33, "Event Writer API Changes")."""
    clock_ms = backlog.clock.read(now_ms)
    match policy:
        case EarliestOpen():
            earliest, now = backlog.earliest_open(now_ms), backlog.time_of(clock_ms)
            return now if earliest is None else min(earliest, now)
        case WallClock():
            return backlog.time_of(clock_ms)
        case LastEventTime():
            return backlog.acknowledged_times[0]
        case MaxMinusSlack(slack_ms=slack_ms):
            _, highest = backlog.acknowledged_times
            return None if highest is None else highest - slack_ms
        case Compute(time=rule):
            last, highest = backlog.acknowledged_times
            known = {"clock": clock_ms, "earliest_open": backlog.earliest_open(now_ms)}
            return number_by(rule)(known | {"last_event_time": last, "max_event_time": highest})
        case Never():
            return None


class Route(NamedTuple):
    """The keys from `low` to `high`, half open, go to `segment_id`."""

    low: Fraction
    high: Fraction
    segment_id: int


@dataclass(frozen=True)
class Routes:
    """A writer's view of the key space: routes in ascending order of key."""

    routes: tuple[Route, ...]

    @cached_property
    def _lows(self) -> NDArray[np.uint64]:
        # A key n/2**64 lies at or above `low` exactly when n >= ceil(low * 2**64).
        return np.array([ceil(route.low * _KEYS) for route in self.routes], np.uint64)

    @staticmethod
    def of(segments: Iterable[Segment]) -> Routes:
        """Route every key to the segment that holds it."""
        routes = [Route(segment.keys.low, segment.keys.high, segment.id) for segment in segments]
        return Routes(tuple(sorted(routes)))

    def replace(self, sealed_id: int, successors: Sequence[Segment]) -> Routes:
        """Send the keys of a sealed segment to its successors instead."""
        routes: list[Route] = []
        for route in self.routes:
            if route.segment_id != sealed_id:
                routes.append(route)
                continue
            for successor in successors:
                low, high = max(route.low, successor.keys.low), min(route.high, successor.keys.high)
                if low < high:
                    routes.append(Route(low, high, successor.id))
        return Routes(tuple(sorted(routes)))

    def split(self, keys: NDArray[np.uint64], events: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
        """The events of a batch by segment, ascending by key range, each in the order of the batch."""
        if len(self.routes) == 1:
            return [(self.routes[0].segment_id, events)]
        # Narrow integers are sorted in linear time; the sort is stable, which keeps the order of the batch.
        route = self._lows.searchsorted(keys, side="right").astype(np.min_scalar_type(len(self.routes)))
        by_route = events[route.argsort(kind="stable")]
        batches: dict[int, NDArray[np.int64]] = {}
        end = 0
        for index, count in enumerate(np.bincount(route).tolist()):
            if count:
                segment_id, part = self.routes[index - 1].segment_id, by_route[end : end + count]
                end += count
                other = batches.get(segment_id)
                batches[segment_id] = part if other is None else np.sort(np.concatenate([other, part]))
        return list(batches.items())
