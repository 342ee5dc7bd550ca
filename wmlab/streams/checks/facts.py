"""What several invariants take that is in no table: the log in its order, and what each writer had noted when.

Everything here is made of the rows of one stream, once for all rules that take it, see `wmlab.core.invariants.Derived`.

Source: PDP-33, Watermark Computation and Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from wmlab.core.invariants import Finding, Invariant, TableRow, TableRows, invariant
from wmlab.streams.tables import marks_read_ms

DROPPED: Final = "of a dropped writer"
NOT_NOTED: Final = "of a writer that had noted no time"
SEGMENT_END: Final = 2**63 - 1
"""Stands for the end of a segment: beyond every offset."""
Rule = Callable[..., Iterable[Finding]]


def titled(statement: str, no_data: str, *, exempt: str = "exception") -> Callable[[Rule], Invariant]:
    """Makes the rule that it stands above an invariant, whose statement is short enough to be its title."""
    return invariant(statement, no_data, title=statement, exempt=exempt)


def ordered_log(watermarks: TableRows) -> list[TableRow]:
    """The watermarks in the order of the log."""
    return sorted(watermarks, key=lambda row: (row["seq"], row["revision"], row["emitted_ms"]))


def counting_log(ordered_log: TableRows) -> list[TableRow]:
    """The log without ends of known time, which count no writers."""
    return [row for row in ordered_log if row["writers"]]


def accepted_marks(writer_marks: TableRows) -> list[TableRow]:
    """The marks that were stored, in the order in which they were received."""
    stored = (row for row in writer_marks if row["outcome"] == "success")
    return sorted(stored, key=lambda row: int(row["received_ms"]))


def owners_of(rows: TableRows, ownership: TableRows) -> list[TableRow]:
    """The rows of `ownership` for the bucket of the stream of some rows; none of no rows."""
    return [owner for row in rows[:1] for owner in ownership if row["stream"].partition("#")[0] in owner["streams"]]


class NotedTimes:
    """The accepted marks of one writer, in the order in which they were received, and when cycles removed it."""

    def __init__(self, marks: TableRows, removed_ms: Iterable[int]) -> None:
        self.received_ms = [mark["received_ms"] for mark in marks]
        self.largest = list(accumulate((mark["time"] for mark in marks), max))
        self.removed_ms = sorted(removed_ms)
        self.with_time: dict[int | None, list[TableRow]] = {}
        for mark in marks:
            self.with_time.setdefault(mark["time"], []).append(mark)

    def counted(self, row: TableRow, writer: str) -> list[TableRow]:
        """The mark that a watermark counted of this `writer`; none if that is not among the marks.

        Of a log that does not say which it was, all marks with the counted time until the append.
        """
        marks = self.with_time.get(row["writers"].get(writer), ())
        if row["counted"] is None:
            return [mark for mark in marks if mark["received_ms"] <= row["emitted_ms"]]
        return [mark for mark in marks if mark["received_ms"] == row["counted"].get(writer)]

    def latest(self, until_ms: int) -> int | None:
        """The largest time noted by then."""
        received = bisect_right(self.received_ms, until_ms)
        return self.largest[received - 1] if received else None

    def excuse(self, row: TableRow) -> str | None:
        """Why a watermark did not count the writer: `NOT_NOTED`, `DROPPED`, or None if it was on record.

        A mark of the very millisecond in which the cycle read the marks may have come too late for it.
        """
        received = bisect_left(self.received_ms, marks_read_ms(row))
        if not received:
            return NOT_NOTED
        removed = bisect_left(self.removed_ms, self.received_ms[received - 1])
        gone = removed < len(self.removed_ms) and self.removed_ms[removed] <= row["emitted_ms"]
        return DROPPED if gone else None


def marks_by_writer(accepted_marks: TableRows, cycles: TableRows) -> dict[str, NotedTimes]:
    """What every writer noted that ever noted a time."""
    marks: dict[str, list[TableRow]] = {}
    for mark in accepted_marks:
        marks.setdefault(mark["writer"], []).append(mark)
    removed: dict[str, list[int]] = {}
    for cycle in cycles:
        for writer in cycle["removed"] or ():
            removed.setdefault(writer, []).append(cycle["at_ms"])
    return {writer: NotedTimes(rows, removed.get(writer, ())) for writer, rows in sorted(marks.items())}


class WriterView(NamedTuple):
    """What one watermark says about one writer that noted at some time.

    `time` is what it was counted with, None if it was not, `position` that of the counted mark, `latest` the largest
    time it had noted when the watermark was appended, and `excuse` why it was not counted, see `NotedTimes.excuse`.
    """

    row: TableRow
    time: int | None
    position: Mapping[int, int | None] | None
    latest: int | None
    excuse: str | None


def views_by_writer(counting_log: TableRows, marks_by_writer: Mapping[str, NotedTimes]) -> dict[str, list[WriterView]]:
    """Every watermark without the ends of known time from the side of every writer that ever noted."""
    return {writer: list(_views(counting_log, writer, marks)) for writer, marks in marks_by_writer.items()}


def _views(log: TableRows, writer: str, marks: NotedTimes) -> Iterator[WriterView]:
    for row in log:
        counted = marks.counted(row, writer)
        position = counted[-1]["position"] if counted else None
        yield WriterView(row, row["writers"].get(writer), position, marks.latest(row["emitted_ms"]), marks.excuse(row))
