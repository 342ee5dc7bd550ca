"""What holds a time bound at a moment: one cause for each curve, as a value.

The curve of the log, its lower bound, is held by

    no mark            no writer is on record, and there never was a watermark
    no writer left     no writer is on record any more
    first cycle        a time was noted, and no cycle has run yet
    lagging            the last cycle waited for writers that have noted nothing beyond the bound
    slowest            the last cycle emitted, and these writers have noted nothing beyond the bound since
    period             all writers have noted a time beyond the bound; the next cycle will use it
    controller         the next cycle is overdue: its controller is down, paused or cut off, or nobody owns the bucket
    store              the last cycle could not reach a store, or found no marks segment
    expected           the first watermark waits for expected writers
    no position        the counted writers had no position in a segment
    cut failed         the cut could not be computed
    cycle failed       the last cycle ended for another reason

A watermark that is in the log reaches a reader or its group later, held by

    reader             the reader that owns a segment before the cut is paused, down or cut off
    assignment         a segment before the cut has no owner
    unread             a segment before the cut has events that are not read yet
    publication        the events are read; the reader has not published that
    store              the marks segment, where readers learn of watermarks, cannot be read
    next look          the group has passed the cut; the reader has not looked since
    not started        the group has published no position yet, or the reader has not looked yet, or not joined
    shared state       the reader has looked, but its copy of the group's state was older

or by nothing: then the group knows the newest watermark, and `log` is the cause of the log's curve. A cause is taken
from what was known by then. `earliest_ms` is not a prediction: before it the cause cannot end as the script and the
rules have planned it, and `at_least` is the value that the bound then reaches, unless a writer with an older time
joins.

Source: PDP-33, Periodic Watermark Workflow and Watermarking in the Reader; upstream classes `PeriodicWatermarking`,
`WatermarkReaderImpl` and `ReaderGroupStateManager`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from wmlab.streams.answers.run_state import Fault, FaultKind, RunState
from wmlab.streams.model.cycle import HeldBy
from wmlab.streams.scenario.parts import SEGMENT_STORE, SERVICES
from wmlab.streams.tables import Subject


class CauseKind(StrEnum):
    """What holds a bound, by the tables of the module."""

    NO_MARK = "no mark"
    NO_WRITER_LEFT = "no writer left"
    FIRST_CYCLE = "first cycle"
    LAGGING = "lagging"
    SLOWEST = "slowest"
    PERIOD = "period"
    CONTROLLER = "controller"
    STORE = "store"
    EXPECTED = "expected"
    NO_POSITION = "no position"
    CUT_FAILED = "cut failed"
    CYCLE_FAILED = "cycle failed"
    READER = "reader"
    ASSIGNMENT = "assignment"
    UNREAD = "unread"
    PUBLICATION = "publication"
    NEXT_LOOK = "next look"
    SHARED_STATE = "shared state"
    NOT_STARTED = "not started"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """Who holds a bound: a writer, a reader, a controller, a store or the `segments` of a group, with its fault if any.

    That of a bucket without an owner is the fault of its last owner; a segment without an owner has had none since
    `fault.since_ms`, and `fault.party` was the last one.

    A writer has the time that it last had accepted, and when it noted that (clock, ms); `refused` is the outcome of a
    later note, `open_until_ms` when the open event arrives whose time that is, `clock_ms` by how much its clock is
    ahead (negative: behind). `was_behind` says that it was behind before its fault began, or may have been. A segment
    has the `offset` that the group has read of the `needed` bytes before the cut (None: to its end), its `reader`
    (None: nobody), and the reader from which that one has it (`taken_from`), whose fault it has. `back_ms` is when a
    controller or store came back from its last fault.
    """

    name: str
    subject: Subject
    fault: Fault | None = None
    time: int | None = None
    noted_ms: int | None = None
    refused: str | None = None
    open_until_ms: int | None = None
    was_behind: bool = False
    clock_ms: int = 0
    offset: int | None = None
    needed: int | None = None
    reader: str | None = None
    taken_from: str | None = None
    back_ms: int | None = None

    @property
    def is_held_by_fault(self) -> bool:
        """Whether the fault is what keeps the party back: as far as is known, nothing else did before."""
        return self.fault is not None and not self.was_behind and self.open_until_ms is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What holds a curve at `at_ms`: its kind, the parties, and the value of the curve (`bound`; None: unknown).

    `since_ms` is the moment from which on the curve has that value. `by_ms` is how much higher it would be without this
    cause: without the writers, at the smallest time of the others; without the delay of the cycle or of the readers, at
    the times noted by then, accepted or not, or the newest watermark; None if unknown. `waits` says that a cycle has
    run since without a new watermark. `earliest_ms` and `at_least` see the module. `next_cycle_ms` is when the next
    cycle is due, and `blocked_by` is what prevents it from running. `reason` is the recorded reason of a cycle that
    failed. `newest` is the newest watermark of the log. `end_ms` is the planned end of the run: anything due later does
    not happen. `sealed_ms` is when the stream was sealed: nothing can be written since.
    """

    kind: CauseKind
    at_ms: int
    bound: int | None = None
    since_ms: int | None = None
    parties: tuple[Party, ...] = ()
    by_ms: int | None = None
    waits: bool = False
    earliest_ms: int | None = None
    at_least: int | None = None
    next_cycle_ms: int | None = None
    blocked_by: Party | None = None
    reason: str = ""
    newest: int | None = None
    end_ms: int | None = None
    sealed_ms: int | None = None
    log: Cause | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parties."""
        return tuple(party.name for party in self.parties)


_OF_CYCLE: Final = {
    HeldBy.EXPECTED: CauseKind.EXPECTED,
    HeldBy.NO_POSITIONS: CauseKind.NO_POSITION,
    HeldBy.UNKNOWN_SEGMENT: CauseKind.CUT_FAILED,
    HeldBy.ENDLESS_CUT: CauseKind.CUT_FAILED,
}
"""The cause by the code of a cycle that emitted nothing; of any other the cycle failed."""
OF_WRITERS: Final = (CauseKind.LAGGING, CauseKind.SLOWEST)
"""The causes that are writers."""
NOT_OF_WRITERS: Final = (CauseKind.CONTROLLER, CauseKind.STORE)
"""The causes that keep cycles from running or storing, whatever writers note."""


def cause_of_log(state: RunState) -> Cause:
    """What holds the lower bound of the log at the moment of the state."""
    kind = _kind_of_log(state)
    blocking = next_cycle_blocked_by(state)
    writers = sorted(name for name in state.on_record if not state.is_beyond(name)) if kind in OF_WRITERS else []
    if kind is CauseKind.LAGGING and state.cycle is not None:
        writers = [name for name in writers if name in state.cycle["lagging"]]
    parties = tuple(_writer(state, name, kind) for name in writers)
    if kind is CauseKind.CONTROLLER and blocking is not None:
        parties = (blocking,)
    if kind is CauseKind.STORE and state.cycle_fault is not None:
        name = state.cycle_fault.party
        is_over = state.faults.of("store", name, at_ms=state.at_ms) is None and not state.cycle_fault.apart_from
        back_ms = state.faults.ended_ms("store", name) if is_over else None
        parties = (Party(name=name, subject="store", fault=state.cycle_fault, back_ms=back_ms),)
    cycle, bound = state.cycle, state.bound
    due_ms = _due_ms(state) if state.on_record else None
    if kind in NOT_OF_WRITERS:
        # A cycle would find these writers behind, so it would not raise the bound either.
        behind = sorted(name for name in state.on_record if not state.is_beyond(name))
        parties += tuple(_writer(state, name, kind) for name in behind)
    times = [noted.time for name, noted in state.on_record.items() if name not in writers]
    gain = max(0, min(times) - state.lower) if times and state.lower is not None else None
    return Cause(
        kind=kind,
        at_ms=state.at_ms,
        bound=state.lower,
        since_ms=None if bound is None else int(bound["emitted_ms"]),
        parties=parties,
        by_ms=gain,
        waits=cycle is not None and bound is not None and cycle["at_ms"] > bound["emitted_ms"],
        earliest_ms=_earliest_ms(state, kind, parties, blocking, due_ms),
        at_least=min(times) if kind is CauseKind.PERIOD and times else None,
        next_cycle_ms=due_ms,
        blocked_by=blocking,
        reason="" if cycle is None else (cycle["reason"] or "the watermark was not appended"),
        newest=state.lower,
        sealed_ms=state.sealed_ms,
    )


def _kind_of_log(state: RunState) -> CauseKind:
    cycle, bound = state.cycle, state.bound
    if not state.on_record:
        return CauseKind.NO_MARK if bound is None else CauseKind.NO_WRITER_LEFT
    if cycle is None:
        return CauseKind.FIRST_CYCLE
    if is_overdue(state):
        return CauseKind.CONTROLLER
    behind = {name for name in state.on_record if not state.is_beyond(name)}
    if cycle["lagging"]:
        return CauseKind.LAGGING if behind & set(cycle["lagging"]) else CauseKind.PERIOD
    has_emitted = cycle["outcome"] == "emitted" and bound is not None and bound["emitted_ms"] >= cycle["at_ms"]
    if has_emitted or cycle["cause"] == HeldBy.NO_ACTIVE_WRITER:
        return CauseKind.SLOWEST if behind else CauseKind.PERIOD
    if state.cycle_fault is not None:
        return CauseKind.STORE
    return _OF_CYCLE.get(cycle["cause"], CauseKind.CYCLE_FAILED)


def is_overdue(state: RunState) -> bool:
    """Whether a cycle that was planned has not run."""
    due_ms = _due_ms(state)
    return due_ms is not None and due_ms < state.at_ms and state.deleted_ms is None


def _due_ms(state: RunState) -> int | None:
    """When the next cycle is due (clock, ms); None: none is planned.

    One that appended its watermark and then died has left no row; the next one would have been due a period later.
    """
    due_ms = None if state.cycle is None else state.cycle.get("due_ms")
    if state.cycle is None or due_ms is None or state.bound is None:
        return due_ms
    emitted_ms = int(state.bound["emitted_ms"])
    return int(due_ms if emitted_ms < due_ms else emitted_ms + due_ms - state.cycle["at_ms"])


def next_cycle_blocked_by(state: RunState) -> Party | None:
    """What keeps the next cycle from running: its controller, or that nobody owns the bucket; None: nothing known."""
    name = state.leader
    controller = name or state.last_owner
    fault = None if controller is None else state.faults.of("controller", controller, at_ms=state.at_ms, needs=SERVICES)
    if fault is not None and state.owners_known:
        # Another controller takes over, once the session has ended.
        fault = replace(fault, until_ms=None)
    if name is None:
        unowned = Party(name="the bucket of the stream", subject="bucket", fault=fault)
        return unowned if state.owners_known else None
    if fault is not None or is_overdue(state):
        back_ms = state.faults.ended_ms("controller", name) if fault is None else None
        return Party(name=name, subject="controller", fault=fault, back_ms=back_ms)
    return None


def _writer(state: RunState, name: str, kind: CauseKind) -> Party:
    noted, fault = state.on_record[name], state.fault_of_writer(name)
    since_ms = ((state.cycle or {}).get("behind_since_ms") or {}).get(name)
    return Party(
        name=name,
        subject="writer",
        fault=fault,
        # That a writer is slow or down holds the bound only once a cycle has waited for it.
        was_behind=kind is not CauseKind.LAGGING
        or (fault is not None and since_ms is not None and since_ms < fault.since_ms),
        time=noted.time,
        noted_ms=noted.noted_ms,
        refused=state.refused.get(name),
    )


def _earliest_ms(
    state: RunState, kind: CauseKind, parties: Sequence[Party], blocking: Party | None, due_ms: int | None
) -> int | None:
    """Before when the cause cannot end as planned; None: that is not known."""
    cycle = state.cycle
    if kind is CauseKind.LAGGING and cycle is not None:
        since_ms, timeout_ms = cycle.get("behind_since_ms") or {}, cycle["timeout_ms"]
        names = {party.name for party in parties}
        is_known = timeout_ms is not None and names <= since_ms.keys()
        return max(since_ms[name] + timeout_ms for name in names) if is_known else None
    if kind is CauseKind.EXPECTED and cycle is not None and cycle["timeout_ms"] is not None:
        return None if state.expected_since_ms is None else state.expected_since_ms + int(cycle["timeout_ms"])
    fault = blocking.fault if blocking is not None else None
    if fault is not None:
        return fault.until_ms
    if kind is CauseKind.CONTROLLER:
        return None
    return None if kind is CauseKind.SLOWEST else due_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A reader group at a moment: the lower bound that it knows, since when, and the segments before the next cut.

    `has_next` says that there is a watermark whose cut it has not passed, emitted at `next_emitted_ms`. `read_up_to` is
    how far each segment before the cut was read by then (bytes), whether published or not. `has_started`: the group
    has published a position.
    """

    lower: int | None
    since_ms: int | None
    newest: int | None
    behind: tuple[Party, ...] = ()
    has_next: bool = False
    has_started: bool = True
    next_emitted_ms: int | None = None
    read_up_to: Mapping[str, int] = field(default_factory=dict)


def cause_of_group(state: RunState, group: GroupState) -> Cause:
    """What holds the lower bound that a reader group knows: the one of the time-bounds chart."""
    log = cause_of_log(state)
    by_ms = None if group.lower is None or state.lower is None else max(0, state.lower - group.lower)
    cause = Cause(
        kind=CauseKind.NEWEST,
        at_ms=state.at_ms,
        bound=group.lower,
        since_ms=group.since_ms,
        by_ms=by_ms,
        newest=state.lower,
        log=log,
    )
    if not group.has_next:
        return replace(
            cause,
            parties=log.parties,
            by_ms=log.by_ms,
            earliest_ms=log.earliest_ms,
            at_least=log.at_least,
        )
    if not group.has_started:
        return replace(cause, kind=CauseKind.NOT_STARTED)
    readers = _readers_at_fault(state, group)
    if readers:
        ends = [reader.fault.until_ms for reader in readers if reader.fault is not None]
        known = [end for end in ends if end is not None]
        earliest_ms = max(known) if len(known) == len(ends) else None
        return replace(cause, kind=CauseKind.READER, parties=readers, earliest_ms=earliest_ms)
    for kind, parties in (
        (CauseKind.ASSIGNMENT, [party for party in group.behind if party.reader is None]),
        (CauseKind.UNREAD, [_taken_over(state, party) for party in group.behind if not _is_read(group, party)]),
    ):
        if parties:
            return replace(cause, kind=kind, parties=tuple(parties))
    kind = CauseKind.PUBLICATION if group.behind else CauseKind.SHARED_STATE
    return replace(cause, kind=kind, parties=group.behind)


def _taken_over(state: RunState, segment: Party) -> Party:
    """A segment with the fault of the reader from which its reader took it over, if that is down or gone."""
    before = None if segment.taken_from is None else reader_at_fault(state, segment.taken_from)
    return replace(segment, fault=before.fault) if before is not None and is_away(before) else segment


def _is_read(group: GroupState, segment: Party) -> bool:
    return segment.needed is not None and group.read_up_to.get(segment.name, 0) >= segment.needed


def _readers_at_fault(state: RunState, group: GroupState) -> tuple[Party, ...]:
    owners = {segment.reader or (segment.fault.party if segment.fault else None) for segment in group.behind}
    readers = (reader_at_fault(state, name) for name in sorted(owner for owner in owners if owner is not None))
    return tuple(
        replace(
            reader,
            was_behind=reader.fault is not None
            and group.next_emitted_ms is not None
            and group.next_emitted_ms < reader.fault.since_ms,
        )
        for reader in readers
        if reader is not None
    )


def reader_at_fault(state: RunState, name: str) -> Party | None:
    """The reader, if it is down, paused or cut off."""
    fault = state.faults.of("reader", name, at_ms=state.at_ms, needs=(SEGMENT_STORE,))
    return None if fault is None else Party(name=name, subject="reader", fault=fault)


def is_away(party: Party | None) -> bool:
    """Whether a reader is down or gone: what it knew, nobody knows any more."""
    return party is not None and party.fault is not None and party.fault.kind in (FaultKind.CRASHED, FaultKind.LEFT)


_MARKS_SEGMENT: Final = "marks segment"
"""Where readers learn of watermarks, as incidents call it."""


def cause_of_reader(state: RunState, group: GroupState, reader: str) -> Cause:
    """What holds the lower bound that a reader saw when it last looked."""
    cause, seen, at_fault = cause_of_group(state, group), state.seen.get(reader), reader_at_fault(state, reader)
    looked_ms, lower = (None, None) if seen is None else (seen.looked_ms, seen.lower)
    since_ms = None if seen is None or lower is None else seen.since_ms
    if lower == group.lower and looked_ms is not None and not is_away(at_fault):
        return replace(cause, bound=lower, since_ms=since_ms)
    by_ms = None if lower is None or state.lower is None else max(0, state.lower - lower)
    cause = replace(cause, bound=lower, since_ms=since_ms, by_ms=by_ms, at_least=None)
    if at_fault is not None and at_fault.fault is not None:
        return replace(cause, kind=CauseKind.READER, parties=(at_fault,), earliest_ms=at_fault.fault.until_ms)
    store = state.faults.of("store", _MARKS_SEGMENT, at_ms=state.at_ms)
    store = store or state.faults.of("marks segment", _MARKS_SEGMENT, at_ms=state.at_ms)
    if store is not None:
        party = Party(name=_MARKS_SEGMENT, subject="store", fault=store)
        return replace(cause, kind=CauseKind.STORE, parties=(party,), earliest_ms=store.until_ms)
    if looked_ms is None:
        party = Party(name=reader, subject="reader")
        return replace(cause, kind=CauseKind.NOT_STARTED, parties=(party,), earliest_ms=None)
    looked_since = group.since_ms is not None and looked_ms > group.since_ms
    if looked_since and any(party.subject == "segments" and party.fault is not None for party in cause.parties):
        # The group knew more while the former owner was there; the reader looked when its segments had no owner.
        return cause
    kind = CauseKind.SHARED_STATE if looked_since else CauseKind.NEXT_LOOK
    return replace(cause, kind=kind, parties=(Party(name=reader, subject="reader"),), earliest_ms=None)


@dataclass(frozen=True, slots=True)
class CauseSpan:
    """One cause that held a curve from `from_ms` to `to_ms` (clock)."""

    from_ms: int
    to_ms: int
    cause: Cause

    @property
    def length_ms(self) -> int:
        """How long it held."""
        return self.to_ms - self.from_ms


def longest_cause(spans: Sequence[CauseSpan]) -> CauseSpan | None:
    """Of several spans the last one of the cause that held for longest in all, with its fault; None without spans."""
    held_ms: dict[tuple[object, ...], int] = {}
    for span in spans:
        held_ms[_holder(span.cause)] = held_ms.get(_holder(span.cause), 0) + span.length_ms
    if not held_ms:
        return None
    longest = max(held_ms, key=lambda holder: held_ms[holder])
    of_longest = [span for span in spans if _holder(span.cause) == longest]
    with_fault = [span for span in of_longest if any(party.fault is not None for party in _inner(span.cause).parties)]
    return (with_fault or of_longest)[-1]


def _holder(cause: Cause) -> tuple[object, ...]:
    inner = _inner(cause)
    return inner.kind, inner.names


def _inner(cause: Cause) -> Cause:
    """The cause of the log, where a group or reader knows the newest watermark."""
    return cause.log if cause.kind is CauseKind.NEWEST and cause.log is not None else cause
