"""What writers noted over a run, and what each watermark cycle made of it: who held the watermark, who was left out.

Source: PDP-33, In-memory State and Periodic Watermark Workflow, whose cases a and b of excluded writers it tells apart;
who held the watermark is what `wmlab.streams.answers.cause` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import chain, groupby, pairwise, zip_longest
from statistics import median
from typing import Final, NamedTuple

from wmlab.core.charts.axis import time_words
from wmlab.core.invariants import TableRow
from wmlab.core.words import clock_words, counted, grouped, rounded
from wmlab.streams.answers.cause import OF_WRITERS, CauseSpan
from wmlab.streams.answers.vocabulary import CauseKind

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
    sentence = f"No writer held the watermark of {stream}."
    if longest is not None:
        lasted = rounded(longest.to_ms - longest.from_ms)
        since = time_words(row["received_ms"] for row in marks)(longest.from_ms)
        sentence = f"{longest.writer} held the watermark of {stream} longest, for {lasted} from {since}."
    refused = sum(row["outcome"] != "success" for row in marks)
    were = "was" if len(marks) == 1 else "were"
    return f"{sentence} {counted(len(marks), 'mark')} {were} noted, {grouped(refused)} of them refused."


def mark_words(row: TableRow) -> str:
    """A mark in words: who noted which time when, and how its controller judged it."""
    time, at = clock_words(row["time"], clock_ms=row["noted_ms"]), clock_words(row["noted_ms"])
    return f"{row['writer']} noted {time} at {at}; {row['controller']}: {row['outcome']}"


class Standing(StrEnum):
    """What a known writer was to a cycle."""

    TAKEN = "in the generation"
    SILENT = "left out: noted nothing (case a)"
    OLDER = "left out: notes older times (case b)"
    REMOVED = "removed from the known set"


_SINCE = {Standing.SILENT: "it noted nothing", Standing.OLDER: "it noted older times"}


class Membership(NamedTuple):
    """What a known writer was to the cycle at `at_ms` (clock), whose barrier was the lower bound before it."""

    at_ms: int
    barrier: int | None
    writer: str
    standing: Standing


def memberships(cycles: Sequence[TableRow], marks: Sequence[TableRow]) -> list[Membership]:
    """What every writer of the known set was to each cycle; `cycles` ascend, `marks` are those that were accepted."""
    entries = []
    for before, cycle in zip_longest([None, *cycles[:-1]], cycles):
        since_ms = None if before is None else before["at_ms"]
        noted = {
            row["writer"]
            for row in marks
            if row["received_ms"] <= cycle["at_ms"] and (since_ms is None or row["received_ms"] > since_ms)
        }
        kinds = chain(
            ((writer, Standing.TAKEN) for writer in cycle["participating"]),
            ((writer, Standing.OLDER if writer in noted else Standing.SILENT) for writer in cycle["lagging"]),
            ((writer, Standing.REMOVED) for writer in cycle["removed"]),
        )
        entries += [Membership(cycle["at_ms"], cycle["previous_lower"], writer, kind) for writer, kind in kinds]
    return entries


def known_writers(entries: Sequence[Membership]) -> list[str]:
    """The writers of the known set, first those that were left out of most generations."""
    left_out = Counter(entry.writer for entry in entries if entry.standing in _SINCE)
    return sorted({entry.writer for entry in entries}, key=lambda writer: (-left_out[writer], writer))


def generation_sentences(stream: str, cycles: Sequence[TableRow], entries: Sequence[Membership]) -> str:
    """Who was left out of generations for longest, and how that ended."""
    known = known_writers(entries)
    text = (
        f"To make a watermark, {counted(len(cycles), 'cycle')} looked at {counted(len(known), 'known writer')} "
        f"of {stream}."
    )
    stretches = list(_left_out(known, entries))
    if not stretches:
        return f"{text} All were in every generation."
    longest = max(stretches, key=len)
    writer, begin = longest[0].writer, time_words(row["at_ms"] for row in cycles)(longest[0].at_ms)
    why = Counter(entry.standing for entry in longest if entry.standing is not Standing.REMOVED)
    if not why:
        return f"{text} {writer} was removed at {begin}, without being left out before."
    since = _SINCE[max(why, key=lambda standing: why[standing])]
    out = f"{writer} was left out of {counted(why.total(), 'generation')} from {begin} on, since {since}."
    first, last = longest[0], longest[-1]
    if last.standing is Standing.REMOVED:
        return f"{text} {out} It was removed after {rounded(last.at_ms - first.at_ms)}."
    back_ms = next((entry.at_ms for entry in entries if entry.writer == writer and entry.at_ms > last.at_ms), None)
    if back_ms is None:
        return f"{text} {out} It is left out at the end."
    return f"{text} {out} It came back after {rounded(back_ms - first.at_ms)}."


def _left_out(writers: Sequence[str], entries: Sequence[Membership]) -> Iterator[list[Membership]]:
    """The stretches of cycles whose generation a writer was not in."""
    for writer in writers:
        of_writer = (entry for entry in entries if entry.writer == writer)
        for is_out, stretch in groupby(of_writer, lambda entry: entry.standing is not Standing.TAKEN):
            if is_out:
                yield list(stretch)


def cycle_sentences(stream: str, cycles: Sequence[TableRow]) -> str:
    """How many cycles emitted a watermark, and why most of the others did not."""
    held = [row for row in cycles if row["outcome"] != "emitted"]
    number = counted(len(cycles), "cycle")
    if not held:
        return f"{number} of {stream} ran, and {'it' if len(cycles) == 1 else 'all'} emitted a watermark."
    text = f"{grouped(len(cycles) - len(held))} of {number} of {stream} emitted a watermark."
    waited = Counter(writer for row in held for writer in row["lagging"])
    reasons = waited or Counter(row["reason"] for row in held)
    cause, count = min(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    others = f"{grouped(count)} of the {grouped(len(held))} others"
    if count == len(held):
        others = {1: "The other one", 2: "Both others"}.get(count, f"All {grouped(count)} others")
    were = "was" if count == 1 else "were"
    return f"{text} {others} {f'waited for {cause}' if waited else f'{were} held: {cause}'}."


def cycle_words(row: TableRow) -> str:
    """A cycle with its controller and what became of it: "21.0 s, controller-0: emitted; dropped w2"."""
    removed = f"; dropped {', '.join(row['removed'])}" if row["removed"] else ""
    return f"{clock_words(row['at_ms'])}, {row['controller']}: {row['reason'] or row['outcome']}{removed}"
