"""The longest time in which a curve stood still, and who held it: of one curve, and of all curves of a run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wmlab.core.charts.scene import Value as Bound, longest_known
from wmlab.core.facts import Value
from wmlab.streams.answers.cause import Cause, held_by, longest_cause
from wmlab.streams.answers.cause_facts import states
from wmlab.streams.answers.curves import LOG, Curve, Curves
from wmlab.streams.answers.history import without_ends
from wmlab.streams.answers.vocabulary import NAME_OF_CURVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """From `from_ms` to `to_ms` (clock) a curve kept its `value`; those of its last `cause` held it for `held_ms`."""

    from_ms: int
    to_ms: int
    value: int
    cause: Cause
    held_ms: int

    @property
    def length_ms(self) -> int:
        """How long it lasted."""
        return self.to_ms - self.from_ms

    @property
    def held_by(self) -> tuple[str, ...]:
        """Who, or what, held the curve."""
        return held_by(self.cause)

    def is_apart_from(self, other: Stop) -> bool:
        """Whether at most half of it lies within another one."""
        common_ms = min(self.to_ms, other.to_ms) - max(self.from_ms, other.from_ms)
        return 2 * common_ms <= self.length_ms

    @property
    def facts(self) -> dict[str, Value]:
        """What there is to say of it."""
        return {
            "longest stop": self.length_ms,
            "from": self.from_ms,
            "to": self.to_ms,
            "at": self.value,
            "cause": self.cause.of_log.kind.value,
            "held by": self.held_by,
            "held for": self.held_ms,
            **states("holder", self.cause.of_log.holders),
        }


def longest_stop(
    curves: Curves, curve: Curve, at_ms: Sequence[int], values: Sequence[Bound], end_ms: int
) -> Stop | None:
    """The longest stop of a curve that has these values from these moments on; None: it was never known."""
    longest = longest_known([*at_ms, end_ms], [*values, *values[-1:]])
    if longest is None or longest.value is None:
        return None
    return stop_between(curves, curve, longest.from_ms, longest.to_ms, longest.value)


def stop_between(curves: Curves, curve: Curve, from_ms: int, to_ms: int, value: int) -> Stop | None:
    """That a curve kept a value from one moment to another (clock, ms), with what held it longest in that time."""
    longest = longest_cause(list(curves.spans(curve, start_ms=from_ms, end_ms=to_ms)))
    if longest is None:
        return None
    cause, held_ms = longest
    return Stop(from_ms=from_ms, to_ms=to_ms, value=value, cause=cause, held_ms=held_ms)


def stops_of(curves: Curves, end_ms: int) -> Iterator[tuple[Curve, Stop]]:
    """The longest stop of each curve of a stream up to the end of a run: the log first, then groups, then readers."""
    tables = curves.tables
    log = without_ends(row for row, _ in tables.log)
    series = [(LOG, [row["emitted_ms"] for row in log], [row["lower"] for row in log], end_ms)]
    series += [(Curve(group=group), *curves.at_position(group), end_ms) for group in tables.groups]
    for reader, rows in tables.windows.items():
        until_ms = min(end_ms, curves.reader_until_ms(reader) or end_ms)
        series.append((Curve(reader=reader), [row["at_ms"] for row in rows], [row["lower"] for row in rows], until_ms))
    for curve, times, values, until_ms in series:
        known = bisect_right(times, until_ms)  # a map of times can be written after the deletion
        stop = longest_stop(curves, curve, times[:known], values[:known], until_ms)
        if stop is not None:
            yield curve, stop


def of_stops(curves: Curves, end_ms: int) -> dict[str, Value]:
    """The longest stop of any curve."""
    stops = list(stops_of(curves, end_ms))
    if not stops:
        return {}
    curve, longest = stops[0]
    for other, stop in stops[1:]:
        if stop.length_ms > longest.length_ms and stop.is_apart_from(longest):
            curve, longest = other, stop
    return {"curve": name_of(curve, curves.tables.stream), **longest.facts}


def name_of(curve: Curve, stream: str) -> str:
    """The name of a curve: "The bound seen by readers-0"."""
    kind = "reader" if curve.reader is not None else "group" if curve.group is not None else "log"
    return NAME_OF_CURVE[kind].format(name=curve.reader or curve.group or stream)
