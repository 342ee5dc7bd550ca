"""Which records windows lose, what comes twice and what never comes, against engines written here by definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from tests.strategies.model.logs import Clock, logs, trace
from wmlab.core.charts.scene import Dots
from wmlab.core.errors import ModelError
from wmlab.core.traces import load
from wmlab.strategies.advice import advise
from wmlab.strategies.charts.curves import lag, lateness_curve
from wmlab.strategies.comparison import compare
from wmlab.strategies.lateness import lateness_curve as curve_of_log
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, StreamTime
from wmlab.strategies.model.engines import Quix, WallClock
from wmlab.strategies.model.idle_increments import IdleIncrements
from wmlab.strategies.model.strategy import END, UNKNOWN, Record
from wmlab.strategies.replay import Log, x_of_records
from wmlab.strategies.windows import LogWindows, Windows

MINUTE_MS = 60_000
START_MS = 1_700_000_000_000


def windows_of(time: int, size: int, slide: int) -> list[int]:
    """The ends of the windows [k slide, k slide + size) that have an instant, by looking at all of them."""
    return [
        k * slide + size
        for k in range((time - size) // slide - 1, time // slide + 2)
        if k * slide <= time < k * slide + size
    ]


class Sessions:
    """The merging windows of Flink, for one key: windows in state, and whether each has fired."""

    def __init__(self, gap: int, late: int) -> None:
        self.gap, self.late, self.state = gap, late, {}

    def add(self, time: int, x: int) -> tuple[bool, bool]:
        """Whether the record is dropped, and whether it changes a window that had a result."""
        self.state = {w: f or w[1] <= x for w, f in self.state.items() if w[1] + self.late > x}
        mine = (time, time + self.gap)
        touched = [w for w in self.state if w[0] <= mine[1] and mine[0] <= w[1]]
        merged = min(w[0] for w in [*touched, mine]), max(w[1] for w in [*touched, mine])
        if merged[1] + self.late <= x:
            return True, False
        fired = any(self.state[w] for w in touched)
        for w in touched:
            del self.state[w]
        self.state[merged] = fired
        return False, fired


records_of = logs(times=60, gap_ms=8).filter(bool)
strategies_of = st.sampled_from([BoundedOutOfOrderness(0), BoundedOutOfOrderness(7), Quix(0), Clock(20)])


@given(records_of, strategies_of, st.integers(1, 20), st.integers(1, 20), st.integers(0, 15))
@settings(deadline=None, max_examples=60)
def test_a_record_is_lost_if_all_its_windows_have_ended(records, strategy, size, slide, late) -> None:
    slide = min(size, slide)
    asked = {"window_ms": size, "slide_ms": slide, "allowed_lateness_ms": late}
    comparison = compare(trace(records), [strategy], tick_ms=0, **asked)
    (outcome,), (path,) = comparison, comparison.paths
    ends = [windows_of(record.event_time, size, slide) for record in records]
    taken = [[end for end in of if x < end + late] for of, x in zip(ends, path.met.tolist(), strict=True)]
    lost = [not of for of in taken]
    assert outcome.lost == sum(lost)
    assert outcome.updates == sum(end <= x for of, x in zip(taken, path.met.tolist(), strict=True) for end in of)
    rows = comparison.late_rows()
    assert rows.loc[rows["lost"] == True, "row"].tolist() == [n + 1 for n, is_lost in enumerate(lost) if is_lost]  # noqa: E712
    sizes: dict[tuple[str, int], list[bool]] = {}
    for record, of, x in zip(records, ends, path.met.tolist(), strict=True):
        for end in of:
            sizes.setdefault((record.key, end), []).append(x < end)
    assert outcome.windows == len(sizes)
    assert outcome.complete_mean == pytest.approx(np.mean([np.mean(inside) for inside in sizes.values()]))
    last = {record.key: x for record, x in zip(records, np.maximum.accumulate(path.x).tolist(), strict=True)}
    if not strategy.keyed:
        assert outcome.unclosed == sum(end > max(last.values()) for _, end in sizes)


@given(records_of, strategies_of, st.integers(1, 20), st.integers(0, 15))
@settings(deadline=None, max_examples=60)
def test_a_record_that_joins_a_session_that_goes_on_is_not_lost(records, strategy, gap, late) -> None:
    comparison = compare(trace(records), [strategy], tick_ms=0, gap_ms=gap, allowed_lateness_ms=late)
    (outcome,), (path,) = comparison, comparison.paths
    keys: dict[str, Sessions] = {}
    found = [
        keys.setdefault(record.key, Sessions(gap, late)).add(record.event_time, x)
        for record, x in zip(records, path.met.tolist(), strict=True)
    ]
    rows = comparison.late_rows()
    assert rows.loc[rows["lost"] == True, "row"].tolist() == [n + 1 for n, (lost, _) in enumerate(found) if lost]  # noqa: E712
    assert (outcome.lost, outcome.updates) == tuple(map(sum, zip(*found, strict=True)))
    times: dict[str, list[int]] = {}
    for record in records:
        times.setdefault(record.key, []).append(record.event_time)
    whole = [1 + sum(b - a > gap for a, b in pairwise(of)) for of in map(sorted, times.values())]
    assert outcome.windows == sum(whole)


def test_a_session_that_is_cut_in_two_is_not_complete() -> None:
    records = [Record(0, 0, "a"), Record(70, 1, "b"), Record(50, 2, "a"), Record(100, 3, "a")]
    records = [record._replace(key="k" if record.writer == "a" else "b") for record in records]
    (outcome,) = compare(trace(records), [BoundedOutOfOrderness(0)], gap_ms=60)
    # The first record is a result of its own at 70; the session of the complete log, from 0 to 160, has three.
    assert (outcome.lost, outcome.complete_least) == (0, pytest.approx(2 / 3))


def hourly() -> object:
    rows = []
    for i in range(40):
        rows += [(i * MINUTE_MS, i * MINUTE_MS + 100, "a")]
        rows += [(i * MINUTE_MS - 30_000 if i else 0, i * MINUTE_MS + 200, "b")]
    return load(pd.DataFrame(rows, columns=["event_time", "arrival_ms", "writer"]), name="w")


def test_a_row_below_the_watermark_is_late_and_an_hourly_window_takes_it() -> None:
    log = hourly()
    (outcome,) = comparison = compare(log, [BoundedOutOfOrderness(0)], window_ms="1h")
    assert (outcome.late, outcome.lost, outcome.complete_mean) == (39, 0, 1)
    rows = comparison.late_rows()
    assert (len(rows), set(rows["writer"]), rows["lost"].any()) == (39, {"b"}, False)
    assert (comparison.facts["misses"], comparison.facts["windows"]) == (0, "windows of 1 h")
    (by_minute,) = compare(log, [BoundedOutOfOrderness(0)], window_ms="1 min")
    assert by_minute.lost == 39
    (sliding,) = compare(log, [BoundedOutOfOrderness(0)], window_ms="1 min", slide_ms="20s")
    assert (sliding.lost, sliding.late) == (0, 39)
    (late,) = compare(log, [BoundedOutOfOrderness(0)], window_ms="1 min", allowed_lateness_ms=1)
    assert (late.lost, late.updates) == (0, 39)


def test_a_row_of_a_later_period_is_dropped_as_too_early_and_counted_apart() -> None:
    """A period by the wall clock takes rows up to a delay after its end: of 30 rows one is a year old, one an hour
    ahead, and one 90 s ahead, which is in the next period."""
    event = [START_MS + n * MINUTE_MS for n in range(30)]
    arrival = list(event)
    event[10] -= 365 * 24 * 60 * MINUTE_MS
    event[20] += 60 * MINUTE_MS
    event[25] += 90_000
    frame = pd.DataFrame({"event_time": event, "arrival_ms": arrival, "writer": "host"})
    log, clock = load(frame, name="telegraf"), WallClock(0)
    for early_ms, dropped in ((None, 0), ("5 min", 1), (0, 1)):
        comparison = compare(log, [clock], window_ms="10 min", early_ms=early_ms)
        met = comparison.paths[0].met
        by_hand = [
            time > at - at % (10 * MINUTE_MS) + 10 * MINUTE_MS + pd.Timedelta(early_ms or 0).value // 10**6
            for time, at in zip(event[1:], met[1:], strict=True)
        ]
        outcome = comparison[clock]
        assert (outcome.lost, outcome.too_early) == (1, dropped if early_ms is not None else 0)
        assert early_ms is None or sum(by_hand) == outcome.too_early
        assert (outcome.complete_mean or 0) < 1
    with pytest.raises(ModelError, match="early_ms is 0, without tumbling windows"):
        compare(log, [clock], window_ms="10 min", slide_ms="5 min", early_ms=0)


def test_where_the_input_ends_every_window_is_closed() -> None:
    bound = BoundedOutOfOrderness(MINUTE_MS)
    (goes_on,) = compare(hourly(), [bound], window_ms="10 min")
    (ends,) = compare(hourly(), [bound], window_ms="10 min", ends=True)
    assert (goes_on.unclosed, ends.unclosed) == (1 * 2, 0)
    assert ends.late == goes_on.late
    assert (ends.result_max_ms or 0) >= 0


def test_advice_for_windows_chooses_the_bound_that_they_need() -> None:
    n = np.arange(60_000)
    delay = np.where(n % 10 == 3, 30_000, 0)
    frame = pd.DataFrame(
        {"event_time": START_MS + 1_000 * n - delay, "arrival_ms": START_MS + 1_000 * n, "writer": "a"}
    )
    log = load(frame, name="log")
    by_row, by_hour = advise(log, 0.01), advise(log, 0.01, window_ms="1h")
    assert by_row.strategy == BoundedOutOfOrderness(29_000)
    assert by_hour.strategy == BoundedOutOfOrderness(0)
    assert by_hour.unseen.late_share > 0.09
    assert by_hour.missed_share == by_hour.unseen.lost_share < 0.01
    assert by_hour.whole == compare(log, [by_hour.strategy], window_ms="1h", tick_ms=0)[by_hour.strategy]
    assert by_hour.headline.startswith("Take BoundedOutOfOrderness(bound=0 ms) for log: ")
    assert "of the records are lost (" in by_hour.sentence
    assert by_hour.facts["windows"] == "windows of 1 h"
    sessions = advise(log, 0.01, gap_ms="5s")
    # The session goes on for ever, so nothing is lost for any bound.
    assert (sessions.strategy, sessions.unseen.lost) == (BoundedOutOfOrderness(0), 0)


@given(records_of, st.integers(1, 20), st.integers(0, 9))
@settings(deadline=None, max_examples=40)
def test_the_curve_of_windows_is_what_compare_says_of_each_bound(records, size, late) -> None:
    log = trace(records)
    curve = curve_of_log(log, window_ms=size, allowed_lateness_ms=late)
    for bound in (0, 3, 11, 40):
        assert (
            curve.late(bound)
            == compare(log, [BoundedOutOfOrderness(bound)], window_ms=size, allowed_lateness_ms=late)[
                BoundedOutOfOrderness(bound)
            ].lost
        )


def quiet() -> object:
    columns = {"event_time": [0, 1000, 2000], "arrival_ms": [0, 1000, 2000], "writer": "a"}
    return load(pd.DataFrame(columns), name="q")


def test_the_clock_goes_on_after_the_last_record_and_says_which_window_never_closes() -> None:
    strategies = [StreamTime(0), WallClock(0), IdleIncrements(StreamTime(0), 1000, 1000, 1000)]
    found = compare(quiet(), strategies, window_ms="10s", until_ms="20s", tick_ms="1s")
    assert [outcome.unclosed for outcome in found] == [1, 0, 0]
    # The step of an idle source is at most the clock less its delay: at 11 s X is 10 s.
    assert [outcome.result_p50_ms for outcome in found] == [None, 0, 0]
    at_end = compare(quiet(), strategies, window_ms="10s")
    assert [outcome.unclosed for outcome in at_end] == [1, 1, 1]
    assert "StreamTime(grace=0 ms): 1 of 1 window never closes" in "".join(
        str(p.title) for p in lag(found).scene.panels
    )
    points = [layer for layer in lateness_curve(found).scene.panels[0].layers if isinstance(layer, Dots)]
    assert "1 of 1 window never closes" in str(points[0].hover)
    with pytest.raises(ModelError, match=r"until_ms is 1999, before the last arrival.(?s:.*)Give 2000 or more"):
        compare(quiet(), strategies, window_ms="10s", until_ms=1_999)


def test_results_leave_with_the_next_output() -> None:
    each = [Record(1_000 * n, 1_000 * n, "a") for n in range(30)]
    (at_once,) = compare(trace(each), [StreamTime(0)], window_ms=1_000)
    (by_epoch,) = compare(trace(each), [StreamTime(0)], window_ms=1_000, output_ms="10s")
    assert (at_once.result_p50_ms, at_once.result_max_ms) == (0, 0)
    assert (by_epoch.result_p50_ms, by_epoch.result_max_ms) == (5_000, 9_000)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"window_ms": 0}, "window_ms is 0"),
        ({"gap_ms": -1}, "gap_ms is -1"),
        ({"window_ms": 10, "gap_ms": 10}, "gap_ms is given with"),
        ({"slide_ms": 10}, "slide_ms is 10, with window_ms None"),
        ({"window_ms": 10, "slide_ms": 11}, "slide_ms is 11, with window_ms 10"),
        ({"allowed_lateness_ms": 10}, "no window is given"),
        ({"window_ms": 10, "allowed_lateness_ms": -1}, "allowed_lateness_ms is -1"),
        ({"window_ms": "1 hour"}, "window_ms is '1 hour'"),
        ({"window_ms": 2**62, "slide_ms": 1}, "each record belongs to"),
        ({"window_ms": 10, "output_ms": 0}, "output_ms: .*got 0"),
    ],
)
def test_what_is_no_window_is_refused(asked, problem) -> None:
    with pytest.raises(ModelError, match=problem):
        compare(quiet(), [StreamTime(0)], **asked)


@pytest.mark.parametrize("length_ms", [1, 1_000, 2**62])
def test_windows_at_the_ends_of_64_bits_have_their_ends(length_ms: int) -> None:
    times = [-(2**63) + 1, -1, 0, 2**63 - 2]
    log = Log.of(trace([Record(t, n, "a", "k") for n, t in enumerate(times)]))
    found = LogWindows.of(log, Windows(size_ms=length_ms, slide_ms=length_ms))
    ends = [min((t // length_ms + 1) * length_ms, END) for t in times]
    assert found.ends[found.of_record].tolist() == ends
    assert found.sizes.tolist() == [ends.count(end) for end in sorted(set(ends))]
    sessions = LogWindows.of(log, Windows(gap_ms=length_ms))
    # The second and the third touch.
    assert sessions.ends.tolist() == [min(t + length_ms, END) for t in times if t != -1]


def test_the_x_of_records_is_that_of_the_paths() -> None:
    ((met, x),) = x_of_records(quiet(), [StreamTime(0)])
    assert (met.tolist(), x.tolist()) == ([UNKNOWN, 0, 1000], [0, 1000, 2000])
