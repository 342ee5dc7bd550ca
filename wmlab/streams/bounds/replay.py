"""Replay of recorded notes: the watermarks that other configurations would have produced, for many streams at once.

Spark brings the notes of a stream together, and one task runs the stream under all configurations, by the rule of
`wmlab.streams.model.replay`.

Source: as `wmlab.streams.model.replay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F

from wmlab.core.errors import ModelError
from wmlab.core.schemas import LONG, OFFSETS, TEXT
from wmlab.core.spark.schemas import require, spark_schema
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.marks import NoteOutcome
from wmlab.streams.model.replay import Configuration, received_of, replayed_watermarks
from wmlab.streams.model.segment import Segment

_HEARD: Final = ("stream", "writer", "time", "position", "received_ms")
_STREAM: Final = "string(stream) stream"
_WHOLE: Final = f"""if({" or ".join(f"{name} is null" for name in _HEARD)}, raise_error(
    'A writer mark lacks one of {", ".join(_HEARD)}. To repair it: leave out the rows that are null there.'), true)"""
_ANSWER: Final = pa.schema(
    [
        *((name, TEXT) for name in ("stream", "config")),
        *((name, LONG) for name in ("seq", "lower", "upper")),
        ("cut", OFFSETS),
        ("writers", pa.map_(TEXT, LONG)),
        ("emitted_ms", LONG),
    ]
)
_JUDGED: Final = [NoteOutcome.SUCCESS.value, NoteOutcome.INVALID_TIME.value, NoteOutcome.INVALID_POSITION.value]


def replay(
    marks: DataFrame,
    segments: DataFrame,
    configs: Mapping[str, Configuration | Mapping[str, Any]],
    *,
    shutdowns: DataFrame | None = None,
    until_ms: int | None = None,
) -> DataFrame:
    """The watermarks that each configuration would have produced from the same writer marks.

    `marks`, `segments` and `shutdowns` are the tables `writer_marks`, `segments` and `writer_shutdowns` of recordings,
    or logs with their columns; of any number of streams. Marks that the store refused are judged again; those that it
    never judged, by their `outcome`, are left out. The result has one row per stream, configuration and watermark:
    stream, config (its label), seq, lower, upper, cut, writers and emitted_ms, as in the table `watermarks`.

    Cycles run before `until_ms` (clock); by default the log of a stream ends with what was last received in it. One
    leader with an exact clock owns the bucket from the start and runs every cycle on time: faults of controllers and
    stores in the recorded run are not replayed. Writers do not react, either: they repeat the same notes as then. The
    order of notes within one ms is not recorded; it matters only to cuts that depend on the order of visits. The
    lengths of the segments are not known, so an end of known time has the cut of everything that the writers had
    acknowledged.

    A task runs one stream, and holds all its marks.

    `configs` maps labels to configurations, or to the fields that differ from the default. The function executes
    nothing. Raises `ModelError` for a missing column, or when there is no configuration, and `Problems` for an invalid
    one.
    """
    if not configs:
        raise ModelError("There is no configuration to replay.", remedy='Give one or more, as in {"10 s": {...}}.')
    require(marks, "marks", _HEARD)
    require(segments, "segments", ["stream", "segment_id", "keys", "created_ms"])
    from wmlab.streams.bounds.configurations import configurations  # which an executor does without

    checked = configurations(configs)

    def run(key: tuple[Any, ...], calls: pa.Table, ranges: pa.Table) -> pa.Table:
        """Run one stream under all configurations; runs on executors."""
        if not (calls.num_rows and ranges.num_rows):
            return _ANSWER.empty_table()
        history = StreamHistory.of(map(Segment.parse, ranges["segment_id"].to_pylist(), ranges["keys"].to_pylist()))
        columns = (calls[name].to_pylist() for name in ("received_ms", "writer", "time", "position"))
        received, created_ms = received_of(zip(*columns, strict=True)), pc.min(ranges["created_ms"]).as_py()
        end_ms = received[-1].received_ms + 1 if until_ms is None else until_ms
        rows = [
            {
                "stream": key[0].as_py(),
                "config": label,
                "seq": seq,
                "lower": watermark.lower,
                "upper": watermark.upper,
                "cut": list(watermark.cut.items()),
                "writers": list(watermark.writers.items()),
                "emitted_ms": at_ms,
            }
            for label, config in checked.items()
            for seq, (at_ms, watermark) in enumerate(
                replayed_watermarks(received, history, config, created_ms=created_ms, until_ms=end_ms)
            )
        ]
        return pa.Table.from_pylist(rows, schema=_ANSWER)

    by_stream = segments.selectExpr(_STREAM, "segment_id", "keys", "created_ms").groupBy("stream")
    return judged_calls(marks, shutdowns).groupBy("stream").cogroup(by_stream).applyInArrow(run, spark_schema(_ANSWER))


def judged_calls(marks: DataFrame, shutdowns: DataFrame | None) -> DataFrame:
    """What the store judged: marks, and shutdowns, which have no time. A mark that lacks one fails when it is read."""
    if "outcome" in marks.columns:
        marks = marks.where(F.col("outcome").isin(_JUDGED))
    notes = marks.selectExpr(_STREAM, *_HEARD[1:]).where(_WHOLE)
    if shutdowns is None:
        return notes
    require(shutdowns, "shutdowns", ["stream", "writer", "received_ms"])
    if "outcome" in shutdowns.columns:
        shutdowns = shutdowns.where("outcome in ('ok', 'unknown writer')")
    return notes.unionByName(shutdowns.selectExpr(_STREAM, "writer", "received_ms"), allowMissingColumns=True)
