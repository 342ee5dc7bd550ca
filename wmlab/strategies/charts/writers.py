"""The chart of a log by its writers: when each one sends or is silent, and which records have wrong times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from wmlab.core.charts.chart import Chart, chart_of, columns, drawn_words, share_of
from wmlab.core.charts.scene import Blocks, Box, Dots, Layer, Shape, lanes
from wmlab.core.facts import Facts, Value
from wmlab.core.traces import Trace
from wmlab.core.words import grouped, joined, moment, rounded
from wmlab.strategies.charts.arrivals import Arrivals
from wmlab.strategies.clocks import copies, each_writer, early, writer_clocks, wrong_times
from wmlab.strategies.findings import owners
from wmlab.strategies.replay import Log, as_trace, group
from wmlab.strategies.vocabulary import CHART_LABELS, WRITERS_HEADLINES

_MOST: Final = 20
"""Writers that have room."""
_MARKS: Final = 60
"""Marks of one kind that are drawn at most of one writer."""
_LOOKS: Final[tuple[tuple[str, str, Shape], ...]] = (
    ("wrong time", "alarm", "cross"),
    ("early", "upper", "triangle"),
    ("copy", "fourth", "diamond"),
)
"""The kinds of records that are marked, each with its look; a record is of the first that it fits."""


def writers(log: Trace | Any, *, ids: Any = None, title: str | None = None) -> Chart:
    """Draw when each writer of a log sends, when it is silent, and which of its records are bad.

    There is a row for each writer: boxes from the first to the last record of a period without a silence, grey boxes
    for silences (`wm.strategy.writer_clocks` has the rules), and symbols at the arrival of records with a wrong time,
    of others that arrive before they happen, and of copies. At most twenty writers are drawn, those with problems
    first, then the largest; and at most 60 symbols of each kind per writer. `ids` are the ids by which copies are
    found; by default the keys. Raises `ModelError` for anything but a log.
    """
    trace = as_trace(log)
    rows, wrong = Log.of(trace), wrong_times(trace)
    clocks = sorted(each_writer(writer_clocks(trace, ids)), key=lambda clock: (not _is_dirty(clock), -clock.rows))
    drawn = clocks[:_MOST]
    time = Arrivals.of(rows)
    lane_of = {clock.writer: lane for lane, clock in enumerate(drawn)}
    flags = [wrong.either, early(rows) & ~wrong.either]
    flags.append(copies(rows, ids) & ~flags[0] & ~flags[1])
    marked = [_marks(trace, rows, time, lane_of, bad, look) for bad, look in zip(flags, _LOOKS, strict=True)]
    end_ms = trace.span_ms[1]
    layers: list[Layer] = [
        Blocks(name="sends", role="lower", boxes=[box for clock in drawn for box in _sending(clock, lane_of, time)]),
        Blocks(
            name="silent",
            role="unknown",
            boxes=[_box(clock, lane_of, span, time, "silent") for clock in drawn for span in clock.silences],
        ),
        *(dots for dots, _ in marked),
    ]
    facts = _facts(trace, clocks, flags)
    sentence = "".join(map(facts.fill, facts.chosen(WRITERS_HEADLINES)))
    marks = ((len(dots.xs), count, f"marks {dots.name!r}") for dots, count in marked)
    note = joined(drawn_words((len(drawn), len(clocks), "writers"), *marks), time.beyond)
    spans = [(c.writer, begin, end, end == end_ms) for c in clocks for begin, end in c.silences]
    title = title or f"Who sends when, and whose times are wrong in {trace.name}?"
    names = [clock.writer for clock in drawn]
    data: dict[str, list[Any]] = columns(spans, "writer", "silent_from_ms", "silent_to_ms", "until_the_end")
    return chart_of(
        sentence,
        data | _dirty_rows(flags),
        facts=facts,
        title=title,
        note=note,
        across=time.axis,
        panels=[lanes(names, layers)],
    )


def _is_dirty(clock: Any) -> bool:
    return bool(clock.clock or clock.silences or clock.copies)


def _sending(clock: Any, lane_of: dict[str, int], time: Arrivals) -> list[Box]:
    begins = [clock.first_arrival_ms, *(end for _, end in clock.silences)]
    ends = [*(begin for begin, _ in clock.silences), clock.last_arrival_ms]
    spans = zip(begins, ends, strict=True)
    return [_box(clock, lane_of, span, time, "sends") for span in spans if span[0] <= span[1]]


def _box(clock: Any, lane_of: dict[str, int], span: tuple[int, int], time: Arrivals, verb: str) -> Box:
    lane, low, high = lane_of[clock.writer], time.axis.low, time.axis.high
    left, right = (min(max(end, low), high) for end in span)
    words = f"{clock.writer} {verb} from {moment(span[0])} for {rounded(span[1] - span[0])}"
    label = rounded(span[1] - span[0]) if verb == "silent" else ""
    return Box(left, right, lane - 0.3, lane + 0.3, label, words)


def _marks(
    trace: Trace, rows: Log, time: Arrivals, lane_of: dict[str, int], bad: Any, look: tuple[str, str, Shape]
) -> tuple[Dots, int]:
    """The marks of one kind of records, at most so many, and how many records there are."""
    noun, role, shape = look
    writer, names = group(trace, "writer")
    inside = np.zeros_like(bad)
    inside[time.first : time.end] = True
    of_writers = [np.flatnonzero(bad & inside & (writer == n)) for n, name in enumerate(names) if name in lane_of]
    chosen = [row for of_writer in of_writers for row in share_of(of_writer.tolist(), _MARKS)]
    clock_ms = rows.clock_ms
    hover = [
        f"{noun}: row {grouped(row + 1)} by arrival, of {names[writer[row]]}, stamped "
        f"{moment(int(rows.event[row]), clock_ms=clock_ms)}"
        for row in chosen
    ]
    at, lanes_of = rows.arrival[chosen].tolist(), [lane_of[names[writer[row]]] for row in chosen]
    return Dots(name=noun, role=role, shape=shape, xs=at, ys=lanes_of, hover=hover), int(bad.sum())


def _dirty_rows(flags: Sequence[Any]) -> dict[str, list[Any]]:
    """The rows that have a mark, by their numbers in order of arrival, and which one."""
    rows_of = [np.flatnonzero(bad) + 1 for bad in flags]
    nouns = [noun for noun, _, _ in _LOOKS]
    return {
        "row": [row for rows in rows_of for row in rows.tolist()],
        "kind": [noun for noun, rows in zip(nouns, rows_of, strict=True) for _ in rows],
    }


def _facts(trace: Trace, clocks: Sequence[Any], flags: Sequence[Any]) -> Facts:
    """How much the writers send, and of whom the dirty records are."""
    silent = sorted(clock.writer for clock in clocks if clock.silences)
    facts: dict[str, Value] = {"writers": len(clocks), "records": trace.rows, "silent": tuple(silent)}
    for (noun, _, _), bad in zip(_LOOKS, flags, strict=True):
        if bad.any():
            facts[noun], facts[f"{noun} of"] = int(bad.sum()), tuple(sorted(owners(trace, bad)))
    return Facts(CHART_LABELS, facts)
