"""Invariants of what readers see (I6, I9, I15), and of what the document promises of time (I10, I11, I12).

Each is a rule over the rows of one stream; for events, it uses the facts to which `events` has reduced them.

A late event is one that was read first after a window of its group had shown a larger lower bound, see `events`.

A *generation* is a run of cycles of one owner of the bucket that found the same previous lower bound and some writer
beyond it. A writer that was behind in its first cycle has recovered or is removed one timeout later, and a cycle emits.
Owners lose their clocks with the bucket, so a takeover begins another generation. While the bucket has no owner there
are no cycles, and nothing is judged. What the writers cause does not count: a writer that comes with an old time is
waited for again. One that notes the smallest time of all, or a position in a segment which the stream never had, stops
every cycle; so do writers of which none notes a position in any segment.

A location of the stream has a time by its events: a noted time is before it if it was accepted before the newest
event there was appended.

Source: PDP-33, Watermarking in the Reader; upstream class `WatermarkReaderImpl`. PDP-33, Periodic Watermark Workflow
("bounded to run and produce a watermark ... within one timeout period"), and PDP-33, Event Reader API Changes
(TimeWindow).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, repeat
from operator import itemgetter
from typing import Any, Final

from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, name_text, span_text, time_text
from wmlab.streams.checks.events import CoveredEvents
from wmlab.streams.checks.facts import DROPPED, NotedTimes, WriterView, owners_of, titled
from wmlab.streams.checks.lateness import describe, proof_of
from wmlab.streams.checks.log import EMPTY, WINDOW
from wmlab.streams.model.cycle import HeldBy
from wmlab.streams.tables import TOOK_PLACE, marks_read_ms

_NOT_SHOWN: Final = "nothing was read after a window had shown a lower bound"


@titled("no event below what a reader was shown", _NOT_SHOWN, exempt="late event")
def nothing_late(delivered_events: int, late_deliveries: TableRows) -> Iterator[Finding]:
    """I6: one finding that stands for all events read, and one per late event: bad, or good with its evidence.

    Only first deliveries count: what is read again after a reset proves nothing. Good are those whose writer had been
    dropped, had noted no time yet, or had noted a larger time without having the event acknowledged; see `lateness`.
    """
    yield from _late(delivered_events, late_deliveries)


@titled("no event at what a reader was shown, or below", _NOT_SHOWN, exempt="late event")
def nothing_at_bound(
    delivered_events: int, late_deliveries: TableRows, deliveries_at_bound: TableRows
) -> Iterator[Finding]:
    """I15: I6 for a bound that has its own time, too.

    Good are also events whose writer had noted their very time without having them acknowledged, as
    `noting.EarliestOpen` does. Source: PDP-33, Disadvantages ("all events with timestamp T or earlier have been
    received"); by its Introduction ("everything before a timestamp") it is I6.
    """
    yield from _late(delivered_events, [*late_deliveries, *deliveries_at_bound])


def _late(delivered_events: int, late_deliveries: TableRows) -> Iterator[Finding]:
    if delivered_events:
        yield Finding(True, judged=delivered_events)
    for event in late_deliveries:
        exemption = event["because"]
        is_good = exemption is not None
        # The event is judged already, by the finding that stands for all of them.
        what, proof = describe(event), proof_of(event)
        finding = Finding(is_good, event["read_ms"], what, proof, judged=0, exemption=exemption)
        yield from repeat(finding, event["count"])


@titled("windows only move forward", "no reader looked at its window twice")
def windows_monotone(windows: TableRows, ordered_log: TableRows, incidents: TableRows) -> Iterator[Finding]:
    """I9: the known lower bounds of a reader's windows never go back, and known upper bounds neither.

    A bound may become unknown (PDP-33, Event Reader API Changes: "or null if one cannot be established"); it is
    compared with the last known one when it is back. One finding per pair of neighbouring windows of a reader. An
    incident that befell the reader or its group parts them: a new reader object may start earlier. Upper bounds are
    left out where those of the log go back themselves.
    """
    uppers = [row["upper"] for row in ordered_log]
    falls = any(upper < before for before, upper in pairwise(uppers))
    for of_reader in _lives(windows, incidents):
        yield from _findings_of_reader(of_reader, falls=falls)


def _findings_of_reader(windows: TableRows, *, falls: bool) -> Iterator[Finding]:
    """What was found about the windows of one life of a reader, see `windows_monotone`."""
    judged = ("lower",) if falls else ("lower", "upper")
    known: dict[str, TableRow] = {}
    for number, window in enumerate(windows):
        compared = [bound for bound in judged if window[bound] is not None]
        back = next((bound for bound in compared if bound in known and window[bound] < known[bound][bound]), None)
        if back is not None:
            yield _went_back(back, known[back], window)
        elif number:
            yield Finding(True)
        known |= dict.fromkeys(compared, window)


def _went_back(bound: str, before: TableRow, window: TableRow) -> Finding:
    change = f"goes from {time_text(before[bound])} to {time_text(window[bound])}"
    proof = [Evidence.of("windows", row, *WINDOW) for row in (before, window)]
    return Finding(False, window["at_ms"], f"{bound} of {name_text(window['reader'])} {change}", proof)


def _lives(windows: TableRows, incidents: TableRows) -> Iterator[list[TableRow]]:
    """The windows of each reader in their order, parted by the incidents that had befallen it, or its group, by then.

    What a script asked for in vain changes no reader.
    """
    befell: dict[tuple[str, str], list[int]] = {}
    for row in incidents:
        if row["outcome"] == TOOK_PLACE:
            befell.setdefault((row["subject"], row["target"]), []).append(row["at_ms"])
    readers: dict[tuple[str, str], list[TableRow]] = {}
    for window in windows:
        readers.setdefault((window["group"], window["reader"]), []).append(window)
    for (group, reader), of_reader in readers.items():
        moments = sorted(befell.get(("reader", reader), []) + befell.get(("group", group), []))
        life: list[TableRow] = []
        for window in sorted(of_reader, key=_window_order):
            if life and bisect_right(moments, window["at_ms"]) > bisect_right(moments, life[-1]["at_ms"]):
                yield life
                life = []
            life.append(window)
        yield life


def _window_order(window: TableRow) -> tuple[Any, ...]:
    """The order in which a reader saw its windows; an unknown bound comes first."""
    bounds = ((window[bound] is not None, window[bound] or 0) for bound in ("lower", "upper"))
    return window["at_ms"], *bounds


LOST: Final = {cause.value for cause in (HeldBy.UNKNOWN_SEGMENT, HeldBy.NO_POSITIONS, HeldBy.NOT_ADVANCED)}
"""Why a cycle without lagging writers may emit nothing for longer than a timeout, through the writers' own doing."""
_CYCLE: Final = ("stream", "controller", "at_ms", "previous_lower", "participating", "lagging", "outcome", "reason")


@titled(
    "a watermark within one timeout",
    "no cycle with a recorded timeout found a writer beyond the lower bound",
    exempt="overdue cycle",
)
def lower_rises(cycles: TableRows, ownership: TableRows) -> Iterator[Finding]:
    """I10: a cycle that runs one timeout after its generation began emits a watermark.

    One finding per cycle that found a writer beyond the previous lower bound. The timeout runs from the second cycle
    of the generation: it began when the first had ended. Cycles without a recorded timeout or cause are not judged.
    """
    for generation in _generations(cycles, ownership):
        gone: set[str] = set()
        for number, cycle in enumerate(generation):
            gone |= set(cycle["removed"])
            since_ms = generation[1]["at_ms"] if number else cycle["at_ms"]
            if not number or not _stands(cycle) or cycle["at_ms"] < since_ms + cycle["timeout_ms"]:
                yield Finding(True, cycle["at_ms"])
            else:
                yield _overdue(generation[0], cycle, gone)


def _overdue(first: TableRow, cycle: TableRow, gone: set[str]) -> Finding:
    """What was found about a cycle that emits nothing a timeout after its generation began."""
    lost = cycle["cause"] in LOST
    blamed = bool(set(first["lagging"]) & set(cycle["lagging"]) - gone) if cycle["lagging"] else not lost
    what = (
        f"the lower bound stands at {time_text(cycle['previous_lower'])} at {time_text(cycle['at_ms'])}, more than the "
        f"timeout of {span_text(cycle['timeout_ms'])} after {name_text(cycle['controller'])} found a writer beyond it: "
        f"{name_text(cycle['reason'])}"
    )
    if not blamed and not lost:
        what += "; these came meanwhile with old times"
    exemption = "for want of usable positions" if lost else "for writers that came with old times"
    proof = [Evidence.of("cycles", row, *_CYCLE) for row in (first, cycle)]
    return Finding(not blamed, cycle["at_ms"], what, proof, exemption=None if blamed else exemption)


def _stands(cycle: TableRow) -> bool:
    """Whether a cycle found a writer beyond the previous lower bound, and left it where it was."""
    return bool(cycle["participating"]) and cycle["outcome"] == "held" and cycle["cause"] != HeldBy.CONFLICT.value


def _generations(cycles: TableRows, ownership: TableRows) -> Iterator[list[TableRow]]:
    """The generations of a stream, each of its cycles whose timeout and cause are recorded."""
    takeovers = [row["from_ms"] for row in owners_of(cycles, ownership)]
    # What is taken over in the millisecond of a cycle is taken over before it.
    moments: list[tuple[Any, TableRow | None]] = [((from_ms, False), None) for from_ms in takeovers]
    for cycle in cycles:
        moments.append(((cycle["at_ms"], True, cycle["controller"], cycle["outcome"], cycle["reason"]), cycle))
    generation: list[TableRow] = []
    before: TableRow | None = None
    for _, moment in sorted(moments, key=itemgetter(0)):
        if before is None or moment is None or not _goes_on(before, moment):
            yield _judged(generation)
            generation = []
        if moment is not None:
            generation.append(moment)
        before = moment
    yield _judged(generation)


def _goes_on(before: TableRow, cycle: TableRow) -> bool:
    """Whether a cycle belongs to the generation of the one before it."""
    return _stands(before) and all(before[name] == cycle[name] for name in ("controller", "previous_lower"))


def _judged(generation: Iterable[TableRow]) -> list[TableRow]:
    return [row for row in generation if row["participating"] and None not in (row["timeout_ms"], row["cause"])]


@titled("the upper bound covers noted times", "nothing was noted before an event that a cut covers")
def upper_covers_noted(
    counting_log: TableRows,
    accepted_marks: TableRows,
    covered_events: CoveredEvents,
    marks_by_writer: Mapping[str, NotedTimes],
) -> Iterator[Finding]:
    """I11: one finding per watermark after a time accepted before the newest event that its cut covers was appended.

    What is accepted while the cycle reads the marks, one after the other, may be missing; so may be what is accepted
    later, even if a writer gave a position that it had not reached. A null in a cut is the end of the segment, so that
    the event may be later (issue 6510 upstream). That the writer had been dropped is said and excuses nothing: a stream
    that forgets writers ahead of the lower bound (`forgets="all"`) breaks this promise.
    """
    received_ms = [mark["received_ms"] for mark in accepted_marks]
    by_time: Any = itemgetter("time", "writer", "received_ms")
    largest: list[TableRow] = list(accumulate(accepted_marks, lambda before, mark: max(before, mark, key=by_time)))
    for row in counting_log:
        covered = [_until_ms(row, segment, offset, covered_events) for segment, offset in row["cut"].items()]
        until_ms, covered_ms = max((pair for pair in covered if pair is not None), default=(None, None))
        received = 0 if until_ms is None else bisect_left(received_ms, until_ms)
        if not received:
            continue
        noted = largest[received - 1]
        if row["upper"] >= noted["time"]:
            yield Finding(True)
            continue
        what = (
            f"watermark {row['seq']} has upper {time_text(row['upper'])}, but {name_text(noted['writer'])} had noted "
            f"{time_text(noted['time'])} at {time_text(noted['received_ms'])}, before an event was appended at "
            f"{time_text(covered_ms)} that its cut covers"
        )
        if marks_by_writer[noted["writer"]].excuse(row) == DROPPED:
            what += "; its writer had been dropped"
        proof = [
            Evidence.of("watermarks", row, "stream", "seq", "upper", "emitted_ms"),
            Evidence.of("writer_marks", noted, "stream", "writer", "time", "received_ms"),
            Evidence.of("events", row, "stream", append_ms=covered_ms),
        ]
        yield Finding(False, row["emitted_ms"], what, proof)


def _until_ms(row: TableRow, segment: int, offset: int | None, covered_events: CoveredEvents) -> tuple[int, int] | None:
    """Until when what was noted counts for the events of one segment of a cut, and when the newest was appended."""
    covered_ms = covered_events.newest_ms(segment, offset)
    if covered_ms is None:
        return None
    later = offset is None and covered_ms > row["emitted_ms"]
    return (covered_ms if later else min(covered_ms, marks_read_ms(row))), covered_ms


@titled("no writer is passed over", EMPTY)
def lower_below_latest(views_by_writer: Mapping[str, Sequence[WriterView]]) -> Iterator[Finding]:
    """I12: one finding per watermark and writer that was on record when it was appended.

    On record is a writer that had noted a time before the cycle began, and that no cycle had removed since.
    """
    for writer, views in views_by_writer.items():
        for row, time, _, noted, excuse in views:
            if time is None and excuse is not None:
                continue
            latest = max((known for known in (time, noted) if known is not None), default=None)
            if latest is None or row["lower"] <= latest:
                yield Finding(True)
                continue
            what = (
                f"watermark {row['seq']} has lower {time_text(row['lower'])}, but {name_text(writer)} had noted "
                f"{time_text(latest)} at the latest"
            )
            proof = [
                Evidence.of("watermarks", row, "stream", "seq", "lower", "emitted_ms"),
                Evidence.of("writer_marks", row, "stream", writer=writer, time=latest),
            ]
            yield Finding(False, row["emitted_ms"], what, proof)
