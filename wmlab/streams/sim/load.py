"""What a writer process has: its clock, the events it has to write, what has become of them, and where it sends them.

A synthetic load is a Poisson process drawn as whole arrays; a real trace is the same arrays, read from a log. An event
waits until the tick of its batch; it is settled once it is acknowledged (or, in a transaction, once its commit was
requested), and nothing is promised about it any more. Whole arrays move, never single events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wmlab.core.clock import generator
from wmlab.core.errors import ScenarioError
from wmlab.core.expression import number_by
from wmlab.core.words import grouped
from wmlab.streams.model.segment import KeyRange, Segment
from wmlab.streams.scenario.noting import Compute, EarliestOpen, LastEventTime, MaxMinusSlack, Never, Noting, WallClock
from wmlab.streams.scenario.parts import Clock
from wmlab.streams.scenario.script import StepClock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmlab.streams.scenario.parts import EventWriter, TransactionalWriter
    from wmlab.streams.scenario.scenario import StreamScenario


_MILLION = 1_000_000
_KEYS = 2**64
_SCAN = 4_096


@dataclass(frozen=True, slots=True)
class LocalClock:
    """Shows simulated time plus a skew, plus the drift since `start_ms`, plus every step made so far.

    `steps` are (simulated time in ms, total of the steps up to and including this one in ms), ascending.
    """

    start_ms: int
    part: Clock
    steps: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(scenario: StreamScenario, party: str, part: Clock) -> LocalClock:
        """The clock of a party under the script of its scenario."""
        mine = [action for action in scenario.script if isinstance(action, StepClock) and action.party == party]
        steps = sorted((scenario.start_ms + step.at_ms, step.by_ms) for step in mine)
        totals = accumulate(steps, lambda total, step: (step[0], total[1] + step[1]))
        return LocalClock(scenario.start_ms, part, tuple(totals))

    def read(self, now_ms: int) -> int:
        """What it shows at a simulated time."""
        shown = now_ms + self.part.skew_ms + (now_ms - self.start_ms) * self.part.drift_ppm // _MILLION
        if not self.steps:
            return shown
        passed = bisect_right(self.steps, now_ms, key=lambda step: step[0])
        return shown + (self.steps[passed - 1][1] if passed else 0)

    def read_all(self, times_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """What it shows at each of many simulated times."""
        shown = times_ms + self.part.skew_ms
        if self.part.drift_ppm:
            whole, rest = np.divmod(times_ms - self.start_ms, _MILLION)  # the product of both might exceed 64 bits
            shown += whole * self.part.drift_ppm + rest * self.part.drift_ppm // _MILLION
        if self.steps:
            moments, totals = np.array(self.steps, np.int64).T
            shown += np.concatenate([[0], totals])[np.searchsorted(moments, times_ms, side="right")]
        return shown


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Events of one writer in the order in which they happen; all arrays have one entry per event.

    `happens_ms` and `arrives_ms` are simulated clock time in ms, `key` is the event's place in key space as a
    multiple of 2**-64.
    """

    happens_ms: NDArray[np.int64]
    arrives_ms: NDArray[np.int64]
    key: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.happens_ms)

    def __repr__(self) -> str:
        return f"Load({grouped(len(self))} events)"

    @staticmethod
    def of(happens_ms: NDArray[np.int64], arrives_ms: NDArray[np.int64], key: NDArray[np.uint64]) -> Load:
        """Events in any order; those that happen together keep the order given."""
        order = np.argsort(happens_ms, kind="stable")
        return Load(happens_ms[order], arrives_ms[order], key[order])


def synthetic(writer: EventWriter | TransactionalWriter, scenario: StreamScenario) -> Load:
    """Draw the load of a writer with `rate_per_s`: Poisson events, exponential delays, uniform keys in its range."""
    first = scenario.start_ms + writer.starts_ms
    span = max(0, scenario.start_ms + scenario.duration_ms - first)
    draws = generator(scenario.seed, f"load of {writer.name}")
    count = int(draws.poisson((writer.rate_per_s or 0.0) * span / 1_000))
    # Normalised sums of exponential gaps are sorted uniform draws, without the sort.
    sums = np.cumsum(draws.exponential(size=count + 1))
    happens = first + (sums[:-1] / sums[-1] * span).astype(np.int64)
    delays = (draws.exponential(size=count) * writer.delay_mean_ms).astype(np.int64)
    keys = KeyRange.parse(writer.keys)
    low, high = (-(-bound.numerator * _KEYS // bound.denominator) for bound in (keys.low, keys.high))
    key = draws.integers(low, high, size=count, dtype=np.uint64)
    return Load(happens, happens + delays, key)


class Backlog:
    """The load of one process, its events named by their index; times are ms of the simulated clock.

    `event_time` is what the writer's clock showed when an event happened, or what `time_by` makes of that.
    """

    def __init__(
        self, load: Load, clock: LocalClock, *, start_ms: int, batch_ms: int, time_by: Any | None = None
    ) -> None:
        self.event_time = clock.read_all(load.happens_ms)
        self._time_by = None if time_by is None else number_by(time_by)
        if self._time_by is not None:
            times = (self.time_of(shown) for shown in self.event_time.tolist())
            self.event_time = np.fromiter(times, np.int64, len(load))
        self.key = load.key
        self._load = load
        ticks = start_ms + -(-(load.arrives_ms - start_ms) // batch_ms) * batch_ms
        self._queue = np.argsort(ticks, kind="stable")
        self._queue_ticks = ticks[self._queue]
        self._sent = 0
        self._answered = 0
        self._settled_bytes = bytearray(len(load))
        self._settled: NDArray[np.bool_] = np.frombuffer(self._settled_bytes, bool)
        self._first_open = 0
        self._has_gaps = False
        self.clock = clock
        self._acknowledged: list[NDArray[np.int64]] = []

    def time_of(self, shown: int) -> int:
        """The application's time when the clock shows that. Raises `ScenarioError` when it has none."""
        if self._time_by is None:
            return shown
        time = self._time_by({"clock": shown})
        if time is None:
            raise ScenarioError(f"event_time is missing for clock {shown}.", remedy="give every event a time.")
        return time

    @property
    def next_tick(self) -> int | None:
        """When the next batch is due; None when there is none left."""
        return int(self._queue_ticks[self._sent]) if self._sent < len(self._queue) else None

    def take(self, until_ms: int) -> NDArray[np.int64]:
        """The events whose batch is due by then, to be sent now."""
        end = max(self._sent, int(self._queue_ticks.searchsorted(until_ms, side="right")))
        batch = self._queue[self._sent : end]
        self._sent = end
        return self._sendable(batch)

    def _sendable(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """The events of a batch that were not given up before their turn."""
        return batch[~self._settled[batch]] if self._has_gaps else batch

    def take_arrived(self, now_ms: int) -> NDArray[np.int64]:
        """The events that the writer was given by now, without waiting for the tick of their batch."""
        end = int(np.searchsorted(self._queue_ticks, now_ms, side="right"))
        if end < len(self._queue):
            end = int(np.searchsorted(self._queue_ticks, self._queue_ticks[end], side="right"))
        window = self._queue[self._sent : end]
        here = self._load.arrives_ms[window] <= now_ms
        batch = window[here]
        self._queue[self._sent : end] = np.concatenate([batch, window[~here]])
        self._sent += len(batch)
        return self._sendable(batch)

    def settle(self, events: NDArray[np.int64]) -> None:
        """Nothing can happen to these events any more."""
        self._settled[events] = True

    def acknowledge(self, events: NDArray[np.int64]) -> None:
        """These events are in the stream, or will be when their transaction is committed."""
        if len(events):
            self.settle(events)
            self._acknowledged.append(events)
            if len(self._acknowledged) == _SCAN:
                self._condense()

    def _condense(self) -> None:
        """Keep of the acknowledged events the one with the highest time and the last one, which are asked for."""
        known = np.concatenate(self._acknowledged)
        highest = int(self.event_time[known].argmax())
        self._acknowledged = [known[[highest]], known[[-1]]]

    @property
    def last_event_time(self) -> int | None:
        """Time of the event that was acknowledged last, None while there is none."""
        return int(self.event_time[self._acknowledged[-1][-1]]) if self._acknowledged else None

    @property
    def max_event_time(self) -> int | None:
        """The highest time of an acknowledged event, None while there is none."""
        if not self._acknowledged:
            return None
        self._condense()
        return int(self.event_time[self._acknowledged[0][0]])

    def reopen(self, events: NDArray[np.int64]) -> None:
        """These events were settled too early: somebody will send them once more."""
        if len(events):
            self._settled[events] = False
            self._first_open = min(self._first_open, int(events.min()))

    def unanswered(self) -> NDArray[np.int64]:
        """The events that were sent and are not settled."""
        while self._answered < self._sent:
            window = self._settled[self._queue[self._answered : min(self._sent, self._answered + _SCAN)]]
            first = int(window.argmin())
            if not window[first]:
                self._answered += first
                break
            self._answered += len(window)
        sent = self._queue[self._answered : self._sent]
        return sent[~self._settled[sent]]

    def all_settled(self, events: NDArray[np.int64]) -> bool:
        """Whether all of these are settled."""
        return bool(self._settled[events].all())

    def earliest_open(self, now_ms: int) -> int | None:
        """Time of the earliest event that has happened and is not settled."""
        first = self._settled_bytes.find(0, self._first_open)
        if first < 0:
            return None
        self._first_open = first
        return int(self.event_time[first]) if self._load.happens_ms[first] <= now_ms else None

    def start_over(self, now_ms: int, *, keep: bool) -> None:
        """The process died: what it sent is out of its hands; what it had not sent it loses, or keeps."""
        self._settled[self._queue[: self._sent]] = True
        self._acknowledged.clear()
        if not keep:
            self.abandon(now_ms)

    def abandon(self, now_ms: int) -> None:
        """What has happened and was not sent will never be."""
        self._has_gaps = True
        waiting = self._queue[self._sent :]
        self._settled[waiting[self._load.happens_ms[waiting] < now_ms]] = True

    def from_now_on(self, now_ms: int, *, moves: bool) -> Load:
        """The load that happens from now on, for another process; with `moves` this one does without it."""
        later = np.flatnonzero(self._load.happens_ms > now_ms)
        if moves:
            self._has_gaps = True
            self._settled[later] = True
        return Load(self._load.happens_ms[later], self._load.arrives_ms[later], self._load.key[later])


def time_to_note(policy: Noting, backlog: Backlog, now_ms: int) -> int | None:
    """The time to note, or None to note nothing; the application chooses (PDP-33, "Event Writer API Changes")."""
    shown = backlog.clock.read(now_ms)
    match policy:
        case EarliestOpen():
            earliest, now = backlog.earliest_open(now_ms), backlog.time_of(shown)
            return now if earliest is None else min(earliest, now)
        case WallClock():
            return backlog.time_of(shown)
        case LastEventTime():
            return backlog.last_event_time
        case MaxMinusSlack(slack_ms=slack_ms):
            highest = backlog.max_event_time
            return None if highest is None else highest - slack_ms
        case Compute(time=rule):
            known = {"clock": shown, "earliest_open": backlog.earliest_open(now_ms)}
            seen = {"last_event_time": backlog.last_event_time, "max_event_time": backlog.max_event_time}
            return number_by(rule)(known | seen)
        case Never():
            return None


class Route(NamedTuple):
    """The keys from `low` to `high`, half open, go to `segment_id`."""

    low: Fraction
    high: Fraction
    segment_id: int


@dataclass(frozen=True, slots=True)
class Routes:
    """A writer's view of the key space: routes in ascending order of key."""

    routes: tuple[Route, ...]
    _lows: NDArray[np.uint64] = field(init=False, repr=False, compare=False)
    _narrow: np.dtype[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A key n/2**64 lies at or above `low` exactly when n >= ceil(low * 2**64).
        lows = [-(-route.low.numerator * _KEYS // route.low.denominator) for route in self.routes]
        object.__setattr__(self, "_lows", np.array(lows, np.uint64))
        object.__setattr__(self, "_narrow", np.min_scalar_type(len(lows)))

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
        place = self._lows.searchsorted(keys, side="right").astype(self._narrow)
        by_place = events[place.argsort(kind="stable")]
        batches: dict[int, NDArray[np.int64]] = {}
        end = 0
        for index, count in enumerate(np.bincount(place).tolist()):
            if count:
                segment_id, part = self.routes[index - 1].segment_id, by_place[end : end + count]
                end += count
                other = batches.get(segment_id)
                batches[segment_id] = part if other is None else np.sort(np.concatenate([other, part]))
        return list(batches.items())
