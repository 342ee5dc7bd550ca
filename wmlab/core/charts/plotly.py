"""A scene as a plotly figure that fills the width it is shown in, and the plotly template "wmlab".

Only lists of Python numbers, strings and None go in: plotly would store NumPy arrays as base64, unreadable in a diff.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import plotly.graph_objects as go  # type: ignore[import-untyped]

from wmlab.core.charts.axis import AnyAxis, Axis, Coordinate, Numbers
from wmlab.core.charts.scene import (
    TITLE,
    Blocks,
    Dots,
    Layer,
    Panel,
    Path,
    Scene,
    Steps,
    Value,
    bands,
    legend_rows,
    stairs_until_unknown,
)
from wmlab.core.charts.style import (
    FONT,
    GREY,
    LABEL_PX,
    ROLES,
    TEXT_PX,
    THIN_PX,
    TICK_PX,
    TITLE_PX,
    RuleLabels,
    glued,
)
from wmlab.core.facts import Facts, folded_facts
from wmlab.core.words import MINUTE_MS, clock_words

_GRID: Final = "rgba(127,127,127,0.25)"
_SHORT_MS: Final = 10 * MINUTE_MS
"""An axis so long or shorter has its instants in ms in a hover box."""
_READABLE_WIDTH: Final = 520.0
"""Pixels that texts are arranged for: a notebook next to an open side bar has as many in a window of 960."""
_HEADING_PX: Final = 900
"""Pixels that a line of the answer above a figure has at most."""
_BUTTON_ROW: Final = 30
_BUTTONS_PX: Final = 40.0
"""What the text above a chart leaves free at its right: there plotly shows a column of buttons."""
_LEVEL, _GAP, _EDGE, _BOTTOM, _LEGEND, _LEGEND_ROW, _LEFT = 20.0, 18.0, 12.0, 56, 24, 30, 74
_TITLE_LINE: Final = 22
_HEAD_LINE: Final = 17
_PANEL_TITLE: Final = _READABLE_WIDTH - _LEFT - _EDGE
_TICKS: Final = 5
"""Ticks at most, about; more would be turned to the side where there is little room."""
_MOST_TICKS: Final = 8
"""Ticks of a clock at most, less one, so that they have room in a narrow column and its ends have one."""
_ROW_OF_WORDS: Final = "%{customdata}<extra></extra>"
_SYMBOL: Final = {"cross": "x", "diamond": "diamond", "triangle": "triangle-up", "circle": "circle"}
_AXIS: Final = {
    "gridcolor": _GRID,
    "linecolor": GREY,
    "zeroline": False,
    "ticks": "outside",
    "ticklen": 4,
    "tickcolor": _GRID,
    "automargin": False,
    "tickangle": 0,
    "title": {"font": {"size": TEXT_PX}},
    "tickfont": {"size": TICK_PX},
}
_NO_BUTTONS: Final = ["sendChartToCloud", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"]
"""Buttons that plotly would show: "Share chart..." uploads the chart and its data to a server of Plotly; nothing can be
done with a selection; and fewer buttons cover less of the title. What is left saves a picture, zooms, pans, resets."""
TEMPLATE: Final = go.layout.Template(
    layout={
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": GREY, "size": TEXT_PX, "family": FONT},
        "title": {"x": 0, "xanchor": "left", "font": {"size": TITLE_PX}},
        "legend": {"font": {"size": TICK_PX}},
        "hoverlabel": {"bgcolor": "#2b2b2b", "bordercolor": GREY, "font": {"color": "#f2f2f2", "size": LABEL_PX}},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "modebar": {
            "orientation": "v",
            "bgcolor": "rgba(0,0,0,0)",
            "color": GREY,
            "activecolor": ROLES["lower"].light,
            "remove": _NO_BUTTONS,
        },
    }
)
"""Transparent, mid-grey, readable on light and dark pages; `wm.chart.template` gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """Heights in px from the bottom of the plot, and where the labels of the rules stand."""

    panels: list[tuple[float, float]]
    labels_top: float
    top: float
    labels: RuleLabels
    title: list[str]
    head: list[str]

    @property
    def margin_top(self) -> int:
        """The height above the plot: of title and answer, or of a row of buttons."""
        if not self.title:
            return _BUTTON_ROW
        return 24 + _TITLE_LINE * len(self.title) + _HEAD_LINE * len(self.head)

    def share(self, height: float) -> float:
        """A height as plotly's share of the plot."""
        return round(height / self.top, 6)


def draw_heading(scene: Scene, facts: Facts) -> str:
    """Question and answer as HTML, which wraps where it stands, above a figure without them; the facts are folded.

    Below the facts stands what the picture leaves out.
    """
    style = f"font-family:{escape(FONT)};margin:0 0 4px;max-width:{_HEADING_PX}px;"
    paragraph = f"<p style='{style}"
    title = f"{paragraph}font-size:{TITLE_PX}px'><b>{escape(glued(scene.title))}</b></p>"
    answer = f"{paragraph}font-size:{TEXT_PX}px'>{escape(glued(scene.subtitle))}</p>"
    left_out = scene.left_out(_arrange(scene, headed=False).labels)
    below = f"<p style='margin:4px 0'>{escape(glued(left_out))}</p>" if left_out else ""
    return f"{title}{answer}<div style='{style}font-size:{TEXT_PX}px'>{folded_facts(facts, below)}</div>"


def draw_plotly(scene: Scene, *, headed: bool = True) -> go.Figure:
    """The scene as a figure, without title and subtitle if it is not `headed`."""
    frame = _arrange(scene, headed=headed)
    traces = _moments(scene)
    for number, panel in enumerate(scene.panels, start=1):
        yaxis = f"y{number if number > 1 else ''}"
        for layer in panel.drawn:
            traces += _trace(scene, panel, layer, yaxis)
    if scene.rules:
        traces.append(_rule_labels(scene, frame))
    return go.Figure(data=_in_legend(traces, scene), layout=_layout(scene, frame))


def _arrange(scene: Scene, *, headed: bool) -> _Frame:
    """Heights of the panels and positions of the labels, for a plot as wide as a notebook."""
    left = max(_LEFT, scene.left)
    width = _READABLE_WIDTH - left - scene.right
    labels = scene.rule_labels(width, gap=12, beside=(left - _EDGE, scene.right - _EDGE))
    panels: list[tuple[float, float]] = []
    top = -_GAP
    for panel in reversed(scene.panels):
        panels.insert(0, (top + _GAP, top + _GAP + panel.height))
        top += _GAP + panel.height + TITLE * sum(map(len, panel.title_lines(width=_PANEL_TITLE)))
    labels_top = top + 6
    return _Frame(
        panels=panels,
        labels_top=labels_top,
        top=labels_top + labels.rows * _LEVEL if labels.rows else top,
        labels=labels,
        title=scene.title_lines(width=_READABLE_WIDTH - _BUTTONS_PX) if headed else [],
        head=scene.subtitle_lines(width=_READABLE_WIDTH - _BUTTONS_PX) if headed else [],
    )


def _in_legend(traces: list[go.Scatter | go.Bar], scene: Scene) -> list[go.Scatter | go.Bar]:
    """Each name stands in the legend once; a click on it hides all that has this name, in all panels."""
    entries = {escape(layer.name) for layer in scene.legend}
    for trace in traces:
        trace.legendgroup = trace.name
        trace.showlegend = trace.name in entries
        entries -= {trace.name}
    return traces


def _layout(scene: Scene, frame: _Frame) -> dict[str, Any]:
    # Room for the legend in a notebook of readable width; a wider one needs no more.
    entries = legend_rows(scene.legend, _READABLE_WIDTH - max(_LEFT, scene.left) - scene.right, beside=46)
    legend = _LEGEND + _LEGEND_ROW * (len(entries) - 1) if entries else 0
    bottom = _BOTTOM + (20 if scene.across.instants else 0) + legend
    height = round(frame.top + frame.margin_top + bottom)
    layout: dict[str, Any] = {
        "template": TEMPLATE,
        **_head(frame, height),
        "height": height,
        "margin": {"l": _LEFT, "r": round(scene.right), "t": frame.margin_top, "b": bottom},
        "showlegend": bool(entries),
        # Below the plot: where there is room for all in one row, what is free is at the end.
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "yanchor": "top"}
        | {"y": round(legend / height, 6)},
        "barmode": "overlay",
        "uniformtext": {"mode": "hide", "minsize": LABEL_PX},  # a label without room in its bar would be made small
        "separators": ". ",  # numbers as wmlab.core.words writes them
        "hovermode": "x unified" if scene.together else "closest",
        "xaxis": _across(scene),
        "shapes": _rules(scene, frame),
        "annotations": _texts(scene),
    }
    if scene.together:
        layout["hoversubplots"] = "axis"
    for number, (panel, (low, high)) in enumerate(zip(scene.panels, frame.panels, strict=True), start=1):
        name = "yaxis" if number == 1 else f"yaxis{number}"
        layout[name] = _up(panel) | {"domain": [frame.share(low), frame.share(high)]}
    if scene.rules:
        bare = {
            "visible": False,
            "fixedrange": True,
            "range": [frame.labels.levels - frame.labels.rows, frame.labels.levels],
        }
        domain = {"domain": [frame.share(frame.labels_top), 1], "anchor": "x2"}
        layout[f"yaxis{len(scene.panels) + 1}"] = bare | domain
        lane = f"y{len(scene.panels) + 1}"
        layout["xaxis2"] = {"matches": "x", "anchor": lane, "visible": False, "type": layout["xaxis"]["type"]}
    return layout


def _head(frame: _Frame, height: int) -> dict[str, Any]:
    """Title and subtitle, or, where they stand above the figure, the buttons in a row above the plot."""
    if not frame.title:
        return {"modebar": {"orientation": "h"}}
    title = {
        "text": f"<b>{'<br>'.join(map(escape, frame.title))}</b>",
        "subtitle": {"text": "<br>".join(map(escape, frame.head)), "font": {"size": TEXT_PX}},
        "xref": "container",
        "x": 0.012,
        # plotly draws a title of several lines higher by half a line.
        "y": round(1 - (10 + _TITLE_LINE / 2 * (len(frame.title) > 1)) / height, 6),
        "yanchor": "top",
    }
    return {"title": title}


def _axis(axis: AnyAxis) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "title": {"text": axis.title, "standoff": 8},
        "range": axis.plotted([axis.low, axis.high]),
        "type": "date" if axis.instants else "linear",
        "exponentformat": "none",
        "nticks": _TICKS - 1 if axis.instants else _TICKS + 1,
    }
    if not axis.instants:
        shown["tickformat"] = ",.9~g"
    if isinstance(axis, Axis) and axis.far:
        ticks = axis.ticks(_TICKS)
        shown["tickvals"] = axis.plotted([tick.value for tick in ticks])
        shown["ticktext"] = [tick.label for tick in ticks]
    if isinstance(axis, Numbers) and axis.marked is not None:
        shown["tickvals"] = [tick.value for tick in axis.marked]
        shown["ticktext"] = [escape(tick.label) for tick in axis.marked]
    return shown


def _across(scene: Scene) -> dict[str, Any]:
    axis = scene.across
    shown = _axis(axis) | {"anchor": "free", "position": 0}
    if isinstance(axis, Axis) and not axis.instants:
        shown["nticks"] = axis.parts(_MOST_TICKS) + 1
    shown["hoverformat"] = _instant_format(axis) if isinstance(axis, Axis) and axis.instants else _number_format(axis)
    if scene.together:
        shown |= {"unifiedhovertitle": {"text": _hover_title(axis)}, "showspikes": False}
    return shown


def _instant_format(axis: Axis) -> str:
    return f"%b %-d, %H:%M:%S{'.%L' if abs(axis.high - axis.low) <= _SHORT_MS else ''}"


def _number_format(axis: AnyAxis) -> str:
    """How a hover box writes the numbers of an axis: seconds rounded as in a sentence, longer units a digit finer."""
    if not isinstance(axis, Axis):
        return ",.6~f"
    return ",.1~f" if axis.unit.ms < MINUTE_MS else ",.2~f"


def _hover_title(axis: AnyAxis) -> str:
    """What stands above the values in a hover box: the moment, or, where a row of its own has that, the axis' name."""
    if not isinstance(axis, Axis):
        return "at %{x}"
    if axis.instants:
        return f"at %{{x|{_instant_format(axis)}}}"
    return escape(axis.name) if _in_words(axis) else f"at %{{x}} {axis.unit.symbol}"


def _in_words(axis: AnyAxis) -> bool:
    """Whether a hover box writes the durations of the axis with several units: "8 h 56 min", not "8.933333 h"."""
    return isinstance(axis, Axis) and not axis.instants and axis.unit.ms >= MINUTE_MS


def _moments(scene: Scene) -> list[go.Scatter]:
    """An invisible curve whose hover text is the moment, where the moment is written in words."""
    curves = [layer for layer in scene.layers if isinstance(layer, Steps)]
    if not (scene.together and curves and _in_words(scene.across)):
        return []
    xs, low = sorted({x for curve in curves for x in curve.xs}), scene.panels[0].up.low
    look = {"mode": "lines", "line": {"width": 0}, "opacity": 0, "name": "moment", "yaxis": "y"}
    points = {"x": scene.across.plotted(xs), "y": scene.panels[0].up.plotted([low] * len(xs))}
    return [go.Scatter(**points, **look, customdata=[clock_words(x) for x in xs], hovertemplate=_ROW_OF_WORDS)]


def _up(panel: Panel) -> dict[str, Any]:
    axis = panel.up
    shown = _axis(axis) | {"automargin": True}
    if panel.note:
        shown |= {"showticklabels": False, "showgrid": False, "ticks": ""}
    lanes = isinstance(axis, Numbers) and axis.low > axis.high
    if lanes:
        shown["fixedrange"] = True  # they are not zoomed
    elif not panel.note and (isinstance(axis, Axis) or axis.marked is None):
        shown["showgrid"] = True  # next to boxes plotly would leave the lines out
    return shown


def _trace(scene: Scene, panel: Panel, layer: Layer, yaxis: str) -> list[go.Scatter | go.Bar]:
    """The layer as a trace; an empty one is none."""

    def points(xs: Sequence[Coordinate | None], ys: Sequence[Coordinate | None]) -> dict[str, Any]:
        return {"x": scene.across.plotted(xs), "y": panel.up.plotted(ys), "yaxis": yaxis}

    if isinstance(layer, Steps):
        xs, ys = stairs_until_unknown(layer.xs, layer.ys)
        return [go.Scatter(**points(xs, ys), **_steps(scene, panel, layer, ys))]
    if isinstance(layer, Path):
        look = {"mode": "lines", "line": _line(layer.role, thin=layer.thin), "connectgaps": False, "hoverinfo": "skip"}
        return [go.Scatter(**points(layer.xs, layer.ys), **look, **_entry(layer))]
    if isinstance(layer, Dots):
        return (
            [go.Scatter(**points(layer.xs, layer.ys), **_dots(scene, panel, layer), **_entry(layer))]
            if layer.xs
            else []
        )
    if isinstance(layer, Blocks):
        return [go.Bar(yaxis=yaxis, **_blocks(scene, layer), **_entry(layer))] if layer.boxes else []
    outlines = bands(layer.xs, layer.lows, layer.highs)
    corners = [corner for outline in outlines for corner in [(None, None), *outline]][1:]
    around = points([x for x, _ in corners], [y for _, y in corners])
    look = {"mode": "lines", "line": {"width": 0}, "fill": "toself", "fillcolor": ROLES["band"].both}
    return [go.Scatter(**around, **look, hoverinfo="skip", name="between")] if corners else []


def _entry(layer: Path | Dots | Blocks) -> dict[str, Any]:
    return {"name": escape(layer.name)}


def _line(role: str, *, thin: bool = False) -> dict[str, Any]:
    width = THIN_PX if thin else ROLES[role].width
    return {"color": _solid(role), "width": width, "dash": ROLES[role].plotly_dash}


def _steps(scene: Scene, panel: Panel, layer: Steps, ys: Sequence[Value]) -> dict[str, Any]:
    look: dict[str, Any] = {"mode": "lines", "line": {"shape": "hv"} | _line(layer.role), "connectgaps": False}
    low, high = sorted((panel.up.low, panel.up.high))
    if ys and ys[-1] is not None and low <= ys[-1] <= high and (len(ys) == 1 or ys[-2] is None):
        marker = {"size": [0] * (len(ys) - 1) + [8], "opacity": 1}
        look |= {"mode": "lines+markers", "cliponaxis": False, "marker": marker}
    if scene.together and isinstance(up := panel.up, Axis):
        look["hovertemplate"] = _at(up, "y")
        # plotly writes a hyphen where a sentence has a minus.
        if _in_words(up) or any(y is not None and y < 0 for y in ys):
            words = ["" if y is None else clock_words(y) for y in ys]
            look |= {"customdata": words, "hovertemplate": "%{customdata}"}
    return look | {"name": escape(layer.name)}


def _dots(scene: Scene, panel: Panel, layer: Dots) -> dict[str, Any]:
    words = [escape(entry) for entry in layer.hover]
    marker = {"symbol": _SYMBOL[layer.shape], "size": 2 * layer.size, "color": ROLES[layer.role].both}
    # One at the end of an axis would be cut in half.
    whole = {"mode": "markers", "marker": marker, "cliponaxis": False}
    at = f"{_at(scene.across, 'x')}, {_at(panel.up, 'y')}<extra>{escape(layer.name)}</extra>"
    return whole | (_hover(scene, words) if words else {"hovertemplate": at})


def _at(axis: AnyAxis, letter: str) -> str:
    """How a hover box writes the place of a point on an axis."""
    if isinstance(axis, Axis) and axis.instants:
        return f"%{{{letter}|{_instant_format(axis)}}}"
    return f"%{{{letter}:{_number_format(axis)}}}" + (f" {axis.unit.symbol}" if isinstance(axis, Axis) else "")


def _hover(scene: Scene, words: list[str]) -> dict[str, Any]:
    """What the hover box of each point says; a box for all curves names them itself."""
    extra = "" if scene.together else "<extra></extra>"
    return {"customdata": words, "hovertemplate": f"%{{customdata}}{extra}"}


def _blocks(scene: Scene, layer: Blocks) -> dict[str, Any]:
    unit = None if scene.across.instants else scene.across.plotted([1_000_000])[0]
    scale = 1.0 if unit is None else unit / 1_000_000
    lengths = [round((box.x_high - box.x_low) * scale, 6) for box in layer.boxes]
    labels = [escape(box.label) for box in layer.boxes]
    beside = {"textposition": "outside", "cliponaxis": False} if layer.beside else {"textposition": "inside"}
    return beside | {
        "orientation": "h",
        "base": scene.across.plotted([box.x_low for box in layer.boxes]),
        "x": lengths,
        "y": [(box.y_low + box.y_high) / 2 for box in layer.boxes],
        "width": [abs(box.y_high - box.y_low) for box in layer.boxes],
        "marker": {
            "color": _faint(layer.role, layer.opacity),
            "line": {"color": _solid(layer.role), "width": int(layer.outlined)},
        },
        "text": [f"\u2002{label}" if layer.beside else label for label in labels],
        "insidetextanchor": "start",
        "textangle": 0,
        "textfont": {"size": LABEL_PX, "color": GREY},
        "constraintext": "none" if layer.beside else "inside",
        "customdata": [escape(box.hover or box.label) for box in layer.boxes],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _solid(role: str) -> str:
    colour = ROLES[role].both
    return colour if colour.startswith("#") else GREY


def _faint(role: str, opacity: float) -> str:
    digits = _solid(role).removeprefix("#")
    red, green, blue = (int(digits[index : index + 2], 16) for index in (0, 2, 4))
    return f"rgba({red},{green},{blue},{opacity})"


def _rules(scene: Scene, frame: _Frame) -> list[dict[str, Any]]:
    """The vertical lines of what happened."""
    line = {"color": GREY, "width": 1, "dash": ROLES["mark"].plotly_dash}
    shapes = []
    lowest = frame.labels_top + (_LEVEL if frame.labels.missing else 0)
    xs = scene.across.plotted([rule.x for rule in scene.rules])
    for x, label in zip(xs, frame.labels.places, strict=True):
        top = lowest + (label.middle if label else -0.5) * _LEVEL
        ends = {"x0": x, "x1": x, "y0": 0, "y1": frame.share(top)}
        shapes.append({"type": "line", "xref": "x", "yref": "paper", "layer": "below", "line": line} | ends)
    return shapes


def _rule_labels(scene: Scene, frame: _Frame) -> go.Scatter:
    """The markers on top of the lines and their words; one without room for them shows them in its hover box."""
    words = [escape(rule.label) for rule in scene.rules]
    places = frame.labels.places
    before = [label is not None and label.before for label in places]
    broken = [
        [escape(line) for line in lines] if label else []
        for lines, label in zip(frame.labels.texts, places, strict=True)
    ]
    return go.Scatter(
        x=scene.across.plotted([rule.x for rule in scene.rules]),
        y=[label.middle if label else -0.5 for label in places],
        mode="markers+text",
        marker={"symbol": [_SYMBOL[rule.shape] for rule in scene.rules], "size": 9, "color": GREY},
        text=[
            "<br>".join(f"{line} " if left else f" {line}" for line in lines)
            for lines, left in zip(broken, before, strict=True)
        ],
        textposition=["middle left" if left else "middle right" for left in before],
        textfont={"size": LABEL_PX, "color": GREY},
        **_hover(scene, words),
        name="happened",
        cliponaxis=False,
        xaxis="x2",
        yaxis=f"y{len(scene.panels) + 1}",
    )


def _texts(scene: Scene) -> list[dict[str, Any]]:
    """What is written above panels, and into those that have nothing to show."""
    notes = []
    for number, panel in enumerate(scene.panels, start=1):
        domain = {"showarrow": False, "xref": "paper", "yref": f"y{number if number > 1 else ''} domain"}
        if panel.title:
            above, left = {"x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"}, {"align": "left"}
            first, *more = ("<br>".join(map(escape, lines)) for lines in panel.title_lines(width=_PANEL_TITLE))
            notes.append(
                domain | above | {"text": "<br>".join([f"<b>{first}</b>", *more]), "font": {"size": LABEL_PX}} | left
            )
        if panel.note:
            notes.append(domain | {"text": escape(panel.note), "x": 0.5, "y": 0.5, "font": {"size": 15}})
    return notes
