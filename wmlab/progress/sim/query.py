"""A query that runs: its chains as tasks, its operators as the states of `wmlab.progress.model`.

Each pipeline is a task; after a stateful operator has seen all records of a buffer it looks which windows it can fire.

Source: "Watermarking and Progress", Triggering windows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from wmlab.progress import scenario as plans
from wmlab.progress.model.chunks import Completed, Finding
from wmlab.progress.model.identifiers import UNBOUNDED, ChunkBase, TupleBuffer
from wmlab.progress.model.outputs import window_output
from wmlab.progress.model.tracker import Progress, step
from wmlab.progress.model.windows import Fired, Firing, FiringRules, JoinTables, Late, Windows
from wmlab.progress.scenario import BUILD, PROBE, SINK, Join, Query, Source, Windowed
from wmlab.progress.sim.records import Filled
from wmlab.progress.sim.steps import Chain, End, Step, Task, restamped, steps_of

if TYPE_CHECKING:
    from wmlab.progress.sim.world import PlanWorld

Output = tuple[Fired, list[tuple[TupleBuffer, int]]]
"""A fired window as the probe is given it: one task per stamp, each with its number of results."""


_OF_STAMPS: Final = ("origin", "sequence", "chunk", "last", "watermark")
_OF_WINDOWS: Final = ("sequence", "start", "end", "records", "cause", "again")
"""The fields of a stamp and of a fired window that are columns of their tables."""


class Windowing:
    """The windows of one query: `firing` says when, `tables` hold what a join matches."""

    def __init__(self, query: Query, part: Windowed, origins: plans.Origins, base: ChunkBase) -> None:
        self.windows = Windows(part.size_ms, part.size_ms if part.slide_ms is None else part.slide_ms)
        self.firing = Firing(
            FiringRules(
                windows=self.windows, trigger=part.trigger, emit_lag=part.emit_lag_ms, forget_fired=part.forget_fired
            )
        )
        self.tables = JoinTables(self.windows) if isinstance(part, Join) else None
        left = (part.left or (query.sources[0].name,)) if isinstance(part, Join) else ()
        self._carries_largest = isinstance(part, Join) and part.carries == "largest"
        # The side of each origin of a join, 0 for left and 1 for right.
        self._sides = {origin: int(name not in left) for name, origin in origins.at_end.items()}
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

    def collect(self, watermark: int | None) -> list[dict[str, int]]:
        """The slices that the probe has done with at its watermark, as columns of the table `slices`."""
        if self.tables is None:
            return []
        before = self.tables
        self.tables, gone = before.collect(watermark)
        held = [(start, *before.records(start)) for start in gone]
        return [
            {"start": start, "end": self.windows.slice_of(start)[1], "left": left, "right": right}
            for start, left, right in held
        ]

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

    def __init__(self, world: PlanWorld, part: Query) -> None:
        self.world = world
        self.part = part
        scenario = world.scenario
        self.rules = plans.tracker_rules(scenario)
        self.origins = plans.origins_of(part)
        self.emitters = self.origins.emitters
        self.progress = {name: Progress.start(inputs, self.rules) for name, inputs in self.origins.inputs.items()}
        self.arrivals = dict.fromkeys(self.progress, 0)
        self.window = None if part.window is None else Windowing(part, part.window, self.origins, scenario.chunk_base)
        shared = steps_of(part.operators, self.origins, self.rules, part.name)
        self.chains = [self._chain(source, shared) for source in part.sources]
        behind = steps_of(part.output, self.origins, self.rules, f"output of {part.name}")
        sink = partial(self._arrive, SINK)
        self.output = Chain(steps=behind, end=sink, arrive=self._arrive, submit=world.pool.submit, fused=False)
        self.on_its_way = 0

    def _chain(self, source: Source, shared: Sequence[Step]) -> Chain:
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
            emitter=self.emitters[stamp.origin],
            chunk_base=self.rules.chunk_base,
            records=buffer.records,
            slices=list(slices),
            slice_records=list(slices.values()),
            worker=worker,
            completed=any(isinstance(effect, Completed) for effect in effects),
            reached_prefix=origin.prefix,
            reached_local=origin.local,
            reached=state.watermark,
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
        self, slices: Iterable[dict[str, int]], *, collected_ms: int | None = None, reached: int | None = None
    ) -> None:
        entry = {"stream": self.part.name, "operator": PROBE, "collected_ms": collected_ms, "reached": reached}
        for row in slices:
            self.world.journal.write("slices", **row, **entry)

    def _note_late(self, origin: int, late: Sequence[Late]) -> None:
        if late:
            first = late[0]
            detail = f"{len(late)} of its records, first {first.time} for window {first.start} to {first.end}"
            self.world.note(self.part.name, "late", self.emitters[origin], detail)
