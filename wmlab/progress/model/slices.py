"""Windows over event time and their slices: every slice lies in the same windows from end to end.

The windows are [k·slide, k·slide + size) for k = 0, 1, ...; slices are cut at all their starts and ends. A window is
the disjoint union of its slices, so a record is kept once however many windows overlap. Windows that are shorter than
their slide leave slices in between that belong to no window.

Source: "Watermarking and Progress", Triggering windows; upstream class `SliceAssigner`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.core.errors import ModelError


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of one size and slide, in the unit of the event times; tumbling if both are equal.

    Raises `ModelError` unless both are at least 1. Source: upstream class `SliceAssigner`.
    """

    size: int
    slide: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.slide < 1:
            raise ModelError(f"No window has size {self.size} and slide {self.slide}.", remedy="Give both at least 1.")

    @classmethod
    def tumbling(cls, size: int) -> Windows:
        """Windows side by side. Raises `ModelError` for a size below 1. Source: as the class."""
        return cls(size, size)

    def slice_of(self, time: int) -> tuple[int, int]:
        """The slice [start, end) of a time. Raises `ModelError` for a negative time. Source: as the class."""
        if time < 0:
            raise ModelError(f"The time {time} is before the first window.", remedy="Give times of at least 0.")
        begun = time - time % self.slide
        ended = (time - self.size) // self.slide * self.slide + self.size if time >= self.size else 0
        next_begin = begun + self.slide
        next_end = ended + self.slide if time >= self.size else self.size
        return max(begun, ended), min(next_begin, next_end)

    def windows_of(self, time: int) -> range:
        """The numbers k of all windows that hold a time, ascending. Raises as `slice_of`. Source: as the class."""
        if time < 0:
            raise ModelError(f"The time {time} is before the first window.", remedy="Give times of at least 0.")
        first = max(0, (time - self.size) // self.slide + 1)
        return range(first, time // self.slide + 1)

    def span(self, number: int) -> tuple[int, int]:
        """The window's [start, end). Source: as the class."""
        return number * self.slide, number * self.slide + self.size

    def ended_before(self, time: int) -> int:
        """How many windows end before a time, that is, end < time. Source: as the class."""
        return max(0, (time - self.size - 1) // self.slide + 1)
