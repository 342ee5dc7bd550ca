"""Engines with one short rule: bytewax, Feldera and RisingWave.

Samza's is `writers.PerWriterMinimum` with an idle timeout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from wmlab.strategies.model.strategy import UNKNOWN, Input, NotNegative, Positive, Record, Status, Strategy, minus
from wmlab.strategies.model.writers import Minimum


class Clock(NamedTuple):
    """A key's watermark, and the wall clock when it was set."""

    base: int
    at: int


@dataclass(slots=True)
class Clocks:
    """The clocks by key, and the wall clock, which does not go back."""

    by_key: dict[str, Clock] = field(default_factory=dict)
    now: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class Bytewax(Strategy[Clocks]):
    """For each key, its largest time less `wait` when that record came, and from then on as fast as the wall clock.

    X is never less than it was, so a record that would set it back does not. `wait` is in milliseconds, as event times
    are. Native is X. Source: `EventClock` of bytewax 0.21, whose clock does not go back, either.
    """

    keyed: ClassVar[bool] = True
    wait: NotNegative

    def start(self) -> Clocks:
        return Clocks()

    def met(self, state: Clocks, x: int, record: Record) -> int:
        clock = state.by_key.get(record.key)
        return UNKNOWN if clock is None else clock.base + max(state.now, record.arrival_ms) - clock.at

    def step(self, state: Clocks, given: Input) -> tuple[Clocks, int, int]:
        state.now = max(state.now, given.arrival_ms if isinstance(given, Record) else given.now_ms)
        if isinstance(given, Record):
            x, base = self.met(state, UNKNOWN, given), given.event_time - self.wait
            if base > x:
                state.by_key[given.key] = Clock(base, state.now)
                x = base
        else:
            x = min((clock.base + state.now - clock.at for clock in state.by_key.values()), default=UNKNOWN)
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

    lateness: NotNegative
    rows: Positive = 1
    manual: int = UNKNOWN

    def start(self) -> Waterline:
        return Waterline(used=self.manual)

    def met(self, state: Waterline, x: int, record: Record) -> int:
        return state.used

    def step(self, state: Waterline, given: Input) -> tuple[Waterline, int, int]:
        if isinstance(given, Record):
            largest, rows = max(state.largest, given.event_time), state.rows + 1
            if rows < self.rows:
                state = Waterline(largest, rows, state.used)
            else:
                state = Waterline(largest, 0, max(state.used, minus(largest, self.lateness)))
        return state, state.used, state.used


@dataclass(frozen=True, slots=True)
class RisingWave(Strategy[Minimum]):
    """The least over the writers of their largest times, less `bound`; a silent one takes the largest of all.

    Silent is who sent nothing for more than `idle_ms`, so that X comes to the largest time if all are; the least of
    those that send otherwise. Native is X. Source: risingwave#11554.
    """

    bound: NotNegative
    idle_ms: Positive

    def start(self) -> Minimum:
        return Minimum(self.idle_ms, flush=True)

    def met(self, state: Minimum, x: int, record: Record) -> int:
        return state.advance(record.arrival_ms)

    def step(self, state: Minimum, given: Input) -> tuple[Minimum, int, int]:
        if isinstance(given, Record):
            state.advance(given.arrival_ms)
            x = state.put(given.writer, minus(given.event_time, self.bound), given.arrival_ms)
        elif isinstance(given, Status):
            x = state.advance(given.now_ms)
        else:
            x = state.tell(given)
        return state, x, x
