"""An instance of a source: what it is going to read, and how it reads, moves its watermarks and notices idleness.

The rows come in the order of their arrival, after all faults of arrival. Several columns with keys share the
partitions: each has watermarks of its own, and one idle message speaks for all.

Source: "Keyed watermark support", WM generation; upstream class `EventTimeMapper`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from wmlab.core.errors import ScenarioError
from wmlab.core.simulation import generator
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, MIN, Barrier, Idle, Watermark
from wmlab.dataflow.model.source import SourceItems, SourceState
from wmlab.dataflow.scenario import faults
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.source import Source, share
from wmlab.dataflow.sim.instance import InputsByState, Instance, RunningJob, partition_hash
from wmlab.dataflow.sim.layout import Node
from wmlab.dataflow.sim.rules import WatermarkedColumn, condition_of


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source reads before any fault: rows with their arrival, and promised lower bounds.

    `rows`: (arrival in ms of the clock, partition or None, values). `bounds`: (clock ms, partition or None for all,
    lower bound), in the order of the clock.
    """

    rows: Sequence[tuple[int, int | None, tuple[Any, ...]]]
    bounds: Sequence[tuple[int, int | None, int]] = ()
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row that a source reads: clock time in ms, its partition, its number in the source, and its values."""

    at_ms: int
    partition: int
    number: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A partition is `added` or `removed`, or a lower `bound` is promised for it (None: for all partitions)."""

    at_ms: int
    partition: int | None
    kind: str
    bound: int = 0


@dataclass(frozen=True, slots=True)
class InstanceArrivals:
    """All that one instance reads by clock time, and the partitions that it has from the start."""

    entries: tuple[Arrival | Change, ...]
    partitions: tuple[int, ...]


def arrivals_by_instance(dataflow: DataflowScenario, source: Source, reading: Reading) -> tuple[InstanceArrivals, ...]:
    """What every instance of `source` reads; raises `ScenarioError` for a fault of a partition that it has not."""
    for fault in dataflow.faults:
        if not isinstance(fault, faults.OfPartition) or fault.source != source.name:
            continue
        if fault.partition >= reading.partitions:
            problem = faults.no_such_number(source.name, "partition", reading.partitions, fault.partition)
            raise ScenarioError(f"{problem}.", remedy="correct the fault, or leave it out.")
    by = None if source.partition_by is None else source.row_columns.index(source.partition_by)
    rows: list[Arrival] = []
    for number, (at_ms, partition, values) in enumerate(reading.rows):
        if partition is None or by is not None:
            # In turn, or what the column says; a whole number is that of the partition.
            value = number if by is None else values[by]
            partition = (value if type(value) is int else partition_hash((value,))) % reading.partitions
        rows.append(Arrival(at_ms, partition, number, values))
    arrivals = sorted(_faulty(dataflow, source, rows), key=lambda row: (row.at_ms, row.number))
    never = faults.never_happening(dataflow.faults)
    kinds = {faults.AddPartition: "added", faults.RemovePartition: "removed"}
    changes = [
        Change(dataflow.start_ms + fault.at_ms, fault.partition, kinds[type(fault)])
        for number, fault in enumerate(dataflow.faults)
        if isinstance(fault, faults.AddPartition | faults.RemovePartition) and fault.source == source.name
        if number not in never
    ]
    added, removed = ({c.partition: c.at_ms for c in changes if c.kind == kind} for kind in ("added", "removed"))
    bounds = [
        Change(max(at_ms, added.get(partition, at_ms)), partition, "bound", bound)
        for at_ms, partition, bound in reading.bounds
    ]
    # Sorting is stable: a reader sees its bound after what it has read at that moment. Nothing comes of a partition
    # that is gone, whatever has delayed it.
    read: list[Arrival | Change] = [*arrivals, *bounds]
    read = [entry for entry in read if entry.at_ms < removed.get(entry.partition, math.inf)]
    entries = sorted([*changes, *read], key=lambda entry: entry.at_ms)
    shares = [share(source, number, reading.partitions) for number in range(source.parallelism)]
    return tuple(
        InstanceArrivals(
            tuple(entry for entry in entries if entry.partition is None or entry.partition in own),
            tuple(partition for partition in own if partition not in added),
        )
        for own in shares
    )


def _faulty(dataflow: DataflowScenario, source: Source, rows: list[Arrival]) -> list[Arrival]:
    """The rows after everything that keeps, delays or loses some of them, fault by fault."""
    never = faults.never_happening(dataflow.faults)
    for number, fault in enumerate(dataflow.faults):
        if getattr(fault, "source", None) != source.name or number in never:
            continue
        begin = dataflow.start_ms + fault.at_ms
        for_ms = getattr(fault, "for_ms", None)
        end = math.inf if for_ms is None else begin + for_ms
        partition = getattr(fault, "partition", None)
        hit = [begin <= row.at_ms < end and partition in {None, row.partition} for row in rows]
        match fault:
            case faults.SilentPartition() | faults.RemovePartition():
                rows = [row for row, is_hit in zip(rows, hit, strict=True) if not is_hit]
            case faults.LatePartition(by_ms=by_ms):
                late_ms = begin
                # From then on none overtakes another; what came before has been read.
                for index, row in sorted(enumerate(rows), key=lambda entry: entry[1].at_ms):
                    if row.partition == partition and row.at_ms >= begin:
                        late_ms = max(late_ms, row.at_ms + by_ms * hit[index])
                        rows[index] = replace(row, at_ms=late_ms)
            case faults.AddPartition():
                rows = [replace(r, at_ms=max(r.at_ms, begin)) if r.partition == partition else r for r in rows]
            case faults.Disorder(by_ms=by_ms):
                chance = generator(dataflow.seed, f"disorder {number} of {source.name}")
                draws = chance.integers(0, by_ms + 1, len(rows))
                delays = [int(draw) * is_hit for draw, is_hit in zip(draws, hit, strict=True)]
                rows = [replace(row, at_ms=row.at_ms + delay) for row, delay in zip(rows, delays, strict=True)]
    return rows


RowsRead = dict[int, tuple[int | None, int]]
"""By partition when a row of it last passed (ms; None: never), and how many were rejected since."""


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """What a source saves: how far it has read, its partitions, by key their state, and what was read of each."""

    read: int
    partitions: tuple[int, ...]
    states: list[SourceState]
    rows: RowsRead


class SourceInstance(Instance):
    """An instance of a source; after a restart it goes on from its own position, the first of `snapshots`.

    `arrivals` are what it reads. `times` are its columns with watermarks and `states` their states; `partitions` are
    the numbers of its partitions.
    """

    def __init__(
        self,
        job: RunningJob,
        node: Node,
        number: int,
        *,
        arrivals: InstanceArrivals,
        times: Sequence[WatermarkedColumn],
        snapshots: Sequence[SourceSnapshot] = (),
    ) -> None:
        super().__init__(job, node, number)
        self.entries = arrivals.entries
        self.times = times
        self.partitions = list(snapshots[0].partitions if snapshots else arrivals.partitions)
        self.states = [time.mapper.start(len(self.partitions), now_ms=job.now_ms) for time in self.times]
        self.rows: RowsRead = {}
        where = node.vertex.where
        self._keep = None if where is None else condition_of(where, node.vertex.row_columns, node.name)
        self._barrier: Barrier | None = None
        self._rejected_ms: int | None = None
        self._idle_poll_ms: int | None = None
        self._inputs: list[InputsByState] = [([], [], []) for _ in self.times]
        self._read = 0
        self._rows_read = 0
        if snapshots:
            self._restore(snapshots[0])

    def begin(self) -> None:
        """Write down the watermarks that a snapshot gave back, and look what there is to do."""
        for index in range(len(self.times)):
            self._inputs[index] = self._inputs_by_state(index, self._idle_now(index))
            for number, mark in self._marks(index).items():
                if mark != MIN:
                    self._write_step(index, (), "restored", number, mark)
        super().begin()

    def turn(self) -> None:
        """Take a snapshot if one is due, read what has arrived while there is room, and look at the clock."""
        self.blocked = False
        if (self.outbox and not self.flush()) or self.finished:
            return
        if self._barrier is not None:
            self._take_snapshot(self._barrier)
            if self.finished:
                return
        now_ms, before = self.job.now_ms, self._read
        entries = self.entries
        while self._read < len(entries) and entries[self._read].at_ms <= now_ms:
            if self.room == 0:
                self.blocked = True
                return
            entry = entries[self._read]
            self._read += 1
            if isinstance(entry, Arrival):
                self._read_row(entry, now_ms)
            else:
                self._change(entry, now_ms)
        if self._read == before or (self._idle_poll_ms is not None and self._idle_poll_ms <= now_ms):
            self._idle_poll(now_ms)
            self._idle_poll_ms = None
        self._go_on(now_ms)

    def unread(self, until_ms: int) -> int:
        """How many rows had arrived before a moment and were not read."""
        return sum(isinstance(entry, Arrival) and entry.at_ms < until_ms for entry in self.entries[self._read :])

    def begin_snapshot(self, barrier: Barrier) -> None:
        """The source saves its position before it reads on."""
        if self.finished:
            self._save(barrier)
        else:
            self._barrier = barrier
            self.job.wake(self)

    def _take_snapshot(self, barrier: Barrier) -> None:
        self._barrier = None
        self.finished = barrier.terminal
        self._save(barrier)
        self.send((barrier,))

    def _save(self, barrier: Barrier) -> None:
        states = [replace(state, partitions=[*map(copy, state.partitions)]) for state in self.states]
        snapshot = SourceSnapshot(self._read, tuple(self.partitions), states, dict(self.rows))
        self.job.saved(self, barrier, snapshot, size=0, rows_read=self._rows_read)

    def _restore(self, snapshot: SourceSnapshot) -> None:
        """Watermarks hold on, and so does a promised lower bound; what a policy has seen does not."""
        self._read, self.rows = snapshot.read, dict(snapshot.rows)
        for time, state, saved in zip(self.times, self.states, snapshot.states, strict=True):
            time.mapper.restore(state, dict(enumerate(saved.marks())))
            if time.promised:
                for partition, before in zip(state.partitions, saved.partitions, strict=True):
                    partition.policy = before.policy

    def _read_row(self, row: Arrival, now_ms: int) -> None:
        values, partition, job = row.values, row.partition, self.job
        passed = self._keep is None or (not job.is_hit(faults.SwallowAll, self.node.name) and bool(self._keep(values)))
        self._rows_read += 1
        where = job.execution, self.node.name, self.number
        job.source_rows.add(*where, partition, row.number, now_ms, passed, values)
        if passed:
            self.rows[partition] = now_ms, 0
        else:
            last_ms, rejected = self.rows.get(partition, (None, 0))
            self.rows[partition] = last_ms, rejected + 1
            self._rejected_ms = now_ms
        index, items = self.partitions.index(partition), []
        for column, time in enumerate(self.times):
            before, when = self._marks(column), values[time.index]
            moved = time.mapper.report(
                self.states[column], partition=index, time=when, now_ms=now_ms, rejected=not passed
            )
            items.append(self._written(column, moved, before, "event", partition))
        out = self._of_all_keys(items)
        self.send((*out, values) if passed else out)

    def _change(self, change: Change, now_ms: int) -> None:
        partition, before = change.partition, [self._marks(column) for column in range(len(self.times))]
        items: list[SourceItems] = []
        index = self.partitions.index(partition) if change.kind == "removed" and partition is not None else -1
        if change.kind == "added" and partition is not None:
            self.partitions.append(partition)
        elif change.kind == "removed":
            del self.partitions[index]
        for column, (time, state) in enumerate(zip(self.times, self.states, strict=True)):
            moved: SourceItems = ()
            if change.kind == "added":
                time.mapper.add(state, now_ms=now_ms)
            elif change.kind == "removed":
                moved = time.mapper.remove(state, index, now_ms=now_ms)
            elif time.promised:
                for number, read in zip(self.partitions, state.partitions, strict=True):
                    if partition in {None, number}:
                        read.policy = change.bound - time.mapper.policy.lag
                moved = time.mapper.tick(state, now_ms=now_ms)
            items.append(self._written(column, moved, before[column], change.kind, partition))
        self.send(self._of_all_keys(items))

    def _idle_poll(self, now_ms: int) -> None:
        silent = self.job.deviations.rejected_rows_silent
        if silent and self._rejected_ms is not None and now_ms - self._rejected_ms < self.node.vertex.poll_ms:
            return
        items = []
        for column, (time, state) in enumerate(zip(self.times, self.states, strict=True)):
            before = self._marks(column)
            items.append(self._written(column, time.mapper.tick(state, now_ms=now_ms), before, "tick", None))
        self.send(self._of_all_keys(items))

    def _go_on(self, now_ms: int) -> None:
        """Send the end, or be back when the next row arrives or the clock matters."""
        has_more = self._read < len(self.entries)
        if not has_more and self.node.vertex.ends:
            self.finished = True
            self.send((DONE,))
            self.job.ended()
            return
        nexts = [self.entries[self._read].at_ms] if has_more else []
        for state in self.states:
            if (deadline := state.next_deadline_ms(now_ms)) is not None:
                nexts.append(deadline)
        # Rows that come in between do not put an idle poll off.
        if self._idle_poll_ms is None:
            self._idle_poll_ms = self._next_idle_poll_ms(now_ms, nexts[has_more:])
        if self._idle_poll_ms is not None:
            nexts.append(self._idle_poll_ms)
        if nexts:
            self.job.wake_at(self, min(nexts))

    def _next_idle_poll_ms(self, now_ms: int, deadlines: Iterable[int]) -> int | None:
        """When the source looks at its policies and the clock without a row; None: there is no reason to."""
        poll_ms: int = now_ms + self.node.vertex.poll_ms
        is_due = False
        for time, state in zip(self.times, self.states, strict=True):
            by_clock = time.mapper.policy.by_clock
            if not by_clock and time.mapper.has_more_to_say(state, now_ms=now_ms):
                # Upstream has idle polls all the time, so one comes well before a partition is excluded.
                return min([poll_ms, *(now_ms + max((deadline - now_ms) // 2, 1) for deadline in deadlines)])
            # All partitions may be idle without a message, because rejected rows keep the source busy.
            is_due = is_due or by_clock or (not state.announced and all(p.idle(now_ms) for p in state.partitions))
        return poll_ms if is_due else None

    def _marks(self, column: int) -> dict[int, int]:
        """The watermark of each partition by its number, `MIN` before the first one."""
        return dict(zip(self.partitions, [each.mark for each in self.states[column].partitions], strict=True))

    def _of_all_keys(self, items: Sequence[SourceItems]) -> SourceItems:
        """What leaves of what each column sends: the watermarks, and one idle message if any column has one.

        With `keyed_idle` each key has its own idle messages.
        """
        if len(items) == 1 and not self.job.deviations.keyed_idle:
            return items[0]
        keyed = [(time.mapper.key, item) for time, sent in zip(self.times, items, strict=True) for item in sent]
        if self.job.deviations.keyed_idle:
            return tuple([item if isinstance(item, Watermark) else Idle(key) for key, item in keyed])
        watermarks = tuple([item for _, item in keyed if isinstance(item, Watermark)])
        return watermarks if len(watermarks) == len(keyed) else (*watermarks, IDLE_MESSAGE)

    def _written(
        self, column: int, items: SourceItems, before: dict[int, int], stimulus: str, about: int | None
    ) -> SourceItems:
        """Write down what a stimulus about a partition has changed in a column; returns the items, which it sends.

        `before` are the watermarks of the partitions before it.
        """
        after, idle = self._marks(column), self._idle_now(column)
        if items or before != after or idle != self._inputs[column][1]:
            self._inputs[column] = self._inputs_by_state(column, idle)
            for number, mark in after.items():
                if number != about and mark != before.get(number, MIN):
                    self._write_step(column, (), "tick", number, mark)
            self._write_step(column, items, stimulus, about, MIN if about is None else after.get(about, MIN))
        return items

    def _write_step(self, column: int, items: SourceItems, stimulus: str, partition: int | None, mark: int) -> None:
        """Write down a step of a column, whose inputs are the partitions; `mark` is the watermark of `partition`."""
        about = partition, stimulus, self.times[column].mapper.key, None if mark == MIN else mark
        self.write_step(self.step_number, items, None, "partition", None, *about, *self._inputs[column])
        self.step_number += 1

    def _inputs_by_state(self, column: int, idle: list[int]) -> InputsByState:
        """The partitions that are active, idle and done: as they were in the last step, if nothing has changed."""
        active = sorted([number for number in self.partitions if number not in idle])
        before = self._inputs[column]
        return before if before[:2] == (active, idle) else (active, idle, [])

    def _idle_now(self, column: int) -> list[int]:
        """The partitions that are excluded now, ascending."""
        now_ms, idle = self.job.now_ms, []
        for number, partition in zip(self.partitions, self.states[column].partitions, strict=True):
            if partition.deadline_ms is not None and partition.deadline_ms <= now_ms:
                idle.append(number)
        return sorted(idle)
