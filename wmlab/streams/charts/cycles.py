"""The chart of watermark cycles: when they ran, where, with which barrier, and why they were held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wmlab.core.charts.axis import time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import faults, one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Dots, Panel, Scene, Steps, lanes
from wmlab.core.recording import Recording

_MOST: Final = 600


def watermark_cycles(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw each run of the watermark cycle in the lane of its controller, above the barrier that it started from.

    The barrier is the lower bound of the watermark before; a cycle emits when every writer that it waits for has
    passed it. Raises `ChartError` if there are several streams and none is chosen, or no cycles.
    """
    name = one_stream(recording, stream, "cycles")
    cycles = sorted(stream_rows(recording, "cycles", name), key=lambda row: row["at_ms"])
    marks = sorted(stream_rows(recording, "watermarks", name), key=lambda row: row["emitted_ms"])
    controllers = sorted({row["controller"] for row in cycles})
    shown = share_of(cycles, _MOST)
    sentence = _sentence(name, cycles)
    fewer = f" Drawn are {len(shown):,} of {len(cycles):,} cycles." if len(shown) < len(cycles) else ""
    times = [row["barrier"] for row in cycles] + [mark["lower"] for mark in marks]
    scene = Scene(
        title=title or f"When did the watermark cycle of {name} emit, and why not?",
        subtitle=sentence + fewer,
        across=time_axis("clock", [cycles[0]["at_ms"], cycles[-1]["at_ms"]], pad_percent=2),
        panels=[
            lanes(
                controllers,
                [_dots("emitted", "lower", shown, controllers), _dots("held", "upper", shown, controllers)],
            ),
            Panel(
                up=time_axis("event time", times, pad_percent=5),
                height=200.0,
                layers=[
                    Steps(
                        name="barrier",
                        role="truth",
                        xs=[row["at_ms"] for row in shown],
                        ys=[row["barrier"] for row in shown],
                    )
                ],
            ),
        ],
        rules=faults(recording, name),
    )
    columns = ("controller", "at_ms", "barrier", "lagging", "removed", "outcome", "reason")
    data = {column: [row[column] for row in cycles] for column in columns}
    return Chart(sentence=sentence, data=data, scene=scene)


def _dots(name: str, role: str, shown: Sequence[Mapping[str, Any]], controllers: Sequence[str]) -> Dots:
    cycles = [row for row in shown if (row["outcome"] == "emitted") == (name == "emitted")]
    return Dots(
        name=name,
        role=role,
        shape="circle" if name == "emitted" else "cross",
        xs=[row["at_ms"] for row in cycles],
        ys=[controllers.index(row["controller"]) for row in cycles],
        told=[_told(row) for row in cycles],
        size=3.0 if name == "emitted" else 4.0,
    )


def _told(row: Mapping[str, Any]) -> str:
    removed = f"; dropped {', '.join(row['removed'])}" if row["removed"] else ""
    return f"{row['at_ms']:,} ms, {row['controller']}: {row['reason'] or row['outcome']}{removed}"


def _sentence(name: str, cycles: Sequence[Mapping[str, Any]]) -> str:
    held = [row for row in cycles if row["outcome"] != "emitted"]
    text = f"{len(cycles):,} cycles ran for {name}, {len(cycles) - len(held):,} of them emitted a watermark"
    if not held:
        return f"{text}; none was held."
    waited = Counter(writer for row in held for writer in row["lagging"])
    if waited:
        writer, count = min(waited.items(), key=lambda pair: (-pair[1], pair[0]))
        if len(held) == 1:
            return f"{text}; the other one waited for {writer}."
        return f"{text}; {count:,} of the {len(held):,} others waited for {writer}."
    reason, count = min(Counter(row["reason"] for row in held).items(), key=lambda pair: (-pair[1], pair[0]))
    if len(held) == 1:
        return f"{text}; the other one was held because: {reason}."
    return f"{text}; {count:,} of the {len(held):,} others were held because: {reason}."
