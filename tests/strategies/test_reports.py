"""Public reports of 2024 to 2026 with their own numbers: what was seen, and what is right.

Those of Flink's alignment and of its idle timer stand with their rules, in `model/test_alignment.py` and
`model/test_flink.py`; those of Spark's operators in `model/test_engines.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.strategies.logs import DAY_MS, HOUR_MS, ordered
from wmlab import dataflow as flow, strategy, trace
from wmlab.core.values import Problems
from wmlab.strategies.model.strategy import UNKNOWN, Record, run

MINUTE_MS = 60_000


def test_sqlflow_358_a_row_a_day_ahead_makes_ten_others_late_and_none_behind_a_guard() -> None:
    start = 1_789_293_600_000
    rows = [(start + n * MINUTE_MS, start + n * MINUTE_MS + 5_000, "dev1") for n in (0, *range(2, 13))]
    log = ordered(*zip(*rows, (start + DAY_MS, start + 175_000, "fast"), strict=True))
    bounded = strategy.BoundedOutOfOrderness(MINUTE_MS)
    guarded = strategy.Guarded(bounded, ahead_ms=5 * MINUTE_MS)
    comparison = strategy.compare(log, [bounded, guarded], window_ms=MINUTE_MS)
    assert [outcome.late for outcome in comparison] == [10, 0]
    assert set(comparison.late_rows()["writer"]) == {"dev1"}
    finding = trace.profile(log, late_share=0.1)["wrong times"]
    assert (finding.writers, finding.rows, finding.facts["late by them"]) == (("fast",), (3,), 10)


def test_lobu_3327_windows_by_the_wall_clock_lose_what_the_quantiles_of_the_delay_say() -> None:
    shares = [0.0, 0.44, 0.50, 0.80, 0.90, 1.0]
    delays = [0, HOUR_MS, 3 * HOUR_MS + 38 * MINUTE_MS, DAY_MS, 33 * HOUR_MS, 2 * DAY_MS]
    events = MINUTE_MS * np.arange(3 * 24 * 60)
    arrivals = events + np.interp(np.random.default_rng(1).random(len(events)), shares, delays).astype(int)
    log = ordered(events, arrivals, ["w"] * len(events))
    for window_ms, complete in ((HOUR_MS, 0.23), (DAY_MS, 0.61)):
        (outcome,) = strategy.compare(log, [strategy.WallClock(0)], window_ms=window_ms)
        expected = float((arrivals < events // window_ms * window_ms + window_ms).mean())
        assert outcome.complete_mean == pytest.approx(expected, abs=0.02)
        assert expected == pytest.approx(complete, abs=0.01)
    (patient,) = strategy.compare(log, [strategy.WallClock(2 * DAY_MS)])
    assert patient.late == 0


def test_kafka_20099_stream_time_that_is_kept_over_a_restart_drops_the_late_row() -> None:
    before, late = [Record(5, 0), Record(25, 1)], Record(7, 2)
    assert [step.met for step in run(strategy.StreamTime(0), [*before, late])] == [UNKNOWN, 5, 25]
    assert [step.met for step in run(strategy.StreamTime(0), [late])] == [UNKNOWN]


def test_iceberg_15867_the_smallest_time_of_a_split_is_no_inclusive_watermark() -> None:
    split = [10, 10, 12]
    perfect = strategy.PerfectWatermark.of(split)
    (*_,) = steps = list(run(perfect, [Record(time, at) for at, time in enumerate(split)]))
    # X is exclusive, so the smallest time itself may be said; an inclusive watermark is one less.
    assert steps[0].x == min(split)
    assert all(time >= steps[0].x for time in split)
    assert sum(time <= min(split) for time in split) == 2
    assert sum(time <= min(split) - 1 for time in split) == 0


def sessions(more: list[int], *, idle_ms: int, **times: object) -> flow.Recording:
    """The orders of RisingWave 20834, and rows of B at more times."""
    orders = [("ABCD", time) for time in (0, 2_000, 4_000)] + [("B", time) for time in range(5_000, 13_000, 1_000)]
    rows = [(who, time, time + 100) for who, time in [*orders, *(("B", time) for time in more)]]
    event_time = flow.EventTime("t", **times)  # type: ignore[arg-type]
    source = flow.Source(
        "orders",
        columns=("who", "t", "arrival"),
        rows=rows,
        arrival="arrival",
        times=event_time,
        idle_timeout_ms=idle_ms,
    )
    window = flow.SessionWindow("sessions", 5_000, column="t", by="who", aggregates={"n": "count()"})
    edges = ["orders -> sessions -> out"]
    return flow.Dataflow(
        "reported", vertices=[source, window, flow.Sink("out")], edges=edges, duration_ms=60_000
    ).record()


@pytest.mark.parametrize(("time", "count"), [(13_999, 0), (14_000, 0), (14_001, 1)])
def test_risingwave_20834_a_session_waits_for_any_row_beyond_its_end_and_the_bound(time: int, count: int) -> None:
    assert len(sessions([time], idle_ms=10_000, lag_ms=5_000).results()) == count


@pytest.mark.parametrize(("idle_ms", "out"), [(0, ["ABCD", "B"]), (10_000, ["ABCD"])])
def test_risingwave_20834_a_clock_lets_sessions_out_until_its_partition_is_idle(idle_ms: int, out: list[str]) -> None:
    results = sessions([], idle_ms=idle_ms, policy="real_time", lag_ms=10_000).results()
    assert list(results["who"]) == out


def test_bytewax_413_a_slide_that_does_not_divide_the_window_is_made_of_a_finer_one() -> None:
    times = [0, 300, 650, 700, 1_399, 1_400, 1_599, 1_600, 2_100, 2_999, 5_000, 9_000]
    rows = [(time,) for time in times]
    source = flow.Source("rows", columns=("t",), rows=rows, times=flow.EventTime("t"), ends=True)
    counted = {"column": "t", "aggregates": {"n": "count()"}}
    with pytest.raises(Problems, match=r'slide by 100 ms, .* "start % 700 == 0"'):
        flow.Window("windows", 1_600, slide_ms=700, **counted)
    window, every = flow.Window("windows", 1_600, slide_ms=100, **counted), flow.Filter("every", "start % 700 == 0")
    vertices, edges = [source, window, every, flow.Sink("out")], ["rows -> windows -> every -> out"]
    results = flow.Dataflow("report", vertices=vertices, edges=edges, duration_ms=20_000).record().results()
    starts = range(-1_400, 9_000, 700)
    counts = {start: sum(start <= time < start + 1_600 for time in times) for start in starts}
    assert dict(zip(results["start"], results["n"], strict=True)) == {k: n for k, n in counts.items() if n}


@pytest.mark.parametrize(("judged_at_the_source", "in_the_window"), [(True, 4), (False, 5)])
def test_numaflow_494_a_row_is_late_for_the_source_and_in_time_for_its_window(
    judged_at_the_source: bool, in_the_window: int
) -> None:
    rows = [
        (707_322, 0),
        (707_400, 100),
        (707_611, 310),
        (707_598, 320),
        (707_900, 600),
        (708_200, 900),
        (709_500, 2_200),
    ]
    source = flow.Source("requests", columns=["t", "arrival"], rows=rows, arrival="arrival", times="t")
    judges = [flow.LateDrop("judged", "t")] if judged_at_the_source else []
    window = flow.Window("second", 1_000, column="t", aggregates={"n": "count()"})
    vertices = [source, *judges, window, flow.Sink("out")]
    edge = " -> ".join(vertex.name for vertex in vertices)
    recording = flow.Dataflow("report", vertices=vertices, edges=[edge], duration_ms=5_000).record()
    results = recording.results()
    assert list(zip(results["start"], results["n"], strict=True)) == [(707_000, in_the_window), (708_000, 1)]
    assert str(recording.why_dropped()).startswith("Row (t 707598") == judged_at_the_source


def test_numaflow_3424_a_step_back_of_a_partition_that_was_idle_is_not_published_and_stops_nothing() -> None:
    behind = {"c": 300, "b": 40, "a": 0}
    rows = [(now, name) for now in range(0, 4_000, 100) for name in behind if name != "c" or not 1_000 < now < 1_500]
    records = [Record(now - behind[name], now, name) for now, name in rows]
    xs = [step.x for step in run(strategy.PerWriterMinimum(idle_ms=300), records)]
    at = {record.arrival_ms: x for record, x in zip(records, xs, strict=True)}
    assert xs == sorted(xs)
    assert [at[now] for now in (1_000, 1_400, 1_600, 1_700, 1_800, 3_900)] == [700, 1_360, 1_360, 1_400, 1_500, 3_600]
