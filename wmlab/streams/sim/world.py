"""The world of a run: a clock, the messages between its nodes, the stores that may refuse, and the journals.

SimPy holds the clock and the queue of what is to come; the rules are in `wmlab.streams.model`, the nodes carry them
out. Everything that a node does is a coroutine of SimPy; a crash interrupts them all. A node that is paused goes on
with each of them when the pause is over. Nothing here depends on wall time or on hash order; the parties of a scenario
are put together in `wmlab.streams.sim.parties`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import simpy
from simpy.events import NORMAL, PENDING, URGENT, EventPriority

from wmlab.core.errors import ModelError
from wmlab.core.simulation import Journal, Simulation
from wmlab.streams.model.cycle import unavailable
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.sim.network import Message, SimulatedNetwork, Way
from wmlab.streams.tables import TOOK_PLACE, IncidentOutcome, Sides, Subject

Result = TypeVar("Result")
Steps = Generator[simpy.Event, Any, Result]
"""A coroutine: it yields the events that it waits for, and ends with a result."""

UNAVAILABLE: Final = "unavailable"
"""The answer of a controller that is not there, or that cannot reach its store."""


class UnavailableError(ModelError):
    """A store that refuses to answer, or that a partition keeps out of reach."""

    def __init__(self, store: str) -> None:
        super().__init__(f"The {store} is unavailable.", remedy="Wait until it is back.")
        self.reason = unavailable(store)


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
        self.rules = scenario.rules
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


class Signal(simpy.Event):
    """An event of which only the first value counts; those that wait for it learn of it before anything else happens.

    With `priority` NORMAL that is after what else is due at that moment.
    """

    def __init__(self, env: simpy.Environment, priority: EventPriority = URGENT) -> None:
        super().__init__(env)
        self._priority = priority

    def send(self, value: Any = None) -> None:
        """Let it happen, or have happened for those that wait for it later."""
        if self._value is not PENDING:
            return
        self._ok, self._value = True, value
        if self.callbacks and (self._priority == NORMAL or self.env.active_process is not None):
            self.env.schedule(self, self._priority)
        else:
            # As SimPy does with an event whose turn it is, without a way through its queue.
            waiting, self.callbacks = self.callbacks, None  # type: ignore[assignment]
            for callback in waiting:
                callback(self)


class Reply(NamedTuple):
    """The answer to a request: the kind and the content of the message, and the result that it brings."""

    kind: str
    content: object
    result: Any


Answer = Callable[[Reply], None]
"""Sends the answer to a request."""


class Node:
    """A process of the world that may crash and pause; messages call it `name`."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        # In the order of their beginnings; one that has ended, or waits for an answer that was lost, leaves memory.
        # It is another dictionary after a crash.
        self._doing: WeakKeyDictionary[simpy.Process, None] = WeakKeyDictionary()
        self._resumed: simpy.Event | None = None
        self._crashed_ms: float | None = None

    def do(self, steps: Steps[None]) -> None:
        """Begin to do something, until it is done or the node crashes."""
        process = self.world.env.process(self._until_crash(steps))
        self._doing[process] = None

    def _until_crash(self, steps: Steps[None]) -> Steps[None]:
        with suppress(simpy.Interrupt):
            yield from steps

    def crash(self) -> None:
        """End everything that the node does, but for the coroutine that calls this; a pause ends with it."""
        ended, self._doing, self._resumed = list(self._doing), WeakKeyDictionary(), None
        self._crashed_ms = self.world.env.now
        for process in ended:
            if process.is_alive and process is not self.world.env.active_process:
                process.interrupt()

    def pause(self) -> None:
        """Go on with nothing until `resume`."""
        self._resumed = self.world.env.event()

    def resume(self) -> None:
        """Go on with everything, in the order in which it came due."""
        if self._resumed is not None:
            resumed, self._resumed = self._resumed, None
            resumed.succeed()

    def ready(self) -> Steps[None]:
        """Wait while the node is paused; end when it has crashed at this very moment."""
        while self._resumed is not None:
            yield self._resumed
        if self._crashed_ms == self.world.env.now and self.world.env.active_process not in self._doing:
            raise simpy.Interrupt(None)

    def sleep(self, for_ms: float) -> Steps[None]:
        """Wait for a while, and then while the node is paused."""
        if for_ms:
            yield self.world.env.timeout(for_ms)
        yield from self.ready()

    def ask(
        self,
        request: Message,
        serve: Callable[[Answer], None],
        *,
        way: Way = Way.CONNECTION,
        delay_ms: int | None = None,
        unheard: Callable[[Any], None] | None = None,
    ) -> Steps[Any]:
        """Send a request; the steps wait for the result that the first answer to it brings.

        Either way it takes `delay_ms`, None: as long as any other message. `serve` is done where the request arrives,
        once for each copy of it. What is on its way arrives, whatever becomes of this node; after a crash nobody hears
        of the answer, and `unheard` gets the result.
        """
        answer = Signal(self.world.env)

        def send_back(reply: Reply) -> None:
            message = request.reply(reply.kind, reply.content)
            self.world.network.carry(message, answer.send, reply.result, way=way, delay_ms=delay_ms)

        self.world.network.carry(request, serve, send_back, way=way, delay_ms=delay_ms)
        return self._hear(answer, unheard)

    def submit(self, request: Message, serve: Callable[[Answer], None], on_answer: Callable[[Any], None]) -> None:
        """Send a request on a connection and go on; `on_answer` gets the result of the answer, after a crash nobody.

        It needs no coroutine of its own. For nodes that are not paused: nothing holds `on_answer` up.
        """
        network, life = self.world.network, self._doing

        def hear(result: Any) -> None:
            if self._doing is life:
                on_answer(result)

        def send_back(reply: Reply) -> None:
            network.carry(request.reply(reply.kind, reply.content), hear, reply.result)

        network.carry(request, serve, send_back)

    def _hear(self, answer: Signal, unheard: Callable[[Any], None] | None) -> Steps[Any]:
        try:
            result = yield answer
            yield from self.ready()
        except simpy.Interrupt:
            if unheard is not None:
                unheard((yield answer))
            raise
        return result

    def go(self, message: Message, *, way: Way = Way.CONNECTION, delay_ms: int | None = None) -> Steps[None]:
        """Go along with a message: a crash ends what it asks for, a pause holds it up.

        Inside the service the node goes on as soon as it arrives, on a connection after what else is due then.
        """
        arrival = Signal(self.world.env, priority=URGENT if way is Way.INSIDE else NORMAL)
        self.world.network.carry(message, arrival.send, way=way, delay_ms=delay_ms)
        yield arrival
        yield from self.ready()
