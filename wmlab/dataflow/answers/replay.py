"""What a recorded dataflow had come to by a moment, followed row by row through its tables.

Windows and joins are not worked out from the tables: what an instance took goes to its own rule again, and the state of
that is looked at. Which rows were dropped is recorded, and not decided again. A later moment goes on from an earlier
one, so that questions about many moments in ascending order follow each row once.

Of what an instance took in one millisecond rows go to a window before watermarks: an instance takes rows of several
queues before the watermarks between them, and those that it dropped are left out anyway.

Source: upstream classes `SlidingWindowP`, `SessionWindowP`, `StreamToStreamJoinP`, `EventTimeMapper`.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter, itemgetter
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, cast

from wmlab.core.errors import ModelError
from wmlab.dataflow.answers.run import DataflowRun, RecordedRow, read
from wmlab.dataflow.model.aggregate import Aggregation, group_of
from wmlab.dataflow.model.items import Event, Item, RowValues, Watermark
from wmlab.dataflow.model.join import AnyJoin, JoinState, StreamJoin
from wmlab.dataflow.model.processor import (
    Complete,
    EdgeRow,
    EdgeWatermark,
    Processor,
    ProcessorState,
    Stimulus,
)
from wmlab.dataflow.model.source import EventTimeMapper, LagPolicy, SourcePartition, SourceState
from wmlab.dataflow.model.window import SessionProcessor, WindowProcessor
from wmlab.dataflow.scenario.vertices import plain_value
from wmlab.dataflow.sim.task import partition_hash

Replayed = TypeVar("Replayed")
E = TypeVar("E")
WindowRule = WindowProcessor | SessionProcessor
ReplayedRule = TypeVar("ReplayedRule", bound=Processor[Any])
LevelName = Literal["edge", "global", "partition"]
_COUNT: Final = (Aggregation("count", None),)


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


def _successor_snapshot(run: DataflowRun, execution: int) -> StartSnapshot | None:
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


def _restored(
    rule: Processor[ProcessorState], instance: int, states: Sequence[ProcessorState] | None
) -> ProcessorState:
    """The state of an instance when an execution begins; `states` are those of all instances in the snapshot, if any.

    Its own comes first, as `Processor.restore` takes them.
    """
    if states is None:
        return rule.start()
    return rule.restore([states[instance], *states[:instance], *states[instance + 1 :]])


def join_playback(run: DataflowRun, execution: int, vertex: str, instance: int) -> Playback[RuleState[StreamJoin]]:
    """The limits of a join and the watermarks that it received; rows do not change them and are left out."""
    join, snapshot = run.rules.joins[vertex], run.once(_successor_snapshot, execution)
    saved = sys.maxsize if snapshot is None else snapshot.taken(vertex, instance)
    taken = [
        TakenStimulus(step["at_ms"], EdgeWatermark(step["edge"], Watermark(key, value)), step["taken"] <= saved)
        for step in run.indexed("coalescing", "level").get((execution, vertex, instance, "edge"), ())
        for key, value in step["emitted"]
    ]

    def start() -> RuleState[StreamJoin]:
        return RuleState(join, _restored(join, instance, _saved_joins(run, execution, vertex)))

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


@dataclass(frozen=True, slots=True)
class WindowResult:
    """A result of a window vertex: in which execution and when it left which instance (clock ms), and the row.

    It was item `sequence` of `queue`.
    """

    execution: int
    at_ms: int
    instance: int
    row: Mapping[str, Any]
    queue: int
    sequence: int


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window [start, end) whose result has not left an instance that has `rows` rows for it.

    `needed` is the watermark of that instance which closes it, `group` the group of a session.
    """

    start: int
    end: int
    needed: int
    rows: int
    instance: int
    group: RowValues = ()


WindowName = tuple[Any, ...]
"""What a window is called: its start, its end and, of a session, the columns of its group."""


@dataclass(slots=True)
class WindowState(RuleState[WindowRule]):
    """The windows of one instance: the state of the rule, which counts rows, and the results that have not left."""

    leaving: dict[WindowName, int] = field(default_factory=dict)

    def follow(self, event: TakenStimulus | WindowName) -> WindowState:
        """After the instance took something, or after a result of a window left it."""
        if not isinstance(event, TakenStimulus):
            self._left(event)
            return self
        for item in self.take(event):
            if isinstance(item, Event):
                self.leaving[item.values[:-1]] = cast("int", item.values[-1])
        return self

    def _left(self, window: WindowName) -> None:
        """Results leave in the order in which their windows were closed."""
        if window in self.leaving:
            for closed in list(self.leaving):
                del self.leaving[closed]
                if closed == window:
                    return

    def open(self, instance: int) -> Iterator[OpenWindow]:
        """The windows that are open or whose results are on their way out."""
        for (start, end, *group), rows in [*self.leaving.items(), *self._open()]:
            yield OpenWindow(start, end, self.rule.closed_by(end), rows, instance, tuple(group))

    def _open(self) -> list[tuple[WindowName, int]]:
        if isinstance(self.rule, SessionProcessor):
            return [
                ((session.start, session.end, *group), session.accumulators[0])
                for group, sessions in self.state.groups.items()
                for session in sessions
            ]
        shape, rows = self.rule.shape, Counter[int]()
        for frame, groups in self.state.frames.items():
            count = sum(accumulators[0] for accumulators in groups.values())
            for end in range(max(frame, self.state.next), shape.last_end(frame) + 1, shape.slide):
                rows[end] += count
        return [((end - shape.size, end), count) for end, count in rows.items()]


class _TimedEvent(NamedTuple):
    """What a window took, or a result that left it: by the clock (ms), by `rank`, and by `order` among its equals.

    Of one millisecond rows come before watermarks, and these before results.
    """

    at_ms: int
    rank: int
    order: int
    event: TakenStimulus | WindowName


class WindowRows:
    """The rows and results of a window or session over one execution, and the playback of each of its instances."""

    def __init__(self, run: DataflowRun, execution: int, vertex: str) -> None:
        self._window = run.rules.results[vertex]
        assert not isinstance(self._window.rule, AnyJoin)
        self._run, self._execution, self.rule = run, execution, self._window.rule
        self.instances: int = run.vertex(vertex)["parallelism"]
        self._snapshot = run.once(snapshot_of, execution)
        self._successor = run.once(_successor_snapshot, execution)
        self._own_results = [result for instance in range(self.instances) for result in self._results(instance)]

    @cached_property
    def _all_results(self) -> list[WindowResult]:
        """Also those that left before the snapshot that the execution began from."""
        if self._snapshot is None:
            return self._own_results
        before, reached = self._former._all_results, self._snapshot
        carried = (
            result
            for result in before
            if result.execution != reached.execution or result.sequence < reached.put(result.queue)
        )
        return [*carried, *self._own_results]

    @cached_property
    def results(self) -> dict[int, list[WindowResult]]:
        """The results by the end of their windows, in the order of instances, executions and the clock."""
        results: dict[int, list[WindowResult]] = {}
        for result in sorted(self._all_results, key=attrgetter("instance")):
            results.setdefault(result.row["end"], []).append(result)
        return results

    @property
    def _former(self) -> WindowRows:
        """The same of the execution that took the snapshot from which this one began."""
        assert self._snapshot is not None
        return self._run.once(WindowRows, self._snapshot.execution, self._window.vertex)

    def values(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """A row that came in as the rule takes it."""
        return tuple(plain_value(row[name]) for name in self._window.inputs[0])

    def instance_of(self, values: tuple[Any, ...], taken_by: int) -> int:
        """The instance whose result a row is part of, that instance `taken_by` of the entry has taken.

        The first of two stages hands what it has of a group to the instance of the second that the group belongs to.
        """
        if self._window.one_stage:
            return taken_by
        return partition_hash(group_of(values, self.rule.group)) % self.instances

    def _results(self, instance: int) -> Iterable[WindowResult]:
        """Those that left an instance in this execution; one that went to several queues once."""
        results: dict[tuple[int, str], WindowResult] = {}
        for queue in self._run.out_of(self._window.vertex, instance):
            for item in self._items(queue):
                left = item["put_ms"], item["row"]
                if item["kind"] == "event" and left not in results:
                    row, position = read(item["row"]), (item["queue"], item["sequence"])
                    results[left] = WindowResult(self._execution, item["put_ms"], instance, row, *position)
        return results.values()

    def _items(self, queue: RecordedRow) -> Sequence[RecordedRow]:
        return self._run.indexed("items").get((self._execution, queue["queue"]), ())

    @cached_property
    def playbacks(self) -> list[Playback[WindowState]]:
        """What each instance took, and what left it, fed to the rule; of windows groups need not be told apart."""
        if isinstance(self.rule, SessionProcessor):
            named = ("start", "end", *self._window.columns[2 : 2 + len(self.rule.group)])
        else:
            named = ("start", "end")
        events: list[list[_TimedEvent]] = [[] for _ in range(self.instances)]
        for taken_by in range(self._run.vertex(self._window.entry)["parallelism"]):
            for item, edge in self._accepted(taken_by):
                values = self.values(read(item["row"]))
                row = EdgeRow(edge, Event(values))
                taken = self._taken(item["taken_ms"], row, self._window.entry, taken_by, item["taken"])
                events[self.instance_of(values, taken_by)].append(_TimedEvent(taken.at_ms, 0, item["taken"], taken))
        for instance, of_instance in enumerate(events):
            of_instance += self._coalesced(instance)
        for result in self._own_results:
            window = tuple(plain_value(result.row[name]) for name in named)
            events[result.instance].append(_TimedEvent(result.at_ms, 2, 0, window))
        return [
            Playback(
                partial(self._start, instance),
                WindowState.follow,
                [(timed.at_ms, timed.event) for timed in sorted(of_instance, key=itemgetter(0, 1, 2))],
            )
            for instance, of_instance in enumerate(events)
        ]

    def _taken(self, at_ms: int, stimulus: Stimulus, vertex: str, instance: int, index: int) -> TakenStimulus:
        """What was item `index` of those that an instance took, or was coalesced at it."""
        is_saved = self._successor is None or index < self._successor.taken(vertex, instance)
        return TakenStimulus(at_ms, stimulus, is_saved)

    def _start(self, instance: int) -> WindowState:
        """An instance when the execution began: without anything, or as the snapshot has it. It counts rows only."""
        rule: WindowRule
        if isinstance(self.rule, SessionProcessor):
            rule = replace(self.rule, aggregates=_COUNT)
        else:
            rule = replace(self.rule, aggregates=_COUNT, group=(), grouped=(), limit=None)
        states = None
        if self._snapshot is not None:
            states = [playback.at_end().saved for playback in self._former.playbacks]
        return WindowState(rule, _restored(rule, instance, states))

    def _accepted(self, instance: int) -> Iterable[tuple[RecordedRow, int]]:
        """The rows that an instance of the entry took and did not drop, with the input edge.

        Of equal rows those that were dropped came last: once one was late, all of its time are.
        """
        drops = self._run.indexed("drops").get((self._execution, self._window.entry, instance), ())
        dropped = Counter((drop["edge"], drop["row"]) for drop in drops)
        taken = [
            (item, queue["edge"])
            for queue in self._run.into(self._window.entry, instance)
            for item in self._items(queue)
            if item["kind"] == "event" and item["taken_ms"] is not None
        ]
        taken.sort(key=lambda entry: entry[0]["taken"], reverse=True)
        for item, edge in taken:
            if dropped[edge, item["row"]]:
                dropped[edge, item["row"]] -= 1
            else:
                yield item, edge

    def _coalesced(self, instance: int) -> Iterator[_TimedEvent]:
        """The watermarks over all inputs of an instance, and their end."""
        vertex = self._window.vertex
        steps = self._run.indexed("coalescing", "level", "edge")
        of_instance = steps.get((self._execution, vertex, instance, "global", None), ())
        for order, step in enumerate(of_instance):
            stimuli: list[Stimulus] = [Watermark(key, value) for key, value in step["emitted"]]
            if not step["active"] and not step["idle"]:
                stimuli.append(Complete())
            for stimulus in stimuli:
                taken = self._taken(step["at_ms"], stimulus, vertex, instance, step["taken"] - 1)
                yield _TimedEvent(step["at_ms"], 1, order, taken)
