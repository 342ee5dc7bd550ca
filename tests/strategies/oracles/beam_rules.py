"""What Beam does around the watermark of a source: transforms, windows, estimators, and the least over partitions.

Source: `WatermarkManager`, `WatermarkEstimators`, `LateDataDroppingDoFnRunner` and
`CustomTimestampPolicyWithLimitedDelay` of Beam 2.77 for Java, and the aggregator of the Kafka Streams runner.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Literal, NamedTuple

from wmlab.core.errors import ModelError
from wmlab.strategies.model.engines import DelayRule
from wmlab.strategies.model.strategy import END, UNKNOWN, earlier

SdkRule = Literal["fixed", "python_2_77"]
"""`python_2_77`: the direct runner of the Python SDK. The output falls to a hold that is set below it, an element that
waits holds its time less one, and a window takes records until the watermark is past the lateness, not at it."""


class TransformWatermarks(NamedTuple):
    """The input and output watermark of a transform."""

    input: int = UNKNOWN
    output: int = UNKNOWN


def transform(
    state: TransformWatermarks,
    upstream: Iterable[int],
    pending: Iterable[int] = (),
    holds: Iterable[int] = (),
    rule: SdkRule = "fixed",
) -> TransformWatermarks:
    """The watermarks of a transform, which do not fall.

    In is the least of the outputs upstream and the times of elements that wait; out the least of in, the holds and the
    output times of timers.
    """
    python = rule == "python_2_77"
    of_input = max(state.input, min((*upstream, *(earlier(time, int(python)) for time in pending)), default=END))
    return TransformWatermarks(of_input, max(UNKNOWN if python else state.output, min((of_input, *holds))))


def takes_records(end: int, watermark: int, lateness: int = 0, rule: SdkRule = "fixed") -> bool:
    """Whether a window that ends before `end` still takes records; those that come from `end` on make late panes."""
    return watermark < earlier(end, -lateness) + (rule == "python_2_77")


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
    """The watermark of a KafkaIO partition; `check` is when it was seen that no record waits, None if one does."""
    if largest > now:
        return earlier(now, delay)
    if check is not None and check - delay > largest and (rule == "fixed" or largest > 0):
        return earlier(check, delay)
    return earlier(largest, delay)


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
