"""A recorded job that runs again up to the moment of a question, so that an answer looks at the job itself.

A dataflow and its seed give the same run each time. So the job is run up to the moment, and read there: what an
instance holds, what lies on a queue, when a partition is excluded as idle. A later moment goes on from an earlier one,
or from a copy that was made on the way: questions about many moments, in any order, run the job hardly more than once.

Everything that answers know of a running job is in this module. It uses, and nothing else:

    sim Job(dataflow, readings)    a job that has not begun: begin(), advance(until_ms, exclusive), copy(),
                                   dataflow, instances[vertex, number], queues[number], items
    queue                          room, items with their numbers in the table `items`, channel: number, edge.target,
                                   target_instance
    instance                       name, sent: {key: (watermark, since_ms)}, last_item, outbox, output_queues
    instance of a processor        processor, level and edges[n].level: coalescer, moved_ms: {key: clock ms}
    instance of a source           times[n].mapper, states[n].partitions, states[n].last, partitions: [number],
                                   rows: {number: (last_ms, rejected)}
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.dataflow.model.items import MAX, MIN, Item
from wmlab.dataflow.model.source import EventTimeMapper, SourcePartition
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of
from wmlab.dataflow.scenario.faults import (
    AnyFault,
    Disorder,
    Lasting,
    LatePartition,
    SilentPartition,
    SlowCalls,
    Stall,
    SwallowAll,
)
from wmlab.dataflow.sim import job as sim
from wmlab.dataflow.sim.instance import ProcessorInstance, described
from wmlab.dataflow.sim.source_instance import SourceInstance
from wmlab.dataflow.simulate import Readings, readings_of, simulate

FaultKind = Literal["stalled", "slowed", "silenced", "delayed", "disordered", "swallowed"]


class Ran(NamedTuple):
    """The origin of a recording: the dataflow, and the rows that its sources read."""

    dataflow: DataflowScenario
    readings: Readings


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelState:
    """One level of coalescing at a moment: which inputs count, are idle or have ended, and what each brought.

    A level is the partitions of a source, the queues of one edge, or the edges of an instance. `watermarks` is the last
    one by input and key, `emitted` by key what came out: (watermark, clock ms).
    """

    active: Sequence[int]
    idle: Sequence[int] = ()
    done: Sequence[int] = ()
    watermarks: Mapping[tuple[int, int], int] = field(default_factory=dict)
    emitted: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInForce:
    """A fault of the dataflow that happens at a moment, from `since_ms` until `until_ms` (clock; None: to the end).

    It is of the instance `party`: that is stalled, or its calls are slowed; rows of a partition are silenced, so that
    they never arrive, delayed, or disordered; or the filter of a source swallows them all.
    """

    kind: FaultKind
    party: str
    since_ms: int
    until_ms: int | None

    @property
    def stops_rows(self) -> bool:
        """Whether no row comes because of it until the end of the run."""
        return self.until_ms is None and self.kind in {"stalled", "silenced", "swallowed"}


class ReadPartition(NamedTuple):
    """A partition of a source: its watermarks, when a row last passed (clock ms), and how many were rejected since."""

    state: SourcePartition
    last_ms: int | None
    rejected: int

    @property
    def watermark(self) -> int | None:
        """The watermark of the partition; None: none yet."""
        return None if self.state.mark == MIN else self.state.mark


class JobState:
    """The instances and queues of a job at one moment; it is good until the job goes on."""

    def __init__(self, job: sim.Job, at_ms: int) -> None:
        self._job, self._at_ms = job, at_ms

    def fault(self, vertex: str, instance: int, partition: int | None = None) -> FaultInForce | None:
        """The first fault that happens now to an instance or, with `partition`, to that partition of a source.

        Rows that are delayed are on their way after the time of that fault.
        """
        start_ms, party = self._job.dataflow.start_ms, self._job.instances[vertex, instance].name
        for fault in self._job.dataflow.faults:
            kind = _fault_kind(fault, vertex, instance, partition)
            if kind is None or not isinstance(fault, Lasting):
                continue
            since_ms = start_ms + fault.at_ms
            until_ms = None if fault.for_ms is None else since_ms + fault.for_ms
            after_ms = getattr(fault, "by_ms", 0) if kind in {"delayed", "disordered"} else 0
            if since_ms <= self._at_ms and (until_ms is None or self._at_ms < until_ms + after_ms):
                return FaultInForce(kind=kind, party=party, since_ms=since_ms, until_ms=until_ms)
        return None

    def stall(self, vertex: str, instance: int) -> FaultInForce | None:
        """The stall of an instance or, if it has no room for what leaves it, of one behind it that takes nothing."""
        fault = self.fault(vertex, instance)
        if fault is not None and fault.kind == "stalled":
            return fault
        number = self.full_queue(vertex, instance)
        if number is None:
            return None
        channel = self._job.queues[number].channel
        return self.stall(channel.edge.target, channel.target_instance)

    @property
    def turn_ms(self) -> int:
        """How long an instance takes at most to begin a turn; what waits longer is held."""
        return math.ceil(self._job.dataflow.jitter_ms)

    def sent(self, vertex: str, instance: int) -> Mapping[int, tuple[int, int]]:
        """The last watermarks that an instance put on its queues, by key: (watermark, since when in clock ms)."""
        return self._job.instances[vertex, instance].sent

    def sent_before(self, vertex: str, instance: int, key: int) -> int:
        """The watermark up to which an instance of a source has sent those of a key, also before a restart; or `MIN`.

        It sends the ones above.
        """
        source = self._job.instances[vertex, instance]
        assert isinstance(source, SourceInstance)
        return next(s.last for t, s in zip(source.times, source.states, strict=True) if t.mapper.key == key)

    def last_kind(self, vertex: str, instance: int) -> str | None:
        """The kind of the last item that an instance put on its queues; None: it has sent nothing."""
        item = self._job.instances[vertex, instance].last_item
        return None if item is None else described(item)[0]

    def leaving(self, vertex: str, instance: int) -> Sequence[Item]:
        """What has left an instance and waits for room on its queues."""
        return self._job.instances[vertex, instance].outbox

    def full_queue(self, vertex: str, instance: int) -> int | None:
        """The number of the first queue out of an instance that has no room; None: all have."""
        queues = self._job.instances[vertex, instance].output_queues
        return next((queue.channel.number for queue in queues if queue.room < 1), None)

    def on_queue(self, number: int) -> list[tuple[Item, int]]:
        """The items on a queue in their order, each with when it was put there (clock ms)."""
        queue, items = self._job.queues[number], self._job.items
        put_ms = items.columns.index("put_ms")
        return [(item, items.rows[row][put_ms]) for item, row in queue.items]

    def processor(self, vertex: str, instance: int) -> Any:
        """The processor of an instance, a `Processor` with its state."""
        return self._instance(vertex, instance).processor

    def level(self, vertex: str, instance: int, edge: int | None = None) -> LevelState:
        """A level of coalescing of an instance that is not a source: the queues of one edge, or all edges."""
        of_instance = self._instance(vertex, instance)
        level = of_instance.level if edge is None else of_instance.edges[edge].level
        coalescer = level.coalescer
        excluded = coalescer.idle | coalescer.done
        return LevelState(
            active=[number for number in range(coalescer.inputs) if number not in excluded],
            idle=sorted(coalescer.idle - coalescer.done),
            done=sorted(coalescer.done),
            watermarks={
                (number, key): mark
                for key, of_key in coalescer.keys.items()
                for number, mark in enumerate(of_key.marks)
                if MIN < mark < MAX
            },
            emitted={
                key: (of_key.last, level.moved_ms[key])
                for key, of_key in coalescer.keys.items()
                if key in level.moved_ms
            },
        )

    def partitions(self, vertex: str, instance: int, key: int) -> tuple[EventTimeMapper, dict[int, ReadPartition]]:
        """How an instance of a source makes watermarks of a key, and its partitions by number."""
        source = self._job.instances[vertex, instance]
        assert isinstance(source, SourceInstance)
        both = zip(source.times, source.states, strict=True)
        mapper, state = next((time.mapper, state) for time, state in both if time.mapper.key == key)
        known = sorted(zip(source.partitions, state.partitions, strict=True), key=itemgetter(0))
        return mapper, {number: ReadPartition(each, *source.rows.get(number, (None, 0))) for number, each in known}

    def _instance(self, vertex: str, instance: int) -> ProcessorInstance:
        of_vertex = self._job.instances[vertex, instance]
        assert isinstance(of_vertex, ProcessorInstance)
        return of_vertex


def _fault_kind(fault: AnyFault, vertex: str, instance: int, partition: int | None) -> FaultKind | None:
    """What a fault does to an instance, or to a partition of a source; None: nothing that stops a watermark there."""
    match fault:
        case Stall(vertex=stalled, instance=number) if stalled == vertex and number in {None, instance}:
            return "stalled"
        case SlowCalls(vertex=calling, first=None) if calling == vertex and partition is None:
            return "slowed"
        case SilentPartition(source=source, partition=number) if (source, number) == (vertex, partition):
            return "silenced"
        case LatePartition(source=source, partition=number) if (source, number) == (vertex, partition):
            return "delayed"
        case Disorder(source=source) if source == vertex and partition is not None:
            return "disordered"
        case SwallowAll(vertex=filtering) if filtering == vertex and partition is not None:
            return "swallowed"
    return None


_COPIES: Final = 32
"""The most copies of a job that are made on its way, at equal distances."""
_ITEMS_APART: Final = 2_000
"""How many items have to be put on queues until another copy is worth it."""


class Job:
    """The job of a recording, which runs again as far as it is asked for.

    A question goes on with the job of the last one, or with a copy of the nearest one that was copied on the way.
    """

    def __init__(self, ran: Ran) -> None:
        self._ran = ran
        self._last: tuple[int, sim.Job] | None = None
        self._copies: dict[int, sim.Job] = {}
        self._items = 0

    def at(self, at_ms: int) -> JobState:
        """The job at a moment (clock, ms), when all that happened then has happened."""
        copied_ms = max((known_ms for known_ms in self._copies if known_ms <= at_ms), default=None)
        if self._last is not None and (copied_ms or 0) <= self._last[0] <= at_ms:
            from_ms, job = self._last
        elif copied_ms is not None:
            from_ms, job = copied_ms, self._copies[copied_ms].copy()
        else:
            from_ms, job = self._ran.dataflow.start_ms, sim.Job(*self._ran)
            job.begin()
        self._advance(job, from_ms, at_ms)
        self._last = at_ms, job
        return JobState(job, at_ms)

    def _advance(self, job: sim.Job, from_ms: int, to_ms: int) -> None:
        """Let a job go on between two moments, and copy it on the way; not where functions may remember something."""
        dataflow = self._ran.dataflow
        step_ms = max(dataflow.duration_ms // _COPIES, 1)
        for ms in range(dataflow.start_ms, to_ms, step_ms) if not dataflow.functions else ():
            if ms <= from_ms or ms in self._copies:
                continue
            job.advance(ms + 1)
            if len(job.items.rows) >= self._items + _ITEMS_APART:
                self._items = len(job.items.rows)
                self._copies[ms] = job.copy()
        job.advance(to_ms + 1)

    @property
    def fault_moments(self) -> set[int]:
        """When faults of the dataflow begin and end (clock, ms)."""
        dataflow = self._ran.dataflow
        lasting = [fault for fault in dataflow.faults if isinstance(fault, Lasting)]
        ends = {fault.at_ms + fault.for_ms for fault in lasting if fault.for_ms is not None}
        return {dataflow.start_ms + at_ms for at_ms in ({fault.at_ms for fault in lasting} | ends)}


def job_of(recording: Recording) -> Job:
    """The job of a recording.

    Raises `RecordingError` for one read from files whose dataflow had Python functions; and if the dataflow gives
    another run than the recorded one, by the number of rows of each table. That is compared for a recording from files,
    which another version may have made, and for Python functions, which may not give the same twice.
    """
    ran: Ran | None = getattr(recording, "ran", None)
    if ran is not None and not ran.dataflow.functions:
        return Job(ran)
    if ran is None:
        dataflow = dataflow_of(recording, DataflowScenario)
        ran = Ran(dataflow, readings_of(dataflow))
    if differing := list(_differing(recording, ran)):
        made_by = recording.manifest.wmlab_version
        raise RecordingError(
            f"the dataflow of {recording.name!r} does not give the recorded run again ({'; '.join(differing)}). "
            f"The recording was made by wmlab {made_by}.",
            remedy="record the dataflow again, or ask for what needs no run: results(), why_dropped(), the tables.",
        )
    return Job(ran)


def _differing(recording: Recording, ran: Ran) -> Iterator[str]:
    """The tables with another number of rows than a run has."""
    tables = simulate(*ran)
    for table, rows in recording.manifest.rows:
        if tables[table].num_rows != rows:
            yield f"{table}: {rows} rows recorded, {tables[table].num_rows} now"
