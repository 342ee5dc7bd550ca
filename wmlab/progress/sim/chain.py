"""A chain of operators as the tasks that workers execute: one task per pipeline and buffer.

Source: "Watermarking and Progress"; each pipeline is a task.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial

from wmlab.progress.model.tracker import ProgressRules
from wmlab.progress.scenario.operators import Emit, Filter, InOrder, Map, Renumber
from wmlab.progress.scenario.origins import Origins
from wmlab.progress.sim.steps import Blocking, Change, Emitting, End, Filled, Filtering, Growing, Ordering
from wmlab.progress.sim.workers import Task

Step = Change | End
Handler = Callable[[Filled, int], None]
"""What a buffer comes to, with the worker that executed it."""


class Chain:
    """Operators one after another, and what stands at their end.

    `submit` queues a task. With `fused` the last pipeline and what stands at the end are one task, as in a build of
    windows; otherwise the end is reached as soon as the last pipeline has put the buffer out.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        end: Handler,
        *,
        arrive: Callable[[str, Filled, int], None],
        submit: Callable[[Task], None],
        fused: bool,
    ) -> None:
        self._steps = tuple(steps)
        self._end = end
        self._arrive = arrive
        self._submit = submit
        self._fused = fused

    def run(self, buffer: Filled, worker: int, place: int = 0) -> None:
        """Execute the pipeline that begins at a place of the chain."""
        for step in self._steps[place:]:
            place += 1
            if not isinstance(step, End):
                buffer = step.change(buffer)
                continue
            if step.name is not None:
                self._arrive(step.name, buffer, worker)
            self._hand_on(step, step.take(buffer), place, worker)
            return
        self._end(buffer, worker)

    def _hand_on(self, step: End, buffers: Sequence[Filled], place: int, worker: int) -> None:
        for buffer in buffers:
            if place == len(self._steps) and not self._fused:
                self._execute(step, buffer, place, worker)
            else:
                self._submit(partial(self._execute, step, buffer, place))

    def _execute(self, step: End, buffer: Filled, place: int, worker: int) -> None:
        self.run(buffer, worker, place)
        if isinstance(step, Ordering):
            self._hand_on(step, step.done(buffer), place, worker)


def steps_of(operators: Sequence[object], origins: Origins, rules: ProgressRules, name: str) -> list[Step]:
    """The operators of one chain in motion; `name` tells its filters from those of other chains."""
    made: list[Step] = []
    for place, operator in enumerate(operators):
        match operator:
            case Filter():
                made.append(Filtering(operator.keep, zlib.crc32(f"filter {place} of {name}".encode())))
            case Map():
                made.append(Growing(operator.growth))
            case Emit():
                made.append(Emitting(operator, rules))
            case Renumber():
                made.append(Blocking(operator, origins.ids[operator.name], origins.inputs[operator.name], rules))
            case InOrder():
                made.append(Ordering(operator, rules))
    return made
