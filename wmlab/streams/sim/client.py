"""A writer's controller client: which controller it calls, what it asks, and what it does when that fails.

Notes and farewells are calls, which the network may lose; all else goes over a connection. Source: upstream
`ControllerImpl` and `RetryingControllerClient`: a call that failed for a passing reason is repeated with growing waits;
those transient errors include a conflict of compare-and-set. A negative answer is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from wmlab.core.clock import generator
from wmlab.streams.model.marks import NoteOutcome
from wmlab.streams.model.position import Position
from wmlab.streams.sim.notes import UNAVAILABLE, Farewell, Note, receive, receive_farewell

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller, Job
    from wmlab.streams.sim.stream import StreamWorld

T = TypeVar("T")
PASSING: Final = frozenset({NoteOutcome.WRITE_CONFLICT.value, NoteOutcome.DATA_NOT_FOUND.value, UNAVAILABLE})
"""The outcomes after which a call is repeated."""


class ControllerClient:
    """The calls of one life of a writer's process; `party` is the process."""

    def __init__(self, world: StreamWorld, party: str) -> None:
        self.world = world
        self.party = party
        self._turns = self._choose()
        self._calls = 0
        self._open: set[int] = set()
        self._stopped = False

    @property
    def is_stopped(self) -> bool:
        """Whether the life has ended."""
        return self._stopped

    def stop(self) -> None:
        """The life has ended: what is under way may arrive, but nothing is repeated."""
        self._stopped = True

    def note(self, writer: str, time: int, position: Position, noted_ms: int) -> None:
        """Note a time; nobody waits for the answer."""
        note = Note(self.world.name, writer, time, position, noted_ms, process=self.party)
        self._attempt("note time", note, receive, 0)

    def leave(self, writer: str, call: str) -> None:
        """Say that a writer shuts down or is idle; like a note."""
        farewell = Farewell(self.world.name, writer, self.party, call, self.world.now_ms)
        self._attempt(call, farewell, receive_farewell, 0)

    def _attempt(self, what: str, message: T, judge: Callable[..., None], failures: int) -> None:
        if self._stopped:
            return
        self._calls += 1
        call = self._calls
        self._open.add(call)
        controller = next(self._turns)

        def answer(outcome: str) -> None:
            self.world.call(controller.name, self.party, "answer", outcome, heard, outcome)

        def heard(outcome: str) -> None:
            # A copy of the message that the network made is answered too; only the first answer counts.
            if call in self._open:
                self._open.discard(call)
                if outcome in PASSING:
                    self._again(what, message, judge, failures + 1)

        self.world.call(self.party, controller.name, what, message, judge, controller, message, answer)
        patience = self.world.network.part.retry.answer_within_ms
        if patience is not None:
            self.world.after(patience, heard, UNAVAILABLE)

    def _again(self, what: str, message: T, judge: Callable[..., None], failures: int) -> None:
        retry = self.world.network.part.retry
        if failures < retry.attempts:
            self.world.after(retry.wait_ms(failures), self._attempt, what, message, judge, failures)

    def successors(self, segment_id: int, then: Callable[[], None]) -> None:
        """Ask for the successors of a sealed segment."""
        self.ask("get successors", "successors", segment_id, lambda controller: controller.look_up(), lambda _: then())

    def ask(
        self,
        what: str,
        reply: str,
        about: object,
        job: Callable[[Controller], Job[T]],
        then: Callable[[T], None],
        failures: int = 0,
    ) -> None:
        """Let a controller do a job and go on with its result; another is asked if it is down or goes down.

        `what` and `reply` are the names of the two messages, `about` their content.
        """
        if self._stopped:
            return
        controller = next(self._turns)

        def answer(found: T | None) -> None:
            if found is None:
                self.world.carry(controller.name, self.party, reply, UNAVAILABLE, wait)
            else:
                self.world.carry(controller.name, self.party, reply, about, then, found)

        def wait() -> None:
            retry = self.world.network.part.retry
            self.world.after(retry.wait_ms(failures + 1), self.ask, what, reply, about, job, then, failures + 1)

        def arrive() -> None:
            controller.serve(job(controller), answer)

        self.world.carry(self.party, controller.name, what, about, arrive)

    def _choose(self) -> Iterator[Controller]:
        """The controller to call next: in turns, or drawn for each call."""
        fleet = self.world.world.fleet
        draws = generator(self.world.scenario.seed, f"controllers of {self.party}")
        drawn = self.world.scenario.controllers.contact == "random"
        turn = 0
        while True:
            known = fleet.members
            yield known[int(draws.integers(len(known))) if drawn else turn % len(known)]
            turn += 1
