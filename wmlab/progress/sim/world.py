"""The simulated engine: a clock, the queries of a scenario, and the workers that they share."""

from __future__ import annotations

from collections.abc import Mapping

from wmlab.core.clock import Simulation
from wmlab.core.journal import Journal
from wmlab.progress.scenario.parts import (
    DelayBuffer,
    EmptyBuffer,
    LoseBuffer,
    Query,
    SilenceSource,
    Source,
    StallWorker,
)
from wmlab.progress.scenario.scenario import ProgressScenario
from wmlab.progress.sim.query import QueryRun
from wmlab.progress.sim.records import CutBuffer, Records, cut, received
from wmlab.progress.sim.workers import Pool


class PlanWorld(Simulation):
    """One run of one scenario; `traces` gives the records of every source that replays a real trace."""

    def __init__(self, scenario: ProgressScenario, traces: Mapping[str, Records] | None = None) -> None:
        super().__init__(start_ms=scenario.start_ms, duration_ms=scenario.duration_ms, seed=scenario.seed)
        self.scenario = scenario
        self.journal = Journal()
        self._traces = traces or {}
        self._stalls = [action for action in scenario.script if isinstance(action, StallWorker)]
        self.pool = Pool(self.env, scenario.workers, self._stalls, scenario.seed)
        self.queries = [QueryRun(self, query) for query in scenario.queries]

    def run(self) -> Journal:
        """Run until the workers have nothing left to do. Returns what happened."""
        for query in self.queries:
            for place, source in enumerate(query.part.sources):
                self._plan(query, place, source)
            self.at(self.end_ms, query.flush)
        for stall in self._stalls:
            stalled = f"worker {stall.worker}"
            self.at(
                self.scenario.start_ms + stall.at_ms,
                self.note,
                self.scenario.name,
                "stall",
                stalled,
                f"{stall.for_ms} ms",
            )
        self.env.run()
        for query in self.queries:
            query.finish()
        return self.journal

    def ended(self, query: Query) -> bool:
        """Whether all sources of a query have ended and its windows are to be flushed."""
        silent = any(self._silence(source.name) is not None for source in query.sources)
        return self.scenario.flush_at_end and not silent and self.now_ms >= self.end_ms

    def note(self, stream: str, kind: str, target: str, detail: str) -> None:
        """Write down a fault, or what one has led to."""
        self.journal.write("incidents", stream=stream, at_ms=self.now_ms, kind=kind, target=target, detail=detail)

    def _plan(self, query: QueryRun, place: int, source: Source) -> None:
        """Send all buffers of a source in their time, those with a fault as it has it."""
        lost, late, empty = self._faults(source.name)
        silence = self._silence(source.name)
        silent_ms = None if silence is None else self.scenario.start_ms + silence.at_ms
        if silent_ms is not None:
            self.at(silent_ms, self.note, query.part.name, "silence", source.name, "until the end")
        records = received(source, self.scenario, self._traces.get(source.name))
        for buffer in cut(records, source, self.scenario, silent_ms=silent_ms, empty=empty):
            number = f"{source.name} {buffer.sequence}"
            if buffer.sequence in empty:
                self.at(buffer.sent_ms, self.note, query.part.name, "empty", number, "no record is left")
            if buffer.sequence in lost:
                self.at(buffer.sent_ms, self.note, query.part.name, "loss", number, f"{len(buffer.rows)} records")
                continue
            delay_ms = late.get(buffer.sequence, 0)
            if delay_ms:
                self.at(buffer.sent_ms, self.note, query.part.name, "delay", number, f"{delay_ms} ms")
            query.on_its_way += 1
            self._send(query, place, buffer, delay_ms)

    def _send(self, query: QueryRun, place: int, buffer: CutBuffer, delay_ms: int) -> None:
        self.at(buffer.sent_ms + delay_ms, query.send, place, buffer)

    def _faults(self, source: str) -> tuple[frozenset[int], dict[int, int], frozenset[int]]:
        """The sequences of a source that are lost, delayed (by how many ms) and empty."""
        mine = [action for action in self.scenario.script if getattr(action, "source", None) == source]
        lost = frozenset(action.sequence for action in mine if isinstance(action, LoseBuffer))
        late = {action.sequence: action.by_ms for action in mine if isinstance(action, DelayBuffer)}
        return lost, late, frozenset(action.sequence for action in mine if isinstance(action, EmptyBuffer))

    def _silence(self, source: str) -> SilenceSource | None:
        silences = [a for a in self.scenario.script if isinstance(a, SilenceSource) and a.source == source]
        return min(silences, key=lambda action: action.at_ms, default=None)
