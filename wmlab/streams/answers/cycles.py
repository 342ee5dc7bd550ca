"""What writers noted over a run, and what each watermark cycle made of it: who held the watermark, who was left out.

Source: PDP-33, In-memory State and Periodic Watermark Workflow, whose cases a and b of excluded writers it tells apart;
who held the watermark is what `wmlab.streams.answers.cause` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from itertools import chain, groupby, pairwise, zip_longest
from statistics import median
from typing import Final, NamedTuple

from wmlab.core.facts import Head
from wmlab.core.invariants import TableRow
from wmlab.core.words import clock_words, rounded
from wmlab.streams.answers.cause import OF_WRITERS, CauseSpan
from wmlab.streams.answers.head_labels import OF_STOP, head_of
from wmlab.streams.answers.stops import Stop
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
    """When each writer held the watermark in the log; spans that follow each other are one."""
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
                words = f"{writer} held the watermark in the log: {why}"
                spans.append(WriterSpan(writer, span.from_ms, span.to_ms, words))
    return spans


def noting_head(marks: Sequence[TableRow], stop: Stop | None) -> Head:
    """The longest stop of the watermark in the log."""
    of_stop = {} if stop is None else {label: stop.facts[label] for label in OF_STOP}
    return head_of("notes", of_stop, clock_ms=marks[0]["noted_ms"])


def mark_words(row: TableRow) -> str:
    """A mark in words: who noted which time when, and how its controller judged it."""
    time, at = clock_words(row["time"], clock_ms=row["noted_ms"]), clock_words(row["noted_ms"])
    return f"{row['writer']} noted {time} at {at}; {row['controller']}: {row['outcome']}"


def all_cycles(cycles: Sequence[TableRow], watermarks: Sequence[TableRow]) -> list[TableRow]:
    """The cycles, ascending, with those that died after their watermark was in the log, of which only that is recorded.

    `watermarks` are in the order of the log, with the writers that each counts.
    """
    ran = {(row["controller"], row["at_ms"]) for row in cycles}
    died = [
        {
            "controller": row["controller"],
            "at_ms": row["cycle_ms"],
            "previous_lower": before and before["lower"],
            "participating": [*dict(row["writers"])],
            "lagging": [],
            "removed": [],
            "outcome": "emitted",
            "reason": "died after its watermark",
        }
        for before, row in zip([None, *watermarks], watermarks, strict=False)
        if row["cycle_ms"] is not None and row["writers"] and (row["controller"], row["cycle_ms"]) not in ran
    ]
    return sorted([*cycles, *died], key=lambda row: int(row["at_ms"]))


class Standing(StrEnum):
    """What a known writer was to a cycle."""

    TAKEN = "in the generation"
    SILENT = "left out: noted nothing (case a)"
    OLDER = "left out: notes older times (case b)"
    REMOVED = "removed from the known set"


_LEFT_OUT: Final = (Standing.SILENT, Standing.OLDER)


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
    left_out = Counter(entry.writer for entry in entries if entry.standing in _LEFT_OUT)
    return sorted({entry.writer for entry in entries}, key=lambda writer: (-left_out[writer], writer))


def generation_head(cycles: Sequence[TableRow], entries: Sequence[Membership]) -> Head:
    """Who was left out of most generations in a row."""
    stretches = [
        list(stretch)
        for writer in known_writers(entries)
        for is_out, stretch in groupby(
            (entry for entry in entries if entry.writer == writer), lambda entry: entry.standing in _LEFT_OUT
        )
        if is_out
    ]
    longest = max(stretches, key=len, default=[])
    first = longest[0] if longest else None
    return head_of(
        "generations",
        {
            "left out longest": first and first.writer,
            "left out of": len(longest) or None,
            "left out from": first and first.at_ms,
        },
        clock_ms=cycles[0]["at_ms"],
    )


def cycle_head(cycles: Sequence[TableRow]) -> Head:
    """How many cycles emitted a watermark, and whom most of the others waited for."""
    held = [row for row in cycles if row["outcome"] != "emitted"]
    waited = Counter(writer for row in held for writer in row["lagging"])
    writer, number = min(waited.items(), key=lambda pair: (-pair[1], pair[0]), default=(None, None))
    return head_of(
        "cycles",
        {
            "cycles": len(cycles),
            "emitted": len(cycles) - len(held),
            "waited for most": writer,
            "waited for in": number,
        },
        clock_ms=cycles[0]["at_ms"],
    )


def cycle_words(row: TableRow) -> str:
    """A cycle with its controller and what became of it: "21.0 s, controller-0: emitted; dropped w2"."""
    removed = f"; dropped {', '.join(row['removed'])}" if row["removed"] else ""
    return f"{clock_words(row['at_ms'])}, {row['controller']}: {row['reason'] or row['outcome']}{removed}"
