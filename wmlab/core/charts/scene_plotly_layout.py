"""Where a scene stands in a plotly figure: the heights of its panels, and the labels around them."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Final

from wmlab.core.charts.axis import unlabelled
from wmlab.core.charts.labels import Placed, spread, stagger, text_width, wrap
from wmlab.core.charts.scene import Scene, Steps
from wmlab.core.charts.style import PLOTLY_COLOUR, PLOTLY_DASH

READABLE_WIDTH: Final = 640.0
"""Pixels of plot that labels are arranged for; a notebook beside an open side bar has about as many."""
RIGHT: Final = 128
"""Pixels right of the plot for the names of curves."""
BARE_RIGHT: Final = 30
"""Pixels right of the plot if no curve has its name there."""
_LEVEL, _GAP = 20.0, 18.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Heights in px from the bottom of the plot, and where the labels of the rules stand."""

    panels: list[tuple[float, float]]
    lane: float
    top: float
    labels: list[Placed | None]
    head: list[str]

    def share(self, height: float) -> float:
        """A height as plotly's share of the plot."""
        return round(height / self.top, 6)


def arrange(scene: Scene) -> Frame:
    """Heights of the panels and places of the labels, for a plot as wide as a notebook."""
    right = RIGHT if scene.labelled else BARE_RIGHT
    span = scene.across.high - scene.across.low
    places = [(rule.x - scene.across.low) / span * READABLE_WIDTH for rule in scene.rules]
    widths = [text_width(rule.label, 12) + 12 for rule in scene.rules]
    levels, labels = stagger(places, widths, limit=READABLE_WIDTH + right)
    more = unlabelled(labels)
    panels: list[tuple[float, float]] = []
    bottom = 0.0
    for panel in reversed(scene.panels):
        panels.insert(0, (bottom, bottom + panel.height))
        bottom += panel.height + _GAP
    lane = bottom - _GAP + 6
    top = lane + levels * _LEVEL if levels else bottom - _GAP
    head = wrap(scene.subtitle + more, width=READABLE_WIDTH + right, size=13)
    return Frame(panels=panels, lane=lane, top=top, labels=labels, head=head)


def rules(scene: Scene, frame: Frame) -> list[dict[str, Any]]:
    """The vertical lines of what happened."""
    line = {"color": PLOTLY_COLOUR["mark"], "width": 1, "dash": PLOTLY_DASH["mark"]}
    shapes = []
    xs = scene.across.plotted([rule.x for rule in scene.rules])
    for x, label in zip(xs, frame.labels, strict=True):
        top = frame.lane + (label.level + 0.5) * _LEVEL if label else frame.top
        ends = {"x0": x, "x1": x, "y0": 0, "y1": frame.share(top)}
        shapes.append({"type": "line", "xref": "x", "yref": "paper", "layer": "below", "line": line} | ends)
    return shapes


def rule_labels(scene: Scene, frame: Frame) -> list[dict[str, Any]]:
    """The words above the lines."""
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


def end_labels(scene: Scene) -> list[dict[str, Any]]:
    """The names beside the ends of curves."""
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
