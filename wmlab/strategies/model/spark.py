"""The watermark of Spark Structured Streaming: it moves between batches, and never inside one.

What a stateful operator drops depends on its watermark column. W is the watermark of the batch before, t the time of a
row:

    operator                                                        drops             X
    window, session_window, a join on windows                       window end <= W   W
    groupBy of the time itself                                      t <= W            W + 1
    dropDuplicates, dropDuplicatesWithinWatermark                   t <= W            W + 1
    stream-stream join by times                                     t <= W            W + 1
    transformWithState in the time mode EventTime                   t <= W            W + 1
    applyInPandasWithState with EventTimeTimeout                    t <= W            W + 1
    transformWithState, applyInPandasWithState without event time   nothing           (no watermark)

The shortest window, of one unit of time, ends at t + 1, so X = W is exact for it; a longer window takes rows that are
older, until its end. The watermark is 0 before the first batch, so the rows below it, and in the lines with t <= W also
those at 0, are dropped from the first batch on.

Source: `EventTimeWatermarkExec`, `WatermarkTracker` and `WatermarkPropagator` of Spark 4 (SPARK-42376, since 3.5);
`WatermarkSupport.watermarkExpression`, which compares with `<=` the end of a window or the time itself (apache/spark
pull request 56043 would mend a delay of 0, and was closed). The table as Spark 4.3.0 answers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import (
    UNKNOWN,
    Input,
    NotNegative,
    NotNegativeMs,
    Positive,
    PositiveMs,
    Record,
    Strategy,
    require_argument,
)

WatermarkPolicy = Literal["min", "max"]
"""`spark.sql.streaming.multipleWatermarkPolicy`."""

StatefulOperator = Literal[
    "window",
    "groupBy",
    "dropDuplicates",
    "dropDuplicatesWithinWatermark",
    "join",
    "transformWithState",
    "applyInPandasWithState",
]
"""The stateful operator that drops late rows, by its name in Spark."""


class QueryWatermarks(NamedTuple):
    """What a query knows between two batches: the watermark of each node by its name, and the query's.

    `late` is the one of the batch before: rows are dropped by it, while `watermark` removes state.
    """

    nodes: Mapping[Hashable, int]
    watermark: int = 0
    late: int = 0


def watermarks(delays: Mapping[Hashable, int]) -> QueryWatermarks:
    """The state of a query with a delay for each `withWatermark`; raises ModelError for one that is negative."""
    for delay in delays.values():
        require_argument("delay", delay, NotNegative)
    return QueryWatermarks(dict.fromkeys(delays, 0))


def after_batch(
    state: QueryWatermarks,
    largest: Mapping[Hashable, int],
    delays: Mapping[Hashable, int],
    policy: WatermarkPolicy = "min",
) -> QueryWatermarks:
    """The state after a batch, given the largest time of each node that had rows; nothing falls, or is below 0.

    >>> delays = {"a": 10, "b": 5}
    >>> after_batch(after_batch(watermarks(delays), {"a": 11}, delays), {"b": 6}, delays)
    QueryWatermarks(nodes={'a': 1, 'b': 1}, watermark=1, late=0)
    """
    nodes = {
        node: max(before, largest[node] - delays[node]) if node in largest else before
        for node, before in state.nodes.items()
    }
    of_all = (min if policy == "min" else max)(nodes.values(), default=0)
    return QueryWatermarks(nodes, max(state.watermark, of_all), state.watermark)


def after_restart(state: QueryWatermarks) -> QueryWatermarks:
    """What a query that is started again finds in its checkpoint: the query's watermarks, not those of the nodes."""
    return state._replace(nodes=dict.fromkeys(state.nodes, 0))


def first_on_time(watermark: int, operator: StatefulOperator) -> int:
    """The smallest time that an operator keeps at a watermark; of windows, those of one unit of time.

    >>> first_on_time(20, "window"), first_on_time(20, "dropDuplicates")
    (20, 21)
    """
    return watermark if operator == "window" else watermark + 1


def delay_of_bound(bound_ms: int, operator: StatefulOperator) -> int:
    """The delay (ms) with which an operator keeps what is at most `bound_ms` behind the largest time, and no more.

    >>> delay_of_bound(500, "window"), delay_of_bound(500, "dropDuplicates")
    (500, 501)
    """
    return bound_ms + first_on_time(0, operator)


@dataclass(slots=True)
class SparkState:
    """The query between and within batches, written in place; `batch` is the number of the running interval."""

    marks: QueryWatermarks
    largest: dict[Hashable, int] = field(default_factory=dict)
    batch: int | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class SparkBatches(Strategy[SparkState]):
    """The largest time of a node minus `delay`, taken at the end of each batch; the smallest or largest over the nodes.

    A batch has the records of `trigger_ms` of the wall clock, or `rows` records; `streams` are writers with their own
    watermark (none: all writers are one stream). `operator` is the stateful operator that follows, which decides
    whether a record exactly at the watermark is late: with "window" (also session windows and joins on windows) it is
    not, and rows of a window are late if its end is at most what they meet; with all others it is. X is the watermark
    of the batch, which removes state, and 1 more where a record at it is late; native is the watermark. A record meets
    that of the batch before (`late="previous"`, since 3.4), unless a batch without data came between, which runs
    as soon as an interval has no record. `late="current"` is Spark before 3.4. Until a batch moves the watermark from
    0, X is unknown, although records before 1970 are late. Source: Spark 4.

    >>> from wmlab.strategies.model.strategy import run
    >>> log = [Record(time, arrival) for arrival, time in enumerate([10, 20, 20, 20, 20, 20, 30, 31])]
    >>> drops = SparkBatches(0, rows=2, operator="dropDuplicates")
    >>> [record.event_time < step.met for record, step in zip(log, run(drops, log), strict=True)]
    [False, False, False, False, True, True, False, False]
    """

    delay: NotNegativeMs
    trigger_ms: PositiveMs | None = None
    rows: Positive | None = None
    streams: tuple[str, ...] = ()
    policy: WatermarkPolicy = "min"
    """Which watermark counts where a query has several sources: the least or the largest."""
    late: Literal["previous", "current"] = "previous"
    operator: StatefulOperator = "window"

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)
        if (self.trigger_ms is None) == (self.rows is None):
            raise ModelError(f"trigger_ms is {self.trigger_ms} and rows is {self.rows}.", remedy="Give one of the two.")

    def start(self) -> SparkState:
        return SparkState(watermarks(self._delays()))

    def met(self, state: SparkState, x: int, record: Record) -> int:
        self._begin(state, record.arrival_ms, data=True)
        return first_on_time(state.marks.late if self.late == "previous" else state.marks.watermark, self.operator)

    def step(self, state: SparkState, item: Input) -> tuple[SparkState, int, int]:
        if isinstance(item, Record):
            self._begin(state, item.arrival_ms, data=True)
            node = item.writer if self.streams else ""
            state.largest[node] = max(state.largest.get(node, item.event_time), item.event_time)
            state.rows += 1
        else:
            self._begin(state, item.now_ms, data=False)
        return state, *self.at_end(state)

    def at_end(self, state: SparkState) -> tuple[int, int]:
        # The 0 that Spark begins with says nothing of the records.
        x = first_on_time(state.marks.watermark, self.operator) if state.marks.watermark > 0 else UNKNOWN
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
