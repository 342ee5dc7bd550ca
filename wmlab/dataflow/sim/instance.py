"""One parallel instance of a vertex at work: it owns its queues, coalesces its inputs, and writes its tables.

Watermarks are coalesced twice: over the queues of each input edge, and then over the edges. Barriers are aligned on the
same two levels.

A drain looks at every queue of an edge once. It takes the rows at the head of a queue and the special item behind them
(a watermark, an idle message, a barrier, the end). What it gives is either rows or special items: special items that
come with rows are set aside until the next drain.

An instance does these in order, each until nothing of it is left: the rows of the batch; the watermarks of that edge;
the watermarks coalesced over all edges, and idle messages among them; then a snapshot, if its barrier has come on every
edge; then the completion, if all edges have ended; then the next edge is drained. What the processor refuses is offered
again first of all. Every watermark that gets through both levels so arrives twice: per edge and globally.

What an instance sends waits in its outbox until every queue that has to take it has room; meanwhile it does nothing
else. A failed run of an instance is not recorded: the tables end with the last complete one.

Source: "Keyed watermark support", Processor API and Coalescing of WMs with different keys; upstream classes
`ProcessorTasklet`, `ConcurrentInboundEdgeStream`, `OutboxImpl`, `OutboundCollector`.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, Literal, Protocol

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.coalescer import NOTHING, EmittedItems, KeyedCoalescer
from wmlab.dataflow.model.items import DONE, MAX, MIN, Barrier, Done, Idle, Item, RowValues, Watermark
from wmlab.dataflow.model.processor import ONE_IN_ONE_OUT, Call, Deviations, JobFailedError, Processor, Reason
from wmlab.dataflow.scenario.faults import Stall, SwallowAll
from wmlab.dataflow.sim.columns import JobTable
from wmlab.dataflow.sim.layout import Channel, Layout, Node, NodeEdge

Guarantee = Literal["none", "at_least_once", "exactly_once"]
"""How often an item counts after a restart; only with `exactly_once` does a queue wait behind its barrier."""
InputsByState = tuple[list[int], list[int], list[int]]
"""The inputs of a level that are active, idle and done, ascending; steps share the lists until one differs."""
Step = tuple[Any, ...]
"""A step of coalescing: its number, what it emitted, and the columns of the table `coalescing` from `taken` on."""


class RunningJob(Protocol):
    """The job that an instance belongs to, as the instance knows it.

    `now_ms` is the clock, `execution` counts from 1. The tables are those that instances write;
    `taken_ms` and `taken` have of each item when it was taken, and as which of its consumer. `postponed` is a snapshot
    that waits for instances that read an input to its end.
    """

    now_ms: int
    execution: int
    deviations: Deviations
    guarantee: Guarantee
    layout: Layout
    queues: list[Queue]
    postponed: Barrier | None
    taken_ms: list[int | None]
    taken: list[int | None]
    items: JobTable
    coalescing: JobTable
    drops: JobTable
    source_rows: JobTable
    state: JobTable
    sunk: JobTable

    def wake(self, instance: Instance) -> None:
        """An instance has something to do; it takes a turn soon."""

    def wake_at(self, instance: Instance, at_ms: int) -> None:
        """An instance has something to do at a time."""

    def call(self, instance: ProcessorInstance, call: Call) -> None:
        """Begin a call of an instance of an asynchronous vertex."""

    def is_hit(self, kind: type[Stall | SwallowAll], vertex: str) -> bool:
        """Whether a fault of that kind happens to a vertex now."""

    def begin_postponed_snapshot(self) -> None:
        """Begin the snapshot that waits for instances that read an input to its end, if there is one."""

    def saved(
        self, instance: Instance, barrier: Barrier, state: Any, *, size: int, rows_read: int | None = None
    ) -> None:
        """The state of an instance is saved for the snapshot of that barrier."""

    def ended(self) -> None:
        """An instance has sent its end."""


def described(item: Item) -> tuple[str, int | None, int | None]:
    """An item as (kind, key, value)."""
    if type(item) is tuple:
        return "event", None, None
    if type(item) is Watermark:
        return "watermark", item.key, item.value
    if isinstance(item, Barrier):
        return "barrier", None, item.snapshot
    return type(item).__name__.lower(), item.key if isinstance(item, Idle) else None, None


def partition_hash(values: RowValues) -> int:
    """A number that is the same for equal values in every process."""
    number = 0
    for value in values:
        if isinstance(value, str):
            part = zlib.crc32(value.encode())
        else:
            part = 0 if value is None else partition_hash(value) if isinstance(value, tuple) else hash(value)
        number = (number * 31 + part) & 0x7FFF_FFFF
    return number


def _located(name: str, error: ModelError) -> ModelError:
    """The error with the name of where it came up in front."""
    problem = f"{name}: {error.problem}"
    if isinstance(error, JobFailedError):
        return JobFailedError(error.reason, problem, remedy=error.remedy)
    return ModelError(problem, remedy=error.remedy)


def _not_above(watermark: Watermark, last: int) -> JobFailedError:
    return JobFailedError(
        Reason.NON_MONOTONIC,
        f"watermark {watermark.value} of key {watermark.key} is emitted behind {last}",
        remedy="Let the processor emit each watermark of a key above the one before.",
    )


class Queue:
    """What lies on a channel: `items`, each with the number of its row in the table, and the `room` for more."""

    __slots__ = ("channel", "consumer", "items", "number", "producer", "room", "sequence")

    def __init__(self, channel: Channel, capacity: int) -> None:
        self.channel = channel
        self.number = channel.number
        self.room = capacity
        self.items: deque[tuple[Item, int]] = deque()
        self.sequence = 0
        self.producer: Instance
        self.consumer: ProcessorInstance


class OutputEdge:
    """The queues of one outgoing edge of an instance, and which of them a row takes; its rows have `columns`."""

    def __init__(self, edge: NodeEdge, queues: Iterable[Queue], columns: Sequence[str]) -> None:
        self.queues = tuple(queues)
        self._by = [columns.index(column) for column in edge.columns] if edge.routing == "partitioned" else None
        self._all = edge.routing == "broadcast" or len(self.queues) == 1

    def targets(self, values: RowValues, rows_before: int) -> Sequence[Queue]:
        """Where a row goes that so many rows came before."""
        if self._all:
            return self.queues
        by = self._by
        chosen = rows_before if by is None else partition_hash(tuple([values[index] for index in by]))
        return (self.queues[chosen % len(self.queues)],)


class Instance:
    """What all instances have: output edges, an outbox, and turns. It takes a turn when it is `due`.

    `blocked`: a queue out of it has no room. `finished`: it has sent the end. `sent` has by key the last
    watermark on its queues and since when (ms), `last_item` is the last item there. `sunk` are the numbers of its rows
    in the table of what a sink put out. `step_number` is that of its next step of coalescing.
    """

    def __init__(self, job: RunningJob, node: Node, number: int) -> None:
        self.job = job
        self.execution = job.execution
        self.node = node
        self.number = number
        self.name = node.instance(number)
        own = [q for q in job.queues if (q.channel.edge.source, q.channel.source_instance) == (node.name, number)]
        by_edge = groupby(own, lambda queue: queue.channel.edge)
        self.output_edges = [OutputEdge(edge, queues, node.output.columns) for edge, queues in by_edge]
        self.output_queues = tuple(own)
        self.outbox: list[Item] = []
        self.due = self.blocked = self.finished = False
        self.sent: dict[int, tuple[int, int]] = {}
        self.last_item: Item | None = None
        self.sunk: list[int] = []
        self._is_sink = node.kind == "sink"
        self._time = node.time_column
        self._rows_sent = 0
        self._filled = False
        self.step_number = 0

    @property
    def room(self) -> int | None:
        """How many items it can send now; None: any number."""
        queues = self.output_queues
        if not queues:
            return None
        least = queues[0].room if len(queues) == 1 else min([queue.room for queue in queues])
        return max(0, least - len(self.outbox))

    @property
    def reads_first(self) -> bool:
        """Whether it reads an input to its end before it looks at others."""
        return False

    def begin(self) -> None:
        """The execution begins."""
        self.job.wake(self)

    def turn(self) -> None:
        """Do what can be done now."""
        raise NotImplementedError

    def begin_snapshot(self, barrier: Barrier) -> None:
        """A snapshot begins."""
        raise NotImplementedError

    def send(self, items: Iterable[Item]) -> None:
        """Send items as soon as there is room for them, in this order."""
        self.outbox += items
        self.flush()

    def flush(self) -> bool:
        """Put on the queues what there is room for; whether nothing is left."""
        queues, chooses = self.output_queues, len(self.output_queues) > len(self.output_edges)
        for sent, item in enumerate(self.outbox):
            targets: Sequence[Queue] = queues
            if chooses and type(item) is tuple:
                targets = [queue for edge in self.output_edges for queue in edge.targets(item, self._rows_sent)]
            for queue in targets:
                if not queue.room:
                    self.blocked = True
                    del self.outbox[:sent]
                    return False
            self._put(item, targets)
        self.outbox.clear()
        return True

    def _put(self, item: Item, targets: Sequence[Queue]) -> None:
        job, time = self.job, None
        kind, key, value = described(item)
        row = item if type(item) is tuple else None
        if row is None:
            if type(item) is Watermark:
                self.sent[item.key] = item.value, job.now_ms
        elif self._time is not None and type(time := row[self._time]) is not int:
            time = None
        for queue in targets:
            put = queue.number, queue.sequence, job.now_ms
            queue.items.append((item, job.items.add(job.execution, *put, kind, key, value, time, row)))
            job.taken_ms.append(None)
            job.taken.append(None)
            queue.sequence += 1
            queue.room -= 1
            if not queue.room:
                self._filled = True
            consumer = queue.consumer
            consumer.waiting += 1
            if not consumer.due:
                job.wake(consumer)
        self.last_item = item
        if row is not None:
            self._rows_sent += 1

    def write_step(self, number: int, emitted: EmittedItems, *step: Any) -> None:
        """Write down a step of coalescing that emitted these items; `step` are the columns from `taken` on."""
        job, watermarks = self.job, [(item.key, item.value) for item in emitted if type(item) is Watermark]
        has_idle = len(watermarks) < len(emitted)
        job.coalescing.add(job.execution, self.node.name, self.number, number, job.now_ms, *step, watermarks, has_idle)


class Level:
    """One level of coalescing and of aligning barriers: the queues of edge `edge`, or with None the edges.

    `received` are the inputs that have brought the `barrier` under way; if it `waits`, they are left alone until all
    inputs that have not ended have brought it. Barriers are of one snapshot, until `pass_barrier`. `moved_ms` says by
    key when a watermark last came through. It has `ended` when every input has. If it is not `recorded`, its steps are
    counted and not written down: by `ONE_IN_ONE_OUT` what comes out of a level with one input is what came in.
    """

    def __init__(self, instance: ProcessorInstance, inputs: int, edge: int | None, *, recorded: bool) -> None:
        self.instance = instance
        self.edge = edge
        self.recorded = recorded
        self.coalescer = KeyedCoalescer(inputs, instance.deviations)
        self.waits = instance.job.guarantee == "exactly_once"
        self.barrier: Barrier | None = None
        self.received: set[int] = set()
        self.moved_ms: dict[int, int] = {}
        self.ended = inputs == 0
        self._lists: InputsByState = list(range(inputs)), [], []

    @property
    def aligned(self) -> Barrier | None:
        """The barrier if it has come on all inputs that have not ended."""
        if self.barrier is None or len(self.received | self.coalescer.done) < self.coalescer.inputs:
            return None
        return self.barrier

    def blocks(self, index: int) -> bool:
        """Whether an input is left alone, because it has brought the barrier."""
        return self.waits and index in self.received

    def pass_barrier(self) -> None:
        """The barrier was passed on."""
        self.barrier = None
        self.received.clear()

    def take(self, index: int, item: Item, taken: int | None) -> EmittedItems:
        """An item came on an input, caused by the item number `taken` of the instance; returns what that emits.

        Raises `JobFailedError` as coalescing does.
        """
        instance, emitted = self.instance, NOTHING
        if type(item) is tuple:
            if not self.coalescer.wake(index):
                return NOTHING
        elif type(item) is Barrier:
            # The end comes right behind a terminal barrier, and must not move the watermark before the snapshot.
            self.waits = self.waits or item.terminal
            self.barrier = item
            self.received.add(index)
            return NOTHING
        else:
            try:
                emitted = self.coalescer.step(index, item)
            except ModelError as error:
                inputs = "input edges" if self.edge is None else f"queues of input edge {self.edge}"
                raise _located(inputs, error) from None
            if type(item) is Done:
                self.ended = len(self.coalescer.done) == self.coalescer.inputs
            for sent in emitted:
                if type(sent) is Watermark:
                    self.moved_ms[sent.key] = instance.job.now_ms
        if self.edge is not None:
            instance.last_taken = taken
        if self.recorded:
            level = "global" if self.edge is None else "edge"
            about = instance.last_taken, level, self.edge, index, *described(item), *self._inputs_by_state()
            instance.steps.append((instance.step_number, emitted, *about))
        instance.step_number += 1
        return emitted

    def _inputs_by_state(self) -> InputsByState:
        """The inputs that are active, idle and done."""
        coalescer, (_, idle, done) = self.coalescer, self._lists
        if len(coalescer.done) != len(done) or coalescer.idle - coalescer.done != set(idle):
            idle, done = sorted(coalescer.idle - coalescer.done), sorted(coalescer.done)
            active = [index for index in range(coalescer.inputs) if index not in idle and index not in done]
            self._lists = active, idle, done
        return self._lists


class InputEdge:
    """Input edge `number` of an instance with its `queues`, one from each producing instance.

    `set_aside` are the special items that came behind the rows of the last drain.
    """

    def __init__(self, instance: ProcessorInstance, number: int, queues: Sequence[Queue]) -> None:
        self.instance = instance
        self.number = number
        self.queues = queues
        merges = len(queues) > 1
        self.level = Level(instance, len(queues), number, recorded=merges or instance.deviations not in ONE_IN_ONE_OUT)
        self.set_aside: list[Item] = []

    @property
    def ended(self) -> bool:
        """Whether the last drain gave the last there is."""
        return self.level.ended and (not self.set_aside or self.instance.deviations.last_watermark_lost)

    def drain(self) -> Sequence[Item] | None:
        """One drain of all queues: rows or special items; None if nothing was taken. Raises as coalescing does."""
        instance, level = self.instance, self.level
        if self.set_aside:
            specials, self.set_aside = self.set_aside, []
            instance.waiting -= len(specials)
            return specials
        rows: list[Item] = []
        specials, taken_before = [], len(instance.taken_rows)
        for index, queue in enumerate(self.queues):
            if not queue.items or (level.received and level.blocks(index)):
                continue
            special = self._drain_queue(index, queue, rows, specials)
            if special and level.barrier is not None and not level.ended and (barrier := level.aligned):
                specials.append(barrier)
                level.pass_barrier()
                break
        taken = len(instance.taken_rows) - taken_before
        if not taken:
            return None
        instance.waiting -= taken
        if rows:
            self.set_aside = specials
            instance.waiting += len(specials)
            return rows
        return specials

    def _drain_queue(self, index: int, queue: Queue, rows: list[Item], specials: list[Item]) -> bool:
        """Take the rows at the head of a queue, and the special item behind them; whether there was one.

        What that emits is special, too.
        """
        instance, level, taken_rows = self.instance, self.level, self.instance.taken_rows
        before, special = len(taken_rows), False
        while queue.items and not special:
            item, row = queue.items.popleft()
            taken_rows.append(row)
            if type(item) is tuple:
                rows.append(item)
            else:
                special = True
        taken = len(taken_rows) - before
        queue.room += taken
        if queue.producer.blocked:
            instance.job.wake(queue.producer)
        last = instance.taken + len(taken_rows)
        # One row is enough to end an idleness.
        coalesced = [(item, last)] if not special or taken == 1 else [(rows[-1], last - 1), (item, last)]
        for each, number in coalesced[::-1] if instance.deviations.event_after_special else coalesced:
            specials += level.take(index, each, number)
        return special


class ProcessorInstance(Instance):
    """An instance of a vertex behind the sources, which runs `processor`.

    `edges` are its input edges. Edges of a lower priority number are drained to their end before the others are looked
    at; an edge that was drained is the last of its priority next. `level` coalesces the edges. `pending` is what the
    processor has not taken yet: methods with their arguments, in the order in which they are called. `forwarded` has
    the last watermark per key that left. `taken` is how many items were taken before this turn, `waiting` how many are
    on its queues or set aside; `taken_rows`, `steps` and the lists of the processor are what this turn will write down.
    """

    def __init__(
        self, job: RunningJob, node: Node, number: int, processor: Processor[Any], snapshots: Sequence[Any] = ()
    ) -> None:
        super().__init__(job, node, number)
        self.processor = processor
        self.deviations = job.deviations
        if snapshots:
            processor.restore(snapshots)
        edges = [edge for edge in job.layout.edges if edge.target == node.name]
        own = [queue for queue in job.queues if queue.channel.target_instance == number]
        self.edges = [
            InputEdge(self, index, [queue for queue in own if queue.channel.edge is edge])
            for index, edge in enumerate(edges)
        ]
        merges = sum(len(edge.queues) for edge in self.edges) > 1
        self._takes_edge_watermarks = type(processor).edge_watermark is not Processor.edge_watermark
        self.level = Level(self, len(edges), None, recorded=merges or self.deviations not in ONE_IN_ONE_OUT)
        self.sources = [job.layout.nodes[edge.source] for edge in edges]
        self.pending: deque[tuple[Any, ...]] = deque()
        self.forwarded: dict[int, int] = {}
        self.taken = self.waiting = 0
        self.last_taken: int | None = None
        self.taken_rows: list[int] = []
        self.steps: list[Step] = []
        self.stopped = False
        self.barrier: Barrier | None = None
        self._snapshot: tuple[Barrier, Any, int] | None = None
        self._has_size = type(processor).size is not Processor.size
        self._sizes: dict[str, int] = {}
        self._progress = False
        self._retry_ms = 0
        ranks = sorted({edge.priority for edge in edges})
        self._undrained = [deque(e for e in self.edges if edges[e.number].priority == rank) for rank in ranks]

    @property
    def reads_first(self) -> bool:
        """Whether edges of a lower priority number have not ended, so that others are not looked at."""
        return len(self._undrained) > 1

    def begin(self) -> None:
        """Make the calls again that were in flight at a snapshot, and look what there is to do."""
        self._write_sizes(self.processor.sizes)
        for call in self.processor.outstanding:
            self.job.call(self, call)
        super().begin()

    def turn(self) -> None:
        """Work as long as there is anything to do: what lies on the queues at one moment is done at that moment."""
        self.blocked = self._filled = False
        while (not self.outbox or self.flush()) and not self.finished and self.work():
            pass
        if self._filled and not self.finished:
            self.blocked = True

    def work(self) -> bool:
        """Offer what is pending to the processor, drain one edge, and offer that; returns whether there may be more.

        The processor is not called while as many items have left as there is room for. One call may still leave more
        than that, which stays in the outbox. Raises `JobFailedError` when a rule is broken, by an input or by what the
        processor emits.
        """
        room = self.room
        self.blocked = room == 0
        self._progress = False
        try:
            self._work(room)
        except ModelError as error:
            raise _located(self.name, error) from None
        if not self._progress:
            return False
        self._write()
        return self.waiting > 0 or bool(self.pending) or self.level.ended or self.level.barrier is not None

    def answer(self, call: int, results: tuple[RowValues, ...] | None) -> None:
        """A call returned, which the processor gets at once; None: it failed."""
        try:
            self._call(self.processor.answer, (call, results))
        except ModelError as error:
            raise _located(self.name, error) from None
        self._write()
        self.job.wake(self)

    def begin_snapshot(self, barrier: Barrier) -> None:
        """The barrier comes over the inputs, unless they have all ended: then it is taken without one."""
        self.barrier = barrier
        self._snapshot_alone()

    def _snapshot_alone(self) -> None:
        if self.barrier is None or not self.level.ended or self.level.barrier is not None:
            return
        if self.finished:
            self._save(self.barrier, self.processor.snapshot(), self.processor.size)
        else:
            self.level.barrier = self.barrier
            self.job.wake(self)

    def _save(self, barrier: Barrier, state: Any, size: int) -> None:
        self.barrier = None
        self.job.saved(self, barrier, state, size=size)

    def _work(self, room: int | None) -> None:
        """Call the processor until there is no room, it refuses, or there is nothing left to do."""
        out, level, drained = self.processor.out, self.level, False
        while not self.stopped and (not self.pending or self._call_pending(room)):
            if room is not None and len(out) >= room:
                return
            if level.barrier is not None and (barrier := level.aligned):
                if not self._take_snapshot(barrier):
                    return
            elif level.ended:
                if self._call(self.processor.complete, ()):
                    out.append(DONE)
                    self.finished = True
                return
            elif drained or not self._drain():
                return
            else:
                drained = True

    def _call_pending(self, room: int | None) -> bool:
        """Call all that is pending, in order; false if something of it is left."""
        pending, out = self.pending, self.processor.out
        if self.job.now_ms < self._retry_ms:
            return False
        while pending:
            if room is not None and len(out) >= room:
                return False
            if not self._call(*pending[0]):
                if self.processor.retry_ms is not None:
                    self._retry_ms = self.job.now_ms + self.processor.retry_ms
                    self.job.wake_at(self, self._retry_ms)
                return False
            pending.popleft()
        return True

    def _call(self, method: Callable[..., bool | None], arguments: tuple[Any, ...]) -> bool:
        """Call a method of the processor; false if it refuses. Raises `JobFailedError` if a watermark goes back."""
        out = self.processor.out
        before = len(out)
        accepted = method(*arguments) is not False
        if len(out) > before:
            self._progress = True
            for item in out[before:]:
                if type(item) is Watermark:
                    if item.value <= self.forwarded.get(item.key, MIN) and not self.deviations.emission_unchecked:
                        raise _not_above(item, self.forwarded[item.key])
                    self.forwarded[item.key] = item.value
        elif accepted:
            self._progress = True
        return accepted

    def _drain(self) -> bool:
        """Drain the edges of the first priority in turn until one gives something; false if none does."""
        edges = self._undrained[0]
        for index, edge in enumerate(edges):
            if self.level.received and self.level.blocks(edge.number):
                continue
            drained = edge.drain()
            if drained is None:
                continue
            edges.rotate(-index - 1)
            if ended := edge.ended:
                edges.pop()
                if not edges:
                    del self._undrained[0]
            self._coalesce(edge.number, drained, ended=ended)
            return True
        return False

    def _coalesce(self, number: int, drained: Sequence[Item], *, ended: bool) -> None:
        """What edge `number` gave becomes pending: rows, its watermarks, and those of all edges."""
        self._progress = True
        processor, pending, take = self.processor, self.pending, self.level.take
        if drained and type(drained[0]) is tuple:
            row, watermarks = processor.row, []
            pending += [(row, (values, number)) for values in drained]
            # One row is enough to end the idleness of the edge.
            emitted = take(number, drained[-1], self.last_taken)
        else:
            watermarks = [item for item in drained if type(item) is Watermark] if self._takes_edge_watermarks else []
            emitted = NOTHING
            for item in drained:
                emitted += take(number, item, self.last_taken)
        if ended:
            emitted += take(number, DONE, self.last_taken)
            if self.deviations.last_watermark_lost and self.level.ended:
                return
        pending += [(processor.edge_watermark, (item, number)) for item in watermarks]
        for sent in emitted:
            if type(sent) is Watermark:
                pending.append((processor.watermark, (sent,)))
            else:
                idle = processor.out.append if self.deviations.idle_overtakes else processor.idle
                pending.append((idle, (sent,)))

    def _take_snapshot(self, barrier: Barrier) -> bool:
        """Take a snapshot; false if the processor does not admit it."""
        if not self.processor.may_snapshot:
            return False
        self._progress = True
        self._snapshot = barrier, self.processor.snapshot(), self.processor.size
        self.processor.out.append(barrier)
        self.level.pass_barrier()
        self.stopped = barrier.terminal
        return True

    def _write(self) -> None:
        """Write down what a turn did, send what left the processor, and save its state if a snapshot was taken."""
        job, processor = self.job, self.processor
        for row in self.taken_rows:
            job.taken_ms[row], job.taken[row] = job.now_ms, self.taken
            self.taken += 1
        self.taken_rows.clear()
        if self.steps or processor.drops or processor.calls:
            self._write_events()
        if processor.out:
            put = self._sink if self._is_sink else self.send
            put(processor.out)
            processor.out.clear()
        if self._snapshot is not None:
            snapshot, self._snapshot = self._snapshot, None
            self._save(*snapshot)
        if self._has_size and (sizes := processor.sizes) != self._sizes:
            self._write_sizes(sizes)
        if self.finished:
            job.ended()
        if self.barrier is not None:
            self._snapshot_alone()
        if job.postponed is not None:
            job.begin_postponed_snapshot()

    def _write_events(self) -> None:
        """Write down the steps of coalescing and the rows that the processor dropped, and begin its calls."""
        job, processor = self.job, self.processor
        for step in self.steps:
            self.write_step(*step)
        self.steps.clear()
        for drop in processor.drops:
            margin = min(MAX, drop.limit - drop.time)
            about = drop.edge, drop.rule, drop.key, drop.time, drop.limit, margin, drop.values
            job.drops.add(job.execution, self.node.name, self.number, job.now_ms, *about)
        processor.drops.clear()
        for call in processor.calls:
            job.call(self, call)
        processor.calls.clear()

    def _sink(self, items: Iterable[Item]) -> None:
        """Rows come out of the dataflow."""
        job = self.job
        for values in items:
            if type(values) is tuple:
                time = self.sources[0].time(values)
                where = job.execution, self.node.name, self.number, len(self.sunk)
                self.sunk.append(job.sunk.add(*where, job.now_ms, time, True, values))

    def _write_sizes(self, sizes: dict[str, int]) -> None:
        """Write down how much the processor holds now, where that has changed."""
        job = self.job
        for buffer, size in sizes.items():
            if size != self._sizes.get(buffer, 0):
                job.state.add(job.execution, self.node.name, self.number, job.now_ms, buffer, size)
        self._sizes = sizes
