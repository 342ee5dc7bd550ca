"""The world of a run: a clock, the messages between its nodes, the stores that may refuse, and what is written down.

SimPy holds the clock and the queue of what is to come; the rules are in `wmlab.streams.model`, the nodes carry them
out. Nothing here depends on wall time or on hash order, and nothing here knows a node: the parties of a scenario are
put together in `wmlab.streams.sim.parties`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wmlab.core.simulation import Journal, Simulation
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.sim.network import SimulatedNetwork
from wmlab.streams.sim.store import UnavailableError
from wmlab.streams.tables import TOOK_PLACE, IncidentOutcome, Sides, Subject


@dataclass(frozen=True, slots=True)
class Incident:
    """What happened to whom, in one short phrase: a row of `incidents` without its time.

    `subject` is what the target is. `for_ms` is how long it lasts by the script, None: until something else ends it.
    `sides` are the nodes on either side of a partition.
    """

    kind: str
    subject: Subject
    target: str
    detail: str
    outcome: IncidentOutcome = TOOK_PLACE
    for_ms: int | None = None
    sides: Sides | None = None


class World(Simulation):
    """One run of one scenario.

    `journals` has the rows of every stream by its name, `shared` those that are of no stream. `take_events`, if given,
    takes the events of a stream, by its title, whenever there are many.
    """

    def __init__(self, scenario: StreamScenario, take_events: Callable[[str, Journal], None] | None = None) -> None:
        super().__init__(start_ms=scenario.start_ms, duration_ms=scenario.duration_ms, seed=scenario.seed)
        self.scenario = scenario = scenario.resolved
        self.shared = Journal()
        self.journals: dict[str, Journal] = {}
        self.take_events = take_events
        self.network = SimulatedNetwork(self, scenario, self.shared)
        self._refusals: Counter[str] = Counter()

    def later(self, act: Callable[..., None], *args: Any) -> None:
        """Call `act` one message later."""
        self.after(self.scenario.latency_ms, act, *args)

    def refuse(self, store: str, for_ms: int) -> None:
        """Let a store, called as in `script.StoreUnavailable`, refuse everything for a while."""
        self._refusals[store] += 1
        self.after(for_ms, self._refusals.subtract, [store])

    def require(self, store: str) -> None:
        """Nothing, or `UnavailableError` while that store refuses."""
        if self._refusals[store]:
            raise UnavailableError(store.replace("_", " "))

    def record_incident(self, incident: Incident, *journals: Journal) -> None:
        """Write an incident down as one of now, in these journals or, without any, in that of every stream."""
        until_ms = None if incident.for_ms is None else self.now_ms + incident.for_ms
        for journal in journals or self.journals.values():
            journal.write(
                "incidents",
                kind=incident.kind,
                subject=incident.subject,
                target=incident.target,
                detail=incident.detail,
                outcome=incident.outcome,
                at_ms=self.now_ms,
                until_ms=until_ms,
                sides=incident.sides,
            )
