"""Charts of progress by origin, sequence and chunk: what holds the watermark, where a gap is, when windows fire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, cycle, islice, pairwise
from typing import Any, Final

from wmlab.core import namespace
from wmlab.core.charts.axis import Numbers, held, shown_range, single, time_axis
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
from wmlab.core.facts import Facts, Head, Value as FactValue
from wmlab.core.recording import Recording
from wmlab.core.words import counted, grouped, listed, moment, shown
from wmlab.progress.answers.explain import explain_plan
from wmlab.progress.answers.vocabulary import LABELS, OF_PREFIX, OF_PROGRESS, OF_WINDOWS, Templates
from wmlab.progress.diagram import plan as plan
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
_OF_STOP: Final = ("longest stop", "at", "from", "to", "stop held by")
"""What an answer about a whole run tells of the longest stop of a watermark, in its labels."""
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
    sink. The headline of a recording names whom `explain` of the run does; of a table nobody is known who held the
    watermark. Raises `ChartError` for anything else, a missing column, no rows, or several queries or operators of
    which none is chosen.
    """
    table = _read_progress(progressed, stream, operator)
    chosen = {"stream": table["stream"][0], "operator": table["operator"][0]}
    is_run = isinstance(progressed, Recording)
    head = _head_of_progress(table, explain_plan(progressed, **chosen).facts if is_run else {})
    names, at_ms, reached = _emitters(table), table["arrived_ms"], table["global_watermark"]
    roles = [*islice(cycle(_ROLES), len(names))]
    # The global one lies on the curve of the origin that holds it, so it is broad and beneath the others.
    drawn = [(name, role, *_local(table, name)) for name, role in zip(names, roles, strict=True)]
    drawn.append(("global", "coalesced", at_ms, reached))
    curves = [
        Steps(name=name, role=role, xs=xs, ys=ys)
        for name, role, (xs, ys) in ((name, role, thinned(xs, ys, _CAP)) for name, role, xs, ys in drawn)
    ]
    clock = time_axis("clock", at_ms)
    ends = shown_range([held(xs, ys) for _, _, xs, ys in drawn], least_ms=clock.high - clock.low)
    up = time_axis("watermark", ends, pad_percent=4, clock=at_ms)
    return chart_of(
        head.headline,
        {"at_ms": at_ms, **{name: table[name] for name in ("emitter", *_UNKNOWN)}},
        facts=head.facts,
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
    """Draw the longest complete prefix of one origin, buffers that came behind a later one, and the gap in between.

    `progressed`, a recording or a DataFrame, `stream` and `operator` are as for `progress`; `emitter` names the origin
    and is not needed if there is only one. Raises `ChartError` as `progress`, and for an origin that is not there.
    """
    table = _read_progress(progressed, stream, operator)
    names = _emitters(table)
    if emitter is None and len(names) > 1:
        raise ChartError(
            f"The table has the origins {', '.join(names)}; none is named.",
            remedy=f"Name one, for example emitter={names[0]!r}.",
        )
    chosen = emitter or names[0]
    arrivals = _only(table, "emitter", chosen)
    head = _head_of_prefix(arrivals, chosen)
    at_ms, sequences = arrivals["arrived_ms"], arrivals["sequence"]
    reached: list[Value] = [*arrivals["prefix"]]
    highest: list[Value] = [*accumulate(sequences, max)]
    indices = thin([reached, highest], _CAP, xs=at_ms)
    xs, below, above = [at_ms[i] for i in indices], [reached[i] for i in indices], [highest[i] for i in indices]
    return chart_of(
        head.headline,
        {"at_ms": at_ms, "sequence": sequences, "prefix": reached},
        facts=head.facts,
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
                    Dots(
                        name="out of order",
                        role="upper",
                        shape="circle",
                        xs=[ms for ms, number, top in zip(at_ms, sequences, highest, strict=True) if number != top],
                        ys=[number for number, top in zip(sequences, highest, strict=True) if number != top],
                        size=2.2,
                    ),
                ],
            )
        ],
    )


def _local(table: Table, emitter: str) -> tuple[list[int], list[Value]]:
    """An origin's local watermark over the clock; it holds to the end of the table."""
    arrivals = _only(table, "emitter", emitter)
    local = arrivals["local_watermark"]
    return [*arrivals["arrived_ms"], table["arrived_ms"][-1]], [*local, local[-1]]


def _emitters(table: Table) -> list[str]:
    """The origins' names, in the order of their ids."""
    ids = dict(zip(table["emitter"], table["origin"], strict=True))
    return sorted(ids, key=lambda name: ids[name])


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


def _only(cells: Table, column: str, chosen: str | None) -> dict[str, list[Any]]:
    """The rows with one value in a column, all without one; raises `ChartError` if it is not there."""
    if chosen is None:
        return dict(cells)
    rows = [row for row, value in enumerate(cells[column]) if value == chosen]
    if not rows and cells[column]:
        known = sorted({str(value) for value in cells[column]})
        raise ChartError(
            f"{column} is {shown(chosen)}, which has no rows.", remedy=f"Give one of {', '.join(map(repr, known))}."
        )
    return {name: [values[row] for row in rows] for name, values in cells.items()}


def _head_of_progress(table: Table, of_run: Mapping[str, FactValue]) -> Head:
    """The longest time in which the global watermark kept one known value; `of_run` tells who held it so, and how long.

    A table alone does not tell what an operator waits for, nor when the run ended.
    """
    at_ms, reached = table["arrived_ms"], table["global_watermark"]
    spans = constant_spans(at_ms, reached)
    known = [span for span in spans if span.value is not None]
    values = [value for value in reached if value is not None]
    facts: dict[str, FactValue] = {
        "unknown for": sum(span.length_ms for span in spans if span.value is None) or None,
        "steps back": sum(before > after for before, after in pairwise(values)) or None,
    }
    if known:
        stop = max(known, key=lambda span: span.length_ms)
        facts |= {"longest stop": stop.length_ms, "at": stop.value, "from": stop.from_ms, "to": stop.to_ms}
        facts |= {name.removeprefix("stop "): value for name, value in of_run.items() if name in _OF_STOP}
    else:
        facts["unheard of"] = tuple(name for name in _emitters(table) if {*_local(table, name)[1]} == {None})
    return _head(facts, OF_PROGRESS, at_ms[0])


def _head_of_prefix(arrivals: Table, emitter: str) -> Head:
    """The longest time for which sequences of an origin waited for the one behind its prefix."""
    at_ms, highest = arrivals["arrived_ms"], accumulate(arrivals["sequence"], max)
    waited_for: list[Value] = [
        reached + 1 if most > reached + 1 else None for reached, most in zip(arrivals["prefix"], highest, strict=True)
    ]
    gaps = [span for span in constant_spans(at_ms, waited_for) if span.value is not None]
    facts: dict[str, FactValue] = {"emitter": emitter}
    if gaps:
        gap = max(gaps, key=lambda span: span.length_ms)
        facts |= {
            "waited for": gap.value,
            "waited from": gap.from_ms,
            "waited to": gap.to_ms if gap.ended else None,
        }
    return _head(facts, OF_PREFIX, at_ms[0])


def _head(values: Mapping[str, FactValue], templates: Templates, clock_ms: int) -> Head:
    facts = Facts(LABELS, values, clock_ms=clock_ms)
    return Head(facts=facts, templates=facts.chosen(templates))


_MOST: Final = 400
_BY_WATERMARK: Final = "fired by the watermark"
_AT_END: Final = "fired at the end of the stream"
_LOOKS: Final[dict[str, tuple[str, Shape]]] = {_BY_WATERMARK: ("upper", "circle"), _AT_END: ("third", "triangle")}


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
    rows = (dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True))
    fired = sorted(rows, key=lambda row: (row["fired_ms"], row["sequence"]))
    followed = _read_progress(recording, name, cells["operator"][0])
    at_ms, reached = followed["arrived_ms"], followed["global_watermark"]
    xs, ys = thinned(at_ms, reached, _MOST)
    totals = Counter(map(_kind, fired))
    fewer = [f"{_MOST} of the {grouped(totals[kind])} {kind}" for kind in _LOOKS if totals[kind] > _MOST]
    clock = [*xs, *(row["fired_ms"] for row in fired)]
    ends = [single(row["end"] for row in fired)]
    event = shown_range(ends, [held(at_ms, reached)], least_ms=max(clock) - min(clock))
    up = time_axis("event time", event, pad_percent=4, clock=xs)
    curve = Steps(name="global watermark", role="lower", xs=xs, ys=ys)
    head = _head_of_windows(name, fired)
    drawn = ("operator", "start", "end", "records", "fired_ms", "cause")
    return chart_of(
        head.headline,
        {column: [row[column] for row in fired] for column in drawn},
        facts=head.facts,
        title=title or f"When did the windows of {name} fire?",
        note=f"Drawn are {listed(fewer)}." if fewer else "",
        across=time_axis("clock", clock),
        panels=[Panel(up=up, height=300.0, layers=[curve, *(_dots(kind, fired) for kind in _LOOKS)])],
        rules=faults(recording, name, without=("late", "held")),  # a worker that stands still is an incident of its own
    )


def _kind(row: Mapping[str, Any]) -> str:
    return _BY_WATERMARK if row["cause"] == "watermark" else _AT_END


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


def _head_of_windows(query: str, fired: Sequence[Mapping[str, Any]]) -> Head:
    moments = sorted(row["fired_ms"] for row in fired)
    facts: dict[str, FactValue] = {
        "query": query,
        "windows": len(fired),
        "fired at the end": sum(row["cause"] != "watermark" for row in fired),
        "longest without": max((after - before for before, after in pairwise(moments)), default=None),
    }
    return _head(facts, OF_WINDOWS, moments[0])
