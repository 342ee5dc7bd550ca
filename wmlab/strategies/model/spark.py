"""The watermark of Spark Structured Streaming: it moves between batches, and never inside one.

Source: `EventTimeWatermarkExec`, `WatermarkTracker` and `WatermarkPropagator` of Spark 4 (SPARK-42376, since 3.5).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import UNKNOWN, Input, NotNegative, Positive, Record, Strategy

Policy = Literal["min", "max"]
"""`spark.sql.streaming.multipleWatermarkPolicy`."""


class Watermarks(NamedTuple):
    """What a query knows between two batches: the watermark of each node by its name, and the query's.

    `late` is the one of the batch before: rows are dropped by it, while `watermark` removes state.
    """

    nodes: Mapping[Hashable, int]
    watermark: int = 0
    late: int = 0


def watermarks(delays: Mapping[Hashable, int]) -> Watermarks:
    """The state of a query with a delay for each `withWatermark`; raises ModelError for one that is negative."""
    for delay in delays.values():
        delay_ms(ms=delay)
    return Watermarks(dict.fromkeys(delays, 0))


def after_batch(
    state: Watermarks, largest: Mapping[Hashable, int], delays: Mapping[Hashable, int], policy: Policy = "min"
) -> Watermarks:
    """The state after a batch, given the largest time of each node that had rows; nothing falls, or is below 0.

    >>> delays = {"a": 10, "b": 5}
    >>> after_batch(after_batch(watermarks(delays), {"a": 11}, delays), {"b": 6}, delays)
    Watermarks(nodes={'a': 1, 'b': 1}, watermark=1, late=0)
    """
    nodes = {
        node: max(before, largest[node] - delays[node]) if node in largest else before
        for node, before in state.nodes.items()
    }
    of_all = (min if policy == "min" else max)(nodes.values(), default=0)
    return Watermarks(nodes, max(state.watermark, of_all), state.watermark)


def restart(state: Watermarks) -> Watermarks:
    """What a query that is started again finds in its checkpoint: the query's watermarks, not those of the nodes."""
    return state._replace(nodes=dict.fromkeys(state.nodes, 0))


def redefine(defined: Collection[Hashable], stream: Hashable) -> None:
    """Raises ModelError if a stream has a watermark already, as Spark 4 does."""
    if stream in defined:
        raise ModelError(f"{stream!r} has a watermark already.", remedy="Define one watermark for each stream.")


def delay_ms(*, months: int = 0, days: int = 0, ms: int = 0) -> int:
    """The length of a delay in milliseconds; Spark takes a month for 31 days. Raises ModelError if it is negative."""
    length = (months * 31 + days) * 86_400_000 + ms
    if length < 0:
        raise ModelError(f"the delay is {length} ms, which is negative.", remedy="Give a delay of 0 or more.")
    return length


def join_output(left: int, right: int, arriving: int) -> int:
    """The watermark after a join of streams: the least of what it gets and of both states (since 3.5)."""
    return min(left, right, arriving)


@dataclass(slots=True)
class SparkState:
    """The query between and within batches, written in place; `batch` is the number of the running interval."""

    marks: Watermarks
    largest: dict[Hashable, int] = field(default_factory=dict)
    batch: int | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class SparkBatches(Strategy[SparkState]):
    """The largest time of a node less `delay`, taken at the end of each batch; the least or largest over the nodes.

    A batch has the records of `trigger_ms` of the wall clock, or `rows` records; `streams` are writers with a watermark
    of their own (none: all writers are one stream). X is the watermark of the batch, which removes state; a record
    meets that of the batch before (`late="previous"`, since 3.4), unless a batch without data came between, which runs
    as soon as an interval has no record. `late="current"` is Spark before 3.4. Native is the watermark, which is 0
    until a batch moves it: till then X is unknown, although records before 1970 are late. Rows of a window are late if
    its end is at most what they meet. Source: Spark 4.
    """

    delay: NotNegative
    trigger_ms: Positive | None = None
    rows: Positive | None = None
    streams: tuple[str, ...] = ()
    policy: Policy = "min"
    late: Literal["previous", "current"] = "previous"

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)
        if (self.trigger_ms is None) == (self.rows is None):
            raise ModelError(f"trigger_ms is {self.trigger_ms} and rows is {self.rows}.", remedy="Give one of the two.")

    def start(self) -> SparkState:
        return SparkState(watermarks(self._delays()))

    def met(self, state: SparkState, x: int, record: Record) -> int:
        self._begin(state, record.arrival_ms, data=True)
        return state.marks.late if self.late == "previous" else state.marks.watermark

    def step(self, state: SparkState, given: Input) -> tuple[SparkState, int, int]:
        if isinstance(given, Record):
            self._begin(state, given.arrival_ms, data=True)
            node = given.writer if self.streams else ""
            state.largest[node] = max(state.largest.get(node, given.event_time), given.event_time)
            state.rows += 1
        else:
            self._begin(state, given.now_ms, data=False)
        return state, *self.at_end(state)

    def at_end(self, state: SparkState) -> tuple[int, int]:
        # The 0 that Spark begins with says nothing of the records.
        x = state.marks.watermark if state.marks.watermark > 0 else UNKNOWN
        return x, state.marks.watermark

    def _delays(self) -> dict[Hashable, int]:
        return dict.fromkeys(self.streams or ("",), self.delay)

    def _begin(self, state: SparkState, now: int, *, data: bool) -> None:
        """Ends the running batch if another begins at `now`."""
        if self.rows is not None:
            if data and state.rows >= self.rows:
                self._end(state)
            return
        number = now // (self.trigger_ms or 1)
        if state.batch is None:
            state.batch = number
        if number <= state.batch:
            return
        quiet = not state.rows or number > state.batch + 1
        if state.rows:
            self._end(state)
        if quiet:
            state.marks = state.marks._replace(late=state.marks.watermark)
        state.batch = number

    def _end(self, state: SparkState) -> None:
        state.marks = after_batch(state.marks, state.largest, self._delays(), self.policy)
        state.largest.clear()
        state.rows = 0
