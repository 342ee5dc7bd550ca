"""The largest event time minus a constant; and the perfect watermark, the yardstick, which knows the future records.

With m the largest event time so far, X = m - B. The same rule under three names: Flink's
`BoundedOutOfOrdernessWatermarks` (native m - B - 1, inclusive), and the stream time of Kafka Streams minus the grace of
a window. It is also the delay of a Spark watermark over batches of one record, before an operator with windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import END, UNKNOWN, Input, NotNegativeMs, Record, Strategy, earlier


@dataclass(frozen=True, slots=True)
class BoundedOutOfOrderness(Strategy[int]):
    """X = m - `bound`, as Flink's watermark generator of that name has it; the state is X.

    Native is Flink's inclusive watermark, X - 1; at the end of the input it is `END`. `bound` is in units of event
    time and not negative.
    """

    bound: NotNegativeMs

    def start(self) -> int:
        return UNKNOWN

    def step(self, state: int, item: Input) -> tuple[int, int, int]:
        if isinstance(item, Record):
            state = max(state, earlier(item.event_time, self.bound))
        return state, state, earlier(state, 1)


@dataclass(frozen=True, slots=True)
class StreamTime(Strategy[int]):
    """X = stream time - `grace`, as in Kafka Streams; the state is the stream time, which is also native.

    A window is closed when its end is at most X, a session when its last record is before X. This does not cover a join
    of two streams: it drops no record by its grace, but finds no match once its store has expired it. Only records move
    X, not even the end of the input. Source: `KStreamWindowAggregate`, `KStreamSessionWindowAggregate` and
    `KStreamKStreamJoin` of Kafka 4.
    """

    grace: NotNegativeMs

    def start(self) -> int:
        return UNKNOWN

    def step(self, state: int, item: Input) -> tuple[int, int, int]:
        if isinstance(item, Record):
            state = max(state, item.event_time)
        return state, *self.at_end(state)

    def at_end(self, state: int) -> tuple[int, int]:
        return earlier(state, self.grace), state


@dataclass(frozen=True, slots=True)
class PerfectWatermark(Strategy[int]):
    """X = the smallest event time still to come, `END` after the last record; also native. `of` makes it from a log.

    No record is late, and no other watermark without late records is ever larger. It is not causal: no engine can have
    it. The state is the number of records so far. Raises `ModelError` for a record that is not the next of the log.
    """

    event_times: tuple[int, ...] = field(repr=False)
    """The event times of the whole log, in the order of arrival, in ms."""
    least: tuple[int, ...] = field(repr=False)
    """The least event time from each row of the log on; `END` behind the last."""

    @classmethod
    def of(cls, event_times: Iterable[int]) -> PerfectWatermark:
        """The perfect watermark of a log, from its event times in order of arrival."""
        times = tuple(event_times)
        return cls(times, tuple(accumulate(reversed(times), min, initial=END))[::-1])

    def start(self) -> int:
        return 0

    def step(self, state: int, item: Input) -> tuple[int, int, int]:
        if isinstance(item, Record):
            if state >= len(self.event_times) or self.event_times[state] != item.event_time:
                raise ModelError(
                    f"Record {state + 1} with event time {item.event_time} is not that of the log.",
                    remedy="Make the perfect watermark from the log that it runs over.",
                )
            state += 1
        return state, self.least[state], self.least[state]

    def met(self, state: int, x: int, record: Record) -> int:
        return self.least[state]
