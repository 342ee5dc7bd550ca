"""What a stream-to-stream join holds: rows of both sides, and what it knows of every key.

For every key: `limit`, the lowest time that can still find a partner; `received`, the last watermark; `emitted`, the
last one that left. All begin at START, the lowest time that a watermark can have.

Source: "Stream-to-stream join", Implementation of multiple watermarks; upstream class `StreamToStreamJoinP`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from wmlab.dataflow.model.defaults import Values
from wmlab.dataflow.model.frozen_map import FrozenMap
from wmlab.dataflow.model.items import MIN

START: Final = MIN + 1
"""Below every watermark."""
LEFT: Final = 0
RIGHT: Final = 1


@dataclass(frozen=True, slots=True)
class Buffered:
    """A row that is kept; `unmatched` only on the outer side, until a partner comes. Source: as the module."""

    values: Values
    unmatched: bool = False


@dataclass(frozen=True, slots=True)
class JoinState:
    """Rows of both sides in the order they came, and times by key in the unit of the key's field.

    Source: as the module.
    """

    buffers: tuple[tuple[Buffered, ...], tuple[Buffered, ...]] = ((), ())
    limits: FrozenMap[int, int] = field(default_factory=FrozenMap)
    received: FrozenMap[int, int] = field(default_factory=FrozenMap)
    emitted: FrozenMap[int, int] = field(default_factory=FrozenMap)

    @classmethod
    def of_keys(cls, keys: Iterable[int]) -> JoinState:
        """Nothing came on any of these keys. Source: as the module."""
        start = FrozenMap((key, START) for key in sorted(keys))
        return cls(limits=start, received=start, emitted=start)

    @property
    def rows(self) -> int:
        """The rows of both sides. Source: as the module."""
        return len(self.buffers[LEFT]) + len(self.buffers[RIGHT])

    def buffer(self, side: int, rows: Iterable[Buffered]) -> JoinState:
        """With other rows on one side. Source: as the module."""
        new = tuple(rows)
        return replace(self, buffers=(new, self.buffers[RIGHT]) if side == LEFT else (self.buffers[LEFT], new))
