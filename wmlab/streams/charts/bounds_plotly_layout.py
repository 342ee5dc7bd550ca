"""Where everything stands in the plotly figure of time bounds: panels, axes, marker lines, strips and labels."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from wmlab.core.charts.axis import Axis, unlabelled
from wmlab.core.charts.labels import Placed, spread, stagger, text_width, wrap
from wmlab.core.charts.style import GREY, INSTANT_FORMAT, PLOTLY_COLOUR, PLOTLY_DASH, ROLES, TEMPLATE
from wmlab.streams.charts.bounds_picture import CURVE_NAMES, NOTHING, BoundsPicture, strip_label

_READABLE_WIDTH = 600.0
"""Pixels of plot that labels are arranged for; a notebook beside an open side bar has about as many."""

_MAIN, _BELOW, _LEVEL, _STRIP, _GAP = 290.0, 120.0, 20.0, 14.0, 10.0
_BOTTOM, _RIGHT = 52, 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Heights in pixels, counted from the bottom of the plot: where each panel begins and ends."""

    below: tuple[float, float] | None
    strip: float
    main: tuple[float, float]
    lane: float
    top: float
    levels: int
    labels: list[Placed | None]
    head: list[str]

    def paper(self, height: float) -> float:
        """A height as plotly's share of the plot."""
        return round(height / self.top, 6)

    def domain(self, panel: tuple[float, float]) -> list[float]:
        """A panel as plotly's share of the plot."""
        return [self.paper(panel[0]), self.paper(panel[1])]


def arrange(picture: BoundsPicture) -> Frame:
    """Heights of the panels and places of the labels, for a plot as wide as a notebook."""
    places = [_place(picture, happening.at_ms) for happening in picture.happened]
    widths = [text_width(happening.label, 12) + 12 for happening in picture.happened]
    levels, labels = stagger(places, widths, limit=_READABLE_WIDTH + _RIGHT)
    strip_height = _STRIP * len(picture.unknown()) + _GAP if picture.unknown() else 0.0
    has_below = picture.distance is not None
    strip = _BELOW + _GAP if has_below else 0.0
    main = strip + strip_height
    unnamed = _LEVEL if None in labels else 0.0
    return Frame(
        below=(0.0, _BELOW) if has_below else None,
        strip=strip,
        main=(main, main + _MAIN),
        lane=main + _MAIN + 6 + unnamed,
        top=main + _MAIN + (levels * _LEVEL + 6 + unnamed if levels else 0),
        levels=levels,
        labels=labels,
        head=wrap(picture.subtitle + unlabelled(labels), width=_READABLE_WIDTH + _RIGHT, size=13),
    )


def _place(picture: BoundsPicture, at_ms: int) -> float:
    return (at_ms - picture.clock.low) / (picture.clock.high - picture.clock.low) * _READABLE_WIDTH


def layout(picture: BoundsPicture, frame: Frame) -> dict[str, Any]:
    """The layout of the figure; `yaxis` is the main panel, `yaxis2` the one below, `yaxis3` the lane of happenings."""
    top_margin = 54 + 18 * len(frame.head)
    # Dates have two lines of labels below the axis.
    bottom = _BOTTOM + 20 if picture.clock.instants else _BOTTOM
    height = frame.top + top_margin + bottom
    subtitle = "<br>".join(escape(line) for line in frame.head)
    found: dict[str, Any] = {
        "template": TEMPLATE,
        "title": {
            "text": f"<b>{escape(picture.title)}</b>",
            "subtitle": {"text": subtitle, "font": {"size": 13}},
            "xref": "container",
            "x": 0.012,
            "y": round(1 - 22 / height, 6),
            "yanchor": "middle",
        },
        "height": round(height),
        "margin": {"l": 112 if picture.event.instants else 70, "r": _RIGHT, "t": top_margin, "b": bottom},
        "showlegend": False,
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "xaxis": _axis(picture.clock) | {"anchor": "free", "position": 0} | _clock_hover(picture),
        "yaxis": _axis(picture.event) | {"domain": frame.domain(frame.main), "showticklabels": bool(picture.ends())},
        "shapes": [*_lines(picture, frame), *_zero_line(picture), *_unknown(picture, frame)],
        "annotations": [*_end_labels(picture), *_notes(picture, frame)],
    }
    if frame.below and picture.distance:
        found["yaxis2"] = _axis(picture.distance.axis) | {"domain": frame.domain(frame.below), "nticks": 5}
    if frame.levels:
        bare = {"visible": False, "fixedrange": True, "range": [-1 if None in frame.labels else 0, frame.levels]}
        found["yaxis3"] = bare | {"domain": frame.domain((frame.main[1] + 6, frame.top)), "anchor": "x2"}
        found["xaxis2"] = {"matches": "x", "anchor": "y3", "visible": False, "type": found["xaxis"]["type"]}
    return found


def _axis(axis: Axis) -> dict[str, Any]:
    title = {"text": axis.title, "standoff": 8}
    shown = {"title": title, "range": axis.plotted([axis.low, axis.high])}
    return shown | ({"type": "date"} if axis.instants else {"type": "linear"})


def _clock_hover(picture: BoundsPicture) -> dict[str, Any]:
    axis = picture.clock
    shown = INSTANT_FORMAT if axis.instants else ",.6~f"
    title = {"text": "at %{x}" if axis.instants else f"at %{{x}} {axis.unit.symbol}"}
    return {"hoverformat": shown, "unifiedhovertitle": title, "showspikes": False, "showgrid": bool(picture.ends())}


def _lines(picture: BoundsPicture, frame: Frame) -> list[dict[str, Any]]:
    xs = picture.clock.plotted([happening.at_ms for happening in picture.happened])
    tops = [frame.lane + (label.level + 0.5 if label else -0.5) * _LEVEL for label in frame.labels]
    line = {"color": PLOTLY_COLOUR["mark"], "width": 1, "dash": PLOTLY_DASH["mark"]}
    look: dict[str, Any] = {"type": "line", "xref": "x", "yref": "paper", "layer": "below", "line": line}
    shapes = []
    for x, top in zip(xs, tops, strict=True):
        pieces = [(frame.main[0], top), *([frame.below] if frame.below else [])]
        shapes += [look | {"x0": x, "x1": x, "y0": frame.paper(a), "y1": frame.paper(b)} for a, b in pieces]
    return shapes


def _zero_line(picture: BoundsPicture) -> list[dict[str, Any]]:
    if picture.distance is None:
        return []
    place = {"xref": "paper", "x0": 0, "x1": 1, "yref": "y2", "y0": 0, "y1": 0}
    dots = {"color": GREY, "width": ROLES["truth"].width, "dash": PLOTLY_DASH["truth"]}
    return [{"type": "line", "layer": "between", "line": dots} | place]


def _unknown(picture: BoundsPicture, frame: Frame) -> list[dict[str, Any]]:
    shapes = []
    for row, (name, spans) in enumerate(reversed(picture.unknown().items())):
        bottom = frame.strip + row * _STRIP
        for span in spans:
            begin, end = picture.clock.plotted(span)
            edges = {"x0": begin, "x1": end, "y0": frame.paper(bottom + 3), "y1": frame.paper(bottom + 10)}
            look = {"type": "rect", "xref": "x", "yref": "paper", "fillcolor": PLOTLY_COLOUR[name], "opacity": 0.5}
            shapes.append(look | edges | {"line": {"width": 0}})
    return shapes


def _end_labels(picture: BoundsPicture) -> list[dict[str, Any]]:
    ends = picture.ends()
    names = [name for name in CURVE_NAMES if name in ends]
    scale = _MAIN / (picture.event.high - picture.event.low)
    heights = [(ends[name][1] - picture.event.low) * scale for name in names]
    places = spread(heights, gap=17, low=6, high=_MAIN - 6)
    values = picture.event.plotted([ends[name][1] for name in names])
    return [
        {
            "text": f"<b>{CURVE_NAMES[name]}</b>",
            "font": {"color": PLOTLY_COLOUR[name]},
            "showarrow": False,
            "xref": "paper",
            "x": 1,
            "xanchor": "left",
            "xshift": 6,
            "yref": "y",
            "y": value,
            "yshift": round(place - height, 1),
        }
        for name, value, height, place in zip(names, values, heights, places, strict=True)
    ]


def _notes(picture: BoundsPicture, frame: Frame) -> list[dict[str, Any]]:
    right = {"showarrow": False, "xref": "paper", "x": 1, "xanchor": "left", "xshift": 6}
    middle = {"showarrow": False, "xref": "paper", "x": 0.5, "y": 0.5, "yref": "y domain"}
    notes = [] if picture.ends() else [middle | {"text": NOTHING, "font": {"size": 15}}]
    if picture.alarms:
        corner = {"x": 0, "xshift": 6, "xanchor": "left", "y": 1, "yanchor": "top"}
        notes.append(middle | corner | {"text": "<b>× not safe</b>", "font": {"color": PLOTLY_COLOUR["alarm"]}})
    if picture.distance is not None:
        zero = {"text": f"<b>{picture.distance.reference}</b>", "yref": "y2", "y": 0}
        notes.append(right | zero)
    for row, (name, spans) in enumerate(reversed(picture.unknown().items())):
        place, side = strip_label(spans, picture.clock)
        words: dict[str, Any] = {"text": f"{name} unknown", "font": {"size": 12}, "yref": "paper", "yanchor": "middle"}
        words["y"] = frame.paper(frame.strip + row * _STRIP + 6.5)
        (at,) = picture.clock.plotted([place])
        near = {
            "after": {"xref": "x", "x": at, "xanchor": "left", "xshift": 4},
            "before": {"xref": "x", "x": at, "xanchor": "right", "xshift": -4},
            "beside": {},
        }[side]
        notes.append(right | words | near)
    return notes
