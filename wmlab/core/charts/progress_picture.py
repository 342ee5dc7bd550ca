"""A plain picture of step curves over a clock, and how it is drawn as SVG and as a plotly figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

import plotly.graph_objects as go  # type: ignore[import-untyped]

from wmlab.core.charts import svg
from wmlab.core.charts.axis import Axis
from wmlab.core.charts.labels import spread, wrap
from wmlab.core.charts.steps import Value, bands, hold, staircases
from wmlab.core.charts.style import PLOTLY_COLOUR, PLOTLY_DASH, ROLES, TEMPLATE
from wmlab.core.charts.ticks import Tick, number_ticks

_WIDTH, _MARGIN, _RIGHT, _MAIN, _BOTTOM = 900.0, 20.0, 132.0, 320.0, 56.0
_READABLE_WIDTH: Final = 700.0


@dataclass(frozen=True, slots=True)
class Counts:
    """An axis of whole numbers."""

    name: str
    low: int
    high: int
    instants: bool = False

    @property
    def title(self) -> str:
        """The name."""
        return self.name

    def ticks(self, count: int) -> list[Tick]:
        """At most `count` + 1 ticks inside the range."""
        return number_ticks(self.low, self.high, count=count)

    def plotted(self, values: Iterable[Value]) -> list[float | None]:
        """Values as a plotly axis takes them."""
        return list(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A step curve: its label, the role that gives its look, and its points."""

    name: str
    role: str
    xs: list[int]
    ys: list[Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """Single points that belong to no curve."""

    name: str
    role: str
    xs: list[int]
    ys: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that is drawn; `between` are two curves over the same points with the area between them."""

    title: str
    subtitle: str
    clock: Axis
    up: Axis | Counts
    curves: list[Curve]
    dots: list[Dots] = field(default_factory=list)
    between: tuple[Curve, Curve] | None = None


def draw_svg(picture: Picture) -> str:
    """The picture as SVG text, 900 px wide."""
    lines = wrap(picture.subtitle, width=_WIDTH - 2 * _MARGIN, size=13)
    left = 122.0 if picture.up.instants else 82.0
    panel = svg.Panel(
        left=left,
        top=56.0 + 19 * len(lines),
        width=_WIDTH - left - _RIGHT,
        height=_MAIN,
        x_low=picture.clock.low,
        x_high=picture.clock.high,
        y_low=picture.up.low,
        y_high=picture.up.high,
    )
    parts = [svg.text(_MARGIN, 30, picture.title, "title", size=17, bold=True)]
    parts += [svg.text(_MARGIN, 51 + 19 * number, line, "text", size=13) for number, line in enumerate(lines)]
    ticks = picture.clock.ticks(6 if picture.clock.instants else 8)
    parts += svg.x_axis(panel, ticks, title=picture.clock.title, below=panel.bottom)
    parts += svg.y_axis(panel, picture.up.ticks(8), title=picture.up.title, offset=left - _MARGIN - 6)
    for polygon in _polygons(picture):
        parts.append(svg.area([(panel.x(x), panel.y(y)) for x, y in polygon], "band", opacity=0.14))
    for dots in picture.dots:
        places = zip(dots.xs, dots.ys, strict=True)
        parts += [svg.point(panel.x(x), panel.y(y), "circle", dots.role, size=1.8) for x, y in places]
    for curve in picture.curves:
        parts += [_stair(panel, line, curve.role) for line in staircases(curve.xs, curve.ys)]
    parts += _end_labels(picture, panel)
    bottom = panel.bottom + _BOTTOM
    return svg.document(_WIDTH, bottom, title=picture.title, desc=picture.subtitle, parts=parts)


def _stair(panel: svg.Panel, points: Sequence[tuple[int, int]], role: str) -> str:
    pixels = [(panel.x(x), panel.y(y)) for x, y in points]
    return svg.line(pixels, role) if len(pixels) > 1 else svg.point(*pixels[0], "circle", role, size=3)


def _end_labels(picture: Picture, panel: svg.Panel) -> list[str]:
    ends = [(curve, curve.ys[-1]) for curve in picture.curves]
    known = [(curve, value) for curve, value in ends if value is not None]
    places = spread([panel.y(value) for _, value in known], gap=16, low=panel.top + 6, high=panel.bottom - 2)
    return [
        svg.text(panel.right + 8, y + 4, curve.name, curve.role, size=12.5, bold=True)
        for (curve, _), y in zip(known, places, strict=True)
    ]


def _polygons(picture: Picture) -> list[list[tuple[int, int]]]:
    if picture.between is None:
        return []
    below, above = picture.between
    return bands(below.xs, below.ys, above.ys)


def draw_plotly(picture: Picture) -> go.Figure:
    """The picture as a figure that fills the width it is shown in."""
    lines = wrap(picture.subtitle, width=_READABLE_WIDTH, size=13)
    top = 54 + 18 * len(lines)
    height = round(_MAIN + top + _BOTTOM)
    layout: dict[str, Any] = {
        "template": TEMPLATE,
        "title": {
            "text": f"<b>{escape(picture.title)}</b>",
            "subtitle": {"text": "<br>".join(map(escape, lines)), "font": {"size": 13}},
            "xref": "container",
            "x": 0.012,
            "y": round(1 - 22 / height, 6),
            "yanchor": "middle",
        },
        "height": height,
        "margin": {"l": 112 if picture.up.instants else 74, "r": round(_RIGHT), "t": top, "b": round(_BOTTOM)},
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": _axis(picture.clock),
        "yaxis": _axis(picture.up),
        "annotations": _annotations(picture),
    }
    traces = [
        *_area(picture),
        *(_points(picture, d) for d in picture.dots),
        *(_curve(picture, c) for c in picture.curves),
    ]
    return go.Figure(data=traces, layout=layout)


def _axis(axis: Axis | Counts) -> dict[str, Any]:
    shown = {"title": {"text": axis.title, "standoff": 8}, "range": axis.plotted([axis.low, axis.high])}
    return shown | {"type": "date" if axis.instants else "linear"}


def _area(picture: Picture) -> list[go.Scatter]:
    xs: list[Value] = []
    ys: list[Value] = []
    for polygon in _polygons(picture):
        xs += [*([None] if xs else []), *(x for x, _ in polygon)]
        ys += [*([None] if ys else []), *(y for _, y in polygon)]
    look = {"mode": "lines", "line": {"width": 0}, "fill": "toself", "fillcolor": PLOTLY_COLOUR["band"]}
    placed = {"x": picture.clock.plotted(xs), "y": picture.up.plotted(ys)}
    return [go.Scatter(**placed, **look, hoverinfo="skip", name="waiting")] if xs else []


def _points(picture: Picture, dots: Dots) -> go.Scatter:
    return go.Scatter(
        x=picture.clock.plotted(dots.xs),
        y=picture.up.plotted(dots.ys),
        mode="markers",
        marker={"size": 4, "color": PLOTLY_COLOUR[dots.role]},
        name=dots.name,
    )


def _curve(picture: Picture, curve: Curve) -> go.Scatter:
    xs, ys = hold(curve.xs, curve.ys)
    look = {"shape": "hv", "color": PLOTLY_COLOUR[curve.role], "width": ROLES[curve.role].width}
    return go.Scatter(
        x=picture.clock.plotted(xs),
        y=picture.up.plotted(ys),
        mode="lines",
        line=look | {"dash": PLOTLY_DASH[curve.role]},
        connectgaps=False,
        name=curve.name,
    )


def _annotations(picture: Picture) -> list[dict[str, Any]]:
    known = [(curve, value) for curve in picture.curves if (value := curve.ys[-1]) is not None]
    span = picture.up.high - picture.up.low
    heights = [(picture.up.high - value) / span * _MAIN for _, value in known]
    places = spread(heights, gap=16, low=4, high=_MAIN - 4)
    return [
        {
            "text": f"<b>{escape(curve.name)}</b>",
            "font": {"size": 12, "color": PLOTLY_COLOUR[curve.role]},
            "xref": "paper",
            "yref": "paper",
            "x": 1.01,
            "y": round(1 - place / _MAIN, 6),
            "xanchor": "left",
            "yanchor": "middle",
            "showarrow": False,
        }
        for (curve, _), place in zip(known, places, strict=True)
    ]
