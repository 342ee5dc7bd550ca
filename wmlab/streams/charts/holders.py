"""The chart of holders: who held a stream's lower bound, and how much lag each cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wmlab.core.charts.axis import Axis, duration_unit, format_duration
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import plain_columns
from wmlab.core.charts.scene import Blocks, Box, Scene, lanes
from wmlab.core.errors import ChartError

_COLUMNS: Final = ("stream", "who", "why", "stretches", "held_ms", "worst_ms", "cost_ms")
_MOST: Final = 12
_ROLE: Final = {"lagging": "upper", "slowest": "lower"}
"""Colour by cause: waited for, or merely the slowest; any other cause is grey."""


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
    sentence = _sentence(streams[0], columns, order)
    left_out = f" {len(order) - _MOST} more cost less." if len(order) > _MOST else ""
    shown = order[:_MOST]
    top_ms = max(1, *(round(columns["cost_ms"][i] or 0) for i in shown))
    scene = Scene(
        title=title or f"Who held the lower bound of {streams[0]}, and what did it cost?",
        subtitle=sentence + left_out,
        across=Axis("raised the mean lag by", 0, top_ms, False, duration_unit(top_ms)),
        panels=[lanes([_name(columns, i) for i in shown], _bars(columns, shown))],
    )
    return Chart(sentence=sentence, data={name: [columns[name][i] for i in order] for name in _COLUMNS}, scene=scene)


def _name(columns: dict[str, list[Any]], i: int) -> str:
    who, why = str(columns["who"][i]), columns["why"][i]
    return f"{who} ({why})" if why in _ROLE else who


def _bars(columns: dict[str, list[Any]], shown: Sequence[int]) -> list[Blocks]:
    """The bars by cause, each with its price beside it."""
    bars: dict[str, list[Box]] = {}
    for row, i in enumerate(shown):
        cost_ms = columns["cost_ms"][i]
        price = "cost unknown" if cost_ms is None else format_duration(round(cost_ms))
        label = f"{price}, held {format_duration(columns['held_ms'][i])}"
        box = Box(0, round(cost_ms or 0), row - 0.3, row + 0.3, label, f"{_name(columns, i)}: {label}")
        bars.setdefault(columns["why"][i], []).append(box)
    return [
        Blocks(name=why, role=_ROLE.get(why, "unknown"), boxes=boxes, opacity=0.85, legend=False, beside=True)
        for why, boxes in bars.items()
    ]


def _sentence(stream: str, columns: dict[str, list[Any]], order: Sequence[int]) -> str:
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
