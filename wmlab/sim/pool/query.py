"""One query in motion: its pipelines as tasks, its operators as the states of `wmlab.model.progress`.

Source: "Watermarking and Progress"; each pipeline is a task, and after a stateful operator has seen all records of a
buffer it looks which windows it can fire.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from wmlab.model.progress.findings import Effect, Finding
from wmlab.model.progress.firing import Fired, Firing, FiringRules, Late
from wmlab.model.progress.identifiers import TupleBuffer, assign_origins
from wmlab.model.progress.outputs import Rechunking, aggregated, joined, slice_pairs
from wmlab.model.progress.slices import Windows
from wmlab.model.progress.tracker import Progress, ProgressRules, step
from wmlab.scenario.plan_parts import Aggregate, Join, Query
from wmlab.sim.pool.records import CutBuffer

if TYPE_CHECKING:
    from wmlab.sim.pool.world import PlanWorld

BUILD, SINK = "build", "sink"


@dataclass(frozen=True, slots=True)
class Filled:
    """A tuple buffer with what it holds: how many records, their event times where they matter, and when it began."""

    stamp: TupleBuffer
    created_ms: int
    records: int
    times: tuple[int, ...] = ()


class QueryRun:
    """The state of one query: emission per source, windows and their tracker, and the tracker at the sink."""

    def __init__(self, world: PlanWorld, part: Query) -> None:
        self.world = world
        self.part = part
        scenario = world.scenario
        self.rules = ProgressRules(chunk_base=scenario.chunk_base, complete=scenario.complete, local=scenario.local)
        names = [source.name for source in part.sources]
        ids = assign_origins([*names, *([BUILD] if part.window else [])])
        self.emitters = {number: name for name, number in ids.items()}
        self.inputs = tuple(ids[name] for name in names)
        # Whatever the trackers believe, the emission closes a sequence on its true last chunk.
        emission = Rechunking(ProgressRules(chunk_base=scenario.chunk_base))
        self.emission = dict.fromkeys(self.inputs, emission)
        self.output_origin = ids[BUILD] if part.window else None
        self.firing = None if part.window is None else Firing(_firing_rules(part.window))
        outputs = self.inputs if self.output_origin is None else (self.output_origin,)
        self.progress = {BUILD: Progress.start(self.inputs, self.rules), SINK: Progress.start(outputs, self.rules)}
        self.arrivals = {BUILD: 0, SINK: 0}
        self.outstanding = 0

    def send(self, place: int, cut: CutBuffer) -> None:
        """A source's buffer reaches the queue of the workers: scan, filter, map and emit are one task."""
        stamp = TupleBuffer(self.inputs[place], cut.sequence, self.rules.chunk_base, True, cut.watermark)
        self.world.pool.submit(partial(self._executed, stamp, cut))

    def _executed(self, stamp: TupleBuffer, cut: CutBuffer, worker: int) -> None:
        fan_out = self.part.sources[self.inputs.index(stamp.origin)].fan_out
        self.emission[stamp.origin], made, _ = self.emission[stamp.origin].emit(stamp, fan_out)
        parts = np.array_split(np.array(cut.times, np.int64), fan_out)
        filled = [Filled(b, cut.created_ms, len(p), tuple(p.tolist())) for b, p in zip(made, parts, strict=True)]
        self.outstanding += len(filled) - 1
        for buffer in filled:
            if self.firing is None:
                self._arrive(SINK, buffer, worker)
                self.settle()
            elif fan_out == 1:
                self._build(buffer, worker)
            else:
                self.world.pool.submit(partial(self._build, buffer))

    def _build(self, buffer: Filled, worker: int) -> None:
        """The windows take the records of a buffer; then time may have come for some of them."""
        assert self.firing is not None
        origin = buffer.stamp.origin
        side = int(self.firing.rules.sides > 1 and origin != self.inputs[0])
        self.firing, late = self.firing.fill(buffer.times, side)
        self._note_late(origin, late)
        self._arrive(BUILD, buffer, worker)
        reached = self.progress[BUILD].watermark
        self.firing, fired = self.firing.advance(reached)
        self._hand_on(fired, reached)
        self.settle()

    def settle(self) -> None:
        """One buffer less is on its way to the windows; when none is and the stream has ended, they are flushed."""
        self.outstanding -= 1
        self.flush()

    def flush(self) -> None:
        """Fire what is left, if the stream has ended and nothing is on its way any more."""
        if self.firing is None or self.outstanding or not self.world.ended(self.part) or self.firing.ended:
            return
        self.firing, fired = self.firing.end()
        self._hand_on(fired, self.progress[BUILD].watermark)

    def _hand_on(self, fired: Iterable[Fired], reached: int | None) -> None:
        """Each fired window becomes buffers under the operator's own origin, each of them a task of its own."""
        assert self.output_origin is not None
        for window in fired:
            join = isinstance(self.part.window, Join)
            make = joined if join else aggregated
            made = make(window, self.output_origin, self.rules.chunk_base)
            sizes = [left * right for left, right in slice_pairs(window)] if join else [1]
            self._note_fired(window, len(made), reached)
            for stamp, size in zip(made, sizes or [0], strict=True):
                buffer = Filled(stamp, self.world.now_ms, size)
                self.world.pool.submit(partial(self._arrive, SINK, buffer))

    def _arrive(self, operator: str, buffer: Filled, worker: int) -> None:
        """A buffer has come to a tracker."""
        stamp = buffer.stamp
        self.arrivals[operator] += 1
        self.progress[operator], effects = step(self.progress[operator], stamp, self.world.now_ms)
        self.world.journal.write(
            "buffers",
            stream=self.part.name,
            operator=operator,
            arrival=self.arrivals[operator],
            arrived_ms=self.world.now_ms,
            created_ms=buffer.created_ms,
            origins=len(self.progress[operator].origins),
            origin=stamp.origin,
            emitter=self.emitters[stamp.origin],
            sequence=stamp.sequence,
            chunk=stamp.chunk,
            last=stamp.last,
            chunk_base=self.rules.chunk_base,
            watermark=stamp.watermark,
            records=buffer.records,
            slices=self._slices(buffer.times) if operator == BUILD else [],
            worker=worker,
        )
        self._note_findings(operator, effects)

    def _slices(self, times: Sequence[int]) -> list[int]:
        assert self.firing is not None
        return sorted({self.firing.rules.windows.slice_of(time)[0] for time in times})

    def _note_fired(self, window: Fired, chunks: int, reached: int | None) -> None:
        self.world.journal.write(
            "windows_fired",
            stream=self.part.name,
            operator=BUILD,
            origin=self.output_origin,
            sequence=window.sequence,
            start=window.start,
            end=window.end,
            records=window.records,
            chunks=chunks,
            arrival=self.arrivals[BUILD] if window.cause == "watermark" else None,
            reached=reached,
            fired_ms=self.world.now_ms,
            cause=window.cause,
            again=window.again,
        )
        if window.again:
            detail = f"window {window.start} to {window.end} as output {window.sequence}"
            self.world.note(self.part.name, "double fire", BUILD, detail)

    def _note_late(self, origin: int, late: Sequence[Late]) -> None:
        if late:
            first = late[0]
            detail = f"{len(late)} of its records, first {first.time} for window {first.start} to {first.end}"
            self.world.note(self.part.name, "late", self.emitters[origin], detail)

    def _note_findings(self, operator: str, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Finding):
                self.world.note(self.part.name, "breach", operator, effect.sentence)


def _firing_rules(part: Aggregate | Join) -> FiringRules:
    slide = part.size_ms if part.slide_ms is None else part.slide_ms
    return FiringRules(
        windows=Windows(part.size_ms, slide),
        trigger=part.trigger,
        sides=2 if isinstance(part, Join) else 1,
        forget_fired=part.forget_fired,
    )
