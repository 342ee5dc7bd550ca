"""Charts of strategies over one log: the curve of all bounds, every strategy on it, and who is late when."""

from __future__ import annotations

import pytest

from tests.strategies.model.logs import Clock, trace
from wmlab.core.charts.scene import Between, Blocks, Dots, Path, Steps
from wmlab.core.errors import ChartError, ModelError
from wmlab.strategies import charts
from wmlab.strategies.comparison import compare
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, PerfectWatermark
from wmlab.strategies.model.pravega import PravegaWatermark
from wmlab.strategies.model.strategy import Record
from wmlab.strategies.model.targets import ConformalWatermark

LATE = 5
RECORDS = [Record(n * 100 - (300 if n % LATE == 4 else 0), n * 100 + 1_000, "a") for n in range(3, 103)]
LOG = trace(RECORDS)
PERFECT = PerfectWatermark.of(record.event_time for record in RECORDS)


def layers(chart, kind):
    return [layer for panel in chart.scene.panels for layer in panel.layers if isinstance(layer, kind)]


def test_the_frontier_has_the_curve_every_strategy_and_the_perfect_edge():
    found = compare(LOG, [PERFECT, BoundedOutOfOrderness(0), BoundedOutOfOrderness(400)])
    chart = charts.frontier(found)
    assert chart.sentence == (
        "A constant bound has 99% of the records of log for a median lag of 1.2 s; the perfect watermark has all for "
        "1.0 s. No strategy loses less than the constant bound with the same lag."
    )
    assert chart.data["bound_ms"] == [0, 200]
    assert chart.data["late"] == [20, 0]
    assert chart.data["strategy_lag_ms"] == [1_000, 1_400]
    assert chart.data["strategy_late"] == [20, 0]
    edge, curve = layers(chart, Path)
    assert (edge.xs, curve.xs) == ([1_000, 1_000], [1_000, 1_200])
    assert curve.ys[0] == pytest.approx(0.699, abs=0.001)
    names = [dots.name for dots in layers(chart, Dots)]
    assert names == ["1 BoundedOutOfOrderness(bound=0 ms)", "2 BoundedOutOfOrderness(bound=400 ms)"]
    assert len({(dots.role, dots.shape) for dots in layers(chart, Dots)}) == 2
    assert [box.label for box in layers(chart, Blocks)[0].boxes] == ["1", "2"]
    assert chart.svg.startswith("<svg")
    assert chart.figure().data


class Oracle(PerfectWatermark):
    """As good as the perfect watermark, and no line of the chart."""


def test_a_strategy_that_beats_every_constant_is_named_and_points_that_coincide_share_a_label():
    oracle = Oracle.of(record.event_time for record in RECORDS)
    chart = charts.frontier(compare(LOG, [oracle, BoundedOutOfOrderness(100), BoundedOutOfOrderness(101)]))
    assert chart.sentence.endswith("for 1.0 s. Oracle loses less than the constant bound with the same lag.")
    assert [box.label for box in layers(chart, Blocks)[0].boxes] == ["1", "2, 3"]


def test_a_number_that_would_stand_on_the_next_point_is_a_line_away_from_it():
    # 540 pixels are 1 000 ms wide: a digit and the point before it take 19 of them.
    points = [(0, 1.0, "1"), (500, 1.0, "2"), (510, 1.1, "3"), (534, 1.0, "4"), (560, 1.1, "5"), (700, 1.0, "6 (90 s)")]
    boxes = charts._numbers(points, 1_000, 3.0)
    assert [(box.x_low, box.y_low, box.label) for box in boxes] == [
        (0, 1.0, "1"),
        (510, 0.85, "2, 3"),
        (560, 1.0, "4, 5"),
        (700, 1.0, "6 (90 s)"),
    ]
    above, _ = charts._numbers([(500, 1.0, "1"), (532, 0.9, "2")], 1_000, 3.0)
    assert (above.x_low, above.y_low) == (500, 1.15)


def test_a_point_far_behind_stands_at_the_edge_with_its_lag_and_a_lone_name_is_short():
    chart = charts.frontier(compare(LOG, [BoundedOutOfOrderness(100), Clock(90_000)]))
    assert [dots.name for dots in layers(chart, Dots)] == ["1 BoundedOutOfOrderness", "2 Clock"]
    assert [box.label for box in layers(chart, Blocks)[0].boxes] == ["1", "2 (90.0 s)"]
    assert layers(chart, Dots)[1].xs == [1_400]
    assert chart.data["strategy_lag_ms"] == [1_100, 90_000]


def test_the_lag_has_a_panel_for_each_strategy_with_its_late_records():
    chart = charts.lag(compare(LOG, [BoundedOutOfOrderness(0), BoundedOutOfOrderness(200)]))
    assert chart.sentence == (
        "BoundedOutOfOrderness loses 20.00% for a median lag of 1.0 s and BoundedOutOfOrderness loses 0.00% for a "
        "median lag of 1.2 s."
    )
    late = layers(chart, Dots)
    assert [len(dots.xs) for dots in late] == [20, 0]
    assert late[0].ys == [1_300] * 20
    assert [steps.name for steps in layers(chart, Steps)] == ["perfect", "lag"] * 2
    assert chart.svg.startswith("<svg")


def test_the_uncertainty_is_upper_less_lower_with_the_perfect_watermark_between():
    ahead = [Record(n * 100, n * 100 + 1_000, "a") for n in range(100)]
    behind = [Record(n * 100 - 700, n * 100 + 1_000, "b") for n in range(100)]
    chart = charts.uncertainty(
        trace([r for pair in zip(ahead, behind, strict=True) for r in pair]), PravegaWatermark(1_000)
    )
    assert chart.sentence == (
        "The bounds are 700 ms apart in the median and 700 ms at most; the perfect watermark lies between them at "
        "65.4% of the instants, and 0.000% of the records are late for the lower one."
    )
    lower, upper, apart = (chart.data[name] for name in ("lower_lag_ms", "upper_lag_ms", "uncertainty_ms"))
    assert lower[0] is upper[0] is apart[0] is None
    assert {low - up for low, up in zip(lower, upper, strict=True) if low is not None} == {700} == set(apart) - {None}
    (band,) = layers(chart, Between)
    assert [low for low, high in zip(band.lows, band.highs, strict=True) if low is not None and low > high] == []
    assert [steps.name for steps in layers(chart, Steps)] == ["perfect", "upper bound", "lower bound", "uncertainty"]
    assert chart.svg.startswith("<svg")
    with pytest.raises(ChartError, match="No cycle has emitted"):
        charts.uncertainty(trace([Record(1, 1, "a")]))


def test_a_record_below_the_lower_bound_is_a_cross_at_its_delay():
    steady = [Record(n * 100, n * 100, "a") for n in range(30)]
    chart = charts.uncertainty(trace([*steady, Record(500, 3_000, "a")]), PravegaWatermark(1_000))
    (late,) = layers(chart, Dots)
    assert (late.xs, late.ys, chart.data["late_rows"]) == ([3_000], [2_500], [30])


@pytest.mark.parametrize(
    ("draw", "problem"),
    [
        (lambda: charts.frontier(compare(LOG, [ConformalWatermark(0.1)])), "No strategy has a watermark"),
        (lambda: charts.lag(compare(LOG, [BoundedOutOfOrderness(n) for n in range(7)])), "7 strategies have no room"),
        (lambda: charts.frontier(LOG), "is no comparison"),
        (lambda: charts.lag(LOG), "is no comparison"),
        (lambda: charts.uncertainty(LOG, BoundedOutOfOrderness(5)), "has no two bounds"),
        (lambda: charts.uncertainty(LOG, tick_ms=0.5), "tick_ms is 0.5"),
        (lambda: charts.uncertainty(LOG, tick_ms=-1), "tick_ms is -1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, problem):
    with pytest.raises((ChartError, ModelError), match=problem):
        draw()
