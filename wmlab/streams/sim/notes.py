"""Noted times and farewells as a controller judges them: read the record, decide, store by compare-and-set.

Whoever notes goes through here: event writers by a call, transactions by the controller that commits them.

Source: PDP-33, "Controller Changes"; upstream `ControllerServiceImpl` and `PersistentStreamBase`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from wmlab.streams.model.marks import Versioned
from wmlab.streams.model.position import Position
from wmlab.streams.scenario.units import METADATA_STORE
from wmlab.streams.sim.metadata import UnavailableError

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller, Job

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

    def __str__(self) -> str:
        return f"time {self.time}, position {self.position}"


@dataclass(frozen=True, slots=True)
class Farewell:
    """A process says that its writer need not be waited for: it shuts down, or it is idle."""

    stream: str
    writer: str
    process: str
    call: str
    sent_ms: int

    def __str__(self) -> str:
        return self.call


def receive(controller: Controller, note: Note, answer: Callable[[str], None]) -> None:
    """Judge a noted time and answer; a controller that is down refuses the connection."""
    if not controller.is_running:
        answer(UNAVAILABLE)
    elif controller.is_working and controller.world.network.is_immediate:
        answer(_conclude(controller, note, controller.world.now_ms, _judge_at_once(controller, note)))
    else:
        controller.drive(_answered(judge(controller, note), answer))


def receive_farewell(controller: Controller, farewell: Farewell, answer: Callable[[str], None]) -> None:
    """Let a writer go and answer; a controller that is down refuses the connection."""
    if not controller.is_running:
        answer(UNAVAILABLE)
    else:
        controller.drive(_answered(_let_go(controller, farewell), answer))


def _answered(job: Job[str], answer: Callable[[str], None]) -> Job[None]:
    answer((yield from job))


def judge(controller: Controller, note: Note) -> Job[str]:
    """The stream joins its bucket, the record is read, the note judged, and stored by compare-and-set.

    It counts as judged at the moment of the compare-and-set, from which on cycles find it.
    """
    metadata = controller.world.metadata
    stream = controller.world.streams[note.stream]

    def store(read: Versioned | None, shown_ms: int) -> tuple[str, int]:
        return metadata.note(note, read, shown_ms), controller.world.now_ms

    try:
        yield from controller.ask(METADATA_STORE, stream, "join bucket", lambda: metadata.join_known(note.stream))
        read = yield from controller.ask(
            METADATA_STORE, stream, "read mark", lambda: metadata.read(note.stream, note.writer)
        )
        shown_ms = controller.clock.read(controller.world.now_ms)
        outcome, judged_ms = yield from controller.ask(
            METADATA_STORE, stream, "write mark", lambda: store(read, shown_ms)
        )
    except UnavailableError:
        outcome, judged_ms = UNAVAILABLE, controller.world.now_ms
    return _conclude(controller, note, judged_ms, outcome)


def _judge_at_once(controller: Controller, note: Note) -> str:
    """The same three steps when they take no time; notes are the most frequent of all calls."""
    metadata = controller.world.metadata
    try:
        metadata.join_known(note.stream)
        read = metadata.read(note.stream, note.writer)
        return metadata.note(note, read, controller.clock.read(controller.world.now_ms))
    except UnavailableError:
        return UNAVAILABLE


def _conclude(controller: Controller, note: Note, judged_ms: int, outcome: str) -> str:
    controller.world.streams[note.stream].journal.write(
        "writer_marks",
        writer=note.writer,
        process=note.process,
        time=note.time,
        position=dict(note.position.items()),
        noted_ms=note.noted_ms,
        received_ms=judged_ms,
        controller=controller.name,
        txn=note.txn,
        outcome=outcome,
    )
    return outcome


def _let_go(controller: Controller, farewell: Farewell) -> Job[str]:
    """The record is read, and marked as no longer alive by compare-and-set (upstream `removeWriter`)."""
    metadata = controller.world.metadata
    received_ms = controller.world.now_ms
    stream = controller.world.streams[farewell.stream]
    try:
        read = yield from controller.ask(
            METADATA_STORE, stream, "read mark", lambda: metadata.read(farewell.stream, farewell.writer)
        )
        outcome = yield from controller.ask(
            METADATA_STORE, stream, "write mark", lambda: metadata.shut_down(farewell.stream, farewell.writer, read)
        )
    except UnavailableError:
        outcome = UNAVAILABLE
    stream.journal.write(
        "writer_shutdowns",
        writer=farewell.writer,
        process=farewell.process,
        call=farewell.call,
        sent_ms=farewell.sent_ms,
        received_ms=received_ms,
        controller=controller.name,
        outcome=outcome,
    )
    return outcome
