"""Who held a stream's lower bound over a whole run, for how long, and what that cost.

Source: PDP-33, Periodic Watermark Workflow; the causes are those of `wmlab.streams.answers.causes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import pyarrow.compute as pc

from wmlab.core.answers import Against, Stragglers, Stretch, stragglers_from
from wmlab.core.recording import Recording
from wmlab.core.words import is_instant, listed, moment, span
from wmlab.streams.answers import history as recorded
from wmlab.streams.answers.causes import CauseKind, CauseOfBound, CauseSpan, causes, failure_words
from wmlab.streams.answers.history import PredictionRules, RunHistory, scenario_span
from wmlab.streams.answers.stream_bound import BoundCase, blocking_words, writer_words
from wmlab.streams.answers.written import Written

MEANINGS: Final = {
    CauseKind.NO_MARK: "no writer had noted a time that was accepted",
    CauseKind.FIRST_CYCLE: "a time was noted, and the first cycle had not run yet",
    CauseKind.LAGGING: "cycles emitted nothing and waited for this writer, which had noted nothing above the bound",
    CauseKind.EXPECTED: "fewer writers than expected had noted a time, and the first watermark waited for the others",
    CauseKind.SLOWEST: "cycles emitted, and the time of this writer was the smallest of all, so the bound is that",
    CauseKind.FAILED: "the cycles ended without a watermark",
    CauseKind.NOBODY_LEFT: "no active writer was on record",
    CauseKind.NO_CYCLE: "a cycle was due and did not run",
}
"""What each cause means."""
_BLOCKED_BY: Final = {
    CauseKind.NO_MARK: "nobody had noted a time",
    CauseKind.FIRST_CYCLE: "the first cycle had not run",
    CauseKind.EXPECTED: "expected writers had not come",
    CauseKind.NOBODY_LEFT: "no active writer was left",
    CauseKind.NO_CYCLE: "nobody owned the bucket",
}
_TIMED: Final = ("segments", "writer_marks", "cycles", "events", "positions", "windows")


def stragglers_of(recording: Recording, stream: str, rules: PredictionRules | None = None) -> Stragglers:
    """The stragglers of the stream's lower bound from the stream's creation to the end of the run, or its deletion.

    At every moment one cause holds the bound; what the bound would have been without its writers is taken from the
    times the others had noted by the last cycle. A run ends when its scenario does; one of the outside world, or one
    that was stopped, with the last thing recorded.
    """
    start_ms, end_ms = _run(recording, stream)
    spans = list(causes(recording, stream, start_ms=start_ms, end_ms=end_ms, rules=rules))
    stalls = [_stall(*cause_span) for cause_span in spans]
    has_no_price = all(cause.by_ms is None for *_, cause in spans)
    notes = [_longest_constant_bound(recording, stream, spans)] if has_no_price else []
    silent = _longest_silent(Written(recording, stream), spans)
    return stragglers_from(
        stalls,
        stream=stream,
        run_ms=end_ms - start_ms,
        meanings={kind.value: meaning for kind, meaning in MEANINGS.items()},
        notes=[note for note in (*notes, silent) if note],
    )


def _stall(from_ms: int, to_ms: int, history: RunHistory, cause: CauseOfBound) -> Stretch:
    """A stretch with its price: against what the others had noted, or against the clock where nobody else was there."""
    blocking = cause.writers or (cause.leader or _BLOCKED_BY.get(cause.kind) or failure_words(history),)
    lower, by_ms = history.lower, cause.by_ms
    against: Against = "the others"
    if lower is None:
        against = "no bound"
    elif by_ms is None and is_instant([lower], clock=[from_ms]) == is_instant([from_ms]):
        by_ms, against = from_ms - lower, "the clock"
    return Stretch(blocking, cause.kind.value, from_ms, to_ms, by_ms, len(blocking), against)


def _longest_silent(written: Written, spans: Sequence[CauseSpan]) -> str:
    """The imported writer that was furthest behind by its events for longest and held nothing; empty if none was."""
    behind: Counter[str] = Counter()
    for from_ms, to_ms, history, cause in spans:
        silent = written.silent_at(replace(history, at_ms=to_ms))
        if silent is not None and silent.writer not in cause.writers:
            behind[silent.writer] += to_ms - from_ms
    if not behind:
        return ""
    writer, length_ms = max(behind.items(), key=lambda entry: (entry[1], entry[0]))
    return (
        f"By its events {writer} was furthest behind for {span(length_ms, beside_ms=spans[-1][1] - spans[0][0])}, and "
        "held nothing then, for an imported writer goes on noting times while it sends nothing; that is what "
        "wm.spark.stragglers tells of the log."
    )


def _longest_constant_bound(recording: Recording, stream: str, spans: Sequence[CauseSpan]) -> str:
    """Where the bound stood longest, and what kept it there; empty if it never stood, or was never known."""
    known = [cause_span for cause_span in spans if cause_span[2].lower is not None]
    constant = [list(run) for _, run in groupby(known, key=lambda cause_span: cause_span[2].lower)]
    if not constant:
        return ""
    longest = max(constant, key=lambda run: run[-1][1] - run[0][0])
    from_ms, to_ms = longest[0][0], longest[-1][1]
    _, _, history, _ = max(longest, key=lambda cause_span: cause_span[1] - cause_span[0])
    case = BoundCase(Written(recording, stream), history, PredictionRules())
    blocking = [f"{writer.writer}, {writer_words(case, writer)}" for writer in case.writers]
    by = f" by {listed(blocking)}" if blocking else f", since {blocking_words(case)}"
    return (
        f"It stood longest at {case.time(history.lower)}, for {span(to_ms - from_ms, beside_ms=from_ms)} from "
        f"{moment(from_ms)} to {moment(to_ms)}: held{by}."
    )


def _run(recording: Recording, stream: str) -> tuple[int, int]:
    """From the creation of the stream to its deletion, the end of its finished scenario, or the last row."""
    times: list[int] = []
    for name in _TIMED:
        when = recorded.CLOCKS[name]
        for chunk in recording.chunks(name, "stream", when):
            column = recorded.of_stream(chunk, stream)[when]
            times += pc.min_max(column).as_py().values() if len(column) else []
    incidents = recorded.of_stream(recording.table("incidents"), stream)
    end_ms = pc.max(incidents.filter(pc.equal(incidents["kind"], "delete"))["at_ms"]).as_py()
    if end_ms is None and (planned := scenario_span(recording)) is not None:
        end_ms = planned[1]
    return min(times, default=0), max(times, default=0) if end_ms is None else end_ms
