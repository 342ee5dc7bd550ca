"""Engines with short rules: bytewax, Feldera, RisingWave and Quix Streams, KafkaIO of Beam, and the wall clock.

Samza's is `writers.PerWriterMinimum` with an idle timeout, Kafka's stream time `bounded.StreamTime`. The watermarks of
Beam are exclusive, as X is. What Beam drops is decided by windows alone, also in a stateful ParDo: all records of a
window are dropped once X has come to its end plus the allowed lateness. In the global window no record is late.

Source: Quix Streams 3, windows; `CustomTimestampPolicyWithLimitedDelay` of Beam 2.77 for Java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

from wmlab.strategies.model.strategy import (
    UNKNOWN,
    Input,
    NotNegativeMs,
    Positive,
    PositiveMs,
    Record,
    Strategy,
    earlier,
    now_of,
)
from wmlab.strategies.model.writers import Minimum


@dataclass(slots=True)
class Clocks:
    """By how much the watermark of each key is ahead of the wall clock, and that clock, which does not go back."""

    ahead: dict[str, int] = field(default_factory=dict)
    now: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class Bytewax(Strategy[Clocks]):
    """For each key, its largest time minus `wait` when that record came, and from then on as fast as the wall clock.

    X never falls, even if a record would set it back. `wait` is in milliseconds, as event times are. Native is X.
    Source: `EventClock` of bytewax 0.21, whose clock does not go back, either.
    """

    keyed: ClassVar[bool] = True
    wait: NotNegativeMs

    def start(self) -> Clocks:
        return Clocks()

    def met(self, state: Clocks, x: int, record: Record) -> int:
        ahead = state.ahead.get(record.key)
        return UNKNOWN if ahead is None else max(state.now, record.arrival_ms) + ahead

    def step(self, state: Clocks, item: Input) -> tuple[Clocks, int, int]:
        state.now = max(state.now, now_of(item))
        if isinstance(item, Record):
            ahead = item.event_time - self.wait - state.now
            state.ahead[item.key] = max(ahead, state.ahead.get(item.key, ahead))
            x = self.met(state, UNKNOWN, item)
        else:
            x = min((state.now + ahead for ahead in state.ahead.values()), default=UNKNOWN)
        return state, x, x


class Waterline(NamedTuple):
    """The largest time, how many records the running step has, and the waterline that it uses."""

    largest: int = UNKNOWN
    rows: int = 0
    used: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class Feldera(Strategy[Waterline]):
    """The largest time of all steps before this one, less `lateness`; a step has `rows` records.

    `manual` is a lower limit that the user sets; the larger of both counts (feldera#7159). A waterline is used one step
    later than it is known (feldera#2216). Native is X.
    """

    lateness: NotNegativeMs
    rows: Positive = 1
    manual: int = UNKNOWN

    def start(self) -> Waterline:
        return Waterline(used=self.manual)

    def met(self, state: Waterline, x: int, record: Record) -> int:
        return state.used

    def step(self, state: Waterline, item: Input) -> tuple[Waterline, int, int]:
        if isinstance(item, Record):
            largest, rows = max(state.largest, item.event_time), state.rows + 1
            if rows < self.rows:
                state = Waterline(largest, rows, state.used)
            else:
                state = Waterline(largest, 0, max(state.used, earlier(largest, self.lateness)))
        return state, state.used, state.used


@dataclass(frozen=True, slots=True)
class RisingWave(Strategy[Minimum]):
    """The minimum over the writers of their largest times, minus `bound`; a silent one counts with the largest of all.

    A writer is silent if it sent nothing for more than `idle_ms`. If all are silent, X reaches the largest time;
    otherwise it is the minimum over the writers that send. Native is X. Source: risingwave#11554.
    """

    bound: NotNegativeMs
    idle_ms: PositiveMs

    def start(self) -> Minimum:
        return Minimum(self.idle_ms, flush=True)

    def met(self, state: Minimum, x: int, record: Record) -> int:
        return state.advance(record.arrival_ms)

    def step(self, state: Minimum, item: Input) -> tuple[Minimum, int, int]:
        x = state.advance(now_of(item))
        if isinstance(item, Record):
            x = state.put(item.writer, earlier(item.event_time, self.bound), item.arrival_ms)
        return state, x, x


@dataclass(frozen=True, slots=True)
class Quix(Strategy[dict[str, int]]):
    """X = m - `grace` with m the largest time of each key; native is m.

    A window closes with the first record of its key at or after its end and grace. The state holds m by key. Source:
    Quix Streams 3; its closing by partition is this over a log whose keys are the partitions.
    """

    keyed: ClassVar[bool] = True
    grace: NotNegativeMs

    def start(self) -> dict[str, int]:
        return {}

    def met(self, state: dict[str, int], x: int, record: Record) -> int:
        return earlier(state.get(record.key, UNKNOWN), self.grace)

    def step(self, state: dict[str, int], item: Input) -> tuple[dict[str, int], int, int]:
        if isinstance(item, Record):
            largest = state[item.key] = max(state.get(item.key, UNKNOWN), item.event_time)
            return state, earlier(largest, self.grace), largest
        return state, *self.at_end(state)

    def at_end(self, state: dict[str, int]) -> tuple[int, int]:
        largest = min(state.values(), default=UNKNOWN)
        return earlier(largest, self.grace), largest


DelayRule = Literal["fixed", "beam_40176"]
"""`beam_40176`: a partition moves with the wall clock only after a record with a time above 0. So one that never had
a record blocks the watermark for ever.
"""


@dataclass(slots=True)
class DelayState:
    """The largest time of each partition, X, and the least of the times that `now` and the delay do not replace."""

    largest: dict[str, int] = field(default_factory=dict)
    x: int = UNKNOWN
    least: int | None = None


@dataclass(frozen=True, slots=True)
class LimitedDelay(Strategy[DelayState]):
    """X = min of m_w - `delay` over the writers, KafkaIO's partitions.

    If m_w is not a time between now minus the delay and now, it is now - `delay`.

    m_w is the largest event time of a writer; every record is read when it arrives. `delay` is in units of event time,
    which must be milliseconds because it is also subtracted from the wall clock. `writers` exist from the beginning,
    others from their first record. Native is X. The watermark of a partition may fall when a late record ends its
    silence, as in KafkaIO's unbounded source; its splittable DoFn keeps each from falling, and so can be ahead.
    """

    delay: NotNegativeMs
    writers: tuple[str, ...] = ()
    rule: DelayRule = "fixed"
    """The version of the rule, with or without the error of a report."""

    def start(self) -> DelayState:
        return DelayState(dict.fromkeys(self.writers, UNKNOWN))

    def met(self, state: DelayState, x: int, record: Record) -> int:
        self._advance(state, record.arrival_ms)
        return state.x

    def step(self, state: DelayState, item: Input) -> tuple[DelayState, int, int]:
        now = now_of(item)
        self._advance(state, now)
        if isinstance(item, Record):
            before = state.largest.setdefault(item.writer, UNKNOWN)
            if item.event_time > before:
                state.largest[item.writer] = item.event_time
                if before == state.least or (state.least is not None and item.event_time < state.least):
                    state.least = None
            self._advance(state, now)
        return state, state.x, state.x

    def _advance(self, state: DelayState, now: int) -> None:
        """X at `now`, from the least of the times that count; all others stand for `now`."""
        least, early, bug = state.least, now - self.delay, self.rule == "beam_40176"
        if not state.largest:
            return
        if least is None or not (early <= least or (bug and least <= 0)):
            counted = [time for time in state.largest.values() if early <= time < now or (bug and time <= 0)]
            state.least = min(counted, default=None)
        state.x = max(state.x, earlier(now if state.least is None else state.least, self.delay))


@dataclass(frozen=True, slots=True)
class WallClock(Strategy[int]):
    """X = now - `grace_ms`, whatever the event times are: the wall clock closes windows.

    It needs no record, so it never stalls, and it loses every record that arrives more than `grace_ms` after it
    happened. Native is X. It only makes sense if event times are milliseconds of the clock that gives the arrivals.
    """

    grace_ms: NotNegativeMs

    def start(self) -> int:
        return UNKNOWN

    def met(self, state: int, x: int, record: Record) -> int:
        return max(state, record.arrival_ms - self.grace_ms)

    def step(self, state: int, item: Input) -> tuple[int, int, int]:
        now = now_of(item)
        state = max(state, now - self.grace_ms)
        return state, state, state
