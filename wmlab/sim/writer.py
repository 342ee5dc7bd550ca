"""An event writer in motion: batched appends, acknowledged offsets, noting, seals, crash and restart.

Source: PDP-33, "Client Changes": the writer collects the offsets of the acknowledgements it receives, and
`noteTime` sends the latest of them with the time. Nothing is flushed, so events in flight are not covered.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import simpy

from wmlab.model.position import Position
from wmlab.model.segment import segment_name
from wmlab.scenario.parts import EventWriter
from wmlab.scenario.units import SEGMENT_STORE
from wmlab.sim.client import ControllerClient
from wmlab.sim.clock import LocalClock
from wmlab.sim.load import Load
from wmlab.sim.noting import WriterView, time_to_note
from wmlab.sim.routes import Routes
from wmlab.sim.store import EVENT_HEADER_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmlab.sim.stream import StreamWorld

_SCAN = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class _Append:
    """A batch on its way to a segment; `resent_from` is the sealed segment that refused it before."""

    life: int
    segment_id: int
    events: NDArray[np.int64]
    resent_from: int | None

    def __str__(self) -> str:
        return f"{len(self.events)} events for {segment_name(self.segment_id)}"


@dataclass(slots=True)
class _Seal:
    """A sealed segment as its writer handles it: refused batches that wait, resent ones not yet answered."""

    known: bool = False
    waiting: list[NDArray[np.int64]] = field(default_factory=list)
    outstanding: int = 0


class Writer:
    """One writer process and the load it has to write.

    `life` numbers its incarnations: whatever was sent to an earlier one finds nobody at home. `process` names a second
    process with the same writer id; it is a party of its own.
    """

    def __init__(
        self, world: StreamWorld, part: EventWriter, index: int, load: Load, *, process: str | None = None
    ) -> None:
        self.world = world
        self.clock = LocalClock.of(world.scenario, part.name, part.clock)
        self.party = process or part.name
        self.part = part
        self.index = index
        self.life = 0
        self.silent_until: float = -1
        self._happens_ms = load.happens_ms
        self._event_time = self.clock.read_all(load.happens_ms)
        self._key = load.key
        start = world.scenario.start_ms
        ticks = start + -(-(load.arrives_ms - start) // part.batch_ms) * part.batch_ms
        self._queue = np.argsort(ticks, kind="stable")
        self._queue_ticks = ticks[self._queue]
        self._sent = 0
        self._settled = np.zeros(len(load), bool)
        self._first_open = 0
        self._connect()

    def _connect(self) -> None:
        self.client = ControllerClient(self.world, self.part.name, self.party)
        self.held: dict[int, int | None] = {}
        self.routes = Routes(())
        self._last_event_time: int | None = None
        self._max_event_time: int | None = None
        self._seals: dict[int, _Seal] = {}

    def start(self) -> None:
        """Begin a life: learn the open segments, send, and note. There is none without a stream."""
        if self.world.deleted:
            return
        self.life += 1
        self._connect()
        active = self.world.history.active.segments
        self.held = {segment.id: None for segment in active}
        self.routes = Routes.of(active)
        self.world.env.process(self._sending(self.life))
        if self.part.note_every_ms is not None:
            self.world.env.process(self._noting(self.life, self.part.note_every_ms))

    def crash(self) -> None:
        """End the life at once, without a word to anybody."""
        self.life += 1

    def move(self, world: StreamWorld) -> None:
        """Begin a life on a stream that was created anew; what happened meanwhile is lost."""
        self.world = world
        self.restart("lost")

    def restart(self, backlog: str) -> None:
        """Begin a new life; events that happened meanwhile are lost, or kept to be sent at once."""
        now = self.world.now_ms
        happened = self._queue[self._sent :]
        happened = happened[self._happens_ms[happened] < now]
        self._settled[self._queue[: self._sent]] = True
        if backlog == "lost":
            self._settled[happened] = True
        self.start()

    def _sending(self, life: int) -> Generator[simpy.Event]:
        env = self.world.env
        while self._sent < len(self._queue):
            tick = max(int(self._queue_ticks[self._sent]), int(env.now))
            if tick >= self.world.end_ms:
                return
            yield env.timeout(tick - env.now)
            if life != self.life:
                return
            end = int(np.searchsorted(self._queue_ticks, tick, side="right"))
            batch = self._queue[self._sent : end]
            self._sent = end
            batch = batch[~self._settled[batch]]
            for segment_id, events in self.routes.split(self._key[batch], batch) if len(batch) else ():
                self._append(segment_id, events)

    def _append(self, segment_id: int, events: NDArray[np.int64], resent_from: int | None = None) -> None:
        append = _Append(self.life, segment_id, events, resent_from)
        self.world.carry(self.party, SEGMENT_STORE, "append", append, self._arrive, append)

    def _arrive(self, append: _Append) -> None:
        """At the segment store: take the append, or refuse it because the segment is sealed."""
        if append.segment_id not in self.world.store:
            return
        segment = self.world.store[append.segment_id]
        if segment.sealed:
            self.world.carry(SEGMENT_STORE, self.party, "sealed", append, self._on_sealed, append)
            return
        if len(append.events):
            size = EVENT_HEADER_BYTES + self.part.event_bytes
            before = segment.append(len(append.events), size)
            offsets = before + size * np.arange(1, len(append.events) + 1, dtype=np.int64)
            times = self._event_time[append.events]
            self.world.journal.append(append.segment_id, offsets, times, self.world.now_ms, self.index)
        length = segment.length
        self.world.carry(SEGMENT_STORE, self.party, "acknowledge", append, self._on_acknowledged, append, length)

    def _on_acknowledged(self, append: _Append, length: int) -> None:
        if append.life != self.life:
            return
        if append.segment_id in self.held:
            self.held[append.segment_id] = max(self.held[append.segment_id] or 0, length)
        if len(append.events):
            times = self._event_time[append.events]
            latest = int(times.max())
            self._settled[append.events] = True
            self._last_event_time = int(times[-1])
            self._max_event_time = latest if self._max_event_time is None else max(self._max_event_time, latest)
        self._account(append)

    def _on_sealed(self, append: _Append) -> None:
        """The store refused an append: ask for the successors once, then send the events again."""
        if append.life != self.life:
            return
        sealed_id = append.segment_id
        if sealed_id not in self._seals:
            self._seals[sealed_id] = _Seal()
            self.client.successors(sealed_id, partial(self._on_successors, self.life, sealed_id))
        if self._seals[sealed_id].known:
            self._resend(sealed_id, append.events)
        else:
            self._seals[sealed_id].waiting.append(append.events)
        self._account(append)

    def _on_successors(self, life: int, sealed_id: int) -> None:
        if life != self.life:
            return
        seal = self._seals[sealed_id]
        seal.known = True
        successors = self.world.history.successors(sealed_id)
        if not successors:
            # The whole stream is sealed; there is nothing left to write to (upstream: the writer fails).
            self.crash()
            return
        self.routes = self.routes.replace(sealed_id, successors)
        for successor in successors:
            self.held.setdefault(successor.id, None)
        self._resend(sealed_id, np.concatenate(seal.waiting))
        nothing = np.empty(0, np.int64)
        for segment_id in [held for held in self.held if held not in self._seals]:
            self._append(segment_id, nothing)
        self._leave(sealed_id)

    def _resend(self, sealed_id: int, events: NDArray[np.int64]) -> None:
        for segment_id, part in self.routes.split(self._key[events], events) if len(events) else ():
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

    def _noting(self, life: int, every_ms: int) -> Generator[simpy.Event]:
        env = self.world.env
        while True:
            yield env.timeout(every_ms)
            if life != self.life:
                return
            if env.now >= self.silent_until:
                self.note_time()

    def note_time(self) -> None:
        """Note the time that the policy chooses, with the latest acknowledged offsets."""
        now = self.world.now_ms
        view = WriterView(
            clock_ms=self.clock.read(now),
            earliest_open=self._earliest_open(now),
            last_event_time=self._last_event_time,
            max_event_time=self._max_event_time,
        )
        time = time_to_note(self.part.noting, view)
        if time is not None:
            life = self.life
            self.client.note(time, Position(self.held), lambda: life == self.life)

    def _earliest_open(self, now: int) -> int | None:
        """Time of the earliest event that has happened and is not acknowledged."""
        while self._first_open < len(self._settled):
            window = self._settled[self._first_open : self._first_open + _SCAN]
            place = int(window.argmin())
            if not window[place]:
                self._first_open += place
                happened = self._happens_ms[self._first_open] <= now
                return int(self._event_time[self._first_open]) if happened else None
            self._first_open += len(window)
        return None
