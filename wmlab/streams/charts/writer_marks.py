"""The chart of noted times: a lane for each writer with its marks, its silences, and who held the lower bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

from wmlab.core.charts.axis import format_duration, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import faults, one_stream, share_of, stream_rows, when
from wmlab.core.charts.scene import Blocks, Box, Dots, Scene, lanes
from wmlab.core.recording import Recording
from wmlab.streams.answers.explain import CauseKind, causes

_MOST_MARKS: Final = 500
_MOST_STRETCHES: Final = 300
_SILENT_AFTER: Final = 1.5
"""A writer counts as silent after this many of its usual intervals without a mark."""


def writer_marks(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw who noted times when, which were accepted, which refused, where marks are missing, who held the bound.

    A mark is missing from one and a half of the writer's usual intervals (their median) after its last one. Who holds
    the bound is what `explain` says: the writers that the last cycle waited for, or whose time is the bound. Raises
    `ChartError` if there are several streams and none is chosen, or no marks. Of many marks 500 accepted ones and 500
    refused ones are drawn, evenly spread, and of the stretches the 300 longest.
    """
    name = one_stream(recording, stream, "writer_marks")
    marks = sorted(stream_rows(recording, "writer_marks", name), key=lambda row: row["received_ms"])
    cycles = sorted(stream_rows(recording, "cycles", name), key=lambda row: row["at_ms"])
    writers = sorted({row["writer"] for row in marks})
    end_ms = max(row["received_ms"] for row in [*marks, *({"received_ms": c["at_ms"]} for c in cycles)])
    silent = _silences(marks, writers, end_ms)
    held = _held(recording, name, marks[0]["received_ms"], end_ms)
    accepted = [row for row in marks if row["outcome"] == "success"]
    refused = [row for row in marks if row["outcome"] != "success"]
    sentence = _sentence(name, marks, refused, held)
    fewer = len(accepted) > _MOST_MARKS or len(refused) > _MOST_MARKS
    part = f" Drawn are at most {_MOST_MARKS} accepted and {_MOST_MARKS} refused marks." if fewer else ""
    scene = Scene(
        title=title or f"Who noted time in {name}, and who held its lower bound?",
        subtitle=sentence + part,
        across=time_axis("clock", [marks[0]["received_ms"], *(c["at_ms"] for c in cycles[:1]), end_ms]),
        panels=[
            lanes(
                writers,
                [
                    _blocks("held the lower bound", "lower", held, writers, 0.30),
                    _blocks("no mark when one was due", "alarm", silent, writers, 0.12),
                    _dots("accepted", "third", share_of(accepted, _MOST_MARKS), writers),
                    _dots("refused", "alarm", share_of(refused, _MOST_MARKS), writers),
                ],
            )
        ],
        rules=faults(recording, name),
    )
    columns = ("writer", "time", "noted_ms", "received_ms", "outcome")
    data = {column: [row[column] for row in marks] for column in columns}
    return Chart(sentence=sentence, data=data, scene=scene)


def _silences(
    marks: Sequence[Mapping[str, Any]], writers: Sequence[str], end_ms: int
) -> list[tuple[str, int, int, str]]:
    found = []
    for writer in writers:
        heard = [row["received_ms"] for row in marks if row["writer"] == writer]
        gaps = [after - before for before, after in pairwise(heard)]
        if not gaps:
            continue
        due_ms = round(_SILENT_AFTER * median(gaps))
        for before, after in zip(heard, [*heard[1:], end_ms], strict=True):
            if after - before > due_ms:
                told = f"{writer}: no mark for {format_duration(after - before)}"
                found.append((writer, before + due_ms, after, told))
    return found


def _held(recording: Recording, name: str, start_ms: int, end_ms: int) -> list[tuple[str, int, int, str]]:
    """Stretches in which a writer held the bound, neighbours joined."""
    found: list[tuple[str, int, int, str]] = []
    newest: dict[str, int] = {}
    for from_ms, to_ms, _, cause in causes(recording, name, start_ms=start_ms, end_ms=end_ms):
        why = "waited for" if cause.kind is CauseKind.LAGGING else "the slowest"
        for writer in cause.writers:
            index = newest.get(writer)
            if index is not None and found[index][2] == from_ms:
                found[index] = (writer, found[index][1], to_ms, found[index][3])
            else:
                newest[writer] = len(found)
                found.append((writer, from_ms, to_ms, f"{writer} held the lower bound: {why}"))
    return found


def _blocks(
    name: str, role: str, stretches: Sequence[tuple[str, int, int, str]], writers: Sequence[str], opacity: float
) -> Blocks:
    half = 0.42 if role == "lower" else 0.22
    boxes = [
        Box(begin, end, writers.index(writer) - half, writers.index(writer) + half, "", told)
        for writer, begin, end, told in sorted(stretches, key=lambda s: s[1] - s[2])[:_MOST_STRETCHES]
        if writer in writers
    ]
    return Blocks(name=name, role=role, boxes=boxes, opacity=opacity)


def _dots(name: str, role: str, marks: Sequence[Mapping[str, Any]], writers: Sequence[str]) -> Dots:
    return Dots(
        name=name,
        role=role,
        shape="cross" if role == "alarm" else "circle",
        xs=[row["received_ms"] for row in marks],
        ys=[writers.index(row["writer"]) for row in marks],
        told=[
            f"{row['writer']} noted {row['time']:,} at {row['noted_ms']:,} ms; {row['controller']}: {row['outcome']}"
            for row in marks
        ],
        size=2.6 if role == "third" else 4.5,
    )


def _sentence(
    name: str,
    marks: Sequence[Mapping[str, Any]],
    refused: Sequence[Mapping[str, Any]],
    held: Sequence[tuple[str, int, int, str]],
) -> str:
    text = f"{len(marks):,} marks were noted in {name}, {len(refused):,} of them refused"
    longest = max(held, key=lambda stretch: stretch[2] - stretch[1], default=None)
    if longest is None:
        return f"{text}; no writer held the lower bound."
    writer, begin, end, _ = longest
    since = when(begin, span_ms=marks[-1]["received_ms"] - marks[0]["received_ms"])
    return f"{text}; {writer} held the lower bound longest, for {format_duration(end - begin)} from {since}."
