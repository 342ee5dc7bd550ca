"""The calls of a writer to controllers: the client that makes and repeats them, and how a controller judges them.

Notes and shutdowns are calls, which the network may lose; all else goes over a connection. A call that failed for a
passing reason, a conflict of compare-and-set among them, is repeated with growing waits; a negative answer is not. The
controller reads the record, decides, and stores by compare-and-set; notes of transactions by the controller that
commits them go the same way.

Source: PDP-33, "Controller Changes"; upstream `ControllerImpl`, `RetryingControllerClient`,
`ControllerServiceImpl` and `PersistentStreamBase`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from wmlab.core.simulation import generator
from wmlab.streams.model.marks import NoteOutcome
from wmlab.streams.model.position import Position
from wmlab.streams.model.wire import note_bytes
from wmlab.streams.scenario.parts import METADATA_STORE
from wmlab.streams.sim.store import UnavailableError

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller, Job
    from wmlab.streams.sim.stream import StreamWorld

UNAVAILABLE: Final = "unavailable"
"""The answer of a controller that is not there, or that cannot reach its store."""


class Note(NamedTuple):
    """A noted time: by a `process` of a writer at `noted_ms` of simulated time, or by the commit of a transaction."""

    stream: str
    writer: str
    time: int
    position: Position
    noted_ms: int
    process: str | None = None
    txn: str | None = None

    @property
    def wire_bytes(self) -> int:
        """The length of the message."""
        return note_bytes(self.stream, self.writer, self.position)

    def __str__(self) -> str:
        return f"time {self.time}, position {self.position}"


class Leave(NamedTuple):
    """A process says that its writer need not be waited for: it shuts down, or it is idle."""

    stream: str
    writer: str
    process: str
    call: str
    sent_ms: int

    def __str__(self) -> str:
        return self.call


def receive(controller: Controller, message: Note | Leave, answer: Callable[[str], None]) -> None:
    """Judge a message and answer; a controller that is down refuses the connection."""
    if not controller.is_running:
        answer(UNAVAILABLE)
    elif isinstance(message, Note) and controller.is_working and controller.world.network.is_immediate:
        answer(_conclude(controller, message, controller.world.now_ms, _judge_at_once(controller, message)))
    else:
        controller.drive(_answered(judge(controller, message), answer))


def _answered(job: Job[str], answer: Callable[[str], None]) -> Job[None]:
    answer((yield from job))


def judge(controller: Controller, message: Note | Leave) -> Job[str]:
    """The stream of a note joins its bucket, the record is read, the call judged, and stored by compare-and-set.

    A note counts as judged at the moment of the compare-and-set, from which on cycles find it. That a writer leaves,
    which marks it as no longer alive, counts as received when it was heard (upstream `removeWriter`).
    """
    world, metadata, received_ms = controller.world, controller.world.metadata, controller.world.now_ms
    ask = partial(controller.ask, METADATA_STORE, world.streams[message.stream])
    try:
        if isinstance(message, Note):
            yield from ask("join bucket", lambda: metadata.join(message.stream))
        read = yield from ask("read mark", lambda: metadata.read(message.stream, message.writer))
        shown_ms = controller.clock.read(world.now_ms)

        def write() -> tuple[str, int]:
            if isinstance(message, Leave):
                return metadata.shut_down(message.stream, message.writer, read), received_ms
            return metadata.note(message, read, shown_ms), world.now_ms

        outcome, judged_ms = yield from ask("write mark", write)
    except UnavailableError:
        outcome, judged_ms = UNAVAILABLE, received_ms if isinstance(message, Leave) else world.now_ms
    return _conclude(controller, message, judged_ms, outcome)


def _judge_at_once(controller: Controller, note: Note) -> str:
    """The same three steps when they take no time; notes are the most frequent of all calls."""
    metadata = controller.world.metadata
    try:
        metadata.join(note.stream)
        read = metadata.read(note.stream, note.writer)
        return metadata.note(note, read, controller.clock.read(controller.world.now_ms))
    except UnavailableError:
        return UNAVAILABLE


def _conclude(controller: Controller, message: Note | Leave, received_ms: int, outcome: str) -> str:
    row = message._asdict() | {"controller": controller.name, "received_ms": received_ms, "outcome": outcome}
    table = "writer_shutdowns" if isinstance(message, Leave) else "writer_marks"
    controller.world.streams[row.pop("stream")].journal.write(table, **row)
    return outcome


T = TypeVar("T")
PASSING: Final = frozenset({NoteOutcome.WRITE_CONFLICT.value, NoteOutcome.DATA_NOT_FOUND.value, UNAVAILABLE})
"""The outcomes after which a call is repeated."""
REPLIES: Final = {
    "get successors": "successors",
    "begin transaction": "transaction begun",
    "commit transaction": "commit requested",
    "abort transaction": "aborted",
}
"""The names of the replies to what a client asks of a controller."""


class ControllerClient:
    """The calls of one life of a writer's process; `party` is the process.

    Once it has `stopped`, what is under way may arrive, but nothing is repeated.
    """

    def __init__(self, world: StreamWorld, party: str) -> None:
        self.world = world
        self.party = party
        self.stopped = False
        self._retry = world.network.part.retry
        self._turns = self._choose()

    def note(self, writer: str, time: int, position: Position, noted_ms: int) -> None:
        """Note a time; nobody waits for the answer."""
        self._attempt("note time", Note(self.world.name, writer, time, position, noted_ms, process=self.party))

    def leave(self, writer: str, call: str) -> None:
        """Say that a writer shuts down or is idle; like a note."""
        self._attempt(call, Leave(self.world.name, writer, self.party, call, self.world.now_ms))

    def _attempt(self, what: str, message: Note | Leave, failures: int = 0) -> None:
        if self.stopped:
            return
        controller, answered = next(self._turns), False

        def answer(outcome: str) -> None:
            self.world.send_rpc(controller.name, self.party, "answer", outcome, on_answer, outcome)

        def on_answer(outcome: str) -> None:
            # A copy of the message that the network made is answered too; only the first answer counts.
            nonlocal answered
            if not answered and outcome in PASSING and failures + 1 < self._retry.attempts:
                self.world.after(self._retry.wait_ms(failures + 1), self._attempt, what, message, failures + 1)
            answered = True

        self.world.send_rpc(self.party, controller.name, what, message, receive, controller, message, answer)
        if self._retry.answer_within_ms is not None:
            self.world.after(self._retry.answer_within_ms, on_answer, UNAVAILABLE)

    def ask(
        self,
        what: str,
        about: object,
        job: Callable[[Controller], Job[T]],
        then: Callable[[T], None],
        failures: int = 0,
    ) -> None:
        """Let a controller do a job and go on with its result; another is asked if it is down or goes down.

        `what` is the name of the message, one of `REPLIES`, and `about` its content and that of its reply.
        """
        if self.stopped:
            return
        controller, reply = next(self._turns), REPLIES[what]

        def answer(result: T | None) -> None:
            if result is None:
                self.world.send(controller.name, self.party, reply, UNAVAILABLE, wait)
            else:
                self.world.send(controller.name, self.party, reply, about, then, result)

        def wait() -> None:
            wait_ms = self._retry.wait_ms(failures + 1)
            self.world.after(wait_ms, self.ask, what, about, job, then, failures + 1)

        def arrive() -> None:
            controller.serve(job(controller), answer)

        self.world.send(self.party, controller.name, what, about, arrive)

    def _choose(self) -> Iterator[Controller]:
        """The controller to call next: in turns, or drawn for each call."""
        fleet = self.world.world.fleet
        draws = generator(self.world.scenario.seed, f"controllers of {self.party}")
        drawn = self.world.scenario.controllers.contact == "random"
        for turn in count():
            known = fleet.members
            yield known[int(draws.integers(len(known))) if drawn else turn % len(known)]
