"""Charts of the key space: over time with its segments and cuts, and how one stream cut of a watermark came about.

A cut names an offset in every segment it crosses. Over time it is drawn where the segment had that offset, that is when
the event that ends there was appended; so a cut is a line that crosses all keys once. It is left of the moment at which
it was emitted by as much as the watermark lagged. The steps to one cut are those that the run's own algorithm takes
(`model.cut.stream_cut`), on what the recorded watermark counted.

Source: PDP-33, Stream Cuts and Watermark Computation, `computeGreatestUpperBound` and `computeStreamCut`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

from wmlab.core.arguments import the_moment
from wmlab.core.charts.axis import Coordinate, Numbers, Tick, time_axis
from wmlab.core.charts.chart import (
    Chart,
    chart_of,
    columns,
    columns_of,
    drawn_words,
    one_stream,
    share_of,
    stream_rows,
)
from wmlab.core.charts.scene import Blocks, Box, Dots, Layer, Panel, Path, Rule, dots, lanes
from wmlab.core.errors import ChartError
from wmlab.core.facts import Head
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words
from wmlab.streams.answers.head_labels import asked
from wmlab.streams.answers.history import events_of
from wmlab.streams.answers.stream_cut import (
    Front,
    GroupOffsets,
    Lengths,
    cut_at,
    group_offsets,
    key_space_head,
    offset_words,
    segment_words,
)
from wmlab.streams.model.cut import CutStep
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import KeyRange, segment_name

_WHOLE: Final = 1_000_000
"""The key space in units of the axis, which are whole numbers."""
_MOST_WRITERS: Final = 8
_NEAREST: Final = Fraction(1, 25)
"""How near to each other two bounds of segments may be of which both are written at the axis."""
_LANE, _FLOOR = 46.0, 27.0
"""Height of a lane, and of one floor in it, at least; lower ones have no room for their labels."""
_FILLED: Final = 0.84
"""The share of its lane that a box takes."""
_NAMES: Final = {"upper bound": "furthest position", "previous cut": "with the cut before", "reader": "passable"}
"""The lane of a step by its reason; a step that fills gaps is numbered, and the last one is the stream cut."""


@dataclass(frozen=True, slots=True)
class _Lane:
    """A row of the chart: segments with offsets, and the ranges without a segment."""

    name: str
    role: str
    offsets: Mapping[int, int | None]
    missing: Sequence[KeyRange] = ()


def stream_cut(
    recording: Recording, *, at_ms: int | str | None = None, stream: str | None = None, title: str | None = None
) -> Chart:
    """Draw how the stream cut of a watermark was computed, over the key space, in the order of the steps.

    From top to bottom: the position of each counted writer, the previous cut if the algorithm uses it, the upper bound
    of these with its missing key ranges, and each completion up to the cut. `at_ms` chooses the watermark: the newest
    one at that moment; None: the last one of the run. At most 8 writers are drawn. Raises `ChartError` if there are
    several streams and none is chosen, no watermark with a cut of writers then, or if its cut does not follow from the
    recorded positions by the rules of the recorded scenario.
    """
    name = one_stream(recording, stream, "watermarks")
    at_ms = None if at_ms is None else the_moment(at_ms, ChartError, start_ms=recording.start_ms)
    cut = cut_at(recording, name, at_ms)
    return draw_cut(
        cut.positions,
        cut.before,
        cut.steps,
        cut.history,
        title=title or asked("cut", stream=name, moment=clock_words(cut.watermark["emitted_ms"])),
        head=cut.head,
    )


def draw_cut(
    positions: Mapping[str, Position],
    before: Mapping[int, int | None],
    steps: Sequence[CutStep],
    history: StreamHistory,
    *,
    title: str,
    head: Head,
) -> Chart:
    """Draw the steps to a cut: the `positions` by writer, the cut `before` (empty: it does not enter), and each step.

    `steps` are those of `model.cut.stream_cut`; of many writers 8 are drawn.
    """
    rows = _lanes(positions, before, steps, history)
    floors = max(max(_floors(row.offsets, history).values(), default=0) + 1 for row in rows)
    table = [
        (row.name, segment_name(segment), history.segments[segment].keys.text, offset)
        for row in rows
        for segment, offset in row.offsets.items()
    ]
    return chart_of(
        head.headline,
        columns(table, "step", "segment", "keys", "offset"),
        facts=head.facts,
        title=title,
        note=drawn_words((_MOST_WRITERS, len(positions), "writers")),
        across=Numbers("key", 0, _WHOLE, _ticks(history, rows)),
        panels=[
            lanes([row.name for row in rows], _layers(rows, history), height=max(_LANE, floors * _FLOOR / _FILLED))
        ],
    )


def _lanes(
    positions: Mapping[str, Position],
    before: Mapping[int, int | None],
    steps: Sequence[CutStep],
    history: StreamHistory,
) -> list[_Lane]:
    rows = [_Lane(f"{writer} noted", "third", at) for writer, at in list(positions.items())[:_MOST_WRITERS]]
    if before:
        rows.append(_Lane("the cut before", "perfect", before))
    for number, step in enumerate(steps):
        rows.append(_Lane(step_name(steps, number), "lower", step.offsets, history.gaps(step.offsets)))
    if len(steps) == 1:
        rows.append(_Lane("stream cut", "lower", steps[0].offsets))
    return rows


def step_name(steps: Sequence[CutStep], number: int) -> str:
    """What a step to a cut is called, by its number from 0."""
    if number and number == len(steps) - 1:
        return "stream cut"
    return _NAMES.get(steps[number].reason, f"completion {number}")


def _layers(rows: Sequence[_Lane], history: StreamHistory) -> list[Layer]:
    """The boxes of each meaning; segments of one lane that overlap stand above each other."""
    boxes: dict[tuple[str, str], list[Box]] = {}
    for lane, row in enumerate(rows):
        meaning = {"third": "position of a writer", "perfect": "the cut before"}.get(
            row.role, "furthest position and cut"
        )
        floors = _floors(row.offsets, history)
        height = _FILLED / (max(floors.values(), default=0) + 1)
        for segment, floor in floors.items():
            keys, label = history.segments[segment].keys, offset_words(segment, row.offsets[segment])
            top = lane - _FILLED / 2 + floor * height
            offset = row.offsets[segment]
            at = "without an offset" if offset is None else f"offset {offset}"
            words = f"{row.name}: segment {segment_name(segment)}, keys {keys.text}, {at}"
            boxes.setdefault((meaning, row.role), []).append(_box(keys, top, top + height - 0.03, label, words))
        for keys in row.missing:
            words = f"{row.name}: no segment for the keys {keys.text}"
            box = _box(keys, lane - _FILLED / 2, lane + 0.39, f"missing {keys.text}", words)
            boxes.setdefault(("missing range", "alarm"), []).append(box)
    return [Blocks(name=name, role=role, boxes=made, opacity=0.16) for (name, role), made in boxes.items()]


def _box(keys: KeyRange, top: float, bottom: float, label: str, words: str) -> Box:
    return Box(round(keys.low * _WHOLE), round(keys.high * _WHOLE), top, bottom, label, words)


def _floors(offsets: Iterable[int], history: StreamHistory) -> dict[int, int]:
    """Each segment with its floor in the lane, the lowest one that no segment with a common key has."""
    floors: dict[int, int] = {}
    for segment in sorted(offsets):
        keys = history.segments[segment].keys
        taken = {floor for other, floor in floors.items() if history.segments[other].keys.overlaps(keys)}
        floors[segment] = min({*range(len(taken) + 1)} - taken)
    return floors


def _ticks(history: StreamHistory, rows: Sequence[_Lane]) -> tuple[Tick, ...]:
    """The bounds of the drawn segments, but for those that have no room."""
    ranges = [history.segments[segment].keys for row in rows for segment in row.offsets]
    shown = [Fraction(0)]
    for bound in sorted({bound for keys in ranges for bound in (keys.low, keys.high)} - {0, 1}):
        if bound - shown[-1] >= _NEAREST and 1 - bound >= _NEAREST:
            shown.append(bound)
    return tuple(
        Tick(round(bound * _WHOLE), str(bound) if bound.denominator <= 100 else f"{float(bound):.3f}")
        for bound in [*shown, Fraction(1)]
    )


_MOST_CUTS: Final = 8
_MOST_FRONTS: Final = 6
_SEEN: Final = 0.01
"""For which share of the run a segment is open next to its successors, at least, where that is drawn."""
_QUARTERS: Final = tuple(Tick(quarter / 4, str(Fraction(quarter, 4))) for quarter in range(5))


def key_space(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw which keys each segment had and when, with stream cuts across them and the reader's positions.

    `stream` chooses one of several. At most 8 cuts and 6 positions are drawn, evenly spread over the run, including
    the first cuts of new segments. A segment that is open while its successors are is drawn above them. Raises
    `ChartError` if the recording has several streams and none is chosen, or no segments.
    """
    name = one_stream(recording, stream, "segments")
    segments = stream_rows(recording, "segments", name)
    marks = stream_rows(recording, "watermarks", name)
    positions = group_offsets(stream_rows(recording, "positions", name))
    chosen = _some_cuts([(row["emitted_ms"], dict(row["cut"])) for row in marks])
    standing = share_of(positions, _MOST_FRONTS)
    lengths = Lengths(segments, [*chosen, *standing], events_of(recording, name, "segment_id", "offset", "append_ms"))
    times = [lengths.last_ms, *(row["emitted_ms"] for row in marks)]
    end_ms = max([*times, *(row["sealed_ms"] or row["created_ms"] for row in segments)])
    cuts, drawn = [lengths.front(*cut) for cut in chosen], [lengths.front(*position) for position in standing]
    head = key_space_head(segments, len(marks))
    fewer = drawn_words((_MOST_CUTS, len(marks), "cuts"), (_MOST_FRONTS, len(positions), "positions"))
    return chart_of(
        head.headline,
        columns_of(segments, ("segment_id", "keys", "created_ms", "sealed_ms")),
        facts=head.facts,
        title=title or asked("key space", stream=name),
        note=fewer,
        across=time_axis("clock", [*(row["created_ms"] for row in segments), end_ms]),
        panels=[
            Panel(
                up=Numbers("key space", 0.0, 1.0, _QUARTERS),
                height=300.0,
                layers=[
                    *_blocks(segments, [*cuts, *drawn], end_ms),
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


def _some_cuts(cuts: Sequence[GroupOffsets]) -> list[GroupOffsets]:
    """Eight of the cuts: up to half of them are the first of other segments than before, the rest evenly spread."""
    changes = [after for before, after in pairwise(cuts) if before[1].keys() != after[1].keys()]
    firsts = share_of(changes, _MOST_CUTS // 2)
    others = share_of([cut for cut in cuts if cut not in firsts], _MOST_CUTS - len(firsts))
    return sorted([*firsts, *others], key=lambda cut: cut[0])


def _blocks(segments: Sequence[TableRow], fronts: Sequence[Front], end_ms: int) -> list[Blocks]:
    """The segments, then those that are open next to their successors, and the names where no line is drawn."""
    spans = {row["segment_id"]: _spans(row, segments, end_ms) for row in segments}
    alone, shared, names = list[Box](), list[Box](), list[Box]()
    for row in segments:
        keys, words, name = (row["low"], row["high"]), segment_words(row), f"\u2002{segment_name(row['segment_id'])}"
        middle = [other["segment_id"] for other in segments if other["low"] <= sum(keys) / 2 < other["high"]]
        lines = [reached[other] for _, reached in fronts for other in middle if other in reached]
        covered = [span for other in middle if other != row["segment_id"] for span in spans[other][1:]]
        first, *rest = spans[row["segment_id"]]
        alone.append(Box(*first, *keys, "", words))
        names.append(Box(*_widest(first, lines, covered), *keys, name, words))
        for span in rest:
            shared.append(Box(*span, *keys, "", words))
            names.append(Box(*_widest(span, lines, []), *keys, f"{name} open", words))
    return [
        Blocks(name="segment", role="unknown", boxes=alone, opacity=0.22),
        Blocks(name="segment open next to its successors", role="fourth", boxes=shared, opacity=0.22),
        Blocks(name="names", role="unknown", boxes=names, opacity=0.0, outlined=False, legend=False),
    ]


def _spans(row: TableRow, segments: Sequence[TableRow], end_ms: int) -> list[tuple[int, int]]:
    """From when to when a segment was open alone and, if that can be seen, next to successors that were created."""
    begin, end = row["created_ms"], end_ms if row["sealed_ms"] is None else row["sealed_ms"]
    created = [other["created_ms"] for other in segments if other["low"] < row["high"] and row["low"] < other["high"]]
    run_ms = end_ms - min(other["created_ms"] for other in segments)
    first = min((at_ms for at_ms in created if begin < at_ms < end), default=end)
    return [(begin, first), (first, end)] if end - first > _SEEN * run_ms else [(begin, end)]


def _widest(span: tuple[int, int], lines: Sequence[int], covered: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The longest stretch of a span that no line crosses and nothing covers; the span if there is none."""
    limits = {*span, *lines, *(limit for each in covered for limit in each)}
    gaps = pairwise(sorted(limit for limit in limits if span[0] <= limit <= span[1]))
    free = [gap for gap in gaps if not any(begin <= gap[0] and gap[1] <= end for begin, end in covered)]
    return max(free, key=lambda gap: gap[1] - gap[0], default=span)


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
    points = (
        (at, middle[segment], f"published at {clock_words(at_ms)}: read what segment {segment_name(segment)} held then")
        for at_ms, reached in fronts
        for segment, at in reached.items()
        if segment in middle
    )
    return dots("position of the readers", "upper", "triangle", points, legend=False)
