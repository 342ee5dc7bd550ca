"""The space-time diagram: the messages around a moment, a lane for each party, time to the right."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

import plotly.graph_objects as go  # type: ignore[import-untyped]

from wmlab.core.charts import svg
from wmlab.core.charts.axis import Axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.labels import text_width, wrap
from wmlab.core.charts.style import GREY, PLOTLY_COLOUR, PLOTLY_DASH, ROLES, TEMPLATE
from wmlab.core.charts.ticks import duration_unit, is_instant
from wmlab.streams.charts.messages_table import COLUMNS, Message, Moment, clock_words, describe, read_moment

_LOOKS: Final = ("lower", "upper", "truth")
"""The roles of the three most frequent kinds; all others share the next."""
_OTHER: Final = "unknown"
_STUB_SHARE: Final = 0.02
_THIN: Final = 1.8
"""Width of the interactive lines in px: many of them run side by side."""
_WIDTH, _MARGIN, _RIGHT, _LANE = 900.0, 20.0, 30.0, 56.0


def space_time(
    table: Any, *, around_ms: int, span_ms: int = 1_000, parties: Sequence[str] | None = None, title: str | None = None
) -> Chart:
    """Draw the messages that were on their way around a moment as lines from sender to receiver.

    `table` is a pandas or Spark DataFrame with the columns stream, sent_ms, received_ms (null: it did not arrive),
    sender, receiver, kind and content; `around_ms` is the moment and `span_ms` how much clock is shown. `parties`
    chooses the lanes and their order. A message that did not arrive ends in a cross. Raises `ChartError` for a missing
    column, several streams, or when no message was on its way.
    """
    moment = read_moment(table, around_ms, span_ms, parties)
    sentence = describe(moment)
    drawn = f" Drawn are the {len(moment.near)} nearest." if len(moment.near) < len(moment.messages) else ""
    within = "" if moment.stream is None else f" in {moment.stream}"
    heading = title or f"What was said{within} around {clock_words(moment.around_ms, span_ms)}?"
    axis = _axis(moment)
    return Chart(
        sentence=sentence,
        data=_data(moment),
        figure=_draw_plotly(moment, axis, heading, sentence + drawn),
        svg=_draw_svg(moment, axis, heading, sentence + drawn),
    )


def _data(moment: Moment) -> dict[str, list[Any]]:
    rows = [(m.stream, m.sent_ms, m.received_ms, m.sender, m.receiver, m.kind, m.content) for m in moment.messages]
    return {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}


def _axis(moment: Moment) -> Axis:
    unit = duration_unit(moment.to_ms - moment.from_ms)
    return Axis("clock", moment.from_ms, moment.to_ms, is_instant([moment.from_ms, moment.to_ms]), unit)


def _role(moment: Moment, kind: str) -> str:
    place = moment.kinds.index(kind)
    return _LOOKS[place] if place < len(_LOOKS) else _OTHER


def _course(moment: Moment, message: Message) -> tuple[tuple[float, float], tuple[float, float]]:
    """From where to where a message is drawn, as (clock, lane counted from the top); a lost one breaks off half-way."""
    begin, end = moment.parties.index(message.sender), moment.parties.index(message.receiver)
    if message.received_ms is not None:
        return (message.sent_ms, begin), (message.received_ms, end)
    stub_ms = (moment.to_ms - moment.from_ms) * _STUB_SHARE
    return (message.sent_ms, begin), (message.sent_ms + stub_ms, (begin + end) / 2)


def _draw_svg(moment: Moment, axis: Axis, title: str, subtitle: str) -> str:
    head = wrap(subtitle, width=_WIDTH - 2 * _MARGIN, size=13)
    left = _MARGIN + max(text_width(party, 12) for party in moment.parties) + 14
    panel = svg.Panel(
        left=left,
        top=92.0 + 19 * len(head),
        width=_WIDTH - left - _RIGHT,
        height=_LANE * max(len(moment.parties) - 1, 1),
        x_low=moment.from_ms,
        x_high=moment.to_ms,
        y_low=max(len(moment.parties) - 1, 1),
        y_high=0,
    )
    parts = [svg.text(_MARGIN, 30, title, "title", size=17, bold=True)]
    parts += [svg.text(_MARGIN, 51 + 19 * n, line, "text", size=13) for n, line in enumerate(head)]
    parts += _legend(moment, panel.top - 38)
    parts += svg.x_axis(panel, axis.ticks(8), title=axis.title, below=panel.bottom + 6)
    x = panel.x(moment.around_ms)
    parts.append(svg.line([(x, panel.top - 14), (x, panel.bottom)], "mark"))
    for lane, party in enumerate(moment.parties):
        parts.append(svg.line([(panel.left, panel.y(lane)), (panel.right, panel.y(lane))], "mark"))
        parts.append(svg.text(left - 8, panel.y(lane) + 4, party, "text", anchor="end"))
    for message in moment.near:
        parts += _arrow(panel, moment, message)
    return svg.document(_WIDTH, panel.bottom + 56, title=title, desc=subtitle, parts=parts)


def _legend(moment: Moment, y: float) -> list[str]:
    parts = []
    x = _MARGIN
    for name, role, _ in _legend_entries(moment):
        parts.append(svg.line([(x, y - 4), (x + 26, y - 4)], role))
        parts.append(svg.text(x + 32, y, name, "text"))
        x += 32 + text_width(name, 12) + 18
    if any(message.received_ms is None for message in moment.near):
        parts += [svg.point(x + 4, y - 4, "cross", "alarm"), svg.text(x + 14, y, "did not arrive", "text")]
    return parts


def _legend_entries(moment: Moment) -> list[tuple[str, str, list[str]]]:
    """What the legend has: a name, its role, and the kinds that it stands for."""
    kinds = moment.kinds
    entries = [(kind, role, [kind]) for kind, role in zip(kinds, _LOOKS, strict=False)]
    others = kinds[len(_LOOKS) :]
    name = others[0] if len(others) == 1 else f"{len(others)} other kinds"
    return [*entries, (name, _OTHER, others)] if others else entries


def _arrow(panel: svg.Panel, moment: Moment, message: Message) -> list[str]:
    (sent, begin), (arrived, end) = _course(moment, message)
    places = _clipped((panel.x(sent), panel.y(begin)), (panel.x(arrived), panel.y(end)), panel.left, panel.right)
    parts = [svg.line(places, _role(moment, message.kind))]
    if message.received_ms is None:
        parts.append(svg.point(*places[1], "cross", "alarm", size=4))
    elif message.received_ms <= moment.to_ms:
        parts.append(svg.point(*places[1], "circle", _role(moment, message.kind), size=3))
    return parts


def _clipped(
    start: tuple[float, float], end: tuple[float, float], left: float, right: float
) -> list[tuple[float, float]]:
    """The part of a line between two pixel columns."""

    def at(x: float) -> tuple[float, float]:
        if start[0] == end[0]:
            return end
        share = (x - start[0]) / (end[0] - start[0])
        return x, start[1] + share * (end[1] - start[1])

    first = start if start[0] >= left else at(left)
    last = end if end[0] <= right else at(right)
    return [first, last]


def _draw_plotly(moment: Moment, axis: Axis, title: str, subtitle: str) -> go.Figure:
    head = wrap(subtitle, width=700, size=13)
    top = 84 + 18 * len(head)
    height = round(_LANE * max(len(moment.parties) - 1, 1)) + top + 66
    traces = [_lines(moment, axis, *entry) for entry in _legend_entries(moment)]
    traces += [trace for trace in (_ends(moment, axis), _losses(moment, axis)) if trace is not None]
    (around,) = axis.plotted([moment.around_ms])
    line = {"color": PLOTLY_COLOUR["mark"], "width": 1, "dash": PLOTLY_DASH["mark"]}
    layout = {
        "template": TEMPLATE,
        "title": {
            "text": f"<b>{escape(title)}</b>",
            "subtitle": {"text": "<br>".join(escape(words) for words in head), "font": {"size": 13}},
            "xref": "container",
            "x": 0.012,
            "y": round(1 - 22 / height, 6),
            "yanchor": "middle",
        },
        "height": height,
        "margin": {"l": 70, "r": 30, "t": top, "b": 56},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "yref": "paper"},
        "hovermode": "closest",
        "separators": ".\u00a0",
        "xaxis": {
            "title": {"text": axis.title, "standoff": 8},
            "range": axis.plotted([axis.low, axis.high]),
            "exponentformat": "none",
            "type": "date" if axis.instants else "linear",
        },
        "yaxis": {
            "tickvals": list(range(len(moment.parties))),
            "ticktext": [escape(party) for party in moment.parties],
            "range": [max(len(moment.parties) - 1, 1) + 0.3, -0.3],
            "automargin": True,
        },
        "shapes": [{"type": "line", "xref": "x", "x0": around, "x1": around, "yref": "paper", "y0": 0, "y1": 1}
                   | {"line": line, "layer": "below"}],
    }  # fmt: skip
    return go.Figure(data=traces, layout=layout)


def _lines(moment: Moment, axis: Axis, name: str, role: str, kinds: Sequence[str]) -> go.Scatter:
    xs: list[float | None] = []
    ys: list[float | None] = []
    for message in (m for m in moment.near if m.kind in kinds):
        (sent, begin), (arrived, end) = _course(moment, message)
        xs += [*([None] if xs else []), *axis.plotted([round(sent), round(arrived)])]
        ys += [*([None] if ys else []), begin, end]
    style = {
        "color": GREY if role == _OTHER else PLOTLY_COLOUR[role],
        "width": min(ROLES[role].width, _THIN),
        "dash": PLOTLY_DASH.get(role, "solid"),
    }
    return go.Scatter(x=xs, y=ys, mode="lines", line=style, hoverinfo="skip", name=escape(name))


def _ends(moment: Moment, axis: Axis) -> go.Scatter | None:
    """The points at which messages arrived; they carry what the messages say."""
    arrived = [m for m in moment.near if m.received_ms is not None]
    if not arrived:
        return None
    return _points(moment, axis, arrived, "arrived", {"symbol": "circle", "size": 6, "color": GREY}, legend=False)


def _losses(moment: Moment, axis: Axis) -> go.Scatter | None:
    lost = [m for m in moment.near if m.received_ms is None]
    if not lost:
        return None
    marker = {"symbol": "x", "size": 9, "color": PLOTLY_COLOUR["alarm"]}
    return _points(moment, axis, lost, "did not arrive", marker, legend=True)


def _points(
    moment: Moment, axis: Axis, shown: Sequence[Message], name: str, marker: dict[str, Any], *, legend: bool
) -> go.Scatter:
    ends = [_course(moment, message)[1] for message in shown]
    told = [escape(f"{m.kind}: {m.sender} → {m.receiver} {m.content}".strip()) for m in shown]
    return go.Scatter(
        x=axis.plotted([round(at) for at, _ in ends]),
        y=[lane for _, lane in ends],
        mode="markers",
        marker=marker,
        customdata=told,
        hovertemplate="%{customdata}<extra></extra>",
        name=name,
        showlegend=legend,
    )
