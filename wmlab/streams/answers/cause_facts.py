"""A cause as facts and sentences: what `explain`, charts, clicks and the controls of a moment say about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wmlab.core.facts import Facts, Value
from wmlab.streams.answers.cause import Cause, Party, held_by
from wmlab.streams.answers.vocabulary import (
    LABELS,
    OF_GROUP,
    OF_GROUP_NEXT,
    OF_LOG,
    OF_LOG_NEXT,
    OF_READER,
    OF_READER_NEXT,
    OF_UPPER,
    WAS_DELETED,
    CauseKind,
)

Values = Mapping[str, Value]


def of_cause(cause: Cause) -> tuple[Facts, tuple[str, ...]]:
    """The facts about what holds a curve, and the templates of the one or two sentences about it."""
    if cause.log is None:
        facts = _facts(cause, of_log(cause))
        return facts, _said(facts, OF_LOG[cause.kind], OF_LOG_NEXT)
    if cause.log.since_ms is None:
        return of_cause(cause.log)
    if cause.kind is CauseKind.NEWEST:
        facts = _facts(cause, {**_own(cause), **of_log(cause.log)})
        own = OF_GROUP if cause.reader is None else OF_READER
        return facts, _said(facts, own[cause.kind], OF_LOG[cause.log.kind])
    facts = _facts(cause, _with_others(cause))
    if cause.reader is None:
        return facts, _said(facts, OF_GROUP[cause.kind], OF_GROUP_NEXT)
    headlines = OF_GROUP if cause.follows else OF_READER
    return facts, _said(facts, headlines[cause.kind], OF_READER_NEXT)


def _said(facts: Facts, *choices: tuple[str, ...]) -> tuple[str, ...]:
    """The templates of the sentences; a stream that was deleted has no watermark any more, and that alone is said."""
    return facts.chosen((WAS_DELETED,)) or facts.chosen(*choices)


def of_upper(cause: Cause, upper: int | None) -> tuple[Facts, tuple[str, ...]]:
    """The facts and the sentence about the upper bound of the curve of a cause."""
    curve = "reader" if cause.reader is not None else "group" if cause.group is not None else "log"
    facts = _facts(
        cause,
        {
            "group": cause.group,
            "reader": cause.reader,
            "upper bound": upper,
            "polled at": cause.looked_ms,
            "newest watermark": cause.newest,
            "deleted at": cause.deleted_ms,
            **states("reader", [party for party in cause.readers if party.name == cause.reader]),
        },
    )
    return facts, _said(facts, OF_UPPER[curve])


def of_log(cause: Cause) -> Values:
    """What there is to say about the watermark in the log."""
    return {
        "watermark": cause.bound,
        "made at": cause.since_ms,
        "set by": cause.set_by,
        "cause": cause.kind.value,
        **_holders(cause),
        "others ahead by": cause.others_ahead_ms,
        "starts at": cause.starts_ms,
        "refused": tuple(cause.refused),
        "refused as": tuple(cause.refused.values()),
        "next cycle": cause.next_cycle_ms,
        "reason": cause.reason if cause.kind is CauseKind.CYCLE_FAILED else None,
        **_blocked(cause),
        **_delayed(cause),
        "sealed at": cause.sealed_ms,
        "deleted at": cause.deleted_ms,
        "silent writer": cause.silent,
    }


def _facts(cause: Cause, values: Values) -> Facts:
    return Facts(LABELS, {"moment": cause.at_ms, **values}, clock_ms=cause.at_ms)


def _own(cause: Cause) -> Values:
    """What there is to say about the bound at the position of a group, or about the one that a reader saw."""
    if cause.reader is not None:
        position = cause.position
        return {
            "reader": cause.reader,
            "group": cause.group,
            "saw": cause.bound,
            "saw first at": cause.since_ms,
            "polled at": cause.looked_ms,
            "at position": None if position is None else position.bound,
            "newest watermark": cause.newest,
            "deleted at": cause.deleted_ms,
            "starts at": cause.starts_ms,
            **states("reader", [party for party in cause.readers if party.name == cause.reader]),
        }
    return {
        "group": cause.group,
        "at position": cause.bound,
        "newest watermark": cause.newest,
        "deleted at": cause.deleted_ms,
        "starts at": cause.starts_ms,
        "seen by": _names(cause.readers),
        "saw": tuple(party.time for party in cause.readers),
        "polled at": tuple(party.noted_ms for party in cause.readers),
        **states("reader", cause.readers),
    }


def _with_others(cause: Cause) -> Values:
    """The same with what holds the curve, and what holds those that come before it."""
    position, log = cause.position, cause.log
    segments = cause.segments
    return {
        **_own(cause),
        "set by": cause.set_by,
        **_delayed(cause),
        "cause": cause.kind.value,
        **_holders(cause),
        "segment": _names(segments),
        "read by": tuple(party.reader for party in segments),
        "bytes left": tuple(_left(party) for party in segments),
        "read before by": tuple(None if party.fault is None else party.fault.party for party in segments),
        "position holder": None if position is None else held_by(position),
        "log holder": None if log is None else held_by(log),
    }


def _holders(cause: Cause) -> Values:
    """Who holds the curve, what has befallen each, and what writers have noted."""
    holders = cause.holders
    writers = [party for party in holders if party.subject == "writer"]
    faults = [party.fault for party in holders]
    return {
        "holder": _names(holders),
        **states("holder", holders),
        "holder until": tuple(None if fault is None else fault.until_ms for fault in faults),
        "holder back at": tuple(party.back_ms for party in holders),
        "cut off from": tuple(None if fault is None else ", ".join(fault.apart_from) or None for fault in faults),
        "last noted": tuple(party.time for party in writers),
        "noted at": tuple(party.noted_ms for party in writers),
        "waited for since": tuple(party.waited_ms for party in writers),
        "given up at": tuple(party.given_up_ms for party in writers),
    }


def _blocked(cause: Cause) -> Values:
    """Who should run the next cycle, if that is kept from it."""
    blocking = cause.blocked_by
    if blocking is None:
        return {}
    owner = "nobody" if blocking.is_former else blocking.name
    return {"bucket owner": owner, "controller": blocking.name, **states("controller", [blocking])}


def _delayed(cause: Cause) -> Values:
    return {"delayed by": tuple(cause.delayed), "delayed until": tuple(cause.delayed.values())}


def states(label: str, parties: Iterable[Party]) -> Values:
    """What has befallen parties, and since when."""
    faults = [party.fault for party in parties]
    return {
        f"{label} state": tuple(None if fault is None else fault.kind.value for fault in faults),
        f"{label} since": tuple(None if fault is None else fault.since_ms for fault in faults),
    }


def _names(parties: Iterable[Party]) -> tuple[str, ...]:
    return tuple(party.name for party in parties)


def _left(segment: Party) -> int | None:
    return None if segment.needed is None else segment.needed - (segment.offset or 0)
