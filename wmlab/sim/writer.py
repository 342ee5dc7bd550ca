"""An event writer in motion: batched appends, acknowledged offsets, seals, crash, close and restart.

Source: PDP-33, "Client Changes": the writer collects the offsets of the acknowledgements it receives, and
`noteTime` sends the latest of them with the time. When it notes is the matter of `wmlab.sim.note_taking`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import simpy

from wmlab.model.segment import Segment
from wmlab.scenario.parts import EventWriter
from wmlab.scenario.writer_checks import process_name
from wmlab.sim.backlog import Backlog
from wmlab.sim.load import Load
from wmlab.sim.note_taking import NoteTaking
from wmlab.sim.routes import Routes
from wmlab.sim.store import EVENT_HEADER_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmlab.sim.world import World

_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Append:
    """A batch on its way to a segment; `resent_from` is the sealed segment that refused it before."""

    life: int
    segment_id: int
    events: NDArray[np.int64]
    resent_from: int | None


@dataclass(slots=True)
class _Seal:
    """A sealed segment as its writer handles it: successors once known, refused batches that wait, resent ones open."""

    successors: tuple[Segment, ...] | None = None
    waiting: list[NDArray[np.int64]] = field(default_factory=list)
    outstanding: int = 0


class Writer:
    """One writer process and the load it has to write.

    `life` numbers its incarnations: whatever was sent to an earlier one finds nobody at home.
    """

    def __init__(self, world: World, part: EventWriter, index: int, load: Load, number: int = 1) -> None:
        self.world = world
        self.part = part
        self.index = index
        self.name = process_name(part.name, number)
        self.life = 0
        self.closed = False
        self.backlog = Backlog(
            load, start_ms=world.scenario.start_ms, batch_ms=part.batch_ms, skew_ms=part.clock.skew_ms
        )
        self.notes = NoteTaking(self)
        self._connect()

    def _connect(self) -> None:
        self.held: dict[int, int | None] = {}
        self.routes = Routes(())
        self.last_event_time: int | None = None
        self.max_event_time: int | None = None
        self._seals: dict[int, _Seal] = {}
        self._flushes: list[tuple[NDArray[np.int64], Callable[[], None]]] = []

    def start(self) -> None:
        """Begin a life: learn the open segments, send, and note."""
        self.life += 1
        self.closed = False
        self._connect()
        active = self.world.history.active.segments
        self.held = {segment.id: None for segment in active}
        self.routes = Routes.of(active)
        self.world.env.process(self._sending(self.life))
        self.notes.start(self.life)

    def crash(self) -> None:
        """End the life at once, without a word to anybody."""
        self.life += 1

    def restart(self, backlog: str) -> None:
        """Begin a new life; events that happened meanwhile are lost, or kept to be sent at once."""
        self.backlog.start_over(self.world.now_ms, keep=backlog == "kept")
        self.start()

    def silence(self, until_ms: float) -> None:
        """Note no time until then."""
        self.notes.silent_until = until_ms

    def say_goodbye(self, call: str) -> None:
        """Tell a controller that the writer need not be waited for any more."""
        self.notes.say_goodbye(call)

    def close(self, then: Callable[[], None]) -> None:
        """End the life in order: write what is there, wait for the acknowledgements, then do what comes `then`."""
        self.closed = True
        self.flush(then)

    def flush(self, then: Callable[[], None]) -> None:
        """Send what the application has handed over so far, and go on once all of it is acknowledged."""
        self._send(self.backlog.take_arrived(self.world.now_ms))
        self._flushes.append((self.backlog.unanswered(), then))
        self._end_flushes()

    def _end_flushes(self) -> None:
        while self._flushes and self.backlog.all_settled(self._flushes[0][0]):
            self._flushes.pop(0)[1]()

    def _sending(self, life: int) -> Generator[simpy.Event]:
        env = self.world.env
        while (due := self.backlog.next_tick) is not None:
            tick = max(due, int(env.now))
            if tick >= self.world.end_ms:
                return
            yield env.timeout(tick - env.now)
            if life != self.life or self.closed:
                return
            self._send(self.backlog.take(tick))

    def _send(self, batch: NDArray[np.int64]) -> None:
        for segment_id, events in self.routes.split(self.backlog.key[batch], batch) if len(batch) else ():
            self._append(segment_id, events)

    def _append(self, segment_id: int, events: NDArray[np.int64], resent_from: int | None = None) -> None:
        self.world.later(self._arrive, _Append(self.life, segment_id, events, resent_from))

    def _arrive(self, append: _Append) -> None:
        """At the segment store: take the append, or refuse it because the segment is sealed."""
        segment = self.world.store[append.segment_id]
        if segment.sealed:
            self.world.later(self._on_sealed, append)
            return
        if len(append.events):
            size = EVENT_HEADER_BYTES + self.part.event_bytes
            before = segment.append(len(append.events), size)
            offsets = before + size * np.arange(1, len(append.events) + 1, dtype=np.int64)
            times = self.backlog.event_time[append.events]
            self.world.journal.append(append.segment_id, offsets, times, self.world.now_ms, self.index)
        carried = segment.length if self.world.scenario.stream.acks_carry_offset else None
        self.world.later(self._on_acknowledged, append, carried)

    def _on_acknowledged(self, append: _Append, length: int | None) -> None:
        """An answer with the segment's length; from an older server without it, and then it has to be asked for.

        Only with a length is the append done: its events are not covered by the position before that.
        """
        if append.life != self.life:
            return
        if length is None:
            self.world.later(self._tell_length, append)
            return
        if append.segment_id in self.held:
            self.held[append.segment_id] = max(self.held[append.segment_id] or 0, length)
        if len(append.events):
            times = self.backlog.event_time[append.events]
            latest = int(times.max())
            self.backlog.settle(append.events)
            self.last_event_time = int(times[-1])
            self.max_event_time = latest if self.max_event_time is None else max(self.max_event_time, latest)
        self._account(append)
        self._end_flushes()

    def _tell_length(self, append: _Append) -> None:
        """At the segment store: a length that is asked for may have grown since, which is safe."""
        self.world.later(self._on_acknowledged, append, self.world.store[append.segment_id].length)

    def _on_sealed(self, append: _Append) -> None:
        """The store refused an append: ask for the successors once, then send the events again."""
        if append.life != self.life:
            return
        sealed_id = append.segment_id
        if sealed_id not in self._seals:
            self._seals[sealed_id] = _Seal()
            self.world.later(self.world.later, self._on_successors, self.life, sealed_id)
        if self._seals[sealed_id].successors is not None:
            self._resend(sealed_id, append.events)
        else:
            self._seals[sealed_id].waiting.append(append.events)
        self._account(append)

    def _on_successors(self, life: int, sealed_id: int) -> None:
        if life != self.life:
            return
        seal = self._seals[sealed_id]
        seal.successors = self.world.history.successors(sealed_id)
        self._reroute()
        for successor in seal.successors:
            if successor.id not in self._seals:
                self.held.setdefault(successor.id, None)
        self._resend(sealed_id, np.concatenate(seal.waiting))
        for segment_id in [held for held in self.held if held not in self._seals]:
            self._append(segment_id, _NOTHING)
        self._leave(sealed_id)

    def _reroute(self) -> None:
        """Send no key to a segment known to be sealed; after a rolling transaction a successor may be sealed too."""
        for sealed_id in sorted(self._seals):
            successors = self._seals[sealed_id].successors
            if successors is not None:
                self.routes = self.routes.replace(sealed_id, successors)

    def _resend(self, sealed_id: int, events: NDArray[np.int64]) -> None:
        for segment_id, part in self.routes.split(self.backlog.key[events], events) if len(events) else ():
            self._seals[sealed_id].outstanding += 1
            self._append(segment_id, part, sealed_id)

    def _account(self, append: _Append) -> None:
        """A resent append was answered; once all of a sealed segment's are, it leaves the position."""
        if append.resent_from is not None:
            self._seals[append.resent_from].outstanding -= 1
            self._leave(append.resent_from)

    def _leave(self, sealed_id: int) -> None:
        if self._seals[sealed_id].outstanding == 0:
            self.held.pop(sealed_id, None)
