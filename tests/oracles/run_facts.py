"""What is to be said of a whole run: the longest stop of any curve and who held it, notes that were refused, cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.oracles.cycle_plans import planned_cycle
from tests.oracles.group_facts import Group, Reader
from tests.oracles.log_facts import WITHOUT_PARTY, Fact, cause_of_log, kept_until_now, log_holders, state_of_writer
from tests.oracles.states import Befallen
from tests.oracles.tables import CLOCKS, SUCCESS, Run

_OF_THE_READER = ("reader", "next look", "other position", "not started")
_WITH_HOLDER = ("lagging", "slowest", "controller", "store", "reader")
_NAMES = {"log": "The watermark in the log of", "group": "The bound at the position of", "reader": "The bound seen by"}


@dataclass(frozen=True, slots=True)
class Stop:
    """A curve that kept one known value from a moment to another (clock, ms)."""

    value: int
    from_ms: int
    to_ms: int

    @property
    def length_ms(self) -> int:
        """How long it kept the value."""
        return self.to_ms - self.from_ms

    def within(self, other: Stop) -> int:
        """How much of it lies within another one (ms)."""
        return max(0, min(self.to_ms, other.to_ms) - max(self.from_ms, other.from_ms))


@dataclass(frozen=True, slots=True)
class Held:
    """Who held a curve at a moment, and why."""

    cause: str
    parties: tuple[str, ...]


@dataclass
class RunCurve:
    """The curve of a log, of a group, or of a reader over a run."""

    run: Run
    stream: str
    group: Group | None = None
    reader: str | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        if self.group is None:
            return f"{_NAMES['log']} {self.stream}"
        return f"{_NAMES['group']} {self.group.name}" if self.reader is None else f"{_NAMES['reader']} {self.reader}"

    def steps(self) -> list[tuple[int, int | None]]:
        """From when on it has which value."""
        marks = sorted(self.run.all_rows("watermarks", self.stream), key=lambda row: row["seq"])
        if self.group is None:
            return [(row["emitted_ms"], row["lower"] if row["writers"] else None) for row in marks]
        if self.reader is None:
            return self.group.steps()
        rows = self.run.all_rows("windows", self.stream)
        return [
            (row["at_ms"], row["lower"])
            for row in rows
            if (row["group"], row["reader"]) == (self.group.name, self.reader)
        ]

    @property
    def ends_ms(self) -> int:
        """When it ended: with the stream, or when the reader left for good (clock, ms)."""
        left = (
            each.since_ms
            for each in self.run.states_of(self.stream)
            if each.party == self.reader and each.state == "gone" and each.ended_ms is None
        )
        return min(self.run.ends(self.stream), *left, self.run.end_ms)

    def longest(self) -> Stop | None:
        """Its longest stop, of equally long ones the first; None: it never had a value."""
        return max(_stops(self.steps(), self.ends_ms), key=lambda stop: stop.length_ms, default=None)

    def held(self, at_ms: int) -> Held:
        """Who held it at a moment; a curve that has reached the log is held by what held the log.

        Up to the first cycle after those came back who kept cycles from running, they hold it, where no writer does.
        """
        cause = "newest"
        parties: tuple[str, ...] = ()
        if self.group is not None:
            reader = None if self.reader is None else Reader(self.group, self.reader)
            cause = self.group.cause(at_ms) if reader is None else reader.cause(at_ms)
            if reader is not None and cause == "store":
                return Held(cause, ("marks segment",))
            if reader is not None and cause in _OF_THE_READER and not reader.follows(at_ms):
                return Held(cause, (reader.name,))
            parties = tuple(self.group.holders(at_ms))
        if cause == "newest":
            cause, parties = cause_of_log(self.run, self.stream, at_ms), log_holders(self.run, self.stream, at_ms)
            if cause == "period" and (late := kept_until_now(self.run, self.stream, at_ms)):
                return Held("controller", late)
        return Held(cause, parties)

    def changes(self, stop: Stop) -> list[int]:
        """The moments of a stop from which on something may hold the curve that did not before."""
        found = {stop.from_ms}
        for table, clock in CLOCKS.items():
            if table not in ("events", "segments"):
                found |= {row[clock] for row in self.run.all_rows(table, self.stream)}
        for state in self.run.states_of(self.stream):
            found |= {at for at in (state.since_ms, state.ended_ms) if at is not None}
        for row in self.run.owners:
            found |= {at for at in (row["from_ms"], row["to_ms"]) if at is not None}
        for at_ms in sorted(found):
            due_ms = planned_cycle(self.run, self.stream, at_ms)
            found |= set() if due_ms is None else {due_ms + 1}
        return sorted(at for at in found if stop.from_ms <= at < stop.to_ms)


def _stops(steps: Iterable[tuple[int, int | None]], end_ms: int) -> Iterator[Stop]:
    since_ms, value = 0, None
    for at_ms, next_value in (*steps, (end_ms, None)):
        if next_value == value:
            continue
        if value is not None and at_ms > since_ms:
            yield Stop(value, since_ms, at_ms)
        since_ms, value = at_ms, next_value


def _chosen(curves: list[RunCurve]) -> tuple[RunCurve, Stop] | None:
    """The curve with the longest stop: another one takes its place if it is longer and mostly at another time."""
    found: tuple[RunCurve, Stop] | None = None
    for curve in curves:
        stop = curve.longest()
        if stop is None:
            continue
        if found is None or (stop.length_ms > found[1].length_ms and 2 * stop.within(found[1]) <= stop.length_ms):
            found = curve, stop
    return found


def held_longest(curve: RunCurve, stop: Stop) -> tuple[Held, int, list[Befallen | None]]:
    """Who held the curve for longest in a stop, for how long by all causes (ms), and the last state of any of them.

    The cause is the one in that state, without any the last one.
    """
    changes = curve.changes(stop)
    lengths: dict[tuple[str, ...], int] = {}
    moments: dict[tuple[str, ...], list[tuple[int, Held]]] = {}
    for begin, end in zip(changes, [*changes[1:], stop.to_ms], strict=True):
        held = curve.held(begin)
        lengths[held_by(held)] = lengths.get(held_by(held), 0) + end - begin
        moments.setdefault(held_by(held), []).append((begin, held))
    most = max(lengths, key=lambda parties: lengths[parties])
    for begin, held in moments[most][::-1]:
        names = held.parties if held.cause in _WITH_HOLDER else ()
        states = [state_of_writer(curve.run, curve.stream, name, begin) for name in names]
        if any(states):
            return held, lengths[most], states
    return moments[most][-1][1], lengths[most], []


def held_by(held: Held) -> tuple[str, ...]:
    """The parties, or words where there is none."""
    return held.parties or (WITHOUT_PARTY[held.cause],)


def run_facts(run: Run, stream: str, groups: list[Group]) -> Iterator[Fact]:
    """Each label about a whole run with its value, or with a tuple of values."""
    log = RunCurve(run, stream)
    readers = sorted(
        {
            (row["reader"], group.name)
            for group in groups
            for row in run.all_rows("windows", stream)
            if row["group"] == group.name
        }
    )
    by_name = {group.name: group for group in groups}
    curves = [log, *(RunCurve(run, stream, group) for _, group in sorted(by_name.items()))]
    curves += [RunCurve(run, stream, by_name[group], reader) for reader, group in readers]
    chosen = _chosen(curves)
    if chosen is not None:
        yield from stop_facts(*chosen)
    yield from refused_facts(run, stream)
    yield from what_never_came(run, stream)
    yield "sealed at", run.incident(stream, "seal", run.end_ms)
    yield "deleted at", run.incident(stream, "delete", run.end_ms)


def stop_facts(curve: RunCurve, stop: Stop) -> Iterator[Fact]:
    """The longest stop of a run."""
    held, length_ms, states = held_longest(curve, stop)
    yield "curve", curve.name
    yield "longest stop", stop.length_ms
    yield "from", stop.from_ms
    yield "to", stop.to_ms
    yield "at", stop.value
    yield "cause", held.cause
    yield "held by", held_by(held)
    yield "held for", length_ms
    yield "holder state", tuple(state and state.state for state in states)
    yield "holder since", tuple(state and state.since_ms for state in states)


def refused_facts(run: Run, stream: str) -> Iterator[Fact]:
    """Whose notes were refused in the run, and as what."""
    rows = [row for row in run.all_rows("writer_marks", stream) if row["outcome"] != SUCCESS]
    names = sorted({row["writer"] for row in rows})
    of: dict[str, list[dict[str, Any]]] = {name: [row for row in rows if row["writer"] == name] for name in names}
    yield "refused", tuple(names)
    yield "refused as", tuple(of[name][-1]["outcome"] for name in names)


def what_never_came(run: Run, stream: str) -> Iterator[Fact]:
    """What the script waited for in vain."""
    rows = run.all_rows("incidents", stream)
    yield "never came", tuple(row["detail"] for row in rows if row["outcome"] == "never happened")
    yield "streams apart", streams_apart(run, stream)


def streams_apart(run: Run, stream: str) -> tuple[str, ...] | None:
    """The streams of the first group that reads this one with others, if two of them have no time in common."""
    rows = run.recording.table("positions").to_pylist()
    for group in sorted({row["group"] for row in rows}):
        together = sorted({row["stream"] for row in rows if row["group"] == group})
        written = [events for name in together if (events := run.all_rows("events", name))]
        if stream in together and any(_is_apart(one, other) for one in written for other in written):
            return tuple(together)
    return None


def _is_apart(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Whether all times of a stream are before those of another one that was written at the same time."""
    is_before = max(row["event_time"] for row in one) < min(row["event_time"] for row in other)
    appended = [[row["append_ms"] for row in rows] for rows in (one, other)]
    return bool(is_before and max(map(min, appended)) <= min(map(max, appended)))
