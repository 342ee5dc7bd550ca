"""A recorded job that runs again up to the moment of a question, so that an answer looks at the job itself.

A dataflow and its seed give the same run each time. So the job is run up to the moment, and read there: what an
instance holds, what lies on a queue, when a partition is excluded as idle. A later moment goes on from an earlier one:
questions about many moments in ascending order run the job once.

Everything that answers know of a running job is in this module. It uses, and nothing else:

    world_of(dataflow, readings)   a job that has not begun: begin(), advance(until_ms, exclusive), execution
    execution                      tasks[vertex, instance], queues[number]
    queue                          room, lying: [(item, put_ms)], channel.number
    task                           sent: {key: (watermark, since_ms)}, last_kind, waiting: [item],
                                   output_edges[n].queues, moved_ms: {(level, edge, key): clock ms}
    task of a processor            instance.state, instance.inputs.coalescer, instance.edges[n].inputs.coalescer
    task of a source               times[n].mapper, states[n].partitions, partitions: [number],
                                   rows: {number: (last_ms, rejected)}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.dataflow.model.items import MAX, MIN, Item
from wmlab.dataflow.model.source import EventTimeMapper, SourcePartition
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of
from wmlab.dataflow.sim.processor_task import ProcessorTask
from wmlab.dataflow.sim.source_task import SourceTask
from wmlab.dataflow.sim.world import Execution
from wmlab.dataflow.simulate import Readings, readings_of, simulate, world_of

LevelName = Literal["edge", "global"]


class Ran(NamedTuple):
    """What a recording was made of: the dataflow, and what its sources read."""

    dataflow: DataflowScenario
    readings: Readings


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelState:
    """One level of coalescing: which inputs count, are idle or have ended, and what each brought.

    `watermarks` is the last one by input and key, `emitted` by key what came out: (watermark, clock ms).
    """

    active: Sequence[int]
    idle: Sequence[int] = ()
    done: Sequence[int] = ()
    watermarks: Mapping[tuple[int, int], int] = field(default_factory=dict)
    emitted: Mapping[int, tuple[int, int]] = field(default_factory=dict)


class ReadPartition(NamedTuple):
    """A partition of a source: its watermarks, when a row last passed (clock ms), and how many were rejected since."""

    state: SourcePartition
    last_ms: int | None
    rejected: int


class JobState:
    """The instances and queues of a job at one moment; it is good until the job goes on."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    def sent(self, vertex: str, instance: int) -> Mapping[int, tuple[int, int]]:
        """The last watermarks that an instance put on its queues, by key: (watermark, since when in clock ms)."""
        return self._execution.tasks[vertex, instance].sent

    def last_kind(self, vertex: str, instance: int) -> str | None:
        """The kind of the last item that an instance put on its queues; None: it has sent nothing."""
        return self._execution.tasks[vertex, instance].last_kind

    def leaving(self, vertex: str, instance: int) -> list[Item]:
        """What has left an instance and waits for room on its queues."""
        return self._execution.tasks[vertex, instance].waiting

    def full_queue(self, vertex: str, instance: int) -> int | None:
        """The number of the first queue out of an instance that has no room; None: all have."""
        edges = self._execution.tasks[vertex, instance].output_edges
        full = (queue.channel.number for edge in edges for queue in edge.queues if queue.room < 1)
        return next(full, None)

    def on_queue(self, number: int) -> list[tuple[Item, int]]:
        """The items on a queue in their order, each with when it was put there (clock ms)."""
        return self._execution.queues[number].lying

    def processor_state(self, vertex: str, instance: int) -> Any:
        """The state of the processor of an instance."""
        return self._processor(vertex, instance).instance.state

    def level(self, vertex: str, instance: int, name: LevelName, edge: int | None = None) -> LevelState:
        """A level of coalescing of an instance that is no source: the queues of one edge, or all edges."""
        task = self._processor(vertex, instance)
        inputs = task.instance.inputs if edge is None else task.instance.edges[edge].inputs
        coalescer = inputs.coalescer
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
                key: (of_key.last, task.moved_ms[name, edge, key])
                for key, of_key in coalescer.keys.items()
                if (name, edge, key) in task.moved_ms
            },
        )

    def partitions(self, vertex: str, instance: int, key: int) -> tuple[EventTimeMapper, dict[int, ReadPartition]]:
        """How an instance of a source makes watermarks of a key, and its partitions by number."""
        task = self._execution.tasks[vertex, instance]
        assert isinstance(task, SourceTask)
        mapper, state = next(
            (time.mapper, state) for time, state in zip(task.times, task.states, strict=True) if time.mapper.key == key
        )
        known = sorted(zip(task.partitions, state.partitions, strict=True))
        return mapper, {number: ReadPartition(each, *task.rows.get(number, (None, 0))) for number, each in known}

    def _processor(self, vertex: str, instance: int) -> ProcessorTask:
        task = self._execution.tasks[vertex, instance]
        assert isinstance(task, ProcessorTask)
        return task


class Job:
    """The job of a recording, which runs again as far as it is asked for."""

    def __init__(self, ran: Ran) -> None:
        self._ran = ran
        self._world = world_of(*ran)
        self._at_ms: int | None = None

    def at(self, at_ms: int) -> JobState:
        """The job at a moment (clock, ms), when all that happened then has happened."""
        if self._at_ms is not None and at_ms < self._at_ms:
            self._world, self._at_ms = world_of(*self._ran), None
        if self._at_ms is None:
            self._world.begin()
        self._world.advance(at_ms + 1)
        self._at_ms = at_ms
        return JobState(self._world.execution)


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
