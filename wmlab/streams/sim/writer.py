"""An event writer: batched appends, acknowledged offsets, seals, noted times, crash, close and restart.

Source: PDP-33, "Client Changes": the writer collects the offsets of the acknowledgements it receives, and
`noteTime` sends the latest of them with the time; "Event Writer API Changes" and "Config Changes"; upstream class
`EventStreamWriterImpl`. Nothing is flushed before a note unless the scenario says so, so that events that are not
acknowledged are not covered by its position.

Notes and shutdowns are calls to controllers, which the network may lose; what a controller is asked for goes over a
connection. A call that failed for a passing reason, a conflict of compare-and-set among them, is repeated with growing
waits; a negative answer is not. Source: PDP-33, "Controller Changes"; upstream `ControllerImpl` and
`RetryingControllerClient`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wmlab.core.errors import ModelError
from wmlab.streams.model.marks import (
    NoteOutcome,
    acknowledge,
    add_segments,
    automatic_notes_ms,
    refuse_explicit_note,
    remove_segment,
)
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.wire import EVENT_HEADER_BYTES, AppendRequest, DataAppended, Leave, Lengths, Note
from wmlab.streams.scenario.clocks import LocalClock
from wmlab.streams.scenario.parts import SEGMENT_STORE, EventWriter, WriterPart, process_name
from wmlab.streams.sim.controller import Controller, Controllers
from wmlab.streams.sim.load import Backlog, Load, Routes, time_to_note
from wmlab.streams.sim.network import Message, Way
from wmlab.streams.sim.stores import StreamWorld
from wmlab.streams.sim.world import UNAVAILABLE, Answer, Node, Reply, Result, Signal, Steps

NO_EVENTS: Final = np.empty(0, np.int64)
_SEALED: Final = "sealed"


REPEATED_AFTER: Final = frozenset({NoteOutcome.WRITE_CONFLICT.value, NoteOutcome.DATA_NOT_FOUND.value, UNAVAILABLE})
"""The outcomes after which a call is repeated."""
_ATTEMPTS: Final = 10
"""After so many calls in all a writer gives up (upstream class `ControllerImplConfig`, as the waits between them)."""
REPLIES: Final = {
    "get successors": "successors",
    "begin transaction": "transaction begun",
    "commit transaction": "commit requested",
    "abort transaction": "aborted",
}
"""The names of the replies to what a client asks of a controller."""


@dataclass(slots=True)
class _Seal:
    """A sealed segment as its writer handles it: successors once known, refused batches that wait, resent ones open."""

    successors: tuple[Segment, ...] | None = None
    waiting: list[NDArray[np.int64]] = field(default_factory=list)
    outstanding: int = 0


def _wait_ms(failures: int) -> int:
    """The wait after that many failures, one at least: ten times as long after each, and never more than 20 s."""
    return int(min(20_000, 10 ** (failures - 1)))


class Client(Node):
    """A node that calls the controllers about its `stream`."""

    def __init__(self, stream: StreamWorld, controllers: Controllers, name: str) -> None:
        super().__init__(stream.world, name)
        self.stream = stream
        self.controllers = controllers
        self.forget_controllers()

    def forget_controllers(self) -> None:
        """Know nothing of the controllers that were called."""
        self._failed: Controller | None = None
        self._next_controller = self._choose()

    def call(self, kind: str, content: Note | Leave) -> Steps[None]:
        """Note a time, or say that a writer leaves; repeat it until that has an outcome."""
        for failures in range(1, _ATTEMPTS + 1):
            controller = next(self._next_controller)
            request = Message(self.stream.title, self.name, controller.name, kind, content)
            outcome = yield from self.ask(request, partial(controller.receive, content), way=Way.CALL)
            if outcome == UNAVAILABLE:
                self._failed = controller
            if outcome not in REPEATED_AFTER or failures == _ATTEMPTS:
                return
            yield self.world.env.timeout(_wait_ms(failures))

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
            yield self.world.env.timeout(_wait_ms(failures))
        raise AssertionError

    def _choose(self) -> Iterator[Controller]:
        """The controller to call next: one after the other, drawn for each call, or the one before until it fails."""
        contact = self.world.scenario.controllers.contact
        draws = self.world.draws(f"controllers of {self.name}")
        kept: Controller | None = None
        for index in count():
            known = self.controllers.members
            if contact == "round_robin":
                yield known[index % len(known)]
            elif contact == "random":
                yield known[int(draws.integers(len(known)))]
            else:
                if kept is None or kept is self._failed or kept not in known:
                    others = [controller for controller in known if controller is not self._failed] or known
                    kept, self._failed = others[int(draws.integers(len(others)))], None
                yield kept


class WriterProcess(Client):
    """One process of a writer, by its number from 1: its load, and what it sends.

    It `has_begun` once it was started for the first time. It notes no time until `silent_until`, in ms of the simulated
    clock.
    """

    part: WriterPart

    def __init__(
        self,
        stream: StreamWorld,
        controllers: Controllers,
        part: WriterPart,
        index: int,
        load: Iterable[Load],
        number: int = 1,
    ) -> None:
        super().__init__(stream, controllers, process_name(part.name, number))
        self.part = part
        self.index = index
        self.has_begun = False
        self.is_running = False
        self.closed = False
        self.silent_until: float = self.world.now_ms
        self.clock = LocalClock.of(self.world.scenario, part.name, part.clock)
        self.backlog = Backlog(
            load, self.clock, start_ms=self.world.start_ms, batch_ms=part.batch_ms, time_by=part.event_time
        )
        self._reset()

    @property
    def notes_automatically(self) -> bool:
        """Whether it notes its clock by itself, by its own option or by that of its stream."""
        return self.part.automatically_note_time or self.stream.part.automatically_note_time

    def _reset(self) -> None:
        """Know what a process knows when it starts."""
        self.forget_controllers()

    def _send(self, events: NDArray[np.int64]) -> None:
        """Write a batch of events."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin, if there is a stream: send what comes, and do the work of that kind of writer."""
        if self.stream.deleted:
            return
        super().crash()
        self.has_begun = self.is_running = True
        self.closed = False
        self._reset()
        self.do(self._sending())
        self._work()

    def _work(self) -> None:
        """Begin what this kind of writer does besides sending."""
        raise NotImplementedError

    def crash(self) -> None:
        """End at once, without a word to anybody."""
        super().crash()
        self.is_running = False

    def restart(self, backlog: str) -> None:
        """Begin again; events that happened meanwhile are lost, or kept to be sent at once."""
        self.backlog.start_over(self.world.now_ms, keep=backlog == "kept")
        self.start()

    def close(self) -> Steps[None]:
        """Stop in order, and wait until all that was written is safe."""
        raise NotImplementedError

    def leave(self, call: str) -> None:
        """Tell a controller that the writer need not be waited for any more."""
        if self.part.id is None:
            self.refuse(call)
        else:
            self.do(self.call(call, Leave(self.stream.name, self.part.id, self.name, call, self.world.now_ms)))

    def refuse(self, call: str, problem: str = "The writer has no id under which a time could be kept.") -> None:
        """Write down that a call of this process was refused."""
        self.stream.refuse(self.name, call, problem)

    def ask_store(
        self, kind: str, content: object, act: Callable[[], Reply | None], on_answer: Callable[[Any], None]
    ) -> None:
        """Have something done at the segment store, on the connection to it; `on_answer` gets the result of its reply.

        A store from which the stream is gone does not answer.
        """

        def serve(answer: Answer) -> None:
            if (reply := act()) is not None:
                answer(reply)

        self.submit(Message(self.stream.title, self.name, SEGMENT_STORE, kind, content), serve, on_answer)

    def _sending(self) -> Steps[None]:
        env = self.world.env
        while (due := self.backlog.next_tick) is not None:
            tick = max(due, int(env.now))
            if tick >= self.world.end_ms:
                return
            yield env.timeout(tick - env.now)
            if self.closed:
                return
            self._send(self.backlog.take(tick))


class Writer(WriterProcess):
    """One process of an event writer; when it notes time, what it sends is what has been acknowledged."""

    part: EventWriter

    def _reset(self) -> None:
        super()._reset()
        self.position = Position({})
        self.routes = Routes(())
        self._numbers: Counter[int] = Counter()
        self._seals: dict[int, _Seal] = {}
        self._flushes: list[tuple[NDArray[np.int64], Signal]] = []

    def _work(self) -> None:
        """Learn the open segments, and note periodically."""
        active = self.stream.history.active.segments
        self.position = add_segments(self.position, (segment.id for segment in active))
        self.routes = Routes.of(active)
        now_ms, every_ms = self.world.now_ms, self.part.note_every_ms
        if self.notes_automatically:
            period_ms = self.part.automatic_note_period_ms
            self.do(self._noting(automatic_notes_ms(now_ms, self.world.end_ms, period_ms=period_ms)))
        elif every_ms is not None:
            self.do(self._noting(count(now_ms + every_ms, every_ms)))

    def close(self) -> Steps[None]:
        """Stop in order: write what is there, and wait until it is acknowledged."""
        self.closed = True
        yield from self.flush()

    def flush(self) -> Steps[None]:
        """Send what the application has handed over so far, and wait until all of it is acknowledged."""
        self._send(self.backlog.pop_ready(self.world.now_ms))
        flushed = Signal(self.world.env)
        self._flushes.append((self.backlog.unanswered(), flushed))
        self._end_flushes()
        yield flushed
        yield from self.ready()

    def _end_flushes(self) -> None:
        while self._flushes and self.backlog.all_settled(self._flushes[0][0]):
            self._flushes.pop(0)[1].send()

    def _send(self, events: NDArray[np.int64], resent_from: int | None = None) -> None:
        for segment_id, part in self.routes.split(self.backlog.keys_of(events), events) if len(events) else ():
            if resent_from is not None:
                self._seals[resent_from].outstanding += 1
            self._append(segment_id, part, resent_from)

    def _append(self, segment_id: int, events: NDArray[np.int64], resent_from: int | None = None) -> None:
        """Append a batch to a segment; `resent_from` is the sealed segment that refused it before."""
        self._numbers[segment_id] += len(events)
        request = AppendRequest(segment_id, len(events), self.part.event_bytes, self._numbers[segment_id])
        times = self.backlog.times_of(events)
        on_answer = partial(self._on_appended, segment_id, events, resent_from)
        self.ask_store("append", request, partial(self._store, request, times), on_answer)

    def _on_appended(
        self, segment_id: int, events: NDArray[np.int64], resent_from: int | None, length: int | str | None
    ) -> None:
        """Learn the length of the segment, or that it is sealed.

        Only with a length is the append done: its events are not covered by the position before that. An older server
        does not say it, and then it has to be asked for.
        """
        if length is None:
            asked, measure = Lengths({segment_id: None}), partial(self._measure, segment_id)
            self.ask_store("get length", asked, measure, partial(self._on_appended, segment_id, events, resent_from))
            return
        if isinstance(length, str):
            self._on_sealed(segment_id, events)
        else:
            self.position = acknowledge(self.position, segment_id, length)
            self.backlog.acknowledge(events)
        if resent_from is not None:
            self._seals[resent_from].outstanding -= 1
            self._drop(resent_from)
        if self._flushes:
            self._end_flushes()

    def _store(self, request: AppendRequest, times: NDArray[np.int64]) -> Reply | None:
        """At the segment store: take an append, or refuse it because the segment is sealed."""
        stream = self.stream
        segment = None if stream.deleted else stream.store.get(request.segment)
        if segment is None:
            return None
        if segment.sealed_ms is not None:
            return Reply("sealed", str(request), _SEALED)
        if len(times):
            size = EVENT_HEADER_BYTES + request.event_bytes
            before = segment.append(len(times), size)
            stream.journal.append(request.segment, before, size, times, self.world.now_ms, self.index)
        carried = segment.length if stream.part.acks_carry_offset else None
        return Reply("acknowledge", DataAppended(request, carried), carried)

    def _measure(self, segment_id: int) -> Reply | None:
        """At the segment store: a length that is asked for may have grown since, which is safe.

        A segment that is gone went with its stream, and nobody waits for its length any more.
        """
        segment = self.stream.store.get(segment_id)
        return None if segment is None else Reply("length", Lengths({segment_id: segment.length}), segment.length)

    def _on_sealed(self, sealed_id: int, events: NDArray[np.int64]) -> None:
        """The store refused an append: ask for the successors once, then send the events again."""
        if sealed_id not in self._seals:
            self._seals[sealed_id] = _Seal()
            self.do(self._learn_successors(sealed_id))
        if self._seals[sealed_id].successors is not None:
            self._send(events, sealed_id)
        else:
            self._seals[sealed_id].waiting.append(events)

    def _learn_successors(self, sealed_id: int) -> Steps[None]:
        """Ask a controller what follows a sealed segment, and send there what the segment refused."""
        yield from self.ask_controller("get successors", sealed_id, lambda controller: controller.check_alive())
        seal = self._seals[sealed_id]
        seal.successors = self.stream.history.successors(sealed_id)
        if not seal.successors:
            # The whole stream is sealed; there is nothing left to write to (upstream: the writer fails).
            self.crash()
            return
        # Send no key to a segment known to be sealed; after a rolling transaction a successor may be sealed too.
        for known_id in sorted(self._seals):
            successors = self._seals[known_id].successors
            if successors is not None:
                self.routes = self.routes.replace(known_id, successors)
        self.position = add_segments(self.position, (s.id for s in seal.successors if s.id not in self._seals))
        self._send(np.concatenate(seal.waiting), sealed_id)
        opened = [successor.id for successor in seal.successors]
        for segment_id in [known for known in self.position if known not in self._seals]:
            if self.world.rules.probe_on_seal or segment_id in opened:
                self._append(segment_id, NO_EVENTS)
        self._drop(sealed_id)

    def _drop(self, sealed_id: int) -> None:
        """A sealed segment leaves the position once all that it refused is answered elsewhere."""
        if self._seals[sealed_id].outstanding == 0:
            self.position = remove_segment(self.position, sealed_id)

    def _noting(self, times_ms: Iterable[int]) -> Steps[None]:
        """Note the time at each of these times, unless the writer is silent then, until it is closed."""
        for at_ms in times_ms:
            yield self.world.env.timeout(at_ms - self.world.now_ms)
            if self.closed and not self.world.rules.auto_note_survives_close:
                return
            if self.world.now_ms >= self.silent_until:
                self.note_chosen()

    def note_chosen(self) -> None:
        """Note the time that the policy chooses, if it chooses one; in automatic mode the clock."""
        now_ms = self.world.now_ms
        if self.notes_automatically:
            self._note(self.clock.read(now_ms))
        elif (time := time_to_note(self.part.noting, self.backlog, now_ms)) is not None:
            self._note(time)

    def note_explicitly(self, time: int, position: Mapping[str, int | None] | None) -> None:
        """Note a given time, with the writer's position or a given one; in automatic mode that is an error."""
        try:
            refuse_explicit_note(automatic=self.notes_automatically)
        except ModelError as error:
            self.refuse("note time", error.problem)
            return
        self._note(time, None if position is None else Position(position))

    def _note(self, time: int, position: Position | None = None) -> None:
        if self.part.id is None:
            self.refuse("note time")
        else:
            self.do(self._note_as(self.part.id, time, position, self.world.now_ms))

    def _note_as(self, writer: str, time: int, position: Position | None, noted_ms: int) -> Steps[None]:
        if self.part.flush_before_note:
            yield from self.flush()
        reached = self.position if position is None else position
        yield from self.call("note time", Note(self.stream.name, writer, time, reached, noted_ms, process=self.name))


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
