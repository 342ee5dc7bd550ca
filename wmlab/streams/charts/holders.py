"""Charts of who held a stream's lower bound: the noted times with silences and holders, and what each holder cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

from wmlab.core.charts.axis import Axis, duration_unit, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import columns_of, faults, one_stream, plain_columns, share_of, stream_rows, when
from wmlab.core.charts.scene import Blocks, Box, Dots, Scene, lanes
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import bare, counted, grouped, moment, rounded
from wmlab.streams.answers.explain import CauseKind, Held, causes, longest_stall
from wmlab.streams.answers.history import Row

Stretch = tuple[str, int, int, str]
"""A writer, from when to when, and the words for the hover box."""

_MOST_MARKS: Final = 500
_MOST_STRETCHES: Final = 300
_SILENT_AFTER: Final = 1.5
"""A writer counts as silent after this many of its usual intervals without a mark."""
_COST_COLUMNS: Final = ("stream", "who", "why", "stretches", "held_ms", "worst_ms", "cost_ms")
_MOST_HOLDERS: Final = 12
_ROLE: Final = {"lagging": "upper", "slowest": "lower"}
"""Colour by cause: waited for, or merely the slowest; any other cause is grey."""


def writer_marks(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw who noted times when, which were accepted, which refused, where marks are missing, who held the bound.

    A mark is missing from one and a half of the writer's usual intervals (their median) after its last one. Who holds
    the bound is what `explain` says: the writers that the last cycle waited for, or whose time is the bound. Raises
    `ChartError` if there are several streams and none is chosen, or no marks. Of many marks 500 accepted ones and 500
    refused ones are drawn, evenly spread, and of the stretches the 300 longest.
    """
    name = one_stream(recording, stream, "writer_marks")
    marks = stream_rows(recording, "writer_marks", name, by="received_ms")
    cycles_ms = [row["at_ms"] for row in stream_rows(recording, "cycles", name, by="at_ms")]
    writers = sorted({row["writer"] for row in marks})
    end_ms = max([marks[-1]["received_ms"], *cycles_ms])
    silent = _silences(marks, writers, end_ms)
    found = list(causes(recording, name, start_ms=marks[0]["received_ms"], end_ms=end_ms))
    held = _held(found)
    accepted = [row for row in marks if row["outcome"] == "success"]
    refused = [row for row in marks if row["outcome"] != "success"]
    sentence = f"{_marks_sentence(name, marks, refused, held)}{longest_stall(found)}."
    fewer = len(accepted) > _MOST_MARKS or len(refused) > _MOST_MARKS
    part = f" Drawn are at most {_MOST_MARKS} accepted and {_MOST_MARKS} refused marks." if fewer else ""
    scene = Scene(
        title=title or f"Who noted time in {name}, and who held its lower bound?",
        subtitle=sentence + part,
        across=time_axis("clock", [marks[0]["received_ms"], *cycles_ms[:1], end_ms]),
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
    data = columns_of(marks, ("writer", "time", "noted_ms", "received_ms", "outcome"))
    return Chart(sentence=sentence, data=data, scene=scene)


def _silences(marks: Sequence[Row], writers: Sequence[str], end_ms: int) -> list[Stretch]:
    silences = []
    for writer in writers:
        received = [row["received_ms"] for row in marks if row["writer"] == writer]
        gaps = [after - before for before, after in pairwise(received)]
        due_ms = round(_SILENT_AFTER * median(gaps)) if gaps else end_ms
        for before, after in pairwise([*received, end_ms]):
            if after - before > due_ms:
                words = f"{writer}: no mark for {rounded(after - before)}"
                silences.append((writer, before + due_ms, after, words))
    return silences


def _held(found: Sequence[Held]) -> list[Stretch]:
    """Stretches in which a writer held the bound, neighbours joined."""
    held: list[Stretch] = []
    newest: dict[str, int] = {}
    for from_ms, to_ms, _, cause in found:
        why = "waited for" if cause.kind is CauseKind.LAGGING else "the slowest"
        for writer in cause.writers:
            index = newest.get(writer)
            if index is not None and held[index][2] == from_ms:
                held[index] = (writer, held[index][1], to_ms, held[index][3])
            else:
                newest[writer] = len(held)
                held.append((writer, from_ms, to_ms, f"{writer} held the lower bound: {why}"))
    return held


def _blocks(name: str, role: str, stretches: Sequence[Stretch], writers: Sequence[str], opacity: float) -> Blocks:
    half = 0.42 if role == "lower" else 0.22
    boxes = [
        Box(begin, end, writers.index(writer) - half, writers.index(writer) + half, "", words)
        for writer, begin, end, words in sorted(stretches, key=lambda s: s[1] - s[2])[:_MOST_STRETCHES]
        if writer in writers
    ]
    return Blocks(name=name, role=role, boxes=boxes, opacity=opacity)


def _dots(name: str, role: str, marks: Sequence[Row], writers: Sequence[str]) -> Dots:
    return Dots(
        name=name,
        role=role,
        shape="cross" if role == "alarm" else "circle",
        xs=[row["received_ms"] for row in marks],
        ys=[writers.index(row["writer"]) for row in marks],
        hover=[
            f"{row['writer']} noted {bare(row['time'])} at {moment(row['noted_ms'])}; "
            f"{row['controller']}: {row['outcome']}"
            for row in marks
        ],
        size=2.6 if role == "third" else 4.5,
    )


def _marks_sentence(name: str, marks: Sequence[Row], refused: Sequence[Row], held: Sequence[Stretch]) -> str:
    were = "was" if len(marks) == 1 else "were"
    text = f"{counted(len(marks), 'mark')} {were} noted in {name}, {grouped(len(refused))} of them refused"
    longest = max(held, key=lambda stretch: stretch[2] - stretch[1], default=None)
    if longest is None:
        return f"{text}; no writer held the lower bound"
    writer, begin, end, _ = longest
    since = when(begin, span_ms=marks[-1]["received_ms"] - marks[0]["received_ms"])
    return f"{text}; {writer} held the lower bound longest, for {rounded(end - begin)} from {since}"


def holder_costs(table: Any, *, title: str | None = None) -> Chart:
    """Draw what each holder of a lower bound cost, one bar per holder and cause, the most expensive first.

    `table` is the answer of `recording.explain()` or a DataFrame with its columns: stream, who, why, stretches,
    held_ms, worst_ms and cost_ms (by how much it raised the mean lag, ms, null if unknown). `title` replaces the
    question above the chart. Raises `ChartError` for a missing column, no rows, or rows of several streams.
    """
    columns = plain_columns(table, _COST_COLUMNS, chart="A chart of holders", example="recording.explain()")
    streams = sorted(set(columns["stream"]))
    if len(streams) != 1:
        count = f"it has {len(streams)}: {', '.join(streams[:6])}" if streams else "it has no rows"
        raise ChartError(f"One chart shows the holders of one stream; {count}.", remedy="Keep the rows of one stream.")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    rows.sort(key=lambda row: (-(row["cost_ms"] or 0), -row["held_ms"]))
    sentence = _costs_sentence(streams[0], rows)
    left_out = f" {len(rows) - _MOST_HOLDERS} more cost less." if len(rows) > _MOST_HOLDERS else ""
    shown = rows[:_MOST_HOLDERS]
    top_ms = max(1, *(round(row["cost_ms"] or 0) for row in shown))
    scene = Scene(
        title=title or f"Who held the lower bound of {streams[0]}, and what did it cost?",
        subtitle=sentence + left_out,
        across=Axis("raised the mean lag by", 0, top_ms, False, duration_unit(top_ms)),
        panels=[lanes([_name(row) for row in shown], _bars(shown))],
    )
    return Chart(sentence=sentence, data=columns_of(rows, _COST_COLUMNS), scene=scene)


def _name(row: Row) -> str:
    return f"{row['who']} ({row['why']})" if row["why"] in _ROLE else str(row["who"])


def _bars(shown: Sequence[Row]) -> list[Blocks]:
    """The bars by cause, each with its price beside it."""
    bars: dict[str, list[Box]] = {}
    for lane, row in enumerate(shown):
        price = "cost unknown" if row["cost_ms"] is None else rounded(round(row["cost_ms"]))
        label = f"{price}, held {rounded(row['held_ms'])}"
        box = Box(0, round(row["cost_ms"] or 0), lane - 0.3, lane + 0.3, label, f"{_name(row)}: {label}")
        bars.setdefault(row["why"], []).append(box)
    return [
        Blocks(name=why, role=_ROLE.get(why, "unknown"), boxes=boxes, opacity=0.85, legend=False, beside=True)
        for why, boxes in bars.items()
    ]


def _costs_sentence(stream: str, rows: Sequence[Row]) -> str:
    total = sum(row["cost_ms"] or 0 for row in rows)
    if not total:
        return f"Nobody held the lower bound of {stream} below what the others had noted."
    first = rows[0]
    cost = first["cost_ms"]
    return (
        f"{first['who']} ({first['why']}) cost most: the lower bound of {stream} was on average "
        f"{rounded(round(cost))} lower for it, {cost / total:.0%} of what all holders cost; it held "
        f"for {rounded(first['held_ms'])}."
    )
