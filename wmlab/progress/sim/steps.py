"""A chain of operators as the tasks that workers execute: one task per pipeline and buffer.

A `Change` happens inside a pipeline. An `End` ends one: each buffer that it returns is another task. A sequencer also
gets notice when that task is `done`.

Source: "Watermarking and Progress", ChunkNumber.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wmlab.progress.model.identifiers import FIRST_SEQUENCE, TupleBuffer
from wmlab.progress.model.outputs import Rechunking, Renumbering
from wmlab.progress.model.sequences import Place, Sequencer
from wmlab.progress.model.tracker import ProgressRules
from wmlab.progress.scenario import Emit, Filter, InOrder, Map, Origins, Renumber, Source
from wmlab.progress.sim.records import Filled, Rows, stamped

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def filtered(buffer: Filled, keep: float, salt: int) -> Filled:
    """The buffer without the records that a filter leaves out, by a number drawn from each record's own."""
    if buffer.rows is None:
        return buffer
    rows = buffer.rows[luck(buffer.rows.number, salt) < keep]
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


def restamped(buffer: Filled, source: Source) -> Filled:
    """The buffer with the watermark of the records it still has, at the end of its first pipeline."""
    times = np.empty(0, np.int64) if buffer.rows is None else buffer.rows.time
    return replace(buffer, stamp=replace(buffer.stamp, watermark=stamped(source, buffer.created_ms, times)))


class Emitting:
    """Cuts what has outgrown a buffer into chunks, for each origin on its own."""

    name: str | None = None

    def __init__(self, part: Emit, rules: ProgressRules) -> None:
        self._part = part
        # Whatever the trackers believe, the emission closes a sequence on its true last chunk.
        self._start = Rechunking(ProgressRules(chunk_base=rules.chunk_base))
        self._states: dict[int, Rechunking] = {}

    def take(self, buffer: Filled) -> list[Filled]:
        """The chunks that a buffer becomes, at least one."""
        capacity = self._part.buffer_records or buffer.capacity
        # Rounded, so that ten records of size 1.1 fill a buffer of eleven.
        volume = round(buffer.records * buffer.size, 6)
        count = 1 if capacity is None else max(1, math.ceil(volume / capacity))
        origin = buffer.stamp.origin
        self._states[origin], made, _ = self._states.get(origin, self._start).emit(buffer.stamp, count)
        edges = pairwise(number * buffer.records // count for number in range(count + 1))
        rows = buffer.rows
        return [
            replace(buffer, stamp=stamp, records=end - begin, rows=None if rows is None else rows[begin:end])
            for stamp, (begin, end) in zip(made, edges, strict=False)
        ]


class Blocking:
    """Gives new numbers to what lies in the longest complete prefixes, a whole sequence in one buffer."""

    def __init__(self, part: Renumber, origin: int, inputs: tuple[int, ...], rules: ProgressRules) -> None:
        self.name: str | None = part.name
        self._state = Renumbering.start(origin, inputs, rules)
        self._waiting: dict[tuple[int, int], list[Filled]] = {}

    def take(self, buffer: Filled) -> list[Filled]:
        """The sequences that go on because a buffer has come."""
        self._waiting.setdefault((buffer.stamp.origin, buffer.stamp.sequence), []).append(buffer)
        self._state, made, _ = self._state.emit(buffer.stamp)
        return [self._whole(new.origin, new.sequence, new.buffer) for new in made]

    def _whole(self, origin: int, sequence: int, stamp: TupleBuffer) -> Filled:
        """The chunks of a sequence as one buffer, in the order of their numbers."""
        chunks = sorted(self._waiting.pop((origin, sequence)), key=lambda chunk: chunk.stamp.chunk)
        parts = [chunk.rows for chunk in chunks if chunk.rows is not None]
        return replace(
            chunks[0],
            stamp=stamp,
            created_ms=min(chunk.created_ms for chunk in chunks),
            records=sum(chunk.records for chunk in chunks),
            rows=Rows.joined(parts) if parts else None,
        )


class Ordering:
    """Releases the buffers of each origin one at a time, in the order of sequence and chunk."""

    def __init__(self, part: InOrder, rules: ProgressRules) -> None:
        self.name: str | None = part.name
        self._start = Sequencer(part.policy, rules.chunk_base, (FIRST_SEQUENCE, rules.chunk_base))
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


def steps_of(operators: Sequence[object], origins: Origins, rules: ProgressRules, name: str) -> list[Step]:
    """The steps of one chain; `name` tells its filters from those of other chains."""
    made: list[Step] = []
    for index, operator in enumerate(operators):
        match operator:
            case Filter():
                salt = zlib.crc32(f"filter {index} of {name}".encode())
                made.append(partial(filtered, keep=operator.keep, salt=salt))
            case Map():
                made.append(partial(grown, growth=operator.growth))
            case Emit():
                made.append(Emitting(operator, rules))
            case Renumber():
                made.append(Blocking(operator, origins.ids[operator.name], origins.inputs[operator.name], rules))
            case InOrder():
                made.append(Ordering(operator, rules))
    return made
