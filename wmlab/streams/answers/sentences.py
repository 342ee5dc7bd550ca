"""A cause in words: what `explain`, charts, clicks and the controls of a moment say about it.

The first sentence has the value of the curve, the next ones the cause, the last one what can end it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from wmlab.core.words import clock_words, grouped, joined, listed, rounded
from wmlab.streams.answers.cause import OF_WRITERS, Cause, CauseKind, Party, is_away
from wmlab.streams.answers.run_state import Fault, FaultKind
from wmlab.streams.model.marks import NoteOutcome

_NAMED: Final = 3
_STATES: Final = {
    FaultKind.CRASHED: "down since {since}",
    FaultKind.SHUT_DOWN: "shut down since {since}",
    FaultKind.LEFT: "gone since {since}",
    FaultKind.PAUSED: "paused since {since}",
    FaultKind.UNAVAILABLE: "unavailable since {since}",
    FaultKind.MISSING: "missing since {since}",
    FaultKind.UNOWNED: "without an owner since {since}",
    FaultKind.SESSION_LOST: "without its session since {since}",
    FaultKind.IDLE: "idle since {since}",
    FaultKind.SILENT: "silent since {since}",
    FaultKind.CUT_OFF: "cut off from {others} since {since}",
    FaultKind.TRANSACTION_OPEN: "in an open transaction since {since}",
    FaultKind.ABORTED: "without a commit since {since}",
    FaultKind.CLOCK_SET: "with its clock changed at {since}",
}
"""What a party has been, or in an apposition what it is."""
_PAST: Final = {
    FaultKind.CRASHED: "was down",
    FaultKind.SHUT_DOWN: "had shut down",
    FaultKind.LEFT: "had left",
    FaultKind.PAUSED: "was paused",
    FaultKind.UNAVAILABLE: "was unavailable",
    FaultKind.MISSING: "was missing",
    FaultKind.UNOWNED: "had no owner",
    FaultKind.SESSION_LOST: "had lost its session",
    FaultKind.IDLE: "was idle",
    FaultKind.SILENT: "was silent",
    FaultKind.CUT_OFF: "was cut off from {others}",
    FaultKind.TRANSACTION_OPEN: "held a transaction open",
    FaultKind.ABORTED: "had aborted its transaction",
    FaultKind.CLOCK_SET: "had its clock changed",
}
"""What a party was during a stretch of time that is over."""


def state_words(fault: Fault) -> str:
    """What a party is since when: "paused since 20.0 s"."""
    return _STATES[fault.kind].format(since=clock_words(fault.since_ms), others=_others(fault))


def _others(fault: Fault) -> str:
    return listed(fault.apart_from, most=_NAMED, rest="others")


_REFUSALS: Final[Mapping[str, str]] = {
    NoteOutcome.INVALID_TIME: "older than the time on record",
    NoteOutcome.INVALID_POSITION: "its position is behind the one on record",
    "unavailable": "the store was unavailable",
}
"""What an outcome means, where its name does not say it."""


def refusal_words(outcome: str) -> str:
    """Why a note was refused."""
    return _REFUSALS.get(outcome, outcome)


def log_sentences(cause: Cause) -> str:
    """The sentences about the lower bound of the log."""
    since = "" if cause.sealed_ms is None else clock_words(cause.sealed_ms)
    sealed = f"The stream has been sealed since {since}: nothing more can be written." if since else ""
    return joined(_value(cause), *_reason(cause), sealed)


def reader_sentences(cause: Cause, reader: str) -> str:
    """The sentences about the lower bound that `reader` knows: a reader, or "The readers" of a group."""
    several = reader == GROUP
    see, know = ("see", "know") if several else ("sees", "knows")
    if cause.kind is CauseKind.NEWEST and cause.log is not None:
        newest = f"{reader} {know} the newest watermark." if cause.bound is not None else ""
        return joined(newest, log_sentences(cause.log))
    newest = "" if cause.newest is None else f"The newest watermark is {_time(cause, cause.newest)}."
    away = _away(cause, reader)
    if away:
        saw = "It saw no watermark."
        if cause.bound is not None:
            saw = f"The last watermark that it saw is {_time(cause, cause.bound)}."
        return joined(away, saw, newest)
    if cause.kind is CauseKind.NOT_STARTED and cause.earliest_ms is not None:
        begins = "start" if several else "joins"
        return joined(f"{reader} {begins} at {clock_words(cause.earliest_ms)}.", newest)
    value = f"{reader} {know} no watermark yet."
    if cause.bound is not None:
        value = f"{reader} still {see} the watermark {_time(cause, cause.bound)} since {clock_words(cause.since_ms)}."
    return joined(value, *_reader_reason(cause, reader), newest, _held_log(cause.log))


def _away(cause: Cause, reader: str) -> str:
    """That a reader is down or gone, where the bound is its own; empty if it is not."""
    if cause.names != (reader,) or not is_away(cause.parties[0]):
        return ""
    return f"{reader} has been {_state(cause.parties[0])}{_and_goes_on(cause, cause.earliest_ms)}."


GROUP: Final = "The readers"
"""How sentences call the readers of a group."""


def upper_sentences(cause: Cause, upper: int | None, writers: Sequence[str], reader: str | None) -> str:
    """The sentences about an upper bound: of the log, or with `reader` of what a reader or group knows."""
    if reader is not None and (away := _away(cause, reader)):
        saw = "no upper bound" if upper is None else f"the upper bound {_time(cause, upper)}"
        return f"{away} At its last poll it saw {saw}."
    if upper is None and reader is not None and cause.newest is not None:
        know = "know" if reader == GROUP else "knows"
        nothing_ahead = f"{reader} {know} no upper bound: no watermark is ahead of what is read."
        return joined(nothing_ahead, log_sentences(cause.log or cause))
    if upper is None:
        return joined("There is no upper bound.", log_sentences(cause.log or cause))
    noted = f"It is the latest time that {listed(writers, most=_NAMED)} had noted." if writers else ""
    return joined(f"The upper bound is {_time(cause, upper)}.", noted, log_sentences(cause.log or cause))


def because(cause: Cause) -> str:
    """The cause of a stretch that is over, as a clause: "readers-0 was paused"; empty if nothing is known."""
    cause = cause.log if cause.kind is CauseKind.NEWEST and cause.log is not None else cause
    parties = cause.parties
    if cause.kind in (CauseKind.CONTROLLER, CauseKind.STORE):
        parties = tuple(party for party in parties if party.subject != "writer")
    names = listed([_name_in_stretch(party) for party in parties], most=_NAMED, rest="others")
    singular = len(parties) == 1
    faults = [party for party in parties if party.is_held_by_fault or (party.subject == "reader" and party.fault)]
    if faults and len(faults) == len(parties) and len({_past(party) for party in faults}) == 1:
        past = _past(faults[0])
        return f"{names} {past if singular else past.replace('was ', 'were ')}"
    if cause.kind is CauseKind.CONTROLLER and parties and parties[0].subject == "bucket":
        return "nobody owned the bucket of the stream"
    if cause.kind is CauseKind.CONTROLLER and parties and parties[0].back_ms is not None:
        return f"{names} was back, but had run no cycle yet"
    template = _STRETCH.get(cause.kind)
    if template is None:
        return cause.reason
    were, segments = ("was", "segment") if singular else ("were", "segments")
    return template.format(names=names, were=were, segments=segments)


_STRETCH: Final = {
    CauseKind.LAGGING: "{names} noted no later time",
    CauseKind.SLOWEST: "{names} noted no later time",
    CauseKind.PERIOD: "the next cycle was awaited",
    CauseKind.FIRST_CYCLE: "the first cycle was awaited",
    CauseKind.CONTROLLER: "no cycle ran",
    CauseKind.READER: "{names} {were} stopped",
    CauseKind.UNREAD: "{segments} {names} {were} not read",
    CauseKind.PUBLICATION: "the position in {segments} {names} was not published",
    CauseKind.ASSIGNMENT: "nobody had published a position in {segments} {names}",
    CauseKind.EXPECTED: "expected writers were missing",
    CauseKind.NOT_STARTED: "no position was published",
    CauseKind.NEXT_LOOK: "{names} had not polled",
    CauseKind.SHARED_STATE: "{names} had not polled",
    CauseKind.NO_WRITER_LEFT: "no active writer was left",
    CauseKind.NO_MARK: "no writer had noted a time",
}
"""What held a curve during a stretch of time that is over."""


def _name_in_stretch(party: Party) -> str:
    """Whose fault it is: of a bucket without an owner or a segment that was taken over, that of its last owner."""
    if party.subject == "store":
        return _the(party)
    is_of_another = party.subject in ("bucket", "segments") and party.fault is not None
    if is_of_another and party.fault is not None and party.fault.kind is not FaultKind.UNOWNED:
        return party.fault.party
    return f"segment {party.name}" if is_of_another else party.name


def _past(party: Party) -> str:
    """What a party was: "was paused"."""
    return "" if party.fault is None else _PAST[party.fault.kind].format(others=_others(party.fault))


def _time(cause: Cause, time_ms: int | None) -> str:
    return clock_words(time_ms, clock_ms=cause.at_ms)


def _value(cause: Cause) -> str:
    if cause.bound is None:
        since = "" if cause.since_ms is None else f"since {clock_words(cause.since_ms)}"
        return f"There has been no watermark {since}." if since else "There is no watermark yet."
    value, since = _time(cause, cause.bound), clock_words(cause.since_ms)
    is_stopped = cause.waits or cause.kind is CauseKind.CONTROLLER
    return (
        f"The watermark has been {value} since {since}."
        if is_stopped
        else f"The watermark is {value}, made at {since}."
    )


def _reason(cause: Cause) -> list[str]:
    if cause.kind in OF_WRITERS:
        return _writers(cause)
    match cause.kind:
        case CauseKind.NO_MARK:
            return [_without_mark(cause)]
        case CauseKind.NO_WRITER_LEFT:
            return ["No active writer is left: the watermark waits for a noted time."]
        case CauseKind.FIRST_CYCLE:
            return ["A time is noted, and no cycle has run yet.", _next_cycle(cause)]
        case CauseKind.PERIOD:
            return ["Every writer has noted a later time.", _next_cycle(cause)]
        case CauseKind.CONTROLLER:
            return [_overdue(cause), _also_behind(cause)]
        case CauseKind.STORE:
            return [_store(cause), _also_behind(cause), _next_cycle(cause)]
        case CauseKind.EXPECTED:
            without = f"From {clock_words(cause.earliest_ms)} on, a cycle can make it without waiting."
            is_planned = cause.earliest_ms is not None and not _is_after_the_run(cause, cause.earliest_ms)
            return [f"The first watermark {cause.reason}.", without if is_planned else ""]
    return [f"The last cycle made no watermark: {cause.reason}.", _next_cycle(cause)]


def _without_mark(cause: Cause) -> str:
    refused = [f"{party.name} ({party.refused})" for party in cause.parties if party.refused]
    if refused:
        return f"No noted time was accepted: those of {listed(refused, most=_NAMED)} were refused."
    if cause.parties:
        wrote = listed([party.name for party in cause.parties], most=_NAMED, rest="others")
        return f"No writer has noted a time, though {wrote} {'has' if len(cause.parties) == 1 else 'have'} written."
    return "No writer has noted a time or written an event."


def _writers(cause: Cause) -> list[str]:
    parties = cause.parties
    ahead = "" if cause.by_ms is None else f"; the others are {rounded(cause.by_ms)} ahead"
    if len(parties) > 1:
        verb = "It waits for" if cause.kind is CauseKind.LAGGING else "No later time is noted by"
        texts = [f"{verb} {listed(cause.names, most=_NAMED, rest='others')}{ahead}."]
        texts += [f"{party.name} has been {state_words(party.fault)}." for party in parties[:_NAMED] if party.fault]
        return [*texts, _release(cause)]
    (party,) = parties
    state = _apposition(party)
    time = f"{_time(cause, party.time)}, noted at {clock_words(party.noted_ms)}"
    if cause.kind is CauseKind.LAGGING:
        texts = [
            f"It waits for {party.name}{state.removesuffix(',')}.",
            f"The last noted time of {party.name} is {time}{ahead}.",
        ]
    else:
        texts = [f"{party.name}{_clock(party)} set it, and has noted no later time{ahead}."]
        texts += [f"{party.name} has been {state_words(party.fault)}."] if party.fault is not None else []
    if party.open_until_ms is not None:
        texts.append(f"The event of that time arrives at {clock_words(party.open_until_ms)}.")
    if party.refused:
        texts.append(f"A later note was refused: {refusal_words(party.refused)}.")
    return [*texts, _release(cause)]


def _apposition(party: Party) -> str:
    if party.fault is not None and party.was_behind:
        return f", which was behind before and has been {state_words(party.fault)}"
    if party.fault is not None:
        return f", {state_words(party.fault)}"
    return _clock(party)


def _clock(party: Party) -> str:
    return f", whose clock is {rounded(-party.clock_ms)} behind," if party.clock_ms < 0 else ""


def _release(cause: Cause) -> str:
    """When the writers can stop holding the bound, as far as it is planned."""
    if cause.blocked_by is not None:
        return _next_cycle(cause)
    ends = [party.fault.until_ms for party in cause.parties if party.fault is not None]
    known = [end for end in ends if end is not None]
    back_ms = max(known) if known and len(known) == len(cause.parties) else None
    given_up_ms = cause.earliest_ms if cause.kind is CauseKind.LAGGING else None
    it = cause.parties[0].name if len(cause.parties) == 1 else "the last of them"
    if back_ms is not None and (given_up_ms is None or back_ms <= given_up_ms):
        subject = it if len(cause.parties) == 1 else "The last of them"
        return f"{subject} goes on at {_earliest(cause, back_ms)}."
    if given_up_ms is None:
        return ""
    return f"If nothing newer comes, {it} is given up at {_earliest(cause, given_up_ms)}."


def _next_cycle(cause: Cause) -> str:
    """When the next cycle can run, and what keeps it from running."""
    blocking = cause.blocked_by
    if blocking is not None and blocking.subject == "bucket":
        return f"Nobody owns the bucket of the stream, so no cycle runs.{_last_owner(blocking)}"
    if blocking is not None and blocking.fault is not None:
        until = _until(cause, blocking.fault)
        return f"{blocking.name}, which runs the cycles, has been {state_words(blocking.fault)}{until}."
    if cause.next_cycle_ms is None:
        return ""
    due = clock_words(cause.next_cycle_ms)
    if _is_after_the_run(cause, cause.next_cycle_ms):
        return f"The run ends before the next cycle, due at {due}."
    if cause.at_least is not None:
        return f"The cycle due at {due} can raise the watermark to at least {_time(cause, cause.at_least)}."
    return f"The next cycle is due at {due}."


def _overdue(cause: Cause) -> str:
    blocking = cause.blocked_by
    due = f"The cycle due at {clock_words(cause.next_cycle_ms)} has not run"
    if blocking is None:
        return f"{due}."
    if blocking.subject == "bucket":
        return f"{due}: nobody owns the bucket of the stream.{_last_owner(blocking)}"
    fault = blocking.fault
    if fault is None:
        back = "" if blocking.back_ms is None else f" has been back since {clock_words(blocking.back_ms)} and"
        return f"{due}: {blocking.name}{back} has not run it yet."
    return f"{due}: {blocking.name} has been {state_words(fault)}{_and_goes_on(cause, fault.until_ms)}."


def _earliest(cause: Cause, at_ms: int) -> str:
    """A planned moment, before which nothing changes; one after the end of the run says so."""
    when = ", after the end of the run" if _is_after_the_run(cause, at_ms) else " at the earliest"
    return clock_words(at_ms) + when


def _is_after_the_run(cause: Cause, at_ms: int) -> bool:
    return cause.end_ms is not None and at_ms > cause.end_ms


def _and_goes_on(cause: Cause, at_ms: int | None) -> str:
    return "" if at_ms is None else f" and goes on at {_earliest(cause, at_ms)}"


def _until(cause: Cause, fault: Fault) -> str:
    return "" if fault.until_ms is None else f", until {_earliest(cause, fault.until_ms)}"


def _last_owner(bucket: Party) -> str:
    if bucket.fault is None:
        return ""
    return f" {bucket.fault.party}, its last owner, has been {state_words(bucket.fault)}."


def _also_behind(cause: Cause) -> str:
    """The writers that would hold the bound if a cycle ran."""
    writers = [party.name for party in cause.parties if party.subject == "writer"]
    if not writers:
        return ""
    have = "has" if len(writers) == 1 else "have"
    return f"{listed(writers, most=_NAMED, rest='others')} {have} noted no later time either."


def _store(cause: Cause) -> str:
    party = next((party for party in cause.parties if party.subject == "store"), None)
    if party is None or party.fault is None:
        return f"The last cycle made no watermark: {cause.reason}."
    fault = party.fault
    if party.back_ms is not None:
        return f"The last cycle made no watermark: {_the(party)} has been back only since {clock_words(party.back_ms)}."
    return f"The last cycle made no watermark: {_the(party)} has been {state_words(fault)}{_until(cause, fault)}."


def _the(party: Party) -> str:
    has_name = party.fault is not None and party.fault.kind is FaultKind.CUT_OFF
    return party.name if has_name else f"the {party.name}" if party.name in _SEGMENTS else f"the store of {party.name}"


_SEGMENTS: Final = ("marks segment",)


def _reader_reason(cause: Cause, reader: str) -> list[str]:
    """What keeps `reader` from knowing the newest watermark."""
    parties = cause.parties
    names = listed(cause.names, most=_NAMED, rest="others")
    it = "It" if names == reader else names
    match cause.kind:
        case CauseKind.READER:
            at_fault = [party for party in parties[:_NAMED] if party.fault is not None]
            states = [f"{it if len(parties) == 1 else party.name} has been {_state(party)}" for party in at_fault]
            if len(states) == 1:
                return [f"{states[0]}{_and_goes_on(cause, cause.earliest_ms)}."]
            until = "" if cause.earliest_ms is None else _earliest(cause, cause.earliest_ms)
            return [*(f"{state}." for state in states), f"The last of them goes on at {until}." if until else ""]
        case CauseKind.STORE:
            return [f"{_the(party).capitalize()} has been {_state(party)}." for party in parties if party.fault]
        case CauseKind.ASSIGNMENT:
            freed = [party for party in parties if party.fault is not None]
            texts = [f"Segment {party.name} has been {_state(party)}." for party in freed[:_NAMED]]
            return texts or [f"Nobody has published a position in {_segments(parties)}."]
        case CauseKind.UNREAD:
            return [_unread(parties)]
        case CauseKind.PUBLICATION:
            readers = sorted({party.reader for party in parties if party.reader is not None})
            has = "has" if len(readers) == 1 else "have"
            return [f"{listed(readers, most=_NAMED, rest='others')} {has} read further, and not published that yet."]
        case CauseKind.NOT_STARTED:
            return ["No position is published yet." if not parties else f"{it} has not polled yet."]
        case CauseKind.NEXT_LOOK:
            return [f"{it} has not polled since then; its group has passed a newer watermark."]
        case CauseKind.SHARED_STATE:
            return [f"{it or 'The group'} has an older copy of the state of the group."]
    return ["The cause is not known."]


def _state(party: Party) -> str:
    return "" if party.fault is None else state_words(party.fault)


def _segments(parties: Sequence[Party]) -> str:
    return f"segment{'s' if len(parties) > 1 else ''} {listed([party.name for party in parties], most=_NAMED)}"


def _unread(parties: Sequence[Party]) -> str:
    """What is to be read before the next watermark, and who reads it."""
    readers = listed(sorted({party.reader for party in parties if party.reader is not None}), most=_NAMED)
    needed = [party.needed - (party.offset or 0) for party in parties if party.needed is not None]
    size = f"{grouped(sum(needed))} bytes" if len(needed) == len(parties) else "the rest"
    faults = {party.fault.party: party.fault for party in parties if party.fault is not None}
    texts = [f"{name} owned it before and has been {state_words(fault)}." for name, fault in sorted(faults.items())]
    return joined(f"To reach the next watermark, {size} of {_segments(parties)} must be read, by {readers}.", *texts)


def _held_log(log: Cause | None) -> str:
    """Whom the log's own bound waits for, where it has stopped."""
    if log is None or not log.waits or log.kind is not CauseKind.LAGGING:
        return ""
    return f"It waits for {listed(log.names, most=_NAMED, rest='others')}."
