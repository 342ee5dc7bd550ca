"""What holds a time bound at a moment: one cause for each curve, as a value.

The kinds of causes, what each means, and the order in which they are looked for, are in the vocabulary. A cause is
taken from what was known by then.

Source: PDP-33, Periodic Watermark Workflow and Watermarking in the Reader; upstream classes `PeriodicWatermarking`,
`WatermarkReaderImpl` and `ReaderGroupStateManager`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from wmlab.streams.answers.run_state import MARKS_SEGMENT, Fault, RunState
from wmlab.streams.answers.vocabulary import OF_ITSELF, WITHOUT_PARTY, CauseKind, State
from wmlab.streams.model.cycle import HeldBy
from wmlab.streams.scenario.parts import SEGMENT_STORE, SERVICES
from wmlab.streams.tables import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """Who holds a bound: a writer, reader, controller, bucket, store or the `segments` of a group, with its fault.

    A segment without an owner has had none since `fault.since_ms`, and `fault.party` was the last one. A controller
    `is_former` if nobody owns the bucket any more.

    A writer has the time that it last had accepted, and when it noted that (clock, ms). Cycles wait for it since
    `waited_ms`, up to `given_up_ms`. A reader has as `time` the lower bound that it saw at its last poll, and
    `noted_ms` is when that was. A segment has the `offset` that the group has read of the `needed` bytes before the cut
    (None: to its end), its `reader` (None: nobody), and the reader from which that one has it (`taken_from`), whose
    fault it has. `back_ms` is when a controller or store came back from its last fault.
    """

    name: str
    subject: Subject
    fault: Fault | None = None
    time: int | None = None
    noted_ms: int | None = None
    waited_ms: int | None = None
    given_up_ms: int | None = None
    offset: int | None = None
    needed: int | None = None
    reader: str | None = None
    taken_from: str | None = None
    back_ms: int | None = None
    is_former: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What holds a curve at `at_ms`: its kind, the parties, and the value of the curve (`bound`; None: unknown).

    `since_ms` is the moment from which on the curve has that value, which the writers `set_by` had noted. Where writers
    hold the log, `others_ahead_ms` is the smallest time of the others minus the bound. `starts_ms` is when a
    stream, group or reader begins that is not there.
    `next_cycle_ms` is when the next cycle is due, if that is not past, and `blocked_by` is what prevents it from
    running. `reason` is the recorded reason of a cycle that failed. `newest` is the newest watermark of the log.
    `sealed_ms` and `deleted_ms` are when the stream was sealed or deleted. `refused` has the outcome of the newest note
    of those whose newest note was refused, and `silent` is a replayed writer that is silent.

    Of a `group` or `reader`: `position` is the cause of the bound at the position, which is also that of what the
    reader saw if it `follows`, and `log` is that of the log; `looked_ms` is when a reader last polled, and `readers`
    are those of the group that have. `delayed` says until when (clock, ms) those kept cycles from making the next
    watermark of the curve who no longer do.
    """

    kind: CauseKind
    at_ms: int
    bound: int | None = None
    since_ms: int | None = None
    set_by: tuple[str, ...] = ()
    parties: tuple[Party, ...] = ()
    others_ahead_ms: int | None = None
    starts_ms: int | None = None
    next_cycle_ms: int | None = None
    blocked_by: Party | None = None
    reason: str = ""
    newest: int | None = None
    sealed_ms: int | None = None
    deleted_ms: int | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    silent: str | None = None
    group: str | None = None
    reader: str | None = None
    looked_ms: int | None = None
    readers: tuple[Party, ...] = ()
    position: Cause | None = None
    follows: bool = False
    log: Cause | None = None
    delayed: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parties."""
        return tuple(party.name for party in self.parties)

    @property
    def faults(self) -> tuple[Fault | None, ...]:
        """What has befallen each of them."""
        return tuple(party.fault for party in self.parties)

    @property
    def holders(self) -> tuple[Party, ...]:
        """The parties that hold the curve: writers with the smallest times first, readers, a controller, a store."""
        return self.parties if self.kind in (*OF_WRITERS, *NOT_OF_WRITERS, CauseKind.READER) else ()

    @property
    def who(self) -> tuple[str, ...]:
        """The names of those that hold the curve; of segments their readers, or the last ones."""
        owners = {party.reader or (party.fault and party.fault.party) for party in self.segments}
        return tuple(party.name for party in self.holders) or tuple(sorted(name for name in owners if name))

    @property
    def segments(self) -> tuple[Party, ...]:
        """The segments that the cause is about."""
        return tuple(party for party in self.parties if party.subject == "segments")

    @property
    def of_log(self) -> Cause:
        """The cause of the log, where a group or reader has come to the newest watermark."""
        return self.log if self.kind is CauseKind.NEWEST and self.log is not None else self


OF_WRITERS: Final = (CauseKind.LAGGING, CauseKind.SLOWEST)
"""The causes that are writers."""
NOT_OF_WRITERS: Final = (CauseKind.CONTROLLER, CauseKind.STORE)
"""The causes that keep cycles from running or storing, whatever writers note."""


def cause_of_log(state: RunState) -> Cause:
    """What holds the lower bound of the log at the moment of the state."""
    kind = _kind_of_log(state)
    writers = [name for name in state.behind if kind is not CauseKind.LAGGING or name in (state.cycle or {})["lagging"]]
    parties = tuple(_writer(state, name, kind) for name in writers) if kind in OF_WRITERS else ()
    if kind is CauseKind.CONTROLLER:
        parties = overdue_for(state)
    if kind is CauseKind.STORE and state.cycle_fault is not None:
        parties = (_store(state, state.cycle_fault),)
    others = [noted.time for name, noted in state.on_record.items() if kind not in OF_WRITERS or name not in writers]
    ahead = [time - state.lower for time in others if state.lower is not None]
    cycle, bound = state.cycle, state.bound
    return Cause(
        kind=kind,
        at_ms=state.at_ms,
        bound=state.lower,
        since_ms=None if bound is None else int(bound["emitted_ms"]),
        set_by=_set_by(state, state.lower),
        parties=parties,
        others_ahead_ms=min(ahead) if kind in OF_WRITERS and ahead and min(ahead) > 0 else None,
        starts_ms=state.created_ms if kind is CauseKind.NOT_THERE else None,
        next_cycle_ms=next_cycle_ms(state),
        blocked_by=next_cycle_blocked_by(state),
        reason="" if cycle is None else cycle["reason"],
        newest=state.lower,
        sealed_ms=state.sealed_ms,
        deleted_ms=state.deleted_ms,
        refused=state.refused,
    )


def _kind_of_log(state: RunState) -> CauseKind:
    cycle = state.cycle
    if state.deleted_ms is not None:
        return CauseKind.DELETED
    if not state.on_record:
        if any(note.accepted for notes in state.notes.values() for note in notes):
            return CauseKind.NO_WRITER_LEFT
        return CauseKind.NO_MARK if state.is_there else CauseKind.NOT_THERE
    if cycle is None:
        return CauseKind.FIRST_CYCLE
    if is_overdue(state):
        return CauseKind.CONTROLLER
    if cycle["lagging"]:
        return CauseKind.LAGGING if set(state.behind) & set(cycle["lagging"]) else CauseKind.PERIOD
    if cycle["outcome"] == "emitted" or cycle["cause"] == HeldBy.NO_ACTIVE_WRITER:
        return CauseKind.SLOWEST if state.behind else CauseKind.PERIOD
    if cycle["cause"] == HeldBy.EXPECTED:
        return CauseKind.EXPECTED
    return CauseKind.CYCLE_FAILED if state.cycle_fault is None else CauseKind.STORE


def is_overdue(state: RunState) -> bool:
    """Whether a cycle that was planned has not run."""
    due_ms = due_ms_of(state)
    return due_ms is not None and due_ms < state.at_ms


def due_ms_of(state: RunState) -> int | None:
    """When a planned cycle is due (clock, ms), though its controller may have lost the bucket since.

    While the owner is kept from running cycles, those of a controller without a session count. None: none is planned,
    or it has nothing to do.
    """
    if state.cycle is None or not state.on_record or state.deleted_ms is not None:
        return None
    name, plans = state.leader or state.last_owner or "", _plans_without_session(state)
    if not plans or state.faults.of("controller", name, at_ms=state.at_ms, needs=SERVICES) is None:
        plans = plans.union(state.plans.get(name, ()))
    return min(plans, default=None)


def next_cycle_ms(state: RunState) -> int | None:
    """When the owner of the bucket runs its next cycle (clock, ms).

    What its last owner planned, nobody does. It is not known while a controller without a session runs cycles, and of
    one that is overdue.
    """
    return None if state.leader is None or _plans_without_session(state) or is_overdue(state) else due_ms_of(state)


def _plans_without_session(state: RunState) -> set[int]:
    """When cycles are due of controllers that go on without a session, other than the owner."""
    found = set[int]()
    for name, plans in state.plans.items():
        fault = state.faults.of("controller", name, at_ms=state.at_ms, needs=SERVICES)
        if name != state.leader and fault is not None and fault.kind is State.SESSION_LOST:
            found |= plans
    return found


def next_cycle_blocked_by(state: RunState) -> Party | None:
    """What keeps the next cycle from running: its controller, or the last one if nobody owns the bucket; None: nothing
    is known, or the stream was deleted.
    """
    name = state.leader or state.last_owner
    if name is None or state.deleted_ms is not None or not state.is_there:
        return None
    fault = state.faults.of("controller", name, at_ms=state.at_ms, needs=SERVICES)
    is_former = state.leader is None
    if fault is None and not is_former and not is_overdue(state):
        return None
    back_ms = state.faults.ended_ms("controller", name, at_ms=state.at_ms) if fault is None else None
    if fault is not None and state.owners_known:
        # Another controller takes over, once the session has ended.
        fault = replace(fault, until_ms=None)
    return Party(name=name, subject="controller", fault=fault, back_ms=back_ms, is_former=is_former)


def overdue_for(state: RunState) -> tuple[Party, ...]:
    """For whom a cycle is overdue: a controller that cannot run it, or the bucket if nobody owns that; () for nobody.

    An owner that was kept from running cycles since the last one, and since it came, runs it late.
    """
    unowned, cycle, blocking = state.unowned, state.cycle, next_cycle_blocked_by(state)
    if unowned is not None:
        is_held_back = state.faults.of("bucket", unowned.party, at_ms=state.at_ms) is not None
        if is_held_back or blocking is None or blocking.fault is None:
            return (Party(name=unowned.party, subject="bucket", fault=unowned),)
    if blocking is None or cycle is None or blocking.fault is not None:
        return () if blocking is None else (blocking,)
    is_late = blocking.back_ms is not None and max(cycle["at_ms"], state.owned_since_ms) < blocking.back_ms
    return (blocking,) if is_late else ()


def _store(state: RunState, fault: Fault) -> Party:
    """What the last cycle could not use; it is back if nothing keeps a cycle from its stores any more."""
    back_ms = None if state.fault_of_stores() == fault else fault.until_ms
    return Party(name=fault.party, subject="store", fault=fault, back_ms=back_ms)


def _set_by(state: RunState, lower: int | None) -> tuple[str, ...]:
    """The writers that had noted a lower bound of the log, by its newest watermark."""
    index = state.index_after(lower)
    counted: Mapping[str, int] = state.watermarks[index - 1]["writers"] if index else {}
    return tuple(sorted(name for name, time in counted.items() if time == lower))


def _writer(state: RunState, name: str, kind: CauseKind) -> Party:
    noted, cycle = state.on_record[name], state.cycle or {}
    since_ms = (cycle.get("behind_since_ms") or {}).get(name) if kind is CauseKind.LAGGING else None
    timeout_ms = cycle.get("timeout_ms")
    return Party(
        name=name,
        subject="writer",
        fault=state.fault_of_writer(name),
        time=noted.time,
        noted_ms=noted.noted_ms,
        waited_ms=since_ms,
        given_up_ms=None if since_ms is None or timeout_ms is None else since_ms + timeout_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A reader group at a moment: the lower bound at its position, since when, and the segments before the next cut.

    `has_next` says that there is a watermark whose cut it has not passed. `read_up_to` is how far each segment before
    the cut was read by then (bytes), whether published or not. `has_started`: the group has published a position.
    `has_map`: it has a map of times, and `behind` are its readers with no entry or the least one.
    """

    name: str
    lower: int | None
    since_ms: int | None
    newest: int | None
    behind: tuple[Party, ...] = ()
    has_next: bool = False
    has_started: bool = True
    has_map: bool = False
    read_up_to: Mapping[str, int] = field(default_factory=dict)


def cause_of_group(state: RunState, group: GroupState, log: Cause) -> Cause:
    """What holds the lower bound at the position of a group: the one of the time-bounds chart."""
    cause = Cause(
        kind=CauseKind.NEWEST,
        at_ms=state.at_ms,
        bound=group.lower,
        since_ms=group.since_ms,
        set_by=_set_by(state, group.lower),
        newest=state.lower,
        deleted_ms=state.deleted_ms,
        group=group.name,
        readers=_polled(state, group),
        log=log,
    )
    if not group.has_next:
        return replace(cause, parties=log.parties)
    if state.deleted_ms is not None:
        return replace(cause, kind=CauseKind.DELETED)
    if not group.has_started:
        return replace(cause, kind=CauseKind.NOT_STARTED)
    readers = _readers_that_hold(state, group)
    if readers or group.has_map:
        return replace(cause, kind=CauseKind.READER, parties=readers)
    for kind, parties in (
        (CauseKind.ASSIGNMENT, [party for party in group.behind if party.fault is not None]),
        (CauseKind.UNREAD, [_taken_over(state, party) for party in group.behind if not _is_read(group, party)]),
    ):
        if parties:
            return replace(cause, kind=kind, parties=tuple(parties))
    return replace(
        cause, kind=CauseKind.PUBLICATION, parties=tuple(_taken_over(state, party) for party in group.behind)
    )


def _polled(state: RunState, group: GroupState) -> tuple[Party, ...]:
    """The readers of a group that have polled, each with what it saw then and what has befallen it."""
    return tuple(
        Party(
            name=reader,
            subject="reader",
            fault=state.faults.of("reader", reader, at_ms=state.at_ms),
            time=seen.lower,
            noted_ms=seen.looked_ms,
        )
        for reader, seen in sorted(state.seen.items())
        if seen.group == group.name
    )


def _taken_over(state: RunState, segment: Party) -> Party:
    """A segment with the fault of the reader from which its reader took it over, if that is down or gone."""
    before = None if segment.taken_from is None else reader_at_fault(state, segment.taken_from)
    return replace(segment, fault=before.fault) if before is not None and is_away(before) else segment


def _is_read(group: GroupState, segment: Party) -> bool:
    return segment.needed is not None and group.read_up_to.get(segment.name, 0) >= segment.needed


def _readers_that_hold(state: RunState, group: GroupState) -> tuple[Party, ...]:
    """The owners of segments before the cut that something has befallen; of a map of times, whose times are least."""
    names = sorted({party.reader for party in group.behind if party.reader is not None})
    readers = [(name, reader_at_fault(state, name)) for name in names]
    return tuple(reader or Party(name=name, subject="reader") for name, reader in readers if reader or group.has_map)


def reader_at_fault(state: RunState, name: str) -> Party | None:
    """The reader, if it is down, paused or cut off."""
    fault = state.faults.of("reader", name, at_ms=state.at_ms, needs=(SEGMENT_STORE,))
    return None if fault is None else Party(name=name, subject="reader", fault=fault)


def is_away(party: Party | None) -> bool:
    """Whether a reader is down or gone: what it knew, nobody knows any more."""
    return party is not None and party.fault is not None and party.fault.kind in (State.DOWN, State.GONE)


def cause_of_reader(state: RunState, group: GroupState, reader: str, log: Cause) -> Cause:
    """What holds the lower bound that a reader saw at its last poll."""
    position, seen, at_fault = cause_of_group(state, group, log), state.seen.get(reader), reader_at_fault(state, reader)
    if seen is None:
        itself = (Party(name=reader, subject="reader", fault=state.faults.of("reader", reader, at_ms=state.at_ms)),)
        unseen = replace(position, bound=None, since_ms=None, set_by=(), readers=itself)
        return replace(unseen, kind=CauseKind.NOT_STARTED, parties=itself, reader=reader, position=position)
    cause = replace(
        position,
        bound=seen.lower,
        since_ms=None if seen.lower is None else seen.since_ms,
        set_by=_set_by(state, seen.lower),
        reader=reader,
        looked_ms=seen.looked_ms,
        position=position,
    )
    if seen.lower == group.lower and not is_away(at_fault):
        return replace(cause, follows=True)
    if state.deleted_ms is not None:
        return replace(cause, kind=CauseKind.DELETED)
    if at_fault is not None:
        return replace(cause, kind=CauseKind.READER, parties=(at_fault,))
    store = state.faults.of_marks_segment(at_ms=state.at_ms)
    if store is not None:
        party = Party(name=MARKS_SEGMENT, subject="store", fault=store)
        return replace(cause, kind=CauseKind.STORE, parties=(party,))
    is_to_look = group.since_ms is not None and seen.looked_ms <= group.since_ms
    kind = CauseKind.NEXT_LOOK if is_to_look else CauseKind.OTHER_POSITION
    return replace(cause, kind=kind, parties=(Party(name=reader, subject="reader"),))


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


def longest_cause(spans: Sequence[CauseSpan]) -> tuple[Cause, int] | None:
    """The last cause of those that held for longest, with a fault if any has one, and for how long they held (ms).

    None without spans.
    """
    held_ms: dict[tuple[str, ...], int] = {}
    for span in spans:
        held_ms[held_by(span.cause)] = held_ms.get(held_by(span.cause), 0) + span.length_ms
    if not held_ms:
        return None
    longest = max(held_ms, key=lambda parties: held_ms[parties])
    of_longest = [span for span in spans if held_by(span.cause) == longest]
    with_fault = [span for span in of_longest if any(party.fault is not None for party in span.cause.of_log.holders)]
    return (with_fault or of_longest)[-1].cause, held_ms[longest]


def held_by(cause: Cause) -> tuple[str, ...]:
    """Who holds a curve, or what, where no party does; of segments their readers, or the last ones."""
    cause = cause.of_log
    itself = (cause.reader,) if cause.reader is not None and cause.kind in OF_ITSELF else ()
    return cause.who or itself or (WITHOUT_PARTY[cause.kind],)
