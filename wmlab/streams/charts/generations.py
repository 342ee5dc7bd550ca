"""The chart of generations: which known writers each cycle took, which it left out and why, against the barrier.

Source: PDP-33, In-memory State and Periodic Watermark Workflow, whose cases a and b of excluded writers it tells apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, groupby, zip_longest
from typing import Final, NamedTuple

from wmlab.core.charts.axis import OverTime, bulk_of_curves, time_axis
from wmlab.core.charts.chart import SERIES, Chart, columns, faults, one_stream, share_of, stream_rows, when
from wmlab.core.charts.scene import Dots, Layer, Panel, Scene, Shape, Steps, at_rim, lanes
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import counted, moment, rounded

_MOST_CYCLES: Final = 300
_MOST_WRITERS: Final = 8
_LINES: Final = len(SERIES)
_TAKEN, _SILENT, _OLDER, _REMOVED = (
    "in the generation",
    "left out: noted nothing (case a)",
    "left out: notes older times (case b)",
    "removed from the known set",
)
_LOOKS: Final[Mapping[str, tuple[str, Shape, float]]] = {
    _TAKEN: ("lower", "circle", 3.0),
    _SILENT: ("upper", "cross", 4.0),
    _OLDER: ("fourth", "triangle", 4.0),
    _REMOVED: ("alarm", "diamond", 5.0),
}


class _Membership(NamedTuple):
    """What a known writer was to a cycle."""

    at_ms: int
    barrier: int | None
    writer: str
    place: str


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
    memberships = list(_memberships(cycles, marks))
    outside = Counter(entry.writer for entry in memberships if entry.place in (_SILENT, _OLDER))
    known = sorted({entry.writer for entry in memberships}, key=lambda writer: (-outside[writer], writer))
    writers = sorted(known[:_MOST_WRITERS])
    shown = share_of(cycles, _MOST_CYCLES)
    moments = {row["at_ms"] for row in shown}
    drawn = [entry for entry in memberships if entry.at_ms in moments and entry.writer in writers]
    sentence = _sentence(name, cycles, known, memberships)
    counts = ((_MOST_CYCLES, len(cycles), "cycles"), (_MOST_WRITERS, len(known), "writers"))
    fewer = "".join(f" Drawn are {most} of {count} {what}." for most, count, what in counts if most < count)
    clock = [cycles[0]["at_ms"], cycles[-1]["at_ms"]]
    curves = _curves(shown, [writer for writer in known if outside[writer]][:_LINES], marks, memberships)
    times = [OverTime.steps(curve.xs, curve.ys) for curve in curves]
    up = time_axis("event time", bulk_of_curves(times, times, least_ms=clock[1] - clock[0]), pad_percent=5, clock=clock)
    said = up.said_beyond({curve.name: time for curve, time in zip(curves, times, strict=True)})
    scene = Scene(
        title=title or f"Which writers of {name} were in each generation, and why were others not?",
        subtitle=sentence + fewer + (f" {said}" if said else ""),
        across=time_axis("clock", clock, pad_percent=2),
        panels=[
            lanes(writers, _dots(drawn, writers)),
            Panel(up=up, height=200.0, layers=at_rim(up, curves)),
        ],
        rules=faults(recording, name, without=["note"]),  # these are in the lower panel
    )
    return Chart(sentence=sentence, data=columns(memberships, "at_ms", "barrier", "writer", "place"), scene=scene)


def _memberships(cycles: Sequence[TableRow], marks: Sequence[TableRow]) -> list[_Membership]:
    """What every writer of the known set was to each cycle."""
    memberships = []
    for before, cycle in zip_longest([None, *cycles[:-1]], cycles):
        since_ms = None if before is None else before["at_ms"]
        noted = {row["writer"] for row in marks if row["received_ms"] <= cycle["at_ms"] and _is_after(row, since_ms)}
        kinds = chain(
            ((writer, _TAKEN) for writer in cycle["participating"]),
            ((writer, _OLDER if writer in noted else _SILENT) for writer in cycle["lagging"]),
            ((writer, _REMOVED) for writer in cycle["removed"]),
        )
        memberships += [_Membership(cycle["at_ms"], cycle["previous_lower"], writer, place) for writer, place in kinds]
    return memberships


def _is_after(mark: TableRow, since_ms: int | None) -> bool:
    return since_ms is None or mark["received_ms"] > since_ms


def _dots(memberships: Sequence[_Membership], writers: Sequence[str]) -> list[Layer]:
    layers: list[Layer] = []
    for place, (role, shape, size) in _LOOKS.items():
        mine = [entry for entry in memberships if entry.place == place]
        layers.append(
            Dots(
                name=place,
                role=role,
                shape=shape,
                xs=[entry.at_ms for entry in mine],
                ys=[writers.index(entry.writer) for entry in mine],
                hover=[f"{moment(entry.at_ms)}, {entry.writer}: {place}" for entry in mine],
                size=size,
            )
        )
    return layers


def _curves(
    cycles: Sequence[TableRow], writers: Sequence[str], marks: Sequence[TableRow], memberships: Sequence[_Membership]
) -> list[Steps]:
    """The barrier, and the last noted time of each writer while it is known, until the last cycle."""
    end_ms = cycles[-1]["at_ms"]
    curves = [("barrier", "perfect", [(row["at_ms"], row["previous_lower"]) for row in cycles])]
    for writer, role in zip(writers, ("upper", "fourth", "third", "lower"), strict=False):
        noted = [(row["received_ms"], row["time"]) for row in marks if row["writer"] == writer]
        removed = [(entry.at_ms, None) for entry in memberships if (entry.writer, entry.place) == (writer, _REMOVED)]
        points = sorted([*noted, *removed], key=lambda point: point[0])
        known = [point for point in points if point[0] <= end_ms]
        curves.append((writer, role, [*known, (end_ms, known[-1][1])]))
    return [
        Steps(name=n, role=role, xs=[x for x, _ in points], ys=[y for _, y in points]) for n, role, points in curves
    ]


def _sentence(stream: str, cycles: Sequence[TableRow], known: Sequence[str], memberships: Sequence[_Membership]) -> str:
    """The answer: who was left out longest, and how that ended."""
    text = f"{counted(len(cycles), 'cycle')} looked at {counted(len(known), 'known writer')} of {stream}"
    stretches = [
        (writer, list(stretch))
        for writer in known
        for outside, stretch in groupby(
            (entry for entry in memberships if entry.writer == writer), lambda entry: entry.place != _TAKEN
        )
        if outside
    ]
    if not stretches:
        return f"{text}; all were in every generation."
    writer, longest = max(stretches, key=lambda stretch: len(stretch[1]))
    cases = {_SILENT: "it noted nothing", _OLDER: "it noted older times"}
    why = Counter(entry.place for entry in longest if entry.place != _REMOVED)
    begin = when(longest[0].at_ms, span_ms=cycles[-1]["at_ms"] - cycles[0]["at_ms"])
    if not why:
        return f"{text}; {writer} was removed at {begin}, without being left out before."
    cause = cases[max(why, key=lambda kind: why[kind])]
    later = [entry for entry in memberships if entry.writer == writer and entry.at_ms > longest[-1].at_ms]
    end = "was removed" if longest[-1].place == _REMOVED else "came back" if later else "is left out at the end"
    after = rounded(longest[-1].at_ms - longest[0].at_ms)
    return (
        f"{text}; {writer} was left out of {counted(sum(why.values()), 'generation')} from {begin} on, since {cause}, "
        f"and {end}{'' if end == 'is left out at the end' else f' after {after}'}."
    )
