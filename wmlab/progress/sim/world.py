"""The simulated engine: a clock, the queries of a scenario, and the workers that they share.

Source: "Watermarking and Progress" (task-based execution on worker threads).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import simpy

from wmlab.core.simulation import Journal, Simulation, generator
from wmlab.core.words import clock_words, counted, exactly
from wmlab.progress import scenario as plans
from wmlab.progress.scenario import BufferFault, ProgressScenario, Query, Source, StallWorker, Workers
from wmlab.progress.sim.query import QueryRun, Task
from wmlab.progress.sim.records import Records, buffers_of_source, received, target_name, trace_records
from wmlab.progress.tables import PROGRESS_TABLES


def simulate(scenario: ProgressScenario) -> dict[str, pa.Table]:
    """Run a scenario of query plans; the rows of the run as the tables of `wmlab.progress.tables`."""
    return PlanWorld(scenario, trace_records(scenario)).run().tables(PROGRESS_TABLES)


FaultTarget: TypeAlias = tuple[str, int, int | None]
"""A buffer by source and sequence, or one chunk of it; it happens in every query that reads the source."""


class PlanWorld(Simulation):
    """One run of one scenario; `traces` gives the records of every source that replays a real trace."""

    def __init__(self, scenario: ProgressScenario, traces: Mapping[str, Records] | None = None) -> None:
        super().__init__(start_ms=scenario.start_ms, duration_ms=scenario.duration_ms, seed=scenario.seed)
        self.scenario = scenario = scenario.resolved
        self.journal = Journal()
        self._traces = traces or {}
        self._stalls = [action for action in scenario.script if isinstance(action, StallWorker)]
        self.pool = Pool(self.env, scenario.workers, self._stalls, scenario.seed, self._note_held)
        self.faults: dict[tuple[str, FaultTarget], list[BufferFault | plans.EmptyBuffer]] = {}
        for action in scenario.script:
            if isinstance(action, BufferFault | plans.EmptyBuffer):
                target = action.source, action.sequence, getattr(action, "chunk", None)
                for query in scenario.queries:
                    if action.source in (source.name for source in query.physical):
                        self.faults.setdefault((query.name, target), []).append(action)
        self.queries = [QueryRun(self, query) for query in scenario.queries]

    def run(self) -> Journal:
        """Run until the workers have nothing left to do. Returns what happened."""
        for query in self.queries:
            for index, source in enumerate(query.part.physical):
                self._plan(query, index, source)
            self.at(self.end_ms, query.flush)
        for stall in self._stalls:
            worker = f"worker {stall.worker}"
            detail = ("stall", worker, f"{worker} stalls for {exactly(stall.for_ms)}")
            self.at(self.start_ms + stall.at_ms, self.note, self.scenario.name, *detail)
        self.env.run()
        for name, target in self.faults:
            self.note(name, "unsent", target_name(*target), "its fault never happened")
        return self.journal

    def ended(self, query: Query) -> bool:
        """Whether all sources of a query have ended and its windows are to be flushed."""
        silent = any(self._silent_ms(source.name) is not None for source in query.physical)
        return self.scenario.flush_at_end and not silent and self.now_ms >= self.end_ms

    def note(self, stream: str, kind: str, target: str, detail: str) -> None:
        """Write down a fault, or what one has led to."""
        self.journal.write("incidents", stream=stream, at_ms=self.now_ms, kind=kind, target=target, detail=detail)

    def _note_held(self, stall: StallWorker, at_ms: int, query: str, buffer: tuple[str, int]) -> None:
        """Write down at `at_ms` that a worker which stands still has a task of this buffer in hand."""
        end_ms = self.start_ms + stall.at_ms + stall.for_ms
        detail = f"worker {stall.worker} stands still until {clock_words(end_ms)}"
        self.at(at_ms, self.note, query, "held", target_name(*buffer, worker=stall.worker), detail)

    def _plan(self, query: QueryRun, index: int, source: Source) -> None:
        """Send all buffers of a source in their time, those with a fault as it has it."""
        name = query.part.name
        actions = (action for action in self.scenario.script if isinstance(action, plans.EmptyBuffer))
        empty = frozenset(action.sequence for action in actions if action.source == source.name)
        silent_ms = self._silent_ms(source.name)
        if silent_ms is not None:
            self.at(silent_ms, self.note, name, "silence", source.name, "until the end")
        records = received(source, self.scenario, self._traces.get(source.name))
        origin = query.origins.ids[source.name]
        for sent_ms, buffer in buffers_of_source(
            records, source, self.scenario, origin=origin, silent_ms=silent_ms, empty=empty
        ):
            for delay_ms in self.faulty(name, (source.name, buffer.sequence, None), buffer.records, sent_ms):
                query.on_its_way += 1
                self.at(sent_ms + delay_ms, query.send, index, buffer)

    def faulty(self, query: str, target: FaultTarget, records: int, at_ms: int) -> list[int]:
        """After how many ms each copy of a buffer or chunk reaches the workers.

        Its faults are noted at `at_ms`, and happen once.
        """
        copies, number = [0], target_name(*target)
        for fault in sorted(self.faults.pop((query, target), ()), key=lambda fault: type(fault).__name__):
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

    def _silent_ms(self, source: str) -> int | None:
        """The clock time from which a source is silent, None: never."""
        silences = [a.at_ms for a in self.scenario.script if isinstance(a, plans.SilenceSource) and a.source == source]
        return self.start_ms + min(silences) if silences else None


_OF_MEAN_1: Final[Mapping[str, Callable[[np.random.Generator], float]]] = {
    "exponential": lambda draws: draws.exponential(),
    "lognormal": lambda draws: draws.lognormal(-0.5, 1.0),  # With sigma 1 the mean of exp(normal) is 1 at mu -1/2.
    "constant": lambda _: 1.0,
}
"""Draws of service times in units of their mean."""


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

    def submit(self, task: Task, query: str, buffer: tuple[str, int]) -> None:
        """Queue a task on a buffer of a query, by its emitter and sequence; first come, first served."""
        self._tasks.put((task, query, buffer))

    def _work(
        self, number: int, draws: np.random.Generator
    ) -> Generator[simpy.Event, tuple[Task, str, tuple[str, int]], None]:
        while True:
            task, query, buffer = yield self._tasks.get()
            now = int(self._env.now)
            service_ms = int(_OF_MEAN_1[self._part.service](draws) * self._part.service_mean_ms)
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
                yield stall, begin, end - begin
