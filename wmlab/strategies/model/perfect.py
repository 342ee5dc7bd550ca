"""The perfect watermark: the yardstick of all others, which needs to know what is still to come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import END, Input, Record, Strategy


@dataclass(frozen=True, slots=True)
class PerfectWatermark(Strategy[int]):
    """X = the least event time still to come, `END` after the last record; also native. Made from a log by `of`.

    No record is late, and no other watermark of which this is true is ever larger. It is not causal: no engine can
    have it. The state is the number of records so far. Raises `ModelError` for a record that is not the next of the
    log.
    """

    event_times: tuple[int, ...] = field(repr=False)
    least: tuple[int, ...] = field(repr=False)
    """The least event time from each place of the log on; `END` behind the last."""

    @classmethod
    def of(cls, event_times: Iterable[int]) -> PerfectWatermark:
        """That of a log, from its event times in order of arrival."""
        times = tuple(event_times)
        return cls(times, tuple(accumulate(reversed(times), min, initial=END))[::-1])

    def start(self) -> int:
        return 0

    def step(self, state: int, given: Input) -> tuple[int, int, int]:
        if isinstance(given, Record):
            if state >= len(self.event_times) or self.event_times[state] != given.event_time:
                raise ModelError(
                    f"Record {state + 1} with event time {given.event_time} is not that of the log.",
                    remedy="Make the perfect watermark from the log that it runs over.",
                )
            state += 1
        return state, self.least[state], self.least[state]

    def met(self, state: int, x: int, record: Record) -> int:
        return self.least[state]
