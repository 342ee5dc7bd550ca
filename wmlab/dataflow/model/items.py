"""The items that flow through a dataflow: rows, keyed watermarks, idle messages, barriers, and the end.

A row is the tuple of its values; the dataflow says which column is which, and which of them carry a watermark key.

A watermark `(key, value)` says that no later item on this stream has a time strictly below `value` in the field that
carries `key`; an item at the value is on time. That is already the exclusive normal form. An idle message says that
the stream takes no part in coalescing until its next row or watermark; it belongs to no key.

Source: "Keyed watermark support", Terminology, Idle message, Extending the behavior for multiple keys; upstream classes
`Watermark`, `SnapshotBarrier`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wmlab.core.errors import ModelError

MIN: Final = -(2**63)
"""The lowest time; no watermark carries it, since it is where a stream without one is."""
MAX: Final = 2**63 - 1
"""The highest time, Java's `Long.MAX_VALUE`; no watermark carries it, since the idle message does."""
IDLE_KEY: Final = 0
"""The key of the watermark instance, with the value `MAX`, that upstream says idle with."""
WATERMARK_KEYS: Final = range(-128, 128)
"""The watermark keys: signed bytes."""

FieldValue = int | float | str | bool | None | tuple["FieldValue", ...]
"""One field of a row; a tuple is a list of values."""
RowValues = tuple[FieldValue, ...]


@dataclass(frozen=True, slots=True)
class Watermark:
    """No later item has a time below `value` in the field of `key`. `value` has the unit of that field."""

    key: int
    value: int


@dataclass(frozen=True, slots=True)
class Idle:
    """The stream is excluded from coalescing until its next row or watermark.

    In the document it is the watermark instance of key `IDLE_KEY` with the value `MAX`, see `watermark_instance`; "it's
    not really a WM instance", so here it is an item of its own. With a `key`, for that key only; the document describes
    such messages and rejects them.
    """

    key: int | None = None


@dataclass(frozen=True, slots=True)
class Barrier:
    """What comes before it belongs to the snapshot, what comes behind does not. `terminal`: the job stops there."""

    snapshot: int
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The stream has ended."""


IDLE_MESSAGE: Final = Idle()
DONE: Final = Done()
Item = RowValues | Watermark | Idle | Barrier | Done
"""What is on a queue: a row, which is a plain tuple, or a special item."""


def watermark_instance(key: int, value: int) -> Watermark | Idle:
    """The item that a watermark instance `(key, value)` of the document stands for.

    "The `IDLE_MESSAGE` is implemented as a WM instance with a `Long.MAX_VALUE` value", and there is "only idle message
    with key=0". Raises `ModelError` for that value with another key, a key that is not a signed byte, or a value of
    -2^63 and below or above 2^63 - 1. Source: "Keyed watermark support", Idle message and Handling of keyed idle
    messages.
    """
    if key not in WATERMARK_KEYS:
        raise ModelError(f"watermark key {key} is not a signed byte", remedy="Use a key from -128 to 127.")
    if value == MAX and key == IDLE_KEY:
        return IDLE_MESSAGE
    if value == MAX:
        raise ModelError(
            f"watermark {value} of key {key} is an idle message, and no idle message has a key but {IDLE_KEY}",
            remedy=f"Give it key {IDLE_KEY}: an idle message is about the stream, with all its keys.",
        )
    if not MIN < value < MAX:
        raise ModelError(
            f"watermark {value} of key {key} is outside the times a watermark can carry",
            remedy="Use a time above -2^63 and below 2^63 - 1.",
        )
    return Watermark(key, value)


def row_time(values: RowValues, column: int) -> int:
    """The event time of a row. Raises `ModelError` unless it is an integer of 64 bits."""
    time = values[column] if 0 <= column < len(values) else None
    if type(time) is not int or not MIN <= time <= MAX:
        raise ModelError(
            f"Column {column} of the row {values} is not a time: {time!r}.",
            remedy="Name a column that holds an integer time in every row; filter the rows padded by an outer join.",
        )
    return time


@dataclass(frozen=True, slots=True)
class FrameGrid:
    """The times `offset + n * size` for every whole n, in the unit of the times. Exact for negative times.

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
        """The highest time of the grid that is not above `time`; `MIN` if that is below the lowest time."""
        return max(MIN, time - (time - self.offset) % self.size)

    def higher(self, time: int) -> int:
        """The lowest time of the grid above `time`; `MAX` if that is beyond the highest time."""
        return min(MAX, time - (time - self.offset) % self.size + self.size)
