"""When an event writer notes time, and what it then tells a controller.

Source: PDP-33, "Event Writer API Changes" and "Config Changes"; upstream class `EventStreamWriterImpl`. The position
is what has been acknowledged; nothing is flushed unless the scenario asks for it, so events in flight are not covered.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

import simpy

from wmlab.core.errors import ModelError
from wmlab.streams.model.position import Position
from wmlab.streams.model.writer import AutomaticNotes, refuse_explicit_note
from wmlab.streams.sim.noting import time_to_note

if TYPE_CHECKING:
    from wmlab.streams.sim.writer import Writer

_NO_ID = "The writer has no id under which a time could be kept."


class NoteTaking:
    """The noting of one writer process; it is silent until `silent_until`, in ms of the simulated clock."""

    def __init__(self, writer: Writer) -> None:
        part = writer.part
        self.writer = writer
        self._id = part.id
        self.silent_until: float = -1
        period_ms = part.automatic_note_period_ms
        self._automatic = AutomaticNotes(period_ms, period_ms) if part.automatically_note_time else None

    def start(self, life: int) -> None:
        """Note periodically during a life: the application's time, or the clock in automatic mode."""
        env, part = self.writer.world.env, self.writer.part
        if self._automatic is not None:
            env.process(self._automatically(life, self._automatic))
        elif part.note_every_ms is not None:
            env.process(self._by_policy(life, part.note_every_ms))

    def _by_policy(self, life: int, every_ms: int) -> Generator[simpy.Event]:
        env = self.writer.world.env
        while True:
            yield env.timeout(every_ms)
            if life != self.writer.life or self.writer.closed:
                return
            if env.now >= self.silent_until:
                self.note_chosen()

    def _automatically(self, life: int, automatic: AutomaticNotes) -> Generator[simpy.Event]:
        world = self.writer.world
        for at_ms in automatic.times_ms(world.now_ms, world.end_ms):
            yield world.env.timeout(at_ms - world.now_ms)
            stopped = self.writer.closed and not self.writer.part.auto_note_survives_close
            if life != self.writer.life or stopped:
                return
            if world.now_ms >= self.silent_until:
                self._note(self._clock_ms)

    @property
    def _clock_ms(self) -> int:
        return self.writer.clock.read(self.writer.world.now_ms)

    def note_chosen(self) -> None:
        """Note the time that the policy chooses, if it chooses one; in automatic mode the clock."""
        if self._automatic is not None:
            self._note(self._clock_ms)
            return
        time = time_to_note(self.writer.part.noting, self.writer.backlog.view(self.writer.world.now_ms))
        if time is not None:
            self._note(time)

    def note_explicitly(self, time: int, position: Mapping[str, int | None] | None) -> None:
        """Note a given time, with the writer's position or a given one; in automatic mode that is an error."""
        try:
            refuse_explicit_note(self._automatic)
        except ModelError as error:
            self._refuse(error.problem)
            return
        self._note(time, None if position is None else Position(position))

    def _note(self, time: int, position: Position | None = None) -> None:
        writer, life, noted_ms = self.writer, self.writer.life, self.writer.world.now_ms
        if self._id is None:
            self._refuse(_NO_ID)
        elif writer.part.flush_before_note:
            writer.flush(lambda: self._send(life, time, position, noted_ms))
        else:
            self._send(life, time, position, noted_ms)

    def _send(self, life: int, time: int, position: Position | None, noted_ms: int) -> None:
        writer = self.writer
        if life == writer.life and self._id is not None:
            held = writer.position if position is None else position
            writer.client.note(self._id, time, held, noted_ms)

    def say_goodbye(self, call: str) -> None:
        """Tell a controller that the writer need not be waited for any more."""
        writer = self.writer
        if self._id is None:
            self._refuse(_NO_ID, call)
        else:
            writer.client.leave(self._id, call)

    def _refuse(self, problem: str, call: str = "note time") -> None:
        self.writer.world.refuse(self.writer.party, call, problem)
