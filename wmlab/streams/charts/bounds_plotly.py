"""The interactive picture of time bounds, as a plotly figure.

Only lists of Python numbers, strings and None go in: plotly would store NumPy arrays as base64, unreadable in a diff.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]

from wmlab.core.charts.axis import Axis
from wmlab.core.charts.steps import Point, Value, bands, hold
from wmlab.core.charts.style import GREY, INSTANT_FORMAT, PLOTLY_COLOUR, PLOTLY_DASH, ROLES
from wmlab.streams.charts.bounds_picture import CURVE_NAMES, SYMBOL, BoundsPicture
from wmlab.streams.charts.bounds_plotly_layout import Frame, arrange, layout

_PLOTLY_SYMBOL = {"cross": "x", "diamond": "diamond", "triangle": "triangle-up", "circle": "circle"}


def draw_plotly(picture: BoundsPicture) -> go.Figure:
    """The picture as a figure that fills the width it is shown in."""
    frame = arrange(picture)
    traces = [_band(picture), *_curves(picture), *_distance(picture), *_alarms(picture), *_happenings(picture, frame)]
    return go.Figure(data=[trace for trace in traces if trace is not None], layout=layout(picture, frame))


def _band(picture: BoundsPicture) -> go.Scatter | None:
    polygons = bands(picture.at_ms, picture.curves["lower"], picture.curves["upper"])
    return _area(picture, polygons, picture.event, "y")


def _area(picture: BoundsPicture, polygons: Sequence[Sequence[Point]], axis: Axis, yaxis: str) -> go.Scatter | None:
    if not polygons:
        return None
    xs: list[Value] = []
    ys: list[Value] = []
    for polygon in polygons:
        xs += [*([None] if xs else []), *(x for x, _ in polygon)]
        ys += [*([None] if ys else []), *(y for _, y in polygon)]
    return go.Scatter(
        x=picture.clock.plotted(xs),
        y=axis.plotted(ys),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=PLOTLY_COLOUR["band"],
        hoverinfo="skip",
        name="between the bounds",
        xaxis="x",
        yaxis=yaxis,
    )


def _curves(picture: BoundsPicture) -> list[go.Scatter]:
    return [
        _curve(picture, name, picture.curves[name], picture.event, "y")
        for name in CURVE_NAMES
        if name in picture.curves
    ]


def _curve(picture: BoundsPicture, name: str, values: Sequence[Value], axis: Axis, yaxis: str) -> go.Scatter:
    xs, ys = hold(picture.at_ms, values)
    alone = ys[-1] is not None and (len(ys) == 1 or ys[-2] is None)
    return go.Scatter(
        x=picture.clock.plotted(xs),
        y=axis.plotted(ys),
        mode="lines+markers" if alone else "lines",
        marker={"size": [0] * (len(xs) - 1) + [8], "opacity": 1} if alone else None,
        line={
            "shape": "hv",
            "color": PLOTLY_COLOUR[name],
            "width": ROLES[name].width,
            "dash": PLOTLY_DASH[name],
        },
        connectgaps=False,
        cliponaxis=not alone,
        name=CURVE_NAMES[name] if yaxis == "y" else axis.name.replace("bound", name),
        hovertemplate=f"%{{y|{INSTANT_FORMAT}}}" if axis.instants else f"%{{y:,.6~f}} {axis.unit.symbol}",
        xaxis="x",
        yaxis=yaxis,
    )


def _distance(picture: BoundsPicture) -> list[go.Scatter | None]:
    distance = picture.distance
    if distance is None:
        return []
    return [
        _area(picture, bands(picture.at_ms, distance.lower, distance.upper), distance.axis, "y2"),
        _curve(picture, "upper", distance.upper, distance.axis, "y2"),
        _curve(picture, "lower", distance.lower, distance.axis, "y2"),
    ]


def _alarms(picture: BoundsPicture) -> list[go.Scatter]:
    if not picture.alarms:
        return []
    xs = picture.clock.plotted([at_ms for at_ms, _, _ in picture.alarms])
    look: dict[str, Any] = {
        "mode": "markers",
        "marker": {"symbol": "x", "size": 10, "color": PLOTLY_COLOUR["alarm"]},
        "name": "not safe",
        "hovertemplate": "lower bound above the truth",
        "x": xs,
        "xaxis": "x",
    }
    found = [go.Scatter(y=picture.event.plotted([lower for _, lower, _ in picture.alarms]), yaxis="y", **look)]
    if picture.distance is not None:
        above = picture.distance.axis.plotted([above for _, _, above in picture.alarms])
        found.append(go.Scatter(y=above, yaxis="y2", **(look | {"hoverinfo": "skip", "hovertemplate": None})))
    return found


def _happenings(picture: BoundsPicture, frame: Frame) -> list[go.Scatter]:
    if not picture.happened:
        return []
    before = [label is not None and label.before for label in frame.labels]
    words = [escape(happening.label) for happening in picture.happened]
    shown = [word if label else "" for word, label in zip(words, frame.labels, strict=True)]
    return [
        go.Scatter(
            x=picture.clock.plotted([happening.at_ms for happening in picture.happened]),
            y=[label.level + 0.5 if label else -0.5 for label in frame.labels],
            mode="markers+text",
            marker={
                "symbol": [_PLOTLY_SYMBOL[SYMBOL.get(happening.kind, "circle")] for happening in picture.happened],
                "size": 9,
                "color": GREY,
            },
            text=[f"{word} " if left else f" {word}" for word, left in zip(shown, before, strict=True)],
            textposition=["middle left" if left else "middle right" for left in before],
            textfont={"size": 12, "color": GREY},
            customdata=words,
            hovertemplate="%{customdata}",
            name="happened",
            cliponaxis=False,
            xaxis="x2",
            yaxis="y3",
        )
    ]
