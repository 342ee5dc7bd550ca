"""The still picture of time bounds, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wmlab.core.charts import svg
from wmlab.core.charts.axis import unlabelled
from wmlab.core.charts.labels import Placed, spread, stagger, text_width, wrap
from wmlab.core.charts.steps import Value, bands, staircases
from wmlab.streams.charts.bounds_picture import CURVE_NAMES, NOTHING, SYMBOL, BoundsPicture, strip_label

_WIDTH = 900.0
_MARGIN = 20.0
_RIGHT = 112.0
_LEVEL = 19.0
_MAIN, _BELOW, _AXIS = 290.0, 120.0, 50.0
_STRIP = 14.0
_SMALL = 11.5
_BOLD = 1.22
"""How much wider bold text is than plain text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """Where everything stands, in pixels; `strip` is the top of the strips that show the unknown, `bottom` the
    end of the lowest panel or strip."""

    head: list[str]
    labels: list[Placed | None]
    lane_bottom: float
    main: svg.Panel
    strip: float
    below: svg.Panel | None
    bottom: float


def draw_svg(picture: BoundsPicture) -> str:
    """The picture as SVG text, 900 px wide."""
    frame = _arrange(picture)
    parts = [*_head(picture, frame.head), *_axes(picture, frame)]
    parts += [svg.area(_pixels(frame.main, polygon), "band", opacity=0.14) for polygon in _main_bands(picture)]
    parts += _markers(picture, frame)
    parts += [_step_line(frame.main, steps, name) for name in CURVE_NAMES for steps in _steps(picture, name)]
    parts += _end_labels(picture, frame.main)
    parts += _unknown(picture, frame)
    parts += _distance(picture, frame.below)
    parts += _alarms(picture, frame)
    return svg.document(_WIDTH, frame.bottom + _AXIS, title=picture.title, desc=picture.subtitle, parts=parts)


def _arrange(picture: BoundsPicture) -> _Frame:
    left = 122.0 if picture.event.instants else 78.0
    width = _WIDTH - left - _RIGHT
    span = picture.clock.high - picture.clock.low
    places = [(h.at_ms - picture.clock.low) / span * width for h in picture.happened]
    widths = [text_width(h.label, _SMALL) + 9 for h in picture.happened]
    levels, labels = stagger(places, widths, limit=_WIDTH - _MARGIN - left)
    head = wrap(picture.subtitle + unlabelled(labels), width=_WIDTH - 2 * _MARGIN, size=13)
    lane_top = 44.0 + 19 * len(head)
    unnamed = _LEVEL if None in labels else 0.0
    main_top = lane_top + levels * _LEVEL + unnamed + 8
    main = _panel(picture, left, main_top, width, _MAIN, picture.event.low, picture.event.high)
    strip = main.bottom + 8
    bottom = strip + _STRIP * len(picture.unknown())
    below = None
    if picture.distance is not None:
        axis = picture.distance.axis
        below = _panel(picture, left, bottom + 10, width, _BELOW, axis.low, axis.high)
        bottom = below.bottom
    return _Frame(
        head=head,
        labels=labels,
        lane_bottom=main_top - 8 - unnamed,
        main=main,
        strip=strip,
        below=below,
        bottom=bottom,
    )


def _panel(
    picture: BoundsPicture, left: float, top: float, width: float, height: float, low: int, high: int
) -> svg.Panel:
    return svg.Panel(
        left=left,
        top=top,
        width=width,
        height=height,
        x_low=picture.clock.low,
        x_high=picture.clock.high,
        y_low=low,
        y_high=high,
    )


def _head(picture: BoundsPicture, lines: Sequence[str]) -> list[str]:
    fitting = (_WIDTH - 2 * _MARGIN) / (_BOLD * text_width(picture.title, 1))
    title = svg.text(_MARGIN, 30, picture.title, "title", size=min(17, fitting), bold=True)
    return [title, *(svg.text(_MARGIN, 51 + 19 * n, line, "text", size=13) for n, line in enumerate(lines))]


def _axes(picture: BoundsPicture, frame: _Frame) -> list[str]:
    clock_ticks = picture.clock.ticks(6 if picture.clock.instants else 8)
    offset = frame.main.left - _MARGIN - 6
    title = picture.clock.title
    parts = svg.x_axis(frame.main, clock_ticks, title=title, below=None if frame.below else frame.bottom)
    event_ticks = picture.event.ticks(8) if picture.ends() else []
    parts += svg.y_axis(frame.main, event_ticks, title=picture.event.title, offset=offset)
    if frame.below is not None and picture.distance is not None:
        axis = picture.distance.axis
        parts += svg.x_axis(frame.below, clock_ticks, title=title, below=frame.bottom)
        parts += svg.y_axis(frame.below, axis.ticks(4), title=axis.title, offset=offset)
    return parts


def _markers(picture: BoundsPicture, frame: _Frame) -> list[str]:
    parts = []
    for happening, label in zip(picture.happened, frame.labels, strict=True):
        x = frame.main.x(happening.at_ms)
        top = frame.lane_bottom - (label.level + 0.5) * _LEVEL if label else frame.lane_bottom + _LEVEL / 2
        parts.append(svg.line([(x, frame.main.bottom), (x, top)], "mark"))
        if frame.below:
            parts.append(svg.line([(x, frame.below.bottom), (x, frame.below.top)], "mark"))
        parts.append(svg.point(x, top, SYMBOL.get(happening.kind, "circle"), "text", size=4))
        if label and label.before:
            parts.append(svg.text(x - 8, top + 4, happening.label, "text", size=_SMALL, anchor="end"))
        elif label:
            parts.append(svg.text(x + 8, top + 4, happening.label, "text", size=_SMALL))
    return parts


def _end_labels(picture: BoundsPicture, main: svg.Panel) -> list[str]:
    ends = picture.ends()
    names = [name for name in CURVE_NAMES if name in ends]
    if not names:
        middle = main.left + main.width / 2, main.top + main.height / 2
        return [svg.text(*middle, NOTHING, "text", size=15, anchor="middle")]
    wanted = [main.y(ends[name][1]) for name in names]
    places = spread(wanted, gap=17, low=main.top + 6, high=main.bottom - 2)
    return [
        svg.text(main.right + 8, y + 4, CURVE_NAMES[name], name, size=13, bold=True)
        for name, y in zip(names, places, strict=True)
    ]


def _unknown(picture: BoundsPicture, frame: _Frame) -> list[str]:
    parts = []
    for row, (name, spans) in enumerate(picture.unknown().items()):
        top = frame.strip + row * _STRIP
        for begin, end in spans:
            left, right = frame.main.x(begin), max(frame.main.x(end), frame.main.x(begin) + 1)
            corners = [(left, top + 2), (right, top + 2), (right, top + 9), (left, top + 9)]
            parts.append(svg.area(corners, name, opacity=0.5))
        place, side = strip_label(spans, picture.clock)
        x, anchor = {
            "after": (frame.main.x(place) + 6, "start"),
            "before": (frame.main.x(place) - 6, "end"),
            "beside": (frame.main.right + 8, "start"),
        }[side]
        parts.append(svg.text(x, top + 10, f"{name} unknown", "text", size=_SMALL, anchor=anchor))
    return parts


def _distance(picture: BoundsPicture, below: svg.Panel | None) -> list[str]:
    if below is None or picture.distance is None:
        return []
    distance = picture.distance
    zero = below.y(0)
    polygons = bands(picture.at_ms, distance.lower, distance.upper)
    parts = [svg.area(_pixels(below, polygon), "band", opacity=0.14) for polygon in polygons]
    parts.append(svg.line([(below.left, zero), (below.right, zero)], "truth"))
    for name, values in (("upper", distance.upper), ("lower", distance.lower)):
        parts += [_step_line(below, steps, name) for steps in _stretches(picture, values)]
    return [*parts, svg.text(below.right + 8, zero + 4, distance.reference, "truth", size=13, bold=True)]


def _alarms(picture: BoundsPicture, frame: _Frame) -> list[str]:
    parts = []
    for at_ms, lower, above in picture.alarms:
        parts.append(svg.point(frame.main.x(at_ms), frame.main.y(lower), "cross", "alarm", size=5))
        if frame.below is not None:
            parts.append(svg.point(frame.below.x(at_ms), frame.below.y(above), "cross", "alarm", size=5))
    if parts:
        parts.append(svg.text(frame.main.left + 10, frame.main.top + 18, "× not safe", "alarm", size=13, bold=True))
    return parts


def _main_bands(picture: BoundsPicture) -> list[list[tuple[int, int]]]:
    return bands(picture.at_ms, picture.curves["lower"], picture.curves["upper"])


def _steps(picture: BoundsPicture, name: str) -> list[list[tuple[int, int]]]:
    values: Sequence[Value] = picture.curves.get(name, [])
    return _stretches(picture, values) if values else []


def _stretches(picture: BoundsPicture, values: Sequence[Value]) -> list[list[tuple[int, int]]]:
    """The stretches of a curve, without those of no length: within one ms a bound may come and go."""
    found = staircases(picture.at_ms, values)
    return [steps for steps in found if len(steps) > 1 or steps[0][0] == picture.at_ms[-1]]


def _step_line(panel: svg.Panel, steps: Sequence[tuple[int, int]], name: str) -> str:
    """A stretch of a curve; one that is known at the last row only has no length and is a point."""
    pixels = _pixels(panel, steps)
    return svg.line(pixels, name) if len(pixels) > 1 else svg.point(*pixels[0], "circle", name, size=3.5)


def _pixels(panel: svg.Panel, points: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    return [(panel.x(x), panel.y(y)) for x, y in points]
