"""Numbers that no plan gives, and rules that no operator has."""

from __future__ import annotations

import pytest

from wmlab.core.errors import ModelError
from wmlab.progress.model.numbers import TupleBuffer, assign_origins, by_event_time
from wmlab.progress.model.operators import InOrder, Renumber
from wmlab.progress.model.tracker import ProgressRules, ProgressTracker
from wmlab.progress.model.windows import FiringRules, SlidingWindows, WindowedAggregation

TUMBLING = SlidingWindows(10, 10)
AGGREGATION = WindowedAggregation(FiringRules(windows=TUMBLING), origin=2)
FIRST = TupleBuffer(1, 1, 0, True, 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: assign_origins(["a", "b", "a"]), "Two emitters are called 'a'"),
        (lambda: by_event_time([1], unit=0), "unit of 0"),
        (lambda: InOrder().done(FIRST), "is not in hand, nothing is"),
        (lambda: ProgressTracker([1, 1]), "not distinct numbers from 1"),
        (lambda: ProgressTracker([0]), "not distinct numbers from 1"),
        (lambda: ProgressTracker([2, 3]).step(FIRST), "Origin 1 is not declared; declared are: 2, 3"),
        (
            lambda: ProgressTracker([1], ProgressRules(chunk_base=1)).step(FIRST),
            "chunk 0 in a trace whose .* start at 1",
        ),
        (lambda: SlidingWindows(0, 1), "size 0"),
        (lambda: TUMBLING.slice_of(-1), "before the first window"),
        (lambda: TUMBLING.windows_of(-1), "before the first window"),
        (lambda: FiringRules(windows=TUMBLING, emit_lag=-1), "emit lag of -1"),
        (lambda: AGGREGATION.build(1, [-1], [0]), "before the first window"),
        (lambda: Renumber(2, [1]).take(TupleBuffer(3, 1, 0, True, 5)), "Origin 3 is not declared"),
        (lambda: Renumber(1, [1]), "Origin 1 cannot renumber"),
        (lambda: Renumber(1, []), "cannot renumber"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make()
