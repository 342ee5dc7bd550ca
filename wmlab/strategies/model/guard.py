"""A guard around any strategy: a record whose event time is too far ahead does not move the watermark.

The largest event time never falls. One record with a clock that is a day ahead makes all records late that arrive
within the next day, whatever the bound. Behind the guard such a record is seen as a moment of the wall clock only: it
moves no maximum, enters no quantile, and does not make its writer active. It is judged as any other record; since its
event time is far ahead, it is not late.

No engine has this as a setting. In Flink it is a `WatermarkGenerator` of your own, whose `onEvent` ignores the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from wmlab.strategies.model.strategy import UNKNOWN, Input, NotNegativeMs, Record, Strategy, Tick, earlier


@dataclass(slots=True)
class GuardState:
    """The state of the strategy within; the largest event time, its writer, and the largest of the others."""

    inner: Any
    largest: int = UNKNOWN
    writer: str | None = None
    of_others: int = UNKNOWN

    def beyond_others(self, record: Record) -> int:
        """The largest event time that other writers than that of `record` have sent before it, which is noted."""
        time, others = record.event_time, self.largest if record.writer != self.writer else self.of_others
        if record.writer == self.writer:
            self.largest = max(self.largest, time)
        elif time > self.largest:
            self.largest, self.writer, self.of_others = time, record.writer, self.largest
        else:
            self.of_others = max(self.of_others, time)
        return others


@dataclass(frozen=True, slots=True)
class Guarded(Strategy[GuardState]):
    """The watermark of `inner`, which does not receive records whose event time is more than `ahead_ms` ahead.

    With `beyond="arrival"`, a record is compared with its arrival, which needs clocks that agree. With
    `beyond="writers"`, it is compared with the largest event time that any other writer has sent, guarded or not; no
    record passes before a second writer has sent one, and two writers with the same wrong clock confirm each other.
    `inner` receives the arrival of a guarded record as a tick. Native is that of `inner`.
    """

    inner: Strategy[Any]
    ahead_ms: NotNegativeMs
    beyond: Literal["arrival", "writers"] = "arrival"

    @property
    def keyed(self) -> bool:  # type: ignore[override]
        """Whether the strategy within has a watermark for each key."""
        return self.inner.keyed

    def start(self) -> GuardState:
        return GuardState(self.inner.start())

    def met(self, state: GuardState, x: int, record: Record) -> int:
        return self.inner.met(state.inner, x, record)

    def step(self, state: GuardState, item: Input) -> tuple[GuardState, int, Any]:
        if not (isinstance(item, Record) and self._too_far(state, item)):
            state.inner, x, native = self.inner.step(state.inner, item)
            return state, x, native
        state.inner, x, native = self.inner.step(state.inner, Tick(item.arrival_ms))
        # After a tick, X of a strategy with a watermark for each key is the least; the caller wants that of this key.
        return state, self.inner.met(state.inner, x, item) if self.keyed else x, native

    def at_end(self, state: GuardState) -> tuple[int, Any]:
        return self.inner.at_end(state.inner)

    def _too_far(self, state: GuardState, record: Record) -> bool:
        limit = record.arrival_ms if self.beyond == "arrival" else state.beyond_others(record)
        return record.event_time > earlier(limit, -self.ahead_ms)
