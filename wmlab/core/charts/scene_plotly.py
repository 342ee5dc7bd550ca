"""A scene as a plotly figure that fills the width it is shown in.

Only lists of Python numbers, strings and None go in: plotly would store NumPy arrays as base64, unreadable in a diff.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

import plotly.graph_objects as go  # type: ignore[import-untyped]

from wmlab.core.charts.scene import Between, Blocks, Dots, Lanes, Layer, Number, Panel, Path, Scale, Scene, Share, Steps
from wmlab.core.charts.scene_plotly_layout import BARE_RIGHT, RIGHT, Frame, arrange, end_labels, rule_labels, rules
from wmlab.core.charts.steps import bands, hold
from wmlab.core.charts.style import GREY, INSTANT_FORMAT, PLOTLY_COLOUR, PLOTLY_DASH, ROLES, TEMPLATE

_BOTTOM, _LEGEND = 56, 24
_SYMBOL: Final = {"cross": "x", "diamond": "diamond", "triangle": "triangle-up", "circle": "circle"}


def draw_plotly(scene: Scene) -> go.Figure:
    """The scene as a figure."""
    frame = arrange(scene)
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


def _layout(scene: Scene, frame: Frame) -> dict[str, Any]:
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
        "margin": {"l": 74, "r": RIGHT if scene.labelled else BARE_RIGHT, "t": margin_top, "b": bottom},
        "showlegend": bool(scene.legend),
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "yref": "paper"},
        "barmode": "overlay",
        "hovermode": "closest",
        "xaxis": _across(scene) | {"anchor": "free", "position": 0},
        "shapes": rules(scene, frame),
        "annotations": [*rule_labels(scene, frame), *end_labels(scene)],
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
