"""A query that runs: its chains as tasks, its operators as the states of `wmlab.progress.model`.

Its windowed operator holds what it has built, which windows fire, and what the probe is given.

Source: "Watermarking and Progress", Triggering windows; the rules are those of `wmlab.progress.model`; "Watermarking
and Progress"; each pipeline is a task, and after a stateful operator has seen all records of a buffer it looks which
windows it can fire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from wmlab.progress.model.chunks import Completed, Effect, Finding
from wmlab.progress.model.identifiers import ChunkBase, TupleBuffer
from wmlab.progress.model.outputs import aggregated, joined
from wmlab.progress.model.tracker import Progress, ProgressRules, step
from wmlab.progress.model.windows import Fired, Firing, FiringRules, JoinTables, Late, Windows
from wmlab.progress.scenario.parts import (
    BUILD,
    PROBE,
    SINK,
    Aggregate,
    Join,
    Operator,
    Origins,
    Query,
    Source,
    origins_of,
)
from wmlab.progress.sim.records import CutBuffer
from wmlab.progress.sim.steps import Chain, End, Filled, Stamping, Step, steps_of
from wmlab.progress.sim.workers import Task

if TYPE_CHECKING:
    from wmlab.progress.sim.world import PlanWorld


@dataclass(frozen=True, slots=True)
class Output:
    """A fired window as the probe is given it: one task per stamp, with the number of results of each."""

    window: Fired
    stamps: tuple[TupleBuffer, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """A slice of a join, with its records left and right."""

    start: int
    end: int
    left: int
    right: int


class Windowing:
    """The windows of one query: `firing` says when, `tables` hold what a join matches."""

    def __init__(self, query: Query, part: Aggregate | Join, origins: Origins, base: ChunkBase) -> None:
        slide = part.size_ms if part.slide_ms is None else part.slide_ms
        self.windows = Windows(part.size_ms, slide)
        self.firing = Firing(FiringRules(windows=self.windows, trigger=part.trigger, forget_fired=part.forget_fired))
        self.tables = JoinTables(self.windows) if isinstance(part, Join) else None
        self._sides = _sides(query, part, origins)
        self._origin = origins.ids[BUILD]
        self._base = base

    def build(self, buffer: Filled) -> tuple[Late, ...]:
        """Take the records of a buffer; those that come too late are named."""
        assert buffer.rows is not None
        times = buffer.rows.time.tolist()
        self.firing, late = self.firing.fill(times)
        if self.tables is not None:
            self.tables = self.tables.build(times, buffer.rows.key.tolist(), self._sides[buffer.stamp.origin])
        return late

    def advance(self, watermark: int | None) -> list[Output]:
        """The windows that the global watermark fires."""
        self.firing, fired = self.firing.advance(watermark)
        return [self._output(window) for window in fired]

    def end(self) -> list[Output]:
        """The windows that are left at the end of the stream."""
        self.firing, fired = self.firing.end()
        return [self._output(window) for window in fired]

    def collect(self, watermark: int | None) -> list[Collected]:
        """The slices that the probe has done with at its watermark."""
        if self.tables is None:
            return []
        before = self.tables
        self.tables, gone = before.collect(watermark)
        return [self._slice(before, start) for start in gone]

    def left_over(self) -> list[Collected]:
        """The slices that the probe has never thrown away."""
        tables = self.tables
        return [] if tables is None else [self._slice(tables, start) for start, _ in tables.slices]

    def slices(self, times: Sequence[int]) -> dict[int, int]:
        """How many of these times fall in each slice, by its start, ascending."""
        counts: dict[int, int] = {}
        for time in times:
            start = self.windows.slice_of(time)[0]
            counts[start] = counts.get(start, 0) + 1
        return dict(sorted(counts.items()))

    def _output(self, window: Fired) -> Output:
        if self.tables is None:
            return Output(window, aggregated(window, self._origin, self._base), (1,))
        pairs = self.tables.pairs(window.start, window.end)
        stamps = joined(window, len(pairs), self._origin, self._base)
        return Output(window, stamps, tuple(self.tables.matches(*pair) for pair in pairs) or (0,))

    def _slice(self, tables: JoinTables, start: int) -> Collected:
        return Collected(*self.windows.slice_of(start), *tables.records(start))


def _sides(query: Query, part: Aggregate | Join, origins: Origins) -> Mapping[int, int]:
    """The side of each origin of a join, 0 for left and 1 for right."""
    left = (part.left or (query.sources[0].name,)) if isinstance(part, Join) else ()
    return {origin: int(name not in left) for name, origin in origins.at_end.items()}


class QueryRun:
    """The state of one query: the chains of its sources, its windows, and a tracker per operator that follows time.

    `on_its_way` counts what has still to come to the windows; when nothing has, and the stream has ended, they are
    flushed.
    """

    def __init__(self, world: PlanWorld, part: Query) -> None:
        self.world = world
        self.part = part
        scenario = world.scenario
        self.rules = ProgressRules(chunk_base=scenario.chunk_base, complete=scenario.complete, local=scenario.local)
        self.origins = origins_of(part)
        self.emitters = self.origins.emitters
        self.progress = {name: Progress.start(inputs, self.rules) for name, inputs in self.origins.inputs.items()}
        self.arrivals = dict.fromkeys(self.progress, 0)
        self.window = None if part.window is None else Windowing(part, part.window, self.origins, scenario.chunk_base)
        shared = steps_of(part.operators, self.origins, self.rules, part.name)
        self.chains = [self._chain(source, shared) for source in part.sources]
        self.output = self._output_chain(part)
        self.on_its_way = 0

    def _chain(self, source: Source, shared: Sequence[Step]) -> Chain:
        own: Sequence[Operator] = source.operators
        steps = [*steps_of(own, self.origins, self.rules, source.name), *shared]
        if source.stamped == "filter" and source.stamp == "event_time":
            first = next((place for place, one in enumerate(steps) if isinstance(one, End)), len(steps))
            steps.insert(first, Stamping(source))
        fused = self.window is not None
        end = self._build if fused else partial(self._arrive, SINK)
        return Chain(steps, end, arrive=self._arrive, submit=self.submit, fused=fused)

    def _output_chain(self, part: Query) -> Chain:
        steps = steps_of(part.output, self.origins, self.rules, f"output of {part.name}")
        end = partial(self._arrive, SINK)
        return Chain(steps, end, arrive=self._arrive, submit=self.world.pool.submit, fused=False)

    def send(self, place: int, cut: CutBuffer) -> None:
        """A source's buffer reaches the queue of the workers."""
        source = self.part.sources[place]
        stamp = TupleBuffer(self.origins.ids[source.name], cut.sequence, self.rules.chunk_base, True, cut.watermark)
        buffer = Filled(stamp, cut.created_ms, len(cut.rows), cut.rows, capacity=source.buffer_records)
        self.submit(partial(self.chains[place].run, buffer))
        self.on_its_way -= 1

    def submit(self, task: Task) -> None:
        """Queue a task that the windows wait for."""
        self.on_its_way += 1
        self.world.pool.submit(partial(self._executed, task))

    def _executed(self, task: Task, worker: int) -> None:
        task(worker)
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
            self._note_slices(self.window.left_over(), collected=False)

    def _hand_on(self, fired: Iterable[Output]) -> None:
        """Each pair of slices of a fired window, or the window itself, is a task of the probe side."""
        for output in fired:
            self._note_fired(output)
            for stamp, results in zip(output.stamps, output.results, strict=True):
                buffer = Filled(stamp, self.world.now_ms, results)
                self.world.pool.submit(partial(self._probe, buffer))

    def _probe(self, buffer: Filled, worker: int) -> None:
        assert self.window is not None
        self._arrive(PROBE, buffer, worker)
        self._note_slices(self.window.collect(self.progress[PROBE].watermark), collected=True)
        self.output.run(buffer, worker)

    def _arrive(self, operator: str, buffer: Filled, worker: int) -> None:
        """A buffer has come to a tracker."""
        stamp, now_ms = buffer.stamp, self.world.now_ms
        self.arrivals[operator] += 1
        state, effects = step(self.progress[operator], stamp, now_ms)
        self.progress[operator] = state
        origin = state.of(stamp.origin)
        slices = self.window.slices(buffer.rows.time.tolist()) if self.window and buffer.rows is not None else {}
        self.world.journal.write(
            "buffers",
            stream=self.part.name,
            operator=operator,
            arrival=self.arrivals[operator],
            arrived_ms=now_ms,
            created_ms=buffer.created_ms,
            origins=len(state.origins),
            origin=stamp.origin,
            emitter=self.emitters[stamp.origin],
            sequence=stamp.sequence,
            chunk=stamp.chunk,
            last=stamp.last,
            chunk_base=self.rules.chunk_base,
            watermark=stamp.watermark,
            records=buffer.records,
            slices=list(slices),
            slice_records=list(slices.values()),
            worker=worker,
            completed=any(isinstance(effect, Completed) for effect in effects),
            reached_prefix=origin.prefix,
            reached_local=origin.local,
            reached=state.watermark,
        )
        self._note_findings(operator, effects)

    def _note_fired(self, output: Output) -> None:
        window = output.window
        self.world.journal.write(
            "windows_fired",
            stream=self.part.name,
            operator=BUILD,
            origin=self.origins.ids[BUILD],
            sequence=window.sequence,
            start=window.start,
            end=window.end,
            records=window.records,
            results=sum(output.results),
            chunks=len(output.stamps),
            arrival=self.arrivals[BUILD] if window.cause == "watermark" else None,
            reached=self.progress[BUILD].watermark,
            fired_ms=self.world.now_ms,
            cause=window.cause,
            again=window.again,
        )
        if window.again:
            detail = f"window {window.start} to {window.end} as output {window.sequence}"
            self.world.note(self.part.name, "double fire", BUILD, detail)

    def _note_slices(self, slices: Iterable[Collected], *, collected: bool) -> None:
        for one in slices:
            self.world.journal.write(
                "slices",
                stream=self.part.name,
                operator=PROBE,
                start=one.start,
                end=one.end,
                left=one.left,
                right=one.right,
                collected_ms=self.world.now_ms if collected else None,
                reached=self.progress[PROBE].watermark if collected else None,
            )

    def _note_late(self, origin: int, late: Sequence[Late]) -> None:
        if late:
            first = late[0]
            detail = f"{len(late)} of its records, first {first.time} for window {first.start} to {first.end}"
            self.world.note(self.part.name, "late", self.emitters[origin], detail)

    def _note_findings(self, operator: str, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Finding):
                self.world.note(self.part.name, "breach", operator, effect.sentence)
