"""What a processor does when it has nothing to say: watermarks and idle messages pass, the rest is taken in silence.

    stimulus                          reply
    watermark of one edge             nothing
    watermark over all edges          the same watermark
    all inputs idle                   an idle message
    an edge, or all of them, ended    nothing

Source: "Keyed watermark support", Processor API; upstream class `AbstractProcessor`.
"""

from __future__ import annotations

from typing import TypeVar

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import IDLE, MAX, MIN, Value
from wmlab.dataflow.model.processor import (
    Complete,
    EdgeDone,
    EdgeWatermark,
    GlobalWatermark,
    InputIdle,
    Reply,
    Stimulus,
)

S = TypeVar("S")
Values = tuple[Value, ...]


def by_default(state: S, stimulus: Stimulus) -> Reply[S]:
    """The reply of a processor that does nothing special with the stimulus.

    Raises `ModelError` for a row or an answer, which every processor has to know about itself.
    Source: as the module.
    """
    match stimulus:
        case GlobalWatermark(watermark):
            return Reply(state, (watermark,))
        case InputIdle():
            return Reply(state, (IDLE,))
        case EdgeWatermark() | EdgeDone() | Complete():
            return Reply(state)
    raise ModelError(f"This processor cannot take {stimulus}.", remedy="Answer only the processor that made the call.")


def time_of(values: Values, column: int) -> int:
    """The event time of a row. Raises `ModelError` unless it is an integer of 64 bits. Source: as the module."""
    time = values[column] if 0 <= column < len(values) else None
    if type(time) is not int or not MIN <= time <= MAX:
        raise ModelError(
            f"Column {column} of the row {values} is no time: {time!r}.",
            remedy="Name a column that holds an integer time in every row; filter the rows padded by an outer join.",
        )
    return time
