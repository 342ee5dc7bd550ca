"""Kafka Streams: partition groups and windows. Beam: transforms, estimators, KafkaIO, the aggregator of its runner."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import pytest

from tests.conformance.fields import Fields, UnknownFormatError, expect, expect_if, lookup, steps_of
from tests.strategies.oracles import beam_rules, kafka_rules
from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import UNKNOWN

ESTIMATED: Final = {"manual": "set", "monotonic": "ts", "walltime": "now"}
"""What a source tells each kind of estimator."""


def run_partition_group(case: Fields) -> None:
    """Records of partitions, and which is processed next."""
    group = kafka_rules.PartitionGroup({})
    for time in case.take("set_partition_time", {}).values():
        group = group.restored(time)
    for step in steps_of(case) if "steps" in case else ():
        if "add" in step:
            partition, times = step.take("add")
            group = group.add(partition, *times)
            continue
        heads = {times[0] for times in group.waiting.values() if times}
        group, time, late = group.poll()
        if "poll_in" in step:
            possible = set(step.take("poll_in"))
            assert time in possible, f"{time} of {possible}"
            assert possible <= heads, f"{possible} of {heads}"
        else:
            expect("poll", time, step.take("poll"))
        expect_if(step, stream_time=group.stream_time, late_by=late)
    expect_if(case, stream_time=group.stream_time)


def run_windows(case: Fields) -> None:
    """Records, the windows that do not take them, and the final results by the record that brings them."""
    size, grace, records = case.take("size"), case.take("grace"), case.take("records")
    advance, stream_time = case.take("advance", size), UNKNOWN
    held: dict[int, list[int]] = {}
    skipped: dict[str, list[int]] = {}
    finals: dict[str, list[Any]] = {}
    lateness = []
    for time in records:
        stream_time = max(stream_time, time)
        lateness.append(stream_time - time)
        for start in windows_of(time, size, advance):
            if kafka_rules.is_open(start + size, stream_time, grace):
                held.setdefault(start, []).append(time)
            else:
                skipped.setdefault(f"[{start},{start + size})", []).append(time)
        for start in sorted(s for s in held if not kafka_rules.is_open(s + size, stream_time, grace)):
            finals.setdefault(str(time), []).append([start, start + size, held.pop(start)])
    expect_if(
        case,
        skipped_windows=skipped,
        skipped_records=sum(map(len, skipped.values())),
        finals_at=finals,
        max_late=max(lateness),
        avg_late=round(sum(lateness) / len(lateness), 1),
        closed_until=stream_time - grace,
    )


def windows_of(time: int, size: int, advance: int) -> Iterator[int]:
    """The starts of the windows with a time, from the earliest, which is not before 0."""
    first = max(0, time - size + advance) // advance * advance
    return iter(range(first, time + 1, advance))


def run_rule(case: Fields) -> None:
    """The rules in words."""
    grid = list(product(range(6), repeat=3))
    for name, text in case.rest().items():
        match name, text:
            case "stream_time", "running max of ts of processed records (per task; operators keep their own copy)":
                assert kafka_rules.PartitionGroup({}).add("p", 5, 3).poll()[0].poll()[0].stream_time == 5
            case "accept", "window_end > stream_time - grace":
                assert all(kafka_rules.is_open(end, time, grace) == (end > time - grace) for end, time, grace in grid)
            case "final", "window_end <= stream_time - grace":
                assert all(kafka_rules.is_open(end, time, grace) != (end <= time - grace) for end, time, grace in grid)
            case "monotone", True:
                assert kafka_rules.PartitionGroup({}, 9).add("p", 3).poll()[0].stream_time == 9
            case "idle", "no idleness: a silent task never advances; no punctuation by wall clock":
                assert kafka_rules.PartitionGroup({"silent": ()}, 9).add("p", 3).poll()[0].stream_time == 9
            case _:
                raise UnknownFormatError(f"rule {name!r}: {text!r}")


def run_transform(case: Fields) -> None:
    """The two rules of a transform in words, over small values."""
    expected = [
        "in=max(prev_in,min(upstream outputs,pending element min ts))",
        "out=max(prev_out,min(in,holds,earliest processing/event timer output ts))",
    ]
    expect("rule", case.take("rule"), expected)
    for before_in, before_out, upstream, pending, hold in product(range(3), repeat=5):
        found = beam_rules.transform(
            beam_rules.TransformWatermarks(before_in, before_out), [upstream], [pending], [hold]
        )
        arriving = max(before_in, min(upstream, pending))
        assert found == beam_rules.TransformWatermarks(arriving, max(before_out, min(arriving, hold)))


def run_estimator(case: Fields) -> None:
    """What a source tells its estimator, and the watermark after it."""
    kind, watermark = case.take("kind"), UNKNOWN
    given = lookup("kind", kind, ESTIMATED)
    estimate = beam_rules.manual if kind == "manual" else beam_rules.monotonic
    for step in steps_of(case):
        time = step.take(given)
        if "error" in step:
            expect("error", step.take("error"), True)
            with pytest.raises(ModelError):
                estimate(watermark, time)
            continue
        watermark = estimate(watermark, time)
        expect("wm", watermark, step.take("wm"))


def run_limited_delay(case: Fields) -> None:
    """One partition at one moment."""
    now = case.take("now")
    check = case.take("check_time", now) if case.take("backlog") == 0 else None
    case.take("check_time", None)
    found = beam_rules.limited_delay(case.take("max_ts"), now, case.take("max_delay"), check=check)
    expect("wm", found, case.take("wm"))


def run_reports(case: Fields) -> None:
    """Reports of partitions and the watermark over all of them."""
    reports: dict[Any, int | None] = dict.fromkeys(range(case.take("partitions")))
    for step in steps_of(case):
        reports = beam_rules.aggregate(reports, step.take("partition"), step.take("report"))
        expect("aggregate", beam_rules.aggregated(reports), step.take("aggregate"))
