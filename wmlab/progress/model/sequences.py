"""Sequence numbers: a sequencer that restores the order, and fractured ranges that can be split.

The sequencer releases buffers one at a time, in the order of sequence and chunk. `keep` parks what comes too early;
`drop` parks only the newest and forgets what is older than what was handled, so that a slow operator keeps up.

    call    keep                                   drop
    take    released if it is the next and nobody  released if it is new and nobody is busy, else parked in place
            is busy, else parked                   of an older one
    ack     the next one, if parked, is released   the parked one, if any, is released
    defer   handed back: it has to be taken again  as keep

Fractured sequence numbers give half-open ranges that can be split without counting chunks.

A buffer covers a range [start, end) of numbers; an operator that splits it gives the parts 1.0 to 1.1, 1.1 to 1.2, and
1.2 to 2.0, which together are the range 1 to 2 again. The local watermark is the largest one in the gapless run from
the first number, so it may advance inside a sequence that is not there in full, and it never goes back.

Source: "Watermarking and Progress", SequenceNumber; upstream classes `Sequencer` (ordering of tasks) and
`RangeWatermarkTracker` (experiment of 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
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
        return replace(self, parked=self._park(place, last)), None

    def ack(self, place: Place) -> tuple[Sequencer, Place | None]:
        """The buffer in hand is done: the place that is released next, None if there is none.

        Raises `ModelError` if it was not in hand.
        """
        last = self._in_hand(place)
        following = (place[0] + 1, self.chunk_base) if last else (place[0], place[1] + 1)
        waiting = tuple(entry for entry in self.parked if entry[0] >= following)
        free = replace(self, expected=following, busy=None, parked=waiting)
        if waiting and (self.policy == "drop" or waiting[0][0] == following):
            return replace(free, busy=waiting[0], parked=waiting[1:]), waiting[0][0]
        return free, None

    def defer(self, place: Place) -> Sequencer:
        """The buffer in hand was not handled: it has to be taken again. Raises as `ack`."""
        self._in_hand(place)
        return replace(self, busy=None)

    def _in_hand(self, place: Place) -> bool:
        if self.busy is None or self.busy[0] != place:
            held = "nothing" if self.busy is None else f"{self.busy[0]}"
            raise ModelError(f"{place} is not in hand, {held} is.", remedy="Acknowledge what was released.")
        return self.busy[1]

    def _park(self, place: Place, last: bool) -> tuple[tuple[Place, bool], ...]:
        if self.policy == "drop":
            return (max((*self.parked, (place, last)), key=lambda entry: entry[0]),)
        return tuple(sorted({**dict(self.parked), place: last}.items()))


Number = tuple[int, ...]
"""A fractured number: 1 is (1,), 1.2 is (1, 2)."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `start` up to but without `end`, both of one depth, and the watermark of their records.

    Raises `ModelError` for different depths and for a range that is empty.
    """

    start: Number
    end: Number
    watermark: int = 0

    def __post_init__(self) -> None:
        if not self.start or len(self.start) != len(self.end) or self.start >= self.end:
            raise ModelError(
                f"[{_text(self.start)}, {_text(self.end)}) is no range.",
                remedy="Give a start below an end, both with as many parts.",
            )


@dataclass(frozen=True, slots=True)
class RangeProgress:
    """The gapless run from the first number, its largest watermark, and the ranges beyond it by their start."""

    reached: Number = (FIRST_SEQUENCE,)
    watermark: int | None = None
    beyond: Mapping[Number, Range] = field(default_factory=dict)

    def add(self, part: Range) -> RangeProgress:
        """The progress after one more range.

        Raises `ModelError` for a range of another depth than the ones before, and for one that begins before the run
        ends or where another waits.
        """
        untouched = self.watermark is None and not self.beyond
        reached = (FIRST_SEQUENCE,) + (0,) * (len(part.start) - 1) if untouched else self.reached
        if len(part.start) != len(reached):
            raise ModelError(
                f"A range from {_text(part.start)} does not line up with {_text(reached)}.",
                remedy="Fracture all numbers of a stream to the same depth.",
            )
        if part.start < reached or part.start in self.beyond:
            raise ModelError(f"The numbers from {_text(part.start)} have come before.", remedy="Send each number once.")
        return _run(replace(self, reached=reached, beyond={**self.beyond, part.start: part}))


def fracture(whole: Range, parts: int) -> tuple[Range, ...]:
    """A range of one number split into `parts`, one level deeper, each with the watermark of the whole.

    Raises `ModelError` for fewer than one part and for a range of several numbers.
    """
    if parts < 1 or whole.end != (*whole.start[:-1], whole.start[-1] + 1):
        raise ModelError(
            f"[{_text(whole.start)}, {_text(whole.end)}) cannot be split into {parts} parts.",
            remedy="Split a single number into one part or more.",
        )
    inner = [(*whole.start, number) for number in range(parts)]
    return tuple(
        Range(start, end, whole.watermark) for start, end in zip(inner, [*inner[1:], (*whole.end, 0)], strict=True)
    )


def _run(state: RangeProgress) -> RangeProgress:
    reached, watermark, beyond = state.reached, state.watermark, dict(state.beyond)
    while reached in beyond:
        part = beyond.pop(reached)
        reached = part.end
        watermark = part.watermark if watermark is None else max(watermark, part.watermark)
    return RangeProgress(reached, watermark, beyond)


def _text(number: Number) -> str:
    return ".".join(map(str, number)) or "nothing"
