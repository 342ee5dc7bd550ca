"""The longest time in which a curve kept one known value, and who or what held it then."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wmlab.core.charts.scene import ConstantSpan
from wmlab.core.facts import Value
from wmlab.streams.answers.cause import Cause, CauseKind, longest_cause
from wmlab.streams.answers.curves import Curve, Curves
from wmlab.streams.answers.stragglers import holders

HeldBy = Callable[[int, int], tuple[str, ...]]
"""Who, or what, held a curve for longest from one moment to another (clock, ms); empty: it is not known."""


def held_by(curves: Curves, curve: Curve, from_ms: int, to_ms: int) -> tuple[str, ...]:
    """The parties of the cause that held the curve for longest in that time, or what held it where no party did."""
    longest = longest_cause(list(curves.spans(curve, start_ms=from_ms, end_ms=to_ms)))
    return () if longest is None else _parties(longest.cause)


def _parties(cause: Cause) -> tuple[str, ...]:
    if cause.kind is CauseKind.NEWEST and cause.log is not None:
        return _parties(cause.log)
    readers = {party.name if party.subject == "reader" else party.reader for party in cause.parties}
    return tuple(sorted(filter(None, readers))) or tuple(filter(None, holders(cause))) or (cause.kind.value,)


def stop_facts(stop: ConstantSpan | None, held: HeldBy) -> Mapping[str, Value]:
    """The facts of a longest stop; none without one."""
    if stop is None:
        return {}
    return {
        "longest stop": stop.length_ms,
        "at": stop.value,
        "from": stop.from_ms,
        "to": stop.to_ms,
        "held by": held(stop.from_ms, stop.to_ms),
    }
