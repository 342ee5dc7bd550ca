"""Beam: the watermarks of a transform, estimators of sources, KafkaIO, and the aggregator of the Kafka Streams runner.

Watermarks are exclusive, as X is. Source: `WatermarkManager`, `WatermarkEstimators`, `LateDataDroppingDoFnRunner` and
`CustomTimestampPolicyWithLimitedDelay` of Beam 2.77 for Java.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import END, UNKNOWN, Input, NotNegative, Record, Strategy, minus

DelayRule = Literal["fixed", "beam_40176"]
"""`beam_40176`: a partition moves with the wall clock only after a record with a time above 0, so one that never had
a record holds the watermark for ever."""

SdkRule = Literal["fixed", "python_2_77"]
"""`python_2_77`: the direct runner of the Python SDK. The output falls to a hold that is set below it, an element that
waits holds its time less one, and a window takes records until the watermark is past the lateness, not at it."""


class Transform(NamedTuple):
    """The input and output watermark of a transform."""

    arriving: int = UNKNOWN
    leaving: int = UNKNOWN


def transform(
    state: Transform,
    upstream: Iterable[int],
    pending: Iterable[int] = (),
    holds: Iterable[int] = (),
    rule: SdkRule = "fixed",
) -> Transform:
    """The watermarks of a transform, which do not fall.

    In is the least of the outputs upstream and the times of elements that wait; out the least of in, the holds and the
    output times of timers.
    """
    python = rule == "python_2_77"
    arriving = max(state.arriving, min((*upstream, *(minus(time, int(python)) for time in pending)), default=END))
    return Transform(arriving, max(UNKNOWN if python else state.leaving, min((arriving, *holds))))


def is_open(end: int, watermark: int, lateness: int = 0, rule: SdkRule = "fixed") -> bool:
    """Whether a window that ends before `end` still takes records; those that come from `end` on make late panes.

    >>> is_open(10, 14, 5), is_open(10, 15, 5), is_open(10, 15, 5, "python_2_77")
    (True, False, True)
    """
    return watermark < minus(end, -lateness) + (rule == "python_2_77")


def manual(before: int, time: int) -> int:
    """A watermark that the source sets; raises ModelError if it falls."""
    if time < before:
        raise ModelError(f"The watermark falls from {before} to {time}.", remedy="Set one that is not less.")
    return time


def monotonic(before: int, time: int) -> int:
    """The watermark when it is asked for: `time` is that of the last record or, for the estimator of wall time, now.

    Of the records between two questions only the last one counts.
    """
    return max(before, time)


def limited_delay(largest: int, now: int, delay: int, *, check: int | None = None, rule: DelayRule = "fixed") -> int:
    """The watermark of a KafkaIO partition; `check` is when it was seen that no record waits, None if one does.

    >>> limited_delay(900, 1000, 60), limited_delay(2000, 1000, 60), limited_delay(900, 1300, 60, check=1290)
    (840, 940, 1230)
    """
    if largest > now:
        return minus(now, delay)
    if check is not None and check - delay > largest and (rule == "fixed" or largest > 0):
        return minus(check, delay)
    return minus(largest, delay)


@dataclass(slots=True)
class DelayState:
    """The largest time of each partition, X, and the least of the times that `now` and the delay do not replace."""

    largest: dict[str, int] = field(default_factory=dict)
    x: int = UNKNOWN
    least: int | None = None


@dataclass(frozen=True, slots=True)
class LimitedDelay(Strategy[DelayState]):
    """The least over the writers, KafkaIO's partitions, of `limited_delay`; every record is read when it arrives.

    `delay` is in units of event time, which is milliseconds here since it is taken from the wall clock as well. Times
    in the future count as now. `writers` are there from the beginning, others from their first record. Native is X.
    The watermark of a partition may fall when a late record ends its silence, as in KafkaIO's unbounded source; its
    splittable DoFn keeps each from falling, as `aggregate` does, and so can be ahead.
    """

    delay: NotNegative
    writers: tuple[str, ...] = ()
    rule: DelayRule = "fixed"

    def start(self) -> DelayState:
        return DelayState(dict.fromkeys(self.writers, UNKNOWN))

    def met(self, state: DelayState, x: int, record: Record) -> int:
        self._advance(state, record.arrival_ms)
        return state.x

    def step(self, state: DelayState, given: Input) -> tuple[DelayState, int, int]:
        now = given.arrival_ms if isinstance(given, Record) else given.now_ms
        self._advance(state, now)
        if isinstance(given, Record):
            before = state.largest.setdefault(given.writer, UNKNOWN)
            if given.event_time > before:
                state.largest[given.writer] = given.event_time
                if before == state.least or (state.least is not None and given.event_time < state.least):
                    state.least = None
            self._advance(state, now)
        return state, state.x, state.x

    def _advance(self, state: DelayState, now: int) -> None:
        """The least of `limited_delay` with `check` = `now`: all but the times that count are `now` less the delay."""
        least, early, bug = state.least, now - self.delay, self.rule == "beam_40176"
        if not state.largest:
            return
        if least is None or not (early <= least or (bug and least <= 0)):
            counted = [time for time in state.largest.values() if early <= time < now or (bug and time <= 0)]
            state.least = min(counted, default=None)
        state.x = max(state.x, minus(now if state.least is None else state.least, self.delay))


def aggregate(
    reports: Mapping[Hashable, int | None], partition: Hashable, watermark: int
) -> dict[Hashable, int | None]:
    """The reports of the partitions after one more; that of a partition does not fall."""
    before = reports[partition]
    return {**reports, partition: watermark if before is None else max(before, watermark)}


def aggregated(reports: Mapping[Hashable, int | None]) -> int | None:
    """The least of all reports; None until every partition has reported."""
    known = [report for report in reports.values() if report is not None]
    return min(known) if len(known) == len(reports) else None
