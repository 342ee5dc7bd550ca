"""The chart of one stream cut over the key space: the writers' positions, the furthest one, what it misses, the cut.

The steps are those that the run's own algorithm takes (`model.cut.stream_cut`), on what the recorded watermark counted.

Source: PDP-33, Watermark Computation, `computeGreatestUpperBound` and `computeStreamCut`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from wmlab.core.arguments import the_moment
from wmlab.core.charts.axis import Numbers, Tick
from wmlab.core.charts.chart import Chart, columns, drawn_words, joined, one_stream
from wmlab.core.charts.scene import Blocks, Box, Layer, Scene, lanes
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words
from wmlab.streams.answers.stream_cut import cut_at, offset_words
from wmlab.streams.model.cut import CutStep
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import KeyRange, segment_name

_WHOLE: Final = 1_000_000
"""The key space in units of the axis, which are whole numbers."""
_MOST_WRITERS: Final = 8
_NEAREST: Final = Fraction(1, 25)
"""How near to each other two bounds of segments may be of which both are written at the axis."""
_LANE: Final = 46.0
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
    """Draw how the stream cut of a watermark came about, over the key space, in the order of the computation.

    From top to bottom: where each counted writer stood, the cut before where the algorithm uses it, the upper bound of
    these with the key ranges that it misses, and each completion up to the cut. `at_ms` chooses the watermark: the
    newest one at that moment; None: the last one of the run. Of many writers 8 are drawn. Raises `ChartError` if there
    are several streams and none is chosen, no watermark with a cut of writers then, or if its cut does not follow from
    the recorded positions by the rules of the recorded scenario.
    """
    name = one_stream(recording, stream, "watermarks")
    at_ms = None if at_ms is None else the_moment(at_ms, ChartError, start_ms=recording.start_ms)
    cut = cut_at(recording, name, at_ms)
    emitted = clock_words(cut.watermark["emitted_ms"])
    return draw_cut(
        cut.positions,
        cut.before,
        cut.steps,
        cut.history,
        title=title or f"How did the stream cut of {name} at {emitted} come about?",
        sentence=cut.sentences(name),
    )


def draw_cut(
    positions: Mapping[str, Position],
    before: Mapping[int, int | None],
    steps: Sequence[CutStep],
    history: StreamHistory,
    *,
    title: str,
    sentence: str,
) -> Chart:
    """Draw the steps to a cut: the `positions` by writer, the cut `before` (empty: it does not enter), and each step.

    `steps` are those of `model.cut.stream_cut`; of many writers 8 are drawn.
    """
    rows = _lanes(positions, before, steps, history)
    scene = Scene(
        title=title,
        subtitle=joined(sentence, drawn_words((_MOST_WRITERS, len(positions), "writers"))),
        across=Numbers("key", 0, _WHOLE, _ticks(history, rows)),
        panels=[lanes([row.name for row in rows], _layers(rows, history), height=_LANE)],
    )
    table = [
        (row.name, segment_name(segment), history.segments[segment].keys.text, offset)
        for row in rows
        for segment, offset in row.offsets.items()
    ]
    return Chart(sentence=sentence, data=columns(table, "step", "segment", "keys", "offset"), scene=scene)


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
        height = 0.84 / (max(floors.values(), default=0) + 1)
        for segment, floor in floors.items():
            keys, label = history.segments[segment].keys, offset_words(segment, row.offsets[segment])
            top = lane - 0.42 + floor * height
            offset = row.offsets[segment]
            at = "without an offset" if offset is None else f"offset {offset}"
            words = f"{row.name}: segment {segment_name(segment)}, keys {keys.text}, {at}"
            boxes.setdefault((meaning, row.role), []).append(_box(keys, top, top + height - 0.03, label, words))
        for keys in row.missing:
            words = f"{row.name}: no segment for the keys {keys.text}"
            box = _box(keys, lane - 0.42, lane + 0.39, f"missing {keys.text}", words)
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
    return tuple(Tick(round(bound * _WHOLE), _number(bound)) for bound in [*shown, Fraction(1)])


def _number(bound: Fraction) -> str:
    return str(bound) if bound.denominator <= 100 else f"{float(bound):.3f}"
