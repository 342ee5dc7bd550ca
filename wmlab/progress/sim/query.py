"""A query that runs: its chains of operators as tasks, its operators as the states of `wmlab.progress.model`.

A `Change` happens inside a pipeline. An `End` ends one: each buffer that it returns is another task. A sequencer also
gets notice when that task is `done`.

Each pipeline is a task; after a stateful operator has seen all records of a buffer it looks which windows it can fire.

Source: "Watermarking and Progress", ChunkNumber and Triggering windows.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from wmlab.progress import scenario as plans
from wmlab.progress.model.chunks import Completed, Finding
from wmlab.progress.model.numbers import UNBOUNDED, ChunkBase, Place, Sequencer, TupleBuffer
from wmlab.progress.model.tracker import ProgressRules, ProgressTracker
from wmlab.progress.model.windows import (
    CollectedSlice,
    Fired,
    Firing,
    FiringRules,
    JoinTables,
    Late,
    Rechunking,
    Renumbering,
    Windows,
    window_output,
)
from wmlab.progress.scenario import BUILD, PROBE, SINK
from wmlab.progress.sim.records import Filled, stamped

if TYPE_CHECKING:
    from wmlab.progress.sim.world import PlanWorld

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def filtered(buffer: Filled, keep: float, salt: int) -> Filled:
    """The buffer without the records that a filter leaves out, by a number drawn from each record's own."""
    rows = buffer.rows[luck(buffer.rows["number"], salt) < keep]
    return replace(buffer, rows=rows, records=len(rows))


def luck(numbers: NDArray[np.uint64], salt: int) -> NDArray[np.float64]:
    """Of each number one from [0, 1), as if at random: the finisher of SplitMix64 (Steele, Lea, Flood 2014)."""
    step, first, second = _MIX
    with np.errstate(over="ignore"):
        mixed = (numbers ^ np.uint64(salt)) * step + step
        mixed = (mixed ^ (mixed >> np.uint64(30))) * first
        mixed = (mixed ^ (mixed >> np.uint64(27))) * second
    return (mixed ^ (mixed >> np.uint64(31))) / 2.0**64


def grown(buffer: Filled, growth: float) -> Filled:
    """The buffer with larger records."""
    return replace(buffer, size=buffer.size * growth)


def restamped(buffer: Filled, source: plans.Source) -> Filled:
    """The buffer with the watermark of the records it still has, at the end of its first pipeline."""
    watermark = stamped(source, buffer.created_ms, buffer.rows["time"])
    return replace(buffer, stamp=replace(buffer.stamp, watermark=watermark))


class Emitting:
    """Cuts what has outgrown a buffer into chunks, for each origin on its own."""

    name: str | None = None

    def __init__(self, part: plans.Emit, rules: ProgressRules) -> None:
        self._part = part
        # Whatever the trackers believe, the emission closes a sequence on its true last chunk.
        rules = ProgressRules(chunk_base=rules.chunk_base)
        self._origins: dict[int, Rechunking] = defaultdict(lambda: Rechunking(rules))

    def take(self, buffer: Filled) -> list[Filled]:
        """The chunks that a buffer becomes, at least one."""
        capacity = self._part.buffer_records or buffer.capacity
        # Rounded, so that ten records of size 1.1 fill a buffer of eleven.
        volume = round(buffer.records * buffer.size, 6)
        count = 1 if capacity is None else max(1, math.ceil(volume / capacity))
        made, _ = self._origins[buffer.stamp.origin].emit(buffer.stamp, count)
        edges = pairwise(number * buffer.records // count for number in range(count + 1))
        return [
            replace(buffer, stamp=stamp, records=end - begin, rows=buffer.rows[begin:end])
            for stamp, (begin, end) in zip(made, edges, strict=False)
        ]


class Blocking:
    """Gives new numbers to what lies in the longest complete prefixes, a whole sequence in one buffer."""

    def __init__(self, part: plans.Renumber, origin: int, inputs: tuple[int, ...], rules: ProgressRules) -> None:
        self.name: str | None = part.name
        self._state = Renumbering(origin, inputs, rules)
        self._waiting: dict[tuple[int, int], list[Filled]] = {}

    def take(self, buffer: Filled) -> list[Filled]:
        """The sequences that go on because a buffer has come."""
        self._waiting.setdefault((buffer.stamp.origin, buffer.stamp.sequence), []).append(buffer)
        made, _ = self._state.emit(buffer.stamp)
        return [self._whole(new.origin, new.sequence, new.buffer) for new in made]

    def _whole(self, origin: int, sequence: int, stamp: TupleBuffer) -> Filled:
        """The chunks of a sequence as one buffer, in the order of their numbers."""
        chunks = sorted(self._waiting.pop((origin, sequence)), key=lambda chunk: chunk.stamp.chunk)
        return replace(
            chunks[0],
            stamp=stamp,
            created_ms=min(chunk.created_ms for chunk in chunks),
            records=sum(chunk.records for chunk in chunks),
            rows=np.concatenate([chunk.rows for chunk in chunks]),
        )


class Ordering:
    """Releases the buffers of each origin one at a time, in the order of sequence and chunk."""

    def __init__(self, part: plans.InOrder, rules: ProgressRules) -> None:
        self.name: str | None = part.name
        self._start = Sequencer(part.policy, rules.chunk_base)
        self._states: dict[int, Sequencer] = {}
        self._parked: dict[tuple[int, Place], Filled] = {}

    def take(self, buffer: Filled) -> list[Filled]:
        """The buffer that is released because this one has come, if any."""
        stamp = buffer.stamp
        place = (stamp.sequence, stamp.chunk)
        self._parked[stamp.origin, place] = buffer
        state = self._states.get(stamp.origin, self._start)
        return self._released(stamp.origin, *state.take(place, stamp.last))

    def done(self, buffer: Filled) -> list[Filled]:
        """The buffer that is released because one in hand has been executed, if any."""
        stamp = buffer.stamp
        return self._released(stamp.origin, *self._states[stamp.origin].ack((stamp.sequence, stamp.chunk)))

    def _released(self, origin: int, state: Sequencer, place: Place | None) -> list[Filled]:
        self._states[origin] = state
        released = [] if place is None else [self._parked.pop((origin, place))]
        if state.policy == "drop":
            kept = {(origin, parked) for parked, _ in state.parked}
            self._parked = {key: held for key, held in self._parked.items() if key[0] != origin or key in kept}
        return released


Change = Callable[[Filled], Filled]
"""An operator inside a pipeline."""
End = Emitting | Blocking | Ordering
"""An operator that ends a pipeline; `name` is under which it follows progress, None if it does not."""
Step = Change | End
Task = Callable[[int], None]
"""What happens when a worker, whose number it gets, has executed a task."""
Handler = Callable[[Filled, int], None]
"""What a buffer comes to, with the worker that executed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Operators one after another, and what stands at their end.

    `submit` queues a task. With `fused` the last pipeline and what stands at the end are one task, as in a build of
    windows; otherwise the end is reached as soon as the last pipeline has put the buffer out. `pass_on` is given every
    chunk of an emission with what hands it on.
    """

    steps: Sequence[Step]
    end: Handler
    arrive: Callable[[str, Filled, int], None]
    submit: Callable[[Task], None]
    fused: bool
    pass_on: Callable[[Filled, Callable[[], None]], None] = lambda _, go: go()

    def run(self, buffer: Filled, worker: int, begin: int = 0) -> None:
        """Execute the pipeline that begins with step `begin`."""
        for index, step in enumerate(self.steps[begin:], begin + 1):
            if not isinstance(step, End):
                buffer = step(buffer)
                continue
            if step.name is not None:
                self.arrive(step.name, buffer, worker)
            self._hand_on(step, step.take(buffer), index, worker)
            return
        self.end(buffer, worker)

    def _hand_on(self, step: End, buffers: Sequence[Filled], index: int, worker: int) -> None:
        for buffer in buffers:
            go = partial(self.submit, partial(self._execute, step, buffer, index))
            if index == len(self.steps) and not self.fused:
                go = partial(self._execute, step, buffer, index, worker)
            if isinstance(step, Emitting):
                self.pass_on(buffer, go)
            else:
                go()

    def _execute(self, step: End, buffer: Filled, index: int, worker: int) -> None:
        self.run(buffer, worker, index)
        if isinstance(step, Ordering):
            self._hand_on(step, step.done(buffer), index, worker)


def steps_of(operators: Sequence[object], origins: plans.Origins, rules: ProgressRules, name: str) -> list[Step]:
    """The steps of one chain; `name` tells its filters from those of other chains."""
    made: list[Step] = []
    for index, operator in enumerate(operators):
        match operator:
            case plans.Filter():
                salt = zlib.crc32(f"filter {index} of {name}".encode())
                made.append(partial(filtered, keep=operator.keep, salt=salt))
            case plans.Map():
                made.append(partial(grown, growth=operator.growth))
            case plans.Emit():
                made.append(Emitting(operator, rules))
            case plans.Renumber():
                made.append(Blocking(operator, origins.ids[operator.name], origins.inputs[operator.name], rules))
            case plans.InOrder():
                made.append(Ordering(operator, rules))
    return made


Output = tuple[Fired, list[tuple[TupleBuffer, int]]]
"""A fired window as the probe is given it: one task per stamp, each with its number of results."""


_OF_STAMPS: Final = ("origin", "sequence", "chunk", "last", "watermark")
_OF_WINDOWS: Final = ("sequence", "start", "end", "records", "cause", "again")
"""The fields of a stamp and of a fired window that are columns of their tables."""


class Windowing:
    """The windows of one query: `firing` says when, `tables` hold what a join matches."""

    def __init__(self, query: plans.Query, part: plans.Windowed, origins: plans.Origins, base: ChunkBase) -> None:
        self.windows = Windows(part.size_ms, part.slide_ms or part.size_ms)
        self.firing = Firing(
            FiringRules(
                windows=self.windows, trigger=part.trigger, emit_lag=part.emit_lag_ms, forget_fired=part.forget_fired
            )
        )
        self.tables = JoinTables(self.windows) if isinstance(part, plans.Join) else None
        left = (part.left or (query.sources[0].name,)) if isinstance(part, plans.Join) else ()
        self._carries_largest = isinstance(part, plans.Join) and part.carries == "largest"
        # The side of each origin of a join, 0 for left and 1 for right.
        self._sides = {origin: int(name not in left) for name, origin in origins.at_end.items()}
        self._origin = origins.ids[BUILD]
        self._base = base

    def build(self, buffer: Filled) -> tuple[Late, ...]:
        """Take the records of a buffer; those that come too late are named."""
        times = buffer.rows["time"].tolist()
        late = self.firing.fill(times)
        if self.tables is not None:
            self.tables.build(times, buffer.rows["key"].tolist(), self._sides[buffer.stamp.origin])
        return late

    def advance(self, watermark: int | None) -> list[Output]:
        """The windows that the global watermark fires."""
        return [self._output(window) for window in self.firing.advance(watermark)]

    def end(self) -> list[Output]:
        """The windows that are left at the end of the stream."""
        return [self._output(window) for window in self.firing.end()]

    def collect(self, watermark: int | None) -> tuple[CollectedSlice, ...]:
        """The slices that the probe has done with at its watermark."""
        return () if self.tables is None else self.tables.collect(watermark)

    def slices(self, times: Iterable[int]) -> dict[int, int]:
        """How many of these times fall in each slice, by its start, ascending."""
        return dict(sorted(Counter(self.windows.slice_of(time)[0] for time in times).items()))

    def _output(self, window: Fired) -> Output:
        if self.tables is None:
            return window, [(stamp, 1) for stamp in window_output(window, self._origin, self._base)]
        pairs = self.tables.pairs(window.start, window.end)
        matches = [self.tables.matches(*pair) for pair in pairs] or [0]
        stamps = window_output(window, self._origin, self._base, pairs=len(pairs))
        if self._carries_largest and pairs:
            largest = [self.tables.largest(*pair) for pair in pairs]
            stamps = tuple(replace(stamp, watermark=time) for stamp, time in zip(stamps, largest, strict=True))
        return window, list(zip(stamps, matches, strict=True))


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
        self.window = None if part.window is None else Windowing(part, part.window, self.origins, scenario.chunk_base)
        shared = steps_of(part.operators, self.origins, self.rules, part.name)
        self.chains = [self._chain(source, shared) for source in part.sources]
        behind = steps_of(part.output, self.origins, self.rules, f"output of {part.name}")
        sink = partial(self._arrive, SINK)
        self.output = Chain(steps=behind, end=sink, arrive=self._arrive, submit=world.pool.submit, fused=False)
        self.on_its_way = 0

    def _chain(self, source: plans.Source, shared: Sequence[Step]) -> Chain:
        steps = [*steps_of(source.operators, self.origins, self.rules, source.name), *shared]
        if source.stamped == "filter" and source.stamp == "event_time":
            first = next((index for index, step in enumerate(steps) if isinstance(step, End)), len(steps))
            steps.insert(first, partial(restamped, source=source))
        fused = self.window is not None
        end = self._build if fused else partial(self._arrive, SINK)
        return Chain(steps=steps, end=end, arrive=self._arrive, submit=self.submit, fused=fused, pass_on=self._pass_on)

    def send(self, index: int, buffer: Filled) -> None:
        """A buffer of the source at `index` reaches the queue of the workers."""
        self.submit(partial(self.chains[index].run, buffer))
        self.on_its_way -= 1

    def _pass_on(self, buffer: Filled, go: Callable[[], None]) -> None:
        """Hand a chunk on by `go`, with the faults that the script has for it."""
        stamp = buffer.stamp
        place = (self.emitters[stamp.origin], stamp.sequence, stamp.chunk)
        for delay_ms in self.world.faulty(self.part.name, place, buffer.records, self.world.now_ms):
            if delay_ms:
                self.on_its_way += 1
                self.world.after(delay_ms, self._arrived, go)
            else:
                go()

    def submit(self, task: Task) -> None:
        """Queue a task that the windows wait for."""
        self.on_its_way += 1
        self.world.pool.submit(partial(self._arrived, task))

    def _arrived(self, go: Callable[..., None], *worker: int) -> None:
        """Go on with what was on its way."""
        go(*worker)
        self.on_its_way -= 1
        self.flush()

    def _build(self, buffer: Filled, worker: int) -> None:
        """The windows take the records of a buffer; then time may have come for some of them."""
        assert self.window is not None
        self._note_late(buffer.stamp.origin, self.window.build(buffer))
        self._arrive(BUILD, buffer, worker)
        self._hand_on(self.window.advance(self.progress[BUILD].watermark))

    def flush(self) -> None:
        """Fire what is left, if the stream has ended and nothing is on its way any more."""
        if self.window is None or self.on_its_way or self.window.firing.ended or not self.world.ended(self.part):
            return
        self._hand_on(self.window.end())

    def finish(self) -> None:
        """Write down the slices that a join was left with."""
        if self.window is not None:
            self._note_slices(self.window.collect(UNBOUNDED))

    def _hand_on(self, fired: Iterable[Output]) -> None:
        """Each pair of slices of a fired window, or the window itself, is a task of the probe side."""
        for window, parts in fired:
            self._note_fired(window, parts)
            for stamp, results in parts:
                self.world.pool.submit(partial(self._probe, Filled(stamp, self.world.now_ms, results)))

    def _probe(self, buffer: Filled, worker: int) -> None:
        assert self.window is not None
        self._arrive(PROBE, buffer, worker)
        reached = self.progress[PROBE].watermark
        self._note_slices(self.window.collect(reached), collected_ms=self.world.now_ms, reached=reached)
        self.output.run(buffer, worker)

    def _arrive(self, operator: str, buffer: Filled, worker: int) -> None:
        """A buffer has come to a tracker."""
        stamp, now_ms = buffer.stamp, self.world.now_ms
        self.arrivals[operator] += 1
        tracker = self.progress[operator]
        effects = tracker.step(stamp, now_ms)
        origin = tracker.origins[stamp.origin]
        slices = self.window.slices(buffer.rows["time"].tolist()) if self.window else {}
        self.world.journal.write(
            "buffers",
            stream=self.part.name,
            operator=operator,
            arrival=self.arrivals[operator],
            arrived_ms=now_ms,
            created_ms=buffer.created_ms,
            origins=len(tracker.origins),
            emitter=self.emitters[stamp.origin],
            chunk_base=self.rules.chunk_base,
            records=buffer.records,
            slices=list(slices),
            slice_records=list(slices.values()),
            worker=worker,
            completed=any(isinstance(effect, Completed) for effect in effects),
            reached_prefix=origin.prefix,
            reached_local=origin.local,
            reached=tracker.watermark,
            **{name: getattr(stamp, name) for name in _OF_STAMPS},
        )
        for effect in effects:
            if isinstance(effect, Finding):
                self.world.note(self.part.name, "breach", operator, effect.sentence)

    def _note_fired(self, window: Fired, parts: Sequence[tuple[TupleBuffer, int]]) -> None:
        self.world.journal.write(
            "windows_fired",
            stream=self.part.name,
            operator=BUILD,
            origin=self.origins.ids[BUILD],
            results=sum(results for _, results in parts),
            chunks=len(parts),
            arrival=self.arrivals[BUILD] if window.cause == "watermark" else None,
            reached=self.progress[BUILD].watermark,
            fired_ms=self.world.now_ms,
            **{name: getattr(window, name) for name in _OF_WINDOWS},
        )
        if window.again:
            detail = f"window {window.start} to {window.end} as output {window.sequence}"
            self.world.note(self.part.name, "double fire", BUILD, detail)

    def _note_slices(
        self, slices: Iterable[CollectedSlice], *, collected_ms: int | None = None, reached: int | None = None
    ) -> None:
        entry = {"stream": self.part.name, "operator": PROBE, "collected_ms": collected_ms, "reached": reached}
        for collected in slices:
            self.world.journal.write("slices", **asdict(collected), **entry)

    def _note_late(self, origin: int, late: Sequence[Late]) -> None:
        if late:
            first = late[0]
            detail = f"{len(late)} of its records, first {first.time} for window {first.start} to {first.end}"
            self.world.note(self.part.name, "late", self.emitters[origin], detail)
