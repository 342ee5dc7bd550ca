"""What holds a stream's lower bound, moment by moment: one cause, the writers behind it, and its price.

    cause              the last cycle                                  who
    no mark            there was none, nobody is on record             nobody
    first cycle        there was none, somebody is on record           nobody
    lagging            waited for writers                              those
    expected           waited for writers that were to come            nobody
    slowest            emitted                                         those whose time is the bound
    failed             ended for another reason (cut failed, ...)      nobody
    nobody left        found no active writer                          nobody
    no cycle           is too long ago, for another was due            the controller that ought to have run it

The lower bound of a watermark is the smallest time of the writers that it counts, so the writers with that time hold
it, also when only one is counted; without others on record its price is unknown. The cause is taken from what was known
by then; the release is a prediction, by the rules, for the case that nothing else happens, and of an event that is
still open the recording tells when it arrives.

Source: PDP-33, Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, groupby, pairwise

from wmlab.core.recording import Recording
from wmlab.core.words import rounded
from wmlab.streams.answers import history as recorded
from wmlab.streams.answers.history import PredictionRules, RunHistory
from wmlab.streams.model.cycle import HeldBy


class CauseKind(StrEnum):
    """What holds the bound, by the table of the module."""

    NO_MARK = "no mark"
    FIRST_CYCLE = "first cycle"
    LAGGING = "lagging"
    EXPECTED = "expected"
    SLOWEST = "slowest"
    FAILED = "failed"
    NOBODY_LEFT = "nobody left"
    NO_CYCLE = "no cycle"


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseOfBound:
    """The cause and the writers; `since_ms` when it began; `by_ms` how much higher the bound would be otherwise.

    Without the writers it would be the least time of the others; where a cycle failed or is missing, that of all.
    `since_ms` is None if it was so from the start; `by_ms` is None when nobody else is on record or no bound is known.
    `leader` ought to have run the missing cycle, None if no controller had to.
    """

    kind: CauseKind
    writers: tuple[str, ...] = ()
    since_ms: int | None = None
    by_ms: int | None = None
    leader: str | None = None


CauseSpan = tuple[int, int, RunHistory, CauseOfBound]
"""One cause of the bound: from when to when (clock, ms), the history when it began, the cause."""


def cause_of(history: RunHistory, rules: PredictionRules) -> CauseOfBound:
    """What holds the bound at the moment of `history`; the rules say whether a cycle is missing."""
    cycle, on_record = history.cycle, history.on_record
    missed_ms = rules.missed_ms(history) if on_record else None
    kind, since_ms, leader = CauseKind.FAILED, history.same_end_since_ms, None
    writers: list[str] = []
    if missed_ms is not None:
        kind, since_ms, leader = CauseKind.NO_CYCLE, missed_ms, history.leader
    elif cycle is None:
        kind, since_ms = (CauseKind.FIRST_CYCLE, history.woken_ms) if on_record else (CauseKind.NO_MARK, None)
    elif cycle["lagging"]:
        kind, writers = CauseKind.LAGGING, sorted(cycle["lagging"])
    elif cycle["cause"] == HeldBy.EXPECTED:
        kind = CauseKind.EXPECTED
    elif cycle["cause"] == HeldBy.NO_ACTIVE_WRITER:
        kind = CauseKind.NOBODY_LEFT
    elif cycle["outcome"] == "emitted" and history.bound is not None:
        kind, since_ms = CauseKind.SLOWEST, history.bound["emitted_ms"]
        writers = sorted(name for name, time in history.bound["writers"].items() if time == history.lower)
    others = [noted.time for name, noted in on_record.items() if name not in writers]
    by_ms = None
    if others and history.lower is not None and (writers or kind in (CauseKind.NO_CYCLE, CauseKind.FAILED)):
        by_ms = max(0, min(others) - history.lower)
    return CauseOfBound(kind=kind, writers=tuple(writers), since_ms=since_ms, by_ms=by_ms, leader=leader)


def causes(
    recording: Recording, stream: str, *, start_ms: int, end_ms: int, rules: PredictionRules | None = None
) -> Iterator[CauseSpan]:
    """What held the bound from `start_ms` to `end_ms`, cause by cause, by default by the recorded rules."""
    rules = rules or recorded.recorded_rules(recording, stream)
    before = RunHistory(at_ms=start_ms)
    for history in chain(_with_missed(recorded.walk(recording, stream), end_ms, rules), [RunHistory(at_ms=end_ms)]):
        same = history.cycle is before.cycle and history.bound is before.bound and before.on_record
        # While a cycle is missing, each mark changes what the bound would be otherwise.
        if history.at_ms < end_ms and same and rules.missed_ms(history) is None:
            continue
        from_ms, to_ms = max(start_ms, before.at_ms), min(end_ms, history.at_ms)
        if from_ms < to_ms:
            yield from_ms, to_ms, before, cause_of(before, rules)
        before = history


def _with_missed(histories: Iterable[RunHistory], end_ms: int, rules: PredictionRules) -> Iterator[RunHistory]:
    """The histories, and again from the moment on at which a cycle is missing, if nothing happens before."""
    for history, following in pairwise(chain(histories, [RunHistory(at_ms=end_ms)])):
        yield history
        due_ms = rules.due_ms(history)
        if due_ms is not None and history.at_ms < due_ms + rules.late_ms < following.at_ms:
            yield replace(history, at_ms=due_ms + rules.late_ms)


def longest_stall(spans: Iterable[CauseSpan]) -> str:
    """The longest time without a cycle that was due, as the last part of a sentence; empty if none was missing."""
    runs = [list(run) for missing, run in groupby(spans, lambda span: span[3].kind is CauseKind.NO_CYCLE) if missing]
    if not runs:
        return ""
    longest = max(runs, key=lambda run: run[-1][1] - run[0][0])
    (begin, _, history, _), end = longest[0], longest[-1][1]
    return f"; for {rounded(end - begin)} from {rounded(begin)} no cycle ran: {leader_words(history, rounded)}"


def failure_words(history: RunHistory) -> str:
    """Why the last cycle gave no bound."""
    return (history.cycle and history.cycle["reason"]) or "the watermark was not appended"


def leader_words(history: RunHistory, in_words: Callable[[int], str]) -> str:
    """What is known of the controller that ought to run the cycles."""
    name = history.leader
    since = f" since {in_words(history.owner[1])}" if history.owner else ""
    kind, at_ms = history.controllers.get(name or "", ("", 0))
    if kind in recorded.CONTROLLERS and (history.owner is None or at_ms >= history.owner[1]):
        return f"{name}, owner of the bucket, {recorded.CONTROLLERS[kind]} at {in_words(at_ms)}"
    return f"{name or 'nobody'} owns the bucket{since}"
