"""What holds the lower bound of a stream, from what is known: one cause, the writers behind it, and its price.

    cause              the last cycle                                  who
    no mark            there was none, nobody is on record             nobody
    first cycle        there was none, somebody is on record           nobody
    lagging            waited for writers                              those
    slowest            emitted                                         those whose time is the bound
    failed             ended for another reason (cut failed, ...)      nobody
    nobody left        found no active writer                          nobody

Source: PDP-33, Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wmlab.streams.answers.known import Known


class Cause(StrEnum):
    """What holds the bound, by the table above."""

    NO_MARK = "no mark"
    FIRST_CYCLE = "first cycle"
    LAGGING = "lagging"
    SLOWEST = "slowest"
    FAILED = "failed"
    NOBODY_LEFT = "nobody left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The cause and the writers; `since_ms` when it began; `by_ms` how much higher the bound would be without them.

    `since_ms` is None if it was so from the start; `by_ms` is None when nobody else is on record or no bound is known.
    """

    cause: Cause
    writers: tuple[str, ...] = ()
    since_ms: int | None = None
    by_ms: int | None = None


def hold_of(known: Known) -> Hold:
    """What holds the bound at the moment of `known`."""
    cycle = known.cycle
    if cycle is None:
        if not known.on_record:
            return Hold(cause=Cause.NO_MARK)
        return Hold(cause=Cause.FIRST_CYCLE, since_ms=known.woken_ms)
    if cycle["lagging"]:
        writers = tuple(sorted(cycle["lagging"]))
        return Hold(cause=Cause.LAGGING, writers=writers, since_ms=known.held_since, by_ms=_excess(known, writers))
    if cycle["reason"] == "no active writer":
        return Hold(cause=Cause.NOBODY_LEFT, since_ms=known.held_since)
    if cycle["outcome"] != "emitted" or known.bound is None:
        return Hold(cause=Cause.FAILED, since_ms=known.held_since)
    times = known.bound["writers"]
    writers = tuple(sorted(name for name, time in times.items() if time == known.lower))
    return Hold(cause=Cause.SLOWEST, writers=writers, since_ms=known.bound["emitted_ms"], by_ms=_excess(known, writers))


def _excess(known: Known, writers: tuple[str, ...]) -> int | None:
    others = [noted.time for name, noted in known.on_record.items() if name not in writers]
    if known.lower is None or not others:
        return None
    return max(0, min(others) - known.lower)
