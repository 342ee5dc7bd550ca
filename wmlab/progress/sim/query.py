"""A query that runs: its chains of operators as tasks, its operators as those of `wmlab.progress.model`.

Each source has a route to the sink, a row of steps; where chains meet, routes share the rest of their steps. A pipeline
is a task; after windows have seen all records of a buffer they look which of them fire.

Source: "Watermarking and Progress", ChunkNumber and Triggering windows.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmlab.progress import scenario as plans
from wmlab.progress.model import operators
from wmlab.progress.model.chunks import Completed, ProtocolViolation
from wmlab.progress.model.tracker import ProgressTracker
from wmlab.progress.model.windows import (
    Fired,
    Late,
    WindowedAggregation,
    WindowedJoin,
)
from wmlab.progress.scenario import SCAN, SINK, ProgressScenario, Windowing, probe_of
from wmlab.progress.sim.records import ROW, RecordBuffer, buffers_of_source, received, stamped, trace_records
from wmlab.progress.sim.world import PlanWorld, Task
from wmlab.progress.tables import PROGRESS_TABLES

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def simulate(scenario: ProgressScenario) -> dict[str, pa.Table]:
    """Run a scenario of query plans; the rows of the run as the tables of `wmlab.progress.tables`."""
    world = PlanWorld(scenario, trace_records(scenario))
    run_queries(world)
    return world.journal.tables(PROGRESS_TABLES)


def run_queries(world: PlanWorld) -> list[QueryRun]:
    """Run all queries of a world until the workers have nothing left to do."""
    queries = [QueryRun(world, query) for query in world.scenario.queries]
    for query in queries:
        query.begin()
    world.run()
    return queries


def uniform_of(numbers: NDArray[np.uint64], salt: int) -> NDArray[np.float64]:
    """Of each number one from [0, 1), as if at random: the finisher of SplitMix64 (Steele, Lea, Flood 2014)."""
    step, first, second = _MIX
    with np.errstate(over="ignore"):
        mixed = (numbers ^ np.uint64(salt)) * step + step
        mixed = (mixed ^ (mixed >> np.uint64(30))) * first
        mixed = (mixed ^ (mixed >> np.uint64(27))) * second
    return (mixed ^ (mixed >> np.uint64(31))) / 2.0**64


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operator of a route: what becomes of a buffer, and the name under which it follows progress, if it does.

    What comes out goes on in the same task or, if the operator `ends` a pipeline, each buffer in one of its own; `done`
    is called when such a task has been executed, and gives what may go on then. `makes_chunks` is for an emission,
    which numbers chunks, `windows` are those that the operator builds.
    """

    process: Callable[[RecordBuffer], Sequence[RecordBuffer]]
    tracker: str | None = None
    ends: bool = False
    makes_chunks: bool = False
    done: Callable[[RecordBuffer], Sequence[RecordBuffer]] | None = None
    reads_records: bool = False
    windows: WindowRun | None = None


Route: TypeAlias = tuple[Step, ...]
"""The steps from a source to the sink, which is the last one."""

_OF_STAMPS: Final = ("origin", "sequence", "chunk", "last", "watermark")
_OF_WINDOWS: Final = ("sequence", "start", "end", "records", "cause")
"""The fields of a stamp and of a fired window that are columns of their tables."""


@dataclass(slots=True, eq=False)
class WindowRun:
    """The windows of a query called `name` as they run.

    `on_its_way` counts what has still to come to them; when nothing has, and the stream and all windows that they
    `read` have ended, they are flushed. `route` and `index` are where what they put out goes on; `results` counts it.
    """

    name: str
    operator: WindowedAggregation
    read: set[WindowRun] = field(default_factory=set)
    route: Route = ()
    index: int = 0
    on_its_way: int = 0
    results: int = 0

    def rows(self, keys: Mapping[int, int], time: int) -> NDArray[np.void]:
        """The records of one output, all of one time, of which there are so many with each key."""
        rows = np.empty(sum(keys.values()), ROW)
        rows["time"] = time
        rows["key"] = [key for key, count in sorted(keys.items()) for _ in range(count)]
        first = np.uint64((zlib.crc32(self.name.encode()) << 32) + self.results)
        rows["number"] = first + np.arange(len(rows), dtype=np.uint64)
        self.results += len(rows)
        return rows


class QueryRun:
    """The state of one query: the routes of its sources, its windows, and a tracker per operator that follows time."""

    def __init__(self, world: PlanWorld, part: plans.Query) -> None:
        self.world = world
        self.part = part
        self.rules = world.scenario.rules.trackers
        self.origins = plans.origins_of(part)
        self.emitters = self.origins.emitters
        self.progress = {name: ProgressTracker(inputs, self.rules) for name, inputs in self.origins.inputs.items()}
        self.arrivals = dict.fromkeys(self.progress, 0)
        self.windows: dict[str, WindowRun] = {}
        sink = Step(process=lambda buffer: (buffer,), tracker=SINK)
        self.routes = {source.name: (*route, sink) for source, route in self._routes(part)}
        for route in self.routes.values():
            built: set[WindowRun] = set()
            for index, step in enumerate(route, 1):
                if step.windows is not None:
                    step.windows.route, step.windows.index = route, index
                    step.windows.read |= built
                    built.add(step.windows)

    def _routes(self, part: plans.Source | plans.Branch) -> Iterator[tuple[plans.Source, Route]]:
        """Each source of a part with its steps up to the end of the part's own chain."""
        if isinstance(part, plans.Source):
            below: list[tuple[plans.Source, Route]] = [(part, ())]
        else:
            below = [route for entry in part.sources for route in self._routes(entry)]
        chain = tuple(self._steps(part))
        for source, route in below:
            steps = (*route, *chain)
            if part is self.part and self.world.scenario.rules.stamped == "filter" and source.stamp == "event_time":
                end = next((index for index, step in enumerate(steps) if step.ends), len(steps))
                stamp = Step(process=partial(_restamped, source=source))
                steps = (*steps[:end], stamp, *steps[end:])
            yield source, steps

    def _steps(self, part: plans.Source | plans.Branch) -> Iterator[Step]:
        """The steps of the chain of one part."""
        base = self.rules.chunk_base
        for index, (operator, name) in enumerate(self.origins.chain(part)):
            match operator:
                case plans.Filter(keep=keep):
                    salt = zlib.crc32(f"filter {index} of {part.name}".encode())
                    yield Step(process=partial(_filtered, keep=keep, salt=salt), reads_records=True)
                case plans.Projection(growth=growth):
                    yield Step(process=partial(_grown, growth=growth))
                case plans.Emit(buffer_records=capacity):
                    emit = operators.Emit(partial(split_to_capacity, capacity=capacity), base)
                    yield Step(process=emit.take, ends=True, makes_chunks=True)
                case plans.Renumber():
                    inputs = self.origins.inputs[name]
                    renumber = operators.Renumber(self.origins.ids[name], inputs, self.rules, joined_chunks)
                    yield Step(process=renumber.take, tracker=name, ends=True)
                case plans.InOrder():
                    order = operators.InOrder[RecordBuffer]("keep", base)
                    yield Step(process=order.take, tracker=name, ends=True, done=order.done)
                case Windowing():
                    windows = WindowRun(name, self._window_operator(operator, name))
                    self.windows[name] = windows
                    build = partial(self._build, windows)
                    yield Step(process=build, tracker=name, ends=True, reads_records=True, windows=windows)
                    yield Step(process=lambda buffer: (buffer,), tracker=probe_of(name))

    def _window_operator(self, part: plans.Aggregate | plans.Join, name: str) -> WindowedAggregation:
        by = self.world.scenario.rules
        rules = plans.firing_rules_of(part, by.trigger)
        if isinstance(part, plans.Aggregate):
            return WindowedAggregation(rules, self.origins.ids[name], self.rules.chunk_base)
        sides = {origin: int(origin not in self.origins.left[name]) for origin in self.origins.inputs[name]}
        return WindowedJoin(rules, self.origins.ids[name], self.rules.chunk_base, sides=sides, carries=by.carries)

    def begin(self) -> None:
        """Send the buffers of all sources in their time, those with a fault as it has it."""
        world, query = self.world, self.part.name
        for source in self.part.physical:
            silent_ms = world.note_silence(query, source.name)
            route, empty = self.routes[source.name], world.empty_of(source.name)
            records = received(source, world.scenario, world.traces.get(source.name))
            for sent_ms, buffer in buffers_of_source(
                records,
                source,
                world.scenario,
                origin=self.origins.ids[source.name],
                silent_ms=silent_ms,
                empty=empty,
            ):
                for delay_ms in world.faulty(query, (source.name, buffer.sequence, None), buffer.records, sent_ms):
                    self._expect(route, 0, 1)
                    world.at(sent_ms + delay_ms, self._scan, source, buffer)
        world.at(world.end_ms, self._flush)

    def _scan(self, source: plans.Source, buffer: RecordBuffer) -> None:
        """A buffer of a source reaches the queue of the workers."""
        self._arrive(SCAN, buffer, None)
        per_record_ms = self.world.scenario.workers.event_time_record_ms if source.stamp == "event_time" else 0.0
        route = self.routes[source.name]
        self._submit(route, 0, buffer, partial(self._run, route, 0, buffer), buffer.records * per_record_ms)
        self._expect(route, 0, -1)

    def _expect(self, route: Route, index: int, count: int) -> None:
        """Change by `count` how much is on its way, before the step at `index`, to the windows that come next."""
        windows = next((step.windows for step in route[index:] if step.windows is not None), None)
        if windows is not None:
            windows.on_its_way += count

    def _submit(self, route: Route, index: int, buffer: RecordBuffer, task: Task, more_ms: float = 0.0) -> None:
        """Queue a task that begins with the step at `index`, for which the next windows wait."""
        self._expect(route, index, 1)
        named = (self.emitters[buffer.origin], buffer.sequence)
        self.world.pool.submit(partial(self._arrived, route, index, task), self.part.name, named, more_ms)

    def _arrived(self, route: Route, index: int, go: Callable[..., None], *worker: int) -> None:
        """Go on with what was on its way."""
        go(*worker)
        self._expect(route, index, -1)
        self._flush()

    def _run(self, route: Route, begin: int, buffer: RecordBuffer, worker: int) -> None:
        """Execute the pipeline that begins with the step at `begin`."""
        for index, step in enumerate(route[begin:], begin + 1):
            if step.tracker is not None:
                self._arrive(step.tracker, buffer, worker)
            buffers = step.process(buffer)
            if step.ends:
                self._hand_on(route, index, buffers, worker)
                return
            (buffer,) = buffers

    def _hand_on(self, route: Route, index: int, buffers: Sequence[RecordBuffer], worker: int) -> None:
        """Go on at `index` with each buffer that a pipeline put out: as a task, or at once where only the sink is left.

        The script may have faults for the chunks of a source's buffer.
        """
        for buffer in buffers:
            execute = partial(self._execute, route, index, buffer)
            at_end = index == len(route) - 1
            go = partial(execute, worker) if at_end else partial(self._submit, route, index, buffer, execute)
            delays_ms = [0]
            if route[index - 1].makes_chunks:
                chunk = (self.emitters[buffer.origin], buffer.sequence, buffer.chunk)
                delays_ms = self.world.faulty(self.part.name, chunk, buffer.records, self.world.now_ms)
            for delay_ms in delays_ms:
                if delay_ms:
                    self._expect(route, index, 1)
                    self.world.after(delay_ms, self._arrived, route, index, go)
                else:
                    go()

    def _execute(self, route: Route, index: int, buffer: RecordBuffer, worker: int) -> None:
        self._run(route, index, buffer, worker)
        done = route[index - 1].done
        if done is not None:
            self._hand_on(route, index, done(buffer), worker)

    def _build(self, windows: WindowRun, buffer: RecordBuffer) -> list[RecordBuffer]:
        """The windows take the records of a buffer; then time may have come for some of them."""
        times, keys = (buffer.rows[name].tolist() for name in ("time", "key"))
        self._note_late(buffer.origin, windows.operator.build(buffer.origin, times, keys))
        return self._fire(windows, windows.operator.advance(self.progress[windows.name].watermark))

    def _flush(self) -> None:
        """Fire what is left in windows to which nothing can come any more."""
        if not self.world.ended(self.part):
            return
        for windows in self.windows.values():
            reading = windows.on_its_way or not all(read.operator.ended for read in windows.read)
            if not reading and not windows.operator.ended:
                fired = self._fire(windows, windows.operator.end())
                self._hand_on(windows.route, windows.index, fired, worker=0)

    def _fire(self, windows: WindowRun, fired: Iterable[Fired]) -> list[RecordBuffer]:
        """The buffers of the probe side: one for each pair of slices of a fired window, or for the window itself."""
        buffers = []
        read = any(step.reads_records for step in windows.route[windows.index :])
        for window in fired:
            outputs = windows.operator.outputs(window)
            results = [sum(keys.values()) for _, keys in outputs]
            self._note_fired(windows.name, window, results)
            for (stamp, keys), records in zip(outputs, results, strict=True):
                numbers = {name: getattr(stamp, name) for name in _OF_STAMPS}
                rows = windows.rows(keys if read else {}, window.start)
                buffers.append(RecordBuffer(**numbers, created_ms=self.world.now_ms, records=records, rows=rows))
        return buffers

    def _arrive(self, operator: str, buffer: RecordBuffer, worker: int | None) -> None:
        """A buffer has come to a tracker. What breaks the protocol is noted but at a scan, which goes by no tracker."""
        now_ms = self.world.now_ms
        self.arrivals[operator] += 1
        tracker = self.progress[operator]
        effects = tracker.step(buffer, now_ms)
        origin = tracker.origins[buffer.origin]
        slices = {}
        if operator in self.windows:
            windows = self.windows[operator].operator.rules.windows
            slices = windows.records_of_slices(buffer.rows["time"].tolist())
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
            if isinstance(effect, ProtocolViolation) and operator != SCAN:
                self.world.note(self.part.name, "breach", operator, effect.sentence)

    def _note_fired(self, operator: str, window: Fired, results: Sequence[int]) -> None:
        self.world.journal.write(
            "windows_fired",
            stream=self.part.name,
            operator=operator,
            origin=self.origins.ids[operator],
            results=sum(results),
            chunks=len(results),
            arrival=self.arrivals[operator] if window.cause == "watermark" else None,
            reached=self.progress[operator].watermark,
            fired_ms=self.world.now_ms,
            **{name: getattr(window, name) for name in _OF_WINDOWS},
        )

    def _note_late(self, origin: int, late: Sequence[Late]) -> None:
        if late:
            first = late[0]
            detail = f"{len(late)} of its records, first {first.time} for window {first.start} to {first.end}"
            self.world.note(self.part.name, "late", self.emitters[origin], detail)


def _filtered(buffer: RecordBuffer, *, keep: float, salt: int) -> tuple[RecordBuffer]:
    """The buffer without the records that a filter leaves out, by a number drawn from each record's own."""
    rows = buffer.rows[uniform_of(buffer.rows["number"], salt) < keep]
    return (replace(buffer, rows=rows, records=len(rows)),)


def _grown(buffer: RecordBuffer, *, growth: float) -> tuple[RecordBuffer]:
    """The buffer with larger records."""
    return (replace(buffer, size=buffer.size * growth),)


def _restamped(buffer: RecordBuffer, *, source: plans.Source) -> tuple[RecordBuffer]:
    """The buffer with the watermark of the records it still has, at the end of its first pipeline."""
    return (replace(buffer, watermark=stamped(source, buffer.created_ms, buffer.rows["time"])),)
