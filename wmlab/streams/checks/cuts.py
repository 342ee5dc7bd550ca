"""Invariants of stream cuts: I3 (never back), I4 (at or beyond every counted writer), I5 (complete and passable).

Cuts are compared at every key, on exact ranges, by the functions of `wmlab.streams.model`. That is done once per stream
on an executor: watermarks are few where events are many.

Source: PDP-33, Watermark Computation; upstream class `WatermarkWorkflow`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from wmlab.core.errors import ModelError
from wmlab.core.spark.findings import FINDINGS
from wmlab.streams.checks.counted import with_counted
from wmlab.streams.checks.lineage import END, Lineage, Row, evidence, named

Kernel = Callable[[list[Row], Lineage], Iterable[Row]]
"""Judges the watermarks of one stream, given in the order of the log."""

_ARROW: Final = pa.schema(
    [
        ("stream", pa.string()),
        ("at_ms", pa.int64()),
        ("ok", pa.bool_()),
        ("judged", pa.int64()),
        ("what", pa.string()),
        ("evidence", pa.list_(pa.field("element", pa.struct([("table", pa.string()), ("row", pa.string())])))),
    ]
)


def cut_never_moves_back(watermarks: DataFrame, segments: DataFrame, epochs: DataFrame) -> DataFrame:
    """I3: at no key does a cut lie behind the cut before it; one finding per pair of neighbouring entries.

    Takes the recording's tables. Returns `FINDINGS`; not judged are cuts that name unknown segments.
    """
    return _judged(watermarks, segments, epochs, _backwards)


def cut_beyond_writers(
    watermarks: DataFrame, marks: DataFrame, cycles: DataFrame, segments: DataFrame, epochs: DataFrame
) -> DataFrame:
    """I4: the cut is at or beyond the position of every counted writer, at every key; one finding per entry.

    A counted writer's position is that of its accepted mark with the counted time: the last one that the cycle can
    have read, and any that arrived between cycle and append. Takes the recording's tables. Returns `FINDINGS`; not
    judged are entries without such a mark.
    """
    return _judged(with_counted(watermarks, marks, cycles), segments, epochs, _behind_writers)


def cut_complete(watermarks: DataFrame, segments: DataFrame, epochs: DataFrame) -> DataFrame:
    """I5: the cut covers the key space once, and no segment of it waits for one that it has not passed.

    One finding per entry. Takes the recording's tables. Returns `FINDINGS`; nothing is judged when the epochs are not
    a history.
    """
    return _judged(watermarks, segments, epochs, _incomplete)


def _judged(watermarks: DataFrame, segments: DataFrame, epochs: DataFrame, kernel: Kernel) -> DataFrame:
    """The kernel's findings, stream by stream."""

    def judge(log: pa.Table, lineage: pa.Table) -> pa.Table:
        rows = sorted(log.to_pylist(maps_as_pydicts="strict"), key=lambda row: (row["seq"], row["revision"]))
        found = [_FILLED | row for row in kernel(rows, Lineage.of(lineage.to_pylist()))]
        return pa.Table.from_pylist(found, schema=_ARROW)

    named_rows = segments.select("stream", "segment_id", "keys")
    listed = epochs.select("stream", "epoch", "kind", "segment_ids")
    lineage = named_rows.unionByName(listed, allowMissingColumns=True)
    return watermarks.groupBy("stream").cogroup(lineage.groupBy("stream")).applyInArrow(judge, FINDINGS)


_FILLED: Final[Row] = {"at_ms": None, "ok": None, "judged": 0, "what": None, "evidence": None}


def _backwards(log: list[Row], lineage: Lineage) -> Iterator[Row]:
    for before, entry in pairwise(log):
        if complaint := _unknown(lineage, before) or _unknown(lineage, entry):
            yield {"stream": entry["stream"], "what": complaint}
            continue
        reached = {segment: END if offset is None else offset for segment, offset in before["cut"].items()}
        back = lineage.behind(reached, entry["cut"])
        finding = {"stream": entry["stream"], "at_ms": entry["emitted_ms"], "ok": back is None, "judged": 1}
        if back is not None:
            places = f"from {named(back.segment, back.offset)} to {named(back.cut_segment, back.cut_offset)}"
            rows = [
                _cut_row(before, {back.segment: before["cut"][back.segment]}),
                _cut_row(entry, {back.cut_segment: back.cut_offset}),
                *lineage.rows(entry["stream"], (back.segment, back.cut_segment)),
            ]
            finding |= {"what": f"the cut of watermark {entry['seq']} moves back, {places}", "evidence": rows}
        yield finding


def _behind_writers(log: list[Row], lineage: Lineage) -> Iterator[Row]:
    for entry in log:
        yield {"stream": entry["stream"]} | _behind_writer(entry, lineage)


def _behind_writer(entry: Row, lineage: Lineage) -> Row:
    if complaint := _unknown(lineage, entry):
        return {"what": complaint}
    judged = 0
    for writer in sorted(entry["writers"]):
        marks = [m for m in entry["counted"] or () if m["writer"] == writer and m["position"] is not None]
        behind = [(mark, lineage.behind(dict(mark["position"]), entry["cut"])) for mark in marks]
        judged += bool(behind)
        if not behind or any(back is None for _, back in behind):
            continue
        mark, back = behind[-1]
        assert back is not None
        stands = named(back.segment, back.offset, unknown="its start")
        places = f"{named(back.cut_segment, back.cut_offset)}, the writer in {stands}"
        noted = {"stream": entry["stream"], "writer": writer, "time": mark["time"], "received_ms": mark["received_ms"]}
        rows = [
            _cut_row(entry, {back.cut_segment: back.cut_offset}, writers={writer: entry["writers"][writer]}),
            evidence("writer_marks", **noted, position={back.segment: back.offset}),
            *lineage.rows(entry["stream"], (back.segment, back.cut_segment)),
        ]
        what = f"the cut of watermark {entry['seq']} is behind writer {writer}: {places}"
        return {"at_ms": entry["emitted_ms"], "ok": False, "judged": judged, "what": what, "evidence": rows}
    if not judged:
        return {"what": f"no accepted mark of the writers that watermark {entry['seq']} counted is recorded"}
    return {"at_ms": entry["emitted_ms"], "ok": True, "judged": judged}


def _incomplete(log: list[Row], lineage: Lineage) -> Iterator[Row]:
    for entry in log:
        try:
            fault = lineage.fault(entry["cut"])
        except ModelError as wrong:
            yield {"stream": entry["stream"], "what": f"segments and epochs are no history: {wrong.problem}"}
            continue
        finding = {"stream": entry["stream"], "at_ms": entry["emitted_ms"], "ok": fault is None, "judged": 1}
        if fault is not None:
            rows = [_cut_row(entry, entry["cut"]), *lineage.rows(entry["stream"], fault.segments)]
            finding |= {"what": f"the cut of watermark {entry['seq']} {fault.what}", "evidence": rows}
        yield finding


def _unknown(lineage: Lineage, entry: Row) -> str:
    strangers = lineage.unknown(entry["cut"])
    return (
        f"watermark {entry['seq']} names {named(strangers[0], entry['cut'][strangers[0]])}, which is no segment"
        if strangers
        else ""
    )


def _cut_row(entry: Row, cut: Mapping[int, int | None], **more: object) -> Row:
    return evidence(
        "watermarks", stream=entry["stream"], seq=entry["seq"], cut=cut, **more, emitted_ms=entry["emitted_ms"]
    )
