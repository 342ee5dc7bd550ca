"""The chart of bucket ownership: which controller ran which bucket of streams, and when nobody did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wmlab.core.charts.axis import format_duration, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import SERIES, SHAPES, when
from wmlab.core.charts.scene import Blocks, Box, Rule, Scene, lanes
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording


def bucket_ownership(recording: Recording, *, title: str | None = None) -> Chart:
    """Draw who owned each bucket of streams over time, by the word of the coordination service.

    A bucket without an owner runs no cycle, so the bounds of its streams stand still. Raises `ChartError` if one
    controller owned everything all the time, which is not recorded.
    """
    rows = sorted(recording.table("ownership").to_pylist(), key=lambda row: (row["bucket"], row["from_ms"]))
    if not rows:
        raise ChartError(
            f"Recording {recording.name!r} has no ownership of buckets: one controller ran everything.",
            remedy="Record a scenario with several controllers or buckets.",
        )
    end_ms = _end_ms(recording, rows)
    buckets = sorted({row["bucket"] for row in rows})
    controllers = sorted({row["controller"] for row in rows})
    orphaned = [stretch for bucket in buckets for stretch in _gaps(rows, bucket, end_ms)]
    sentence = _sentence(buckets, controllers, orphaned)
    layers = [
        _blocks(controller, SERIES[place] if place < len(SERIES) else "unknown", rows, buckets, end_ms)
        for place, controller in enumerate(controllers)
    ]
    layers.append(_nobody(orphaned, buckets))
    scene = Scene(
        title=title or "Who owned which bucket of streams?",
        subtitle=sentence,
        across=time_axis("clock", [min(row["from_ms"] for row in rows), end_ms]),
        panels=[lanes([_lane(bucket, rows) for bucket in buckets], layers)],
        rules=_crashes(recording, controllers),
    )
    columns = ("bucket", "controller", "streams", "from_ms", "to_ms")
    data = {column: [row[column] for row in rows] for column in columns}
    return Chart(sentence=sentence, data=data, scene=scene)


def _end_ms(recording: Recording, rows: Sequence[Mapping[str, Any]]) -> int:
    cycles = recording.table("cycles")["at_ms"].to_pylist()
    found: list[int] = [*cycles, *(row["to_ms"] or row["from_ms"] for row in rows)]
    return max(found)


def _lane(bucket: int, rows: Sequence[Mapping[str, Any]]) -> str:
    streams = next(row["streams"] for row in rows if row["bucket"] == bucket)
    shown = ", ".join(streams[:2]) + (", …" if len(streams) > 2 else "")
    return f"bucket {bucket}: {shown or 'no stream'}"


def _gaps(rows: Sequence[Mapping[str, Any]], bucket: int, end_ms: int) -> list[tuple[int, int, int]]:
    """The stretches (bucket, from, to) in which nobody owned it."""
    found, free_from = [], None
    for row in rows:
        if row["bucket"] == bucket:
            if free_from is not None and row["from_ms"] > free_from:
                found.append((bucket, free_from, row["from_ms"]))
            free_from = row["to_ms"]
    return [*found, (bucket, free_from, end_ms)] if free_from is not None and free_from < end_ms else found


def _blocks(
    controller: str, role: str, rows: Sequence[Mapping[str, Any]], buckets: Sequence[int], end_ms: int
) -> Blocks:
    boxes = []
    for row in rows:
        if row["controller"] == controller:
            to_ms = end_ms if row["to_ms"] is None else row["to_ms"]
            lane = buckets.index(row["bucket"])
            told = f"bucket {row['bucket']}: {controller} from {row['from_ms']:,} to {to_ms:,} ms"
            boxes.append(Box(row["from_ms"], to_ms, lane - 0.36, lane + 0.36, controller, told))
    return Blocks(name=controller, role=role, boxes=boxes)


def _nobody(orphaned: Sequence[tuple[int, int, int]], buckets: Sequence[int]) -> Blocks:
    boxes = [
        Box(begin, end, buckets.index(bucket) - 0.1, buckets.index(bucket) + 0.1, "", f"bucket {bucket}: no owner")
        for bucket, begin, end in orphaned
    ]
    return Blocks(name="no owner", role="alarm", boxes=boxes, opacity=0.5)


def _crashes(recording: Recording, controllers: Sequence[str]) -> list[Rule]:
    seen = {}
    for row in recording.table("incidents").to_pylist():
        if row["target"] in controllers:
            seen[(row["at_ms"], row["detail"])] = Rule(row["at_ms"], row["detail"], SHAPES.get(row["kind"], "circle"))
    return [seen[place] for place in sorted(seen)]


def _sentence(buckets: Sequence[int], controllers: Sequence[str], orphaned: Sequence[tuple[int, int, int]]) -> str:
    text = f"{len(controllers)} controllers owned {len(buckets)} buckets"
    if not orphaned:
        return f"{text}; every bucket had an owner all the time."
    bucket, begin, end = max(orphaned, key=lambda stretch: stretch[2] - stretch[1])
    return f"{text}; bucket {bucket} had no owner for {format_duration(end - begin)} from {when(begin, span_ms=end)}."
