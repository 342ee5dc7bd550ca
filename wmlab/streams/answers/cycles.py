"""The watermark cycles of a stream: which emitted and why others did not, and which known writers each one took.

Source: PDP-33, In-memory State and Periodic Watermark Workflow, whose cases a and b of excluded writers it tells apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import chain, groupby, zip_longest
from typing import NamedTuple

from wmlab.core.charts.axis import time_words
from wmlab.core.invariants import TableRow
from wmlab.core.words import clock_words, counted, grouped, rounded


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
