"""The chart of the key space over time: segments as blocks, stream cuts as lines across them, where readers stood.

A cut names an offset in every segment it crosses. The chart puts it where the segment stood at that offset, that is
when the event that ends there was appended; so a cut is a line that crosses all keys once, and it lies left of the
moment at which it was emitted by as much as the watermark lagged.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from wmlab.core.charts.axis import Coordinate, Numbers, Tick, time_axis
from wmlab.core.charts.chart import Chart, columns_of, drawn_words, joined, one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Blocks, Box, Dots, Panel, Path, Rule, Scene
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words
from wmlab.streams.answers.cut_times import Front, Lengths, cut_sentences, group_offsets, segment_words
from wmlab.streams.answers.history import events_of
from wmlab.streams.model.segment import segment_name

_MOST_CUTS: Final = 8
_MOST_FRONTS: Final = 6
_QUARTERS: Final = tuple(Tick(quarter / 4, str(Fraction(quarter, 4))) for quarter in range(5))


def key_space(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw which keys each segment held and when, with stream cuts across them and the reader's positions.

    `stream` chooses one of several. Of many cuts and positions, 8 and 6 are drawn, evenly spread over the run. Raises
    `ChartError` if the recording has several streams and none is chosen, or no segments.
    """
    name = one_stream(recording, stream, "segments")
    segments = stream_rows(recording, "segments", name)
    marks = stream_rows(recording, "watermarks", name)
    positions = group_offsets(stream_rows(recording, "positions", name))
    chosen = [(row["emitted_ms"], dict(row["cut"])) for row in share_of(marks, _MOST_CUTS)]
    standing = share_of(positions, _MOST_FRONTS)
    lengths = Lengths(segments, [*chosen, *standing], events_of(recording, name, "segment_id", "offset", "append_ms"))
    times = [lengths.last_ms, *(row["emitted_ms"] for row in marks)]
    end_ms = max([*times, *(row["sealed_ms"] or row["created_ms"] for row in segments)])
    cuts, drawn = [lengths.front(*cut) for cut in chosen], [lengths.front(*position) for position in standing]
    sentence = cut_sentences(name, segments, len(marks), cuts, end_ms)
    fewer = drawn_words((_MOST_CUTS, len(marks), "cuts"), (_MOST_FRONTS, len(positions), "positions"))
    scene = Scene(
        title=title or f"Which segment held which keys of {name}, and where did the cuts pass?",
        subtitle=joined(sentence, fewer),
        across=time_axis("clock", [*(row["created_ms"] for row in segments), end_ms]),
        panels=[
            Panel(
                up=Numbers("key space", 0.0, 1.0, _QUARTERS),
                height=300.0,
                layers=[
                    _blocks(segments, end_ms),
                    _lines("stream cut of a watermark", "lower", cuts, segments),
                    _lines("position of the readers", "upper", drawn, segments),
                    _middles(drawn, segments),
                ],
            )
        ],
        rules=list(
            dict.fromkeys(  # the two epochs of a rolling transaction are one change
                Rule(row["at_ms"], row["kind"], "diamond")
                for row in stream_rows(recording, "epochs", name)
                if row["kind"] != "create"
            )
        ),
    )
    data = columns_of(segments, ("segment_id", "keys", "created_ms", "sealed_ms"))
    return Chart(sentence=sentence, data=data, scene=scene)


def _blocks(segments: Sequence[TableRow], end_ms: int) -> Blocks:
    boxes = []
    for row in segments:
        to_ms = end_ms if row["sealed_ms"] is None else row["sealed_ms"]
        name = segment_name(row["segment_id"])
        boxes.append(Box(row["created_ms"], to_ms, row["low"], row["high"], name, segment_words(row)))
    return Blocks(name="segment", role="unknown", boxes=boxes, opacity=0.22)


def _lines(name: str, role: str, fronts: Sequence[Front], segments: Sequence[TableRow]) -> Path:
    """One line for each front, up through the segments it crosses in the order of their keys."""
    xs: list[Coordinate | None] = []
    ys: list[Coordinate | None] = []
    by_keys = sorted((row["low"], row["high"], row["segment_id"]) for row in segments)
    for _, reached in fronts:
        for low, high, segment in by_keys:
            if segment in reached:
                xs += [reached[segment]] * 2
                ys += [low, high]
        xs.append(None)
        ys.append(None)
    return Path(name=name, role=role, xs=xs, ys=ys)


def _middles(fronts: Sequence[Front], segments: Sequence[TableRow]) -> Dots:
    middle = {row["segment_id"]: (row["low"] + row["high"]) / 2 for row in segments}
    points = [(*point, at_ms) for at_ms, reached in fronts for point in reached.items() if point[0] in middle]
    return Dots(
        name="position of the readers",
        role="upper",
        shape="triangle",
        xs=[at for _, at, _ in points],
        ys=[middle[segment] for segment, _, _ in points],
        hover=[
            f"published at {clock_words(at_ms)}: read what segment {segment_name(segment)} held then"
            for segment, _, at_ms in points
        ],
        legend=False,
    )
