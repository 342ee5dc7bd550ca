"""The pictures of a panel: what each shows of a run, first of all the bounds that a reader saw."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Final

from wmlab.core.answers import Answer
from wmlab.core.charts.chart import Chart
from wmlab.core.recording import Recording
from wmlab.streams import charts
from wmlab.streams.answers.bounds_table import BoundsTable, Incident
from wmlab.streams.answers.history import rows_of_stream
from wmlab.streams.charts.bounds import draw_bounds
from wmlab.streams.recording import StreamRecording


def readers_of(recording: Recording, stream: str) -> list[str]:
    """Who looked at a time window of the stream; first those that saw a lower bound most often."""
    known: dict[str, int] = {}
    for row in rows_of_stream(recording, "windows", stream):
        known[row["reader"]] = known.get(row["reader"], 0) + (row["lower"] is not None)
    return sorted(known, key=lambda reader: (-known[reader], reader))


def bounds_seen(recording: Recording, stream: str, reader: str | None) -> Chart:
    """The time bounds that a reader saw during the run, with what happened meanwhile.

    They are rows of the table `windows`: they need no Spark, and there is no perfect watermark. `reader` is by default
    the first of `readers_of`.
    """
    seen = next(iter(readers_of(recording, stream)), None) if reader is None else reader
    windows = [row for row in rows_of_stream(recording, "windows", stream) if row["reader"] == seen]
    rows = sorted(windows, key=itemgetter("at_ms"))
    happened = rows_of_stream(recording, "incidents", stream)
    table = BoundsTable(
        stream=stream,
        group=None,
        reader=seen,
        at_ms=[row["at_ms"] for row in rows],
        lower=[row["lower"] for row in rows],
        upper=[row["upper"] for row in rows],
        perfect_watermark=None,
        incidents=sorted({Incident(row["at_ms"], row["kind"], row["detail"]) for row in happened}),
    )
    return draw_bounds(table, recording=recording)


BOUNDS_SEEN: Final = "time bounds"
"""The picture that is of one reader."""
LAG_DISTRIBUTION: Final = "lag, how often"
"""The picture that is not over the clock."""
PICTURES: Final[dict[str, Callable[[Recording, str, str | None], Chart]]] = {
    BOUNDS_SEEN: bounds_seen,
    "events and bounds": lambda recording, stream, _: charts.event_vs_arrival(recording, stream=stream),
    "who held the bound": lambda recording, stream, _: charts.writer_marks(recording, stream=stream),
    "lag": lambda recording, stream, _: charts.lag(recording, stream=stream),
    "key space": lambda recording, stream, _: charts.key_space(recording, stream=stream),
    "watermark cycles": lambda recording, stream, _: charts.watermark_cycles(recording, stream=stream),
    LAG_DISTRIBUTION: lambda recording, stream, _: charts.lag_distribution(recording, stream=stream),
}
"""By the name in the panel's list: a chart of a recording's stream, as a reader saw it if it is of a reader."""


def answer_at(recording: StreamRecording, picture: str, stream: str, reader: str | None, at_ms: int) -> Answer:
    """What a click on a picture answers: what held the bound that is drawn, and which watermark is the newest."""
    is_of_reader = picture == BOUNDS_SEEN
    return recording.explain(at_ms, stream=stream, reader=reader if is_of_reader else None)
