"""An instance of a source: what it is going to read, and how it reads, moves its watermarks and notices idleness.

The rows come in the order of their arrival, after all faults of arrival. Several columns with keys share the
partitions: each has watermarks of its own, and one idle message speaks for all.

Source: "Keyed watermark support", WM generation; upstream class `EventTimeMapper`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wmlab.core.clock import generator
from wmlab.dataflow.model.items import DONE, IDLE, Barrier, Event, Item, Watermark
from wmlab.dataflow.model.source import SourceState
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.faults import AddPartition, Disorder, LatePartition, RemovePartition, SilentPartition
from wmlab.dataflow.scenario.source import Reading, Source
from wmlab.dataflow.sim.layout import Node
from wmlab.dataflow.sim.party import Party, emitted, spread
from wmlab.dataflow.sim.processors import Clocked

if TYPE_CHECKING:
    from wmlab.dataflow.sim.world import Running


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row that a source reads: clock time in ms, its partition, its number in the source, and its values."""

    at_ms: int
    partition: int
    number: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A partition that appears or goes, or a lower bound that is promised for it (None: for all partitions)."""

    at_ms: int
    partition: int | None
    kind: str
    bound: int | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    """All that one instance reads; `partitions` are those it has from the start. Both lists by clock time."""

    arrivals: tuple[Arrival, ...]
    changes: tuple[Change, ...]
    partitions: tuple[int, ...]


def feeds(dataflow: DataflowScenario, source: Source, reading: Reading | None) -> tuple[Feed, ...]:
    """What every instance of `source` reads; partition p belongs to instance p modulo the parallelism."""
    count = source.partitions if reading is None else reading.partitions
    rows = list(_listed(dataflow, source) if reading is None else _read(source, reading))
    arrivals = _in_order(_faulty(dataflow, source, rows))
    changes = sorted(_changes(dataflow, source, reading), key=lambda change: change.at_ms)
    added = {change.partition for change in changes if change.kind == "add"}
    instances = range(source.parallelism)
    shares = [[p for p in range(count) if p % source.parallelism == number] for number in instances]
    return tuple(
        Feed(
            tuple(arrival for arrival in arrivals if arrival.partition in share),
            tuple(change for change in changes if change.partition is None or change.partition in share),
            tuple(partition for partition in share if partition not in added),
        )
        for share in map(set, shares)
    )


def _listed(dataflow: DataflowScenario, source: Source) -> Iterator[Arrival]:
    by = None if source.partition_by is None else source.columns.index(source.partition_by)
    arrival = None if source.arrival is None else source.columns.index(source.arrival)
    begin = dataflow.start_ms + source.starts_ms
    for number, values in enumerate(source.rows or ()):
        at_ms = begin + (number * source.every_ms if arrival is None else values[arrival])
        yield Arrival(at_ms, partition_of(values, by, number, source.partitions), number, values)


def partition_of(values: tuple[Any, ...], by: int | None, number: int, partitions: int) -> int:
    """The partition of a row: in turn, or what its column says; a whole number is that of the partition."""
    if by is None:
        return number % partitions
    value = values[by]
    return (value if type(value) is int else spread((value,))) % partitions


def _read(source: Source, reading: Reading) -> Iterator[Arrival]:
    by = None if source.partition_by is None else source.row_columns.index(source.partition_by)
    for number, (at_ms, partition, values) in enumerate(reading.rows):
        if partition is None or by is not None:
            partition = partition_of(values, by, number, reading.partitions)
        yield Arrival(at_ms, partition, number, values)


def _faulty(dataflow: DataflowScenario, source: Source, rows: list[Arrival]) -> list[Arrival]:
    """The rows after everything that keeps, delays or loses some of them, fault by fault."""
    for place, fault in enumerate(dataflow.faults):
        if getattr(fault, "source", None) != source.name:
            continue
        begin = dataflow.start_ms + fault.at_ms
        for_ms = getattr(fault, "for_ms", None)
        end = None if for_ms is None else begin + for_ms
        hit = [
            begin <= row.at_ms
            and (end is None or row.at_ms < end)
            and getattr(fault, "partition", row.partition) == row.partition
            for row in rows
        ]
        match fault:
            case SilentPartition() | RemovePartition():
                rows = [row for row, is_hit in zip(rows, hit, strict=True) if not is_hit]
            case LatePartition(by_ms=by_ms):
                rows = [replace(row, at_ms=row.at_ms + by_ms) if h else row for row, h in zip(rows, hit, strict=True)]
                rows = _without_overtaking(rows, fault.partition)
            case AddPartition(partition=partition):
                rows = [
                    replace(row, at_ms=max(row.at_ms, begin)) if row.partition == partition else row for row in rows
                ]
            case Disorder(by_ms=by_ms):
                draws = generator(dataflow.seed, f"disorder {place} of {source.name}").integers(0, by_ms + 1, len(rows))
                delays = [int(draw) if is_hit else 0 for draw, is_hit in zip(draws, hit, strict=True)]
                rows = [replace(row, at_ms=row.at_ms + delay) for row, delay in zip(rows, delays, strict=True)]
    return rows


def _without_overtaking(rows: list[Arrival], partition: int) -> list[Arrival]:
    latest, kept = None, []
    for row in rows:
        if row.partition == partition:
            latest = row.at_ms if latest is None else max(latest, row.at_ms)
            row = replace(row, at_ms=latest)
        kept.append(row)
    return kept


def _in_order(rows: list[Arrival]) -> list[Arrival]:
    return sorted(rows, key=lambda row: (row.at_ms, row.number))


def _changes(dataflow: DataflowScenario, source: Source, reading: Reading | None) -> Iterator[Change]:
    for fault in dataflow.faults:
        if isinstance(fault, AddPartition | RemovePartition) and fault.source == source.name:
            kind = "add" if isinstance(fault, AddPartition) else "remove"
            yield Change(dataflow.start_ms + fault.at_ms, fault.partition, kind)
    for at_ms, partition, bound in () if reading is None else reading.bounds:
        yield Change(at_ms, partition, "bound", bound)


Keep = Callable[[tuple[Any, ...]], bool]


@dataclass(frozen=True, slots=True)
class Position:
    """What a source saves: how far it has read, its partitions, and their watermarks by key."""

    arrivals: int = 0
    changes: int = 0
    partitions: tuple[int, ...] | None = None
    marks: tuple[tuple[int | None, ...], ...] = ()
    promised: tuple[tuple[Any, ...], ...] = ()


class Reader(Party):
    """One source instance; after a restart it goes on from `position`."""

    def __init__(
        self,
        execution: Running,
        node: Node,
        number: int,
        feed: Feed,
        times: Sequence[Clocked],
        keep: Keep,
        position: Position | None = None,
    ) -> None:
        super().__init__(execution, node, number)
        self.feed = feed
        self.times = tuple(times)
        self.keep = keep
        self._barrier: Barrier | None = None
        self._steps = 0
        self._rejected_ms: int | None = None
        begun = position or Position()
        self._arrivals, self._changes = begun.arrivals, begun.changes
        self.partitions = list(feed.partitions if begun.partitions is None else begun.partitions)
        now_ms = self.world.now_ms
        self.states = [time.mapper.start(len(self.partitions), now_ms=now_ms) for time in self.times]
        if position is not None:
            self._restore(position)

    def turn(self) -> None:
        """Take a snapshot if one is due, read what has arrived while there is room, and look at the clock."""
        self.blocked = False
        if not self.flush() or self.finished:
            return
        if self._barrier is not None:
            self._take_snapshot(self._barrier)
            if self.finished:
                return
        read = 0
        for due in self._due():
            room = self.room
            if room is not None and room < 1:
                self.blocked = True
                return
            read += 1
            if isinstance(due, Arrival):
                self._arrivals += 1
                self._read(due)
            else:
                self._changes += 1
                self._change(due)
        if not read:
            self._tick()
        self._go_on()

    def begin_snapshot(self, barrier: Barrier) -> None:
        """The source saves its position before it reads on."""
        if self.finished:
            self.execution.saved(self, barrier, self._position(), 0)
            return
        self._barrier = barrier
        self.world.wake(self)

    def _take_snapshot(self, barrier: Barrier) -> None:
        self._barrier = None
        self.finished = barrier.terminal
        self.execution.saved(self, barrier, self._position(), 0)
        self.send((barrier,))

    def _position(self) -> Position:
        return Position(
            self._arrivals,
            self._changes,
            tuple(self.partitions),
            tuple(state.marks() for state in self.states),
            tuple(tuple(partition.policy for partition in state.partitions) for state in self.states),
        )

    def _restore(self, position: Position) -> None:
        """Watermarks are saved; what a policy has seen is not, but a promised lower bound holds on."""
        for number, time in enumerate(self.times):
            marks = dict(enumerate(position.marks[number]))
            state = time.mapper.restore(self.states[number], marks)
            if time.promised:
                policies = zip(state.partitions, position.promised[number], strict=True)
                state = replace(state, partitions=tuple(replace(p, policy=policy) for p, policy in policies))
            self.states[number] = state

    def _due(self) -> Iterator[Arrival | Change]:
        """What has arrived by now and was not read, in order; a change comes before a row of the same moment."""
        now_ms = self.world.now_ms
        arrivals, changes = self.feed.arrivals, self.feed.changes
        while True:
            row = arrivals[self._arrivals] if self._arrivals < len(arrivals) else None
            change = changes[self._changes] if self._changes < len(changes) else None
            first: Arrival | Change | None = row
            if change is not None and (row is None or change.at_ms <= row.at_ms):
                first = change
            if first is None or first.at_ms > now_ms:
                return
            yield first

    def _read(self, row: Arrival) -> None:
        passed = self.keep(row.values)
        self.write(
            "source_rows",
            partition=row.partition,
            number=row.number,
            at_ms=self.world.now_ms,
            passed=passed,
            row=self._written.text(row.values),
        )
        if not passed:
            self._rejected_ms = self.world.now_ms
        event = Event(row.values)
        place = self.partitions.index(row.partition)
        out: list[Item] = []
        for number, time in enumerate(self.times):
            before = self.states[number]
            happened = row.values[time.place]
            call = {"partition": place, "time": happened, "now_ms": self.world.now_ms}
            if passed:
                after, items = time.mapper.event(before, event, **call)
                items = items[:-1]
            else:
                after, items = time.mapper.rejected(before, **call)
            self._moved(number, after, items, "event", row.partition)
            out += items
        self.send((*_once(out), event) if passed else _once(out))

    def _change(self, change: Change) -> None:
        now_ms = self.world.now_ms
        out: list[Item] = []
        for number, time in enumerate(self.times):
            before = self.states[number]
            if change.kind == "add":
                self._moved(number, time.mapper.add(before, now_ms=now_ms), (), "added", change.partition)
            elif change.kind == "remove":
                after, items = time.mapper.remove(before, self._place(change), now_ms=now_ms)
                self._moved(number, after, items, "removed", change.partition)
                out += items
            elif time.promised and change.bound is not None:
                bound = change.bound - time.lag
                touched = range(len(self.partitions)) if change.partition is None else [self._place(change)]
                after, items = time.mapper.tick(_promised(before, touched, bound), now_ms=now_ms)
                self._moved(number, after, items, "bound", change.partition)
                out += items
        if change.kind == "add" and change.partition is not None:
            self.partitions.append(change.partition)
        elif change.kind == "remove":
            self.partitions.pop(self._place(change))
        self.send(_once(out))

    def _place(self, change: Change) -> int:
        assert change.partition is not None
        return self.partitions.index(change.partition)

    def _tick(self) -> None:
        now_ms = self.world.now_ms
        source = self.node.vertex
        silent = self.world.dataflow.rules.rejected_rows_silent
        if silent and self._rejected_ms is not None and now_ms - self._rejected_ms < source.poll_ms:
            return
        out: list[Item] = []
        for number, time in enumerate(self.times):
            after, items = time.mapper.tick(self.states[number], now_ms=now_ms)
            self._moved(number, after, items, "tick", None)
            out += items
        self.send(_once(out))

    def _go_on(self) -> None:
        """Send the end, or be back when the next row arrives or the clock matters."""
        arrivals, changes = self.feed.arrivals, self.feed.changes
        now_ms = self.world.now_ms
        if self._arrivals == len(arrivals) and self._changes == len(changes) and self.node.vertex.ends:
            self.finished = True
            self.send((DONE,))
            self.execution.ended(self)
            return
        nexts = [arrivals[self._arrivals].at_ms] if self._arrivals < len(arrivals) else []
        nexts += [changes[self._changes].at_ms] if self._changes < len(changes) else []
        nexts += [d for state in self.states if (d := state.next_deadline_ms(now_ms)) is not None]
        lively = any(time.by_clock for time in self.times) or self._overdue(now_ms)
        nexts += [now_ms + self.node.vertex.poll_ms] if lively else []
        if nexts:
            self.world.wake_at(self, min(nexts))

    def _overdue(self, now_ms: int) -> bool:
        """Whether all partitions are idle and that could not be said, because rejected rows keep the source busy."""
        return any(
            not state.announced and all(partition.idle(now_ms) for partition in state.partitions)
            for state in self.states
        )

    def _moved(
        self, number: int, after: SourceState, items: Sequence[Item], stimulus: str, partition: int | None
    ) -> None:
        """Note a step of merging the partitions, if it moved anything."""
        before, time = self.states[number], self.times[number]
        self.states[number] = after
        now_ms = self.world.now_ms
        if before.marks() == after.marks() and not items and len(before.partitions) == len(after.partitions):
            return
        known = [*self.partitions, *([partition] if stimulus == "added" and partition is not None else [])]
        if stimulus == "removed":
            known = [one for one in known if one != partition]
        idle = [one for one, state in zip(known, after.partitions, strict=True) if state.idle(now_ms)]
        mark = None
        if partition in known:
            mark = after.marks()[known.index(partition)]
        self.write(
            "coalescing",
            step=self._steps,
            at_ms=now_ms,
            taken=None,
            level="partition",
            edge=None,
            input=partition,
            stimulus=stimulus,
            key=time.mapper.key,
            value=mark,
            active=sorted(set(known) - set(idle)),
            idle=sorted(idle),
            done=[],
            **emitted(items),
        )
        self._steps += 1


def _once(items: Sequence[Item]) -> tuple[Item, ...]:
    """The watermarks of all keys, and one idle message if any key has one."""
    marks = tuple(item for item in items if isinstance(item, Watermark))
    return (*marks, IDLE) if len(marks) < len(items) else marks


def _promised(state: SourceState, places: Sequence[int], bound: int) -> SourceState:
    partitions = tuple(
        replace(partition, policy=bound) if place in places else partition
        for place, partition in enumerate(state.partitions)
    )
    return replace(state, partitions=partitions)
