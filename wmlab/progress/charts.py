"""Charts of progress by origin, sequence and chunk: what holds the watermark, where a gap is, when windows fire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, cycle, islice, pairwise
from typing import Any, Final

from wmlab.core import namespace
from wmlab.core.charts.axis import Axis, Numbers, Piece, held, shown_range, single, time_axis, time_words
from wmlab.core.charts.chart import (
    Chart,
    chart_of,
    columns_of,
    faults,
    one_stream,
    one_value,
    plain_columns,
    share_of,
    stream_rows,
    whole,
)
from wmlab.core.charts.scene import (
    Between,
    Blocks,
    Box,
    ConstantSpan,
    Dots,
    Panel,
    Shape,
    Steps,
    Value,
    behind_furthest,
    constant_spans,
    merge_equal,
    thin,
    thinned,
)
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import counted, grouped, listed, moment, rounded, shown
from wmlab.progress.diagram import plan as plan
from wmlab.progress.model.tracker import blocking
from wmlab.progress.scenario import last_of

__all__ = ["plan", "progress", "sequence_prefix", "windows_firing"]
namespace(__name__)

_CAP: Final = 600
"""Points drawn at most of each curve, about."""
_HEIGHT: Final = 320.0
_ROLES: Final = ("upper", "third", "fourth", "perfect")
_NUMBERS: Final = (
    "arrival", "arrived_ms", "origin", "sequence", "watermark", "prefix", "local_watermark", "global_watermark",
)  # fmt: skip
_NAMES: Final = ("stream", "operator", "emitter")
_UNKNOWN: Final = ("local_watermark", "global_watermark")
"""The columns that may be unknown."""
_NOTED: Final = {"prefix": "reached_prefix", "local_watermark": "reached_local", "global_watermark": "reached"}
"""The columns of progress, and the names of what the operator itself noted of them in the table `buffers`."""
_EXAMPLE: Final = (
    "wm.progress.spark.progress(recording.spark(spark, 'buffers').where(\"operator = 'build'\")), or a recording of "
    "query plans"
)
Table = Mapping[str, list[Any]]
"""The arrivals at one operator in their order, as lists by column; None is unknown."""


def progress(
    progressed: Any, *, stream: str | None = None, operator: str | None = None, title: str | None = None
) -> Chart:
    """Draw the local watermark of every origin over the global one, and how far each is behind the furthest.

    `progressed` is a recording of query plans, for which the values that the operator itself recorded are drawn; or a
    pandas or Spark DataFrame as `wm.progress.spark.progress` gives it, with stream, operator, arrival, arrived_ms,
    origin, emitter, sequence, watermark, prefix, local_watermark and global_watermark. `stream` chooses a query and
    `operator` an operator; of a recording that is by default the build of the last windows or, without windows, the
    sink. Raises `ChartError` for anything else, a missing column, no rows, or several queries or operators of which
    none is chosen.
    """
    table = _read_progress(progressed, stream, operator)
    sentence = _describe_progress(table)
    roles = [*islice(cycle(_ROLES), len(_emitters(table)))]
    curves = [_local(table, emitter, role) for emitter, role in zip(_emitters(table), roles, strict=True)]
    xs, ys = thinned(table["arrived_ms"], table["global_watermark"], _CAP)
    # It lies on the curve of the origin that holds it, so it is broad and beneath the others.
    curves.append(Steps(name="global", role="coalesced", xs=xs, ys=ys))
    every = [_over_time(_of(table, emitter), table) for emitter in _emitters(table)]
    every.append(held(table["arrived_ms"], table["global_watermark"]))
    clock = time_axis("clock", table["arrived_ms"])
    ends = shown_range(every, least_ms=clock.high - clock.low)
    up = time_axis("watermark", ends, pad_percent=4, clock=table["arrived_ms"])
    columns = {name: table[name] for name in ("emitter", *_UNKNOWN)}
    return chart_of(
        sentence,
        {"at_ms": table["arrived_ms"]} | columns,
        title=title or f"What is the watermark at {table['operator'][0]} of {table['stream'][0]}, and who holds it?",
        across=clock,
        panels=[Panel(up=up, layers=merge_equal(curves), height=_HEIGHT), *_behind(table, roles)],
    )


def _behind(table: Table, roles: Sequence[str]) -> list[Panel]:
    """How far each origin is behind the furthest one, after each arrival."""
    last: dict[str, Value] = dict.fromkeys(_emitters(table))
    watermarks: dict[str, list[Value]] = {emitter: [] for emitter in last}
    for emitter, watermark in zip(table["emitter"], table["local_watermark"], strict=True):
        last[emitter] = watermark
        for name, values in watermarks.items():
            values.append(last[name])
    return behind_furthest(table["arrived_ms"], watermarks, roles, most=_CAP)


def sequence_prefix(
    progressed: Any,
    *,
    emitter: str | None = None,
    stream: str | None = None,
    operator: str | None = None,
    title: str | None = None,
) -> Chart:
    """Draw the longest complete prefix of one origin, the arriving buffers, and the gap that they wait for.

    `progressed`, a recording or a DataFrame, `stream` and `operator` are as for `progress`; `emitter` names the origin
    and is not needed if there is only one. Raises `ChartError` as `progress`, and for an origin that is not there.
    """
    table = _read_progress(progressed, stream, operator)
    chosen = _chosen(table, emitter)
    arrivals = _of(table, chosen)
    sentence = _describe_prefix(arrivals, chosen, time_words(table["arrived_ms"]))
    at_ms, sequences = arrivals["arrived_ms"], arrivals["sequence"]
    reached: list[Value] = [*arrivals["prefix"]]
    highest: list[Value] = [*accumulate(sequences, max)]
    indices = thin([reached, highest], _CAP, xs=at_ms)
    xs, below, above = [at_ms[i] for i in indices], [reached[i] for i in indices], [highest[i] for i in indices]
    return chart_of(
        sentence,
        {"at_ms": at_ms, "sequence": sequences, "prefix": reached},
        title=title or f"How long is the complete prefix of {chosen}?",
        across=time_axis("clock", at_ms),
        panels=[
            Panel(
                up=Numbers("sequence number", 0, max(sequences) + 1),
                height=_HEIGHT,
                layers=[
                    Between(xs=xs, lows=below, highs=above),
                    Steps(name="highest seen", role="perfect", xs=xs, ys=above),
                    Steps(name="prefix", role="lower", xs=xs, ys=below),
                    Dots(name="arrival", role="upper", shape="circle", xs=at_ms, ys=sequences, size=2.2),
                ],
            )
        ],
    )


def _chosen(table: Table, emitter: str | None) -> str:
    if emitter is None and len(_emitters(table)) == 1:
        return _emitters(table)[0]
    if emitter not in _emitters(table):
        named = "none is named" if emitter is None else f"{emitter!r} is none of them"
        raise ChartError(
            f"The table has the origins {', '.join(_emitters(table))}; {named}.",
            remedy=f"Name one, for example emitter={_emitters(table)[0]!r}.",
        )
    return emitter


def _local(table: Table, emitter: str, role: str) -> Steps:
    """An origin's local watermark; it holds to the end of the table."""
    arrivals = _of(table, emitter)
    xs, ys = thinned(arrivals["arrived_ms"], arrivals["local_watermark"], _CAP)
    return Steps(name=emitter, role=role, xs=[*xs, table["arrived_ms"][-1]], ys=[*ys, arrivals["local_watermark"][-1]])


def _over_time(arrivals: Table, table: Table) -> list[Piece]:
    """An origin's local watermark, up to the end of the table."""
    return held(
        [*arrivals["arrived_ms"], table["arrived_ms"][-1]],
        [*arrivals["local_watermark"], arrivals["local_watermark"][-1]],
    )


def _emitters(table: Table) -> list[str]:
    """The origins' names, in the order of their ids."""
    ids = dict(zip(table["emitter"], table["origin"], strict=True))
    return sorted(ids, key=lambda name: ids[name])


def _of(table: Table, emitter: str) -> Table:
    """The arrivals of one origin."""
    rows = [row for row, name in enumerate(table["emitter"]) if name == emitter]
    return {name: [values[row] for row in rows] for name, values in table.items()}


def _read_progress(offered: Any, stream: str | None, operator: str | None) -> Table:
    """The arrivals at one operator of one query, of a recording or of a table of progress.

    Raises `ChartError` for what is neither, a missing column, no rows, several queries or operators, one that is not
    there, and a number that is none.
    """
    if isinstance(offered, Recording):
        cells = _noted(offered, stream, operator)
    else:
        cells = plain_columns(offered, (*_NAMES, *_NUMBERS), chart="A chart of progress", example=_EXAMPLE)
        cells = _only(_only(cells, "stream", stream), "operator", operator)
    if not cells["arrival"]:
        raise ChartError("The table of progress has no rows.", remedy="Choose a query and an operator that has some.")
    for name in ("stream", "operator"):
        one_value(name, cells[name])
    cells |= {name: [whole(name, value, unknown=name in _UNKNOWN) for value in cells[name]] for name in _NUMBERS}
    cells |= {name: [str(value) for value in cells[name]] for name in _NAMES}
    order = sorted(range(len(cells["arrival"])), key=lambda row: cells["arrival"][row])
    return {name: [values[row] for row in order] for name, values in cells.items()}


def _noted(recording: Recording, stream: str | None, operator: str | None) -> dict[str, list[Any]]:
    """What an operator took prefix and watermarks to be after each arrival, in the columns of a table of progress."""
    name = one_stream(recording, stream, "buffers")
    rows = columns_of(stream_rows(recording, "buffers", name), recording.schemas["buffers"].names)
    rows |= {column: rows[noted] for column, noted in _NOTED.items()}
    return _only(rows, "operator", operator or last_of(rows["operator"]))


def _only(cells: dict[str, list[Any]], column: str, chosen: str | None) -> dict[str, list[Any]]:
    """The rows with one value in a column, all without one; raises `ChartError` if it is not there."""
    if chosen is None:
        return cells
    rows = [row for row, value in enumerate(cells[column]) if value == chosen]
    if not rows and cells[column]:
        known = sorted({str(value) for value in cells[column]})
        raise ChartError(
            f"{column} is {shown(chosen)}, which has no rows.", remedy=f"Give one of {', '.join(map(repr, known))}."
        )
    return {name: [values[row] for row in rows] for name, values in cells.items()}


def _longest(table: Table) -> ConstantSpan:
    """The longest standstill of the global watermark; the first one of several."""
    return max(constant_spans(table["arrived_ms"], table["global_watermark"]), key=lambda stretch: stretch.length_ms)


def _blocking_emitters(table: Table, stretch: ConstantSpan) -> list[str]:
    """The origins whose local watermark was the global one all through a stretch; without one, those unheard of."""
    last: dict[str, Value] = dict.fromkeys(_emitters(table))
    for row in range(stretch.rows.stop):
        last[table["emitter"][row]] = table["local_watermark"][row]
    return blocking(last, stretch.value)


def _describe_progress(table: Table) -> str:
    """The sentence of the chart of watermarks."""
    when = time_words(table["arrived_ms"])
    stretch = _longest(table)
    known = [value for value in table["global_watermark"] if value is not None]
    if not known:
        silent = _blocking_emitters(table, stretch)
        names = listed(silent, most=3)
        who = f"; nothing complete came from {names}" if names else ", for a declared origin sent nothing"
        return f"The global watermark is unknown throughout{who}."
    value = (
        "was unknown"
        if stretch.value is None
        else f"stood at {time_words(known, clock=table['arrived_ms'])(stretch.value)}"
    )
    end = "" if stretch.ended else ", the end of the table"
    by = listed(_blocking_emitters(table, stretch), most=3) or "an origin that had not sent"
    back = sum(a > b for a, b in pairwise(known))
    falls = f" It went back {counted(back, 'time')}." if back > 1 else " It went back once." if back else ""
    return (
        f"The global watermark {value} for {rounded(stretch.length_ms)} (from {when(stretch.from_ms)} to "
        f"{when(stretch.to_ms)}{end}), held by {by}.{falls}"
    )


def _describe_prefix(arrivals: Table, emitter: str, when: Callable[[int], str]) -> str:
    """The sentence of the chart of one origin's prefix, from its arrivals."""
    at_ms, prefix = arrivals["arrived_ms"], arrivals["prefix"]
    waiting = _waiting(arrivals["sequence"], prefix)
    most = max(waiting)
    if not most:
        every = f"All {counted(len(prefix), 'buffer')}" if len(prefix) > 1 else "The only buffer"
        return f"{every} of {emitter} came in order; its prefix never waited."
    # A gap is a stretch in which the prefix stands while something waits behind it.
    gapped: list[Value] = [p if w else None for p, w in zip(prefix, waiting, strict=True)]
    at_most = waiting.index(most)
    gap = next(stretch for stretch in constant_spans(at_ms, gapped) if at_most in stretch.rows)
    lacking = f"The prefix of {emitter} stood at {prefix[at_most]} for want of sequence {prefix[at_most] + 1}"
    begun, later = when(gap.from_ms), counted(most, "later number")
    if not gap.ended:
        return f"{lacking} from {begun} to the end; {later} {'waits' if most == 1 else 'wait'} behind it."
    jump = f"then the prefix jumped to {prefix[gap.rows.stop]}"
    return f"{lacking} for {rounded(gap.length_ms)} (from {begun}), with {later} behind it; {jump}."


def _waiting(sequences: Sequence[int], prefix: Sequence[int]) -> list[int]:
    """Of how many sequence numbers beyond the prefix something has come, after each arrival."""
    pending: set[int] = set()
    counts, reached = [], 0
    for sequence, length in zip(sequences, prefix, strict=True):
        if sequence > reached:
            pending.add(sequence)
        pending.difference_update(range(reached + 1, length + 1))
        reached = length
        counts.append(len(pending - {length + 1}))  # Of the next one only some chunks have come.
    return counts


_MOST: Final = 400
_LOOKS: Final[dict[str, tuple[str, Shape]]] = {
    "fired by the watermark": ("upper", "circle"),
    "fired at the end of the stream": ("third", "triangle"),
}


def windows_firing(
    recording: Recording, *, stream: str | None = None, operator: str | None = None, title: str | None = None
) -> Chart:
    """Draw when each window of a query fired, at its end in event time, and the global watermark that released it.

    A window fires when the watermark has reached its end, so its symbol is on or below the step. `stream` is the name
    of the query, `operator` that of the windows, by default the last ones that fired. Raises `ChartError` if there are
    several queries and none is chosen, no window fired, or none of the operator.
    """
    name = one_stream(recording, stream, "windows_fired")
    every = columns_of(stream_rows(recording, "windows_fired", name), recording.schemas["windows_fired"].names)
    cells = _only(every, "operator", operator or last_of(every["operator"]))
    fired = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    fired.sort(key=lambda row: (row["fired_ms"], row["sequence"]))
    columns = ("operator", "arrival", "arrived_ms", "reached")
    operators = {row["operator"] for row in fired}
    buffers = [row for row in stream_rows(recording, "buffers", name, columns) if row["operator"] in operators]
    buffers.sort(key=lambda row: row["arrival"])
    at_ms, reached = [row["arrived_ms"] for row in buffers], [row["reached"] for row in buffers]
    xs, ys = thinned(at_ms, reached, _MOST)
    sentence = _sentence(name, fired)
    dots = [_dots(kind, fired) for kind in _LOOKS]
    totals = {kind: sum(_kind(row) == kind for row in fired) for kind in _LOOKS}
    fewer = [f"{_MOST} of the {grouped(total)} {kind}" for kind, total in totals.items() if total > _MOST]
    note = f"Drawn are {listed(fewer)}." if fewer else ""
    clock = [*xs, *(row["fired_ms"] for row in fired)]
    ends, watermark = single(row["end"] for row in fired), held(at_ms, reached)
    event = shown_range([ends], [watermark], least_ms=max(clock) - min(clock))
    up = time_axis("event time", event, pad_percent=4, clock=xs)
    curve = Steps(name="global watermark", role="lower", xs=xs, ys=ys)
    columns_drawn = ("operator", "start", "end", "records", "fired_ms", "cause")
    data = {column: [row[column] for row in fired] for column in columns_drawn}
    return chart_of(
        sentence,
        data,
        title=title or f"When did the windows of {name} fire?",
        note=note,
        across=time_axis("clock", clock),
        panels=[Panel(up=up, height=300.0, layers=[*_without_one(fired, up), curve, *dots])],
        rules=faults(recording, name, without=("late", "held")),  # a worker that stands still is an incident of its own
    )


def _without_one(fired: Sequence[Mapping[str, Any]], up: Axis) -> list[Blocks]:
    """The longest time in which no window fired; nothing where all fired at once."""
    moments = sorted({row["fired_ms"] for row in fired})
    if len(moments) < 2:
        return []
    begin, end = max(pairwise(moments), key=lambda stretch: stretch[1] - stretch[0])
    box = Box(begin, end, up.low, up.high, "", f"no window fired for {rounded(end - begin)}")
    return [Blocks(name="longest time without one", role="unknown", boxes=[box], opacity=0.16, outlined=False)]


def _kind(row: Mapping[str, Any]) -> str:
    return "fired by the watermark" if row["cause"] == "watermark" else "fired at the end of the stream"


def _dots(kind: str, fired: Sequence[dict[str, Any]]) -> Dots:
    role, shape = _LOOKS[kind]
    shown = share_of([row for row in fired if _kind(row) == kind], _MOST)
    return Dots(
        name=kind,
        role=role,
        shape=shape,
        xs=[row["fired_ms"] for row in shown],
        ys=[row["end"] for row in shown],
        hover=[
            f"window {moment(row['start'], clock_ms=row['fired_ms'])} to "
            f"{moment(row['end'], clock_ms=row['fired_ms'])}: {counted(row['records'], 'record')}"
            for row in shown
        ],
        size=3.5,
    )


def _sentence(name: str, fired: Sequence[Mapping[str, Any]]) -> str:
    flushed = [_kind(row) for row in fired].count("fired at the end of the stream")
    text = f"{counted(len(fired), 'window')} of {name} fired"
    some = "" if flushed == len(fired) else f"{grouped(flushed)} of them "
    text += f", {some}only at the end of the stream" if flushed else ", all by the watermark"
    moments = sorted({row["fired_ms"] for row in fired})
    longest = max((after - before for before, after in pairwise(moments)), default=None)
    return f"{text}." if longest is None else f"{text}; the longest time without one was {rounded(longest)}."
