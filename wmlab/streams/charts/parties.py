"""Charts of the parties behind the lower bound: the notes of writers, holders, the cycles, and bucket owners.

Source: PDP-33, In-memory State and Periodic Watermark Workflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final

from wmlab.core.charts.axis import Axis, duration_unit, held, shown_range, single, time_axis
from wmlab.core.charts.chart import (
    SERIES,
    Chart,
    chart_of,
    columns,
    columns_of,
    drawn_words,
    faults,
    one_stream,
    one_value,
    plain_columns,
    rules_of,
    share_of,
    stream_rows,
    the_recording,
)
from wmlab.core.charts.scene import Blocks, Box, Dots, Panel, Shape, Steps, dots, lanes
from wmlab.core.errors import ChartError
from wmlab.core.facts import Facts
from wmlab.core.holders import OF_RUN, RUN_LABELS, Holder, of_first
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words, rounded
from wmlab.streams.answers.curves import LOG, Curves
from wmlab.streams.answers.cycles import (
    Membership,
    Standing,
    WriterSpan,
    all_cycles,
    cycle_head,
    cycle_words,
    generation_head,
    holding_writers,
    known_writers,
    mark_words,
    memberships,
    missing_marks,
    noting_head,
)
from wmlab.streams.answers.head_labels import asked
from wmlab.streams.answers.measures import last_ms, owner_rows, ownership
from wmlab.streams.answers.stops import stops_of
from wmlab.streams.answers.stragglers import run_of

_MOST_MARKS: Final = 500
_MOST_SPANS: Final = 300
_HOLDER_COLUMNS: Final = ("stream", "who", "why", "stretches", "held_ms")
_MOST_HOLDERS: Final = 12
_ROLE: Final = {"lagging": "upper", "slowest": "lower"}
"""Colour by cause: waited for, or merely the slowest; any other cause is grey."""


def writer_marks(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw when writers noted times, which were accepted or refused, where marks are missing, who blocked the bound.

    A mark counts as missing one and a half of the writer's usual intervals (their median) after its last one. The
    blocking writers are those of `explain`: the writers that the last cycle waited for, or whose time is the bound.
    Raises `ChartError` if there are several streams and none is chosen, or no marks. Of many marks, 500 accepted ones
    and 500 refused ones are drawn, evenly spread, and of the blocked periods the 300 longest.
    """
    name = one_stream(recording, stream, "writer_marks")
    marks = stream_rows(recording, "writer_marks", name, by="received_ms")
    writers = sorted({row["writer"] for row in marks})
    end_ms = run_of(recording, name)[1]
    missing = missing_marks(marks, end_ms)
    curves = Curves(recording, name)
    causes = list(curves.spans(LOG, start_ms=marks[0]["received_ms"], end_ms=end_ms))
    holding = holding_writers(causes)
    accepted = [row for row in marks if row["outcome"] == "success"]
    refused = [row for row in marks if row["outcome"] != "success"]
    curve, stop = next(stops_of(curves, end_ms), (LOG, None))
    head = noting_head(marks, stop if curve == LOG else None)
    fewer = drawn_words(
        (_MOST_MARKS, len(accepted), "accepted marks"),
        (_MOST_MARKS, len(refused), "refused marks"),
        (_MOST_SPANS, len(holding), "stretches that held the watermark, the longest"),
        (_MOST_SPANS, len(missing), "stretches without a mark that was due, the longest"),
    )
    return chart_of(
        head.headline,
        columns_of(marks, ("writer", "time", "noted_ms", "received_ms", "outcome")),
        facts=head.facts,
        title=title or asked("notes", stream=name),
        note=fewer,
        across=time_axis("clock", [marks[0]["received_ms"], end_ms]),
        panels=[
            lanes(
                writers,
                [
                    _blocks("held the watermark in the log", "lower", holding, writers, 0.30),
                    _blocks("no mark when one was due", "alarm", missing, writers, 0.12),
                    dots("accepted", "third", "circle", _marks(share_of(accepted, _MOST_MARKS), writers), size=2.6),
                    dots("refused", "alarm", "cross", _marks(share_of(refused, _MOST_MARKS), writers), size=4.5),
                ],
            )
        ],
        rules=faults(recording, name),
    )


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


def _marks(marks: Sequence[TableRow], writers: Sequence[str]) -> list[tuple[int, int, str]]:
    return [(row["received_ms"], writers.index(row["writer"]), mark_words(row)) for row in marks]


def holders(table: Any, *, title: str | None = None) -> Chart:
    """Draw how long each holder of a lower bound held it, one bar for each holder and cause, the longest first.

    `table` is the answer of `recording.explain()` or a DataFrame with its columns: stream, who, why, stretches and
    held_ms. `title` replaces the question above the chart. Raises `ChartError` for a missing column, no rows, or rows
    of several streams.
    """
    columns = plain_columns(table, _HOLDER_COLUMNS, (), chart="A chart of holders", example="recording.explain()")
    one_value("stream", columns["stream"])
    if not columns["stream"]:
        raise ChartError("The table of holders has no rows.", remedy="Keep the rows of one stream.")
    stream = columns["stream"][0]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    rows.sort(key=lambda row: -row["held_ms"])
    drawn = rows[:_MOST_HOLDERS]
    top_ms = max(1, rows[0]["held_ms"])
    first = Holder(**{name: rows[0][name] for name in _HOLDER_COLUMNS[1:]})
    facts = Facts(RUN_LABELS, of_first(f"watermark in the log of {stream}", [first]))
    return chart_of(
        facts.fill(OF_RUN[0]),
        columns_of(rows, _HOLDER_COLUMNS),
        facts=facts,
        title=title or asked("holders", stream=stream),
        note=drawn_words((len(drawn), len(rows), "causes, the first ones")),
        across=Axis("held for", 0, top_ms, False, duration_unit(top_ms)),
        panels=[lanes([_name(row) for row in drawn], _bars(drawn))],
    )


def _name(row: TableRow) -> str:
    return f"{row['who']} ({row['why']})"


def _bars(holders: Sequence[TableRow]) -> list[Blocks]:
    """The bars by cause, each with its length next to it."""
    bars: dict[str, list[Box]] = {}
    for index, row in enumerate(holders):
        label = rounded(row["held_ms"])
        box = Box(0, row["held_ms"], index - 0.3, index + 0.3, label, f"{_name(row)}: held for {label}")
        bars.setdefault(row["why"], []).append(box)
    return [
        Blocks(name=why, role=_ROLE.get(why, "unknown"), boxes=boxes, opacity=0.85, legend=False, beside=True)
        for why, boxes in bars.items()
    ]


_MOST_CYCLES: Final = 600
_MOST_BUCKETS: Final = 30


def watermark_cycles(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw each run of the watermark cycle in the row of its controller, above the previous watermark's lower bound.

    A cycle emits a watermark when every writer that it waits for has noted a time above that lower bound. Raises
    `ChartError` if there are several streams and none is chosen, or no cycles.
    """
    name = one_stream(recording, stream, "cycles")
    watermarks = stream_rows(recording, "watermarks", name, by="seq")
    cycles = all_cycles(stream_rows(recording, "cycles", name), watermarks)
    controllers = sorted({row["controller"] for row in cycles})
    drawn_cycles = share_of(cycles, _MOST_CYCLES)
    head = cycle_head(cycles)
    fewer = drawn_words((len(drawn_cycles), len(cycles), "cycles"))
    times = held([row["at_ms"] for row in cycles], [row["previous_lower"] for row in cycles])
    last = single([mark["lower"] for mark in watermarks][-1:])
    bound = Steps(
        name="previous lower bound",
        role="perfect",
        xs=[row["at_ms"] for row in drawn_cycles],
        ys=[row["previous_lower"] for row in drawn_cycles],
    )
    clock = [cycles[0]["at_ms"], cycles[-1]["at_ms"]]
    ends = shown_range([times], [last], least_ms=clock[1] - clock[0])
    up = time_axis("event time", ends, pad_percent=5, clock=clock)
    columns = ("controller", "at_ms", "previous_lower", "lagging", "removed", "outcome", "reason")
    return chart_of(
        head.headline,
        columns_of(cycles, columns),
        facts=head.facts,
        title=title or asked("cycles", stream=name),
        note=fewer,
        across=time_axis("clock", clock),
        panels=[
            lanes(
                controllers,
                [
                    dots("emitted", "lower", "circle", _cycles(True, drawn_cycles, controllers), size=3.0),
                    dots("held", "upper", "cross", _cycles(False, drawn_cycles, controllers)),
                ],
            ),
            Panel(up=up, height=200.0, layers=[bound]),
        ],
        rules=faults(recording, name),
    )


def _cycles(emitted: bool, cycles: Sequence[TableRow], controllers: Sequence[str]) -> list[tuple[int, int, str]]:
    cycles = [row for row in cycles if (row["outcome"] == "emitted") is emitted]
    return [(row["at_ms"], controllers.index(row["controller"]), cycle_words(row)) for row in cycles]


def bucket_ownership(recording: Recording, *, title: str | None = None) -> Chart:
    """Draw which controller owned each bucket of streams over time, according to the coordination service.

    For a bucket without an owner no cycle runs, so its streams get no watermark. Buckets without streams are left out,
    and those beyond the first 30. Raises `ChartError` for anything but a recording of streams, and
    `RecordingError` for a log from outside without buckets.
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
    return chart_of(
        owners.headline,
        columns_of(rows, ("bucket", "controller", "streams", "from_ms", "to_ms")),
        facts=owners.facts,
        title=title or asked("owners"),
        note=fewer,
        across=time_axis("clock", [min(row["from_ms"] for row in rows), end_ms]),
        panels=[lanes([_lane(bucket, rows) for bucket in buckets], layers)],
        rules=rules_of(
            (row["at_ms"], row["kind"], row["detail"])
            for row in recording.table("incidents").to_pylist()
            if row["subject"] == "controller" and row["target"] in controllers
        ),
    )


def _lane(bucket: int, rows: Sequence[TableRow]) -> str:
    streams = next(row["streams"] for row in rows if row["bucket"] == bucket)
    names = ", ".join(streams[:2]) + (", …" if len(streams) > 2 else "")
    return f"bucket {bucket}: {names or 'no stream'}"


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


_MOST_GENERATIONS: Final = 300
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

    Below it, the chart shows the barrier, which is the lower bound of the previous watermark, and the last noted time
    of the writers that were left out: a writer enters when its time is above the barrier. A writer that was left out
    has either noted nothing since the previous cycle (case a of the document) or notes older times (case b). There are
    lanes for at most 8 writers, those left out first, and lines for 4. Raises `ChartError` if there are several streams
    and none is chosen, or no cycles.
    """
    name = one_stream(recording, stream, "cycles")
    watermarks = stream_rows(recording, "watermarks", name, by="seq")
    cycles = all_cycles(stream_rows(recording, "cycles", name), watermarks)
    marks = [
        row for row in stream_rows(recording, "writer_marks", name, by="received_ms") if row["outcome"] == "success"
    ]
    entries = memberships(cycles, marks)
    known = known_writers(entries)
    writers = sorted(known[:_MOST_WRITERS])
    drawn_cycles = share_of(cycles, _MOST_GENERATIONS)
    moments = {row["at_ms"] for row in drawn_cycles}
    drawn = [entry for entry in entries if entry.at_ms in moments and entry.writer in writers]
    head = generation_head(cycles, entries)
    fewer = drawn_words((_MOST_GENERATIONS, len(cycles), "cycles"), (_MOST_WRITERS, len(known), "writers"))
    clock = [cycles[0]["at_ms"], cycles[-1]["at_ms"]]
    left_out = {entry.writer for entry in entries if entry.standing in (Standing.SILENT, Standing.OLDER)}
    curves = _curves(drawn_cycles, [writer for writer in known if writer in left_out][:_LINES], marks, entries)
    ends = shown_range([held(curve.xs, curve.ys) for curve in curves], least_ms=clock[1] - clock[0])
    up = time_axis("event time", ends, pad_percent=5, clock=clock)
    return chart_of(
        head.headline,
        columns(entries, "at_ms", "barrier", "writer", "standing"),
        facts=head.facts,
        title=title or asked("generations", stream=name),
        note=fewer,
        across=time_axis("clock", clock),
        panels=[
            lanes(writers, _standings(drawn, writers)),
            Panel(up=up, height=200.0, layers=curves),
        ],
        rules=faults(recording, name, without=["note"]),  # these are in the lower panel
    )


def _standings(entries: Sequence[Membership], writers: Sequence[str]) -> list[Dots]:
    """Every cycle in the lanes of the writers, by what each was to it."""
    layers = []
    for standing, (role, shape, size) in _LOOKS.items():
        points = (
            (at_ms, writers.index(writer), f"{clock_words(at_ms)}, {writer}: {standing.value}")
            for at_ms, _, writer, its in entries
            if its is standing
        )
        layers.append(dots(standing.value, role, shape, points, size=size))
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
