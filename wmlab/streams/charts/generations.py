"""The chart of generations: which known writers each cycle took, which it left out and why, against the barrier.

Source: PDP-33, In-memory State and Periodic Watermark Workflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from wmlab.core.charts.axis import held, shown_range, time_axis
from wmlab.core.charts.chart import (
    SERIES,
    Chart,
    columns,
    drawn_words,
    faults,
    joined,
    one_stream,
    share_of,
    stream_rows,
)
from wmlab.core.charts.scene import Dots, Layer, Panel, Scene, Shape, Steps, lanes
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words
from wmlab.streams.answers.cycles import Membership, Standing, generation_sentences, known_writers, memberships

_MOST_CYCLES: Final = 300
_MOST_WRITERS: Final = 8
_LINES: Final = len(SERIES)
_LOOKS: Final[Mapping[Standing, tuple[str, Shape, float]]] = {
    Standing.TAKEN: ("lower", "circle", 3.0),
    Standing.SILENT: ("upper", "cross", 4.0),
    Standing.OLDER: ("fourth", "triangle", 4.0),
    Standing.REMOVED: ("alarm", "diamond", 5.0),
}


def generations(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw for each cycle which writers of the known set were in its generation, and which were left out or removed.

    Below it the barrier, which is the lower bound of the watermark before, and the last noted time of the writers that
    were left out: a writer comes in when its time is above the barrier. A writer that was left out either has noted
    nothing since the cycle before (case a of the text) or notes older times (case b). The lanes are those of at most 8
    writers, the ones left out first, and lines are drawn of 4. Raises `ChartError` if there are several streams and
    none is chosen, or no cycles.
    """
    name = one_stream(recording, stream, "cycles")
    cycles = stream_rows(recording, "cycles", name, by="at_ms")
    marks = [
        row for row in stream_rows(recording, "writer_marks", name, by="received_ms") if row["outcome"] == "success"
    ]
    entries = memberships(cycles, marks)
    known = known_writers(entries)
    writers = sorted(known[:_MOST_WRITERS])
    shown = share_of(cycles, _MOST_CYCLES)
    moments = {row["at_ms"] for row in shown}
    drawn = [entry for entry in entries if entry.at_ms in moments and entry.writer in writers]
    sentence = generation_sentences(name, cycles, entries)
    fewer = drawn_words((_MOST_CYCLES, len(cycles), "cycles"), (_MOST_WRITERS, len(known), "writers"))
    clock = [cycles[0]["at_ms"], cycles[-1]["at_ms"]]
    left_out = {entry.writer for entry in entries if entry.standing in (Standing.SILENT, Standing.OLDER)}
    curves = _curves(shown, [writer for writer in known if writer in left_out][:_LINES], marks, entries)
    ends = shown_range([held(curve.xs, curve.ys) for curve in curves], least_ms=clock[1] - clock[0])
    up = time_axis("event time", ends, pad_percent=5, clock=clock)
    scene = Scene(
        title=title or f"Which writers of {name} were in each generation, and why were others not?",
        subtitle=joined(sentence, fewer),
        across=time_axis("clock", clock, pad_percent=2),
        panels=[
            lanes(writers, _dots(drawn, writers)),
            Panel(up=up, height=200.0, layers=curves),
        ],
        rules=faults(recording, name, without=["note"]),  # these are in the lower panel
    )
    return Chart(sentence=sentence, data=columns(entries, "at_ms", "barrier", "writer", "standing"), scene=scene)


def _dots(entries: Sequence[Membership], writers: Sequence[str]) -> list[Layer]:
    layers: list[Layer] = []
    for standing, (role, shape, size) in _LOOKS.items():
        mine = [entry for entry in entries if entry.standing is standing]
        layers.append(
            Dots(
                name=standing.value,
                role=role,
                shape=shape,
                xs=[entry.at_ms for entry in mine],
                ys=[writers.index(entry.writer) for entry in mine],
                hover=[f"{clock_words(entry.at_ms)}, {entry.writer}: {standing.value}" for entry in mine],
                size=size,
            )
        )
    return layers


def _curves(
    cycles: Sequence[TableRow], writers: Sequence[str], marks: Sequence[TableRow], entries: Sequence[Membership]
) -> list[Steps]:
    """The barrier, and the last noted time of each writer while it is known, until the last cycle."""
    end_ms = cycles[-1]["at_ms"]
    curves = [("barrier", "perfect", [(row["at_ms"], row["previous_lower"]) for row in cycles])]
    for writer, role in zip(writers, ("upper", "fourth", "third", "lower"), strict=False):
        noted = [(row["received_ms"], row["time"]) for row in marks if row["writer"] == writer]
        removed = [
            (entry.at_ms, None) for entry in entries if (entry.writer, entry.standing) == (writer, Standing.REMOVED)
        ]
        points = sorted([*noted, *removed], key=lambda point: point[0])
        known = [point for point in points if point[0] <= end_ms]
        curves.append((writer, role, [*known, (end_ms, known[-1][1])]))
    return [
        Steps(name=n, role=role, xs=[x for x, _ in points], ys=[y for _, y in points]) for n, role, points in curves
    ]
