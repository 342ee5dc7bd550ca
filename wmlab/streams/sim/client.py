"""The calls of a writer's process to controllers, and when they are repeated.

Notes and shutdowns are calls, which the network may lose; what a controller is asked for goes over a connection. A call
that failed for a passing reason, a conflict of compare-and-set among them, is repeated with growing waits; a negative
answer is not.

Source: PDP-33, "Controller Changes"; upstream `ControllerImpl` and `RetryingControllerClient`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from wmlab.core.simulation import generator
from wmlab.streams.model.marks import NoteOutcome
from wmlab.streams.model.position import Position
from wmlab.streams.model.wire import Leave, Note
from wmlab.streams.sim.network import Message, Way
from wmlab.streams.sim.store import UNAVAILABLE

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller
    from wmlab.streams.sim.node import Steps
    from wmlab.streams.sim.stream import StreamWorld

JobResult = TypeVar("JobResult")
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


class ControllerClient:
    """The calls of one incarnation of a writer's process, the `node`.

    Once it has `stopped`, what is under way may arrive, but nothing is repeated.
    """

    def __init__(self, stream: StreamWorld, node: str) -> None:
        self.stream = stream
        self.node = node
        self.stopped = False
        self._failed: Controller | None = None
        self._retry = stream.network.part.retry
        self._next_controller = self._choose()

    def note(self, writer: str, time: int, position: Position, noted_ms: int) -> None:
        """Note a time; nobody waits for the answer."""
        self._call("note time", Note(self.stream.name, writer, time, position, noted_ms, process=self.node))

    def leave(self, writer: str, call: str) -> None:
        """Say that a writer shuts down or is idle; like a note."""
        self._call(call, Leave(self.stream.name, writer, self.node, call, self.stream.now_ms))

    def _call(self, kind: str, content: Note | Leave, failures: int = 0) -> None:
        if self.stopped:
            return
        controller, retry = next(self._next_controller), self._retry

        is_answered = False

        def serve() -> None:
            controller.receive(content, send_back)

        def send_back(outcome: str) -> None:
            self.stream.network.carry(request.reply("answer", outcome), on_answer, outcome, way=Way.CALL)

        def on_answer(outcome: str | None) -> None:
            nonlocal is_answered
            if is_answered:
                return
            is_answered = True
            if outcome in (UNAVAILABLE, None):
                self._failed = controller
            if outcome in REPEATED_AFTER and failures + 1 < retry.attempts:
                self.stream.after(retry.wait_ms(failures + 1), self._call, kind, content, failures + 1)

        request = Message(self.stream.title, self.node, controller.name, kind, content)
        self.stream.network.carry(request, serve, way=Way.CALL)
        if retry.answer_within_ms is not None:
            self.stream.after(retry.answer_within_ms, on_answer, None)

    def ask(
        self,
        kind: str,
        subject: object,
        job: Callable[[Controller], Steps[JobResult]],
        then: Callable[[JobResult], None],
        carried: object = None,
        failures: int = 0,
    ) -> None:
        """Let a controller do a job and go on with its result; another is asked if it is down or goes down.

        `kind` is the name of the message, one of `REPLIES`. The reply says its `subject`, and so does the message
        unless it says more, with what is `carried`.
        """
        if self.stopped:
            return
        controller, network = next(self._next_controller), self.stream.network
        content = subject if carried is None else carried
        request = Message(self.stream.title, self.node, controller.name, kind, content)

        def reply(result: JobResult | None) -> None:
            if result is None:
                network.carry(request.reply(REPLIES[kind], UNAVAILABLE), ask_again)
            else:
                network.carry(request.reply(REPLIES[kind], subject), then, result)

        def ask_again() -> None:
            self._failed = controller
            wait_ms = self._retry.wait_ms(failures + 1)
            self.stream.after(wait_ms, self.ask, kind, subject, job, then, carried, failures + 1)

        def arrive() -> None:
            controller.serve(job(controller), reply)

        network.carry(request, arrive)

    def _choose(self) -> Iterator[Controller]:
        """The controller to call next: one after the other, drawn for each call, or the one before until it fails."""
        fleet, contact = self.stream.world.fleet, self.stream.scenario.controllers.contact
        draws = generator(self.stream.scenario.seed, f"controllers of {self.node}")
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
