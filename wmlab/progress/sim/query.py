"""A query that runs: its chains of operators as tasks, its operators as those of `wmlab.progress.model`.

A `Transformation` happens inside a pipeline. A `PipelineBreaker` ends one: each buffer that its operator returns is
another task. A sequencer also gets notice when that task is `done`.

Each pipeline is a task; after a stateful operator has seen all records of a buffer it looks which windows it can fire.

Source: "Watermarking and Progress", ChunkNumber and Triggering windows.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmlab.progress import scenario as plans
from wmlab.progress.model.chunks import Completed, ProtocolViolation
from wmlab.progress.model.numbers import ChunkBase, TupleBuffer
from wmlab.progress.model.operators import Emission, Renumbering, Sequencer
from wmlab.progress.model.tracker import ProgressRules, ProgressTracker
from wmlab.progress.model.windows import (
    Fired,
    FiringRules,
    Late,
    SlidingWindows,
    WindowedAggregation,
    WindowedJoin,
)
from wmlab.progress.scenario import BUILD, PROBE, SINK
from wmlab.progress.sim.records import RecordBuffer, stamped

if TYPE_CHECKING:
    from wmlab.progress.sim.world import PlanWorld

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def filtered(buffer: RecordBuffer, keep: float, salt: int) -> RecordBuffer:
    """The buffer without the records that a filter leaves out, by a number drawn from each record's own."""
    rows = buffer.rows[uniform_of(buffer.rows["number"], salt) < keep]
    return replace(buffer, rows=rows, records=len(rows))


def uniform_of(numbers: NDArray[np.uint64], salt: int) -> NDArray[np.float64]:
    """Of each number one from [0, 1), as if at random: the finisher of SplitMix64 (Steele, Lea, Flood 2014)."""
    step, first, second = _MIX
    with np.errstate(over="ignore"):
        mixed = (numbers ^ np.uint64(salt)) * step + step
        mixed = (mixed ^ (mixed >> np.uint64(30))) * first
        mixed = (mixed ^ (mixed >> np.uint64(27))) * second
    return (mixed ^ (mixed >> np.uint64(31))) / 2.0**64


def grown(buffer: RecordBuffer, growth: float) -> RecordBuffer:
    """The buffer with larger records."""
    return replace(buffer, size=buffer.size * growth)


def restamped(buffer: RecordBuffer, source: plans.Source) -> RecordBuffer:
    """The buffer with the watermark of the records it still has, at the end of its first pipeline."""
    watermark = stamped(source, buffer.created_ms, buffer.rows["time"])
    return replace(buffer, watermark=watermark)


def split_to_capacity(buffer: RecordBuffer, capacity: int | None) -> list[RecordBuffer]:
    """What a buffer becomes, at least one: as many as hold its records at the size they have now."""
    capacity = capacity or buffer.capacity
    # Rounded, so that ten records of size 1.1 fill a buffer of eleven.
    volume = round(buffer.records * buffer.size, 6)
    count = 1 if capacity is None else max(1, math.ceil(volume / capacity))
    edges = pairwise(number * buffer.records // count for number in range(count + 1))
    return [replace(buffer, records=end - begin, rows=buffer.rows[begin:end]) for begin, end in edges]


def joined_chunks(chunks: Sequence[RecordBuffer]) -> RecordBuffer:
    """The chunks of a sequence as one buffer, in the order of their numbers."""
    return replace(
        chunks[0],
        created_ms=min(chunk.created_ms for chunk in chunks),
        records=sum(chunk.records for chunk in chunks),
        rows=np.concatenate([chunk.rows for chunk in chunks]),
    )


Transformation: TypeAlias = Callable[[RecordBuffer], RecordBuffer]
"""An operator inside a pipeline."""
PipelineEnd: TypeAlias = Emission[RecordBuffer] | Renumbering[RecordBuffer] | Sequencer[RecordBuffer]


class PipelineBreaker(NamedTuple):
    """An operator that ends a pipeline, and the name under which it follows progress, None if it does not."""

    operator: PipelineEnd
    name: str | None = None


PipelineStep: TypeAlias = Transformation | PipelineBreaker
Task: TypeAlias = Callable[[int], None]
"""What happens when a worker, whose number it gets, has executed a task."""
Handler = Callable[[RecordBuffer, int], None]
"""What a buffer comes to, with the worker that executed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Operators one after another, and what stands at their end.

    `submit` queues a task with the buffer that it executes. With `fused` the last pipeline and what stands at the end
    are one task, as in a build of windows; otherwise the end is reached as soon as the last pipeline has put the buffer
    out. `pass_on` is given every chunk of an emission with what hands it on.
    """

    steps: Sequence[PipelineStep]
    end: Handler
    arrive: Callable[[str, RecordBuffer, int], None]
    submit: Callable[[Task, RecordBuffer], None]
    fused: bool
    pass_on: Callable[[RecordBuffer, Callable[[], None]], None] = lambda _, go: go()

    def run(self, buffer: RecordBuffer, worker: int, begin: int = 0) -> None:
        """Execute the pipeline that begins with step `begin`."""
        for index, step in enumerate(self.steps[begin:], begin + 1):
            if not isinstance(step, PipelineBreaker):
                buffer = step(buffer)
                continue
            if step.name is not None:
                self.arrive(step.name, buffer, worker)
            self._hand_on(step.operator, step.operator.take(buffer), index, worker)
            return
        self.end(buffer, worker)

    def _hand_on(self, ended: PipelineEnd, buffers: Sequence[RecordBuffer], index: int, worker: int) -> None:
        """Go on with what the operator that ended a pipeline released, at step `index`."""
        for buffer in buffers:
            execute = partial(self._execute, ended, buffer, index)
            at_end = index == len(self.steps) and not self.fused
            go = partial(execute, worker) if at_end else partial(self.submit, execute, buffer)
            if isinstance(ended, Emission):
                self.pass_on(buffer, go)
            else:
                go()

    def _execute(self, ended: PipelineEnd, buffer: RecordBuffer, index: int, worker: int) -> None:
        self.run(buffer, worker, index)
        if isinstance(ended, Sequencer):
            self._hand_on(ended, ended.done(buffer), index, worker)


def pipeline_steps(
    operators: Sequence[object], origins: plans.Origins, rules: ProgressRules, name: str
) -> list[PipelineStep]:
    """The steps of one chain; `name` tells its filters from those of other chains."""
    steps: list[PipelineStep] = []
    for index, operator in enumerate(operators):
        match operator:
            case plans.Filter():
                salt = zlib.crc32(f"filter {index} of {name}".encode())
                steps.append(partial(filtered, keep=operator.keep, salt=salt))
            case plans.Map():
                steps.append(partial(grown, growth=operator.growth))
            case plans.Emit():
                parts = partial(split_to_capacity, capacity=operator.buffer_records)
                steps.append(PipelineBreaker(Emission(parts, rules.chunk_base)))
            case plans.Renumber():
                number, inputs = origins.ids[operator.name], origins.inputs[operator.name]
                steps.append(PipelineBreaker(Renumbering(number, inputs, rules, joined_chunks), operator.name))
            case plans.InOrder():
                steps.append(PipelineBreaker(Sequencer(operator.policy, rules.chunk_base), operator.name))
    return steps


_OF_STAMPS: Final = ("origin", "sequence", "chunk", "last", "watermark")
_OF_WINDOWS: Final = ("sequence", "start", "end", "records", "cause")
"""The fields of a stamp and of a fired window that are columns of their tables."""


def window_operator(
    query: plans.Query, part: plans.WindowOperator, origins: plans.Origins, chunk_base: ChunkBase
) -> WindowedAggregation:
    """The operator of the windows of a query."""
    windows = SlidingWindows(part.size_ms, part.slide_ms or part.size_ms)
    rules = FiringRules(windows=windows, trigger=part.trigger, emit_lag=part.emit_lag_ms)
    if isinstance(part, plans.Aggregate):
        return WindowedAggregation(rules, origins.ids[BUILD], chunk_base)
    sides = {origin: int(name not in query.left) for name, origin in origins.at_end.items()}
    return WindowedJoin(rules, origins.ids[BUILD], chunk_base, sides=sides, carries=part.carries)


class QueryRun:
    """The state of one query: the chains of its sources, its windows, and a tracker per operator that follows time.

    `on_its_way` counts what has still to come to the windows; when nothing has, and the stream has ended, they are
    flushed.
    """

    def __init__(self, world: PlanWorld, part: plans.Query) -> None:
        self.world = world
        self.part = part
        scenario = world.scenario
        self.rules = plans.tracker_rules(scenario)
        self.origins = plans.origins_of(part)
        self.emitters = self.origins.emitters
        self.progress = {name: ProgressTracker(inputs, self.rules) for name, inputs in self.origins.inputs.items()}
        self.arrivals = dict.fromkeys(self.progress, 0)
        self.window = (
            None if part.window is None else window_operator(part, part.window, self.origins, scenario.chunk_base)
        )
        shared = pipeline_steps(part.operators, self.origins, self.rules, part.name)
        self.chains = [self._chain(source, shared) for source in part.physical]
        behind = pipeline_steps(part.output, self.origins, self.rules, f"output of {part.name}")
        sink = partial(self._arrive, SINK)
        self.output = Chain(steps=behind, end=sink, arrive=self._arrive, submit=self._queue, fused=False)
        self.on_its_way = 0

    def _chain(self, source: plans.Source, shared: Sequence[PipelineStep]) -> Chain:
        steps = [*pipeline_steps(source.operators, self.origins, self.rules, source.name), *shared]
        if source.stamped == "filter" and source.stamp == "event_time":
            first = next((index for index, step in enumerate(steps) if isinstance(step, PipelineBreaker)), len(steps))
            steps.insert(first, partial(restamped, source=source))
        fused = self.window is not None
        end = self._build if fused else partial(self._arrive, SINK)
        return Chain(steps=steps, end=end, arrive=self._arrive, submit=self.submit, fused=fused, pass_on=self._pass_on)

    def send(self, index: int, buffer: RecordBuffer) -> None:
        """A buffer of the source at `index` reaches the queue of the workers."""
        self.submit(partial(self.chains[index].run, buffer), buffer)
        self.on_its_way -= 1

    def _pass_on(self, buffer: RecordBuffer, go: Callable[[], None]) -> None:
        """Hand a chunk on by `go`, with the faults that the script has for it."""
        chunk = (self.emitters[buffer.origin], buffer.sequence, buffer.chunk)
        for delay_ms in self.world.faulty(self.part.name, chunk, buffer.records, self.world.now_ms):
            if delay_ms:
                self.on_its_way += 1
                self.world.after(delay_ms, self._arrived, go)
            else:
                go()

    def submit(self, task: Task, buffer: RecordBuffer) -> None:
        """Queue a task that the windows wait for."""
        self.on_its_way += 1
        self._queue(partial(self._arrived, task), buffer)

    def _queue(self, task: Task, buffer: RecordBuffer) -> None:
        """Give the workers a task, with the emitter and the sequence of its buffer."""
        self.world.pool.submit(task, self.part.name, (self.emitters[buffer.origin], buffer.sequence))

    def _arrived(self, go: Callable[..., None], *worker: int) -> None:
        """Go on with what was on its way."""
        go(*worker)
        self.on_its_way -= 1
        self.flush()

    def _build(self, buffer: RecordBuffer, worker: int) -> None:
        """The windows take the records of a buffer; then time may have come for some of them."""
        assert self.window is not None
        times, keys = (buffer.rows[name].tolist() for name in ("time", "key"))
        self._note_late(buffer.origin, self.window.build(buffer.origin, times, keys))
        self._arrive(BUILD, buffer, worker)
        self._hand_on(self.window.advance(self.progress[BUILD].watermark))

    def flush(self) -> None:
        """Fire what is left, if the stream has ended and nothing is on its way any more."""
        if self.window is None or self.on_its_way or self.window.ended or not self.world.ended(self.part):
            return
        self._hand_on(self.window.end())

    def _hand_on(self, fired: Iterable[Fired]) -> None:
        """Each pair of slices of a fired window, or the window itself, is a task of the probe side."""
        assert self.window is not None
        for window in fired:
            outputs = self.window.outputs(window)
            self._note_fired(window, outputs)
            for stamp, results in outputs:
                numbers = {name: getattr(stamp, name) for name in _OF_STAMPS}
                buffer = RecordBuffer(**numbers, created_ms=self.world.now_ms, records=results)
                self._queue(partial(self._probe, buffer), buffer)

    def _probe(self, buffer: RecordBuffer, worker: int) -> None:
        assert self.window is not None
        self._arrive(PROBE, buffer, worker)
        self.output.run(buffer, worker)

    def _arrive(self, operator: str, buffer: RecordBuffer, worker: int) -> None:
        """A buffer has come to a tracker."""
        now_ms = self.world.now_ms
        self.arrivals[operator] += 1
        tracker = self.progress[operator]
        effects = tracker.step(buffer, now_ms)
        origin = tracker.origins[buffer.origin]
        windows = None if self.window is None else self.window.rules.windows
        slices = {} if windows is None else windows.records_of_slices(buffer.rows["time"].tolist())
        self.world.journal.write(
            "buffers",
            stream=self.part.name,
            operator=operator,
            arrival=self.arrivals[operator],
            arrived_ms=now_ms,
            created_ms=buffer.created_ms,
            origins=len(tracker.origins),
            emitter=self.emitters[buffer.origin],
            chunk_base=self.rules.chunk_base,
            records=buffer.records,
            slices=list(slices),
            slice_records=list(slices.values()),
            worker=worker,
            completed=any(isinstance(effect, Completed) for effect in effects),
            reached_prefix=origin.prefix,
            reached_local=origin.local,
            reached=tracker.watermark,
            **{name: getattr(buffer, name) for name in _OF_STAMPS},
        )
        for effect in effects:
            if isinstance(effect, ProtocolViolation):
                self.world.note(self.part.name, "breach", operator, effect.sentence)

    def _note_fired(self, window: Fired, outputs: Sequence[tuple[TupleBuffer, int]]) -> None:
        self.world.journal.write(
            "windows_fired",
            stream=self.part.name,
            operator=BUILD,
            origin=self.origins.ids[BUILD],
            results=sum(results for _, results in outputs),
            chunks=len(outputs),
            arrival=self.arrivals[BUILD] if window.cause == "watermark" else None,
            reached=self.progress[BUILD].watermark,
            fired_ms=self.world.now_ms,
            **{name: getattr(window, name) for name in _OF_WINDOWS},
        )

    def _note_late(self, origin: int, late: Sequence[Late]) -> None:
        if late:
            first = late[0]
            detail = f"{len(late)} of its records, first {first.time} for window {first.start} to {first.end}"
            self.world.note(self.part.name, "late", self.emitters[origin], detail)
