"""What runs in a simulated world: nodes, the coroutines that they are at work on, and what they ask of each other.

Everything that a node does is a coroutine of SimPy; a crash interrupts them all. A node that is paused goes on with
each of them when the pause is over.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import simpy
from simpy.events import NORMAL, PENDING, URGENT, EventPriority

from wmlab.streams.sim.network import Message, Way
from wmlab.streams.sim.world import World

Result = TypeVar("Result")
Steps = Generator[simpy.Event, Any, Result]
"""A coroutine: it yields the events that it waits for, and ends with a result."""


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

    @property
    def is_paused(self) -> bool:
        """Whether the node is paused."""
        return self._resumed is not None

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
