"""What a recorded dataflow had come to by a moment, followed row by row through its tables.

Windows and joins are not worked out from the tables: what an instance took goes to its own rule again, and the state of
that is looked at. Which rows were dropped is recorded, and not decided again. A later moment goes on from an earlier
one, so that questions about many moments in ascending order follow each row once.

Source: upstream classes `StreamToStreamJoinP`, `EventTimeMapper`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from wmlab.core.errors import ModelError
from wmlab.dataflow.answers.run import DataflowRun, RecordedRow
from wmlab.dataflow.model.items import Item, Watermark
from wmlab.dataflow.model.join import JoinState, StreamJoin
from wmlab.dataflow.model.processor import (
    EdgeWatermark,
    Processor,
    ProcessorState,
    Stimulus,
)
from wmlab.dataflow.model.source import EventTimeMapper, LagPolicy, SourcePartition, SourceState

Replayed = TypeVar("Replayed")
E = TypeVar("E")
ReplayedRule = TypeVar("ReplayedRule", bound=Processor[Any])
LevelName = Literal["edge", "global", "partition"]


class Playback(Generic[Replayed]):
    """A state that follows `events`, each with its moment (ms, ascending); `step` gives the state after one."""

    def __init__(
        self, start: Callable[[], Replayed], step: Callable[[Replayed, E], Replayed], events: Sequence[tuple[int, E]]
    ) -> None:
        self._start, self._step, self._events = start, step, events
        self._state, self._followed = start(), 0

    def at(self, at_ms: int) -> Replayed:
        """The state by a moment, which is good until the next question."""
        if self._followed and self._events[self._followed - 1][0] > at_ms:
            self._state, self._followed = self._start(), 0
        while self._followed < len(self._events) and self._events[self._followed][0] <= at_ms:
            self._state = self._step(self._state, self._events[self._followed][1])
            self._followed += 1
        return self._state

    def at_end(self) -> Replayed:
        """The state after all events."""
        return self.at(self._events[-1][0]) if self._events else self._state


@dataclass(slots=True, kw_only=True)
class LevelState:
    """One level of coalescing: which inputs count, are idle or have ended, and what each brought.

    `watermarks` is the last one by input and key, `emitted` by key what came out: (watermark, clock ms).
    """

    active: Sequence[int]
    idle: Sequence[int] = ()
    done: Sequence[int] = ()
    watermarks: dict[tuple[int, int], int] = field(default_factory=dict)
    emitted: dict[int, tuple[int, int]] = field(default_factory=dict)

    def follow(self, row: RecordedRow) -> LevelState:
        """After a step of coalescing."""
        self.active, self.idle, self.done = row["active"], row["idle"], row["done"]
        if row["input"] is not None and row["key"] is not None and row["value"] is not None:
            self.watermarks[row["input"], row["key"]] = row["value"]
        for key, value in row["emitted"]:
            self.emitted[key] = value, row["at_ms"]
        return self


@dataclass(frozen=True, slots=True)
class StartSnapshot:
    """The complete snapshot that an execution began from: the execution that took it, and how far it reaches there."""

    execution: int
    items_taken: Mapping[tuple[str, int], int]
    items_put: Mapping[int, int]
    rows_read: Mapping[tuple[str, int], int]

    def taken(self, vertex: str, instance: int) -> int:
        """How many items an instance had taken when it saved its state; beyond all, if its inputs had ended by then."""
        return self.items_taken.get((vertex, instance), sys.maxsize)

    def put(self, queue: int) -> int:
        """How many items stood on a queue before its barrier; beyond all, if its end came before."""
        return self.items_put.get(queue, sys.maxsize)


def snapshot_of(run: DataflowRun, execution: int) -> StartSnapshot | None:
    """The snapshot that an execution began from; None without one."""
    number = next(row["snapshot"] for row in run.executions if row["execution"] == execution)
    if number is None:
        return None
    saved = [row for row in run.rows("snapshots") if row["snapshot"] == number]
    taken_by = saved[0]["execution"]
    taken: dict[tuple[str, int], int] = {}
    put: dict[int, int] = {}
    consumers = {queue["queue"]: (queue["target"], queue["target_instance"]) for queue in run.queues}
    for item in run.once(_barriers).get((taken_by, number), ()):
        put[item["queue"]] = item["sequence"]
        if item["taken"] is not None:
            consumer = consumers[item["queue"]]
            taken[consumer] = max(item["taken"], taken.get(consumer, item["taken"]))
    read_rows = {(row["vertex"], row["instance"]): row["rows_read"] for row in saved if row["rows_read"] is not None}
    return StartSnapshot(taken_by, taken, put, read_rows)


def _barriers(run: DataflowRun) -> Mapping[tuple[int, int], Sequence[RecordedRow]]:
    """The barriers on all queues, by execution and snapshot."""
    barriers: dict[tuple[int, int], list[RecordedRow]] = {}
    for item in run.rows("items"):
        if item["kind"] == "barrier":
            barriers.setdefault((item["execution"], item["value"]), []).append(item)
    return barriers


def successor_snapshot(run: DataflowRun, execution: int) -> StartSnapshot | None:
    """The snapshot of an execution that the next one began from; None without one."""
    snapshots = (run.once(snapshot_of, row["execution"]) for row in run.executions)
    return next((snapshot for snapshot in snapshots if snapshot and snapshot.execution == execution), None)


def history_of(run: DataflowRun, execution: int) -> list[tuple[int, StartSnapshot | None]]:
    """The executions that an execution goes on from, each with the snapshot up to which it counts, and itself last."""
    snapshot = run.once(snapshot_of, execution)
    if snapshot is None:
        return [(execution, None)]
    return [*run.once(history_of, snapshot.execution)[:-1], (snapshot.execution, snapshot), (execution, None)]


def level_playback(
    run: DataflowRun, execution: int, vertex: str, instance: int, name: LevelName, edge: int | None
) -> Playback[LevelState]:
    """A level of coalescing of an instance: `edge`, `global` or `partition`."""
    if name == "partition":
        inputs = run.once(_partitions_read, vertex, instance)
    else:
        column = "input" if name == "edge" else "edge"
        inputs = sorted({queue[column] for queue in run.into(vertex, instance, edge)})
    steps = run.indexed("coalescing", "level", "edge").get((execution, vertex, instance, name, edge), ())
    return Playback(lambda: LevelState(active=inputs), LevelState.follow, [(row["at_ms"], row) for row in steps])


def _partitions_read(run: DataflowRun, vertex: str, instance: int) -> list[int]:
    """The partitions of which a source instance read rows in any execution."""
    rows = run.indexed("source_rows")
    executions = (row["execution"] for row in run.executions)
    return sorted({row["partition"] for number in executions for row in rows.get((number, vertex, instance), ())})


@dataclass(slots=True)
class SentItems:
    """What left an instance: by key the last watermark and when it was put (ms), the kind of the last item, the end."""

    watermarks: dict[int, tuple[int, int]] = field(default_factory=dict)
    last_kind: str | None = None
    ended: bool = False

    def follow(self, item: RecordedRow) -> SentItems:
        """After an item was put."""
        self.last_kind = item["kind"]
        self.ended = self.ended or item["kind"] == "done"
        if item["kind"] == "watermark":
            self.watermarks[item["key"]] = item["value"], item["put_ms"]
        return self


def output_playback(run: DataflowRun, execution: int, vertex: str, instance: int) -> Playback[SentItems]:
    """What an instance put on one of its queues: all get the same watermarks, idle messages and ends."""
    items = [
        (item["put_ms"], item)
        for queue in run.out_of(vertex, instance)[:1]
        for item in run.indexed("items").get((execution, queue["queue"]), ())
    ]
    return Playback(SentItems, SentItems.follow, items)


class QueueMoments(NamedTuple):
    """When the items of a queue were put, and taken (ms), by their sequence; those that never were are left out."""

    put: Sequence[int]
    taken: Sequence[int]


def moments_of_queue(run: DataflowRun, execution: int, queue: int) -> QueueMoments:
    """The moments of a queue, from which items lie there and until which."""
    items = run.indexed("items").get((execution, queue), ())
    taken = [item["taken_ms"] for item in items if item["taken_ms"] is not None]
    return QueueMoments([item["put_ms"] for item in items], taken)


def queue_playback(run: DataflowRun, execution: int, queue: int) -> Playback[deque[RecordedRow]]:
    """The items on a queue that are no rows, in their order."""
    items = [item for item in run.indexed("items").get((execution, queue), ()) if item["kind"] != "event"]
    put = [(item["put_ms"], 0, item) for item in items]
    taken = [(item["taken_ms"], 1, item) for item in items if item["taken_ms"] is not None]
    events = [(at_ms, (is_taken, item)) for at_ms, is_taken, item in sorted([*put, *taken], key=itemgetter(0, 1))]
    return Playback(deque, _on_queue, events)


def _on_queue(lying: deque[RecordedRow], event: tuple[int, RecordedRow]) -> deque[RecordedRow]:
    is_taken, item = event
    if is_taken:
        lying.popleft()
    else:
        lying.append(item)
    return lying


def calls_playback(run: DataflowRun, execution: int, vertex: str, instance: int) -> Playback[dict[int, int]]:
    """When each call of an instance that is in flight began (ms), by its number."""
    calls = run.indexed("calls").get((execution, vertex, instance), ())
    began = [(call["began_ms"], 0, call) for call in calls]
    ended = [(call["ended_ms"], 1, call) for call in calls if call["ended_ms"] is not None]
    events = [(at_ms, (has_ended, call)) for at_ms, has_ended, call in sorted([*began, *ended], key=itemgetter(0, 1))]
    return Playback(dict, _on_call, events)


def _on_call(in_flight: dict[int, int], event: tuple[int, RecordedRow]) -> dict[int, int]:
    has_ended, row = event
    if has_ended:
        del in_flight[row["call"]]
    else:
        in_flight[row["call"]] = row["began_ms"]
    return in_flight


@dataclass(slots=True)
class PartitionState:
    """A partition of a source: as the mapper has it, when a row last passed (ms), and how many were rejected since."""

    source: SourceState
    last_ms: int | None = None
    rejected: int = 0

    @property
    def partition(self) -> SourcePartition:
        """When it is left out."""
        return self.source.partitions[0]


def partition_playback(
    run: DataflowRun, execution: int, vertex: str, instance: int, mapper: EventTimeMapper
) -> Playback[dict[int, PartitionState]]:
    """The partitions of a source instance that have brought something, or were added.

    What their watermarks are is recorded; the mapper says when each is left out, without asking a policy.
    """
    of_instance = (execution, vertex, instance)
    started_ms = next(row["started_ms"] for row in run.executions if row["execution"] == execution)
    rows = [(row["at_ms"], row) for row in run.indexed("source_rows").get(of_instance, ())]
    steps = run.indexed("coalescing", "level", "edge").get((*of_instance, "partition", None), ())
    added = [(step["at_ms"], step) for step in steps if step["stimulus"] == "added"]
    idleness = replace(mapper, policy=LagPolicy(), frames=None)

    def start() -> dict[int, PartitionState]:
        restored = run.once(_restored_reads, execution, vertex, instance)
        return {
            partition: PartitionState(idleness.start(1, now_ms=started_ms), *reads)
            for partition, reads in restored.items()
        }

    def step(partitions: dict[int, PartitionState], row: RecordedRow) -> dict[int, PartitionState]:
        at_ms = row["at_ms"]
        if "stimulus" in row:
            partitions.setdefault(row["input"], PartitionState(idleness.start(1, now_ms=at_ms)))
            return partitions
        unread = PartitionState(idleness.start(1, now_ms=started_ms))
        state = partitions.setdefault(row["partition"], unread)
        state.source, _ = idleness.report(state.source, partition=0, time=0, now_ms=at_ms, rejected=not row["passed"])
        state.last_ms, state.rejected = _after_row(row, state.last_ms, state.rejected)
        return partitions

    return Playback(start, step, sorted([*added, *rows], key=itemgetter(0)))


def _after_row(row: RecordedRow, last_ms: int | None, rejected: int) -> tuple[int | None, int]:
    """When a row of a partition last passed (ms), and how many were rejected since, after one more row."""
    return (row["at_ms"], 0) if row["passed"] else (last_ms, rejected + 1)


def _restored_reads(run: DataflowRun, execution: int, vertex: str, instance: int) -> dict[int, tuple[int | None, int]]:
    """What the snapshot that an execution began from had of the partitions of a source instance.

    By partition when a row last passed (ms), and how many were rejected since; rows read behind it are read again.
    """
    snapshot = run.once(snapshot_of, execution)
    if snapshot is None:
        return {}
    reads = dict(run.once(_restored_reads, snapshot.execution, vertex, instance))
    rows = run.indexed("source_rows").get((snapshot.execution, vertex, instance), ())
    for row in rows[: snapshot.rows_read[vertex, instance]]:
        reads[row["partition"]] = _after_row(row, *reads.get(row["partition"], (None, 0)))
    return reads


class TakenStimulus(NamedTuple):
    """What an instance took, when (clock ms), and whether a snapshot that the next execution began from has it."""

    at_ms: int
    stimulus: Stimulus
    is_saved: bool


@dataclass(slots=True)
class RuleState(Generic[ReplayedRule]):
    """The `state` of a `rule`, and as the snapshot has it that the next execution began from.

    Both are one until the first stimulus comes that the snapshot does not have. `counterpart` is the second one then.
    """

    rule: ReplayedRule
    state: Any
    counterpart: Any = None

    @property
    def saved(self) -> Any:
        """The state in the snapshot, when all that it has was taken."""
        return self.state if self.counterpart is None else self.counterpart

    def take(self, taken: TakenStimulus) -> tuple[Item, ...]:
        """Feed the rule; returns what leaves."""
        try:
            reply = self.rule.step(self.state, taken.stimulus)
            if not taken.is_saved:
                self.counterpart = self.saved
            elif self.counterpart is not None:
                self.counterpart = self.rule.step(self.counterpart, taken.stimulus).state
        except ModelError:
            # A row without a time, which ended the job.
            return ()
        self.state = reply.state
        return reply.out


def restored(rule: Processor[ProcessorState], instance: int, states: Sequence[ProcessorState] | None) -> ProcessorState:
    """The state of an instance when an execution begins; `states` are those of all instances in the snapshot, if any.

    Its own comes first, as `Processor.restore` takes them.
    """
    if states is None:
        return rule.start()
    return rule.restore([states[instance], *states[:instance], *states[instance + 1 :]])


def join_playback(run: DataflowRun, execution: int, vertex: str, instance: int) -> Playback[RuleState[StreamJoin]]:
    """The limits of a join and the watermarks that it received; rows do not change them and are left out."""
    join, snapshot = run.rules.joins[vertex], run.once(successor_snapshot, execution)
    saved = sys.maxsize if snapshot is None else snapshot.taken(vertex, instance)
    taken = [
        TakenStimulus(step["at_ms"], EdgeWatermark(step["edge"], Watermark(key, value)), step["taken"] <= saved)
        for step in run.indexed("coalescing", "level").get((execution, vertex, instance, "edge"), ())
        for key, value in step["emitted"]
    ]

    def start() -> RuleState[StreamJoin]:
        return RuleState(join, restored(join, instance, _saved_joins(run, execution, vertex)))

    return Playback(start, _taking, [(stimulus.at_ms, stimulus) for stimulus in taken])


def _taking(state: RuleState[StreamJoin], taken: TakenStimulus) -> RuleState[StreamJoin]:
    state.take(taken)
    return state


def _saved_joins(run: DataflowRun, execution: int, vertex: str) -> list[JoinState] | None:
    """The states of all instances in the snapshot that an execution began from; None without one."""
    snapshot = run.once(snapshot_of, execution)
    if snapshot is None:
        return None
    instances = range(run.vertex(vertex)["parallelism"])
    return [run.once(join_playback, snapshot.execution, vertex, number).at_end().saved for number in instances]
