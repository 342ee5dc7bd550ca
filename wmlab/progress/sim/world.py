"""The simulated engine: a clock, the workers that all queries share, and the faults.

Source: "Watermarking and Progress" (task-based execution on worker threads).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np
import simpy

from wmlab.core.schemas import NEVER_HAPPENED
from wmlab.core.simulation import Journal, Simulation, generator
from wmlab.core.words import clock_words, counted, exactly
from wmlab.progress import scenario as plans
from wmlab.progress.scenario import BufferFault, ProgressScenario, Query, StallWorker, Workers
from wmlab.progress.sim.records import Records, target_name

FaultTarget: TypeAlias = tuple[str, int, int | None]
"""A buffer by source and sequence, or one chunk of it; it happens in every query that reads the source."""


class PlanWorld(Simulation):
    """The clock, the workers and the faults of one run; `traces` has the records of sources that replay a trace."""

    def __init__(self, scenario: ProgressScenario, traces: Mapping[str, Records] | None = None) -> None:
        super().__init__(start_ms=scenario.start_ms, duration_ms=scenario.duration_ms, seed=scenario.seed)
        self.scenario = scenario = scenario.resolved
        self.journal = Journal()
        self.traces = traces or {}
        self._stalls = [action for action in scenario.script if isinstance(action, StallWorker)]
        self._silences = [action for action in scenario.script if isinstance(action, plans.SilenceSource)]
        self._silences.sort(key=lambda silence: silence.at_ms)
        self.pool = Pool(self.env, scenario.workers, self._stalls, scenario.seed, self._note_held)
        self.faults: dict[tuple[str, FaultTarget], list[BufferFault | plans.EmptyBuffer]] = {}
        of_buffers = [action for action in scenario.script if isinstance(action, BufferFault | plans.EmptyBuffer)]
        for action, query in product(of_buffers, scenario.queries):
            if action.source in (source.name for source in query.physical):
                target = action.source, action.sequence, getattr(action, "chunk", None)
                self.faults.setdefault((query.name, target), []).append(action)

    def run(self) -> None:
        """Run until the workers have nothing left to do."""
        for stall in self._stalls:
            what = ("stall", f"worker {stall.worker}", f"worker {stall.worker} stalls for {exactly(stall.for_ms)}")
            self.at(self.start_ms + stall.at_ms, self.note, self.scenario.name, *what)
        self.env.run()
        for (query, target), faults in self.faults.items():
            for fault in faults:
                self._note_never(query, target_name(*target), fault, "no such buffer was sent")

    def ended(self, query: Query) -> bool:
        """Whether all sources of a query have ended and its windows are to be flushed."""
        if self.now_ms < self.end_ms or not self.scenario.flush_at_end:
            return False
        silent = {silence.source for silence in self._silences if self.start_ms + silence.at_ms < self.end_ms}
        return silent.isdisjoint(source.name for source in query.physical)

    def note(self, stream: str, kind: str, target: str, detail: str) -> None:
        """Write down a fault, or what one has led to."""
        self.journal.write("incidents", stream=stream, at_ms=self.now_ms, kind=kind, target=target, detail=detail)

    def _note_never(self, query: str, target: str, fault: Any, why: str) -> None:
        """Write down a fault that does not happen."""
        self.note(query, NEVER_HAPPENED, target, f"{fault.kind.replace('_', ' ')}: {why}")

    def _note_held(self, stall: StallWorker, at_ms: int, query: str, buffer: tuple[str, int]) -> None:
        """Write down at `at_ms` that a worker which stands still has a task of this buffer in hand."""
        end_ms = self.start_ms + stall.at_ms + stall.for_ms
        detail = f"worker {stall.worker} stands still until {clock_words(end_ms)}"
        self.at(at_ms, self.note, query, "held", target_name(*buffer, worker=stall.worker), detail)

    def note_silence(self, query: str, source: str) -> int | None:
        """The clock time from which a source of a query is silent, which is noted then; None: never."""
        silent_ms = None
        for silence in self._silences:
            if silence.source != source:
                continue
            at_ms = self.start_ms + silence.at_ms
            if silent_ms is not None or at_ms >= self.end_ms:
                why = "it was silent before" if silent_ms is not None else "the source had ended before"
                self.at(at_ms, self._note_never, query, source, silence, why)
            else:
                silent_ms = at_ms
                self.at(at_ms, self.note, query, "silence", source, "until the end")
        return silent_ms

    def empty_of(self, source: str) -> frozenset[int]:
        """The sequences of a source of which the first pipeline leaves nothing."""
        return frozenset(
            action.sequence
            for action in self.scenario.script
            if isinstance(action, plans.EmptyBuffer) and action.source == source
        )

    def faulty(self, query: str, target: FaultTarget, records: int, at_ms: int) -> list[int]:
        """After how many ms each copy of a buffer or chunk reaches the workers.

        Its faults are noted at `at_ms`, and happen once. Of several of a kind the first one happens, and to a buffer
        that is lost nothing else does.
        """
        copies, number = [0], target_name(*target)
        faults: list[Any] = sorted(self.faults.pop((query, target), ()), key=lambda fault: type(fault).__name__)
        lost = next((fault for fault in faults if isinstance(fault, plans.LoseBuffer)), None)
        happened: set[str] = set()
        for fault in faults:
            if fault.kind in happened or lost not in (None, fault):
                why = "the buffer is lost" if lost is not None else "another fault of this kind comes before"
                self.at(at_ms, self._note_never, query, number, fault, why)
                continue
            happened.add(fault.kind)
            match fault:
                case plans.DelayBuffer(by_ms=by_ms):
                    copies, incident = [by_ms], ("delay", number, f"{number} comes {exactly(by_ms)} late")
                case plans.DuplicateBuffer(after_ms=after_ms):
                    copies, incident = (
                        [*copies, copies[0] + after_ms],
                        ("duplicate", number, f"{number} comes twice, with {counted(records, 'record')}"),
                    )
                case plans.LoseBuffer():
                    copies, incident = [], ("loss", number, f"{number} is lost, with {counted(records, 'record')}")
                case _:
                    incident = ("empty", number, f"{number} has no record left")
            self.at(at_ms, self.note, query, *incident)
        return copies


_OF_MEAN_1: Final[Mapping[str, Callable[[np.random.Generator], float]]] = {
    "exponential": lambda draws: draws.exponential(),
    "lognormal": lambda draws: draws.lognormal(-0.5, 1.0),  # With sigma 1 the mean of exp(normal) is 1 at mu -1/2.
    "constant": lambda _: 1.0,
}
"""Draws of service times in units of their mean."""


Task: TypeAlias = Callable[[int], None]
"""What happens when a worker, whose number it gets, has executed a task."""
Held: TypeAlias = Callable[[StallWorker, int, str, tuple[str, int]], None]
"""Notes a stall, since when it holds a buffer, the query, and the emitter and sequence of the buffer."""


class Pool:
    """Workers 1 to `count`: each takes one task at a time from one queue, and draws service times by its own number."""

    def __init__(
        self, env: simpy.Environment, part: Workers, stalls: Sequence[StallWorker], seed: int, held: Held
    ) -> None:
        self._env = env
        self._part = part
        self._start_ms = int(env.now)
        self._stalls = sorted(stalls, key=lambda stall: stall.at_ms)
        self._held = held
        self._tasks = simpy.Store(env)
        for number in range(1, part.count + 1):
            env.process(self._work(number, generator(seed, f"worker {number}")))

    def submit(self, task: Task, query: str, buffer: tuple[str, int], more_ms: float = 0.0) -> None:
        """Queue a task on a buffer of a query, by its emitter and sequence; first come, first served.

        It takes `more_ms` longer than a worker draws.
        """
        self._tasks.put((task, query, buffer, more_ms))

    def _work(
        self, number: int, draws: np.random.Generator
    ) -> Generator[simpy.Event, tuple[Task, str, tuple[str, int], float], None]:
        while True:
            task, query, buffer, more_ms = yield self._tasks.get()
            now = int(self._env.now)
            service_ms = int(_OF_MEAN_1[self._part.service](draws) * self._part.service_mean_ms + more_ms)
            done_ms = now + service_ms
            for stall, begin_ms, for_ms in self._stalls_of(number, now, done_ms):
                done_ms += for_ms
                self._held(stall, begin_ms, query, buffer)
            yield self._env.timeout(done_ms - now)
            task(number)

    def _stalls_of(self, number: int, begun_ms: int, done_ms: int) -> Iterator[tuple[StallWorker, int, int]]:
        """The stalls of a worker within a task, each with its begin there and for how long it makes the task longer.

        `done_ms` is when the task would end without any.
        """
        for stall in self._stalls:
            begin = self._start_ms + stall.at_ms
            end = begin + stall.for_ms
            if stall.worker == number and begin <= done_ms and begun_ms < end:
                begin = max(begin, begun_ms)
                done_ms += end - begin
                begun_ms = end  # One that begins before this one ends makes the task longer by the rest of it only.
                yield stall, begin, end - begin
