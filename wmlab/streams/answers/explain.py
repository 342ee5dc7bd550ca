"""Why a stream's lower bound stands where it does at a moment: one cause, the writers behind it, and its price.

    cause              the last cycle                                  who
    no mark            there was none, nobody is on record             nobody
    first cycle        there was none, somebody is on record           nobody
    lagging            waited for writers                              those
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

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, groupby, pairwise
from typing import Final

import pyarrow.compute as pc

from wmlab.core.answers import Against, Answer, Stragglers, Stretch, Verdicts, stragglers_from
from wmlab.core.recording import Recording
from wmlab.core.words import is_instant, listed, moment, rounded, span
from wmlab.streams.answers import history as recorded
from wmlab.streams.answers.history import Rules, RunHistory
from wmlab.streams.answers.written import SilentWriter, Written
from wmlab.streams.model.cycle import HeldBy


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingWriter:
    """A writer that holds the bound: what befell it ("crashed", "" for nothing known), its last accepted mark, since
    when the leader has found it behind, and the cycle that drops it if it notes nothing newer.

    Times in ms, None if unknown; `refused` is the outcome of a later note that was not accepted. `open_until_ms` is
    when the open event arrives that keeps the mark where it is, for a writer that notes its earliest open event.
    """

    writer: str
    state: str
    time: int | None
    noted_ms: int | None
    behind_since_ms: int | None
    dropped_ms: int | None
    refused: str | None
    open_until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingSegment:
    """A segment whose position holds a group before a cut: `offset` read of `needed` bytes, by `reader` if any.

    `needed` is None when the group has to reach a later segment first.
    """

    segment: str
    reader: str | None
    offset: int
    needed: int | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(Answer):
    """What holds a lower bound at `at_ms`.

    `lower` is the bound, None if none is known; `cause` names what holds it; `since_ms` when that began; `by_ms` how
    much higher the bound would be otherwise; `release_ms` when it is released if nothing else happens. Each is None
    if unknown. `silent` is the imported writer whose newest event is furthest below the bound, if it is silent and goes
    on noting times. `log` explains the stream's own bound when a reader waits for its next watermark.
    """

    at_ms: int
    stream: str
    reader: str | None = None
    lower: int | None
    cause: str
    writers: tuple[HoldingWriter, ...] = ()
    segments: tuple[HoldingSegment, ...] = ()
    silent: SilentWriter | None = None
    since_ms: int | None = None
    by_ms: int | None = None
    release_ms: int | None = None
    sentence: str
    log: Explanation | None = None


class CauseKind(StrEnum):
    """What holds the bound, by the table of the module."""

    NO_MARK = "no mark"
    FIRST_CYCLE = "first cycle"
    LAGGING = "lagging"
    SLOWEST = "slowest"
    FAILED = "failed"
    NOBODY_LEFT = "nobody left"
    NO_CYCLE = "no cycle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
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


Held = tuple[int, int, RunHistory, Cause]
"""A stretch in which one cause held the bound: from when to when (clock, ms), the history at its begin, the cause."""


def cause_of(history: RunHistory, rules: Rules) -> Cause:
    """What holds the bound at the moment of `history`; the rules say whether a cycle is missing."""
    cycle, on_record = history.cycle, history.on_record
    missed_ms = rules.missed_ms(history) if on_record else None
    kind, since_ms, leader = CauseKind.FAILED, history.held_since, None
    writers: list[str] = []
    if missed_ms is not None:
        kind, since_ms, leader = CauseKind.NO_CYCLE, missed_ms, history.leader
    elif cycle is None:
        kind, since_ms = (CauseKind.FIRST_CYCLE, history.woken_ms) if on_record else (CauseKind.NO_MARK, None)
    elif cycle["lagging"]:
        kind, writers = CauseKind.LAGGING, sorted(cycle["lagging"])
    elif cycle["cause"] == HeldBy.NO_ACTIVE_WRITER:
        kind = CauseKind.NOBODY_LEFT
    elif cycle["outcome"] == "emitted" and history.bound is not None:
        kind, since_ms = CauseKind.SLOWEST, history.bound["emitted_ms"]
        writers = sorted(name for name, time in history.bound["writers"].items() if time == history.lower)
    others = [noted.time for name, noted in on_record.items() if name not in writers]
    by_ms = None
    if others and history.lower is not None and (writers or kind in (CauseKind.NO_CYCLE, CauseKind.FAILED)):
        by_ms = max(0, min(others) - history.lower)
    return Cause(kind=kind, writers=tuple(writers), since_ms=since_ms, by_ms=by_ms, leader=leader)


def causes(
    recording: Recording, stream: str, *, start_ms: int, end_ms: int, rules: Rules | None = None
) -> Iterator[Held]:
    """What held the bound from `start_ms` to `end_ms`, stretch by stretch, by default by the recorded rules."""
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


def _with_missed(histories: Iterable[RunHistory], end_ms: int, rules: Rules) -> Iterator[RunHistory]:
    """The histories, and again from the moment on at which a cycle is missing, if nothing happens before."""
    for history, following in pairwise(chain(histories, [RunHistory(at_ms=end_ms)])):
        yield history
        due_ms = rules.due_ms(history)
        if due_ms is not None and history.at_ms < due_ms + rules.late_ms < following.at_ms:
            yield replace(history, at_ms=due_ms + rules.late_ms)


def longest_stall(found: Iterable[Held]) -> str:
    """The longest time without a cycle that was due, as the last part of a sentence; empty if none was missing."""
    runs = [list(run) for missing, run in groupby(found, lambda held: held[3].kind is CauseKind.NO_CYCLE) if missing]
    if not runs:
        return ""
    longest = max(runs, key=lambda run: run[-1][1] - run[0][0])
    (begin, _, history, _), end = longest[0], longest[-1][1]
    return f"; for {rounded(end - begin)} from {rounded(begin)} no cycle ran: {_leader(history, rounded)}"


def explain_log(recording: Recording, stream: str, *, at_ms: int, rules: Rules) -> Explanation:
    """What holds the lower bound of the stream's marks log at `at_ms` (clock, ms)."""
    case = _Case(Written(recording, stream), recorded.history_at(recording, stream, at_ms), rules)
    return Explanation(
        at_ms=at_ms,
        stream=stream,
        lower=case.history.lower,
        cause=_failure(case.history) if case.cause.kind is CauseKind.FAILED else case.cause.kind.value,
        writers=case.writers,
        since_ms=case.cause.since_ms,
        by_ms=case.cause.by_ms,
        release_ms=case.release_ms,
        silent=case.silent,
        sentence=_sentence(case),
    )


class _Case:
    """What an explanation rests on.

    `written` knows the events; `behind` are the holding writers, and `awaited` the writers on record,
    that have noted no time beyond the bound. `next_cycle_ms` is None if it is unknown or none is planned; `release_ms`
    is the cycle that moves the bound if nothing else happens, None if none will, or if that is unknown.
    """

    def __init__(self, written: Written, history: RunHistory, rules: Rules) -> None:
        self.written = written
        self.history = history
        self.cause = cause_of(history, rules)
        kind = self.cause.kind
        lagging = kind is CauseKind.LAGGING
        self.writers = tuple(
            _holding_writer(history, written, name, rules.drops_at_ms(history, name) if lagging else None)
            for name in self.cause.writers
        )
        self.behind = [writer for writer in self.writers if not self.caught_up(writer.writer)]
        self.awaited = [name for name in sorted(history.on_record) if not self.caught_up(name)]
        silent = written.silent_at(history)
        self.silent = None if silent is None or silent.writer in self.cause.writers else silent
        self.next_cycle_ms = rules.next_cycle_ms(history)
        self.release_ms: int | None = None
        if lagging:
            drops = [writer.dropped_ms for writer in self.behind if writer.dropped_ms is not None]
            if len(drops) == len(self.behind):
                self.release_ms = max(drops, default=self.next_cycle_ms)
        # The bound waits for a cycle, whatever writers do, or is raised by the next one.
        elif kind in (CauseKind.FIRST_CYCLE, CauseKind.NO_CYCLE) or (kind is CauseKind.SLOWEST and not self.awaited):
            self.release_ms = self.next_cycle_ms

    def time(self, time_ms: int | None) -> str:
        """An event time in words, read beside the clock of the run."""
        return moment(time_ms, clock_ms=self.history.at_ms)

    def caught_up(self, writer: str) -> bool:
        """Whether a writer's mark lies beyond the bound."""
        noted, lower = self.history.on_record.get(writer), self.history.lower
        return noted is not None and (lower is None or noted.time > lower)


def _holding_writer(history: RunHistory, written: Written, name: str, dropped_ms: int | None) -> HoldingWriter:
    noted = history.on_record.get(name)
    arrival_ms = written.open_until_ms(name, noted.time, noted.noted_ms) if noted else None
    return HoldingWriter(
        writer=name,
        state=history.state_of(name),
        time=noted.time if noted else None,
        noted_ms=noted.noted_ms if noted else None,
        behind_since_ms=history.memory.behind_since.get(name),
        dropped_ms=dropped_ms,
        refused=noted.refused if noted else None,
        open_until_ms=arrival_ms if arrival_ms is not None and arrival_ms > history.at_ms else None,
    )


def _sentence(case: _Case) -> str:
    """The explanation in one sentence, without a full stop."""
    bound, lower, since_ms = case.history.bound, case.history.lower, case.cause.since_ms
    stands = case.time(lower)
    if lower is None:
        begin = "no lower bound yet: " if bound is None else f"no lower bound since {moment(bound['emitted_ms'])}: "
    elif case.cause.kind is CauseKind.SLOWEST:
        begin = f"lower bound is {stands} since {moment(since_ms)}, "
    else:
        since = "" if since_ms is None else f" since {moment(since_ms)}"
        because = "" if case.cause.kind is CauseKind.LAGGING else "because "
        begin = f"lower bound held at {stands}{since} {because}"
    return f"{begin}{_holder(case)}{_release(case)}{_silent(case)}"


def _silent(case: _Case) -> str:
    """The imported writer that has sent nothing above the bound for longest, though it goes on noting times."""
    if case.silent is None:
        return ""
    return (
        f"; by its events {case.silent.writer} is furthest behind: its newest has the time "
        f"{case.time(case.silent.newest)}, and it has sent nothing since {moment(case.silent.sent_ms)}, but goes on "
        "noting times"
    )


def _holder(case: _Case) -> str:
    """What holds the bound, after the words for where it is."""
    history = case.history
    match case.cause.kind:
        case CauseKind.NO_MARK:
            return _no_mark(case)
        case CauseKind.FIRST_CYCLE:
            return f"{_have(sorted(history.on_record))} noted a time, but no cycle has run"
        case CauseKind.LAGGING:
            return _lagging(case)
        case CauseKind.SLOWEST:
            ahead = _behind(case, "what the others have noted since")
            still_open = [writer for writer in case.behind if writer.open_until_ms is not None]
            kept = f", {_kept_by(still_open[0])}" if len(case.writers) == 1 and still_open else ""
            return f"the time that {listed(case.cause.writers)} had noted{kept}{ahead}"
        case CauseKind.FAILED:
            return f"the cycles end with: {_failure(history)}"
        case CauseKind.NOBODY_LEFT:
            return "no active writer is left"
        case CauseKind.NO_CYCLE:
            since = "" if history.cycle is None else f" since {moment(history.cycle['at_ms'])}"
            return f"no cycle has run{since}: {_leader(history, moment)}"


def _no_mark(case: _Case) -> str:
    if case.history.refused:
        writers = listed([f"{name} ({outcome})" for name, outcome in sorted(case.history.refused.items())])
        return f"no noted time was accepted, those of {writers} were refused"
    wrote = sorted(name for name, at_ms in case.written.firsts.items() if at_ms <= case.history.at_ms)
    if not wrote:
        return "no writer has noted a time or written an event"
    return f"no writer has noted a time, though {_have(wrote)} written"


def _have(names: Sequence[str]) -> str:
    return f"{listed(names)} {'has' if len(names) == 1 else 'have'}"


def _failure(history: RunHistory) -> str:
    """Why the last cycle gave no bound."""
    return (history.cycle and history.cycle["reason"]) or "the watermark was not appended"


def _behind(case: _Case, whom: str) -> str:
    by_ms = case.cause.by_ms
    return "" if by_ms is None else f", {span(by_ms, beside_ms=case.history.at_ms)} behind {whom}"


def _lagging(case: _Case) -> str:
    behind = _behind(case, "the others")
    if len(case.writers) == 1:
        return f"by writer {case.writers[0].writer}: {_writer(case, case.writers[0])}{behind}"
    return f"by writers {listed([f'{writer.writer} ({_writer(case, writer)})' for writer in case.writers])}{behind}"


def _writer(case: _Case, writer: HoldingWriter) -> str:
    if writer.time is None:
        return "removed meanwhile"
    parts = [writer.state] if writer.state else []
    parts.append(f"last mark {case.time(writer.time)} noted at {moment(writer.noted_ms)}")
    parts += [_kept_by(writer)] if writer.open_until_ms is not None else []
    parts += ["beyond the bound, not yet seen by a cycle"] if case.caught_up(writer.writer) else []
    parts += [f"a later note was refused ({writer.refused})"] if writer.refused else []
    return ", ".join(parts)


def _kept_by(writer: HoldingWriter) -> str:
    """The open event that a writer's mark stands for; its `open_until_ms` must be known."""
    return f"kept there by its event of that time, which arrives at {moment(writer.open_until_ms)}"


def _leader(history: RunHistory, in_words: Callable[[int], str]) -> str:
    """What is known of the controller that ought to run the cycles."""
    name = history.leader
    since = f" since {in_words(history.owner[1])}" if history.owner else ""
    kind, at_ms = history.controllers.get(name or "", ("", 0))
    if kind in recorded.CONTROLLERS and (history.owner is None or at_ms >= history.owner[1]):
        return f"{name}, owner of the bucket, {recorded.CONTROLLERS[kind]} at {in_words(at_ms)}"
    return f"{name or 'nobody'} owns the bucket{since}"


def _release(case: _Case) -> str:
    """What will release the bound, as the last part of the sentence; nothing if that is unknown."""
    kind = case.cause.kind
    if not case.history.on_record:
        return "; it waits for a noted time"
    if case.next_cycle_ms is None or (kind is CauseKind.LAGGING and case.release_ms is None):
        return ""
    following = moment(case.next_cycle_ms)
    if kind is CauseKind.LAGGING and not case.behind:
        return f"; the next cycle sees it at {moment(case.release_ms)}"
    if kind is CauseKind.LAGGING:
        return f"; {'it' if len(case.writers) == 1 else 'the last of them'} times out at {moment(case.release_ms)}"
    if kind is CauseKind.FIRST_CYCLE:
        return f"; the first cycle runs at {following}"
    if kind is CauseKind.NO_CYCLE:
        return f"; the next one is due at {following}"
    if kind is not CauseKind.SLOWEST:
        return f"; the next cycle tries again at {following}"
    if case.awaited:
        return f"; the next cycle, at {following}, needs a newer mark of {listed(case.awaited)}"
    raised = min(noted.time for noted in case.history.on_record.values())
    return f"; the next cycle, at {following}, raises it to {case.time(raised)}"


MEANINGS: Final = {
    CauseKind.NO_MARK: "no writer had noted a time that was accepted",
    CauseKind.FIRST_CYCLE: "a time was noted, and the first cycle had not run yet",
    CauseKind.LAGGING: "cycles emitted nothing and waited for this writer, which had noted nothing above the bound",
    CauseKind.SLOWEST: "cycles emitted, and the time of this writer was the smallest of all, so the bound is that",
    CauseKind.FAILED: "the cycles ended without a watermark",
    CauseKind.NOBODY_LEFT: "no active writer was on record",
    CauseKind.NO_CYCLE: "a cycle was due and did not run",
}
"""What each cause means."""
_WHO: Final = {
    CauseKind.NO_MARK: "nobody had noted a time",
    CauseKind.FIRST_CYCLE: "the first cycle had not run",
    CauseKind.NOBODY_LEFT: "no active writer was left",
    CauseKind.NO_CYCLE: "nobody owned the bucket",
}
_TIMED: Final = ("segments", "writer_marks", "cycles", "events", "positions", "windows")


def stragglers_of(recording: Recording, stream: str, rules: Rules | None = None) -> Stragglers:
    """The stragglers of the stream's lower bound from the stream's creation to the end of the run, or its deletion.

    At every moment one cause holds the bound; what the bound would have been without its writers is taken from the
    times the others had noted by the last cycle. A run ends when its scenario does; one of the outside world, or one
    that was stopped, with the last thing recorded.
    """
    start_ms, end_ms = _run(recording, stream)
    found = list(causes(recording, stream, start_ms=start_ms, end_ms=end_ms, rules=rules))
    stretches = [_stretch(*held) for held in found]
    notes = [_longest_stand(recording, stream, found)] if all(cause.by_ms is None for *_, cause in found) else []
    silent = _longest_silent(Written(recording, stream), found)
    return stragglers_from(
        stretches,
        stream=stream,
        run_ms=end_ms - start_ms,
        meanings={kind.value: meaning for kind, meaning in MEANINGS.items()},
        notes=[note for note in (*notes, silent) if note],
    )


def _stretch(from_ms: int, to_ms: int, history: RunHistory, cause: Cause) -> Stretch:
    """A stretch with its price: against what the others had noted, or against the clock where nobody else was there."""
    who = cause.writers or (cause.leader or _WHO.get(cause.kind) or _failure(history),)
    lower, by_ms = history.lower, cause.by_ms
    against: Against = "the others"
    if lower is None:
        against = "no bound"
    elif by_ms is None and is_instant([lower], clock=[from_ms]) == is_instant([from_ms]):
        by_ms, against = from_ms - lower, "the clock"
    return Stretch(who, cause.kind.value, from_ms, to_ms, by_ms, len(who), against)


def _longest_silent(written: Written, found: Sequence[Held]) -> str:
    """The imported writer that was furthest behind by its events for longest and held nothing; empty if none was."""
    behind: Counter[str] = Counter()
    for from_ms, to_ms, history, cause in found:
        silent = written.silent_at(replace(history, at_ms=to_ms))
        if silent is not None and silent.writer not in cause.writers:
            behind[silent.writer] += to_ms - from_ms
    if not behind:
        return ""
    writer, length_ms = max(behind.items(), key=lambda entry: (entry[1], entry[0]))
    return (
        f"By its events {writer} was furthest behind for {span(length_ms, beside_ms=found[-1][1] - found[0][0])}, and "
        "held nothing then, for an imported writer goes on noting times while it sends nothing; that is what "
        "wm.spark.stragglers tells of the log."
    )


def _longest_stand(recording: Recording, stream: str, found: Sequence[Held]) -> str:
    """Where the bound stood longest, and what kept it there; empty if it never stood, or was never known."""
    known = [held for held in found if held[2].lower is not None]
    stands = [list(stand) for _, stand in groupby(known, key=lambda held: held[2].lower)]
    if not stands:
        return ""
    longest = max(stands, key=lambda stand: stand[-1][1] - stand[0][0])
    from_ms, to_ms = longest[0][0], longest[-1][1]
    _, _, history, _ = max(longest, key=lambda held: held[1] - held[0])
    case = _Case(Written(recording, stream), history, Rules())
    held_by = [f"{writer.writer}, {_writer(case, writer)}" for writer in case.writers]
    by = f" by {listed(held_by)}" if held_by else f", since {_holder(case)}"
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


def scenario_span(recording: Recording) -> tuple[int, int] | None:
    """From when to when the scenario of a finished run lasted (clock, ms); None for any other recording."""
    scenario = recording.scenario
    if scenario is None or "duration_ms" not in scenario or not recording.manifest.finished:
        return None
    start_ms = int(scenario.get("start_ms", 0))
    return start_ms, start_ms + int(scenario["duration_ms"])


_CLOCK: Final = ("emitted_ms", "received_ms", "append_ms", "at_ms")
"""When a row of evidence came to be, whichever of these columns it has."""


def sentences(recording: Recording, stream: str, moments: Sequence[int]) -> tuple[tuple[int, str], ...]:
    """The sentence of `explain(at_ms=...)` at each of the moments (clock in ms, ascending): (from which on, sentence).

    A sentence that stays is given once. One walk through the recording, however many moments there are.
    """
    found: list[tuple[int, str]] = []
    rules, written = recorded.recorded_rules(recording, stream), Written(recording, stream)
    steps = chain(recorded.walk(recording, stream), [None])
    history, following = RunHistory(at_ms=0), next(steps)
    for at_ms in moments:
        while following is not None and following.at_ms <= at_ms:
            history, following = following, next(steps)
        sentence = _sentence(_Case(written, replace(history, at_ms=at_ms), rules))
        if not found or found[-1][1] != sentence:
            found.append((at_ms, sentence))
    return tuple(found)


def violations(verdicts: Verdicts, *, stream: str) -> tuple[tuple[int, str], ...]:
    """The first violation of each invariant in this stream: (when the last row of its evidence came, in words)."""
    found = []
    for verdict in verdicts:
        rows = [proof.row for proof in verdict.evidence if proof.row.get("stream", stream) == stream]
        times = [row[name] for row in rows for name in _CLOCK if row.get(name) is not None]
        if verdict.verdict == "violated" and times:
            found.append((max(times), f"{verdict.invariant} violated: {verdict.what or verdict.statement}"))
    return tuple(sorted(found))
