"""N6, and P5: the global watermark over declared origins, and what holds it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.progress.model.streams import run, several_origins
from wmlab.progress.model.chunks import Chunks
from wmlab.progress.model.numbers import UNBOUNDED, TupleBuffer
from wmlab.progress.model.tracker import ProgressRules, ProgressTracker


@given(several_origins(), st.sampled_from(["running_max", "head"]))
def test_it_is_the_minimum_and_unknown_while_an_origin_is_silent(case, local) -> None:
    origins, buffers = case
    for state in run(origins, buffers, ProgressRules(local=local)):
        known = [origin.local for origin in state.origins.values()]
        assert state.watermark == (None if None in known else min(known))


@given(several_origins(ordered=True))
def test_it_never_promises_more_than_is_kept(case) -> None:
    origins, buffers = case
    for place, state in enumerate(run(origins, buffers)):
        for origin in origins:
            missing = {b.sequence for b in buffers[place:] if b.origin == origin}
            assert not missing or state.origins[origin].prefix < min(missing)


def test_without_origins_nothing_can_come() -> None:
    tracker = ProgressTracker([])
    assert tracker.watermark == UNBOUNDED
    assert tracker.holding() == []


def buffers_with_a_gap() -> list[TupleBuffer]:
    whole = [TupleBuffer(1, number, 0, True, 100 * number) for number in (1, 3, 4)]
    return [*whole, TupleBuffer(2, 1, 0, True, 900), TupleBuffer(1, 2, 1, False, 150), TupleBuffer(1, 2, 3, True, 190)]


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        (3, (None, None, [2], (), 2)),
        (4, (100, 30, [1], (), 2)),
        (5, (100, 30, [1], (0,), 3)),
        (6, (100, 30, [1], (0, 2), 4)),
    ],
)
def test_the_state_tells_what_holds_it(taken: int, expected: tuple[object, ...]) -> None:
    """Watermark, when it moved, the origins at it, and of origin 1 the missing chunks and how many buffers wait."""
    state = run([1, 2], buffers_with_a_gap()[:taken])[-1]
    first = state.origins[1]
    chunks = first.beyond.get(2, Chunks(base=0)).missing()
    assert (state.watermark, state.moved_ms, state.holding(), chunks, first.waiting) == expected


def test_all_origins_at_the_minimum_hold_it() -> None:
    state = run([1, 2, 3], [TupleBuffer(origin, 1, 0, True, 5 + (origin == 3)) for origin in (1, 2, 3)])[-1]
    assert state.holding() == [1, 2]
