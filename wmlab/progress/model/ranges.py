"""Progress over fractured sequence numbers: half-open ranges that can be split without counting chunks.

A buffer covers a range [start, end) of numbers; an operator that splits it gives the parts 1.0 to 1.1, 1.1 to 1.2, and
1.2 to 2.0, which together are the range 1 to 2 again. The local watermark is the largest one in the gapless run from
the first number, so it may advance inside a sequence that is not there in full, and it never goes back.

Source: upstream class `RangeWatermarkTracker` (experiment of 2026); "Watermarking and Progress", SequenceNumber.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wmlab.core.errors import ModelError
from wmlab.progress.model.identifiers import FIRST_SEQUENCE

Number = tuple[int, ...]
"""A fractured number: 1 is (1,), 1.2 is (1, 2)."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `start` up to but without `end`, both of one depth, and the watermark of their records.

    Raises `ModelError` for different depths and for a range that is empty. Source: as the module.
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
    """The gapless run from the first number, its largest watermark, and the ranges beyond it by their start.

    Source: as the module.
    """

    reached: Number = (FIRST_SEQUENCE,)
    watermark: int | None = None
    beyond: Mapping[Number, Range] = field(default_factory=dict)

    def add(self, part: Range) -> RangeProgress:
        """The progress after one more range.

        Raises `ModelError` for a range of another depth than the ones before, and for one that begins before the run
        ends or where another waits. Source: as the module.
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

    Raises `ModelError` for fewer than one part and for a range of several numbers. Source: as the module.
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
