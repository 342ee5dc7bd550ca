"""Charts of strategies over one log: what a lower latency costs, where a watermark stands while records arrive, and how
far the two bounds of Pravega are apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from math import log10
from statistics import median_low
from typing import Any, Final

import numpy as np

from wmlab.core.charts.axis import Axis, Numbers, Tick, duration_unit, time_axis
from wmlab.core.charts.chart import Chart, share_of
from wmlab.core.charts.scene import Between, Blocks, Box, Dots, Layer, Panel, Path, Scene, Shape, Steps, Value, thin
from wmlab.core.charts.style import text_width
from wmlab.core.errors import ChartError
from wmlab.core.traces import Trace
from wmlab.core.words import is_instant, listed, rounded, shown
from wmlab.strategies.comparison import Comparison, Outcome
from wmlab.strategies.lateness import frontier as frontier_of
from wmlab.strategies.model.bounded import PerfectWatermark
from wmlab.strategies.model.pravega import PravegaWatermark
from wmlab.strategies.model.strategy import END, UNKNOWN, NotNegative, Record, require_argument, steps
from wmlab.strategies.replay import Log, inputs

_CAP: Final = 400
"""Points drawn at most of each curve over time, about."""
_BOUNDS: Final = 80
"""Bounds drawn at most of the curve of all bounds, about: it only falls."""
_SHAPES: Final[tuple[Shape, ...]] = ("circle", "diamond", "triangle", "cross")
_LOOKS: Final = tuple((role, shape) for shape, role in product(_SHAPES, ("upper", "third", "fourth", "alarm")))
_MOST_PANELS: Final = 6
_PLOT_PX: Final = 540
"""How wide the plot is at least, for labels that must not meet."""


def frontier(comparison: Comparison, *, title: str | None = None) -> Chart:
    """Draw completeness against latency: the curve of all X = m - B, and each strategy as a numbered point.

    Latency is the median of arrival time less X, completeness the share of records that are not late, on a scale on
    which 90%, 99% and 99.9% are one step apart. The median lag of the perfect watermark is a line: what stands left of
    it cannot have all. Points far right of the curve stand at the edge, with their lag. Strategies without an X have no
    place and are left out. Raises `ChartError` if all are, and for what is no comparison.
    """
    _refuse_other(comparison)
    trace, curve = comparison.trace, frontier_of(comparison.trace)
    placed = [o for o in comparison if o.lag_p50_ms is not None and type(o.strategy) is not PerfectWatermark]
    if not placed:
        raise ChartError("No strategy has a watermark.", remedy="Compare one whose X becomes known over this log.")
    top = log10(trace.rows) + 0.5
    bounds = np.append(0, curve.lateness).tolist()
    kept = thin([[round(-1_000 * log10(max(n, 0.5) / trace.rows)) for n in curve.late(bounds)]], _BOUNDS)
    xs = [curve.lag_ms(bounds[row]) for row in kept]
    ys = [_height(curve.late_share(bounds[row]), top) for row in kept]
    log = Log.of(trace)
    edge = int(np.quantile((log.arrival - log.ends)[:-1], 0.5, method="inverted_cdf")) if trace.rows > 1 else 0
    names = {o: o.name if [_short(other) for other in comparison].count(_short(o)) > 1 else _short(o) for o in placed}
    best = [
        names[o] for o in placed if (more := (o.lag_p50_ms or 0) - curve.base_lag_ms) >= 0 and o.late < curve.late(more)
    ]
    sentence = _describe(comparison, best, curve.lag_ms(curve.bound_ms(0.01)), edge)
    # What lags by far more than any constant bound would leave no room for the others.
    last = max(*xs, edge)
    far = 2 * last - min(*xs, edge)
    dots, points = [], []
    for number, outcome in enumerate(placed, start=1):
        role, shape = _LOOKS[(number - 1) % len(_LOOKS)]
        lag_ms = outcome.lag_p50_ms or 0
        beyond = lag_ms > far > last
        x, y = far if beyond else lag_ms, _height(outcome.late_share, top)
        words = f"{outcome.name}: lag {rounded(lag_ms)}, {outcome.late_share:.3%} late"
        name = f"{number} {names[outcome]}"
        dots.append(Dots(name=name, role=role, shape=shape, xs=[x], ys=[y], hover=[words], size=6))
        points.append((x, y, f"{number} ({rounded(lag_ms)})" if beyond else str(number)))
    across = _durations("median lag", [*xs, edge, *(x for x, _, _ in points)], pad_percent=4)
    numbers = _numbers(points, across.high - across.low, top)
    layers: list[Layer] = [
        Path(name="perfect watermark", role="perfect", xs=[edge, edge], ys=[0, top]),
        Path(name="X = m − B, every B", role="lower", xs=xs, ys=ys),
        *dots,
        Blocks(name="numbers", role="text", boxes=numbers, legend=False, beside=True),
    ]
    panel = Panel(up=Numbers("records in time", -0.1, top + 0.2, _ticks(top)), layers=layers, height=380)
    data: dict[str, list[Any]] = {
        "bound_ms": bounds,
        "late": curve.late(bounds).tolist(),
        "strategy": [outcome.name for outcome in placed],
        "strategy_lag_ms": [outcome.lag_p50_ms for outcome in placed],
        "strategy_late": [outcome.late for outcome in placed],
    }
    return _chart(title or f"How complete is {trace.name}, for which latency?", sentence, data, across, [panel])


def lag(comparison: Comparison, *, title: str | None = None) -> Chart:
    """Draw how far each strategy is behind the arrivals, in a panel each, with the late records as crosses above it.

    A record whose delay is above the lag that it meets is late. The lag of the perfect watermark is the dotted line.
    At most six strategies have room; of very many late records a share is drawn. Raises `ChartError` for more, and
    for what is no comparison.
    """
    _refuse_other(comparison)
    if len(comparison) > _MOST_PANELS:
        raise ChartError(
            f"{len(comparison)} strategies have no room in one chart.",
            remedy=f"Compare at most {_MOST_PANELS} for this chart.",
        )
    trace, log = comparison.trace, Log.of(comparison.trace)
    ideal = _behind(log.arrival, log.ends)
    panels: list[Panel] = []
    data: dict[str, list[Any]] = {"arrival_ms": log.arrival.tolist()}
    for outcome, (met, x) in zip(comparison, comparison.steps, strict=True):
        behind = _behind(log.arrival, x)
        kept = thin([behind, ideal], _CAP)
        at, (_, late, delays) = log.arrival[kept].tolist(), _late(log, met)
        perfect, lag = ([values[row] for row in kept] for values in (ideal, behind))
        curves: list[Layer] = [
            late,
            Steps(name="perfect", role="perfect", xs=at, ys=perfect),
            Steps(name="lag", role="lower", xs=at, ys=lag),
        ]
        panels.append(Panel(up=_durations(_short(outcome), [*lag, *perfect, *delays]), layers=curves, height=170))
        data[outcome.name] = behind
    parts = [
        f"{_short(o)} loses {o.late_share:.2%} for a median lag of "
        f"{'unknown' if o.lag_p50_ms is None else rounded(o.lag_p50_ms)}"
        for o in comparison
    ]
    title = title or f"Which records of {trace.name} come too late?"
    return _chart(title, f"{listed(parts)}.", data, _arrivals(log.arrival), panels)


def uncertainty(
    trace: Trace, strategy: PravegaWatermark | None = None, *, tick_ms: int | None = None, title: str | None = None
) -> Chart:
    """Draw how far the two bounds of Pravega are apart over a log, and where the perfect watermark lies between them.

    Above, how far both bounds and the perfect watermark are behind the arrivals, with the records that are late for the
    lower bound as crosses at their delay; below, upper less lower, the uncertainty about the time of a position.
    `strategy` is by default `PravegaWatermark()`, `tick_ms` as in `wm.strategy.compare`. Raises `ChartError` if there
    is no watermark, and for another strategy; `ModelError` for a negative `tick_ms`.
    """
    strategy = PravegaWatermark() if strategy is None else strategy
    if not isinstance(strategy, PravegaWatermark):
        raise ChartError(f"{shown(strategy)} has no two bounds.", remedy="Give a PravegaWatermark.")
    require_argument("tick_ms", tick_ms, NotNegative | None)
    given = list(inputs(trace, tick_ms))
    done = zip(given, steps(strategy, given), strict=True)
    taken = [(met, native) for item, (met, _, native) in done if isinstance(item, Record)]
    log = Log.of(trace)
    if all(bounds is None for _, bounds in taken):
        raise ChartError("No cycle has emitted a watermark.", remedy="Take a longer log, or a shorter period_ms.")
    lower, upper = (
        _behind(log.arrival, np.array([UNKNOWN if b is None else b[side] for _, b in taken])) for side in (0, 1)
    )
    ideal = _behind(log.arrival, log.ends)
    apart: list[Value] = [None if low is None or up is None else low - up for low, up in zip(lower, upper, strict=True)]
    late_rows, late, delays = _late(log, np.array([met for met, _ in taken]))
    inside = [
        up <= at <= low
        for low, up, at in zip(lower, upper, ideal, strict=True)
        if low is not None and up is not None and at is not None
    ]
    kept = thin([lower, upper, ideal], _CAP)
    at = log.arrival[kept].tolist()
    low, high, best, width = ([values[row] for row in kept] for values in (lower, upper, ideal, apart))
    behind = Panel(
        up=_durations("behind the arrivals", [*low, *high, *best, *delays]),
        layers=[
            Between(xs=at, lows=high, highs=low),
            late,
            Steps(name="perfect", role="perfect", xs=at, ys=best),
            Steps(name="upper bound", role="upper", xs=at, ys=high),
            Steps(name="lower bound", role="lower", xs=at, ys=low),
        ],
        height=260,
    )
    below = Panel(
        up=_durations("upper − lower", [0, *width]),
        layers=[Steps(name="uncertainty", role="third", xs=at, ys=width)],
        height=130,
    )
    widths = [length for length in apart if length is not None]
    sentence = (
        f"The bounds are {rounded(median_low(widths))} apart in the median and {rounded(max(widths))} at most; the "
        f"perfect watermark lies between them at {sum(inside) / max(1, len(inside)):.1%} of the instants, and "
        f"{len(late_rows) / trace.rows:.3%} of the records are late for the lower one."
    )
    data: dict[str, list[Any]] = {"arrival_ms": log.arrival.tolist(), "lower_lag_ms": lower, "upper_lag_ms": upper}
    data |= {"perfect_lag_ms": ideal, "uncertainty_ms": apart, "late_rows": late_rows}
    title = title or f"How sure is Pravega of the time in {trace.name}?"
    return _chart(title, sentence, data, _arrivals(log.arrival), [behind, below])


def _chart(title: str, sentence: str, data: dict[str, list[Any]], across: Axis, panels: Sequence[Panel]) -> Chart:
    return Chart(
        sentence=sentence, data=data, scene=Scene(title=title, subtitle=sentence, across=across, panels=panels)
    )


def _refuse_other(comparison: object) -> None:
    if not isinstance(comparison, Comparison):
        raise ChartError(f"{shown(comparison)} is no comparison.", remedy="Give compare(trace, strategies).")


def _arrivals(arrival: Any) -> Axis:
    first, last = int(arrival[0]), int(arrival[-1])
    return Axis("arrival", first, last + (first == last), is_instant([first]), duration_unit(last - first))


def _numbers(points: Sequence[tuple[int, float, str]], width: int, height: float) -> list[Box]:
    """A label right of points that nearly coincide; a line higher or lower where it would stand on the next point."""
    line = 0.05 * height
    groups: list[list[tuple[int, float, str]]] = []
    for x, y, label in points:
        near = (group for group in groups if abs(x - group[0][0]) < 0.03 * width and abs(y - group[0][1]) < line)
        if (group := next(near, None)) is None:
            groups.append(group := [])
        group.append((x, y, label))
    boxes = []
    for group in groups:
        x, y, label = max(group)[0], group[0][1], ", ".join(name for *_, name in group)
        end = x + (text_width(label, 12) + 12) * width / _PLOT_PX
        taken = [up for left, up, _ in points if x < left < end and abs(y - up) < line]
        if taken:
            y += line if min(taken) < y else -line
        boxes.append(Box(x, x, y, y, label))
    return boxes


def _late(log: Log, met: Any) -> tuple[list[int], Dots, list[int]]:
    """The rows that are late for the X that they meet; they, or a share of them, at their delays; and the delays."""
    rows = np.flatnonzero(log.event < met).tolist()
    drawn = share_of(rows, _CAP)
    xs, ys = log.arrival[drawn].tolist(), (log.arrival - log.event)[drawn].tolist()
    return rows, Dots(name="late record", role="alarm", shape="cross", xs=xs, ys=ys, size=2.5), ys


def _height(late_share: float, top: float) -> float:
    return top if late_share == 0 else min(top, -log10(late_share))


def _ticks(top: float) -> tuple[Tick, ...]:
    nines = [Tick(n, f"{1 - 10.0**-n:.{max(0, n - 2)}%}") for n in range(int(top) + 1)]
    return (*nines, Tick(top, "all"))


def _behind(arrival: Any, x: Any) -> list[Value]:
    known = (x != UNKNOWN) & (x != END)
    lags = (arrival - np.where(known, x, 0)).tolist()
    return [lag if is_known else None for lag, is_known in zip(lags, known, strict=True)]


def _durations(name: str, values: Iterable[int | None], pad_percent: int = 6) -> Axis:
    return replace(time_axis(name, values, pad_percent=pad_percent), instants=False)


def _short(outcome: Outcome) -> str:
    return type(outcome.strategy).__name__


def _describe(comparison: Comparison, best: Sequence[str], lag_ms: int, edge: int) -> str:
    first = (
        f"A constant bound has 99% of the records of {comparison.trace.name} for a median lag of {rounded(lag_ms)}; "
        f"the perfect watermark has all for {rounded(edge)}."
    )
    if not best:
        return f"{first} No strategy loses less than the constant bound with the same lag."
    verb = "loses" if len(best) == 1 else "lose"
    return f"{first} {listed(best, most=3)} {verb} less than the constant bound with the same lag."
