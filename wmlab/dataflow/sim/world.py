"""The simulated job: a clock, the execution that is running, and who takes the next turn.

A party that has something to do is due after a random part of `jitter_ms`. Of those that are due at one moment, chance
or a given choice says who is first; so every order of the queues that a real job may have can come about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wmlab.core.clock import Simulation
from wmlab.core.delays import chances
from wmlab.core.errors import WmlabError
from wmlab.core.journal import Journal
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.faults import Restart, Stall, SwallowAll
from wmlab.dataflow.scenario.source import Reading, Source
from wmlab.dataflow.scenario.vertices import AsyncMap
from wmlab.dataflow.sim.calls import Calls
from wmlab.dataflow.sim.execution import Running, Saved
from wmlab.dataflow.sim.feed import feeds
from wmlab.dataflow.sim.layout import layout
from wmlab.dataflow.sim.mappers import clocked
from wmlab.dataflow.sim.party import Party

Choose = Callable[[Sequence[str]], int]
"""Of the parties that are due, by name, the place of the one that takes the next turn."""


class DataflowWorld(Simulation):
    """One run of one dataflow.

    `readings` gives what every source reads that has no rows of its own; `choose` replaces chance in who is next.
    """

    def __init__(
        self, dataflow: DataflowScenario, readings: Mapping[str, Reading] | None = None, *, choose: Choose | None = None
    ) -> None:
        super().__init__(start_ms=dataflow.start_ms, duration_ms=dataflow.duration_ms, seed=dataflow.seed)
        self.dataflow = dataflow
        self.plan = dataflow.plan
        self.layout = layout(dataflow)
        self.journal = Journal(common={"execution": 1})
        self.last_snapshot: Saved | None = None
        sources = [vertex for vertex in dataflow.vertices if isinstance(vertex, Source)]
        self.feeds = {source.name: feeds(dataflow, source, (readings or {}).get(source.name)) for source in sources}
        self.times = {source.name: clocked(dataflow, source) for source in sources}
        self.calls = {n.name: Calls(self, n) for n in self.layout.nodes if isinstance(n.vertex, AsyncMap)}
        self._chances = chances(self.draws("turns"))
        self._choose = choose or (lambda names: int(next(self._chances) * len(names)))
        self._due: list[Party] = []
        self._dispatching = False
        self._snapshots = 0
        self._stopped = False
        self._asleep: dict[Party, int] = {}
        self._restart_due = False
        self._terminal_due = False
        self.execution = Running(self, None)

    def run(self) -> Journal:
        """Run to the end of the dataflow, or until it is complete or has failed. Returns what happened."""
        self._plan()
        self.execution.begin()
        while not self._stopped and self.env.peek() < self.end_ms:
            try:
                self.env.step()
            except WmlabError as problem:
                self._fail(problem)
        return self.journal

    def wake(self, party: Party, *, after_ms: int = 0) -> None:
        """A party has something to do; it takes its turn soon."""
        if party.ready or party.execution is not self.execution:
            return
        party.ready = True
        delay_ms = max(after_ms, next(self._chances) * self.dataflow.jitter_ms)
        if delay_ms:
            self.later(delay_ms, self._is_due, party)
        else:
            self._is_due(party)

    def wake_at(self, party: Party, at_ms: int) -> None:
        """A party has something to do at a time; of several times the earliest counts."""
        known = self._asleep.get(party)
        if known is not None and self.now_ms < known <= at_ms:
            return
        self._asleep[party] = at_ms

        def rise() -> None:
            if self._asleep.get(party) == at_ms:
                del self._asleep[party]
                self.wake(party)

        self.later(max(0, at_ms - self.env.now), rise)

    def later(self, delay_ms: float, act: Callable[..., None], *args: Any) -> None:
        """Call `act` after a time, unless a restart or the end comes before."""
        self.after(delay_ms, self._unless_over, self.execution, act, *args)

    def _unless_over(self, execution: Running, act: Callable[..., None], *args: Any) -> None:
        if execution is self.execution:
            act(*args)

    def note(self, kind: str, target: str, detail: str) -> None:
        """Write down a fault, or what one has led to."""
        self.journal.write("incidents", at_ms=self.now_ms, kind=kind, target=target, detail=detail)

    def swallows(self, vertex: str) -> bool:
        """Whether a filter lets nothing pass now."""
        after_ms = self.now_ms - self.dataflow.start_ms
        return any(
            isinstance(fault, SwallowAll) and fault.vertex == vertex and _covers(fault, after_ms)
            for fault in self.dataflow.faults
        )

    def snapshot_complete(self, snapshot: Saved, *, terminal: bool) -> None:
        """All parties have saved their state."""
        self.last_snapshot = snapshot
        if terminal:
            self._restart_due = True
        elif self._terminal_due:
            self.later(0, self._snapshot_and_restart)

    def completed(self) -> None:
        """All parties have sent their end."""
        self.execution.end("completed")
        self._stopped = True

    def _fail(self, problem: WmlabError) -> None:
        self.execution.end("failed", problem.problem)
        self.note("failure", self.dataflow.name, problem.problem)
        self._stopped = True

    def _is_due(self, party: Party) -> None:
        self._due.append(party)
        if not self._dispatching:
            self._dispatching = True
            self.later(0, self._dispatch)

    def _dispatch(self) -> None:
        """Turns of all that are due now, one by one; what becomes due by them takes part."""
        while self._due and not self._stopped:
            party = self._due.pop(self._choose([one.name for one in self._due]) if len(self._due) > 1 else 0)
            party.ready = False
            if not self._stalled(party):
                party.turn()
            if self._restart_due:
                self._restart()
        self._dispatching = False

    def _stalled(self, party: Party) -> bool:
        after_ms = self.now_ms - self.dataflow.start_ms
        return any(
            isinstance(fault, Stall)
            and fault.vertex == party.node.vertex.name
            and fault.instance in {None, party.number}
            and _covers(fault, after_ms)
            for fault in self.dataflow.faults
        )

    def _plan(self) -> None:
        """Everything that happens at a time that is known beforehand."""
        every_ms = self.dataflow.snapshot_every_ms
        if every_ms is not None:
            self.after(every_ms, self._snapshot_regularly, every_ms)
        for fault in self.dataflow.faults:
            if isinstance(fault, Restart):
                self.after(fault.at_ms, self._snapshot_and_restart if fault.after_snapshot else self._restart)
                continue
            self.after(fault.at_ms, self._note_fault, fault)
            if isinstance(fault, Stall) and fault.for_ms is not None:
                self.after(fault.at_ms + fault.for_ms, self._wake_all)

    def _note_fault(self, fault: object) -> None:
        details = [
            f"{field.removesuffix('_ms').replace('_', ' ')} {value}{' ms' if field.endswith('_ms') else ''}"
            for field in ("partition", "instance", "by_ms", "first", "for_ms")
            if (value := getattr(fault, field, None)) is not None
        ]
        target = str(getattr(fault, "source", None) or getattr(fault, "vertex", ""))
        kind = str(getattr(fault, "kind", "")).replace("_", " ")
        self.note(kind, target, ", ".join(details))

    def _wake_all(self) -> None:
        for party in self.execution.parties.values():
            self.wake(party)

    def _snapshot_regularly(self, every_ms: int) -> None:
        if not self.execution.in_snapshot:
            self._snapshots += 1
            self.execution.begin_snapshot(self._snapshots)
        self.after(every_ms, self._snapshot_regularly, every_ms)

    def _snapshot_and_restart(self) -> None:
        self._terminal_due = self.execution.in_snapshot
        if self._terminal_due:
            return
        self._snapshots += 1
        self.execution.begin_snapshot(self._snapshots, terminal=True)

    def _restart(self) -> None:
        """Begin again from the last complete snapshot."""
        self._restart_due = False
        if self.dataflow.guarantee == "exactly_once":
            self.execution.take_back()
        self.execution.end("restarted")
        snapshot = self.last_snapshot
        self.note(
            "restart", self.dataflow.name, "from the start" if snapshot is None else f"from snapshot {snapshot.number}"
        )
        self._due, self._asleep, self._dispatching = [], {}, False
        self.journal.common["execution"] += 1
        self.execution = Running(self, snapshot)
        self.execution.begin()


def _covers(fault: Stall | SwallowAll, after_ms: int) -> bool:
    return fault.at_ms <= after_ms and (fault.for_ms is None or after_ms < fault.at_ms + fault.for_ms)
