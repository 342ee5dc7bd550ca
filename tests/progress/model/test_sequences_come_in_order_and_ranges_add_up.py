"""A sequencer restores the order; N12: splitting a range changes nothing once all its parts are there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.progress.model.streams import origin_buffers
from wmlab.core.errors import ModelError
from wmlab.progress.model.sequences import Range, RangeProgress, Sequencer, fracture


@given(st.data())
def test_a_sequencer_releases_every_buffer_in_order(data) -> None:
    places = [((b.sequence, b.chunk), b.last) for b in data.draw(origin_buffers(base=1))]
    state, released = Sequencer(), []
    for place, last in data.draw(st.permutations(places)):
        state, freed = state.take(place, last)
        while freed is not None:
            released.append(freed)
            state, freed = state.ack(freed)
    assert released == [place for place, _ in places]


def run(parts) -> RangeProgress:
    state = RangeProgress()
    for part in parts:
        state = state.add(part)
    return state


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 4)), min_size=1, max_size=6), st.data())
def test_the_parts_in_any_order_are_the_whole(sequences, data) -> None:
    wholes = [Range((number,), (number + 1,), mark) for number, (mark, _) in enumerate(sequences, 1)]
    parts = [part for whole, (_, count) in zip(wholes, sequences, strict=True) for part in fracture(whole, count)]
    split, whole = run(data.draw(st.permutations(parts))), run(data.draw(st.permutations(wholes)))
    assert split.watermark == whole.watermark == max(mark for mark, _ in sequences)
    assert split.reached == (*whole.reached, 0)
    assert not split.beyond


@given(st.lists(st.integers(0, 99), max_size=8), st.data())
def test_the_watermark_is_the_running_maximum_of_the_gapless_run(marks, data) -> None:
    ranges = [Range((number,), (number + 1,), mark) for number, mark in enumerate(marks, 1)]
    state, seen = RangeProgress(), set()
    for part in data.draw(st.permutations(ranges)):
        state = state.add(part)
        seen.add(part.start[0])
        run_length = next(number for number in range(1, len(marks) + 2) if number not in seen) - 1
        assert state.reached == (run_length + 1,)
        assert state.watermark == max(marks[:run_length], default=None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Range((1,), (1,)), "is no range"),
        (lambda: Range((1,), (1, 2)), "is no range"),
        (lambda: run([Range((1,), (2,)), Range((1,), (2,))]), "have come before"),
        (lambda: run([Range((3,), (4,)), Range((3,), (4,))]), "have come before"),
        (lambda: run([Range((1,), (2,)), Range((2, 0), (3, 0))]), "does not line up"),
        (lambda: Sequencer().ack((1, 1)), "is not in hand, nothing is"),
        (lambda: fracture(Range((1,), (3,)), 2), "cannot be split"),
        (lambda: fracture(Range((1,), (2,)), 0), "cannot be split"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make()
