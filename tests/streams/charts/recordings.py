"""A small recording with known answers: a stream that splits, two writers of whom one falls silent, one reader.

Next to it, small tables of bounds, and a stand-in for the tables of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa

from wmlab.core.charts.chart import Chart
from wmlab.streams import charts as view
from wmlab.streams.recording import StreamRecording

BORN_1 = 2**32
LEFT, RIGHT = BORN_1 + 1, BORN_1 + 2
Rows = list[dict[str, Any]]
CHARTS: list[Callable[..., Chart]] = [
    view.bucket_ownership,
    view.event_vs_arrival,
    view.key_space,
    view.lag,
    view.lag_distribution,
    view.watermark_cycles,
    view.writer_marks,
]


def recording(**tables: Rows) -> StreamRecording:
    """The small recording; keyword arguments replace whole tables."""
    return StreamRecording.from_tables(_TABLES | tables, name="small")


def frame(lower: list[int | None], perfect: list[int | None] | None = None) -> pd.DataFrame:
    """The bounds of one reader, a row a second; the upper one is 9 s ahead of the clock."""
    rows = pd.DataFrame({"stream": "s", "at_ms": range(0, 1_000 * len(lower), 1_000)})
    rows["lower"] = pd.array(lower, dtype="Int64")
    rows["upper"] = rows["at_ms"] + 9_000
    return rows if perfect is None else rows.assign(perfect_watermark=pd.array(perfect, dtype="Int64"))


def all_charts() -> list[Chart]:
    """The chart of small bounds, and each chart of the small recording."""
    return [view.time_bounds(frame([0, 1_000, None], [2_000, 2_000, 2_000])), *(draw(recording()) for draw in CHARTS)]


class Remote:
    """Stands in for a DataFrame of Spark Connect: it answers to any name, with a column that cannot be called."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    @property
    def columns(self) -> list[str]:
        return self._rows.column_names

    def __getitem__(self, names: list[str]) -> Remote:
        return Remote(self._rows.select(names))

    def __getattr__(self, name: str) -> object:
        return f"Column<{name}>"

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self._rows


def _rows(columns: str, *values: tuple[Any, ...], **same: Any) -> Rows:
    """Rows of the stream with these columns; those in `same` have one value in all of them."""
    return [{"stream": "orders"} | same | dict(zip(columns.split(), row, strict=True)) for row in values]


def _marks(writer: str, *marks: tuple[int, int], outcome: str = "success") -> Rows:
    """Times noted by a writer, each with when it was received."""
    rows = ((time, received_ms - 5, received_ms) for time, received_ms in marks)
    same = {"writer": writer, "process": writer, "position": {0: 10}, "controller": "c0", "txn": None}
    return _rows("time noted_ms received_ms", *rows, outcome=outcome, **same)


_TABLES: dict[str, Rows] = {
    "segments": _rows(
        "segment_id number epoch low high keys created_ms sealed_ms",
        (0, 0, 0, 0.0, 1.0, "0..1", 0, 4_000),
        (LEFT, 1, 1, 0.0, 0.5, "0..1/2", 3_990, None),
        (RIGHT, 2, 1, 0.5, 1.0, "1/2..1", 3_990, None),
    ),
    "epochs": _rows("epoch kind at_ms segment_ids", (0, "create", 0, [0]), (1, "scale", 4_000, [LEFT, RIGHT])),
    "events": _rows(
        "segment_id offset event_time append_ms",
        (0, 10, 900, 1_000),
        (0, 20, 1_900, 2_000),
        (0, 30, 500, 3_500),
        (LEFT, 10, 4_900, 5_000),
        (RIGHT, 10, 5_900, 6_000),
        writer="w1",
    ),
    "writer_marks": [
        *_marks("w1", *((at - 100, at) for at in range(1_000, 9_000, 1_000))),
        *_marks("w2", *((at - 200, at) for at in range(1_000, 4_000, 1_000))),
        *_marks("w2", (100, 4_000), outcome="time went back"),
    ],
    "cycles": _rows(
        "at_ms previous_lower lagging outcome reason",
        (2_500, None, [], "emitted", ""),
        (5_000, 800, [], "emitted", ""),
        (7_000, 2_800, ["w2"], "held", "waits for w2"),
        (8_000, 2_800, ["w2"], "held", "waits for w2"),
        controller="c0",
        participating=["w1"],
        removed=[],
    ),
    "watermarks": _rows(
        "seq lower upper cut writers emitted_ms revision",
        (0, 800, 900, {0: 10}, {"w1": 900, "w2": 800}, 2_500, 48),
        (1, 2_800, 3_900, {LEFT: 0, RIGHT: 0}, {"w1": 3_900, "w2": 2_800}, 5_000, 96),
        controller="c0",
    ),
    "positions": _rows(
        "version segment_id offset finished at_ms",
        (1, 0, 20, False, 2_600),
        (2, 0, 30, True, 5_500),
        (2, LEFT, 10, False, 5_500),
        (2, RIGHT, 0, False, 5_500),
        (3, RIGHT, 10, False, 6_500),
        group="g",
        reader="r0",
    ),
    "windows": _rows(
        "lower upper at_ms",
        (800, None, 2_600),
        (2_800, 3_900, 5_500),
        (2_800, 3_900, 6_500),
        group="g",
        reader="r0",
    ),
    "incidents": _rows(
        "at_ms kind subject target detail",
        (3_200, "crash", "writer", "w2", "w2 crashes"),
        (4_000, "scale", "segments", "0@0", "0@0 → 1@1, 2@1"),
        outcome="done",
    ),
    "ownership": [
        {"bucket": 0, "controller": "c0", "streams": ["orders"], "from_ms": 0, "to_ms": 3_000},
        {"bucket": 0, "controller": "c1", "streams": ["orders"], "from_ms": 4_500, "to_ms": None},
        {"bucket": 1, "controller": "c1", "streams": [], "from_ms": 0, "to_ms": None},
    ],
}
