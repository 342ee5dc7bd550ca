"""The drawing, before any library draws it: panels over one x axis, each with layers in the units of its data.

A chart composes a `Scene` from the facts it found; `svg` and `plotly` draw the same scene. A layer has a role, which
gives colour, width and dash (`style.ROLES`), and a name, which stands in the legend or in the hover box; so nothing is
shown by colour alone.

A step curve is two lists of one length: `xs` ascending integers and `ys` integers or None (unknown). A value known at
row i is drawn from xs[i] to xs[i + 1], also when row i + 1 is unknown; there the curve has a gap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Final, Literal, TypeVar

from wmlab.core.arguments import the_flag
from wmlab.core.charts.axis import AnyAxis, Axis, Coordinate, Numbers, Tick, held, shown_range, time_axis
from wmlab.core.charts.style import (
    BOLD,
    LABEL_PX,
    ROLES,
    TEXT_PX,
    TICK_PX,
    TITLE_PX,
    RuleLabels,
    stagger,
    text_width,
    wrap,
)
from wmlab.core.errors import ChartError
from wmlab.core.words import counted, joined, listed

Value = int | None
Point = tuple[int, int]


def stairs_until_unknown(xs: Sequence[int], ys: Sequence[Value]) -> tuple[list[int], list[Value]]:
    """The curve with each known value repeated where the unknown begins.

    A plotting library that draws "hv" steps ends a line at the last known point; the added point makes it end
    where the value really stopped to be known.
    """
    stair_xs: list[int] = []
    stair_ys: list[Value] = []
    for x, y in zip(xs, ys, strict=True):
        if y is None and stair_ys and stair_ys[-1] is not None:
            stair_xs.append(x)
            stair_ys.append(stair_ys[-1])
        stair_xs.append(x)
        stair_ys.append(y)
    return stair_xs, stair_ys


def staircases(xs: Sequence[int], ys: Sequence[Value]) -> list[list[Point]]:
    """One polyline for each stretch in which the value is known, with the corners of its steps."""
    lines: list[list[Point]] = []
    line: list[Point] = []
    for x, y in zip(xs, ys, strict=True):
        if line and y != line[-1][1]:
            _extend(line, x, line[-1][1])
        if y is not None:
            _extend(line, x, y)
        elif line:
            lines.append(line)
            line = []
    return [*lines, line] if line else lines


def _extend(line: list[Point], x: int, y: int) -> None:
    if len(line) > 1 and line[-1][1] == line[-2][1] == y:
        line[-1] = (x, y)
    elif not line or line[-1] != (x, y):
        line.append((x, y))


def bands(xs: Sequence[int], lows: Sequence[Value], highs: Sequence[Value]) -> list[list[Point]]:
    """One closed polygon for each stretch in which both curves are known, along `lows` and back along `highs`."""
    floors = staircases(xs, [None if high is None else low for low, high in zip(lows, highs, strict=True)])
    ceilings = staircases(xs, [None if low is None else high for low, high in zip(lows, highs, strict=True)])
    sides = zip(floors, ceilings, strict=True)
    return [[*floor, *reversed(ceiling)] for floor, ceiling in sides if floor[0][0] < floor[-1][0]]


@dataclass(frozen=True, slots=True)
class ConstantSpan:
    """A stretch of the clock (ms) in which a value did not change, and its rows; at its end it changed if `ended`."""

    value: Value
    from_ms: int
    to_ms: int
    rows: range
    ended: bool

    @property
    def length_ms(self) -> int:
        """How long it lasted."""
        return self.to_ms - self.from_ms


def constant_spans(at_ms: Sequence[int], values: Sequence[Value]) -> list[ConstantSpan]:
    """The stretches of equal values, one after the other; each lasts until the row that changes it, or to the end."""
    last = len(values) - 1
    begins = [row for row in range(len(values)) if row == 0 or values[row] != values[row - 1]]
    return [
        ConstantSpan(values[begin], at_ms[begin], at_ms[min(end, last)], range(begin, end), end <= last)
        for begin, end in pairwise([*begins, last + 1])
    ]


def longest_known(at_ms: Sequence[int], values: Sequence[Value]) -> ConstantSpan | None:
    """The first of the longest stretches of one known value; None if there is none that lasts."""
    known = (span for span in constant_spans(at_ms, values) if span.value is not None and span.length_ms > 0)
    return max(known, key=lambda span: span.length_ms, default=None)


def behind_clock(at_ms: Sequence[int], bounds: Sequence[Value]) -> tuple[list[int], list[Value]]:
    """Clock minus bound as a line through points: it grows while the bound stands still, and jumps as it rises."""
    xs: list[int] = []
    ys: list[Value] = []
    for span in constant_spans(at_ms, bounds):
        for x in dict.fromkeys((span.from_ms, span.to_ms)):
            xs.append(x)
            ys.append(None if span.value is None else x - span.value)
    return xs, ys


def unknown_spans(xs: Sequence[int], ys: Sequence[Value]) -> list[tuple[int, int]]:
    """The stretches (from, to) in which the value is unknown; the last one ends at the last row."""
    spans = constant_spans(xs, [y is None for y in ys])
    return [(s.from_ms, s.to_ms) for s in spans if s.value and (s.ended or s.length_ms)]


def known_spans(xs: Sequence[int], ys: Sequence[Value]) -> list[tuple[int, int]]:
    """The stretches (from, to) in which the value is known; the last one ends at the last row."""
    return unknown_spans(xs, [0 if y is None else None for y in ys])


def minus(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    """The difference row by row; unknown where either side is."""
    return [None if a is None or b is None else a - b for a, b in zip(left, right, strict=True)]


def thin(columns: Sequence[Sequence[Value]], cap: int, *, xs: Sequence[int] | None = None) -> list[int]:
    """Row numbers, ascending, that are enough to draw all `columns` over the same rows with about `cap` points.

    All rows if there are at most `cap`. Otherwise rows that repeat the row before them go first. If that is not
    enough, the rest is cut into stretches; each keeps its ends, and of every column the row of its minimum, of its
    maximum and of its first unknown value, so no peak, dip or gap disappears. The stretches are as short as the cap
    allows. They are of equal length along `xs`, which ascend, so that what is drawn is off in x by a few pixels at
    most; without `xs` they have equally many rows, which is right for rows that are as far apart as each other.
    """
    count = len(columns[0])
    if count <= cap:
        return list(range(count))
    changed = (i for i in range(1, count - 1) if any(column[i] != column[i - 1] for column in columns))
    rows = [0, *changed, count - 1]
    if len(rows) <= cap:
        return rows
    fewest = max(cap // (2 + 3 * len(columns)), 1)
    parts = max(cap // 2, 1)
    while len(rows_drawn := _extremes(columns, _cut(rows, parts, xs))) > cap and parts > fewest:
        parts = max(parts * 4 // 5, fewest)
    return rows_drawn


def rising_steps(
    xs: Sequence[int], heights: Sequence[float], *, end: int, least: float
) -> tuple[list[int], list[float], int]:
    """The corners, for a `Path`, of a step curve that only rises, up to `end`, and how many of its rows they show.

    A height is held from its x to the next one's. The first row is drawn, and each that is more than `least` above the
    row drawn before it; so the drawn curve is exact at each row drawn, and elsewhere at most `least` too low, never too
    high. Rows beyond `end` are left out.
    """
    corner_xs, corner_ys, rows = [xs[0]], [heights[0]], 1
    for x, height in zip(xs, heights, strict=True):
        if x <= end and height - corner_ys[-1] > least:
            corner_xs += [x, x]
            corner_ys += [corner_ys[-1], height]
            rows += 1
    return [*corner_xs, end], [*corner_ys, corner_ys[-1]], rows


def thinned(xs: Sequence[int], ys: Sequence[Value], cap: int) -> tuple[list[int], list[Value]]:
    """The points of one curve that `thin` keeps."""
    rows = thin([ys], cap, xs=xs)
    return [xs[i] for i in rows], [ys[i] for i in rows]


def _cut(rows: Sequence[int], count: int, xs: Sequence[int] | None) -> Iterator[Sequence[int]]:
    """The rows in at most `count` stretches, none of them empty."""
    if xs is None:
        edges = [number * len(rows) // count for number in range(count + 1)]
    else:
        low, span = xs[rows[0]], xs[rows[-1]] - xs[rows[0]]
        edges = [bisect_left(rows, low + number * span / count, key=xs.__getitem__) for number in range(count)]
        edges.append(len(rows))
    return (rows[begin:end] for begin, end in pairwise(edges) if begin < end)


def _extremes(columns: Sequence[Sequence[Value]], parts: Iterable[Sequence[int]]) -> list[int]:
    """The rows that `thin` keeps of each stretch."""
    extremes: set[int] = set()
    for part in parts:
        extremes.update((part[0], part[-1]))
        for column in columns:
            known = [(value, i) for i in part if (value := column[i]) is not None]
            extremes.update([min(known)[1], max(known)[1]] if known else [])
            extremes.update([i for i in part if column[i] is None][:1])
    return sorted(extremes)


Shape = Literal["circle", "diamond", "triangle", "cross"]

LANE_HEIGHT: Final = 34.0
"""Height of a named row in px."""
TITLE: Final = 17.0
"""Room for a line of the title of a panel in px."""
_MARGIN, _RIGHT = 20.0, 34.0
"""Pixels left of everything, and right of the plot at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A curve that keeps each value until the next one; None is unknown. The legend shows its name."""

    name: str
    role: str
    xs: Sequence[int]
    ys: Sequence[Value]
    legend: bool = True

    def __post_init__(self) -> None:
        the_flag(self.legend, "legend", ChartError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Straight lines through points; None breaks the line. The legend shows its name.

    `thin`: a hairline, for many lines close together.
    """

    name: str
    role: str
    xs: Sequence[Coordinate | None]
    ys: Sequence[Coordinate | None]
    legend: bool = True
    thin: bool = False

    def __post_init__(self) -> None:
        the_flag(self.legend, "legend", ChartError)
        the_flag(self.thin, "thin", ChartError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """Markers, each with its own words for the hover box (empty: none)."""

    name: str
    role: str
    shape: Shape
    xs: Sequence[Coordinate]
    ys: Sequence[Coordinate]
    hover: Sequence[str] = ()
    size: float = 4.0
    legend: bool = True

    def __post_init__(self) -> None:
        the_flag(self.legend, "legend", ChartError)


def dots(
    name: str,
    role: str,
    shape: Shape,
    points: Iterable[tuple[Coordinate, Coordinate, str]],
    *,
    size: float = 4.0,
    legend: bool = True,
) -> Dots:
    """Markers at points, each with its words for the hover box."""
    xs, ys, hover = map(list, zip(*points, strict=True)) if (points := list(points)) else ([], [], [])
    return Dots(name=name, role=role, shape=shape, xs=xs, ys=ys, hover=hover, size=size, legend=legend)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with a label inside it, if there is room, and words for the hover box."""

    x_low: int
    x_high: int
    y_low: Coordinate
    y_high: Coordinate
    label: str = ""
    hover: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Rectangles of one meaning; with `beside` their labels stand after them, and always.

    Many narrow ones side by side are not `outlined`, or they would look hatched.
    """

    name: str
    role: str
    boxes: Sequence[Box]
    opacity: float = 0.28
    legend: bool = True
    beside: bool = False
    outlined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """The area between two step curves over the same points."""

    xs: Sequence[int]
    lows: Sequence[Value]
    highs: Sequence[Value]


Layer = Steps | Path | Dots | Blocks | Between
Named = Steps | Path | Dots | Blocks
"""Layers that may stand in the legend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One vertical axis and what is drawn over it, the last layer on top. `height` is in px.

    The paragraphs of its `title` stand above it, the first one bold. A `note` stands in the middle of a
    panel that has nothing to show; its vertical axis has no ticks.
    """

    up: AnyAxis
    layers: Sequence[Layer]
    height: float = 240.0
    note: str = ""
    title: Sequence[str] = ()

    @property
    def drawn(self) -> list[Layer]:
        """The layers from the bottom to the top: solid curves below dashed ones, so that neither hides the other."""
        curves = [layer for layer in self.layers if isinstance(layer, Steps | Path)]
        in_order = iter(sorted(curves, key=lambda layer: bool(ROLES[layer.role].dash)))
        return [next(in_order) if isinstance(layer, Steps | Path) else layer for layer in self.layers]

    def title_lines(self, *, width: float) -> list[list[str]]:
        """The paragraphs of the title, in lines."""
        widths = [width / BOLD] + [width] * len(self.title)
        return [wrap(words, width=room, size=LABEL_PX) for words, room in zip(self.title, widths, strict=False)]

    @property
    def beyond(self) -> list[tuple[Steps | Path | Dots, str]]:
        """The layers with values beyond a vertical axis of times: how many if they are markers, and how far."""
        layers = (layer for layer in self.layers if isinstance(layer, Steps | Path | Dots))
        return [(layer, words) for layer in layers if (words := self._beyond(layer))]

    def _beyond(self, layer: Steps | Path | Dots) -> str:
        up = self.up
        if not isinstance(up, Axis):
            return ""
        low, high = sorted((up.low, up.high))
        values = sorted(round(y) for y in layer.ys if y is not None and not low <= y <= high)
        if not values:
            return ""
        ways = [f"down to {up.written(values[0])}"] if values[0] < low else []
        ways += [f"up to {up.written(values[-1])}"] if values[-1] > high else []
        what = f"{layer.name} ({counted(len(values), 'value')})" if isinstance(layer, Dots) else layer.name
        return f"{what}, {listed(ways)}"


_MOST_BEYOND: Final = 4
"""Layers with values beyond an axis that a sentence names with how far they go."""
_BROKEN_PX: Final = (180.0, 110.0)
"""How wide the lines of labels are that have no room in one line; the first width that is narrow enough is taken."""
_IMPORTANCE: Final = ("cross", "circle", "triangle", "diamond")
"""Which labels come first where there is no room for all: of failures, of anything else, of recoveries, of scales."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A vertical line through all panels with a label above them: something that happened."""

    x: int
    label: str
    shape: Shape = "circle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A whole picture: question, answer, the x axis, the panels from top to bottom, and the rules across them.

    Rules beyond the ends of the x axis are left out. With `together` a hover box shows all values at one x. `note` says
    which part of what there is is drawn; a page shows it when a reader opens the facts.
    """

    title: str
    subtitle: str
    across: AnyAxis
    panels: Sequence[Panel]
    rules: Sequence[Rule] = ()
    together: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        the_flag(self.together, "together", ChartError)
        axis = self.across
        object.__setattr__(self, "rules", [rule for rule in self.rules if axis.low <= rule.x <= axis.high])

    @property
    def layers(self) -> list[Layer]:
        """The layers of all panels."""
        return [layer for panel in self.panels for layer in panel.layers]

    @property
    def legend(self) -> list[Named]:
        """The layers that the legend names, each name once; in an interactive picture a click on one hides it."""
        named: dict[str, Named] = {}
        for layer in self.layers:
            if not isinstance(layer, Between) and layer.legend:
                drawn = layer.boxes if isinstance(layer, Blocks) else layer.xs
                if drawn and not (isinstance(layer, Steps) and all(y is None for y in layer.ys)):
                    named.setdefault(layer.name, layer)
        return list(named.values())

    @property
    def beyond(self) -> str:
        """What lies beyond the vertical axes of the panels, as a sentence; empty if nothing does.

        Up to four layers are named with how far they go, and more by their names only.
        """
        beyond = {
            f"{panel.title[0]}: {words}" if panel.title else words: layer.name
            for panel in self.panels
            for layer, words in panel.beyond
        }
        if len(beyond) > _MOST_BEYOND:
            return f"Some values of {listed(list(dict.fromkeys(beyond.values())))} lie beyond the axes."
        return f"Beyond the axis: {'; '.join(beyond)}." if beyond else ""

    @property
    def left(self) -> float:
        """Pixels left of the plot, for the labels of ticks and the titles of the vertical axes."""
        widths = []
        for panel in self.panels:
            widest = max((text_width(tick.label, TICK_PX) for tick in panel.up.ticks(6)), default=0.0)
            widths.append(_MARGIN + widest + (36 if panel.up.title else 14))
        return max(widths)

    @property
    def right(self) -> float:
        """Pixels right of the plot, for labels next to boxes."""
        beside = [layer for layer in self.layers if isinstance(layer, Blocks) and layer.beside]
        widths = [text_width(box.label, LABEL_PX) + 16 for layer in beside for box in layer.boxes]
        return max([_RIGHT, *widths])

    def rule_labels(self, plot_px: float, *, gap: float, beside: tuple[float, float]) -> RuleLabels:
        """Where the labels of the rules stand in a plot of that width, as `stagger` has it.

        Where not all have room, long ones are broken into lines. `beside` is how far they may stand out of the plot, to
        the left and to the right, in pixels.
        """
        span = self.across.high - self.across.low
        columns = [(rule.x - self.across.low) / span * plot_px for rule in self.rules]
        ranks = [_IMPORTANCE.index(rule.shape) for rule in self.rules]
        room = (-beside[0], plot_px + beside[1])
        texts = [wrap(rule.label, width=plot_px + sum(beside), size=LABEL_PX) for rule in self.rules]
        tried = [self._stagger(texts, columns, ranks, room, gap)]
        # First only those that have no room are broken, then all.
        for width, every in product(_BROKEN_PX, (False, True)):
            if not tried[-1].missing:
                break
            broken = [wrap(rule.label, width=width, size=LABEL_PX) for rule in self.rules]
            lacking = [every or place is None for place in tried[0].places]
            chosen = [lines if lacks else text for lines, lacks, text in zip(broken, lacking, texts, strict=True)]
            tried.append(self._stagger(chosen, columns, ranks, room, gap))
        return min(tried, key=lambda labels: labels.missing)

    @staticmethod
    def _stagger(
        texts: Sequence[Sequence[str]],
        columns: Sequence[float],
        ranks: Sequence[int],
        room: tuple[float, float],
        gap: float,
    ) -> RuleLabels:
        widths = [max(text_width(words, LABEL_PX) for words in lines) + gap for lines in texts]
        heights = [len(lines) for lines in texts]
        return RuleLabels(*stagger(columns, widths, room=room, ranks=ranks, lines=heights), texts)

    def title_lines(self, *, width: float) -> list[str]:
        """The title, which is bold, in lines."""
        return wrap(self.title, width=width / BOLD, size=TITLE_PX)

    def left_out(self, labels: RuleLabels) -> str:
        """What the picture does not show: rows, what lies beyond an axis, and labels of rules without room."""
        note = f"Without a label: {labels.missing} of {len(self.rules)} incidents." if labels.missing else ""
        return joined(self.note, self.beyond, note)

    def subtitle_lines(self, *, width: float) -> list[str]:
        """The subtitle in lines."""
        return wrap(self.subtitle, width=width, size=TEXT_PX)


def legend_rows(entries: Sequence[Named], width: float, *, beside: float) -> list[list[tuple[float, Named]]]:
    """The entries of a legend of that width, with their columns, in as many rows as they need.

    `beside` is what an entry takes besides its name, in pixels.
    """
    rows: list[list[tuple[float, Named]]] = []
    column = width
    for layer in entries:
        taken = text_width(layer.name, TICK_PX) + beside
        if column + taken > width:
            rows.append([])
            column = 0.0
        rows[-1].append((column, layer))
        column += taken
    return rows


Curve = TypeVar("Curve", Steps, Path)


def merge_equal(curves: Sequence[Curve]) -> list[Curve]:
    """The curves; equal ones become one with all their names, in the style of the last one, which would hide them."""
    by_points: dict[str, list[Curve]] = {}
    for curve in curves:
        known = staircases(curve.xs, curve.ys) if isinstance(curve, Steps) else (curve.xs, curve.ys)
        by_points.setdefault(repr(known), []).append(curve)
    return [replace(equal[-1], name=listed([curve.name for curve in equal])) for equal in by_points.values()]


def lanes(names: Iterable[str], layers: Sequence[Layer], *, height: float = LANE_HEIGHT) -> Panel:
    """A panel of named rows of `height` px, the first on top; row i is the stretch from i - 0.5 to i + 0.5."""
    rows = tuple(Tick(row, name) for row, name in enumerate(names))
    up = Numbers("", max(len(rows), 1) - 0.5, -0.5, rows)
    return Panel(up=up, layers=layers, height=height * max(len(rows), 1))


def behind_furthest(
    xs: Sequence[int], curves: Mapping[str, Sequence[Value]], roles: Sequence[str], *, most: int
) -> list[Panel]:
    """How far each of several curves over the same clock is behind the furthest of them, where the two are known.

    Curves that rise with the clock lie on each other; here they are apart. Of each about `most` points are drawn. There
    is no panel if none is ever behind.
    """
    furthest = [max((y for y in row if y is not None), default=None) for row in zip(*curves.values(), strict=True)]
    distances = [minus(furthest, ys) for ys in curves.values()]
    if not any(any(ys) for ys in distances):
        return []
    rows = thin(distances, most, xs=xs)
    drawn = [xs[row] for row in rows]
    layers = [
        Steps(name=f"{name} behind the furthest", role=role, xs=drawn, ys=[ys[row] for row in rows], legend=False)
        for name, role, ys in zip(curves, roles, distances, strict=False)
    ]
    ends = shown_range([held(xs, ys) for ys in distances], least_ms=max(xs[-1] - xs[0], 1))
    up = time_axis("behind the furthest", [0, *ends], pad_percent=8)
    return [Panel(up=replace(up, low=min(ends[0], -(up.high // 25))), layers=layers, height=150.0)]
