"""Engines with one short rule: bytewax, Feldera and RisingWave.

Samza's is `writers.PerWriterMinimum` with an idle timeout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from wmlab.strategies.model.strategy import (
    END,
    UNKNOWN,
    EndOfInput,
    Input,
    Record,
    Status,
    Strategy,
    Tick,
    minus,
    require_positive,
)


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
    wait: int

    def start(self) -> Clocks:
        return Clocks()

    def met(self, state: Clocks, x: int, record: Record) -> int:
        clock = state.by_key.get(record.key)
        return UNKNOWN if clock is None else clock.base + max(state.now, record.arrival_ms) - clock.at

    def step(self, state: Clocks, given: Input) -> tuple[Clocks, int, int]:
        if isinstance(given, EndOfInput):
            return state, END, END
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

    lateness: int
    rows: int = 1
    manual: int = UNKNOWN

    def __post_init__(self) -> None:
        require_positive(rows=self.rows)

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
        elif isinstance(given, EndOfInput):
            state = state._replace(used=END)
        return state, state.used, state.used


class Seen(NamedTuple):
    """A writer's largest time, and when it last sent."""

    largest: int
    at: int


@dataclass(slots=True)
class Inputs:
    """The writers, X, and the moment that it is of."""

    writers: dict[str, Seen] = field(default_factory=dict)
    x: int = UNKNOWN
    now: int | None = None


@dataclass(frozen=True, slots=True)
class RisingWave(Strategy[Inputs]):
    """The least over the writers of their largest times, less `bound`; a silent one takes the largest of all.

    Silent is who sent nothing for more than `idle_ms`, so that X comes to the largest time if all are; the least of
    those that send otherwise. Native is X. Source: risingwave#11554.
    """

    bound: int
    idle_ms: int

    def start(self) -> Inputs:
        return Inputs()

    def met(self, state: Inputs, x: int, record: Record) -> int:
        if record.arrival_ms != state.now:
            self._advance(state, record.arrival_ms)
        return state.x

    def step(self, state: Inputs, given: Input) -> tuple[Inputs, int, int]:
        if isinstance(given, Record):
            self.met(state, state.x, given)
            time, writers = given.event_time, state.writers
            before = writers.get(given.writer)
            largest = time if before is None or time > before.largest else before.largest
            writers[given.writer] = Seen(largest, given.arrival_ms)
            self._advance(state, given.arrival_ms)
        elif isinstance(given, Tick | Status):
            self._advance(state, given.now_ms)
        elif isinstance(given, EndOfInput):
            state.x = END
        return state, state.x, state.x

    def _advance(self, state: Inputs, now: int) -> None:
        state.now = now
        if state.writers:
            since = now - self.idle_ms
            awake = [time for time, at in state.writers.values() if at >= since]
            least = min(awake) if awake else max(time for time, _ in state.writers.values())
            state.x = max(state.x, minus(least, self.bound))
