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
from wmlab.dataflow.answers.run import Row, Run, read
from wmlab.dataflow.model.aggregate import Aggregation, group_of
from wmlab.dataflow.model.items import Event, RowValues, Watermark
from wmlab.dataflow.model.join import JoinState, StreamJoin
from wmlab.dataflow.model.processor import Complete, EdgeRow, EdgeWatermark, Stimulus
from wmlab.dataflow.model.source import EventTimeMapper, LagPolicy, SourcePartition, SourceState
from wmlab.dataflow.model.window import SessionProcessor, WindowProcessor
from wmlab.dataflow.scenario.vertices import plain_value
from wmlab.dataflow.sim.rules import RecordedRule
from wmlab.dataflow.sim.task import partition_hash

S = TypeVar("S")
E = TypeVar("E")
LevelName = Literal["edge", "global", "partition"]
_COUNT: Final = (Aggregation("count", None),)


class Playback(Generic[S]):
    """A state that follows `events`, each with its moment (ms, ascending); `step` gives the state after one."""

    def __init__(self, start: Callable[[], S], step: Callable[[S, E], S], events: Sequence[tuple[int, E]]) -> None:
        self._start, self._step, self._events = start, step, events
        self._state, self._followed = start(), 0

    def at(self, at_ms: int) -> S:
        """The state by a moment, which is good until the next question."""
        if self._followed and self._events[self._followed - 1][0] > at_ms:
            self._state, self._followed = self._start(), 0
        while self._followed < len(self._events) and self._events[self._followed][0] <= at_ms:
            self._state = self._step(self._state, self._events[self._followed][1])
            self._followed += 1
        return self._state


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

    def follow(self, row: Row) -> LevelState:
        """After a step of coalescing."""
        self.active, self.idle, self.done = row["active"], row["idle"], row["done"]
        if row["input"] is not None and row["key"] is not None and row["value"] is not None:
            self.watermarks[row["input"], row["key"]] = row["value"]
        for key, value in row["emitted"]:
            self.emitted[key] = value, row["at_ms"]
        return self


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete snapshot of an execution, by its number."""

    run: Run
    execution: int
    number: int

    def taken(self, vertex: str, instance: int) -> int:
        """How many items an instance had taken when it saved its state; beyond all, if its inputs had ended by then."""
        barriers = (
            item["taken"] for queue in self.run.into(vertex, instance) for item in self._barriers(queue["queue"])
        )
        return max((taken for taken in barriers if taken is not None), default=sys.maxsize)

    def put(self, queue: int) -> int:
        """How many items stood on a queue before its barrier; beyond all, if its end came before."""
        return next((item["sequence"] for item in self._barriers(queue)), sys.maxsize)

    def _barriers(self, queue: int) -> Iterator[Row]:
        for item in self.run.indexed("items").get((self.execution, queue), ()):
            if item["kind"] == "barrier" and item["value"] == self.number:
                yield item


def snapshot_of(run: Run, execution: int) -> Snapshot | None:
    """The snapshot that an execution began from; None without one."""
    number = next(row["snapshot"] for row in run.executions if row["execution"] == execution)
    taken_by = (row["execution"] for row in run.rows("snapshots") if row["snapshot"] == number)
    return None if number is None else Snapshot(run, next(taken_by), number)


def history_of(run: Run, execution: int) -> list[tuple[int, Snapshot | None]]:
    """The executions that an execution goes on from, each with the snapshot up to which it counts, and itself last."""
    history: list[tuple[int, Snapshot | None]] = [(execution, None)]
    while (snapshot := snapshot_of(run, history[0][0])) is not None:
        history.insert(0, (snapshot.execution, snapshot))
    return history


def _own_first(instance: int, instances: int) -> list[int]:
    """The numbers of all instances, as `Processor.restore` takes their states."""
    return [instance, *(number for number in range(instances) if number != instance)]


def level_playback(
    run: Run, execution: int, vertex: str, instance: int, name: LevelName, edge: int | None
) -> Playback[LevelState]:
    """A level of coalescing of an instance: `edge`, `global` or `partition`."""
    if name == "partition":
        rows = run.indexed("source_rows")
        every = [row for known in run.executions for row in rows.get((known["execution"], vertex, instance), ())]
        inputs = sorted({row["partition"] for row in every})
    else:
        column = "input" if name == "edge" else "edge"
        inputs = sorted({queue[column] for queue in run.into(vertex, instance, edge)})
    steps = run.indexed("coalescing").get((execution, vertex, instance), ())
    mine = [(row["at_ms"], row) for row in steps if row["level"] == name and row["edge"] == edge]
    return Playback(lambda: LevelState(active=inputs), LevelState.follow, mine)


@dataclass(slots=True)
class SentItems:
    """What left an instance: by key the last watermark and when it was put (ms), the kind of the last item, the end."""

    watermarks: dict[int, tuple[int, int]] = field(default_factory=dict)
    last_kind: str | None = None
    ended: bool = False

    def follow(self, item: Row) -> SentItems:
        """After an item was put."""
        self.last_kind = item["kind"]
        self.ended = self.ended or item["kind"] == "done"
        if item["kind"] == "watermark":
            self.watermarks[item["key"]] = item["value"], item["put_ms"]
        return self


def output_playback(run: Run, execution: int, vertex: str, instance: int) -> Playback[SentItems]:
    """What an instance put on one of its queues: all get the same watermarks, idle messages and ends."""
    items = [
        (item["put_ms"], item)
        for queue in run.out_of(vertex, instance)[:1]
        for item in run.indexed("items").get((execution, queue["queue"]), ())
    ]
    return Playback(SentItems, SentItems.follow, items)


def queue_playback(run: Run, execution: int, queue: int) -> Playback[deque[Row]]:
    """The items on a queue that are no rows, in their order."""
    items = [item for item in run.indexed("items").get((execution, queue), ()) if item["kind"] != "event"]
    put = [(item["put_ms"], 0, item) for item in items]
    taken = [(item["taken_ms"], 1, item) for item in items if item["taken_ms"] is not None]
    events = [(at_ms, (is_taken, item)) for at_ms, is_taken, item in sorted([*put, *taken], key=itemgetter(0, 1))]
    return Playback(deque, _on_queue, events)


def _on_queue(lying: deque[Row], event: tuple[int, Row]) -> deque[Row]:
    is_taken, item = event
    if is_taken:
        lying.popleft()
    else:
        lying.append(item)
    return lying


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
    run: Run, execution: int, vertex: str, instance: int, mapper: EventTimeMapper
) -> Playback[dict[int, PartitionState]]:
    """The partitions of a source instance that have brought something, or were added.

    What their watermarks are is recorded; the mapper says when each is left out, without asking a policy.
    """
    where = (execution, vertex, instance)
    started_ms = next(row["started_ms"] for row in run.executions if row["execution"] == execution)
    rows = [(row["at_ms"], row) for row in run.indexed("source_rows").get(where, ())]
    added = [(row["at_ms"], row) for row in run.indexed("coalescing").get(where, ()) if row["stimulus"] == "added"]
    idleness = replace(mapper, policy=LagPolicy(), frames=None)

    def step(partitions: dict[int, PartitionState], row: Row) -> dict[int, PartitionState]:
        at_ms = row["at_ms"]
        if "stimulus" in row:
            partitions.setdefault(row["input"], PartitionState(idleness.start(1, now_ms=at_ms)))
            return partitions
        unheard = PartitionState(idleness.start(1, now_ms=started_ms))
        known, passed = partitions.setdefault(row["partition"], unheard), row["passed"]
        known.source, _ = idleness.report(known.source, partition=0, time=0, now_ms=at_ms, rejected=not passed)
        known.last_ms, known.rejected = (at_ms, 0) if passed else (known.last_ms, known.rejected + 1)
        return partitions

    return Playback(dict, step, sorted([*added, *rows], key=itemgetter(0)))


def join_playback(run: Run, execution: int, vertex: str, instance: int) -> Playback[JoinState]:
    """The limits of a join and the watermarks that it received; rows do not change them and are left out."""
    join = run.rules.joins[vertex]
    watermarks = [(at_ms, stimulus) for at_ms, _, stimulus in _join_watermarks(run, execution, vertex, instance)]
    begun = partial(_begun_join, run, execution, vertex, instance)
    return Playback(begun, lambda state, stimulus: join.step(state, stimulus).state, watermarks)


def _join_watermarks(run: Run, execution: int, vertex: str, instance: int) -> list[tuple[int, int, EdgeWatermark]]:
    """The watermarks that a join received: clock (ms), how many items the instance had taken, and the watermark."""
    return [
        (step["at_ms"], step["taken"], EdgeWatermark(step["edge"], Watermark(key, value)))
        for step in run.indexed("coalescing").get((execution, vertex, instance), ())
        if step["level"] == "edge"
        for key, value in step["emitted"]
    ]


def _begun_join(run: Run, execution: int, vertex: str, instance: int) -> JoinState:
    """A join without its rows when an execution began: as its rule begins, or as the snapshot has it."""
    join, snapshot = run.rules.joins[vertex], snapshot_of(run, execution)
    if snapshot is None:
        return join.start()
    states = []
    for number in _own_first(instance, run.vertex(vertex)["parallelism"]):
        state, saved = _begun_join(run, snapshot.execution, vertex, number), snapshot.taken(vertex, number)
        for _, taken, stimulus in _join_watermarks(run, snapshot.execution, vertex, number):
            if taken <= saved:
                state = join.step(state, stimulus).state
        states.append(state)
    return join.restore(states)


@dataclass(frozen=True, slots=True)
class WindowResult:
    """A result of a window vertex: in which execution and when it left which instance (clock ms), and the row."""

    execution: int
    at_ms: int
    instance: int
    row: Mapping[str, Any]


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


_Named = tuple[Any, ...]
"""A window: start, end and, of a session, the columns of its group."""


@dataclass(slots=True)
class WindowState:
    """The windows of one instance: the `state` of its `rule`, which counts rows, and the results that have not left."""

    rule: WindowProcessor | SessionProcessor
    state: Any
    leaving: dict[_Named, int] = field(default_factory=dict)

    def follow(self, event: Stimulus | _Named) -> WindowState:
        """After the instance took something, or after a result of a window left it."""
        if isinstance(event, tuple):
            self._left(event)
            return self
        try:
            reply = self.rule.step(self.state, event)
        except ModelError:
            # A row without a time, which ended the job.
            return self
        self.state = reply.state
        for item in reply.out:
            if isinstance(item, Event):
                self.leaving[item.values[:-1]] = cast("int", item.values[-1])
        return self

    def _left(self, window: _Named) -> None:
        """Results leave in the order in which their windows were closed."""
        if window in self.leaving:
            for known in list(self.leaving):
                del self.leaving[known]
                if known == window:
                    return

    def open(self, instance: int) -> Iterator[OpenWindow]:
        """The windows that are open or whose results are on their way out."""
        for (start, end, *group), rows in [*self.leaving.items(), *self._open()]:
            yield OpenWindow(start, end, self.rule.closed_by(end), rows, instance, tuple(group))

    def _open(self) -> list[tuple[_Named, int]]:
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


class _Taken(NamedTuple):
    """A row or a watermark that a window took.

    They are ordered by the clock (ms), by `rank`, rows before watermarks, and by `order`. `by` is the instance that
    took it from a queue, or merged it, `place` its number among the items which that instance took, from 0.
    """

    at_ms: int
    rank: int
    order: int
    event: Stimulus
    by: tuple[str, int]
    place: int


class WindowRows:
    """The rows and results of a window or session over one execution, and the playback of each of its instances."""

    def __init__(self, run: Run, execution: int, window: RecordedRule) -> None:
        assert not isinstance(window.rule, StreamJoin)
        self._run, self._execution, self._window, self.rule = run, execution, window, window.rule
        self.instances: int = run.vertex(window.vertex)["parallelism"]
        self.results: dict[int, list[WindowResult]] = {}
        """The results by the end of their windows, in the order of instances and the clock."""
        for instance in range(self.instances):
            for result in self._results(instance):
                self.results.setdefault(result.row["end"], []).append(result)
        self.playbacks = self._playbacks()

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

    def _results(self, instance: int) -> Iterator[WindowResult]:
        """Those that left an instance, also before the snapshot; one that went to several queues once."""
        for execution, snapshot in history_of(self._run, self._execution):
            left = dict.fromkeys(
                (item["put_ms"], item["row"])
                for queue in self._run.out_of(self._window.vertex, instance)
                for item in self._run.indexed("items").get((execution, queue["queue"]), ())
                if item["kind"] == "event" and (snapshot is None or item["sequence"] < snapshot.put(queue["queue"]))
            )
            yield from (WindowResult(execution, at_ms, instance, read(row)) for at_ms, row in left)

    def _items(self, queue: Row) -> Sequence[Row]:
        return self._run.indexed("items").get((self._execution, queue["queue"]), ())

    def _playbacks(self) -> list[Playback[WindowState]]:
        """What each instance took, and what left it, fed to the rule; of windows groups need not be told apart."""
        if isinstance(self.rule, SessionProcessor):
            named = ("start", "end", *self._window.columns[2 : 2 + len(self.rule.group)])
        else:
            named = ("start", "end")
        # By instance: (clock ms, rows before watermarks before results, order among them, event).
        events: list[list[tuple[int, int, int, Any]]] = [
            [(taken.at_ms, taken.rank, taken.order, taken.event) for taken in mine] for mine in self._taken
        ]
        for results in self.results.values():
            for result in (result for result in results if result.execution == self._execution):
                window = tuple(plain_value(result.row[name]) for name in named)
                events[result.instance].append((result.at_ms, 2, 0, window))
        return [
            Playback(
                partial(self._begun, instance),
                WindowState.follow,
                [(at_ms, event) for at_ms, *_, event in sorted(mine, key=itemgetter(0, 1, 2))],
            )
            for instance, mine in enumerate(events)
        ]

    @cached_property
    def _counting(self) -> WindowProcessor | SessionProcessor:
        """The rule, counting rows only."""
        if isinstance(self.rule, SessionProcessor):
            return replace(self.rule, aggregates=_COUNT)
        return replace(self.rule, aggregates=_COUNT, group=(), grouped=(), limit=None)

    @cached_property
    def _taken(self) -> list[list[_Taken]]:
        """The rows and watermarks that each instance took."""
        taken: list[list[_Taken]] = [[] for _ in range(self.instances)]
        for taken_by in range(self._run.vertex(self._window.entry)["parallelism"]):
            for item, edge in self._accepted(taken_by):
                values = self.values(read(item["row"]))
                event, by = EdgeRow(edge, Event(values)), (self._window.entry, taken_by)
                mine = taken[self.instance_of(values, taken_by)]
                mine.append(_Taken(item["taken_ms"], 0, item["taken"], event, by, item["taken"]))
        for instance, mine in enumerate(taken):
            mine += self._coalesced(instance)
        return taken

    def _begun(self, instance: int) -> WindowState:
        """An instance when the execution began: without anything, or as the snapshot has it."""
        rule, snapshot = self._counting, snapshot_of(self._run, self._execution)
        if snapshot is None:
            return WindowState(rule, rule.start())
        former = WindowRows(self._run, snapshot.execution, self._window)
        states = [former.saved(number, snapshot) for number in _own_first(instance, self.instances)]
        return WindowState(rule, rule.restore(states))

    def saved(self, instance: int, snapshot: Snapshot) -> Any:
        """The state of an instance as a snapshot of this execution has it."""
        state = self._begun(instance)
        for taken in sorted(self._taken[instance], key=attrgetter("at_ms", "rank", "order")):
            if taken.place < snapshot.taken(*taken.by):
                state = state.follow(taken.event)
        return state.state

    def _accepted(self, instance: int) -> Iterable[tuple[Row, int]]:
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

    def _coalesced(self, instance: int) -> Iterator[_Taken]:
        """The watermarks over all inputs of an instance, and their end."""
        by = self._window.vertex, instance
        steps = self._run.indexed("coalescing").get((self._execution, *by), ())
        for order, step in enumerate(step for step in steps if step["level"] == "global"):
            at = {"at_ms": step["at_ms"], "rank": 1, "order": order, "by": by, "place": step["taken"] - 1}
            for key, value in step["emitted"]:
                yield _Taken(**at, event=Watermark(key, value))
            if not step["active"] and not step["idle"]:
                yield _Taken(**at, event=Complete())
