"""One run of the watermark cycle: which writers count, are waited for or dropped, and what is emitted.

Every recorded writer is in one of four states; the previous lower is the lower bound of the previous watermark:

    state          condition                                         effect
    participating  no previous watermark, or time > previous lower   counts; being alive and age do not matter
    lagging        time <= previous lower, alive, age < timeout      no watermark is emitted
    shut down      time <= previous lower, not alive                 removed, does not hold anything
    timed out      time <= previous lower, alive, age >= timeout     removed, does not hold anything

So a writer ahead of the lower bound is not forgotten before that has passed it, which keeps a promise of the document:
the upper bound is at or above every time noted before the location (Event Reader API Changes). Two other sentences
contradict that: a silent writer "will be forgotten" after the timeout (Config Changes), and one that has shut down "no
longer needs to be considered for calculating entries for the marks segment" (Internal Changes). With `forgets="all"`
these two count: the last two states do not ask for the time, and the upper bound may fall below what was noted.

Then writers that fall silent together would all be forgotten, those in the generation too, and its time never emitted;
but a watermark is promised "within one timeout period" (Periodic Watermark Workflow). So where a generation has nobody
but those that have timed out, its watermark is emitted first, and then they are forgotten.

A cycle that finds no writer at all in the first two states leaves the bucket. With `null_without_writers` it first
appends an end of known time: from where the stream ends then (`ending_at`), no time is known. Where it does not know
how long the segments are, as in a replay of notes alone, that is at or beyond all that the writers had acknowledged.

The document has two sentences on where the age begins. A writer that "does not call noteTime for longer than" the
timeout "will be forgotten" (Config Changes): from its last note, `last_note`. And one that was not in a new generation
"for at least" the timeout is removed (Periodic Watermark Workflow): from the first cycle of this leader that found it
behind, `first_behind`, as implemented. The first alone waits for ever for a writer that goes on noting old times,
against the promise of a watermark "within one timeout period". `earlier` follows both: from whichever moment comes
first.

Before the first watermark nobody can be behind, so the first writer that notes would make the time alone. With
`expected_writers` the first watermark also waits until that many are recorded, to give "time for all Writers to be
started". One that never comes is given up like any other, one timeout after the first cycle that found too few.

The leader's only memory is since when it waits, for each writer behind and for expected ones: a new leader starts
without.

Source: PDP-33, Periodic Watermark Workflow, and PDP-33, Config Changes (timestampAggregationTimeout); upstream classes
`PeriodicWatermarking` and `WatermarkClient` (isWriterParticipating, isWriterActive, trackWriterInactivity).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Final, Literal

from wmlab.core.errors import ModelError
from wmlab.core.words import moment
from wmlab.streams.model.cut import CutError, CutRules, stream_cut
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.marks import WriterMark
from wmlab.streams.model.position import Position

TimeoutFrom = Literal["first_behind", "last_note", "earlier"]
Forgets = Literal["behind", "all"]
CycleOutcome = Literal["emitted", "held"]

MIN_TIME: Final = -(2**63)
"""The smallest time. It cannot be emitted: without a previous watermark it stands in for the previous lower bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRules(CutRules):
    """How a cycle runs: the timeout in ms, where it is counted from, whom it concerns, and how cuts are computed.

    `forgets`: of the writers that shut down or were silent for the timeout only those `behind`, or `all`; those ahead
    are silent since their last note, wherever the timeout of those behind is counted from.

    `leaves_bucket`: a cycle that finds no writer is the last one until somebody notes time again, as implemented; the
    document's loop is unconditional. `first_barrier` stands for the previous lower bound before the first watermark;
    None: every writer counts. `expected_writers` is how many have to be recorded for the first watermark, for up to one
    timeout.
    """

    timeout_ms: int = 60_000
    timeout_from: TimeoutFrom = "first_behind"
    forgets: Forgets = "behind"
    leaves_bucket: bool = True
    null_without_writers: bool = False
    first_barrier: int | None = None
    expected_writers: int = 1


@dataclass(frozen=True, slots=True)
class CycleState:
    """A leader's memory: for each writer behind, the clock time in ms of the first cycle that found it so.

    `short_since` is that of the first cycle that lacked only expected writers; None: the last one did not.
    """

    behind_since: Mapping[str, int] = field(default_factory=dict)
    short_since: int | None = None


class WriterStatus(StrEnum):
    """What a writer is to a cycle, by the table of the module."""

    PARTICIPATING = "participating"
    LAGGING = "lagging"
    SHUT_DOWN = "shut down"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe:
    """Event: a cycle has read the marks (in the order noted) and the previous watermark.

    `noted_ms`, the clock time of each writer's last note, is needed for a timeout counted from there.
    """

    now_ms: int
    marks: Mapping[str, WriterMark]
    previous: Watermark | None
    history: StreamHistory
    noted_ms: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class RemovalDone:
    """Event: the store has removed the writer, or refused because its mark had changed."""

    writer: str
    removed: bool


@dataclass(frozen=True, slots=True)
class RemoveWriter:
    """Effect: remove the writer from the store if its mark is still this one."""

    writer: str
    mark: WriterMark


@dataclass(frozen=True, slots=True)
class LeaveBucket:
    """Effect: remove the stream from its watermark bucket, for nobody notes time in it."""


@dataclass(frozen=True, slots=True)
class Append:
    """Effect: append the watermark if the log has not grown."""

    watermark: Watermark


class HeldBy(StrEnum):
    """Why a cycle emitted nothing; `EMITTED` when it did."""

    EMITTED = ""
    LAGGING = "lagging writers"
    EXPECTED = "expected writers"
    NO_ACTIVE_WRITER = "no active writer"
    NOT_ADVANCED = "time not advanced"
    NO_POSITIONS = "no positions"
    UNKNOWN_SEGMENT = "unknown segment"
    ENDLESS_CUT = "did not terminate"
    CONFLICT = "conflict"
    FAILED = "cycle failed"


NO_MARKS_SEGMENT: Final = "no such marks segment"
"""Why a cycle fails whose marks segment is not there."""


def unavailable(store: str) -> str:
    """Why a cycle fails that cannot reach a store; `store` is its name with spaces."""
    return f"{store} unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Effect: what the cycle found; `cause` is why nothing was emitted, and `reason` says it with names and numbers."""

    previous_lower: int | None
    participating: tuple[str, ...] = ()
    lagging: tuple[str, ...] = ()
    shut_down: tuple[str, ...] = ()
    timed_out: tuple[str, ...] = ()
    outcome: CycleOutcome
    cause: HeldBy
    reason: str


Effect = RemoveWriter | LeaveBucket | Append | Decision


def classify(
    mark: WriterMark, previous_lower: int | None, age_ms: int, timeout_ms: int, *, forgets: Forgets = "behind"
) -> WriterStatus:
    """The writer's state by the table above; `previous_lower` is None before the first watermark."""
    is_behind = _is_behind(mark, previous_lower)
    if not is_behind and forgets == "behind":
        return WriterStatus.PARTICIPATING
    if not mark.alive:
        return WriterStatus.SHUT_DOWN
    if age_ms >= timeout_ms:
        return WriterStatus.TIMED_OUT
    return WriterStatus.LAGGING if is_behind else WriterStatus.PARTICIPATING


def _is_behind(mark: WriterMark, previous_lower: int | None) -> bool:
    return previous_lower is not None and mark.time <= previous_lower


def inactive_since(
    state: CycleState, writer: str, *, now_ms: int, timeout_from: TimeoutFrom, noted_ms: Mapping[str, int] | None
) -> int:
    """From when on a writer behind counts as inactive: the first cycle that found it so, at `now_ms` if none has yet,
    or its last note, or the earlier of the two. Raises `ModelError` when the last note counts and is not given.
    """
    behind_ms = state.behind_since.get(writer, now_ms)
    if timeout_from == "first_behind":
        return behind_ms
    if noted_ms is None or writer not in noted_ms:
        raise ModelError(
            f"When {writer} last noted a time is not known.",
            remedy="Pass noted_ms with the clock time of every writer.",
        )
    return min(noted_ms[writer], behind_ms) if timeout_from == "earlier" else noted_ms[writer]


def step(state: CycleState, event: Observe | RemovalDone, rules: CycleRules) -> tuple[CycleState, tuple[Effect, ...]]:
    """The leader's next state and what it wants done; for `Observe` exactly one effect is a `Decision`.

    The clock of a writer starts when it is first behind, and is forgotten when it is not. Raises `ModelError` as
    `inactive_since`.
    """
    behind_since = dict(state.behind_since)
    if isinstance(event, RemovalDone):
        if event.removed:
            behind_since.pop(event.writer, None)
        return replace(state, behind_since=behind_since), ()
    now_ms, previous_lower = event.now_ms, None if event.previous is None else event.previous.lower
    barrier = rules.first_barrier if event.previous is None else previous_lower
    by_status: dict[WriterStatus, dict[str, WriterMark]] = {status: {} for status in WriterStatus}
    for writer, mark in event.marks.items():
        is_behind = _is_behind(mark, barrier)
        if is_behind:
            behind_since.setdefault(writer, now_ms)
        else:
            behind_since.pop(writer, None)
        start_ms = now_ms
        if is_behind or rules.forgets == "all":
            timeout_from = rules.timeout_from if is_behind else "last_note"
            start_ms = inactive_since(state, writer, now_ms=now_ms, timeout_from=timeout_from, noted_ms=event.noted_ms)
        status = classify(mark, barrier, now_ms - start_ms, rules.timeout_ms, forgets=rules.forgets)
        by_status[status][writer] = mark
    timed_out = by_status[WriterStatus.TIMED_OUT]
    if not by_status[WriterStatus.PARTICIPATING]:
        by_status[WriterStatus.PARTICIPATING] = {w: m for w, m in timed_out.items() if not _is_behind(m, barrier)}
    short_since = _short_since(state, event, by_status, rules)
    awaits = short_since is not None and now_ms - short_since < rules.timeout_ms
    verdict, cause, reason = _verdict(event, by_status, rules, barrier, awaits=awaits)
    if cause in (HeldBy.LAGGING, HeldBy.EXPECTED):
        timed_out = {w: m for w, m in timed_out.items() if w not in by_status[WriterStatus.PARTICIPATING]}
    inactive = {**by_status[WriterStatus.SHUT_DOWN], **timed_out}
    removals = tuple(RemoveWriter(w, m) for w, m in event.marks.items() if w in inactive)
    decision = Decision(
        previous_lower=previous_lower,
        participating=tuple(by_status[WriterStatus.PARTICIPATING]),
        lagging=tuple(by_status[WriterStatus.LAGGING]),
        shut_down=tuple(by_status[WriterStatus.SHUT_DOWN]),
        timed_out=tuple(timed_out),
        outcome="emitted" if cause is HeldBy.EMITTED else "held",
        cause=cause,
        reason=reason,
    )
    return CycleState(behind_since, short_since), (*removals, decision, *verdict)


def _short_since(
    state: CycleState,
    event: Observe,
    by_status: Mapping[WriterStatus, Mapping[str, WriterMark]],
    rules: CycleRules,
) -> int | None:
    """Since when only expected writers are missing for the first watermark; None: they are not, or others hold it."""
    counts = by_status[WriterStatus.PARTICIPATING] and not by_status[WriterStatus.LAGGING]
    if event.previous is not None or not counts or len(event.marks) >= rules.expected_writers:
        return None
    return event.now_ms if state.short_since is None else state.short_since


def _verdict(
    event: Observe,
    by_status: Mapping[WriterStatus, Mapping[str, WriterMark]],
    rules: CycleRules,
    barrier: int | None,
    *,
    awaits: bool,
) -> tuple[tuple[Append | LeaveBucket, ...], HeldBy, str]:
    """What the cycle appends or leaves, and why it emits nothing, as a code and in words."""
    counted, lagging = by_status[WriterStatus.PARTICIPATING], by_status[WriterStatus.LAGGING]
    if not counted and not lagging:
        leaving = (LeaveBucket(),) if rules.leaves_bucket else ()
        return (*_end_of_known_time(event, rules), *leaving), HeldBy.NO_ACTIVE_WRITER, "no active writer"
    if lagging and barrier is not None:
        write = partial(moment, clock_ms=event.now_ms)
        bound = f"{'first barrier' if event.previous is None else 'previous lower bound'} {write(barrier)}"
        waits = [f"{writer} (last noted {write(mark.time)}, {bound})" for writer, mark in lagging.items()]
        return (), HeldBy.LAGGING, f"waits for {', '.join(waits)}"
    if awaits:
        missing, expected = rules.expected_writers - len(event.marks), rules.expected_writers
        return (), HeldBy.EXPECTED, f"waits for {missing} more of {expected} expected writers"
    times = {writer: mark.time for writer, mark in counted.items()}
    if event.previous is None and min(times.values()) <= MIN_TIME:
        return (), HeldBy.NOT_ADVANCED, "time not advanced"
    try:
        cut = _cut(counted, event, rules)
    except CutError as error:
        return (), HeldBy(error.failure), f"cut failed: {error.reason}"
    return (Append(Watermark(min(times.values()), max(times.values()), cut, times)),), HeldBy.EMITTED, ""


def _end_of_known_time(event: Observe, rules: CycleRules) -> tuple[Append, ...]:
    """What is appended when no writer is known any more; nothing where no time has been known since the last end.

    Source: PDP-33, Config Changes ("If there are no known writers, readers ... will receive a null").
    """
    if not rules.null_without_writers or event.previous is None or not event.previous.known:
        return ()
    try:
        cut = _cut(event.marks, event, rules)
    except CutError:
        cut = event.previous.cut
    return (Append(replace(event.previous, cut=cut, writers={}, known=False)),)


def ending_at(end: Watermark, lengths: Mapping[int, int | None]) -> Watermark:
    """An end of known time where the stream ends: at the lengths, in bytes, of the segments of the active epoch.

    There the writers were forgotten. Before it the bounds of the watermark before it still hold.
    """
    return replace(end, cut=Position(lengths))


def _cut(marks: Mapping[str, WriterMark], event: Observe, rules: CycleRules) -> Position:
    previous = None if event.previous is None else event.previous.cut
    return stream_cut([mark.position for mark in marks.values()], previous, event.history, rules)
