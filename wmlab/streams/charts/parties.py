"""Charts of those who make the lower bound: what writers note and cost, when controllers run cycles and own buckets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any, Final

from wmlab.core.charts.axis import Axis, duration_unit, held, shown_range, single, time_axis
from wmlab.core.charts.chart import (
    SERIES,
    SHAPES,
    Chart,
    columns_of,
    drawn_words,
    faults,
    joined,
    one_stream,
    plain_columns,
    share_of,
    stream_rows,
    the_recording,
)
from wmlab.core.charts.scene import Blocks, Box, Dots, Panel, Rule, Scene, Steps, lanes
from wmlab.core.errors import ChartError
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words, rounded
from wmlab.streams.answers.curves import LOG, Curves
from wmlab.streams.answers.cycles import cycle_sentences, cycle_words
from wmlab.streams.answers.measures import last_ms, owner_rows, ownership
from wmlab.streams.answers.noting import WriterSpan, holding_writers, mark_words, missing_marks, noting_sentences
from wmlab.streams.answers.stragglers import cost_sentences, cost_words, is_alone, missing_cycles

_MOST_MARKS: Final = 500
_MOST_SPANS: Final = 300
_COST_COLUMNS: Final = ("stream", "who", "why", "stretches", "held_ms", "worst_ms", "cost_ms")
_MOST_HOLDERS: Final = 12
_ROLE: Final = {"lagging": "upper", "slowest": "lower"}
"""Colour by cause: waited for, or merely the slowest; any other cause is grey."""


def writer_marks(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw who noted times when, which were accepted, which refused, where marks are missing, who blocked the bound.

    A mark is missing from one and a half of the writer's usual intervals (their median) after its last one. Who blocks
    the bound is what `explain` says: the writers that the last cycle waited for, or whose time is the bound. Raises
    `ChartError` if there are several streams and none is chosen, or no marks. Of many marks 500 accepted ones and 500
    refused ones are drawn, evenly spread, and of the stretches the 300 longest.
    """
    name = one_stream(recording, stream, "writer_marks")
    marks = stream_rows(recording, "writer_marks", name, by="received_ms")
    cycles_ms = [row["at_ms"] for row in stream_rows(recording, "cycles", name, by="at_ms")]
    writers = sorted({row["writer"] for row in marks})
    end_ms = max([marks[-1]["received_ms"], *cycles_ms])
    missing = missing_marks(marks, end_ms)
    causes = list(Curves(recording, name).spans(LOG, start_ms=marks[0]["received_ms"], end_ms=end_ms))
    holding = holding_writers(causes)
    accepted = [row for row in marks if row["outcome"] == "success"]
    refused = [row for row in marks if row["outcome"] != "success"]
    sentence = joined(noting_sentences(name, marks, holding), missing_cycles(causes))
    fewer = drawn_words(
        (_MOST_MARKS, len(accepted), "accepted marks"),
        (_MOST_MARKS, len(refused), "refused marks"),
        (_MOST_SPANS, len(holding), "stretches that held the watermark, the longest"),
        (_MOST_SPANS, len(missing), "stretches without a mark that was due, the longest"),
    )
    scene = Scene(
        title=title or f"Who noted time in {name}, and who held its lower bound?",
        subtitle=joined(sentence, fewer),
        across=time_axis("clock", [marks[0]["received_ms"], *cycles_ms[:1], end_ms]),
        panels=[
            lanes(
                writers,
                [
                    _blocks("held the lower bound", "lower", holding, writers, 0.30),
                    _blocks("no mark when one was due", "alarm", missing, writers, 0.12),
                    _dots("accepted", "third", share_of(accepted, _MOST_MARKS), writers),
                    _dots("refused", "alarm", share_of(refused, _MOST_MARKS), writers),
                ],
            )
        ],
        rules=faults(recording, name),
    )
    data = columns_of(marks, ("writer", "time", "noted_ms", "received_ms", "outcome"))
    return Chart(sentence=sentence, data=data, scene=scene)


def _blocks(name: str, role: str, spans: Sequence[WriterSpan], writers: Sequence[str], opacity: float) -> Blocks:
    half = 0.42 if role == "lower" else 0.22
    boxes = [
        Box(
            span.from_ms,
            span.to_ms,
            writers.index(span.writer) - half,
            writers.index(span.writer) + half,
            "",
            span.words,
        )
        for span in sorted(spans, key=lambda span: span.from_ms - span.to_ms)[:_MOST_SPANS]
        if span.writer in writers
    ]
    return Blocks(name=name, role=role, boxes=boxes, opacity=opacity)


def _dots(name: str, role: str, marks: Sequence[TableRow], writers: Sequence[str]) -> Dots:
    return Dots(
        name=name,
        role=role,
        shape="cross" if role == "alarm" else "circle",
        xs=[row["received_ms"] for row in marks],
        ys=[writers.index(row["writer"]) for row in marks],
        hover=[mark_words(row) for row in marks],
        size=2.6 if role == "third" else 4.5,
    )


def holder_costs(table: Any, *, title: str | None = None) -> Chart:
    """Draw what each straggler of a lower bound cost, one bar per straggler and cause, the most expensive first.

    `table` is the answer of `recording.explain()` or a DataFrame with its columns: stream, who, why, stretches,
    held_ms, worst_ms and cost_ms (by how much it raised the mean lag, ms, null if it cannot be measured). It may have
    `against`, what a cost is measured against; costs against the clock, of those that blocked it with nobody next to
    them, are drawn below the others. `title` replaces the question above the chart. Raises `ChartError` for a missing
    column, no rows, or rows of several streams.
    """
    columns = plain_columns(
        table, _COST_COLUMNS, ("against",), chart="A chart of holders", example="recording.explain()"
    )
    streams = sorted(set(columns["stream"]))
    if len(streams) != 1:
        count = f"it has {len(streams)}: {', '.join(streams[:6])}" if streams else "it has no rows"
        raise ChartError(f"One chart shows the holders of one stream; {count}.", remedy="Keep the rows of one stream.")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    rows.sort(key=lambda row: (is_alone(row), -(row["cost_ms"] or 0), -row["held_ms"]))
    sentence = cost_sentences(streams[0], rows)
    fewer = drawn_words((_MOST_HOLDERS, len(rows), "causes, those with the largest cost"))
    shown = rows[:_MOST_HOLDERS]
    top_ms = max(1, *(round(row["cost_ms"] or 0) for row in shown))
    scene = Scene(
        title=title or f"Who held the lower bound of {streams[0]}, and what did it cost?",
        subtitle=joined(sentence, fewer),
        across=Axis("raised the mean lag by", 0, top_ms, False, duration_unit(top_ms)),
        panels=[lanes([_name(row) for row in shown], _bars(shown))],
    )
    return Chart(sentence=sentence, data=columns_of(rows, _COST_COLUMNS), scene=scene)


def _name(row: TableRow) -> str:
    alone = ", alone" if is_alone(row) else ""
    return f"{row['who']} ({row['why']}{alone})" if row["why"] in _ROLE or alone else str(row["who"])


def _bars(shown: Sequence[TableRow]) -> list[Blocks]:
    """The bars by cause, each with its price next to it."""
    bars: dict[str, list[Box]] = {}
    for index, row in enumerate(shown):
        price = cost_words(row)
        label = f"{price}, held {rounded(row['held_ms'])}"
        box = Box(0, round(row["cost_ms"] or 0), index - 0.3, index + 0.3, label, f"{_name(row)}: {label}")
        bars.setdefault(row["why"], []).append(box)
    return [
        Blocks(name=why, role=_ROLE.get(why, "unknown"), boxes=boxes, opacity=0.85, legend=False, beside=True)
        for why, boxes in bars.items()
    ]


_MOST_CYCLES: Final = 600
_MOST_BUCKETS: Final = 30


def watermark_cycles(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw each run of the watermark cycle in the row of its controller, above the previous watermark's lower bound.

    A cycle emits when every writer that it waits for has passed it. Raises `ChartError` if there are several streams
    and none is chosen, or no cycles.
    """
    name = one_stream(recording, stream, "cycles")
    cycles = stream_rows(recording, "cycles", name, by="at_ms")
    controllers = sorted({row["controller"] for row in cycles})
    shown = share_of(cycles, _MOST_CYCLES)
    held_by = list(Curves(recording, name).spans(LOG, start_ms=cycles[0]["at_ms"], end_ms=cycles[-1]["at_ms"]))
    sentence = joined(cycle_sentences(name, cycles), missing_cycles(held_by))
    fewer = drawn_words((len(shown), len(cycles), "cycles"))
    times = held([row["at_ms"] for row in cycles], [row["previous_lower"] for row in cycles])
    last = single([mark["lower"] for mark in stream_rows(recording, "watermarks", name)][-1:])
    bound = Steps(
        name="previous lower bound",
        role="perfect",
        xs=[row["at_ms"] for row in shown],
        ys=[row["previous_lower"] for row in shown],
    )
    clock = [cycles[0]["at_ms"], cycles[-1]["at_ms"]]
    ends = shown_range([times], [last], least_ms=clock[1] - clock[0])
    up = time_axis("event time", ends, pad_percent=5, clock=clock)
    scene = Scene(
        title=title or f"When did the watermark cycle of {name} emit, and why not?",
        subtitle=joined(sentence, fewer),
        across=time_axis("clock", clock, pad_percent=2),
        panels=[
            lanes(controllers, [_cycles(emitted, shown, controllers) for emitted in (True, False)]),
            Panel(up=up, height=200.0, layers=[bound]),
        ],
        rules=faults(recording, name),
    )
    columns = ("controller", "at_ms", "previous_lower", "lagging", "removed", "outcome", "reason")
    return Chart(sentence=sentence, data=columns_of(cycles, columns), scene=scene)


def _cycles(emitted: bool, shown: Sequence[TableRow], controllers: Sequence[str]) -> Dots:
    cycles = [row for row in shown if (row["outcome"] == "emitted") is emitted]
    return Dots(
        name="emitted" if emitted else "held",
        role="lower" if emitted else "upper",
        shape="circle" if emitted else "cross",
        xs=[row["at_ms"] for row in cycles],
        ys=[controllers.index(row["controller"]) for row in cycles],
        hover=[cycle_words(row) for row in cycles],
        size=3.0 if emitted else 4.0,
    )


def bucket_ownership(recording: Recording, *, title: str | None = None) -> Chart:
    """Draw who owned each bucket of streams over time, by the word of the coordination service.

    A bucket without an owner runs no cycle, so the bounds of its streams stand still. Buckets without streams are left
    out, and those beyond the first 30. Raises `ChartError` for what is no recording of streams, and `RecordingError`
    for a log of the outside world that says nothing of buckets.
    """
    the_recording(recording, "ownership")
    owners, rows = ownership(recording), owner_rows(recording)
    end_ms = last_ms(recording, rows)
    every = sorted({row["bucket"] for row in rows})
    used = sorted({row["bucket"] for row in rows if row["streams"]})
    buckets = (used or every)[:_MOST_BUCKETS]
    which = "those with streams" if buckets == used else "the first with streams" if used else "the first"
    fewer = drawn_words((len(buckets), len(every), f"buckets, {which}"))
    controllers = sorted({row["controller"] for row in rows})
    roles = chain(SERIES, repeat("unknown"))
    layers = [_owned(controller, next(roles), rows, buckets, end_ms) for controller in controllers]
    layers.append(_nobody(owners.gaps, buckets))
    scene = Scene(
        title=title or "Who owned which bucket of streams?",
        subtitle=joined(owners.sentence, fewer),
        across=time_axis("clock", [min(row["from_ms"] for row in rows), end_ms]),
        panels=[lanes([_lane(bucket, rows) for bucket in buckets], layers)],
        rules=_crashes(recording, controllers),
    )
    data = columns_of(rows, ("bucket", "controller", "streams", "from_ms", "to_ms"))
    return Chart(sentence=owners.sentence, data=data, scene=scene)


def _lane(bucket: int, rows: Sequence[TableRow]) -> str:
    streams = next(row["streams"] for row in rows if row["bucket"] == bucket)
    shown = ", ".join(streams[:2]) + (", …" if len(streams) > 2 else "")
    return f"bucket {bucket}: {shown or 'no stream'}"


def _owned(controller: str, role: str, rows: Sequence[TableRow], buckets: Sequence[int], end_ms: int) -> Blocks:
    boxes = []
    for row in rows:
        if row["controller"] == controller and row["bucket"] in buckets:
            to_ms = end_ms if row["to_ms"] is None else row["to_ms"]
            lane = buckets.index(row["bucket"])
            words = f"bucket {row['bucket']}: {controller} from {clock_words(row['from_ms'])} to {clock_words(to_ms)}"
            boxes.append(Box(row["from_ms"], to_ms, lane - 0.36, lane + 0.36, controller, words))
    return Blocks(name=controller, role=role, boxes=boxes)


def _nobody(orphaned: Sequence[tuple[int, int, int]], buckets: Sequence[int]) -> Blocks:
    boxes = [
        Box(begin, end, buckets.index(bucket) - 0.1, buckets.index(bucket) + 0.1, "", f"bucket {bucket}: no owner")
        for bucket, begin, end in orphaned
        if bucket in buckets
    ]
    return Blocks(name="no owner", role="alarm", boxes=boxes, opacity=0.5)


def _crashes(recording: Recording, controllers: Sequence[str]) -> list[Rule]:
    recorded = (row for row in recording.table("incidents").to_pylist() if row["subject"] == "controller")
    incidents = [row for row in recorded if row["target"] in controllers]
    shapes = {(row["at_ms"], row["detail"]): SHAPES.get(row["kind"], "circle") for row in incidents}
    return [Rule(at_ms, detail, shape) for (at_ms, detail), shape in sorted(shapes.items())]
