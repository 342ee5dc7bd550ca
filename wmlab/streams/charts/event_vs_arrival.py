"""Event time against arrival: when events happened against when they arrived, with both bounds as steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wmlab.core.charts.axis import time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import columns_of, faults, one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Dots, Panel, Scene, Steps
from wmlab.core.charts.steps import thin
from wmlab.core.recording import Recording
from wmlab.core.words import grouped, rounded
from wmlab.streams.answers.history import Row, late_events

_MOST_EVENTS: Final = 700
_MOST_STEPS: Final = 400
_SIDES: Final = ("upper", "lower")


def event_vs_arrival(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw every event at its arrival and its event time, and the bounds that watermarks had given by then.

    An event below the lower step came too late for a watermark and is marked with a cross. Of many events 700 are
    drawn, evenly spread, and all that came too late. Raises `ChartError` if there are several streams and none is
    chosen, or no events.
    """
    name = one_stream(recording, stream, "events")
    events = stream_rows(recording, "events", name, ("append_ms", "event_time"), by="append_ms")
    marks = stream_rows(recording, "watermarks", name, by="emitted_ms")
    late = late_events(events, marks)
    drawn = share_of(events, _MOST_EVENTS)
    sentence = _sentence(name, events, len(late))
    fewer = f" Drawn are {grouped(len(drawn))} of {grouped(len(events))} events." if len(drawn) < len(events) else ""
    times = [row["event_time"] for row in (*drawn, *late)] + [mark[side] for mark in marks for side in _SIDES]
    scene = Scene(
        title=title or f"When did the events of {name} happen, and when did they arrive?",
        subtitle=sentence + fewer,
        across=time_axis("arrival", [*(row["append_ms"] for row in events), *(row["emitted_ms"] for row in marks)]),
        panels=[
            Panel(
                up=time_axis("event time", times, pad_percent=4),
                height=320.0,
                layers=[
                    _dots("event", "text", drawn, 1.6),
                    *_bounds(marks, events[-1]["append_ms"]),
                    _dots("event below the lower bound", "alarm", late, 4.0),
                ],
            )
        ],
        rules=faults(recording, name),
    )
    return Chart(sentence=sentence, data=columns_of(events, ("append_ms", "event_time")), scene=scene)


def _dots(name: str, role: str, events: Sequence[Row], size: float) -> Dots:
    return Dots(
        name=name,
        role=role,
        shape="cross" if role == "alarm" else "circle",
        xs=[row["append_ms"] for row in events],
        ys=[row["event_time"] for row in events],
        size=size,
    )


def _bounds(marks: Sequence[Row], end_ms: int) -> list[Steps]:
    """Both steps; the last ones hold to the end of the run."""
    if not marks:
        return []
    xs = [*(mark["emitted_ms"] for mark in marks), max(end_ms, marks[-1]["emitted_ms"])]
    curves = {side: [*(mark[side] for mark in marks), marks[-1][side]] for side in _SIDES}
    rows = thin([curves["upper"], curves["lower"]], _MOST_STEPS)
    return [
        Steps(name=f"{side} bound", role=side, xs=[xs[i] for i in rows], ys=[values[i] for i in rows])
        for side, values in curves.items()
    ]


def _sentence(name: str, events: Sequence[Row], late: int) -> str:
    delays = sorted(row["append_ms"] - row["event_time"] for row in events)
    half, most = delays[len(delays) // 2], delays[-1]
    kept = "none arrived below a lower bound" if not late else f"{grouped(late)} arrived below the lower bound"
    return (
        f"Half of the {grouped(len(events))} events of {name} arrived within {rounded(half)} of their time, "
        f"the slowest after {rounded(most)}; {kept} that a watermark had given before."
    )
