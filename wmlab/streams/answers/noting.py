"""What writers noted over a run: their marks, when one was missing, and which of them held the watermark.

Source: PDP-33, Periodic Watermark Workflow; who held the watermark is what `wmlab.streams.answers.cause` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from wmlab.core.charts.axis import time_words
from wmlab.core.invariants import TableRow
from wmlab.core.words import clock_words, counted, grouped, rounded
from wmlab.streams.answers.cause import OF_WRITERS, CauseKind, CauseSpan

_MISSING_AFTER: Final = 1.5
"""A mark is missing after this many of a writer's usual intervals, which is their median."""


class WriterSpan(NamedTuple):
    """A stretch of the clock (ms) of a writer, in words."""

    writer: str
    from_ms: int
    to_ms: int
    words: str


def missing_marks(marks: Sequence[TableRow], end_ms: int) -> list[WriterSpan]:
    """When a mark was missing of each writer, up to the end of the run; `marks` ascend by when they were received."""
    spans = []
    for writer in sorted({row["writer"] for row in marks}):
        received = [row["received_ms"] for row in marks if row["writer"] == writer]
        gaps = [after - before for before, after in pairwise(received)]
        due_ms = round(_MISSING_AFTER * median(gaps)) if gaps else end_ms
        for before, after in pairwise([*received, end_ms]):
            if after - before > due_ms:
                words = f"{writer}: no mark for {rounded(after - before)}"
                spans.append(WriterSpan(writer, before + due_ms, after, words))
    return spans


def holding_writers(cause_spans: Sequence[CauseSpan]) -> list[WriterSpan]:
    """When each writer held the lower bound of the log; spans that follow each other are one."""
    spans: list[WriterSpan] = []
    newest: dict[str, int] = {}
    for span in cause_spans:
        why = "waited for" if span.cause.kind is CauseKind.LAGGING else "the slowest"
        for writer in span.cause.names if span.cause.kind in OF_WRITERS else ():
            index = newest.get(writer)
            if index is not None and spans[index].to_ms == span.from_ms:
                spans[index] = spans[index]._replace(to_ms=span.to_ms)
            else:
                newest[writer] = len(spans)
                words = f"{writer} held the lower bound: {why}"
                spans.append(WriterSpan(writer, span.from_ms, span.to_ms, words))
    return spans


def noting_sentences(stream: str, marks: Sequence[TableRow], holding: Sequence[WriterSpan]) -> str:
    """Which writer held the watermark longest, and how many marks were refused."""
    longest = max(holding, key=lambda span: span.to_ms - span.from_ms, default=None)
    held = f"No writer held the watermark of {stream}."
    if longest is not None:
        lasted = rounded(longest.to_ms - longest.from_ms)
        since = time_words(row["received_ms"] for row in marks)(longest.from_ms)
        held = f"{longest.writer} held the watermark of {stream} longest, for {lasted} from {since}."
    refused = sum(row["outcome"] != "success" for row in marks)
    were = "was" if len(marks) == 1 else "were"
    return f"{held} {counted(len(marks), 'mark')} {were} noted, {grouped(refused)} of them refused."


def mark_words(row: TableRow) -> str:
    """A mark in words: who noted which time when, and how its controller judged it."""
    time, at = clock_words(row["time"], clock_ms=row["noted_ms"]), clock_words(row["noted_ms"])
    return f"{row['writer']} noted {time} at {at}; {row['controller']}: {row['outcome']}"
