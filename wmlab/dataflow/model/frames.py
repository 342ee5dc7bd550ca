"""A grid of times: every `size` units one, shifted by `offset`. Exact for negative times, cut off at both ends.

Window ends lie on such a grid, and a source that is throttled sends only watermarks of it.

Source: "Keyed watermark support", Changes to window aggregation processors; upstream class `SlidingWindowPolicy`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import MAX, MIN


@dataclass(frozen=True, slots=True)
class Frames:
    """The times `offset + n * size` for every whole n, in the unit of the times. Source: as the module.

    Raises `ModelError` for a size below 1 and for an offset outside [0, size).
    """

    size: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ModelError(f"frame size {self.size} is not positive", remedy="Use a frame size of at least 1.")
        if not 0 <= self.offset < self.size:
            raise ModelError(
                f"frame offset {self.offset} is not within a frame of {self.size}",
                remedy="Use an offset from 0 up to the frame size, exclusive.",
            )

    def floor(self, time: int) -> int:
        """The highest time of the grid that is not above `time`; `MIN` if that is below the lowest time.

        Source: as the module.
        """
        return max(MIN, time - (time - self.offset) % self.size)

    def higher(self, time: int) -> int:
        """The lowest time of the grid above `time`; `MAX` if that is beyond the highest time. Source: as the module."""
        return min(MAX, time - (time - self.offset) % self.size + self.size)
