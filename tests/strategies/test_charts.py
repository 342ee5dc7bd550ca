"""Charts of strategies over one log: the curve of all bounds, every strategy on it, and who is late when."""

from __future__ import annotations

from itertools import pairwise
from math import log10
from random import Random

import pytest
from hypothesis import given, strategies as st

from tests.core.charts.layers import check_chart, layers_of_kind, points
from tests.strategies.model.logs import Clock, logs, trace
from wmlab.core.charts.scene import Between, Blocks, Dots, Path, Steps
from wmlab.core.errors import ChartError, ModelError
from wmlab.core.words import grouped
from wmlab.strategies import charts
from wmlab.strategies.charts import curves
from wmlab.strategies.comparison import compare
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, PerfectWatermark
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.pravega import PravegaWatermark
from wmlab.strategies.model.spark import SparkBatches
from wmlab.strategies.model.strategy import Record

LATE = 5
RECORDS = [Record(n * 100 - (300 if n % LATE == 4 else 0), n * 100 + 1_000, "a") for n in range(3, 103)]
LOG = trace(RECORDS)
PERFECT = PerfectWatermark.of(record.event_time for record in RECORDS)


def test_the_lateness_curve_has_every_bound_every_strategy_and_the_perfect_edge():
    comparison = compare(LOG, [PERFECT, BoundedOutOfOrderness(0), BoundedOutOfOrderness(400)])
    chart = charts.lateness_curve(comparison)
    assert chart.sentence == (
        "None misses fewer records than BoundedOutOfOrderness(bound=400 ms), 0.000%, with a median lag of 1.4 s."
    )
    assert chart.data["bound_ms"] == [0, 200]
    assert chart.data["late"] == [20, 0]
    assert chart.data["strategy_lag_ms"] == [1_000, 1_400]
    assert chart.data["strategy_late"] == [20, 0]
    edge, curve = layers_of_kind(chart, Path)
    end = chart.scene.across.high
    assert (edge.xs, curve.xs) == ([1_000, 1_000], [1_000, 1_200, 1_200, end])
    assert curve.ys == [pytest.approx(0.699, abs=0.001)] * 2 + [2.5, 2.5]
    names = [dots.name for dots in layers_of_kind(chart, Dots)]
    assert names == ["1 BoundedOutOfOrderness(bound=0 ms)", "2 BoundedOutOfOrderness(bound=400 ms)"]
    assert len({(dots.role, dots.shape) for dots in layers_of_kind(chart, Dots)}) == 2
    assert [box.label for box in layers_of_kind(chart, Blocks)[0].boxes] == ["1", "2"]
    check_chart(chart)


def height(axis, value):
    """How high a value is drawn, 0 at the foot of the panel and 1 at its top."""
    return (value - axis.low) / (axis.high - axis.low)


def held(points, x):
    """The height of a curve of corners, right of its x: of the last corner that is not behind it."""
    return [y for at, y in points if at <= x][-1]


def corners_of(chart):
    """The corners of the curve of all constant bounds."""
    _, curve = layers_of_kind(chart, Path)
    return points(curve)


def of_height(rows, number):
    """Where the chart has a number of late records of so many."""
    return log10(rows) + 0.5 if number == 0 else -log10(number / rows)


A_PIXEL = 1 / 380


@given(logs(times=60, live=True).filter(bool), st.data())
def test_the_curve_is_drawn_as_the_late_share_is_at_every_bound(records, data):
    log = trace(records)
    bound = data.draw(st.integers(0, 70))
    curve = lateness_curve(log)
    chart = charts.lateness_curve(compare(log, [BoundedOutOfOrderness(bound)]))
    up, corners = chart.scene.panels[0].up, corners_of(chart)
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(corners))
    for at in range(71):
        if curve.lag_ms(at) <= chart.scene.across.high:
            assert held(corners, curve.lag_ms(at)) == pytest.approx(of_height(len(records), curve.late(at)))
    # The point of a constant bound lies on the curve.
    (point,) = layers_of_kind(chart, Dots)
    if point.xs == [curve.lag_ms(bound)]:
        assert held(corners, point.xs[0]) == pytest.approx(point.ys[0])
    assert up.low < corners[0][1] <= corners[-1][1] < up.high


@pytest.mark.parametrize("seed", range(4))
def test_a_curve_of_very_many_steps_is_never_drawn_too_complete_and_by_no_pixel_too_low(seed):
    random, now, records = Random(seed), 0, []
    for _ in range(4_000):
        now += random.choice((1, 5, 200))
        records.append(Record(now - round(random.expovariate(1 / 3_000)), now, "a"))
    curve = lateness_curve(trace(records))
    bounds = [random.randrange(30_000) for _ in range(50)]
    chart = charts.lateness_curve(compare(trace(records), [BoundedOutOfOrderness(bound) for bound in bounds[:3]]))
    up, corners, end = chart.scene.panels[0].up, corners_of(chart), chart.scene.across.high
    a_pixel = A_PIXEL * (up.high - up.low)
    shown = [bound for bound in (*curve.lateness.tolist(), *bounds) if curve.lag_ms(bound) <= end]
    for bound in shown:
        lag, right = curve.lag_ms(bound), of_height(4_000, curve.late(bound))
        assert right - a_pixel <= held(corners, lag) <= right
    exact = [(at, y) for (at, y), (_, before) in zip(corners[1:-1], corners, strict=False) if y != before]
    assert all(y == of_height(4_000, curve.late(at - curve.base_lag_ms)) for at, y in exact)
    assert len(exact) + 1 < len(curve.lateness)
    steps = sum(curve.lag_ms(bound) <= end for bound in (0, *curve.lateness.tolist()))
    assert f"Drawn are {len(exact) + 1} of {grouped(steps)} steps of the curve" in chart.scene.note


def dirty(count, time, *, every=7):
    """A log of three minutes with delays of up to ten seconds, and `count` records of another time among it."""
    random, begin, records = Random(3), 1_704_067_200_000, []
    for n in range(200):
        now = begin + n * 1_000
        records.append(Record(now - random.randrange(10_000), now, "ab"[n % 2]))
        if n % every == 3 and n // every < count:
            records.append(Record(time, now, "c"))
    return trace(records)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_records_of_1970_do_not_stretch_the_axes_and_are_counted(count):
    log = dirty(count, 5)
    comparison = compare(log, [BoundedOutOfOrderness(5_000), SparkBatches(1_000, rows=5)])
    chart = charts.lateness_curve(comparison)
    assert chart.scene.across.high - chart.scene.across.low < 30_000
    late = "1 record is" if count == 1 else f"{count} records are"
    assert f"{late} late for every bound on the axis, by up to 19 723 d" in chart.scene.note
    assert max(chart.data["bound_ms"]) > 19_000 * 86_400_000
    edge, _ = layers_of_kind(chart, Path)
    assert ("beyond: 19 723 d" in edge.name) == (count == 20)
    lags = charts.lag(comparison)
    times = log.table["event_time"].to_numpy()
    for panel, (met, *_) in zip(lags.scene.panels, comparison.paths, strict=True):
        late = int(((times < met) & (times == 5)).sum())
        assert panel.up.high - panel.up.low < 40_000
        values = f"{late} value{'s' if late > 1 else ''}"
        assert any(words.startswith(f"late record ({values}), up to") for _, words in panel.beyond) == (late > 0)
    sure = charts.uncertainty(log, PravegaWatermark(5_000))
    assert abs(sure.scene.panels[0].up.high - sure.scene.panels[0].up.low) < 100_000
    for picture in (chart, lags, sure):
        check_chart(picture)


def test_a_log_without_far_values_has_axes_over_all():
    log = dirty(0, 5)
    comparison = compare(log, [BoundedOutOfOrderness(5_000)])
    for chart in (
        charts.lateness_curve(comparison),
        charts.lag(comparison),
        charts.uncertainty(log, PravegaWatermark(5_000)),
    ):
        assert "eyond" not in repr(chart.scene)
        assert chart.scene.beyond == ""


def test_arrivals_of_another_time_are_left_out_and_counted():
    steady = [Record(1_704_067_200_000 + n * 1_000, 1_704_067_200_000 + n * 1_000, "a") for n in range(100)]
    chart = charts.lag(compare(trace([Record(1, 2, "a"), *steady]), [BoundedOutOfOrderness(0)]))
    assert chart.scene.note.endswith("Beyond the axis of arrivals: 1 record.")
    assert chart.scene.across.high - chart.scene.across.low < 100_000
    assert all(steps.xs[0] >= chart.scene.across.low for steps in layers_of_kind(chart, Steps))
    assert len(chart.data["arrival_ms"]) == 101


def test_arrivals_from_1970_on_are_dates_where_most_arrivals_are():
    steady = [Record(1_704_067_200_000 + n * 1_000, 1_704_067_200_000 + n * 1_000, "a") for n in range(100)]
    early = [Record(n, n, "b") for n in range(30)]
    assert charts.lag(compare(trace([*early, *steady]), [BoundedOutOfOrderness(0)])).scene.across.instants
    assert not charts.lag(compare(trace(early), [BoundedOutOfOrderness(0)])).scene.across.instants


def test_the_lag_of_spark_begins_with_its_first_watermark():
    log = dirty(0, 5)
    chart = charts.lag(compare(log, [SparkBatches(1_000, rows=5)]))
    (lags,) = (values for name, values in chart.data.items() if name.startswith("SparkBatches"))
    assert lags[:5] == [None] * 5
    assert max(lag for lag in lags if lag is not None) < 60_000
    assert "eyond" not in repr(chart.scene)


def test_a_watermark_ahead_of_the_arrivals_is_no_good_one_in_any_chart():
    ahead = trace([Record(60_000 * n + 86_400_000 * (n == 3), 60_000 * n, "a") for n in range(13)])
    comparison = compare(ahead, [BoundedOutOfOrderness(60_000)])
    for chart in (charts.lateness_curve(comparison), charts.lag(comparison)):
        assert chart.sentence == "No strategy is of use for log."
        assert chart.facts["ahead"] == "BoundedOutOfOrderness(bound=60 s)"


def test_the_same_strategy_twice_has_two_names_and_both_data():
    chart = charts.lag(compare(LOG, [BoundedOutOfOrderness(0), BoundedOutOfOrderness(0)]))
    names = [f"BoundedOutOfOrderness(bound=0 ms) ({n})" for n in (1, 2)]
    assert list(chart.data) == ["arrival_ms", *names]
    assert [list(panel.title) for panel in chart.scene.panels] == [[name] for name in names]


class Oracle(PerfectWatermark):
    """As good as the perfect watermark, and no line of the chart."""


def test_a_strategy_that_beats_every_constant_is_named_and_points_that_coincide_share_a_label():
    oracle = Oracle.of(record.event_time for record in RECORDS)
    chart = charts.lateness_curve(compare(LOG, [oracle, BoundedOutOfOrderness(100), BoundedOutOfOrderness(101)]))
    assert chart.facts["misses least"] == "Oracle()"
    assert [box.label for box in layers_of_kind(chart, Blocks)[0].boxes] == ["1", "2, 3"]


def test_a_number_that_would_stand_on_the_next_point_is_a_line_away_from_it():
    # 540 pixels are 1 000 ms wide: a digit and the point before it take 19 of them.
    points = [(0, 1.0, "1"), (500, 1.0, "2"), (510, 1.1, "3"), (534, 1.0, "4"), (560, 1.1, "5"), (700, 1.0, "6 (90 s)")]
    boxes = curves._numbers(points, 1_000, 3.0)
    below = 0.6 * 0.05 * 3.0
    assert [(box.x_low, box.y_low, box.label) for box in boxes] == [
        (0, 1.0 - below, "1"),
        (510, 0.85 - below, "2, 3"),
        (560, 1.0 - below, "4, 5"),
        (700, 1.0 - below, "6 (90 s)"),
    ]
    above, _ = curves._numbers([(500, 1.0, "1"), (532, 0.9, "2")], 1_000, 3.0)
    assert (above.x_low, above.y_low) == (500, 1.15 - below)


def test_a_point_far_behind_stands_at_the_edge_with_its_lag_and_a_lone_name_is_short():
    chart = charts.lateness_curve(compare(LOG, [BoundedOutOfOrderness(100), Clock(90_000)]))
    assert [dots.name for dots in layers_of_kind(chart, Dots)] == ["1 BoundedOutOfOrderness", "2 Clock"]
    assert [box.label for box in layers_of_kind(chart, Blocks)[0].boxes] == ["1", "2 (90.0 s)"]
    (x,) = layers_of_kind(chart, Dots)[1].xs
    assert 1_200 < x < chart.scene.across.high < 1_300
    assert chart.data["strategy_lag_ms"] == [1_100, 90_000]
    assert chart.scene.note.endswith("1 strategy lies beyond the axis and is drawn at its edge.")


def test_the_lag_has_a_panel_for_each_strategy_with_its_late_records():
    chart = charts.lag(compare(LOG, [BoundedOutOfOrderness(0), BoundedOutOfOrderness(200)]))
    assert chart.sentence == (
        "None misses fewer records than BoundedOutOfOrderness(bound=200 ms), 0.000%, with a median lag of 1.2 s."
    )
    assert len({(panel.up.low, panel.up.high) for panel in chart.scene.panels}) == 1
    assert [panel.title for panel in chart.scene.panels] == [
        ["BoundedOutOfOrderness(bound=0 ms)"],
        ["BoundedOutOfOrderness(bound=200 ms)"],
    ]
    late = layers_of_kind(chart, Dots)
    assert [len(dots.xs) for dots in late] == [20, 0]
    assert late[0].ys == [1_300] * 20
    assert [steps.name for steps in layers_of_kind(chart, Steps)] == ["perfect", "lag"] * 2
    check_chart(chart)


def test_the_uncertainty_is_upper_less_lower_with_the_perfect_watermark_between():
    ahead = [Record(n * 100, n * 100 + 1_000, "a") for n in range(100)]
    behind = [Record(n * 100 - 700, n * 100 + 1_000, "b") for n in range(100)]
    chart = charts.uncertainty(
        trace([r for pair in zip(ahead, behind, strict=True) for r in pair]), PravegaWatermark(1_000)
    )
    assert chart.sentence == (
        "The bounds are 700 ms apart; the perfect watermark lies between them at 65.4% of the instants."
    )
    assert chart.data["late_rows"] == []
    lower, upper, apart = (chart.data[name] for name in ("lower_lag_ms", "upper_lag_ms", "uncertainty_ms"))
    assert lower[0] is upper[0] is apart[0] is None
    assert {low - up for low, up in zip(lower, upper, strict=True) if low is not None} == {700} == set(apart) - {None}
    (band,) = layers_of_kind(chart, Between)
    assert [low for low, high in zip(band.lows, band.highs, strict=True) if low is not None and low > high] == []
    assert [steps.name for steps in layers_of_kind(chart, Steps)] == [
        "perfect",
        "upper bound",
        "lower bound",
        "uncertainty",
    ]
    panel = chart.scene.panels[0]
    _, high, low, _ = layers_of_kind(chart, Steps)
    assert {
        height(panel.up, a) > height(panel.up, b) for a, b in zip(high.ys, low.ys, strict=True) if b is not None
    } == {True}
    assert panel.up.low > panel.up.high
    check_chart(chart)
    with pytest.raises(ChartError, match="No cycle has emitted"):
        charts.uncertainty(trace([Record(1, 1, "a")]))


def test_a_record_below_the_lower_bound_is_a_cross_at_its_delay():
    steady = [Record(n * 100, n * 100, "a") for n in range(30)]
    chart = charts.uncertainty(trace([*steady, Record(500, 3_000, "a")]), PravegaWatermark(1_000))
    (late,) = layers_of_kind(chart, Dots)
    assert (late.xs, late.ys, chart.data["late_rows"]) == ([3_000], [2_500], [30])


@pytest.mark.parametrize(
    ("draw", "problem"),
    [
        (lambda: charts.lateness_curve(compare(LOG, [ConformalWatermark(0.1)])), "No strategy has a watermark"),
        (lambda: charts.lag(compare(LOG, [BoundedOutOfOrderness(n) for n in range(7)])), "7 strategies have no room"),
        (lambda: charts.lateness_curve(LOG), "is not a comparison"),
        (lambda: charts.lag(LOG), "is not a comparison"),
        (lambda: charts.lateness_curve(LOG), r"wm.strategy.compare\(log, strategies\)"),
        (lambda: charts.uncertainty("dengue"), r"'dengue' is not a log(?s:.*)wm.trace.load"),
        (lambda: charts.uncertainty(compare(LOG, [BoundedOutOfOrderness(5)])), "is not a log"),
        (lambda: charts.uncertainty(LOG, BoundedOutOfOrderness(5)), r"has no two bounds(?s:.*)wm.strategy.Pravega"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, problem):
    with pytest.raises((ChartError, ModelError), match=problem):
        draw()
