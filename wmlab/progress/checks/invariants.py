"""Invariants of trackers: N1, N3, N6 (what an operator believes after each buffer), N10 (chunks); and of windows and
their outputs: N8 (they fire once, in order), N9 (what outputs carry), N11 (slices).

Each is a rule over the rows of one query. `tracked` has the rows of its table `buffers`, each with what the tracker of
`wmlab.progress.model` reaches with it. There is one finding per buffer, sequence or window.

What else a tracker has to keep follows from N1 and N3: that a gap blocks (N2), that a complete sequence counts with the
largest watermark of its chunks (N5), and that the local watermark lies between that of the last complete sequence and
the largest (N7). Those numbers, and N4, which compared two rules of the model with each other, are not given again.

Source: "Watermarking and Progress"; upstream classes `MultiOriginWatermarkProcessor`, `ChunkCollector` and
`DefaultTimeBasedSliceStore`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, invariant, name_text, time_text
from wmlab.progress.model.chunks import MEANING, CompletenessRule
from wmlab.progress.model.numbers import stamp_of
from wmlab.progress.model.tracker import LocalRule, ProgressRules, Reached, follow_buffers, supposed_origins

_NO_WINDOW: Final = "no window fired"
_NO_BUFFER: Final = "no buffer came to an operator"
_WINDOW: Final = ("stream", "operator", "sequence", "start", "end")
_IDENTIFIERS: Final = ("stream", "operator", "arrival", "origin", "sequence", "chunk", "last", "watermark")


class Tracked(NamedTuple):
    """A row of `buffers`, and what a tracker reaches with it."""

    row: TableRow
    reached: Reached


def tracked(buffers: TableRows, local: LocalRule) -> list[Tracked]:
    """The arrivals at each operator of one query in their order, followed by a tracker that goes by the set of chunks.

    `local` is the recording's rule. By the literal sentence of the text a watermark counts before its sequence is
    complete; that is judged as what it should have been, the watermark of the last complete sequence.
    """
    followed: list[Tracked] = []
    for arrivals in _by_operator(buffers, "arrival"):
        first = arrivals[0]
        rules = ProgressRules(chunk_base=first["chunk_base"], local="head" if local == "literal" else local)
        origins = supposed_origins((row["origin"] for row in arrivals), first["origins"])
        followed += map(Tracked, arrivals, follow_buffers(map(stamp_of, arrivals), origins, rules))
    return followed


def _by_operator(rows: TableRows, order: str) -> list[TableRows]:
    """The rows of each operator, in the order of a column."""
    by_operator: dict[str, list[TableRow]] = {}
    for row in rows:
        by_operator.setdefault(row["operator"], []).append(row)
    return [sorted(rows_of_one, key=itemgetter(order)) for rows_of_one in by_operator.values()]


@invariant("prefix and local watermark are those of the longest complete prefix", _NO_BUFFER)
def prefix_decides(tracked: Sequence[Tracked]) -> Iterator[Finding]:
    """N1: prefix and local watermark are those of the longest consecutive sequence of complete sequences."""
    for row, reached in tracked:
        if (row["reached_prefix"], row["reached_local"]) == (reached.prefix, reached.local_watermark):
            yield Finding(True)
        else:
            what = (
                f"the prefix of {name_text(row['emitter'])} was taken for {row['reached_prefix']} at "
                f"{time_text(row['reached_local'])}; it is {reached.prefix} at {time_text(reached.local_watermark)}"
            )
            yield _broken_at(row, what, "reached_prefix", "reached_local")


@invariant("a sequence is complete exactly when all its chunks have come", _NO_BUFFER)
def complete_by_the_set(tracked: Sequence[Tracked], complete: CompletenessRule) -> Iterator[Finding]:
    """N3: an arrival completes its sequence exactly when it is the last of all chunks to come.

    `complete` is the rule of the recording, which a finding names if it is another one.
    """
    by_rule = "" if complete == "set" else f"; by the rule {complete!r} it is when {MEANING[complete]}"
    for row, reached in tracked:
        if row["completed"] == reached.completes:
            yield Finding(True)
        else:
            wrong = "was taken for complete too early" if row["completed"] else "was complete and not seen to be"
            what = f"sequence {row['sequence']} of {name_text(row['emitter'])} {wrong}{by_rule}"
            yield _broken_at(row, what, "completed")


@invariant("the global watermark is the smallest local one, unknown while an origin has none", _NO_BUFFER)
def smallest_of_the_origins(buffers: TableRows) -> Iterator[Finding]:
    """N6: the global watermark is the smallest of the recorded local ones, unknown while a declared origin has none."""
    for arrivals in _by_operator(buffers, "arrival"):
        local: dict[int, int | None] = {}
        for row in arrivals:
            local[row["origin"]] = row["reached_local"]
            known = [value for value in local.values() if value is not None]
            smallest = min(known) if len(known) == row["origins"] == len(local) else None
            if row["reached"] == smallest:
                yield Finding(True)
            else:
                reached = time_text(row["reached"])
                what = f"the global watermark is {reached}; the smallest local one is {time_text(smallest)}"
                yield _broken_at(row, what, "reached_local", "reached")


def _broken_at(row: TableRow, what: str, *columns: str) -> Finding:
    """A broken promise at an arrival, with some columns beside those that identify it."""
    where = f"after arrival {row['arrival']} at {name_text(row['operator'])} of {name_text(row['stream'])}"
    return Finding(False, row["arrived_ms"], f"{where} {what}", [Evidence.of("buffers", row, *_IDENTIFIERS, *columns)])


@invariant("no chunk comes twice, and only the one with the highest number is the last", _NO_BUFFER)
def chunks_in_order(buffers: TableRows) -> Iterator[Finding]:
    """N10: no chunk of a sequence comes twice, one at most is the last, and none has a higher number."""
    sequences: dict[tuple[str, int, int], list[TableRow]] = {}
    for row in buffers:
        sequences.setdefault((row["operator"], row["origin"], row["sequence"]), []).append(row)
    for arrivals in sequences.values():
        chunks = sorted(row["chunk"] for row in arrivals)
        lasts = [row["chunk"] for row in arrivals if row["last"]]
        if len(set(chunks)) == len(chunks) and lasts in ([], [chunks[-1]]):
            yield Finding(True)
            continue
        row, listed = arrivals[0], ", ".join(map(str, chunks))
        what = (
            f"sequence {row['sequence']} of {name_text(row['emitter'])} at {name_text(row['operator'])} has the chunks "
            f"{listed} and {len(lasts)} last flags"
        )
        others = {"chunks": chunks, "last_chunk": max(lasts, default=None)}
        proof = Evidence.of("buffers", row, "stream", "operator", "origin", "sequence", **others)
        yield Finding(False, max(row["arrived_ms"] for row in arrivals), what, [proof])


@invariant(
    "windows fire once, in order of end, numbered without a gap, not before time has come to their end", _NO_WINDOW
)
def fires_once(windows_fired: TableRows) -> Iterator[Finding]:
    """N8: windows fire once, in order of end, numbered 1, 2, ..., not before the watermark has come to their end."""
    for outputs in _by_operator(windows_fired, "sequence"):
        before = outputs[0]["end"]
        for number, window in enumerate(outputs, 1):
            wrong = None
            if window["again"]:
                wrong = "fired again"
            elif window["cause"] == "watermark" and (window["reached"] is None or window["end"] > window["reached"]):
                wrong = f"fired at {time_text(window['reached'])}"
            elif window["end"] < before:
                wrong = f"fired after the one that ends at {time_text(before)}"
            elif window["sequence"] != number:
                wrong = f"is number {number}"
            proof = Evidence.of("windows_fired", window, *_WINDOW, "arrival", "reached", "cause", "again")
            yield _of_window(window, wrong, window["fired_ms"], proof)
            before = window["end"]


@invariant("outputs carry the start of their window, which never goes back", _NO_WINDOW)
def outputs_carry_the_start(windows_fired: TableRows, buffers: TableRows) -> Iterator[Finding]:
    """N9: what the probe is given carries the start of its window, and no later window starts earlier."""
    for outputs in _by_operator(windows_fired, "sequence"):
        for before, window in pairwise(outputs):
            back = window["start"] < before["start"]
            wrong = f"starts before the one ahead of it, {time_text(before['start'])}" if back else None
            yield _of_window(window, wrong, window["fired_ms"], Evidence.of("windows_fired", window, *_WINDOW))
    outputs_to_probe: dict[tuple[int, int], list[TableRow]] = {}
    for row in buffers:
        if row["operator"] == "probe":
            outputs_to_probe.setdefault((row["origin"], row["sequence"]), []).append(row)
    for window in windows_fired:
        for row in outputs_to_probe.get((window["origin"], window["sequence"]), ()):
            carries = time_text(row["watermark"])
            wrong = None if row["watermark"] == window["start"] else f"goes out with the watermark {carries}"
            proof = Evidence.of("buffers", row, "origin", "sequence", "chunk", "watermark")
            yield _of_window(window, wrong, row["arrived_ms"], Evidence.of("windows_fired", window, *_WINDOW), proof)


@invariant("a window holds the records of its slices", _NO_WINDOW)
def windows_are_their_slices(windows_fired: TableRows, buffers: TableRows) -> Iterator[Finding]:
    """N11: a window holds the records that had come in its slices when it fired; double fires are left to N8."""
    filled = {arrivals[0]["operator"]: SliceCounts(arrivals) for arrivals in _by_operator(buffers, "arrival")}
    for window in windows_fired:
        if not window["again"]:
            slices = filled.get(window["operator"])
            inside = 0 if slices is None else slices.records(window["start"], window["end"], window["arrival"])
            said = f"held {window['records']} records; its slices have {inside}"
            wrong = None if window["records"] == inside else said
            proof = Evidence.of("windows_fired", window, *_WINDOW, "records", "arrival")
            yield _of_window(window, wrong, window["fired_ms"], proof)


class SliceCounts:
    """How many records had come to an operator in each slice, from its arrivals in their order."""

    def __init__(self, arrivals: TableRows) -> None:
        came: dict[int, list[tuple[int, int]]] = {}
        for row in arrivals:
            for start, records in zip(row["slices"], row["slice_records"], strict=True):
                came.setdefault(start, []).append((row["arrival"], records))
        self.starts = sorted(came)
        self.arrivals = [[arrival for arrival, _ in came[start]] for start in self.starts]
        self.totals = [list(accumulate((count for _, count in came[start]), initial=0)) for start in self.starts]

    def records(self, start: int, end: int, arrival: int | None) -> int:
        """The records in slices that begin in [start, end), up to an arrival; None: all."""
        slices = range(bisect_left(self.starts, start), bisect_left(self.starts, end))
        if arrival is None:
            return sum(self.totals[index][-1] for index in slices)
        return sum(self.totals[index][bisect_right(self.arrivals[index], arrival)] for index in slices)


def _of_window(window: TableRow, wrong: str | None, at_ms: int, *proof: Evidence) -> Finding:
    """What was found about a window: good if nothing is wrong."""
    if wrong is None:
        return Finding(True)
    named = f"the window from {time_text(window['start'])} to {time_text(window['end'])} of "
    return Finding(False, at_ms, f"{named}{name_text(window['stream'])} {wrong}", proof)


@invariant("at rest each origin has passed all sequences up to the first one that has not come whole", _NO_BUFFER)
def comes_to_rest(buffers: TableRows) -> Iterator[Finding]:
    """N12: after the last arrival of an origin, the sequence behind its prefix has not come, or not whole.

    One finding per operator and origin. The chunks decide, whatever rule the operator went by.
    """
    for arrivals in _by_operator(buffers, "arrival"):
        chunks: dict[tuple[int, int], dict[int, bool]] = {}
        for row in arrivals:
            chunks.setdefault((row["origin"], row["sequence"]), {})[row["chunk"]] = row["last"]
        latest = {row["origin"]: row for row in arrivals}
        for origin, row in sorted(latest.items()):
            behind = chunks.get((origin, row["reached_prefix"] + 1), {})
            lasts = [number for number, last in behind.items() if last]
            if not lasts or len(behind) <= max(lasts) - row["chunk_base"]:
                yield Finding(True)
            else:
                sequence = row["reached_prefix"] + 1
                what = f"{name_text(row['emitter'])} stands still before sequence {sequence}, which has come whole"
                yield _broken_at(row, what, "reached_prefix", "reached_local")
