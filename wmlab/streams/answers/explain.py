"""Why a stream's lower bound stands where it does at a moment: one cause, the writers behind it, and its price.

    cause              the last cycle                                  who
    no mark            there was none, nobody is on record             nobody
    first cycle        there was none, somebody is on record           nobody
    lagging            waited for writers                              those
    slowest            emitted                                         those whose time is the bound
    failed             ended for another reason (cut failed, ...)      nobody
    nobody left        found no active writer                          nobody

The lower bound of a watermark is the smallest time of the writers that it counts, so the writers with that time hold
it, also when only one is counted; without others on record its price is unknown. The cause is taken from what was known
by then; only the release is a prediction, by the rules, for the case that nothing else happens.

Source: PDP-33, Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Final

from wmlab.core.answers.answer import Answer
from wmlab.core.answers.verdicts import Verdicts
from wmlab.core.recording import Recording
from wmlab.core.words import listed, moment, span
from wmlab.streams.answers.history import RunHistory, history_at, of_stream, the_stream, walk
from wmlab.streams.answers.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingWriter:
    """A writer that holds the bound: what befell it ("crashed", "" for nothing known), its last accepted mark, since
    when the leader has found it behind, and the cycle that drops it if it notes nothing newer.

    Times in ms, None if unknown; `refused` is the outcome of a later note that was not accepted.
    """

    writer: str
    state: str
    time: int | None
    noted_ms: int | None
    behind_since_ms: int | None
    dropped_ms: int | None
    refused: str | None


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
    if unknown. `log` explains the stream's own bound when a reader waits for its next watermark.
    """

    at_ms: int
    stream: str
    reader: str | None = None
    lower: int | None
    cause: str
    writers: tuple[HoldingWriter, ...] = ()
    segments: tuple[HoldingSegment, ...] = ()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The cause and the writers; `since_ms` when it began; `by_ms` how much higher the bound would be without them.

    `since_ms` is None if it was so from the start; `by_ms` is None when nobody else is on record or no bound is known.
    """

    kind: CauseKind
    writers: tuple[str, ...] = ()
    since_ms: int | None = None
    by_ms: int | None = None


def cause_of(history: RunHistory) -> Cause:
    """What holds the bound at the moment of `history`."""
    cycle = history.cycle
    if cycle is None:
        if not history.on_record:
            return Cause(kind=CauseKind.NO_MARK)
        return Cause(kind=CauseKind.FIRST_CYCLE, since_ms=history.woken_ms)
    if cycle["lagging"]:
        writers = tuple(sorted(cycle["lagging"]))
        return Cause(
            kind=CauseKind.LAGGING, writers=writers, since_ms=history.held_since, by_ms=_excess(history, writers)
        )
    if cycle["reason"] == "no active writer":
        return Cause(kind=CauseKind.NOBODY_LEFT, since_ms=history.held_since)
    if cycle["outcome"] != "emitted" or history.bound is None:
        return Cause(kind=CauseKind.FAILED, since_ms=history.held_since)
    times = history.bound["writers"]
    writers = tuple(sorted(name for name, time in times.items() if time == history.lower))
    return Cause(
        kind=CauseKind.SLOWEST, writers=writers, since_ms=history.bound["emitted_ms"], by_ms=_excess(history, writers)
    )


def causes(
    recording: Recording, stream: str, *, start_ms: int, end_ms: int
) -> Iterator[tuple[int, int, RunHistory, Cause]]:
    """What held the bound from `start_ms` to `end_ms`, stretch by stretch: (from, to, history at its begin, cause)."""
    before = RunHistory(at_ms=start_ms)
    for history in chain(walk(recording, stream), [None]):
        if history is not None and history.cycle is before.cycle and history.bound is before.bound and before.on_record:
            continue
        to_ms = end_ms if history is None else history.at_ms
        if before.at_ms < to_ms:
            yield before.at_ms, to_ms, before, cause_of(before)
        before = before if history is None else history


def _excess(history: RunHistory, writers: tuple[str, ...]) -> int | None:
    others = [noted.time for name, noted in history.on_record.items() if name not in writers]
    if history.lower is None or not others:
        return None
    return max(0, min(others) - history.lower)


def explain_log(
    recording: Recording, *, at_ms: int, rules: Rules | None = None, stream: str | None = None
) -> Explanation:
    """What holds the lower bound of the stream's marks log at `at_ms` (clock, ms).

    Without `rules` (a recording of the outside world) nothing is predicted. Raises `RecordingError` for a stream that
    the recording does not have, or when it has several and none is named.
    """
    name = the_stream(recording, stream)
    history = history_at(recording, name, at_ms)
    case = _case(recording, history, name, rules)
    cause = case.cause
    kind = cause.kind.value
    if cause.kind is CauseKind.FAILED and history.cycle is not None:
        kind = str(history.cycle["reason"])
    return Explanation(
        at_ms=at_ms,
        stream=name,
        lower=history.lower,
        cause=kind,
        writers=case.writers,
        since_ms=cause.since_ms,
        by_ms=cause.by_ms,
        release_ms=case.release_ms,
        sentence=sentence_of(case),
    )


def _case(recording: Recording, history: RunHistory, stream: str, rules: Rules | None) -> Case:
    cause = cause_of(history)
    wrote: list[str] = []
    if cause.kind is CauseKind.NO_MARK:
        wrote = of_stream(recording.table("events"), stream, "append_ms", history.at_ms)["writer"].unique().to_pylist()
    return Case(
        history=history,
        cause=cause,
        writers=tuple(_holding_writer(history, writer, rules, cause.kind) for writer in cause.writers),
        wrote=tuple(sorted(wrote)),
        rules=rules,
    )


def _holding_writer(history: RunHistory, name: str, rules: Rules | None, cause: CauseKind) -> HoldingWriter:
    noted = history.on_record.get(name)
    lagging = cause is CauseKind.LAGGING
    return HoldingWriter(
        writer=name,
        state=history.state_of(name),
        time=noted.time if noted else None,
        noted_ms=noted.noted_ms if noted else None,
        behind_since_ms=history.memory.behind_since.get(name),
        dropped_ms=rules.drops_at_ms(history, name) if rules and lagging else None,
        refused=noted.refused if noted else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What an explanation rests on; `wrote` are the writers that have written events, for a stream without marks."""

    history: RunHistory
    cause: Cause
    writers: tuple[HoldingWriter, ...]
    wrote: tuple[str, ...]
    rules: Rules | None

    @property
    def next_cycle_ms(self) -> int | None:
        """When the next cycle runs; None if that is unknown or none is planned."""
        return None if self.rules is None else self.rules.next_cycle_ms(self.history)

    @property
    def release_ms(self) -> int | None:
        """The cycle that moves the bound if nothing else happens; None if none will, or if that is unknown."""
        if self.cause.kind is CauseKind.LAGGING and self.rules is not None:
            drops = [writer.dropped_ms for writer in self.behind]
            if None in drops:
                return None
            return max((at for at in drops if at is not None), default=self.next_cycle_ms)
        if self.cause.kind is CauseKind.FIRST_CYCLE or (self.cause.kind is CauseKind.SLOWEST and not self.awaited):
            return self.next_cycle_ms
        return None

    @property
    def behind(self) -> tuple[HoldingWriter, ...]:
        """The holding writers that have not noted a time beyond the bound since the last cycle looked."""
        return tuple(writer for writer in self.writers if not self.caught_up(writer.writer))

    @property
    def awaited(self) -> list[str]:
        """The writers on record that have noted nothing beyond the bound."""
        return [name for name in sorted(self.history.on_record) if not self.caught_up(name)]

    def caught_up(self, writer: str) -> bool:
        """Whether a writer's mark lies beyond the bound."""
        noted, lower = self.history.on_record.get(writer), self.history.lower
        return noted is not None and (lower is None or noted.time > lower)


def sentence_of(case: Case) -> str:
    """The explanation in one sentence, without a full stop."""
    return f"{_standing(case)}{_SAID[case.cause.kind](case)}{_release(case)}"


def _standing(case: Case) -> str:
    lower, since_ms = case.history.lower, case.cause.since_ms
    if lower is None:
        return "no lower bound yet: "
    if case.cause.kind is CauseKind.SLOWEST:
        return f"lower bound is {moment(lower)} since {moment(since_ms)}, "
    since = "" if since_ms is None else f" since {moment(since_ms)}"
    because = "" if case.cause.kind is CauseKind.LAGGING else "because "
    return f"lower bound held at {moment(lower)}{since} {because}"


def _no_mark(case: Case) -> str:
    if case.history.refused:
        told = listed([f"{name} ({outcome})" for name, outcome in sorted(case.history.refused.items())])
        return f"no noted time was accepted, those of {told} were refused"
    if not case.wrote:
        return "no writer has noted a time or written an event"
    return f"no writer has noted a time, though {listed(case.wrote)} {_have(case.wrote)} written"


def _first_cycle(case: Case) -> str:
    names = sorted(case.history.on_record)
    return f"{listed(names)} {_have(names)} noted a time, but no cycle has run"


def _lagging(case: Case) -> str:
    behind = "" if case.cause.by_ms is None else f", {span(case.cause.by_ms)} behind the others"
    if len(case.writers) == 1:
        return f"by writer {case.writers[0].writer}: {_writer(case, case.writers[0])}{behind}"
    told = [f"{writer.writer} ({_writer(case, writer)})" for writer in case.writers]
    return f"by writers {listed(told)}{behind}"


def _writer(case: Case, writer: HoldingWriter) -> str:
    if writer.time is None:
        return "removed meanwhile"
    parts = [writer.state] if writer.state else []
    parts.append(f"last mark {moment(writer.time)} noted at {moment(writer.noted_ms)}")
    parts += ["beyond the bound, not yet seen by a cycle"] if case.caught_up(writer.writer) else []
    parts += [f"a later note was refused ({writer.refused})"] if writer.refused else []
    return ", ".join(parts)


def _slowest(case: Case) -> str:
    names = listed([writer.writer for writer in case.writers])
    ahead = "" if case.cause.by_ms is None else f", {span(case.cause.by_ms)} behind what the others have noted since"
    return f"the time that {names} had noted{ahead}"


def _failed(case: Case) -> str:
    reason = "" if case.history.cycle is None else case.history.cycle["reason"]
    return f"the cycles end with: {reason or 'the watermark was not appended'}"


def _nobody_left(_: Case) -> str:
    return "no active writer is left"


_SAID = {
    CauseKind.NO_MARK: _no_mark,
    CauseKind.FIRST_CYCLE: _first_cycle,
    CauseKind.LAGGING: _lagging,
    CauseKind.SLOWEST: _slowest,
    CauseKind.FAILED: _failed,
    CauseKind.NOBODY_LEFT: _nobody_left,
}
"""How each cause is put in words, after those for where the bound stands."""


def _release(case: Case) -> str:
    """What will release the bound, as the last part of the sentence; nothing if that is unknown."""
    if not case.history.on_record:
        return "; it waits for a noted time"
    following = case.next_cycle_ms
    if following is None:
        return ""
    if case.cause.kind is CauseKind.LAGGING:
        return _release_of_lagging(case)
    if case.cause.kind is CauseKind.FIRST_CYCLE:
        return f"; the first cycle runs at {moment(following)}"
    if case.cause.kind is not CauseKind.SLOWEST:
        return f"; the next cycle tries again at {moment(following)}"
    if case.awaited:
        return f"; the next cycle, at {moment(following)}, needs a newer mark of {listed(case.awaited)}"
    raised = min(noted.time for noted in case.history.on_record.values())
    return f"; the next cycle, at {moment(following)}, raises it to {moment(raised)}"


def _release_of_lagging(case: Case) -> str:
    if case.release_ms is None:
        return ""
    if not case.behind:
        return f"; the next cycle sees it at {moment(case.release_ms)}"
    who = "it" if len(case.writers) == 1 else "the last of them"
    return f"; {who} times out at {moment(case.release_ms)}"


def _have(names: tuple[str, ...] | list[str]) -> str:
    return "has" if len(names) == 1 else "have"


_CLOCK: Final = ("emitted_ms", "received_ms", "append_ms", "at_ms")
"""When a row of evidence came to be, whichever of these columns it has."""


def sentences(
    recording: Recording, moments: Sequence[int], *, stream: str, rules: Rules | None = None
) -> tuple[tuple[int, str], ...]:
    """The sentence of `explain(at_ms=...)` at each of the moments (clock in ms, ascending): (from which on, sentence).

    A sentence that stays is given once. One walk through the recording, however many moments there are.
    """
    found: list[tuple[int, str]] = []
    for history in _history_at_each(recording, stream, moments):
        sentence = sentence_of(_case(recording, history, stream, rules))
        if not found or found[-1][1] != sentence:
            found.append((history.at_ms, sentence))
    return tuple(found)


def _history_at_each(recording: Recording, stream: str, moments: Sequence[int]) -> Iterator[RunHistory]:
    steps = chain(walk(recording, stream), [None])
    following = next(steps)
    history = RunHistory(at_ms=0)
    for at_ms in moments:
        while following is not None and following.at_ms <= at_ms:
            history, following = following, next(steps)
        yield replace(history, at_ms=at_ms)


def violations(verdicts: Verdicts, *, stream: str) -> tuple[tuple[int, str], ...]:
    """The first violation of each invariant in this stream: (when the last row of its evidence came, in words)."""
    found = []
    for verdict in verdicts:
        rows = [proof.row for proof in verdict.evidence if proof.row.get("stream", stream) == stream]
        clocks = [next((row[name] for name in _CLOCK if row.get(name) is not None), None) for row in rows]
        times = [at_ms for at_ms in clocks if at_ms is not None]
        if verdict.verdict == "violated" and times:
            found.append((max(times), f"{verdict.invariant} violated: {verdict.what or verdict.statement}"))
    return tuple(sorted(found))
