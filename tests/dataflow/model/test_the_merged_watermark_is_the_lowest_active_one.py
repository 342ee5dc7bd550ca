"""One key over several inputs: against its definition, in any order, and however it is cut into batches."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataflow.model.histories import EVENT, Stream, inputs, interleaved, rising, streams
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.coalescer import Coalescer
from wmlab.dataflow.model.items import DONE, IDLE, MAX, MIN, Barrier, Event, Item, Watermark
from wmlab.dataflow.model.processor import JobFailedError, Reason

Updates = list[tuple[int, Item]]
HISTORIES = interleaved(streams(keys=1))


def by_definition(count: int, updates: Updates) -> list[int | None]:
    """The highest of: the lowest last watermark over active inputs, or of any input once none is active."""
    mark = [MIN] * count
    status = ["active"] * count
    highest, found = MIN, []
    for place, item in updates:
        status[place] = "idle" if item == IDLE else "done" if item == DONE else "active"
        mark[place] = item.value if isinstance(item, Watermark) else mark[place]
        active = [m for m, s in zip(mark, status, strict=True) if s == "active"]
        now = MIN if isinstance(item, Event) else min(active) if active else max(mark)
        found.append(now if now > highest else None)
        highest = max(highest, now)
    return found


@given(HISTORIES)
def test_it_is_what_the_definition_says(history: tuple[int, Updates]) -> None:
    count, updates = history
    _, found = Coalescer.start(count).run(updates)
    assert found == by_definition(count, updates)


@given(HISTORIES)
def test_it_never_goes_back(history: tuple[int, Updates]) -> None:
    count, updates = history
    state, found = Coalescer.start(count).run(updates)
    emitted = [value for value in found if value is not None]
    assert rising(emitted)
    assert state.coalesced == (emitted[-1] if emitted else None)


@given(HISTORIES, st.data())
def test_a_batch_is_its_steps_one_by_one(history: tuple[int, Updates], data: st.DataObject) -> None:
    count, updates = history
    cut = data.draw(st.integers(0, len(updates)))
    first, found = Coalescer.start(count).run(updates[:cut])
    second, more = first.run(updates[cut:])
    state, singly = Coalescer.start(count), []
    for place, item in updates:
        state, value = state.step(place, item)
        singly.append(value)
    assert (second, found + more) == (state, singly)


@given(inputs(streams(keys=1, length=4, idle=False)).filter(lambda chosen: len(chosen) > 1))
def test_the_order_in_which_all_become_idle_does_not_matter(chosen: list[Stream]) -> None:
    before = [(place, item) for place, items in enumerate(chosen) for item in items if item != DONE]
    finals = set()
    for order in itertools.permutations(range(len(chosen))):
        state, _ = Coalescer.start(len(chosen)).run([*before, *((place, IDLE) for place in order)])
        finals.add((state.coalesced, state.idle_pending))
    assert len(finals) == 1
    assert finals == {(state.top_observed, True)}


@given(HISTORIES)
def test_the_top_is_the_highest_of_any_input(history: tuple[int, Updates]) -> None:
    count, updates = history
    state, _ = Coalescer.start(count).run(updates)
    assert state.top_observed == max((item.value for _, item in updates if isinstance(item, Watermark)), default=None)
    assert state.done == {place for place, item in updates if item == DONE}


def failure(updates: Updates) -> JobFailedError:
    with pytest.raises(JobFailedError) as caught:
        Coalescer.start(2).run(updates)
    return caught.value


@pytest.mark.parametrize("value", [10, 9, -(2**63) + 1])
def test_a_watermark_that_does_not_rise_says_where_it_came_and_which_two_values(value: int) -> None:
    error = failure([(1, Watermark(3, 10)), (1, Watermark(3, value))])
    assert error.reason is Reason.NON_MONOTONIC
    assert error.problem.startswith(f"watermark {value} of key 3 on input 1 is not above 10")
    assert error.remedy


@pytest.mark.parametrize(
    ("item", "reason", "says"),
    [
        (Watermark(3, 11), Reason.NON_MONOTONIC, "input 0 brings watermark 11 of key 3 after its end"),
        (IDLE, Reason.NON_MONOTONIC, "input 0 is idle after its end"),
        (DONE, Reason.DUPLICATE_DONE, "input 0 ends again after its end"),
    ],
)
def test_nothing_but_events_comes_after_the_end(item: Item, reason: Reason, says: str) -> None:
    error = failure([(0, Watermark(3, 10)), (0, DONE), (0, EVENT), (0, item)])
    assert (error.reason, error.problem) == (reason, says)


@pytest.mark.parametrize("place", [-1, 2])
def test_an_input_that_is_not_there_is_named(place: int) -> None:
    with pytest.raises(ModelError, match=f"no input {place}, only 2"):
        Coalescer.start(2).run([(place, Watermark(0, 1))])


def test_a_source_has_no_inputs() -> None:
    state = Coalescer.start(0)
    assert (state.coalesced, state.top_observed, state.idle_pending) == (None, None, False)
    with pytest.raises(ModelError, match="no input 0"):
        state.step(0, IDLE)


def test_a_barrier_is_none_of_its_business() -> None:
    with pytest.raises(ModelError, match="takes no part"):
        Coalescer.start(1).step(0, Barrier(1))


def test_the_ends_of_time_are_kept_apart_from_what_watermarks_say() -> None:
    state, found = Coalescer.start(2).run([(0, Watermark(0, MIN + 1)), (1, Watermark(0, MAX - 1))])
    assert found == [None, MIN + 1]
    assert state.step(0, IDLE)[1] == MAX - 1
