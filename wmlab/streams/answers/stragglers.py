"""What held a stream's lower bound over a whole run, for how long, and at what cost.

Source: PDP-33, Periodic Watermark Workflow; the causes are those of `wmlab.streams.answers.cause`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median_low
from typing import Final

import pyarrow.compute as pc

from wmlab.core.answers import Against, Stragglers, Stretch, stragglers_from
from wmlab.core.charts.scene import ConstantSpan, Value, constant_spans
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording, planned_span
from wmlab.core.words import clock_words, is_instant, rounded
from wmlab.streams.answers import history as recorded
from wmlab.streams.answers.cause import NOT_OF_WRITERS, OF_WRITERS, Cause, CauseKind, CauseSpan, longest_cause
from wmlab.streams.answers.curves import LOG, Curve, Curves, longest_stall
from wmlab.streams.answers.sentences import because

MEANINGS: Final = {
    CauseKind.NO_MARK: "no writer had noted a time that was accepted",
    CauseKind.FIRST_CYCLE: "a time was noted, and the first cycle had not run yet",
    CauseKind.LAGGING: "cycles emitted nothing and waited for this writer, which had noted nothing above the bound",
    CauseKind.EXPECTED: "fewer writers than expected had noted a time, and the first watermark waited for the others",
    CauseKind.SLOWEST: "the last cycle emitted, and this writer had noted nothing above the bound since",
    CauseKind.PERIOD: "every writer had noted a time above the bound, and the next cycle was not due yet",
    CauseKind.CONTROLLER: "a cycle was due and did not run",
    CauseKind.STORE: "the cycles could not reach a store, or the marks segment was missing",
    CauseKind.NO_POSITION: "the counted writers had no position",
    CauseKind.CUT_FAILED: "the cycles could not compute the cut",
    CauseKind.CYCLE_FAILED: "the cycles ended without a watermark",
    CauseKind.NO_WRITER_LEFT: "no active writer was on record",
}
"""What each cause means."""
_WITHOUT_PARTY: Final = {
    CauseKind.NO_MARK: "no noted time",
    CauseKind.FIRST_CYCLE: "no cycle yet",
    CauseKind.EXPECTED: "expected writers",
    CauseKind.PERIOD: "the cycle period",
    CauseKind.CONTROLLER: "controllers",
    CauseKind.STORE: "stores",
    CauseKind.NO_WRITER_LEFT: "no active writer",
}
_NOTABLE: Final = 3
"""A stop is worth a sentence if it is so many times as long as the usual step."""
_TIMED: Final = ("segments", "writer_marks", "cycles", "events", "positions", "windows")


def stragglers_of(recording: Recording, stream: str, *, notes: Iterable[str] = ()) -> Stragglers:
    """Who held the stream's lower bound from its creation to the end of the run, or its deletion.

    At every moment one cause holds the bound; what the bound would have been without it is taken from the times that
    were noted by then. A run ends when its scenario does; one of the outside world, or one that was stopped, with the
    last thing recorded.
    """
    start_ms, end_ms = run_of(recording, stream)
    curves = Curves(recording, stream)
    spans = list(curves.spans(LOG, start_ms=start_ms, end_ms=end_ms))
    silent = _longest_silent(curves, spans)
    return stragglers_from(
        [_stretch(span) for span in spans],
        stream=stream,
        run_ms=end_ms - start_ms,
        meanings={kind.value: meaning for kind, meaning in MEANINGS.items()},
        stall=stall_sentence(spans),
        notes=[note for note in (*_readers_stops(curves, spans, end_ms), silent, *notes) if note],
    )


def _readers_stops(curves: Curves, spans: Sequence[CauseSpan], end_ms: int) -> Iterator[str]:
    """When a reader group knew no newer watermark for longer than the log made none, and why."""
    stall = longest_stall(spans)
    of_log_ms = stall[-1].to_ms - stall[0].from_ms if stall else 0
    for group in curves.tables.groups:
        at_ms, lower = curves.known_by(group)
        stop = notable_stop([*at_ms, end_ms], [*lower, *lower[-1:]]) if at_ms else None
        if stop is None or stop.length_ms <= of_log_ms:
            continue
        longest = longest_cause(list(curves.spans(Curve(group=group), start_ms=stop.from_ms, end_ms=stop.to_ms)))
        if longest is not None and longest.cause.kind is not CauseKind.NEWEST:
            value = clock_words(stop.value, clock_ms=stop.from_ms)
            yield (
                f"The readers of {group} knew no watermark above {value} for {rounded(stop.length_ms)} from "
                f"{clock_words(stop.from_ms)} to {clock_words(stop.to_ms)}: {because(longest.cause)}."
            )


def notable_stop(at_ms: Sequence[int], lower: Sequence[Value]) -> ConstantSpan | None:
    """The longest stop of a lower bound, if it is much longer than the usual step, or the only one; else None."""
    steps = [span for span in constant_spans(at_ms, lower) if span.value is not None and span.length_ms]
    longest = max(steps, key=lambda step: step.length_ms, default=None)
    if longest is None or len(steps) == 1 or longest.length_ms >= _NOTABLE * median_low(s.length_ms for s in steps):
        return longest
    return None


def missing_cycles(spans: Sequence[CauseSpan]) -> str:
    """The longest time in which a cycle was overdue, and why, as a sentence; empty if none was."""
    runs = [list(run) for kind, run in groupby(spans, key=lambda span: span.cause.kind) if kind is CauseKind.CONTROLLER]
    longest = max(runs, key=lambda run: run[-1].to_ms - run[0].from_ms, default=[])
    named = longest_cause(longest)
    if named is None:
        return ""
    begin_ms, end_ms = longest[0].from_ms, longest[-1].to_ms
    why = because(named.cause)
    why = "" if why == "no cycle ran" else f": {why}"
    return f"No cycle ran for {rounded(end_ms - begin_ms)} from {clock_words(begin_ms)}{why}."


def stall_sentence(spans: Sequence[CauseSpan]) -> str:
    """When the watermark stopped for longest, and why; empty if it was never known."""
    stall = longest_stall(spans)
    longest = longest_cause(stall)
    if longest is None:
        return ""
    from_ms, to_ms = stall[0].from_ms, stall[-1].to_ms
    cause = because(longest.cause)
    cause = f": {cause}" if cause else ""
    return (
        f"The watermark stopped for longest at {clock_words(stall[0].cause.bound, clock_ms=from_ms)}, for "
        f"{rounded(to_ms - from_ms)} from {clock_words(from_ms)} to {clock_words(to_ms)}{cause}."
    )


def cost_sentences(stream: str, rows: Sequence[TableRow]) -> str:
    """What the first of the rows of `explain` cost; those that cost against the clock come after all others."""
    total_ms = sum(row["cost_ms"] or 0 for row in rows if not is_alone(row))
    alone = [row for row in rows if is_alone(row) and row["cost_ms"]]
    first = alone[0] if not total_ms and alone else rows[0]
    held, cost = rounded(first["held_ms"]), rounded(round(first["cost_ms"] or 0))
    # A holder that is not a party has no name to begin a sentence with.
    who = first["who"].capitalize() if first["who"] in _WITHOUT_PARTY.values() else first["who"]
    if total_ms:
        return (
            f"{who} ({first['why']}) cost most: without it the watermark of {stream} would have been {cost} "
            f"higher on average. That is {first['cost_ms'] / total_ms:.0%} of what all causes cost; it held for {held}."
        )
    if alone:
        return (
            f"{who} ({first['why']}) held the watermark of {stream} for {held}, with nobody else to compare. "
            f"Behind the clock, that makes {cost} of mean lag."
        )
    return f"Nobody held the watermark of {stream} below what the others had noted."


def cost_words(row: TableRow) -> str:
    """The cost of a row of `explain`."""
    if row["cost_ms"] is None:
        return "no bound" if row.get("against") == "no bound" else "cost unknown"
    return f"{rounded(round(row['cost_ms']))}{' behind the clock' if is_alone(row) else ''}"


def is_alone(row: TableRow) -> bool:
    """Whether the cost of a row of `explain` is measured against the clock, since nobody else was there."""
    return row.get("against") == "the clock"


def holders(cause: Cause) -> tuple[str, ...]:
    """How a table names who held the bound: the parties, or the cause in their place.

    Of a bucket without an owner it is the last owner.
    """
    named = cause.parties if cause.kind in (*OF_WRITERS, *NOT_OF_WRITERS) else ()
    names = (party.fault.party if party.subject == "bucket" and party.fault else party.name for party in named)
    return tuple(names) or (_WITHOUT_PARTY.get(cause.kind) or cause.reason,)


def _stretch(span: CauseSpan) -> Stretch:
    """A stretch with its price: against what was noted, or against the clock where nobody else was there."""
    cause, by_ms = span.cause, span.cause.by_ms
    against: Against = "the others" if cause.kind in OF_WRITERS else "noted times"
    if cause.bound is None:
        against = "no bound"
    elif by_ms is None and is_instant([cause.bound], clock=[span.from_ms]) == is_instant([span.from_ms]):
        by_ms, against = span.from_ms - cause.bound, "the clock"
    who = holders(cause)
    return Stretch(who, cause.kind.value, span.from_ms, span.to_ms, by_ms, len(who), against)


def _longest_silent(curves: Curves, spans: Sequence[CauseSpan]) -> str:
    """The imported writer that was furthest behind by its events for longest and held nothing; empty if none was."""
    behind: Counter[str] = Counter()
    for span in spans:
        silent = curves.written.silent_at(curves.state_at(span.to_ms))
        if silent is not None and silent.writer not in span.cause.names:
            behind[silent.writer] += span.length_ms
    if not behind:
        return ""
    writer, length_ms = max(behind.items(), key=lambda entry: (entry[1], entry[0]))
    return (
        f"{writer} sent nothing for {rounded(length_ms)}. That did not hold the watermark, because a replayed writer "
        "keeps noting times; wm.spark.stragglers has the gaps in the log."
    )


def run_of(recording: Recording, stream: str) -> tuple[int, int]:
    """From the creation of the stream to its deletion, the end of its finished scenario, or the last row (clock)."""
    times: list[int] = []
    for name in _TIMED:
        when = recorded.CLOCKS[name]
        for chunk in recording.chunks(name, "stream", when):
            column = recorded.of_stream(chunk, stream)[when]
            times += pc.min_max(column).as_py().values() if len(column) else []
    incidents = recorded.of_stream(recording.table("incidents"), stream)
    end_ms = pc.max(incidents.filter(pc.equal(incidents["kind"], "delete"))["at_ms"]).as_py()
    if end_ms is None and (planned := planned_span(recording)) is not None:
        end_ms = planned[1]
    return min(times, default=0), max(times, default=0) if end_ms is None else end_ms
