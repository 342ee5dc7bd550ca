"""The chart of windows that fire: each at the moment it fired, above the watermark that let it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from wmlab.core.charts.axis import time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import faults, one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Dots, Panel, Scene, Shape, Steps
from wmlab.core.charts.steps import thin
from wmlab.core.recording import Recording
from wmlab.core.words import bare, counted, grouped, rounded

_MOST: Final = 400
_LOOKS: Final[dict[str, tuple[str, Shape]]] = {
    "fired by the watermark": ("upper", "circle"),
    "fired at the end of the stream": ("third", "triangle"),
    "fired again": ("alarm", "cross"),
}


def windows_firing(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw when each window of a query fired, at its end in event time, and the global watermark that let it.

    A window fires when the watermark has passed its end, so its mark stands on or under the step. `stream` is the name
    of the query. Raises `ChartError` if there are several queries and none is chosen, or no window fired.
    """
    name = one_stream(recording, stream, "windows_fired")
    fired = sorted(stream_rows(recording, "windows_fired", name), key=lambda row: (row["fired_ms"], row["sequence"]))
    operators = {row["operator"] for row in fired}
    columns = ("operator", "arrival", "arrived_ms", "reached")
    buffers = [row for row in stream_rows(recording, "buffers", name, columns) if row["operator"] in operators]
    buffers.sort(key=lambda row: row["arrival"])
    rows = thin([[row["reached"] for row in buffers]], _MOST) if buffers else []
    watermark = Steps(
        name="global watermark",
        role="lower",
        xs=[buffers[i]["arrived_ms"] for i in rows],
        ys=[buffers[i]["reached"] for i in rows],
    )
    sentence = _sentence(name, fired)
    fewer = f" Drawn are {_MOST} of each kind." if len(fired) > _MOST else ""
    scene = Scene(
        title=title or f"When did the windows of {name} fire?",
        subtitle=sentence + fewer,
        across=time_axis("clock", [*watermark.xs, *(row["fired_ms"] for row in fired)]),
        panels=[
            Panel(
                up=time_axis("event time", [*watermark.ys, *(row["end"] for row in fired)], pad_percent=4),
                height=300.0,
                layers=[watermark, *(_dots(kind, fired) for kind in _LOOKS)],
            )
        ],
        rules=faults(recording, name, without=("late",)),
    )
    told = ("operator", "start", "end", "records", "fired_ms", "cause", "again")
    data = {column: [row[column] for row in fired] for column in told}
    return Chart(sentence=sentence, data=data, scene=scene)


def _kind(row: Mapping[str, Any]) -> str:
    if row["again"]:
        return "fired again"
    return "fired by the watermark" if row["cause"] == "watermark" else "fired at the end of the stream"


def _dots(kind: str, fired: Sequence[dict[str, Any]]) -> Dots:
    role, shape = _LOOKS[kind]
    shown = share_of([row for row in fired if _kind(row) == kind], _MOST)
    return Dots(
        name=kind,
        role=role,
        shape=shape,
        xs=[row["fired_ms"] for row in shown],
        ys=[row["end"] for row in shown],
        hover=[
            f"window {bare(row['start'])} to {bare(row['end'])}: {counted(row['records'], 'record')}" for row in shown
        ],
        size=3.5,
    )


def _sentence(name: str, fired: Sequence[Mapping[str, Any]]) -> str:
    kinds = [_kind(row) for row in fired]
    flushed, again = kinds.count("fired at the end of the stream"), kinds.count("fired again")
    text = f"{counted(len(fired), 'window')} of {name} fired"
    some = "" if flushed == len(fired) else f"{grouped(flushed)} of them "
    text += f", {some}only at the end of the stream" if flushed else ", all by the watermark"
    if again:
        return f"{text}; {grouped(again)} fired again, which breaks the promise of the watermark before."
    moments = sorted({row["fired_ms"] for row in fired})
    longest = max((after - before for before, after in pairwise(moments)), default=None)
    return f"{text}." if longest is None else f"{text}; the longest time without one was {rounded(longest)}."
