"""The chart of holders: who held a stream's lower bound, and how much lag each cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wmlab.core.charts.axis import Axis, duration_unit
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import columns_of, plain_columns
from wmlab.core.charts.scene import Blocks, Box, Scene, lanes
from wmlab.core.errors import ChartError
from wmlab.core.words import rounded
from wmlab.streams.answers.history import Row

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
        count = f"it has {len(streams)}: {', '.join(streams[:6])}" if streams else "it has no rows"
        raise ChartError(f"One chart shows the holders of one stream; {count}.", remedy="Keep the rows of one stream.")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    rows.sort(key=lambda row: (-(row["cost_ms"] or 0), -row["held_ms"]))
    sentence = _sentence(streams[0], rows)
    left_out = f" {len(rows) - _MOST} more cost less." if len(rows) > _MOST else ""
    shown = rows[:_MOST]
    top_ms = max(1, *(round(row["cost_ms"] or 0) for row in shown))
    scene = Scene(
        title=title or f"Who held the lower bound of {streams[0]}, and what did it cost?",
        subtitle=sentence + left_out,
        across=Axis("raised the mean lag by", 0, top_ms, False, duration_unit(top_ms)),
        panels=[lanes([_name(row) for row in shown], _bars(shown))],
    )
    return Chart(sentence=sentence, data=columns_of(rows, _COLUMNS), scene=scene)


def _name(row: Row) -> str:
    return f"{row['who']} ({row['why']})" if row["why"] in _ROLE else str(row["who"])


def _bars(shown: Sequence[Row]) -> list[Blocks]:
    """The bars by cause, each with its price beside it."""
    bars: dict[str, list[Box]] = {}
    for lane, row in enumerate(shown):
        price = "cost unknown" if row["cost_ms"] is None else rounded(round(row["cost_ms"]))
        label = f"{price}, held {rounded(row['held_ms'])}"
        box = Box(0, round(row["cost_ms"] or 0), lane - 0.3, lane + 0.3, label, f"{_name(row)}: {label}")
        bars.setdefault(row["why"], []).append(box)
    return [
        Blocks(name=why, role=_ROLE.get(why, "unknown"), boxes=boxes, opacity=0.85, legend=False, beside=True)
        for why, boxes in bars.items()
    ]


def _sentence(stream: str, rows: Sequence[Row]) -> str:
    total = sum(row["cost_ms"] or 0 for row in rows)
    if not total:
        return f"Nobody held the lower bound of {stream} below what the others had noted."
    first = rows[0]
    cost = first["cost_ms"]
    return (
        f"{first['who']} ({first['why']}) cost most: the lower bound of {stream} was on average "
        f"{rounded(round(cost))} lower for it, {cost / total:.0%} of what all holders cost; it held "
        f"for {rounded(first['held_ms'])}."
    )
