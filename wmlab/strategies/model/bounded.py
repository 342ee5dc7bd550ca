"""The largest event time less a constant: bounded out-of-orderness, stream time with grace.

With m the largest event time so far, X = m - B. The same rule under three names: Flink's
`BoundedOutOfOrdernessWatermarks` (native m - B - 1, inclusive), the stream time of Kafka Streams less the grace of a
window, and the delay of a Spark watermark over batches of one record.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.strategies.model.strategy import UNKNOWN, Input, NotNegative, Record, Strategy, minus


@dataclass(frozen=True, slots=True)
class BoundedOutOfOrderness(Strategy[int]):
    """X = m - `bound`, as Flink's watermark generator of that name has it; the state is X.

    Native is Flink's inclusive watermark, X - 1; at the end of the input it is `END`. `bound` is in units of event
    time and not negative.
    """

    bound: NotNegative

    def start(self) -> int:
        return UNKNOWN

    def step(self, state: int, given: Input) -> tuple[int, int, int]:
        if isinstance(given, Record):
            state = max(state, minus(given.event_time, self.bound))
        return state, state, minus(state, 1)


@dataclass(frozen=True, slots=True)
class StreamTime(Strategy[int]):
    """X = stream time - `grace`, as in Kafka Streams; the state is the stream time, which is also native.

    A window is closed when its end is at most X. Nothing but a record moves it, the end of the input neither.
    """

    grace: NotNegative

    def start(self) -> int:
        return UNKNOWN

    def step(self, state: int, given: Input) -> tuple[int, int, int]:
        if isinstance(given, Record):
            state = max(state, given.event_time)
        return state, *self.at_end(state)

    def at_end(self, state: int) -> tuple[int, int]:
        return minus(state, self.grace), state
