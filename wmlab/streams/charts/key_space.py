"""The chart of the key space over time: segments as blocks, stream cuts as lines across them, where readers stood.

A cut names an offset in every segment it crosses. The chart puts it where the segment stood at that offset, that is
when the event that ends there was appended; so a cut is a line that crosses all keys once, and it lies left of the
moment at which it was emitted by as much as the watermark lagged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wmlab.core.charts.axis import Share, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Blocks, Box, Dots, Panel, Path, Rule, Scene
from wmlab.core.recording import Recording
from wmlab.core.words import segment_name
from wmlab.streams.answers.history import group_positions

_MOST_CUTS: Final = 8
_MOST_FRONTS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Front:
    """A place in every segment that it crosses, as the clock time at which the segment stood there."""

    at_ms: int
    places: dict[int, int]


def key_space(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw which keys each segment held and when, with stream cuts across them and the reader's positions.

    `stream` chooses one of several. Of many cuts and positions, 8 and 6 are drawn, evenly spread over the run. Raises
    `ChartError` if the recording has several streams and none is chosen, or no segments.
    """
    name = one_stream(recording, stream, "segments")
    segments = stream_rows(recording, "segments", name)
    end_ms = _end_ms(recording, name, segments)
    times = _append_times(recording, name)
    created = {row["segment_id"]: row["created_ms"] for row in segments}
    cuts = [
        _front(row["emitted_ms"], dict(row["cut"]), times, created)
        for row in stream_rows(recording, "watermarks", name)
    ]
    fronts = _reader_fronts(recording, name, times, created)
    sentence = _sentence(name, segments, len(cuts), cuts[-1] if cuts else None, end_ms)
    heading = title or f"Which segment held which keys of {name}, and where did the cuts pass?"
    scene = Scene(
        title=heading,
        subtitle=sentence,
        across=time_axis("clock", [*(row["created_ms"] for row in segments), end_ms]),
        panels=[
            Panel(
                up=Share("key space"),
                height=300.0,
                layers=[
                    _blocks(segments, end_ms),
                    _lines("stream cut of a watermark", "lower", share_of(cuts, _MOST_CUTS), segments),
                    _lines("position of the readers", "upper", share_of(fronts, _MOST_FRONTS), segments),
                    _middles(share_of(fronts, _MOST_FRONTS), segments),
                ],
            )
        ],
        rules=[
            Rule(row["at_ms"], row["kind"], "diamond")
            for row in stream_rows(recording, "epochs", name)
            if row["kind"] != "create"
        ],
    )
    data = {column: [row[column] for row in segments] for column in ("segment_id", "keys", "created_ms", "sealed_ms")}
    return Chart(sentence=sentence, data=data, scene=scene)


def _end_ms(recording: Recording, name: str, segments: Sequence[Mapping[str, Any]]) -> int:
    appended = [row["append_ms"] for row in stream_rows(recording, "events", name, ("append_ms",))]
    marks = [row["emitted_ms"] for row in stream_rows(recording, "watermarks", name, ("emitted_ms",))]
    found: list[int] = [*appended, *marks, *(row["sealed_ms"] or row["created_ms"] for row in segments)]
    return max(found)


def _append_times(recording: Recording, name: str) -> dict[int, tuple[list[int], list[int]]]:
    """Of each segment the ends of its events, ascending, and when each was appended."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    rows = stream_rows(recording, "events", name, ("segment_id", "offset", "append_ms"))
    for row in sorted(rows, key=lambda row: (row["segment_id"], row["offset"])):
        offsets, appended = found.setdefault(row["segment_id"], ([], []))
        offsets.append(row["offset"])
        appended.append(row["append_ms"])
    return found


def _front(
    at_ms: int,
    offsets: Mapping[int, int | None],
    times: Mapping[int, tuple[list[int], list[int]]],
    created: Mapping[int, int],
) -> _Front:
    places = {}
    for segment_id, offset in offsets.items():
        ends, appended = times.get(segment_id, ([], []))
        before = bisect_right(ends, offset) if offset is not None else 0
        places[segment_id] = appended[before - 1] if before else created.get(segment_id, at_ms)
    return _Front(at_ms=at_ms, places=places)


def _reader_fronts(
    recording: Recording, name: str, times: Mapping[int, tuple[list[int], list[int]]], created: Mapping[int, int]
) -> list[_Front]:
    """Where the groups stood after each of their updates."""
    rows = stream_rows(recording, "positions", name)
    fronts = []
    for group in sorted({row["group"] for row in rows}):
        for at_ms, state in group_positions([row for row in rows if row["group"] == group]):
            offsets = {segment_id: row["offset"] for segment_id, row in state.items()}
            fronts.append(_front(at_ms, offsets, times, created))
    return sorted(fronts, key=lambda front: front.at_ms)


def _blocks(segments: Sequence[Mapping[str, Any]], end_ms: int) -> Blocks:
    boxes = []
    for row in segments:
        until = "open" if row["sealed_ms"] is None else f"sealed at {row['sealed_ms']:,} ms"
        told = f"segment {segment_name(row['segment_id'])}, keys {row['keys']}, from {row['created_ms']:,} ms, {until}"
        sealed_ms = end_ms if row["sealed_ms"] is None else row["sealed_ms"]
        box = (row["created_ms"], sealed_ms, row["low"], row["high"], segment_name(row["segment_id"]), told)
        boxes.append(Box(*box))
    return Blocks(name="segment", role="unknown", boxes=boxes, opacity=0.22)


def _lines(name: str, role: str, fronts: Sequence[_Front], segments: Sequence[Mapping[str, Any]]) -> Path:
    """One line for each front, up through the segments it crosses in the order of their keys."""
    xs: list[int | float | None] = []
    ys: list[int | float | None] = []
    for front in fronts:
        crossed = sorted((row["low"], row["high"], row["segment_id"]) for row in segments)
        for low, high, segment_id in crossed:
            if segment_id in front.places:
                xs += [front.places[segment_id]] * 2
                ys += [low, high]
        xs.append(None)
        ys.append(None)
    return Path(name=name, role=role, xs=xs, ys=ys)


def _middles(fronts: Sequence[_Front], segments: Sequence[Mapping[str, Any]]) -> Dots:
    middle = {row["segment_id"]: (row["low"] + row["high"]) / 2 for row in segments}
    placed = [(front, segment_id, at) for front in fronts for segment_id, at in front.places.items()]
    placed = [entry for entry in placed if entry[1] in middle]
    return Dots(
        name="position of the readers",
        role="upper",
        shape="triangle",
        xs=[at for _, _, at in placed],
        ys=[middle[segment_id] for _, segment_id, _ in placed],
        told=[
            f"published at {front.at_ms:,} ms: read what segment {segment_name(s)} held then" for front, s, _ in placed
        ],
        legend=False,
    )


def _sentence(name: str, segments: Sequence[Mapping[str, Any]], cuts: int, last: _Front | None, end_ms: int) -> str:
    still_open = sum(row["sealed_ms"] is None for row in segments)
    text = f"Stream {name} had {len(segments)} segments, {still_open} of them open at the end"
    if last is None:
        return f"{text}; no watermark was emitted, so there is no cut."
    behind = end_ms - min(last.places.values(), default=end_ms)
    return f"{text}; {cuts} cuts were emitted, and the last one stood {behind:,} ms of writing behind the end."
