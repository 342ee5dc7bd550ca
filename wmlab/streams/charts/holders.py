"""The chart of holders: who held a stream's lower bound, and how much lag each cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import plotly.graph_objects as go  # type: ignore[import-untyped]

from wmlab.core.charts import svg
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.frames import plain_columns
from wmlab.core.charts.labels import text_width, wrap
from wmlab.core.charts.style import GREY, PLOTLY_COLOUR, TEMPLATE
from wmlab.core.charts.ticks import duration_ticks, duration_unit, format_duration
from wmlab.core.errors import ChartError

_COLUMNS: Final = ("stream", "who", "why", "stretches", "held_ms", "worst_ms", "cost_ms")
_MOST: Final = 12
_ROLE: Final = {"lagging": "upper", "slowest": "lower"}
"""Colour by cause: waited for, or merely the slowest; any other cause is grey."""

_WIDTH, _MARGIN, _RIGHT, _ROW, _BAR = 900.0, 20.0, 190.0, 30.0, 18.0


@dataclass(frozen=True, slots=True)
class _Bar:
    """One holder as drawn: its name, its cause, its cost in ms (None: unknown), and what stands beside the bar."""

    name: str
    why: str
    cost_ms: float | None
    beside: str


def holder_costs(table: Any, *, title: str | None = None) -> Chart:
    """Draw what each holder of a lower bound cost, one bar per holder and cause, the most expensive first.

    `table` is the answer of `recording.explain()` or a DataFrame with its columns: stream, who, why, stretches,
    held_ms, worst_ms and cost_ms (by how much it raised the mean lag, ms, null if unknown). `title` replaces the
    question above the chart. Raises `ChartError` for a missing column, no rows, or rows of several streams.
    """
    columns = plain_columns(table, _COLUMNS, chart="A chart of holders", example="recording.explain()")
    streams = sorted(set(columns["stream"]))
    if len(streams) != 1:
        found = f"it has {len(streams)}: {', '.join(streams[:6])}" if streams else "it has no rows"
        raise ChartError(f"One chart shows the holders of one stream; {found}.", remedy="Keep the rows of one stream.")
    order = sorted(range(len(columns["who"])), key=lambda i: (-(columns["cost_ms"][i] or 0), -columns["held_ms"][i]))
    bars = [_bar(columns, i) for i in order]
    sentence = _sentence(streams[0], columns, order)
    left_out = f" {len(bars) - _MOST} more cost less." if len(bars) > _MOST else ""
    heading = title or f"Who held the lower bound of {streams[0]}, and what did it cost?"
    shown = bars[:_MOST]
    return Chart(
        sentence=sentence,
        data={name: [columns[name][i] for i in order] for name in _COLUMNS},
        figure=_draw_plotly(shown, heading, sentence + left_out),
        svg=_draw_svg(shown, heading, sentence + left_out),
    )


def _bar(columns: dict[str, list[Any]], i: int) -> _Bar:
    cost_ms = columns["cost_ms"][i]
    price = "cost unknown" if cost_ms is None else format_duration(round(cost_ms))
    name = f"{columns['who'][i]} ({columns['why'][i]})" if columns["why"][i] in _ROLE else str(columns["who"][i])
    return _Bar(name, columns["why"][i], cost_ms, f"{price}, held {format_duration(columns['held_ms'][i])}")


def _sentence(stream: str, columns: dict[str, list[Any]], order: list[int]) -> str:
    total = sum(cost for cost in columns["cost_ms"] if cost is not None)
    if not total:
        return f"Nobody held the lower bound of {stream} below what the others had noted."
    first = order[0]
    cost, held = columns["cost_ms"][first], columns["held_ms"][first]
    return (
        f"{columns['who'][first]} ({columns['why'][first]}) cost most: the lower bound of {stream} was on average "
        f"{format_duration(round(cost))} lower for it, {round(100 * cost / total)} % of what all holders cost; it held "
        f"for {format_duration(held)}."
    )


def _top_ms(costs_ms: Iterable[float | None]) -> int:
    return max([1, *(round(cost) for cost in costs_ms if cost is not None)])


def _draw_svg(bars: list[_Bar], title: str, subtitle: str) -> str:
    head = wrap(subtitle, width=_WIDTH - 2 * _MARGIN, size=13)
    left = _MARGIN + min(320.0, max(text_width(bar.name, 12) for bar in bars)) + 12
    top_ms = _top_ms(bar.cost_ms for bar in bars)
    unit = duration_unit(top_ms)
    ticks = duration_ticks(0, top_ms, count=6, unit=unit)
    panel = svg.Panel(
        left=left,
        top=52.0 + 19 * len(head),
        width=_WIDTH - left - _RIGHT,
        height=_ROW * len(bars),
        x_low=0,
        x_high=top_ms,
        y_low=0,
        y_high=len(bars),
    )
    parts = [svg.text(_MARGIN, 30, title, "title", size=17, bold=True)]
    parts += [svg.text(_MARGIN, 51 + 19 * n, line, "text", size=13) for n, line in enumerate(head)]
    parts += svg.x_axis(panel, ticks, title=f"raised the mean lag by ({unit.symbol})", below=panel.bottom)
    for n, bar in enumerate(bars):
        top, end = panel.top + n * _ROW + (_ROW - _BAR) / 2, panel.x(bar.cost_ms or 0)
        corners = [(left, top), (end, top), (end, top + _BAR), (left, top + _BAR)]
        parts += [svg.area(corners, _ROLE.get(bar.why, "unknown"), opacity=0.85)] if end > left else []
        parts.append(svg.text(left - 8, top + 13, bar.name, "text", anchor="end"))
        parts.append(svg.text(end + 8, top + 13, bar.beside, "text"))
    return svg.document(_WIDTH, panel.bottom + 50, title=title, desc=subtitle, parts=parts)


def _draw_plotly(bars: list[_Bar], title: str, subtitle: str) -> go.Figure:
    unit = duration_unit(_top_ms(bar.cost_ms for bar in bars))
    head = wrap(subtitle, width=700, size=13)
    top = 54 + 18 * len(head)
    height = round(_ROW * len(bars)) + top + 52
    trace = go.Bar(
        orientation="h",
        x=[unit.scale(round(bar.cost_ms or 0)) for bar in bars],
        y=[escape(bar.name) for bar in bars],
        text=[f" {escape(bar.beside)}" for bar in bars],
        textposition="outside",
        textfont={"color": GREY},
        cliponaxis=False,
        marker={"color": [PLOTLY_COLOUR.get(_ROLE.get(bar.why, ""), PLOTLY_COLOUR["unknown"]) for bar in bars]},
        hovertemplate="%{y}: %{text}<extra></extra>",
        width=_BAR / _ROW,
    )
    layout = {
        "template": TEMPLATE,
        "title": {
            "text": f"<b>{escape(title)}</b>",
            "subtitle": {"text": "<br>".join(escape(line) for line in head), "font": {"size": 13}},
            "xref": "container",
            "x": 0.012,
            "y": round(1 - 22 / height, 6),
            "yanchor": "middle",
        },
        "height": height,
        "margin": {"l": 70, "r": 190, "t": top, "b": 52},
        "showlegend": False,
        "xaxis": {
            "title": {"text": f"raised the mean lag by ({unit.symbol})", "standoff": 8},
            "rangemode": "tozero",
            "exponentformat": "none",
        },
        "yaxis": {"autorange": "reversed", "automargin": True, "showgrid": False, "ticks": "", "ticksuffix": "  "},
    }
    return go.Figure(data=[trace], layout=layout)
