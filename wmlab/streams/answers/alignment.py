"""Several lower bounds side by side: the smallest one of all, how far they are apart, and which one is behind.

Streams that are joined and readers of a group have such bounds. A group that shares a map from reader to time has the
least of these times.

Source: PDP-33, Applications reading from multiple streams; PDP-33, Client Changes (the map, its least time, and
unassigned segments that every reader counts as its own).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from wmlab.core.charts.scene import Value
from wmlab.core.errors import ChartError
from wmlab.core.facts import Head, Value as FactValue
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import listed
from wmlab.streams.answers.head_labels import head_of
from wmlab.streams.answers.history import StreamTables
from wmlab.streams.answers.step_curves import lengths_ms

BoundCurve = Mapping[int, Value]
"""A lower bound by the clock time from which on it holds, ascending."""


@dataclass(frozen=True)
class Alignment:
    """Lower bounds by name, each with its value at every one of the times `at_ms`; None: unknown."""

    at_ms: Sequence[int]
    lowers: Mapping[str, Sequence[Value]]

    @classmethod
    def of(cls, curves: Mapping[str, BoundCurve]) -> Alignment:
        """From curves that change at times of their own."""
        at_ms = sorted({at for curve in curves.values() for at in curve})
        return cls(at_ms, {name: held(curve, at_ms) for name, curve in curves.items()})

    @cached_property
    def smallest(self) -> list[Value]:
        """The smallest bound of all; unknown while one of them is."""
        return [min(known) if len(known) == len(self.lowers) else None for known in self._known]

    @cached_property
    def largest(self) -> list[Value]:
        """The largest bound of all; unknown while one of them is."""
        return [max(known) if len(known) == len(self.lowers) else None for known in self._known]

    @cached_property
    def apart_ms(self) -> list[Value]:
        """How far they are apart."""
        ends = zip(self.smallest, self.largest, strict=True)
        return [None if low is None or high is None else high - low for low, high in ends]

    @property
    def _known(self) -> list[list[int]]:
        rows = zip(*self.lowers.values(), strict=True)
        return [[bound for bound in row if bound is not None] for row in rows]

    def head(self) -> Head:
        """Which one was behind for how long, and how far they were apart, while at least two were known.

        Raises `ChartError` if there never were two at once.
        """
        lengths = lengths_ms(self.at_ms)
        ends = {row: (min(known), max(known)) for row, known in enumerate(self._known) if len(known) > 1}
        if not ends:
            raise ChartError(
                f"No two of the lower bounds of {listed([*self.lowers])} are ever known at once.",
                remedy="Ask recording.explain() what held them back, or keep the values whose bounds are known.",
            )
        behind_ms = {
            name: sum(lengths[row] for row, (low, high) in ends.items() if lower[row] == low < high)
            for name, lower in self.lowers.items()
        }
        apart_ms = max(high - low for low, high in ends.values())
        values: dict[str, FactValue] = {"apart at most": apart_ms}
        if apart_ms:
            name = max(behind_ms, key=lambda each: behind_ms[each])
            values |= {"behind": name, "behind for": behind_ms[name]}
        return head_of("alignment", values, clock_ms=self.at_ms[0])


def smallest_of(curves: Sequence[BoundCurve]) -> BoundCurve:
    """The smallest of curves, each from its first time on; unknown while one of them is."""
    at_ms = sorted({at for curve in curves for at in curve})
    lowers = [held(curve, at_ms) for curve in curves]
    begins = [min(curve) for curve in curves]
    smallest: dict[int, Value] = {}
    for at, *row in zip(at_ms, *lowers, strict=True):
        begun = [lower for lower, begin in zip(row, begins, strict=True) if at >= begin]
        known = [lower for lower in begun if lower is not None]
        smallest[at] = min(known) if len(known) == len(begun) else None
    return smallest


def held(curve: BoundCurve, at_ms: Iterable[int]) -> list[Value]:
    """The value of a curve at each of these times, which include its own; None before its first."""
    lower: Value = None
    values = []
    for at in at_ms:
        lower = curve.get(at, lower)
        values.append(lower)
    return values


def bounds_by(
    names: Sequence[Any], readers: Sequence[Any], at_ms: Sequence[int], lowers: Sequence[Value]
) -> dict[str, BoundCurve]:
    """The lower bound of each name over the clock, from rows in any order: the smallest that its readers have."""
    by_name: dict[str, dict[Any, dict[int, Value]]] = {}
    for at, lower, name, reader in sorted(zip(at_ms, lowers, names, readers, strict=True), key=lambda row: row[0]):
        by_name.setdefault(str(name), {}).setdefault(reader, {})[at] = lower
    return {name: smallest_of([*of_readers.values()]) for name, of_readers in sorted(by_name.items())}


GroupSegments = tuple[int, Mapping[int, TableRow]]
"""When an update was made, and the newest row of each open segment after it."""


class TimesOfReaders(NamedTuple):
    """The map after an update: the time of every reader that has segments; None: it has passed nothing."""

    at_ms: int
    entries: Mapping[str, Value]

    @property
    def least(self) -> Value:
        """The least time; None while a reader in the map has passed nothing, or nobody is in it."""
        known = [time for time in self.entries.values() if time is not None]
        return min(known, default=None) if len(known) == len(self.entries) else None


def recorded_maps(recording: Recording, stream: str, group: str) -> list[TimesOfReaders]:
    """The group's own map after each update of its state; empty when it shares none, or no table has it."""
    maps = StreamTables(recording, stream).of_group(group).maps
    return [TimesOfReaders(row["at_ms"], dict(row["lowers"])) for row in maps]


def stretches_of(reader: str, states: Sequence[GroupSegments]) -> Iterator[tuple[int, int, list[int]]]:
    """From when to when (clock, ms) a reader was the last one to publish which segments."""
    begin, before = states[0][0], list[int]()
    for at_ms, state in [*states, (states[-1][0], {})]:
        owned = sorted(segment for segment, row in state.items() if row["reader"] == reader)
        if owned != before:
            if before and at_ms > begin:
                yield begin, at_ms, before
            begin, before = at_ms, owned


def map_head(rows: Sequence[TimesOfReaders]) -> Head:
    """Whose time was the least one in the map of a group for how long, while another one was larger."""
    least_ms: dict[str, int] = {}
    known_ms = 0
    for row, length in zip(rows, lengths_ms([row.at_ms for row in rows]), strict=True):
        time, behind = row.least, [reader for reader, passed in row.entries.items() if passed == row.least]
        known_ms += 0 if time is None else length
        if time is not None and len(behind) < len(row.entries):
            least_ms.update({reader: least_ms.get(reader, 0) + length for reader in behind})
    values: dict[str, FactValue] = {"least time for": known_ms or None}
    if any(least_ms.values()):  # else readers were behind each other for no time
        reader = max(least_ms, key=lambda name: least_ms[name])
        values |= {"behind": reader, "behind for": least_ms[reader]}
    return head_of("map", values)
