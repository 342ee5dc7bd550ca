"""Charts of those who make the lower bound: what writers note and cost, when controllers run cycles and own buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise, repeat
from statistics import median
from typing import Any, Final

from wmlab.core.charts.axis import Axis, OverTime, bulk_of_curves, duration_unit, time_axis
from wmlab.core.charts.chart import (
    SERIES,
    SHAPES,
    Chart,
    columns_of,
    faults,
    one_stream,
    plain_columns,
    share_of,
    stream_rows,
    the_recording,
    when,
)
from wmlab.core.charts.scene import Blocks, Box, Dots, Panel, Rule, Scene, Steps, at_rim, lanes
from wmlab.core.errors import ChartError
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import bare, counted, grouped, moment, rounded
from wmlab.streams.answers.cause import OF_WRITERS, CauseKind, CauseSpan
from wmlab.streams.answers.curves import LOG, Curves
from wmlab.streams.answers.measures import last_ms, owner_rows, ownership
from wmlab.streams.answers.stragglers import missing_cycles

LabelledSpan = tuple[str, int, int, str]
"""A writer, from when to when, and the words for the hover box."""

_MOST_MARKS: Final = 500
_MOST_SPANS: Final = 300
_SILENT_AFTER: Final = 1.5
"""A writer counts as silent after this many of its usual intervals without a mark."""
_COST_COLUMNS: Final = ("stream", "who", "why", "stretches", "held_ms", "worst_ms", "cost_ms")
_MOST_BLOCKING: Final = 12
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
    silent = _silences(marks, writers, end_ms)
    held_by = list(Curves(recording, name).spans(LOG, start_ms=marks[0]["received_ms"], end_ms=end_ms))
    blocking = _blocking_spans(held_by)
    accepted = [row for row in marks if row["outcome"] == "success"]
    refused = [row for row in marks if row["outcome"] != "success"]
    stall = missing_cycles(held_by)
    sentence = f"{_marks_sentence(name, marks, refused, blocking)}. {stall}".rstrip()
    part = "".join(
        f" Drawn are {_MOST_MARKS} of {grouped(len(rows))} {outcome} marks."
        for outcome, rows in (("accepted", accepted), ("refused", refused))
        if len(rows) > _MOST_MARKS
    )
    part += "".join(
        f" Drawn are the {_MOST_SPANS} longest of {grouped(len(spans))} stretches {which}."
        for which, spans in (("that held the lower bound", blocking), ("without a mark that was due", silent))
        if len(spans) > _MOST_SPANS
    )
    scene = Scene(
        title=title or f"Who noted time in {name}, and who held its lower bound?",
        subtitle=sentence + part,
        across=time_axis("clock", [marks[0]["received_ms"], *cycles_ms[:1], end_ms]),
        panels=[
            lanes(
                writers,
                [
                    _blocks("held the lower bound", "lower", blocking, writers, 0.30),
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


def _silences(marks: Sequence[TableRow], writers: Sequence[str], end_ms: int) -> list[LabelledSpan]:
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


def _blocking_spans(cause_spans: Sequence[CauseSpan]) -> list[LabelledSpan]:
    """Spans in which a writer blocked the bound, neighbours joined."""
    spans: list[LabelledSpan] = []
    newest: dict[str, int] = {}
    for span in cause_spans:
        why = "waited for" if span.cause.kind is CauseKind.LAGGING else "the slowest"
        for writer in span.cause.names if span.cause.kind in OF_WRITERS else ():
            index = newest.get(writer)
            if index is not None and spans[index][2] == span.from_ms:
                spans[index] = (writer, spans[index][1], span.to_ms, spans[index][3])
            else:
                newest[writer] = len(spans)
                spans.append((writer, span.from_ms, span.to_ms, f"{writer} held the lower bound: {why}"))
    return spans


def _blocks(name: str, role: str, spans: Sequence[LabelledSpan], writers: Sequence[str], opacity: float) -> Blocks:
    half = 0.42 if role == "lower" else 0.22
    boxes = [
        Box(begin, end, writers.index(writer) - half, writers.index(writer) + half, "", words)
        for writer, begin, end, words in sorted(spans, key=lambda s: s[1] - s[2])[:_MOST_SPANS]
        if writer in writers
    ]
    return Blocks(name=name, role=role, boxes=boxes, opacity=opacity)


def _dots(name: str, role: str, marks: Sequence[TableRow], writers: Sequence[str]) -> Dots:
    return Dots(
        name=name,
        role=role,
        shape="cross" if role == "alarm" else "circle",
        xs=[row["received_ms"] for row in marks],
        ys=[writers.index(row["writer"]) for row in marks],
        hover=[
            f"{row['writer']} noted {bare(row['time'], clock_ms=row['noted_ms'])} at {moment(row['noted_ms'])}; "
            f"{row['controller']}: {row['outcome']}"
            for row in marks
        ],
        size=2.6 if role == "third" else 4.5,
    )


def _marks_sentence(
    name: str, marks: Sequence[TableRow], refused: Sequence[TableRow], blocking: Sequence[LabelledSpan]
) -> str:
    were = "was" if len(marks) == 1 else "were"
    text = f"{counted(len(marks), 'mark')} {were} noted in {name}, {grouped(len(refused))} of them refused"
    longest = max(blocking, key=lambda span: span[2] - span[1], default=None)
    if longest is None:
        return f"{text}; no writer held the lower bound"
    writer, begin, end, _ = longest
    since = when(begin, span_ms=marks[-1]["received_ms"] - marks[0]["received_ms"])
    return f"{text}; {writer} held the lower bound longest, for {rounded(end - begin)} from {since}"


def holder_costs(table: Any, *, title: str | None = None) -> Chart:
    """Draw what each straggler of a lower bound cost, one bar per straggler and cause, the most expensive first.

    `table` is the answer of `recording.explain()` or a DataFrame with its columns: stream, who, why, stretches,
    held_ms, worst_ms and cost_ms (by how much it raised the mean lag, ms, null if it cannot be measured). It may have
    `against`, what a cost is measured against; costs against the clock, of those that blocked it with nobody beside
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
    rows.sort(key=lambda row: (_is_alone(row), -(row["cost_ms"] or 0), -row["held_ms"]))
    sentence = _costs_sentence(streams[0], rows)
    left_out = f" {len(rows) - _MOST_BLOCKING} more cost less." if len(rows) > _MOST_BLOCKING else ""
    shown = rows[:_MOST_BLOCKING]
    top_ms = max(1, *(round(row["cost_ms"] or 0) for row in shown))
    scene = Scene(
        title=title or f"Who held the lower bound of {streams[0]}, and what did it cost?",
        subtitle=sentence + left_out,
        across=Axis("raised the mean lag by", 0, top_ms, False, duration_unit(top_ms)),
        panels=[lanes([_name(row) for row in shown], _bars(shown))],
    )
    return Chart(sentence=sentence, data=columns_of(rows, _COST_COLUMNS), scene=scene)


def _is_alone(row: TableRow) -> bool:
    """Whether a straggler's cost is measured against the clock, since nobody else was there."""
    return row.get("against") == "the clock"


def _name(row: TableRow) -> str:
    alone = ", alone" if _is_alone(row) else ""
    return f"{row['who']} ({row['why']}{alone})" if row["why"] in _ROLE or alone else str(row["who"])


def _bars(shown: Sequence[TableRow]) -> list[Blocks]:
    """The bars by cause, each with its price beside it."""
    bars: dict[str, list[Box]] = {}
    for index, row in enumerate(shown):
        price = _price(row)
        label = f"{price}, held {rounded(row['held_ms'])}"
        box = Box(0, round(row["cost_ms"] or 0), index - 0.3, index + 0.3, label, f"{_name(row)}: {label}")
        bars.setdefault(row["why"], []).append(box)
    return [
        Blocks(name=why, role=_ROLE.get(why, "unknown"), boxes=boxes, opacity=0.85, legend=False, beside=True)
        for why, boxes in bars.items()
    ]


def _price(row: TableRow) -> str:
    if row["cost_ms"] is None:
        return "no bound" if row.get("against") == "no bound" else "cost unknown"
    return f"{rounded(round(row['cost_ms']))}{' behind the clock' if _is_alone(row) else ''}"


def _costs_sentence(stream: str, rows: Sequence[TableRow]) -> str:
    total = sum(row["cost_ms"] or 0 for row in rows if not _is_alone(row))
    alone = [row for row in rows if _is_alone(row) and row["cost_ms"]]
    if not total and alone:
        first = alone[0]
        return (
            f"{first['who']} ({first['why']}) held the lower bound of {stream} for {rounded(first['held_ms'])} with "
            f"nobody else to compare: behind the clock, that makes {rounded(round(first['cost_ms']))} of mean lag."
        )
    if not total:
        return f"Nobody held the lower bound of {stream} below what the others had noted."
    first = rows[0]
    cost = first["cost_ms"]
    return (
        f"{first['who']} ({first['why']}) cost most: the lower bound of {stream} was on average "
        f"{rounded(round(cost))} lower for it, {cost / total:.0%} of what all holders cost; it held "
        f"for {rounded(first['held_ms'])}."
    )


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
    sentence = f"{_describe_cycles(name, cycles)}. {missing_cycles(held_by)}".rstrip()
    fewer = f" Drawn are {grouped(len(shown))} of {grouped(len(cycles))} cycles." if len(shown) < len(cycles) else ""
    times = OverTime.steps([row["at_ms"] for row in cycles], [row["previous_lower"] for row in cycles])
    last = OverTime.steps([0], [mark["lower"] for mark in stream_rows(recording, "watermarks", name)][-1:])
    bound = Steps(
        name="previous lower bound",
        role="perfect",
        xs=[row["at_ms"] for row in shown],
        ys=[row["previous_lower"] for row in shown],
    )
    clock = [cycles[0]["at_ms"], cycles[-1]["at_ms"]]
    ends = bulk_of_curves([times], [last], least_ms=clock[1] - clock[0])
    up = time_axis("event time", ends, pad_percent=5, clock=clock)
    fewer += f" {said}" if (said := up.said_beyond({"the previous lower bound": times})) else ""
    scene = Scene(
        title=title or f"When did the watermark cycle of {name} emit, and why not?",
        subtitle=sentence + fewer,
        across=time_axis("clock", clock, pad_percent=2),
        panels=[
            lanes(controllers, [_cycles(emitted, shown, controllers) for emitted in (True, False)]),
            Panel(up=up, height=200.0, layers=at_rim(up, [bound])),
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
        hover=[_cycle_in_words(row) for row in cycles],
        size=3.0 if emitted else 4.0,
    )


def _cycle_in_words(row: TableRow) -> str:
    removed = f"; dropped {', '.join(row['removed'])}" if row["removed"] else ""
    return f"{moment(row['at_ms'])}, {row['controller']}: {row['reason'] or row['outcome']}{removed}"


def _describe_cycles(name: str, cycles: Sequence[TableRow]) -> str:
    not_emitted = [row for row in cycles if row["outcome"] != "emitted"]
    emitted = grouped(len(cycles) - len(not_emitted))
    text = f"{counted(len(cycles), 'cycle')} ran for {name}, {emitted} of them emitted a watermark"
    if not not_emitted:
        return f"{text}; none was held"
    waited = Counter(writer for row in not_emitted for writer in row["lagging"])
    reasons = waited or Counter(row["reason"] for row in not_emitted)
    cause, count = min(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    all_of_them = {1: "the other one", 2: "both others"}.get(
        len(not_emitted), f"all {grouped(len(not_emitted))} others"
    )
    others = all_of_them if count == len(not_emitted) else f"{grouped(count)} of the {grouped(len(not_emitted))} others"
    were = "was" if count == 1 else "were"
    return f"{text}; {others} {f'waited for {cause}' if waited else f'{were} held because: {cause}'}"


def bucket_ownership(recording: Recording, *, title: str | None = None) -> Chart:
    """Draw who owned each bucket of streams over time, by the word of the coordination service.

    A bucket without an owner runs no cycle, so the bounds of its streams stand still. Buckets without streams are left
    out, and those beyond the first 30. Raises `ChartError` for what is no recording of streams, and `RecordingError` if
    one controller owned everything all the time, which is not recorded.
    """
    the_recording(recording, "ownership")
    owners, rows = ownership(recording), owner_rows(recording)
    end_ms = last_ms(recording, rows)
    every = sorted({row["bucket"] for row in rows})
    used = sorted({row["bucket"] for row in rows if row["streams"]})
    buckets = (used or every)[:_MOST_BUCKETS]
    which = "those with streams" if buckets == used else "the first with streams" if used else "the first"
    fewer = f" Drawn are {len(buckets)} of {len(every)} buckets, {which}." if buckets != every else ""
    controllers = sorted({row["controller"] for row in rows})
    roles = chain(SERIES, repeat("unknown"))
    layers = [_owned(controller, next(roles), rows, buckets, end_ms) for controller in controllers]
    layers.append(_nobody(owners.gaps, buckets))
    scene = Scene(
        title=title or "Who owned which bucket of streams?",
        subtitle=owners.sentence + fewer,
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
            words = f"bucket {row['bucket']}: {controller} from {moment(row['from_ms'])} to {moment(to_ms)}"
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
