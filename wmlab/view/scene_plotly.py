"""A scene as a plotly figure that fills the width it is shown in.

Only lists of Python numbers, strings and None go in: plotly would store NumPy arrays as base64, unreadable in a diff.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import plotly.graph_objects as go  # type: ignore[import-untyped]

from wmlab.view.labels import Placed, spread, stagger, text_width, wrap
from wmlab.view.scene import Between, Blocks, Dots, Lanes, Layer, Number, Panel, Path, Scale, Scene, Share, Steps
from wmlab.view.steps import bands, hold
from wmlab.view.style import GREY, INSTANT_FORMAT, PLOTLY_COLOUR, PLOTLY_DASH, ROLES, TEMPLATE

_READABLE_WIDTH: Final = 640.0
"""Pixels of plot that labels are arranged for; a notebook beside an open side bar has about as many."""
_RIGHT, _BARE_RIGHT, _BOTTOM = 128, 30, 56
_LEVEL, _GAP, _LEGEND = 20.0, 18.0, 24
_SYMBOL: Final = {"cross": "x", "diamond": "diamond", "triangle": "triangle-up", "circle": "circle"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """Heights in px from the bottom of the plot, and where the labels of the rules stand."""

    panels: list[tuple[float, float]]
    lane: float
    top: float
    labels: list[Placed | None]
    head: list[str]

    def share(self, height: float) -> float:
        """A height as plotly's share of the plot."""
        return round(height / self.top, 6)


def draw_plotly(scene: Scene) -> go.Figure:
    """The scene as a figure."""
    frame = _arrange(scene)
    traces = []
    for number, panel in enumerate(scene.panels, start=1):
        for layer in panel.layers:
            traces += _traces(scene, panel, layer, f"y{number if number > 1 else ''}")
    return go.Figure(data=_named_once(traces), layout=_layout(scene, frame))


def _named_once(traces: list[go.Scatter | go.Bar]) -> list[go.Scatter | go.Bar]:
    """Each name stands in the legend once, however many panels it is drawn in."""
    seen: set[str] = set()
    for trace in traces:
        trace.legendgroup = trace.name
        if trace.name in seen:
            trace.showlegend = False
        elif trace.showlegend:
            seen.add(trace.name)
    return traces


def _arrange(scene: Scene) -> _Frame:
    right = _RIGHT if scene.labelled else _BARE_RIGHT
    span = scene.across.high - scene.across.low
    places = [(rule.x - scene.across.low) / span * _READABLE_WIDTH for rule in scene.rules]
    widths = [text_width(rule.label, 12) + 12 for rule in scene.rules]
    levels, labels = stagger(places, widths, limit=_READABLE_WIDTH + right)
    without = labels.count(None)
    more = f" {without} of {len(labels)} happenings are marked without a label." if without else ""
    panels: list[tuple[float, float]] = []
    bottom = 0.0
    for panel in reversed(scene.panels):
        panels.insert(0, (bottom, bottom + panel.height))
        bottom += panel.height + _GAP
    lane = bottom - _GAP + 6
    top = lane + levels * _LEVEL if levels else bottom - _GAP
    head = wrap(scene.subtitle + more, width=_READABLE_WIDTH + right, size=13)
    return _Frame(panels=panels, lane=lane, top=top, labels=labels, head=head)


def _layout(scene: Scene, frame: _Frame) -> dict[str, Any]:
    legend = _LEGEND if scene.legend else 0
    margin_top = 54 + 18 * len(frame.head) + legend
    bottom = _BOTTOM + (20 if scene.across.instants else 0)
    height = round(frame.top + margin_top + bottom)
    found: dict[str, Any] = {
        "template": TEMPLATE,
        "title": {
            "text": f"<b>{escape(scene.title)}</b>",
            "subtitle": {"text": "<br>".join(map(escape, frame.head)), "font": {"size": 13}},
            "xref": "container",
            "x": 0.012,
            "y": round(1 - 22 / height, 6),
            "yanchor": "middle",
        },
        "height": height,
        "margin": {"l": 74, "r": _RIGHT if scene.labelled else _BARE_RIGHT, "t": margin_top, "b": bottom},
        "showlegend": bool(scene.legend),
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "yref": "paper"},
        "barmode": "overlay",
        "hovermode": "closest",
        "xaxis": _across(scene) | {"anchor": "free", "position": 0},
        "shapes": _rules(scene, frame),
        "annotations": [*_rule_labels(scene, frame), *_end_labels(scene)],
    }
    for number, (panel, (low, high)) in enumerate(zip(scene.panels, frame.panels, strict=True), start=1):
        name = "yaxis" if number == 1 else f"yaxis{number}"
        found[name] = _up(panel) | {"domain": [frame.share(low), frame.share(high)]}
    return found


def _across(scene: Scene) -> dict[str, Any]:
    axis = scene.across
    shown = {"title": {"text": axis.title, "standoff": 8}, "range": _placed(axis, [axis.low, axis.high])}
    kind = {"type": "date", "hoverformat": INSTANT_FORMAT} if axis.instants else {"type": "linear"}
    return shown | kind | {"exponentformat": "none"}


def _up(panel: Panel) -> dict[str, Any]:
    axis = panel.up
    shown: dict[str, Any] = {
        "title": {"text": axis.title, "standoff": 8},
        "range": _placed(axis, [axis.low, axis.high]),
        "automargin": True,
        "type": "date" if axis.instants else "linear",
        "exponentformat": "none",
    }
    if isinstance(axis, Lanes | Share):
        ticks = axis.ticks(4)
        shown |= {"tickvals": [tick.value for tick in ticks], "ticktext": [escape(tick.label) for tick in ticks]}
    return shown | ({"fixedrange": True} if isinstance(axis, Lanes) else {})


def _placed(axis: Scale, values: Sequence[Number | None]) -> list[float | None]:
    """Values as plotly takes them; axes of ms and of counts have whole numbers only."""
    if isinstance(axis, Lanes | Share):
        return axis.plotted(values)
    return axis.plotted([None if value is None else round(value) for value in values])


def _traces(scene: Scene, panel: Panel, layer: Layer, yaxis: str) -> list[go.Scatter | go.Bar]:
    if isinstance(layer, Steps):
        return [_steps(scene, panel, layer, yaxis)]
    if isinstance(layer, Path):
        return [_path(scene, panel, layer, yaxis)]
    if isinstance(layer, Dots):
        return [_dots(scene, panel, layer, yaxis)] if layer.xs else []
    if isinstance(layer, Blocks):
        return [_blocks(scene, layer, yaxis)] if layer.boxes else []
    return _between(scene, panel, layer, yaxis)


def _steps(scene: Scene, panel: Panel, layer: Steps, yaxis: str) -> go.Scatter:
    xs, ys = hold(layer.xs, layer.ys)
    return go.Scatter(
        x=scene.across.plotted(xs),
        y=panel.up.plotted(ys),
        mode="lines",
        line={"shape": "hv"} | _line(layer.role),
        connectgaps=False,
        name=escape(layer.name),
        showlegend=False,
        yaxis=yaxis,
    )


def _line(role: str) -> dict[str, Any]:
    return {"color": PLOTLY_COLOUR[role], "width": ROLES[role].width, "dash": PLOTLY_DASH.get(role, "solid")}


def _path(scene: Scene, panel: Panel, layer: Path, yaxis: str) -> go.Scatter:
    return go.Scatter(
        x=_placed(scene.across, layer.xs),
        y=_placed(panel.up, layer.ys),
        mode="lines",
        line=_line(layer.role),
        connectgaps=False,
        hoverinfo="skip",
        name=escape(layer.name),
        showlegend=layer.legend,
        yaxis=yaxis,
    )


def _dots(scene: Scene, panel: Panel, layer: Dots, yaxis: str) -> go.Scatter:
    told = [escape(words) for words in layer.told]
    hover = {"customdata": told, "hovertemplate": "%{customdata}<extra></extra>"} if told else {"hoverinfo": "x+y+name"}
    return go.Scatter(
        x=_placed(scene.across, layer.xs),
        y=_placed(panel.up, layer.ys),
        mode="markers",
        marker={"symbol": _SYMBOL[layer.shape], "size": 2 * layer.size, "color": PLOTLY_COLOUR[layer.role]},
        name=escape(layer.name),
        showlegend=layer.legend,
        yaxis=yaxis,
        **hover,
    )


def _blocks(scene: Scene, layer: Blocks, yaxis: str) -> go.Bar:
    lengths = [box.x_high - box.x_low for box in layer.boxes]
    unit = 1 if scene.across.instants else scene.across.plotted([1_000_000])[0]
    scale = 1.0 if scene.across.instants else (unit or 0) / 1_000_000
    return go.Bar(
        orientation="h",
        base=scene.across.plotted([box.x_low for box in layer.boxes]),
        x=[round(length * scale, 6) for length in lengths],
        y=[(box.y_low + box.y_high) / 2 for box in layer.boxes],
        width=[abs(box.y_high - box.y_low) for box in layer.boxes],
        marker={"color": _faint(layer.role, layer.opacity), "line": {"color": _solid(layer.role), "width": 1}},
        text=[escape(box.label) for box in layer.boxes],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        textfont={"size": 11, "color": GREY},
        constraintext="inside",
        customdata=[escape(box.told or box.label) for box in layer.boxes],
        hovertemplate="%{customdata}<extra></extra>",
        name=escape(layer.name),
        showlegend=layer.legend,
        yaxis=yaxis,
    )


def _solid(role: str) -> str:
    colour = PLOTLY_COLOUR[role]
    return colour if colour.startswith("#") else GREY


def _faint(role: str, opacity: float) -> str:
    digits = _solid(role).removeprefix("#")
    red, green, blue = (int(digits[place : place + 2], 16) for place in (0, 2, 4))
    return f"rgba({red},{green},{blue},{opacity})"


def _between(scene: Scene, panel: Panel, layer: Between, yaxis: str) -> list[go.Scatter]:
    xs: list[int | None] = []
    ys: list[int | None] = []
    for polygon in bands(layer.xs, layer.lows, layer.highs):
        xs += [*([None] if xs else []), *(x for x, _ in polygon)]
        ys += [*([None] if ys else []), *(y for _, y in polygon)]
    look = {"mode": "lines", "line": {"width": 0}, "fill": "toself", "fillcolor": PLOTLY_COLOUR["band"]}
    placed = {"x": scene.across.plotted(xs), "y": panel.up.plotted(ys), "yaxis": yaxis}
    return [go.Scatter(**placed, **look, hoverinfo="skip", name="between", showlegend=False)] if xs else []


def _rules(scene: Scene, frame: _Frame) -> list[dict[str, Any]]:
    line = {"color": PLOTLY_COLOUR["mark"], "width": 1, "dash": PLOTLY_DASH["mark"]}
    shapes = []
    xs = scene.across.plotted([rule.x for rule in scene.rules])
    for x, label in zip(xs, frame.labels, strict=True):
        top = frame.lane + (label.level + 0.5) * _LEVEL if label else frame.top
        ends = {"x0": x, "x1": x, "y0": 0, "y1": frame.share(top)}
        shapes.append({"type": "line", "xref": "x", "yref": "paper", "layer": "below", "line": line} | ends)
    return shapes


def _rule_labels(scene: Scene, frame: _Frame) -> list[dict[str, Any]]:
    xs = scene.across.plotted([rule.x for rule in scene.rules])
    return [
        {
            "text": escape(rule.label),
            "font": {"size": 12},
            "showarrow": False,
            "xref": "x",
            "x": x,
            "xanchor": "right" if label.before else "left",
            "xshift": -5 if label.before else 5,
            "yref": "paper",
            "y": frame.share(frame.lane + (label.level + 0.5) * _LEVEL),
            "yanchor": "middle",
        }
        for rule, x, label in zip(scene.rules, xs, frame.labels, strict=True)
        if label is not None
    ]


def _end_labels(scene: Scene) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, panel in enumerate(scene.panels, start=1):
        known = [
            (layer, value)
            for layer in panel.layers
            if isinstance(layer, Steps) and layer.labelled and layer.ys and (value := layer.ys[-1]) is not None
        ]
        scale = panel.height / (panel.up.high - panel.up.low)
        heights = [(value - panel.up.low) * scale for _, value in known]
        places = spread(heights, gap=16, low=6, high=panel.height - 6)
        for (layer, _), place in zip(known, places, strict=True):
            found.append(_end_label(layer, number, place / panel.height))
    return found


def _end_label(layer: Steps, number: int, share: float) -> dict[str, Any]:
    return {
        "text": f"<b>{escape(layer.name)}</b>",
        "font": {"size": 12, "color": PLOTLY_COLOUR[layer.role]},
        "showarrow": False,
        "xref": "paper",
        "x": 1,
        "xanchor": "left",
        "xshift": 6,
        "yref": f"y{number if number > 1 else ''} domain",
        "y": round(share, 6),
        "yanchor": "middle",
    }
