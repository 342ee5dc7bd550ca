"""Windows that fire, for a query with known answers."""

from __future__ import annotations

from typing import Any

import pytest

from wmlab.core.errors import ChartError
from wmlab.progress.charts.firing import windows_firing
from wmlab.progress.recording import ProgressRecording
from wmlab.progress.tables import PROGRESS_TABLES as TABLES


def row(table: str, **given: Any) -> dict[str, Any]:
    """A row of `table` with harmless values where none is given."""
    blank = {"string": "x", "int64": 0, "bool": False, "list<item: int64>": []}
    return (
        {f.name: None if f.nullable else blank.get(str(f.type), []) for f in TABLES[table]}
        | {"stream": "q", "operator": "build"}
        | given
    )


def fired(sequence: int, end: int, at_ms: int, cause: str = "watermark", again: bool = False) -> dict[str, Any]:
    times = {"start": end - 10, "end": end, "fired_ms": at_ms}
    return row("windows_fired", sequence=sequence, records=3, cause=cause, again=again, **times)


BUFFERS = [row("buffers", arrival=n, arrived_ms=100 * n, reached=None if n < 2 else 12 * n) for n in range(1, 5)]


def recording(*windows: dict[str, Any]) -> ProgressRecording:
    return ProgressRecording.from_tables({"buffers": BUFFERS, "windows_fired": list(windows)}, name="run")


def test_windows_stand_at_their_end_when_they_fired() -> None:
    chart = windows_firing(recording(fired(1, 20, 200), fired(2, 40, 400), fired(3, 50, 450, "end of stream")))
    assert chart.sentence == (
        "3 windows of q fired, 1 of them only at the end of the stream; the longest time without one was 200 ms."
    )
    traces = {trace.name: trace for trace in chart.figure().data}
    assert (list(traces["fired by the watermark"].x), list(traces["fired by the watermark"].y)) == (
        [200, 400],
        [20, 40],
    )
    assert list(traces["fired at the end of the stream"].y) == [50]
    assert list(traces["global watermark"].y) == [None, 24, 36, 48]
    assert chart.data["end"] == [20, 40, 50]


@pytest.mark.parametrize(
    ("windows", "sentence"),
    [
        ([fired(1, 20, 200)], "1 window of q fired, all by the watermark."),
        ([fired(1, 20, 200, "end of stream")], "1 window of q fired, only at the end of the stream."),
        ([fired(n, 20, 200, "end of stream") for n in (1, 2)], "2 windows of q fired, only at the end of the stream."),
    ],
)
def test_windows_that_fire_at_one_moment_have_no_time_without_one(windows: list[Any], sentence: str) -> None:
    assert windows_firing(recording(*windows)).sentence == sentence


def test_a_double_fire_is_an_alarm() -> None:
    chart = windows_firing(recording(fired(1, 20, 200), fired(2, 20, 300, again=True)))
    assert "1 fired again, which breaks the promise" in chart.sentence
    assert next(t for t in chart.figure().data if t.name == "fired again").marker.symbol == "x"


def test_nothing_fired_is_refused_with_a_remedy() -> None:
    with pytest.raises(ChartError, match="no stream in its table 'windows_fired'"):
        windows_firing(recording())
