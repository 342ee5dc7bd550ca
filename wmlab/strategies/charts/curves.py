"""Charts of strategies over one log: what a lower latency costs, where a watermark stands while records arrive, and how
far the two bounds of Pravega are apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import log10
from statistics import median_low
from typing import Any, Final

import numpy as np

from wmlab.core.charts.axis import Axis, Numbers, Tick, shown_range, single, time_axis
from wmlab.core.charts.chart import Chart, chart_of, drawn_words, share_of
from wmlab.core.charts.scene import (
    Between,
    Blocks,
    Box,
    Dots,
    Layer,
    Panel,
    Path,
    Shape,
    Steps,
    Value,
    rising_steps,
)
from wmlab.core.charts.style import text_width
from wmlab.core.errors import ChartError
from wmlab.core.facts import Facts
from wmlab.core.log_files import is_frame
from wmlab.core.traces import Trace
from wmlab.core.words import DAY_MS, counted, grouped, joined, rounded, shown
from wmlab.strategies.charts.arrivals import CAP, Arrivals
from wmlab.strategies.comparison import Comparison, Outcome, missed_text, never_closed
from wmlab.strategies.lateness import LatenessCurve, curve_of
from wmlab.strategies.model.bounded import PerfectWatermark
from wmlab.strategies.model.pravega import PravegaWatermark
from wmlab.strategies.model.strategy import END, UNKNOWN, Record, steps
from wmlab.strategies.replay import Log, as_trace, difference, inputs
from wmlab.strategies.vocabulary import CHART_LABELS, UNCERTAINTY_HEADLINE

_LEVELS: Final = 400
"""The curve of all bounds is drawn to within the height of its axis by this: less than a pixel."""
_FOREIGN: Final = 10
"""A record that is late by so many times the length of the log (or a day) is from another time, as of a device without
a clock: no bound is chosen for it, and it does not stretch the axis of lags."""
_EDGE: Final = 10
"""How much wider the axis of lags is, as a part of it, where points stand at its edge."""
_ALL: Final = 0.3
"""How far below the line of all records another one has room for its label."""
_MARGIN: Final = 50
"""How far inside its end an axis of lags has the points beyond it, as a part of its length."""
_SHAPES: Final[tuple[Shape, ...]] = ("circle", "diamond", "triangle", "cross")
_LOOKS: Final = tuple((role, shape) for shape, role in product(_SHAPES, ("upper", "third", "fourth", "alarm")))
_MOST_PANELS: Final = 6
_PLOT_PX: Final = 540
"""How wide the plot is at least, for labels that must not meet."""


def lateness_curve(comparison: Comparison, *, title: str | None = None) -> Chart:
    """Draw completeness against latency: the curve of all X = m - B, and each strategy as a numbered point.

    Latency is the median of arrival time minus X. Completeness is the share of records that are not late, on a scale on
    which 90%, 99% and 99.9% are one step apart; with windows it is the share that they do not lose. The curve consists
    of steps, because a bound includes the records that are late by exactly this bound. Of very many steps, those less
    than a pixel high are left out, so that completeness is never drawn too high. The median lag of the perfect
    watermark is a line: a point left of it cannot be complete. Points far from the curve are drawn at the edge, with
    their lag. Strategies without an X are left out. Raises `ChartError` if all are, and for anything but a comparison.
    """
    _require_comparison(comparison)
    trace, log, windows = comparison.trace, Log.of(comparison.trace), comparison.windows
    curve = curve_of(trace, windows)
    placed = [o for o in comparison if o.lag_p50_ms is not None and type(o.strategy) is not PerfectWatermark]
    if not placed:
        raise ChartError("No strategy has a watermark.", remedy="Compare one whose X becomes known over this log.")
    top = log10(trace.rows) + 0.5
    up = Numbers("records in windows" if windows else "records in time", -0.1, top + 0.2, _ticks(top))
    edge = log.perfect_lag_ms or 0
    across = _lags(curve, log, [edge, *(o.lag_p50_ms or 0 for o in placed)])
    bounds = np.append(0, curve.lateness)
    late, lags = curve.late(bounds), [curve.lag_ms(bound) for bound in bounds.tolist()]
    xs, ys, drawn = rising_steps(
        lags,
        [_height(number / trace.rows, top) for number in late.tolist()],
        end=across.high,
        least=(up.high - up.low) / _LEVELS,
    )
    names = _names(placed, others=[o for o in comparison if o not in placed])
    dots, points = _points(placed, names, across, top)
    numbers = _numbers(points, across.high - across.low, top)
    perfect = "perfect watermark" if _at_edge(across, edge) == edge else f"perfect watermark, beyond: {rounded(edge)}"
    layers: list[Layer] = [
        Path(name=perfect, role="perfect", xs=[_at_edge(across, edge)] * 2, ys=[0, top]),
        Path(name="a constant bound, by its size", role="lower", xs=xs, ys=ys),
        *dots,
        Blocks(name="numbers", role="text", boxes=numbers, legend=False, beside=True),
    ]
    panel = Panel(up=up, layers=layers, height=380)
    data: dict[str, list[Any]] = {
        "bound_ms": bounds.tolist(),
        "late": late.tolist(),
        "strategy": [outcome.name for outcome in placed],
        "strategy_lag_ms": [outcome.lag_p50_ms for outcome in placed],
        "strategy_late": [outcome.late for outcome in placed],
        "strategy_lost": [outcome.lost for outcome in placed],
    }
    title = title or f"How complete is {trace.name}, for which latency?"
    late = "late" if windows is None else f"lost by {windows}"
    note = joined(
        drawn_words((drawn, sum(lag_ms <= across.high for lag_ms in lags), "steps of the curve")),
        _beyond_lags(curve, across.high - curve.base_lag_ms, late),
        _at_the_edge(sum(_at_edge(across, lag) != lag for o in placed if (lag := o.lag_p50_ms) is not None)),
    )
    return chart_of(
        comparison.headline, data, facts=comparison.facts, title=title, note=note, across=across, panels=[panel]
    )


def _lags(curve: LatenessCurve, log: Log, lags: Sequence[int]) -> Axis:
    """The axis of lags over most of the curve, and over the lags that are not far from it."""
    base, late = curve.base_lag_ms, curve.lateness[curve.lateness <= _longest_ms(log)]
    high = base + (int(late[-1]) if len(late) else 0)
    # The curve counts more than a point: where most points are far from it, they are at the edge.
    axis = _durations("median lag", shown_range([single([base, high])], [single(lags)]), pad_percent=4)
    room = (axis.high - axis.low) // _EDGE
    left, right = min(lags) < axis.low, max(lags) > axis.high
    return replace(axis, low=axis.low - room * left, high=axis.high + room * right)


def _longest_ms(log: Log) -> int:
    """By how much a record of the log's own time may be late; what is later is of another time."""
    return _FOREIGN * max(int(log.arrival[-1]) - int(log.arrival[0]), DAY_MS)


def _points(
    placed: Sequence[Outcome], names: Sequence[str], across: Axis, top: float
) -> tuple[list[Dots], list[tuple[int, float, str]]]:
    """The point of each strategy, and where its number is to stand."""
    dots, points = [], []
    for number, (outcome, name) in enumerate(zip(placed, names, strict=True), start=1):
        role, shape = _LOOKS[(number - 1) % len(_LOOKS)]
        lag_ms = outcome.lag_p50_ms or 0
        x, y = _at_edge(across, lag_ms), _height(outcome.missed_share, top)
        words = f"{outcome.name}: lag {rounded(lag_ms)}, {missed_text(outcome)}"
        words += f", {never_closed(outcome)}" if outcome.windows else ""
        dots.append(Dots(name=f"{number} {name}", role=role, shape=shape, xs=[x], ys=[y], hover=[words], size=6))
        points.append((x, y, str(number) if x == lag_ms else f"{number} ({rounded(lag_ms)})"))
    return dots, points


def _at_edge(axis: Axis, lag_ms: int) -> int:
    """Where a lag is drawn: one beyond the axis near its end."""
    margin = (axis.high - axis.low) // _MARGIN
    return max(min(lag_ms, axis.high - margin), axis.low + margin) if not axis.low <= lag_ms <= axis.high else lag_ms


def _at_the_edge(count: int) -> str:
    """How many strategies are drawn at the edge of the axis, which has no room for their lag."""
    if not count:
        return ""
    beyond, are = ("1 strategy lies", "is") if count == 1 else (f"{grouped(count)} strategies lie", "are")
    return f"{beyond} beyond the axis and {are} drawn at its edge."


def _beyond_lags(curve: LatenessCurve, bound_ms: int, missed: str) -> str:
    """How many records are late, or lost, for the largest bound that has room on the axis."""
    if not (late := curve.late(max(0, bound_ms))):
        return ""
    return (
        f"{counted(late, 'record')} {'is' if late == 1 else 'are'} {missed} for every bound on the axis, by up to "
        f"{rounded(int(curve.lateness[-1]))}."
    )


def lag(comparison: Comparison, *, title: str | None = None) -> Chart:
    """Draw how far each strategy is behind the arrivals, in a panel each, with the late records as crosses above it.

    A record is late if its delay is larger than the lag at its arrival. The lag of the perfect watermark is the dotted
    line. A watermark ahead of the arrivals has a lag below 0. At most six strategies are drawn; of very many late
    records, a sample and the slowest ones are drawn. Raises `ChartError` for more strategies, and for anything but a
    comparison.
    """
    _require_comparison(comparison)
    if len(comparison) > _MOST_PANELS:
        raise ChartError(
            f"{len(comparison)} strategies have no room in one chart.",
            remedy=f"Compare at most {_MOST_PANELS} for this chart.",
        )
    trace, log = comparison.trace, Log.of(comparison.trace)
    names = _names(comparison.outcomes, short=False)
    time = Arrivals.of(log)
    ideal = _behind(log.arrival, log.ends)
    panels: list[Panel] = []
    data: dict[str, list[Any]] = {"arrival_ms": log.arrival.tolist()}
    data |= {name: _behind(log.arrival, path.x) for name, path in zip(names, comparison.paths, strict=True)}
    lates = [_late(log, path.met, time) for path in comparison.paths]
    # Panels that are compared have one axis, and no late record of the log's own time is beyond it.
    delays = [delay for late in lates for delay in late.delays if delay <= _longest_ms(log)]
    shown_lags = shown_range([single(data[name]) for name in names], [single(ideal)])
    up = _durations("lag", [*shown_lags, *delays])
    thinned = 0
    for name, outcome, late in zip(names, comparison, lates, strict=True):
        behind = data[name]
        drawn_rows = time.thin(log, [behind, ideal])
        thinned = max(thinned, drawn_rows.left_out)
        at, (lagging, perfect) = drawn_rows.arrivals(log), (drawn_rows.of(values) for values in (behind, ideal))
        curves: list[Layer] = [
            late.layer,
            Steps(name="perfect", role="perfect", xs=at, ys=perfect),
            Steps(name="lag", role="lower", xs=at, ys=lagging),
        ]
        windows = f"{name}: {never_closed(outcome)}" if outcome.windows else name
        heading = [part for part in (windows, late.sampled) if part]
        panels.append(Panel(up=up, layers=curves, height=170, title=heading))
    title = title or f"Which records of {trace.name} come too late?"
    note = joined(_of_curves(thinned, log), time.beyond)
    return chart_of(
        comparison.headline, data, facts=comparison.facts, title=title, note=note, across=time.axis, panels=panels
    )


def uncertainty(trace: Trace, strategy: PravegaWatermark | None = None, *, title: str | None = None) -> Chart:
    """Draw how far the two bounds of Pravega are apart over a log, and where the perfect watermark lies between them.

    Above, how far both bounds and the perfect watermark are behind the arrivals, downwards, so that the lower bound is
    below the upper one; records that are late for the lower bound are crosses below it, at their delay. In the panel
    below, upper less lower, the uncertainty about the time of a position. `strategy` is by default
    `PravegaWatermark()`. Raises `ChartError` for anything but a log, if there is no watermark, and for another
    strategy.
    """
    trace = as_trace(trace) if is_frame(trace) else trace
    if not isinstance(trace, Trace):
        raise ChartError(f"{shown(trace)} is not a log.", remedy="Give what wm.trace.load(...) returns.")
    strategy = PravegaWatermark() if strategy is None else strategy
    if not isinstance(strategy, PravegaWatermark):
        raise ChartError(f"{shown(strategy)} has no two bounds.", remedy="Give a wm.strategy.PravegaWatermark(...).")
    items = list(inputs(trace))
    done = zip(items, steps(strategy, items), strict=True)
    taken = [(met, native) for item, (met, _, native) in done if isinstance(item, Record)]
    log = Log.of(trace)
    if all(bounds is None for _, bounds in taken):
        raise ChartError("No cycle has emitted a watermark.", remedy="Take a longer log, or a shorter period_ms.")
    lower, upper = (
        _behind(log.arrival, np.array([UNKNOWN if b is None else b[side] for _, b in taken])) for side in (0, 1)
    )
    ideal = _behind(log.arrival, log.ends)
    apart: list[Value] = [None if low is None or up is None else low - up for low, up in zip(lower, upper, strict=True)]
    time = Arrivals.of(log)
    late = _late(log, np.array([met for met, _ in taken]), time)
    inside = [
        up <= at <= low
        for low, up, at in zip(lower, upper, ideal, strict=True)
        if low is not None and up is not None and at is not None
    ]
    drawn_rows = time.thin(log, [lower, upper, ideal])
    at = drawn_rows.arrivals(log)
    # The perfect watermark has the room that the others leave it.
    shown_lags = shown_range([single([*lower, *upper, *late.delays])], [single(ideal)])
    downwards = _durations("behind the arrivals", shown_lags).turned()
    low, high, best, width = (drawn_rows.of(values) for values in (lower, upper, ideal, apart))
    width_axis = _durations(
        "upper − lower", [0, *shown_range([single(apart)], least_ms=time.axis.high - time.axis.low)]
    )
    curves: list[Layer] = [
        Between(xs=at, lows=high, highs=low),
        late.layer,
        Steps(name="perfect", role="perfect", xs=at, ys=best),
        Steps(name="upper bound", role="upper", xs=at, ys=high),
        Steps(name="lower bound", role="lower", xs=at, ys=low),
    ]
    behind = Panel(up=downwards, layers=curves, height=260)
    distance = Steps(name="uncertainty", role="third", xs=at, ys=width)
    below = Panel(up=width_axis, layers=[distance], height=130)
    widths = [length for length in apart if length is not None]
    facts = Facts(
        CHART_LABELS,
        {
            "apart": median_low(widths),
            "perfect between": sum(inside) / max(1, len(inside)),
        },
    )
    data: dict[str, list[Any]] = {"arrival_ms": log.arrival.tolist(), "lower_lag_ms": lower, "upper_lag_ms": upper}
    data |= {"perfect_lag_ms": ideal, "uncertainty_ms": apart, "late_rows": late.rows}
    title = title or f"How sure is Pravega of the time in {trace.name}?"
    note = joined(late.sampled, _of_curves(drawn_rows.left_out, log), time.beyond)
    sentence = facts.fill(UNCERTAINTY_HEADLINE)
    return chart_of(sentence, data, facts=facts, title=title, note=note, across=time.axis, panels=[behind, below])


def _require_comparison(comparison: object) -> None:
    if not isinstance(comparison, Comparison):
        remedy = "Give what wm.strategy.compare(log, strategies) returns."
        raise ChartError(f"{shown(comparison)} is not a comparison.", remedy=remedy)


def _of_curves(left_out: int, log: Log) -> str:
    if not left_out:
        return ""
    return (
        f"Curves are drawn at some of {grouped(len(log.arrival))} arrivals: where each was the least or the largest "
        "for a stretch, and at its ends."
    )


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
        # The curve goes on to the right and upwards, so below it is room.
        boxes.append(Box(x, x, y - 0.6 * line, y - 0.6 * line, label))
    return boxes


@dataclass(frozen=True, slots=True)
class _Late:
    """The rows that are late for the X that they meet, their delays, and what of them is drawn."""

    rows: list[int]
    delays: list[int]
    drawn_at: list[int]
    drawn_delays: list[int]

    @property
    def sampled(self) -> str:
        """How many are drawn, if not all."""
        return drawn_words((len(self.drawn_at), len(self.rows), "late records"))

    @property
    def layer(self) -> Dots:
        """Crosses at their delays."""
        xs, ys = self.drawn_at, self.drawn_delays
        return Dots(name="late record", role="alarm", shape="cross", xs=xs, ys=ys, size=2.5)


def _late(log: Log, met: Any, time: Arrivals) -> _Late:
    """The late records; of many an even share is drawn, and the slowest."""
    late = log.event < met
    rows, delays = np.flatnonzero(late).tolist(), difference(log.arrival, log.event, late).tolist()
    inside = [index for index, row in enumerate(rows) if time.first <= row < time.end]
    drawn = set(share_of(inside, CAP))
    if inside:
        drawn.add(max(inside, key=delays.__getitem__))
    chosen = sorted(drawn)
    at = log.arrival[[rows[index] for index in chosen]].tolist() if chosen else []
    return _Late(rows, delays, at, [delays[index] for index in chosen])


def _height(late_share: float, top: float) -> float:
    return top if late_share == 0 else min(top, -log10(late_share))


def _ticks(top: float) -> tuple[Tick, ...]:
    nines = [Tick(n, f"{1 - 10.0**-n:.{max(0, n - 2)}%}") for n in range(int(top) + 1) if n < top - _ALL]
    return (*nines, Tick(top, "all"))


def _behind(arrival: Any, x: Any) -> list[Value]:
    known = (x != UNKNOWN) & (x != END)
    lags = np.zeros_like(arrival)
    lags[known] = difference(arrival, x, known)
    return [lag if is_known else None for lag, is_known in zip(lags.tolist(), known.tolist(), strict=True)]


def _durations(name: str, values: Iterable[int | None], pad_percent: int = 6) -> Axis:
    return replace(time_axis(name, values, pad_percent=pad_percent), instants=False)


def _names(outcomes: Sequence[Outcome], *, short: bool = True, others: Sequence[Outcome] = ()) -> list[str]:
    """Names that tell the strategies apart: the class alone if it is the only one of it, else also its fields."""
    classes = Counter(type(o.strategy).__name__ for o in (*outcomes, *others))
    of_class = [type(o.strategy).__name__ for o in outcomes]
    names = [name if short and classes[name] == 1 else o.name for name, o in zip(of_class, outcomes, strict=True)]
    return [f"{name} ({names[:n].count(name) + 1})" if names.count(name) > 1 else name for n, name in enumerate(names)]
