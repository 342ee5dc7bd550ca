"""The chart of one stream cut over the key space: the writers' positions, the furthest one, what it misses, the cut.

The steps are those that the run's own algorithm takes (`model.cut.stream_cut`), on what the recorded watermark counted.

Source: PDP-33, Watermark Computation, `computeGreatestUpperBound` and `computeStreamCut`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from wmlab.core.arguments import the_moment
from wmlab.core.charts.axis import Numbers, Tick
from wmlab.core.charts.chart import Chart, columns, one_stream, stream_rows
from wmlab.core.charts.scene import Blocks, Box, Layer, Scene, lanes
from wmlab.core.errors import ChartError
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import bare, counted, listed, moment
from wmlab.streams.answers.history import epochs_of, recorded_configuration
from wmlab.streams.model import cut
from wmlab.streams.model.cut import CutError, CutStep
from wmlab.streams.model.cycle import CycleRules
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
    marks = stream_rows(recording, "watermarks", name, by="emitted_ms")
    mark, previous = _chosen(
        marks, None if at_ms is None else the_moment(at_ms, ChartError, start_ms=recording.start_ms)
    )
    positions = _positions(recording, name, mark)
    history = epochs_of(recording, name)
    rules = recorded_configuration(recording, name) or CycleRules()
    steps = _steps([*positions.values()], previous, history, rules)
    if not steps or dict(steps[-1].offsets) != dict(mark["cut"]):
        raise ChartError(
            f"The cut of the watermark of {moment(mark['emitted_ms'])} does not follow from the recorded positions.",
            remedy="Draw a recording that was made of a scenario, with its tables writer_marks and epochs.",
        )
    before = {} if previous is None or rules.algorithm == "document" else dict(previous)
    rows = _lanes(positions, before, steps, history)
    sentence = _sentence(name, mark, len(positions), steps, history)
    drawn = f" Drawn are {_MOST_WRITERS} of {len(positions)} writers." if len(positions) > _MOST_WRITERS else ""
    scene = Scene(
        title=title or f"How did the stream cut of {name} at {moment(mark['emitted_ms'])} come about?",
        subtitle=sentence + drawn,
        across=Numbers("key", 0, _WHOLE, _ticks(history, rows)),
        panels=[lanes([row.name for row in rows], _layers(rows, history), height=_LANE)],
    )
    table = [
        (row.name, segment_name(segment), history.segments[segment].keys.text, offset)
        for row in rows
        for segment, offset in row.offsets.items()
    ]
    return Chart(sentence=sentence, data=columns(table, "step", "segment", "keys", "offset"), scene=scene)


def _chosen(marks: Sequence[TableRow], at_ms: int | None) -> tuple[TableRow, Position | None]:
    """The watermark and the cut before it, if there is one; without a moment the last one that counts a writer."""
    known = [row for row in marks if at_ms is None or row["emitted_ms"] <= at_ms]
    if at_ms is None:
        known = known[: max((index + 1 for index, row in enumerate(known) if row["writers"]), default=len(known))]
    if not known:
        raise ChartError(
            f"No watermark was emitted until {moment(at_ms or 0)}.",
            remedy=f"Choose at_ms from {marks[0]['emitted_ms']} on.",
        )
    if not known[-1]["writers"]:
        raise ChartError(
            f"The watermark of {moment(known[-1]['emitted_ms'])} counts no writer, so its cut is no upper bound.",
            remedy="Choose another moment with at_ms=....",
        )
    return known[-1], Position(dict(known[-2]["cut"])) if len(known) > 1 else None


def _positions(recording: Recording, stream: str, mark: TableRow) -> dict[str, Position]:
    """The position that each writer of the watermark had noted with its time."""
    counted_times, received = dict(mark["writers"]), dict(mark.get("counted") or {})
    positions: dict[str, Position] = {}
    for row in stream_rows(recording, "writer_marks", stream, by="received_ms"):
        writer, at_ms = row["writer"], row["received_ms"]
        is_counted = at_ms <= mark["emitted_ms"] if received.get(writer) is None else at_ms == received[writer]
        if is_counted and row["outcome"] == "success" and counted_times.get(writer) == row["time"]:
            positions[writer] = Position(dict(row["position"]))
    return {writer: positions[writer] for writer in counted_times if writer in positions}


def _steps(
    positions: Sequence[Position], previous: Position | None, history: StreamHistory, rules: CycleRules
) -> list[CutStep]:
    """The steps to the cut of a cycle by its rules; none if there is no such cut."""
    steps: list[CutStep] = []
    with suppress(CutError):
        cut.stream_cut(positions, previous, history, rules, steps=steps)
    return steps


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
        is_last = number == len(steps) - 1
        name = "stream cut" if is_last and number else _NAMES.get(step.reason, f"completion {number}")
        rows.append(_Lane(name, "lower", step.offsets, history.gaps(step.offsets)))
    if len(steps) == 1:
        rows.append(_Lane("stream cut", "lower", steps[0].offsets))
    return rows


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
            keys, label = history.segments[segment].keys, _at(segment, row.offsets[segment])
            top = lane - 0.42 + floor * height
            words = f"{row.name}: segment {segment_name(segment)}, keys {keys.text}, {_offset(row.offsets[segment])}"
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


def _at(segment: int, offset: int | None) -> str:
    """A segment with an offset as the document writes it, "2/off2"."""
    return f"{segment_name(segment)}/{'end' if offset is None else offset}"


def _offset(offset: int | None) -> str:
    return "without an offset" if offset is None else f"offset {offset}"


def _cut(offsets: Mapping[int, int | None]) -> str:
    return f"({', '.join(_at(segment, offset) for segment, offset in sorted(offsets.items()))})"


def _sentence(stream: str, mark: TableRow, writers: int, steps: Sequence[CutStep], history: StreamHistory) -> str:
    """The answer: the furthest position, what it misses, and the cut."""
    first, last = steps[0], steps[-1]
    time = bare(mark["lower"], clock_ms=mark["emitted_ms"])
    text = f"The furthest position of {counted(writers, 'writer')} is {_cut(first.offsets)}."
    if missing := history.gaps(first.offsets):
        filled = [segment for segment in last.offsets if segment not in first.offsets]
        segments = listed([_at(segment, last.offsets[segment]) for segment in sorted(filled)])
        text += f" No position covers the keys {listed([keys.text for keys in missing])}, so the cut takes {segments}."
    if dict(first.offsets) == dict(last.offsets):
        return f"{text} It has all keys and is the stream cut of {stream} at time {time}."
    return f"{text} The stream cut of {stream} at time {time} is {_cut(last.offsets)}."
