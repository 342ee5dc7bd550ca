"""A writer's way to the controllers: it calls any of them, and repeats what failed for a passing reason.

Source: PDP-33, "Distributing Streams Across Controller Instances" (no affinity of writers to a controller); upstream
`ControllerImpl`, whose transient errors include a conflict of compare-and-set. A negative answer is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wmlab.model.marks import NoteOutcome
from wmlab.model.position import Position
from wmlab.sim.draws import generator

if TYPE_CHECKING:
    from wmlab.sim.controller import Controller
    from wmlab.sim.stream import StreamWorld

UNAVAILABLE: Final = "unavailable"
"""The answer of a controller that is not there, or that cannot reach its store."""
PASSING: Final = frozenset({NoteOutcome.WRITE_CONFLICT.value, NoteOutcome.DATA_NOT_FOUND.value, UNAVAILABLE})
"""The outcomes after which a call is repeated."""


@dataclass(frozen=True, slots=True)
class Note:
    """A noted time on its way: `noted_ms` is the simulated time of the call."""

    stream: str
    writer: str
    time: int
    position: Position
    noted_ms: int

    def __str__(self) -> str:
        return f"time {self.time}, position {self.position}"


class ControllerClient:
    """The calls of one process of a writer: `writer` is the writer id, `party` the process."""

    def __init__(self, world: StreamWorld, writer: str, party: str) -> None:
        self.world = world
        self.writer = writer
        self.party = party
        self._turns = self._choose()
        self._calls = 0
        self._open: set[int] = set()

    def note(self, time: int, position: Position, alive: Callable[[], bool]) -> None:
        """Note a time; nobody waits for the answer. A call is not repeated once `alive` says that the caller is not."""
        note = Note(self.world.name, self.writer, time, position, self.world.now_ms)
        self._attempt(note, alive, 0)

    def _attempt(self, note: Note, alive: Callable[[], bool], failures: int) -> None:
        if not alive():
            return
        self._calls += 1
        call = self._calls
        self._open.add(call)
        controller = next(self._turns)

        def answer(outcome: str) -> None:
            self.world.call(controller.name, self.party, "answer", outcome, heard, outcome)

        def heard(outcome: str) -> None:
            # A copy of the note that the network made is answered too; only the first answer counts.
            if call in self._open:
                self._open.discard(call)
                if outcome in PASSING:
                    self._again(note, alive, failures + 1)

        self.world.call(self.party, controller.name, "note time", note, controller.receive, note, answer)
        patience = self.world.network.part.retry.answer_within_ms
        if patience is not None:
            self.world.after(patience, heard, UNAVAILABLE)

    def _again(self, note: Note, alive: Callable[[], bool], failures: int) -> None:
        retry = self.world.network.part.retry
        if failures < retry.attempts:
            self.world.after(retry.wait_ms(failures), self._attempt, note, alive, failures)

    def successors(self, segment_id: int, then: Callable[[], None]) -> None:
        """Ask a controller for the successors of a sealed segment; asks until one answers."""
        controller = next(self._turns)

        def answer(found: bool) -> None:
            back = then if found else wait
            self.world.carry(controller.name, self.party, "successors", segment_id if found else UNAVAILABLE, back)

        def wait() -> None:
            self.world.after(self.world.network.part.retry.most_ms, self.successors, segment_id, then)

        self.world.carry(self.party, controller.name, "get successors", segment_id, controller.look_up, answer)

    def _choose(self) -> Iterator[Controller]:
        """The controller to call next: in turns, or drawn for each call."""
        fleet = self.world.world.fleet
        draws = generator(self.world.scenario.seed, f"controllers of {self.party}")
        turn = 0
        while True:
            known = fleet.members
            drawn = self.world.scenario.controllers.contact == "random"
            yield known[int(draws.integers(len(known))) if drawn else turn % len(known)]
            turn += 1
