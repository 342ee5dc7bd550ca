"""A node that calls controllers: which one it calls, and when it repeats a call.

Notes and shutdowns are calls, which the network may lose; what a controller is asked for goes over a connection. A call
that failed for a passing reason, a conflict of compare-and-set among them, is repeated with growing waits; a negative
answer is not.

Source: PDP-33, "Controller Changes"; upstream `ControllerImpl` and `RetryingControllerClient`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from wmlab.core.simulation import generator
from wmlab.streams.model.marks import NoteOutcome
from wmlab.streams.model.wire import Leave, Note
from wmlab.streams.sim.network import Message, Way
from wmlab.streams.sim.node import Answer, Node, Reply, Result, Steps
from wmlab.streams.sim.store import UNAVAILABLE

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller
    from wmlab.streams.sim.stream import StreamWorld

REPEATED_AFTER: Final = frozenset(
    {NoteOutcome.WRITE_CONFLICT.value, NoteOutcome.DATA_NOT_FOUND.value, UNAVAILABLE, None}
)
"""The outcomes after which a call is repeated; None: no answer in time."""
REPLIES: Final = {
    "get successors": "successors",
    "begin transaction": "transaction begun",
    "commit transaction": "commit requested",
    "abort transaction": "aborted",
}
"""The names of the replies to what a client asks of a controller."""


class Client(Node):
    """A node that calls the controllers about its `stream`."""

    def __init__(self, stream: StreamWorld, name: str) -> None:
        super().__init__(stream.world, name)
        self.stream = stream
        self._retry = stream.network.part.retry
        self.forget_controllers()

    def forget_controllers(self) -> None:
        """Know nothing of the controllers that were called."""
        self._failed: Controller | None = None
        self._next_controller = self._choose()

    def call(self, kind: str, content: Note | Leave) -> Steps[None]:
        """Note a time, or say that a writer leaves; repeat it until that has an outcome."""
        for failures in range(1, self._retry.attempts + 1):
            controller = next(self._next_controller)
            request = Message(self.stream.title, self.name, controller.name, kind, content)
            serve, within_ms = partial(controller.receive, content), self._retry.answer_within_ms
            outcome = yield from self.ask(request, serve, way=Way.CALL, answer_within_ms=within_ms)
            if outcome in (UNAVAILABLE, None):
                self._failed = controller
            if outcome not in REPEATED_AFTER or failures == self._retry.attempts:
                return
            yield self.world.env.timeout(self._retry.wait_ms(failures))

    def ask_controller(
        self,
        kind: str,
        subject: object,
        steps: Callable[[Controller], Steps[Result]],
        carried: object = None,
        unheard: Callable[[Result], None] | None = None,
    ) -> Steps[Result]:
        """Let a controller do something, and come back with its result; another is asked if it is down or goes down.

        `kind` is the name of the message, one of `REPLIES`. The reply says its `subject`, and so does the message
        unless it says more, with what is `carried`.
        """
        for failures in count(1):
            controller = next(self._next_controller)
            content = subject if carried is None else carried
            request = Message(self.stream.title, self.name, controller.name, kind, content)
            result: Result | None = yield from self.ask(
                request, partial(_serve, controller, steps, kind, subject), unheard=unheard
            )
            if result is not None:
                return result
            self._failed = controller
            yield self.world.env.timeout(self._retry.wait_ms(failures))
        raise AssertionError

    def _choose(self) -> Iterator[Controller]:
        """The controller to call next: one after the other, drawn for each call, or the one before until it fails."""
        fleet, contact = self.stream.world.fleet, self.stream.scenario.controllers.contact
        draws = generator(self.stream.scenario.seed, f"controllers of {self.name}")
        kept: Controller | None = None
        for index in count():
            known = fleet.members
            if contact == "round_robin":
                yield known[index % len(known)]
            elif contact == "random":
                yield known[int(draws.integers(len(known)))]
            else:
                if kept is None or kept is self._failed or kept not in known:
                    others = [controller for controller in known if controller is not self._failed] or known
                    kept, self._failed = others[int(draws.integers(len(others)))], None
                yield kept


def _serve(
    controller: Controller,
    steps: Callable[[Controller], Steps[Any]],
    kind: str,
    subject: object,
    answer: Answer,
) -> None:
    """At a controller: do the steps, and answer with their result; None: it is down or goes down meanwhile."""

    def reply(result: Any) -> None:
        answer(Reply(REPLIES[kind], UNAVAILABLE if result is None else subject, result))

    controller.serve(steps(controller), reply)
