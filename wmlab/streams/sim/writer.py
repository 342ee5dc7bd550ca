"""An event writer: batched appends, acknowledged offsets, seals, noted times, crash, close and restart.

Source: PDP-33, "Client Changes": the writer collects the offsets of the acknowledgements it receives, and
`noteTime` sends the latest of them with the time; "Event Writer API Changes" and "Config Changes"; upstream class
`EventStreamWriterImpl`. Nothing is flushed before a note unless the scenario says so, so that events that are not
acknowledged are not covered by its position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import simpy

from wmlab.core.errors import ModelError
from wmlab.streams.model.marks import AutomaticNotes, acknowledge, add_segments, refuse_explicit_note, remove_segment
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.wire import EVENT_HEADER_BYTES, AppendRequest, DataAppended, Lengths
from wmlab.streams.scenario.parts import SEGMENT_STORE, EventWriter, WriterPart, process_name
from wmlab.streams.sim.client import ControllerClient
from wmlab.streams.sim.load import Backlog, Load, LocalClock, Routes, time_to_note
from wmlab.streams.sim.network import Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmlab.streams.sim.stream import StreamWorld

NO_EVENTS: Final = np.empty(0, np.int64)


@dataclass(slots=True, eq=False)
class _Append:
    """A batch on its way to a segment; `resent_from` is the sealed segment that refused it before."""

    incarnation: int
    events: NDArray[np.int64]
    times: NDArray[np.int64]
    resent_from: int | None
    content: AppendRequest


@dataclass(slots=True)
class _Seal:
    """A sealed segment as its writer handles it: successors once known, refused batches that wait, resent ones open."""

    successors: tuple[Segment, ...] | None = None
    waiting: list[NDArray[np.int64]] = field(default_factory=list)
    outstanding: int = 0


class WriterProcess:
    """One process of a writer: its incarnations, its load, and its calls; `node` is its name.

    `incarnation` counts them: whatever was sent to an earlier one arrives at nobody. It notes no time until
    `silent_until`, in ms of the simulated clock.
    """

    part: WriterPart

    def __init__(self, stream: StreamWorld, part: WriterPart, index: int, load: Iterable[Load], node: str) -> None:
        self.stream = stream
        self.part = part
        self.index = index
        self.node = node
        self.incarnation = 0
        self.closed = False
        self.silent_until: float = stream.now_ms
        self.clock = LocalClock.of(stream.scenario, part.name, part.clock)
        self.backlog = Backlog(
            load, self.clock, start_ms=stream.scenario.start_ms, batch_ms=part.batch_ms, time_by=part.event_time
        )
        self._begin_anew()

    @property
    def notes_automatically(self) -> bool:
        """Whether it notes its clock by itself, by its own option or by that of its stream."""
        return self.part.automatically_note_time or self.stream.part.automatically_note_time

    def _begin_anew(self) -> None:
        """Know what a process knows when it starts."""
        self.client = ControllerClient(self.stream, self.node)

    def _send(self, events: NDArray[np.int64]) -> None:
        """Write a batch of events."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin an incarnation, if there is a stream: send what comes, and do the work of that kind of writer."""
        if self.stream.deleted:
            return
        self.incarnation += 1
        self.closed = False
        self.client.stopped = True
        self._begin_anew()
        self.stream.env.process(self._sending(self.incarnation))
        self._work()

    def _work(self) -> None:
        """Begin what this kind of writer does besides sending."""
        raise NotImplementedError

    def crash(self) -> None:
        """End the incarnation at once, without a word to anybody."""
        self.incarnation += 1
        self.client.stopped = True

    def restart(self, backlog: str) -> None:
        """Begin a new incarnation; events that happened meanwhile are lost, or kept to be sent at once."""
        self.backlog.start_over(self.stream.now_ms, keep=backlog == "kept")
        self.start()

    def close(self, then: Callable[[], None]) -> None:
        """End the incarnation in order, and do what comes `then`."""
        raise NotImplementedError

    def leave(self, call: str) -> None:
        """Tell a controller that the writer need not be waited for any more."""
        if self.part.id is None:
            self.refuse(call)
        else:
            self.client.leave(self.part.id, call)

    def refuse(self, call: str, problem: str = "The writer has no id under which a time could be kept.") -> None:
        """Write down that a call of this process was refused."""
        self.stream.refuse(self.node, call, problem)

    def _tell_store(self, kind: str, content: object, act: Callable[..., None], *args: Any) -> None:
        """Send to the segment store, on the connection to it; `act(*args)` is done there."""
        message = Message(self.stream.title, self.node, SEGMENT_STORE, kind, content)
        self.stream.network.carry(message, act, *args)

    def _hear_from_store(self, kind: str, content: object, act: Callable[..., None], *args: Any) -> None:
        """Send from the segment store to this process; `act(*args)` is done here."""
        message = Message(self.stream.title, SEGMENT_STORE, self.node, kind, content)
        self.stream.network.carry(message, act, *args)

    def _sending(self, incarnation: int) -> Generator[simpy.Event]:
        env = self.stream.env
        while (due := self.backlog.next_tick) is not None:
            tick = max(due, int(env.now))
            if tick >= self.stream.end_ms:
                return
            yield env.timeout(tick - env.now)
            if incarnation != self.incarnation or self.closed:
                return
            self._send(self.backlog.take(tick))


class Writer(WriterProcess):
    """One process of an event writer; when it notes time, what it sends is what has been acknowledged."""

    part: EventWriter

    def __init__(
        self, stream: StreamWorld, part: EventWriter, index: int, load: Iterable[Load], number: int = 1
    ) -> None:
        super().__init__(stream, part, index, load, process_name(part.name, number))

    def _begin_anew(self) -> None:
        super()._begin_anew()
        period_ms = self.part.automatic_note_period_ms
        self._automatic = AutomaticNotes(period_ms, period_ms) if self.notes_automatically else None
        self.position = Position({})
        self.routes = Routes(())
        self._numbers: Counter[int] = Counter()
        self._seals: dict[int, _Seal] = {}
        self._flushes: list[tuple[NDArray[np.int64], Callable[[], None]]] = []

    def _work(self) -> None:
        """Learn the open segments, and note periodically."""
        active = self.stream.history.active.segments
        self.position = add_segments(self.position, (segment.id for segment in active))
        self.routes = Routes.of(active)
        now_ms, every_ms = self.stream.now_ms, self.part.note_every_ms
        if self._automatic is not None:
            self.stream.env.process(
                self._noting(self.incarnation, self._automatic.times_ms(now_ms, self.stream.end_ms))
            )
        elif every_ms is not None:
            self.stream.env.process(self._noting(self.incarnation, count(now_ms + every_ms, every_ms)))

    def close(self, then: Callable[[], None]) -> None:
        """End the incarnation in order: write what is there, wait for acknowledgements, then do what comes `then`."""
        self.closed = True
        self.flush(then)

    def flush(self, then: Callable[[], None]) -> None:
        """Send what the application has handed over so far, and go on once all of it is acknowledged."""
        self._send(self.backlog.take_arrived(self.stream.now_ms))
        self._flushes.append((self.backlog.unanswered(), then))
        self._end_flushes()

    def _end_flushes(self) -> None:
        while self._flushes and self.backlog.all_settled(self._flushes[0][0]):
            self._flushes.pop(0)[1]()

    def _send(self, events: NDArray[np.int64], resent_from: int | None = None) -> None:
        for segment_id, part in self.routes.split(self.backlog.keys_of(events), events) if len(events) else ():
            if resent_from is not None:
                self._seals[resent_from].outstanding += 1
            self._append(segment_id, part, resent_from)

    def _append(self, segment_id: int, events: NDArray[np.int64], resent_from: int | None = None) -> None:
        self._numbers[segment_id] += len(events)
        content = AppendRequest(segment_id, len(events), self.part.event_bytes, self._numbers[segment_id])
        append = _Append(self.incarnation, events, self.backlog.times_of(events), resent_from, content)
        self._tell_store("append", content, self._arrive, append)

    def _arrive(self, append: _Append) -> None:
        """At the segment store: take the append, or refuse it because the segment is sealed."""
        stream = self.stream
        segment = None if stream.deleted else stream.store.get(append.content.segment)
        if segment is None:
            return
        if segment.sealed_ms is not None:
            self._hear_from_store("sealed", str(append.content), self._on_sealed, append)
            return
        if len(append.events):
            size = EVENT_HEADER_BYTES + self.part.event_bytes
            before = segment.append(len(append.events), size)
            stream.journal.append(append.content.segment, before, size, append.times, stream.now_ms, self.index)
        carried = segment.length if stream.part.acks_carry_offset else None
        answer = DataAppended(append.content, carried)
        self._hear_from_store("acknowledge", answer, self._on_acknowledged, append, carried)

    def _on_acknowledged(self, append: _Append, length: int | None) -> None:
        """An answer with the segment's length; from an older server without it, and then it has to be asked for.

        Only with a length is the append done: its events are not covered by the position before that.
        """
        if append.incarnation != self.incarnation:
            return
        if length is None:
            request = Lengths({append.content.segment: None})
            self._tell_store("get length", request, self._tell_length, append)
            return
        if append.content.segment in self.position:
            self.position = acknowledge(self.position, append.content.segment, length)
        self.backlog.acknowledge(append.events)
        if append.resent_from is not None:
            self._account(append.resent_from)
        if self._flushes:
            self._end_flushes()

    def _tell_length(self, append: _Append) -> None:
        """At the segment store: a length that is asked for may have grown since, which is safe.

        A segment that is gone went with its stream, and nobody waits for its length any more.
        """
        segment = self.stream.store.get(append.content.segment)
        if segment is not None:
            answer = Lengths({append.content.segment: segment.length})
            self._hear_from_store("length", answer, self._on_acknowledged, append, segment.length)

    def _on_sealed(self, append: _Append) -> None:
        """The store refused an append: ask for the successors once, then send the events again."""
        if append.incarnation != self.incarnation:
            return
        sealed_id, incarnation = append.content.segment, self.incarnation
        if sealed_id not in self._seals:
            self._seals[sealed_id] = _Seal()
            self.client.ask(
                "get successors",
                sealed_id,
                lambda controller: controller.check_alive(),
                lambda _: self._on_successors(incarnation, sealed_id),
            )
        if self._seals[sealed_id].successors is not None:
            self._send(append.events, sealed_id)
        else:
            self._seals[sealed_id].waiting.append(append.events)
        if append.resent_from is not None:
            self._account(append.resent_from)

    def _on_successors(self, incarnation: int, sealed_id: int) -> None:
        if incarnation != self.incarnation:
            return
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
            if self.part.probe_on_seal or segment_id in opened:
                self._append(segment_id, NO_EVENTS)
        self._drop(sealed_id)

    def _account(self, sealed_id: int) -> None:
        """A resent append was answered; once all of a sealed segment's are, it leaves the position."""
        self._seals[sealed_id].outstanding -= 1
        self._drop(sealed_id)

    def _drop(self, sealed_id: int) -> None:
        if self._seals[sealed_id].outstanding == 0:
            self.position = remove_segment(self.position, sealed_id)

    def _noting(self, incarnation: int, times_ms: Iterable[int]) -> Generator[simpy.Event]:
        """Note the time at each of these times, unless the writer is silent then, until it is closed."""
        stream = self.stream
        for at_ms in times_ms:
            yield stream.env.timeout(at_ms - stream.now_ms)
            if incarnation != self.incarnation or (self.closed and not self.part.auto_note_survives_close):
                return
            if stream.now_ms >= self.silent_until:
                self.note_chosen()

    def note_chosen(self) -> None:
        """Note the time that the policy chooses, if it chooses one; in automatic mode the clock."""
        now_ms = self.stream.now_ms
        if self._automatic is not None:
            self._note(self.clock.read(now_ms))
        elif (time := time_to_note(self.part.noting, self.backlog, now_ms)) is not None:
            self._note(time)

    def note_explicitly(self, time: int, position: Mapping[str, int | None] | None) -> None:
        """Note a given time, with the writer's position or a given one; in automatic mode that is an error."""
        try:
            refuse_explicit_note(self._automatic)
        except ModelError as error:
            self.refuse("note time", error.problem)
            return
        self._note(time, None if position is None else Position(position))

    def _note(self, time: int, position: Position | None = None) -> None:
        incarnation, noted_ms, writer_id = self.incarnation, self.stream.now_ms, self.part.id
        if writer_id is None:
            self.refuse("note time")
            return

        def send() -> None:
            if incarnation == self.incarnation:
                self.client.note(writer_id, time, self.position if position is None else position, noted_ms)

        if self.part.flush_before_note:
            self.flush(send)
        else:
            send()
