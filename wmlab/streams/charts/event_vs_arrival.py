"""Event time against arrival: when events happened against when they arrived, with both bounds as steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from wmlab.core.charts.axis import shown_range, single, time_axis
from wmlab.core.charts.chart import Chart, columns_of, drawn_words, faults, joined, one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Dots, Layer, Panel, Scene, Steps, thin
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.streams.answers.arrivals import Delays, arrival_sentences, extremes
from wmlab.streams.answers.history import events_of, late_events, without_ends
from wmlab.streams.answers.measures import bounds_of

_MOST_EVENTS: Final = 700
_MOST_IN_DATA: Final = 100_000
_MOST_STEPS: Final = 400
_SIDES: Final = ("upper", "lower")


def event_vs_arrival(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw every event at its arrival and its event time, and the bounds that watermarks had given by then.

    An event below the lower step came too late for a watermark and is marked with a cross. Of many events 700 are
    drawn, evenly spread, with the slowest and the fastest, and all that came too late; of more than 100,000 these, and
    the chart's data, are an even share. The axis of event times leaves out few far ones, which the chart counts.
    Events are read part by part. Raises `ChartError` if there are several streams and none is chosen, or no events.
    """
    name = one_stream(recording, stream, "events")
    marks = stream_rows(recording, "watermarks", name, by="emitted_ms")

    def parts(*, too_late: bool = False) -> Iterator[pa.Table]:
        for part in events_of(recording, name, "append_ms", "event_time"):
            yield late_events(part, marks) if too_late else part

    delays, lates = Delays.of(parts()), sum(part.num_rows for part in parts(too_late=True))
    events, late = _spread(parts(), delays.count), _spread(parts(too_late=True), lates)
    drawn = share_of(events, _MOST_EVENTS)
    drawn += [row for row in extremes(parts()) if row not in drawn]
    sentence = arrival_sentences(name, delays, lates)
    times = [row["event_time"] for row in (*events, *drawn, *late)]
    bounds = [mark[side] for mark in without_ends(marks) for side in _SIDES]
    arrivals = [*(row["append_ms"] for row in events), *(row["emitted_ms"] for row in marks)]
    ends = shown_range([single(times), single(bounds)], least_ms=max(arrivals) - min(arrivals))
    up = time_axis("event time", ends, pad_percent=4, clock=arrivals)
    layers: list[Layer] = [
        _dots("event", "text", drawn, 1.6),
        *_bounds(marks, events[-1]["append_ms"]),
        _dots("event below the lower bound", "alarm", late, 4.0),
    ]
    scene = Scene(
        title=title or f"When did the events of {name} happen, and when did they arrive?",
        subtitle=joined(sentence, drawn_words((len(drawn), delays.count, "events"))),
        across=time_axis("arrival", arrivals),
        panels=[Panel(up=up, height=320.0, layers=layers)],
        rules=faults(recording, name),
    )
    return Chart(sentence=sentence, data=columns_of(events, ("append_ms", "event_time")), scene=scene)


def _dots(name: str, role: str, events: Sequence[TableRow], size: float) -> Dots:
    return Dots(
        name=name,
        role=role,
        shape="cross" if role == "alarm" else "circle",
        xs=[row["append_ms"] for row in events],
        ys=[row["event_time"] for row in events],
        size=size,
    )


def _bounds(marks: Sequence[TableRow], end_ms: int) -> list[Steps]:
    """Both steps, unknown from an end of known time on; the last ones hold to the end of the run."""
    bounds = bounds_of(without_ends(marks), end_ms)
    if not bounds:
        return []
    xs, lower, upper = zip(*bounds, strict=True)
    rows = thin([upper, lower], _MOST_STEPS, xs=xs)
    return [
        Steps(name=f"{side} bound", role=side, xs=[xs[i] for i in rows], ys=[values[i] for i in rows])
        for side, values in (("upper", upper), ("lower", lower))
    ]


def _spread(parts: Iterable[pa.Table], count: int) -> list[TableRow]:
    """The `count` rows of all parts, or `_MOST_IN_DATA` of them as `share_of` chooses, in order of arrival."""
    indices = (np.arange(min(count, _MOST_IN_DATA)) + 1) * count // min(max(count, 1), _MOST_IN_DATA) - 1
    chosen, begin = [], 0
    for part in parts:
        end = begin + part.num_rows
        chosen.append(part.take(indices[(begin <= indices) & (indices < end)] - begin))
        begin = end
    rows: list[TableRow] = pa.concat_tables(chosen).sort_by("append_ms").to_pylist() if chosen else []
    return rows
