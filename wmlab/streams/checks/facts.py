"""What several invariants take that stands in no table: the log in its order, and what each writer had noted when.

Everything here is made of the rows of one stream, once for all rules that take it, see `wmlab.core.invariants.Derived`.

Source: PDP-33, Watermark Computation and Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from wmlab.core.invariants import TableRow, TableRows

DROPPED: Final = "its writer had been dropped"
NOT_NOTED: Final = "its writer had noted no time yet"
SEGMENT_END: Final = 2**63 - 1
"""Stands for the end of a segment: beyond every offset."""


def ordered_log(watermarks: TableRows) -> list[TableRow]:
    """The watermarks in the order of the log."""
    return sorted(watermarks, key=lambda row: (row["seq"], row["revision"], row["emitted_ms"]))


class CountingEntry(NamedTuple):
    """A watermark, and `read_ms`: when the cycle that emitted it began, to read the marks first of all."""

    row: TableRow
    read_ms: int


def counting_log(ordered_log: TableRows, cycles: TableRows) -> list[CountingEntry]:
    """The log without ends of known time, which count no writers, with when each entry's cycle read the marks.

    That cycle is the one of the same controller whose previous lower bound is that of the entry before. A controller
    that goes down after the append leaves no row of it; then the controller's last cycle before that counts, which is
    earlier, and without any the moment of the append.
    """
    began: dict[tuple[str, int | None], int] = {}
    ran: dict[str, list[int]] = {}
    for cycle in sorted(cycles, key=lambda row: int(row["at_ms"])):
        ran.setdefault(cycle["controller"], []).append(cycle["at_ms"])
        if cycle["outcome"] == "emitted":
            began[cycle["controller"], cycle["previous_lower"]] = cycle["at_ms"]
    entries: list[CountingEntry] = []
    previous_lower = None
    for row in ordered_log:
        if row["writers"]:
            read_ms = began.get((row["controller"], previous_lower))
            if read_ms is None:
                moments = ran.get(row["controller"], [])
                earlier = bisect_right(moments, row["emitted_ms"])
                read_ms = moments[earlier - 1] if earlier else row["emitted_ms"]
            entries.append(CountingEntry(row, read_ms))
            previous_lower = row["lower"]
    return entries


def accepted_marks(writer_marks: TableRows) -> list[TableRow]:
    """The marks that were stored, in the order in which they were received."""
    stored = (row for row in writer_marks if row["outcome"] == "success")
    return sorted(stored, key=lambda row: int(row["received_ms"]))


class NotedTimes:
    """The accepted marks of one writer, in the order in which they were received, and when cycles removed it."""

    def __init__(self, marks: TableRows, removed_ms: Iterable[int]) -> None:
        self.received_ms = [mark["received_ms"] for mark in marks]
        self.largest = list(accumulate((mark["time"] for mark in marks), max))
        self.removed_ms = sorted(removed_ms)
        self.with_time: dict[int, list[TableRow]] = {}
        for mark in marks:
            self.with_time.setdefault(mark["time"], []).append(mark)

    def counted(self, time: int | None, until_ms: int) -> list[TableRow]:
        """The marks with this time that were received by then."""
        noted = () if time is None else self.with_time.get(time, ())
        return [mark for mark in noted if mark["received_ms"] <= until_ms]

    def latest(self, until_ms: int) -> int | None:
        """The largest time noted by then."""
        received = bisect_right(self.received_ms, until_ms)
        return self.largest[received - 1] if received else None

    def excuse(self, entry: CountingEntry) -> str | None:
        """Why a watermark did not count the writer: `NOT_NOTED`, `DROPPED`, or None if it was on record.

        A mark of the very millisecond in which the cycle read the marks may have come too late for it.
        """
        received = bisect_left(self.received_ms, entry.read_ms)
        if not received:
            return NOT_NOTED
        removed = bisect_left(self.removed_ms, self.received_ms[received - 1])
        gone = removed < len(self.removed_ms) and self.removed_ms[removed] <= entry.row["emitted_ms"]
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
    """A watermark from the side of a writer that noted at some time.

    `time` is what it was counted with, None if it was not, `position` that of the counted mark, `latest` the largest
    time it had noted when the watermark was appended, and `excuse` why it was not counted, see `NotedTimes.excuse`.
    """

    row: TableRow
    time: int | None
    position: Mapping[int, int | None] | None
    latest: int | None
    excuse: str | None


def views_by_writer(
    counting_log: Sequence[CountingEntry], marks_by_writer: Mapping[str, NotedTimes]
) -> dict[str, list[WriterView]]:
    """Every watermark without the ends of known time from the side of every writer that ever noted."""
    return {writer: list(_views(counting_log, writer, marks)) for writer, marks in marks_by_writer.items()}


def _views(log: Iterable[CountingEntry], writer: str, marks: NotedTimes) -> Iterator[WriterView]:
    for entry in log:
        time, until_ms = entry.row["writers"].get(writer), entry.row["emitted_ms"]
        counted = marks.counted(time, until_ms)
        position = counted[-1]["position"] if counted else None
        yield WriterView(entry.row, time, position, marks.latest(until_ms), marks.excuse(entry))
