"""The sequencer, which restores the order of sequence numbers.

It releases buffers one at a time, in the order of sequence and chunk. `keep` parks what comes too early;
`drop` parks only the newest and forgets what is older than what was handled, so that a slow operator keeps up.

    call    keep                                   drop
    take    released if it is the next and nobody  released if it is new and nobody is busy, else parked in place
            is busy, else parked                   of an older one
    ack     the next one, if parked, is released   the parked one, if any, is released

Source: "Watermarking and Progress", SequenceNumber; upstream class `Sequencer` (ordering of tasks).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.progress.model.identifiers import FIRST_SEQUENCE, ChunkBase

Policy = Literal["keep", "drop"]
Place = tuple[int, int]
"""Sequence and chunk."""


@dataclass(frozen=True, slots=True)
class Sequencer:
    """Who is next, who is being handled (`busy`), and who is parked, with the last flag of each."""

    policy: Policy = "keep"
    chunk_base: ChunkBase = 1
    expected: Place | None = None
    busy: tuple[Place, bool] | None = None
    parked: tuple[tuple[Place, bool], ...] = field(default=())

    @property
    def next(self) -> Place:
        """The earliest place that is still to be handled."""
        return self.expected or (FIRST_SEQUENCE, self.chunk_base)

    def take(self, place: Place, last: bool) -> tuple[Sequencer, Place | None]:
        """Offer a buffer: its place if it is released now, None if it is parked, known or too old."""
        if place < self.next or (self.busy is not None and place <= self.busy[0] and self.policy == "drop"):
            return self, None
        if self.busy is None and (self.policy == "drop" or place == self.next):
            return replace(self, busy=(place, last)), place
        if self.busy is not None and self.busy[0] == place:
            return self, None
        if self.policy == "drop":
            newest = max((*self.parked, (place, last)), key=lambda entry: entry[0])
            return replace(self, parked=(newest,)), None
        return replace(self, parked=tuple(sorted({**dict(self.parked), place: last}.items()))), None

    def ack(self, place: Place) -> tuple[Sequencer, Place | None]:
        """The buffer in hand is done: the place that is released next, None if there is none.

        Raises `ModelError` if it was not in hand.
        """
        if self.busy is None or self.busy[0] != place:
            held = "nothing" if self.busy is None else f"{self.busy[0]}"
            raise ModelError(f"{place} is not in hand, {held} is.", remedy="Acknowledge what was released.")
        following = (place[0] + 1, self.chunk_base) if self.busy[1] else (place[0], place[1] + 1)
        waiting = tuple(entry for entry in self.parked if entry[0] >= following)
        free = replace(self, expected=following, busy=None, parked=waiting)
        if waiting and (self.policy == "drop" or waiting[0][0] == following):
            return replace(free, busy=waiting[0], parked=waiting[1:]), waiting[0][0]
        return free, None
