"""Diagrams: the messages around a moment, who talks to whom in a run, and how segments descend from each other.

Who talks to whom and how segments descend are drawn in Mermaid. JupyterLab draws the text itself. Every other viewer
shows the text, which reads well as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, product
from typing import Any, Final

import pyarrow as pa

from wmlab.core import mermaid
from wmlab.core.arguments import the_duration, the_moment, the_names
from wmlab.core.charts.axis import Axis, Coordinate, duration_unit
from wmlab.core.charts.chart import (
    Chart,
    chart_of,
    drawn_words,
    one_stream,
    one_value,
    plain_columns,
    share_of,
    stream_rows,
    the_recording,
)
from wmlab.core.charts.diagram import Diagram
from wmlab.core.charts.scene import Layer, Path, dots, lanes
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words, in_mermaid, is_instant, rounded
from wmlab.streams.answers.head_labels import asked
from wmlab.streams.answers.history import segments_of
from wmlab.streams.answers.messages import (
    Message,
    exact_clock,
    kinds_of,
    lineage_sentence,
    message_head,
    topology_sentence,
)
from wmlab.streams.model.segment import segment_name

_MOST: Final = 240
"""Messages drawn at most: more lines cannot be distinguished."""
_ABREAST: Final = 12
"""Messages drawn at most of one kind from one party to another that are on their way at once."""
_CLOSE: Final = 40
"""Messages from which on the lines are thin."""
_LOOKS: Final = ("lower", "upper", "perfect")
"""The roles of the three most frequent kinds; all others share the next."""
_OTHER: Final = "unknown"
_STUB_SHARE: Final = 0.02
_LIFELINE_HEIGHT, _DIAGRAM_HEIGHT = 50.0, 260.0
"""The height of a party's line at least, and of all of them together at least."""


Course = tuple[Message, Coordinate, Coordinate, Coordinate, Coordinate]
"""A message with its line: from when and which line, counted from the top, to when and which line."""


def message_diagram(
    table: Any,
    *,
    around_ms: int | None = None,
    span_ms: int = 1_000,
    parties: Sequence[str] | None = None,
    title: str | None = None,
) -> Chart:
    """Draw the messages that were in flight around a moment as lines from sender to receiver.

    `table` is a recording, or a pandas or Spark DataFrame with the columns stream, sent_ms, received_ms (null: it did
    not arrive), sender, receiver, kind and content; `around_ms` is the moment, which is required, and `span_ms` is the
    length of the period shown. `parties` chooses the nodes and their order. A message that did not arrive ends in a
    cross. Of many messages the nearest are drawn, and of those in flight at the same time a share. Raises `ChartError`
    for anything else, no moment, a missing column, several streams, or if no message was in flight.
    """
    columns = plain_columns(
        table,
        Message._fields,
        chart="A message diagram",
        example="recording.to_pandas('messages')",
        recorded="messages",
    )
    around_ms = _moment(around_ms, columns["sent_ms"])
    span_ms = the_duration(span_ms, ChartError, name="span_ms")
    parties = None if parties is None else the_names(parties, "parties", ChartError)
    if span_ms <= 0:
        raise ChartError(f"A span of {span_ms} ms shows nothing.", remedy="Give span_ms as a positive number.")
    from_ms, to_ms = around_ms - span_ms // 2, around_ms + (span_ms + 1) // 2
    messages = [
        message._replace(content=message.content or "")
        for message in map(Message._make, zip(*columns.values(), strict=True))
        if message.sent_ms <= to_ms and message.end_ms >= from_ms
        if parties is None or {message.sender, message.receiver} <= set(parties)
    ]
    if not messages:
        raise ChartError(
            f"No message was on its way within {rounded(span_ms // 2)} of {exact_clock(around_ms, span_ms)}.",
            remedy="Choose another moment, a longer span_ms, or record a scenario that keeps its messages.",
        )
    streams = sorted({message.stream for message in messages if message.stream is not None})
    one_value("stream", streams)
    messages.sort(key=lambda m: (m.sent_ms, m.end_ms, *m[3:]))
    nearest = sorted(range(len(messages)), key=lambda i: abs(messages[i].sent_ms - around_ms))[:_MOST]
    near = _apart([messages[i] for i in sorted(nearest)])
    nodes = list(dict.fromkeys(parties or _side_by_side(near)))
    clock = Axis("clock", from_ms, to_ms, is_instant([from_ms, to_ms]), duration_unit(span_ms))
    moment = Path(name="moment", role="mark", xs=[around_ms] * 2, ys=(-0.5, len(nodes) - 0.5), legend=False)
    head = message_head(messages)
    fewer = drawn_words((len(near), len(messages), f"messages{', the nearest' if len(messages) > _MOST else ''}"))
    within = f" in {streams[0]}" if streams else ""
    data = dict(zip(Message._fields, map(list, zip(*messages, strict=True)), strict=True))
    return chart_of(
        head.headline,
        data,
        facts=head.facts,
        title=title or asked("messages", within=within, moment=exact_clock(around_ms, span_ms)),
        note=fewer,
        across=clock,
        panels=[
            lanes(
                nodes,
                [moment, *_layers([_course(m, nodes, span_ms) for m in near], clock)],
                height=max(_LIFELINE_HEIGHT, _DIAGRAM_HEIGHT / len(nodes)),
            )
        ],
    )


def _apart(messages: Sequence[Message]) -> list[Message]:
    """The messages; of many alike that are on their way at once an even share, whose lines can be told apart."""
    alike: dict[tuple[str, str, str], list[Message]] = {}
    for message in messages:
        alike.setdefault((message.sender, message.receiver, message.kind), []).append(message)
    drawn = []
    for group in alike.values():
        changes = sorted((at, step) for m in group for at, step in ((m.sent_ms, 1), (m.end_ms, -1)))
        most = max(accumulate(step for _, step in changes))
        drawn += share_of(group, max(len(group) * _ABREAST // max(most, _ABREAST), 1))
    return sorted(drawn, key=lambda m: (m.sent_ms, m.end_ms))


def _moment(around_ms: int | None, sent_ms: Sequence[Any]) -> int:
    """The moment that was given; raises `ChartError` if none was, with one at which a message was sent."""
    if around_ms is not None:
        return the_moment(around_ms, ChartError, name="around_ms")
    first = [at_ms for at_ms in sent_ms if at_ms is not None]
    raise ChartError(
        "A message diagram shows what was said around a moment, and none is given.",
        remedy=f"Give one, for example around_ms={min(first)}, when the first message was sent."
        if first
        else "Give around_ms, and record a scenario that keeps its messages.",
    )


def _course(message: Message, nodes: Sequence[str], span_ms: int) -> Course:
    """From where to where a message is drawn; a lost one breaks off half-way."""
    begin, end = nodes.index(message.sender), nodes.index(message.receiver)
    if message.received_ms is not None:
        return message, message.sent_ms, begin, message.received_ms, end
    return message, message.sent_ms, begin, message.sent_ms + round(span_ms * _STUB_SHARE), (begin + end) / 2


def _layers(courses: Sequence[Course], clock: Axis) -> list[Layer]:
    """The courses by kind, or sender, and where they end; the three most frequent have roles of their own."""
    names = kinds_of([message for message, *_ in courses])
    groups = sorted({*names}, key=lambda name: (-names.count(name), name))
    own, others = groups[: len(_LOOKS)], groups[len(_LOOKS) :]
    named = list(zip(names, courses, strict=True))
    layers: list[Layer] = [_lines(group, role, named, [group], clock) for group, role in zip(own, _LOOKS, strict=False)]
    if others:
        name = others[0] if len(others) == 1 else f"{len(others)} others"
        layers.append(_lines(name, _OTHER, named, others, clock))
    arrived = [course for course in courses if course[0].received_ms is not None and course[3] <= clock.high]
    lost = [course for course in courses if course[0].received_ms is None]
    return [
        *layers,
        dots("arrived", "text", "circle", _ends(arrived), size=3.0, legend=False),
        dots("did not arrive", "alarm", "cross", _ends(lost), size=4.5),
    ]


def _lines(name: str, role: str, named: Sequence[tuple[str, Course]], groups: Sequence[str], clock: Axis) -> Path:
    """The messages of some groups, cut off where the shown clock begins and ends."""
    xs: list[Coordinate | None] = []
    ys: list[Coordinate | None] = []
    for group, (_, sent, begin, arrived, end) in named:
        if group in groups:
            slope = (end - begin) / (arrived - sent) if arrived > sent else 0
            first, last = max(sent, clock.low), min(arrived, clock.high)
            xs += [*([None] if xs else []), first, last]
            ys += [*([None] if ys else []), begin + slope * (first - sent), end - slope * (arrived - last)]
    return Path(name=name, role=role, xs=xs, ys=ys, thin=len(named) > _CLOSE)


def _ends(courses: Sequence[Course]) -> Iterator[tuple[Coordinate, Coordinate, str]]:
    """The points at which messages arrived, or broke off, with what the messages say."""
    return ((arrived, end, message.words) for message, _, _, arrived, end in courses)


def _side_by_side(messages: Sequence[Message]) -> list[str]:
    """The nodes from top to bottom: those with many messages between them stand side by side."""
    weight = Counter(frozenset((message.sender, message.receiver)) for message in messages)
    rest = sorted({node for pair in weight for node in pair})
    ordered = [rest.pop(0)]
    while rest:
        ordered.append(min(rest, key=lambda node: (-weight[frozenset((ordered[-1], node))], node)))
        rest.remove(ordered[-1])
    return ordered


def lineage(recording: Recording, *, stream: str | None = None) -> Diagram:
    """Draw which segment is the successor of which, by the overlap of their keys at a seal.

    Raises `ChartError` if there are several streams and none is chosen.
    """
    name = one_stream(recording, stream, "segments")
    rows = stream_rows(recording, "segments", name, by="segment_id")
    epochs = [set(row["segment_ids"]) for row in stream_rows(recording, "epochs", name, by="epoch")]
    lines = [mermaid.head(len(epochs))]
    for row in rows:
        until = "open" if row["sealed_ms"] is None else f"sealed at {clock_words(row['sealed_ms'])}"
        lines.append(f'  s{row["segment_id"]}["{segment_name(row["segment_id"])}: keys {row["keys"]}, {until}"]')
    segments = segments_of(recording, name)
    lines += [
        f"  s{old} --> s{new}"
        for before, after in pairwise(epochs)
        for old, new in product(sorted(before - after), sorted(after - before))
        if segments[old].keys.overlaps(segments[new].keys)
    ]
    return Diagram(lineage_sentence(rows), "\n".join(lines))


def topology(recording: Recording) -> Diagram:
    """Draw the writers, the controllers that combined the marks of each stream, and the readers.

    Raises `ChartError` for anything but a recording, and for one without streams.
    """
    the_recording(recording, "segments")
    streams = sorted(set(recording.table("segments")["stream"].to_pylist()))
    if not streams:
        raise ChartError(
            f"Recording {recording.name!r} has no stream to draw.",
            remedy="Draw the plan or the dataflow that was recorded instead.",
        )
    lines = ["flowchart LR"]
    lines += [f'  {_id(stream)}[("{in_mermaid(stream)}")]' for stream in streams]
    counts = {"Streams": len(streams)}
    for noun, tables, arrow, shape in (
        ("writers", ("writer_marks", "events"), "{node} -- events and marks --> {stream}", '(["{name}"])'),
        ("controllers", ("cycles",), "{node} -. watermarks .-> {stream}", '{{{{"{name}"}}}}'),
        ("readers", ("windows", "positions"), "{stream} -- events and bounds --> {node}", '(["{name}"])'),
    ):
        pairs = {pair for table in tables for pair in _pairs(recording, table, noun.removesuffix("s"))}
        names = sorted({node for _, node in pairs})
        counts[noun] = len(names)
        lines += [f"  {_id(node)}{shape.format(name=in_mermaid(node))}" for node in names]
        lines += ["  " + arrow.format(node=_id(node), stream=_id(stream)) for stream, node in sorted(pairs)]
    return Diagram(topology_sentence(counts), "\n".join(lines))


def _pairs(recording: Recording, table: str, column: str) -> set[tuple[str, str]]:
    chunks = recording.chunks(table, "stream", column)
    pairs = pa.concat_tables(chunk.group_by(["stream", column]).aggregate([]) for chunk in chunks)
    return {(row["stream"], row[column]) for row in pairs.to_pylist() if row[column] is not None}


def _id(name: str) -> str:
    """A name that Mermaid takes as an identifier."""
    return "n_" + "".join(letter if letter.isalnum() else f"_{ord(letter):x}_" for letter in name)
