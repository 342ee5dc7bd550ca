"""Why the lower bound of a stream's own log stands where it does at a moment, in a value and in a sentence.

The cause is one of those of `wmlab.streams.answers.causes`. The sentence says who holds the bound, what befell it, by
how much it is behind, and what releases the bound if nothing else happens.

Source: PDP-33, Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from wmlab.core.answers import Answer
from wmlab.core.recording import Recording
from wmlab.core.words import listed, moment, span
from wmlab.streams.answers import history as recorded
from wmlab.streams.answers.causes import CauseKind, cause_of, failure_words, leader_words
from wmlab.streams.answers.history import PredictionRules, RunHistory
from wmlab.streams.answers.written import SilentWriter, Written


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
class BoundExplanation(Answer):
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
    log: BoundExplanation | None = None


def explain_stream(recording: Recording, stream: str, *, at_ms: int, rules: PredictionRules) -> BoundExplanation:
    """What holds the lower bound of the stream's marks log at `at_ms` (clock, ms)."""
    case = BoundCase(Written(recording, stream), recorded.history_at(recording, stream, at_ms), rules)
    return BoundExplanation(
        at_ms=at_ms,
        stream=stream,
        lower=case.history.lower,
        cause=failure_words(case.history) if case.cause.kind is CauseKind.FAILED else case.cause.kind.value,
        writers=case.writers,
        since_ms=case.cause.since_ms,
        by_ms=case.cause.by_ms,
        release_ms=case.release_ms,
        silent=case.silent,
        sentence=_sentence(case),
    )


def sentences(recording: Recording, stream: str, moments: Sequence[int]) -> tuple[tuple[int, str], ...]:
    """The sentence of `explain(at_ms=...)` at each of the moments (clock in ms, ascending): (from which on, sentence).

    A sentence that stays is given once. One walk through the recording, however many moments there are.
    """
    changes: list[tuple[int, str]] = []
    rules, written = recorded.recorded_rules(recording, stream), Written(recording, stream)
    steps = chain(recorded.walk(recording, stream), [None])
    history, following = RunHistory(at_ms=0), next(steps)
    for at_ms in moments:
        while following is not None and following.at_ms <= at_ms:
            history, following = following, next(steps)
        sentence = _sentence(BoundCase(written, replace(history, at_ms=at_ms), rules))
        if not changes or changes[-1][1] != sentence:
            changes.append((at_ms, sentence))
    return tuple(changes)


class BoundCase:
    """What an explanation rests on.

    `written` knows the events; `behind` are the holding writers, and `awaited` the writers on record,
    that have noted no time beyond the bound. `next_cycle_ms` is None if it is unknown or none is planned; `release_ms`
    is the cycle that moves the bound if nothing else happens, None if none will, or if that is unknown.
    """

    def __init__(self, written: Written, history: RunHistory, rules: PredictionRules) -> None:
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
        elif kind is CauseKind.EXPECTED:
            self.release_ms = rules.expects_until_ms(history)
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


def _sentence(case: BoundCase) -> str:
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
    return f"{begin}{blocking_words(case)}{_release(case)}{_silent(case)}"


def _silent(case: BoundCase) -> str:
    """The imported writer that has sent nothing above the bound for longest, though it goes on noting times."""
    if case.silent is None:
        return ""
    return (
        f"; by its events {case.silent.writer} is furthest behind: its newest has the time "
        f"{case.time(case.silent.newest)}, and it has sent nothing since {moment(case.silent.sent_ms)}, but goes on "
        "noting times"
    )


def blocking_words(case: BoundCase) -> str:
    """What holds the bound, after the words for where it is."""
    history = case.history
    match case.cause.kind:
        case CauseKind.NO_MARK:
            return _words_without_mark(case)
        case CauseKind.FIRST_CYCLE:
            return f"{_have(sorted(history.on_record))} noted a time, but no cycle has run"
        case CauseKind.LAGGING:
            return _lagging(case)
        case CauseKind.EXPECTED:
            return f"{_have(sorted(history.on_record))} noted a time, and the cycles end with: {failure_words(history)}"
        case CauseKind.SLOWEST:
            ahead = _behind(case, "what the others have noted since")
            still_open = [writer for writer in case.behind if writer.open_until_ms is not None]
            open_event = f", {_open_event_words(still_open[0])}" if len(case.writers) == 1 and still_open else ""
            return f"the time that {listed(case.cause.writers)} had noted{open_event}{ahead}"
        case CauseKind.FAILED:
            return f"the cycles end with: {failure_words(history)}"
        case CauseKind.NOBODY_LEFT:
            return "no active writer is left"
        case CauseKind.NO_CYCLE:
            since = "" if history.cycle is None else f" since {moment(history.cycle['at_ms'])}"
            return f"no cycle has run{since}: {leader_words(history, moment)}"


def _words_without_mark(case: BoundCase) -> str:
    if case.history.refused:
        writers = listed([f"{name} ({outcome})" for name, outcome in sorted(case.history.refused.items())])
        return f"no noted time was accepted, those of {writers} were refused"
    wrote = sorted(name for name, at_ms in case.written.firsts.items() if at_ms <= case.history.at_ms)
    if not wrote:
        return "no writer has noted a time or written an event"
    return f"no writer has noted a time, though {_have(wrote)} written"


def _have(names: Sequence[str]) -> str:
    return f"{listed(names)} {'has' if len(names) == 1 else 'have'}"


def _behind(case: BoundCase, whom: str) -> str:
    by_ms = case.cause.by_ms
    return "" if by_ms is None else f", {span(by_ms, beside_ms=case.history.at_ms)} behind {whom}"


def _lagging(case: BoundCase) -> str:
    behind = _behind(case, "the others")
    if len(case.writers) == 1:
        return f"by writer {case.writers[0].writer}: {writer_words(case, case.writers[0])}{behind}"
    return (
        f"by writers {listed([f'{writer.writer} ({writer_words(case, writer)})' for writer in case.writers])}{behind}"
    )


def writer_words(case: BoundCase, writer: HoldingWriter) -> str:
    """What is known of a writer that holds the bound: what befell it, and its last mark."""
    if writer.time is None:
        return "removed meanwhile"
    parts = [writer.state] if writer.state else []
    parts.append(f"last mark {case.time(writer.time)} noted at {moment(writer.noted_ms)}")
    parts += [_open_event_words(writer)] if writer.open_until_ms is not None else []
    parts += ["beyond the bound, not yet seen by a cycle"] if case.caught_up(writer.writer) else []
    parts += [f"a later note was refused ({writer.refused})"] if writer.refused else []
    return ", ".join(parts)


def _open_event_words(writer: HoldingWriter) -> str:
    """The open event that a writer's mark stands for; its `open_until_ms` must be known."""
    return f"kept there by its event of that time, which arrives at {moment(writer.open_until_ms)}"


def _release(case: BoundCase) -> str:
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
    if kind is CauseKind.EXPECTED:
        return f"; the cycle at {moment(case.release_ms)} waits no longer"
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
