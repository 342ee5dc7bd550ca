"""N1: the local watermark depends on the longest complete prefix and on nothing else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import find, given, strategies as st

from tests.progress.model.streams import origin_buffers, prefix, run, run_origin, values
from wmlab.progress.model.numbers import TupleBuffer
from wmlab.progress.model.tracker import ProgressRules

HEAD = ProgressRules(local="head")


@given(st.data())
def test_it_is_read_off_the_prefix_whatever_the_order(data) -> None:
    buffers = data.draw(origin_buffers())
    order = data.draw(st.permutations(buffers))
    taken = order[: data.draw(st.integers(0, len(order)))]
    found = prefix(values(taken))
    assert run_origin(taken).prefix == len(found)
    assert run_origin(taken).local == max(found, default=None)
    assert run_origin(taken, HEAD).local == (found[-1] if found else None)


@pytest.mark.parametrize(
    ("seen", "longest"), [([1, 2, 3, 4, 5], 5), ([1, 2, 3, 5, 6], 3), ([1, 3, 4, 6], 1)], ids=["all", "no 4", "no 2"]
)
def test_the_three_rows_of_the_document(seen: list[int], longest: int) -> None:
    """NebulaStream, "SequenceNumber": the longest consecutive sequence, and the local watermark that it gives."""
    buffers = [TupleBuffer(1, sequence, 0, True, 10 * sequence) for sequence in seen]
    for order in itertools.permutations(buffers):
        assert (run_origin(order).prefix, run_origin(order).local) == (longest, 10 * longest)


@given(st.data())
def test_any_order_of_the_same_buffers_ends_in_the_same_state(data) -> None:
    buffers = data.draw(origin_buffers())
    order = data.draw(st.permutations(buffers))
    taken = data.draw(st.integers(0, len(order)))
    shuffled = data.draw(st.permutations(order[:taken]))
    assert run_origin(order[:taken]) == run_origin(shuffled)


@given(st.data())
def test_a_missing_sequence_blocks_and_is_jumped_over_in_one_step(data) -> None:
    buffers = data.draw(origin_buffers().filter(bool))
    missing = data.draw(st.integers(1, buffers[-1].sequence))
    rest = data.draw(st.permutations([b for b in buffers if b.sequence != missing]))
    before = run_origin(rest)
    assert before.prefix == missing - 1
    assert before.waiting == sum(b.sequence > missing for b in rest)
    *early, closing = data.draw(st.permutations([b for b in buffers if b.sequence == missing]))
    assert run_origin([*rest, *early]).prefix == missing - 1
    after = run_origin([*rest, *early, closing])
    assert after.prefix == buffers[-1].sequence
    assert (after.waiting, len(after.beyond)) == (0, 0)


def falls(buffers: list[TupleBuffer], rules: ProgressRules) -> bool:
    marks = [state.watermark for state in run([1], buffers, rules) if state.watermark is not None]
    return any(later < earlier for earlier, later in itertools.pairwise(marks))


def test_the_head_goes_back_and_a_counter_example_is_found() -> None:
    found = find(origin_buffers(), lambda buffers: falls(buffers, HEAD))
    assert [buffer.sequence for buffer in found] == [1, 2]
    assert found[1].watermark < found[0].watermark


@given(st.data())
def test_the_running_maximum_never_goes_back(data) -> None:
    assert not falls(data.draw(st.permutations(data.draw(origin_buffers()))), ProgressRules())


@given(st.data())
def test_by_the_literal_sentence_the_sequence_behind_the_prefix_counts_from_its_first_chunk_on(data) -> None:
    buffers = data.draw(origin_buffers())
    order = data.draw(st.permutations(buffers))
    taken = order[: data.draw(st.integers(0, len(order)))]
    found = prefix(values(taken))
    opened = [buffer.watermark for buffer in taken if buffer.sequence == len(found) + 1]
    wanted = max(opened) if opened else found[-1] if found else None
    assert run_origin(taken, ProgressRules(local="literal")).local == wanted
