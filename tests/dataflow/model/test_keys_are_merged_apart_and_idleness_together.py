"""All keys over several inputs: keys do not touch each other, idleness is that of the input, and order does not matter
in `design`; the generator finds where it does, and where jobs fail for nothing, in `hz`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from tests.dataflow.model.histories import (
    EVENT,
    Stream,
    inputs,
    interleaved,
    interleavings,
    lasting,
    play,
    rising,
    streams,
    watermarks,
)
from wmlab.dataflow.model.coalescer import Coalescer, Keyed
from wmlab.dataflow.model.deviations import DESIGN, SHIPPED, Deviations
from wmlab.dataflow.model.items import DONE, IDLE, Event, Item, Watermark
from wmlab.dataflow.model.processor import JobFailedError

Updates = list[tuple[int, Item]]
HISTORIES = interleaved(streams())
SMALL = inputs(lasting(length=2), most=3).filter(lambda chosen: sum(map(len, chosen)) <= 7)
SEARCH = settings(
    max_examples=3_000, phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.parametrize("deviations", [DESIGN, SHIPPED], ids=["design", "hz"])
@given(history=HISTORIES)
def test_no_key_ever_goes_back(history: tuple[int, Updates], deviations: Deviations) -> None:
    count, updates = history
    state, found = Keyed.start(count), []
    for place, item in updates:
        try:
            state, emitted = state.step(place, item, deviations)
        except JobFailedError:
            assert deviations == SHIPPED
            return
        found += emitted
    for key, merged in state.keys:
        assert rising(watermarks(found, key))
        assert merged.coalesced == max(watermarks(found, key), default=None)


@given(HISTORIES)
def test_each_key_is_merged_as_if_it_were_alone(history: tuple[int, Updates]) -> None:
    count, updates = history
    _, found = play(count, updates, DESIGN)
    for key in (0, 1):
        # To any other key a watermark is what an event is: a sign of life.
        alone = [(place, EVENT if isinstance(item, Watermark) and item.key != key else item) for place, item in updates]
        _, merged = Coalescer.start(count).run(alone)
        expected = [[] if value is None else [value] for value in merged]
        assert [watermarks(emitted, key) for emitted in found] == expected


@given(HISTORIES)
def test_one_idle_message_leaves_per_episode(history: tuple[int, Updates]) -> None:
    count, updates = history
    _, found = play(count, updates, DESIGN)
    idle: set[int] = set()
    open_inputs = set(range(count))
    said = False
    for (place, item), emitted in zip(updates, found, strict=True):
        if isinstance(item, Event | Watermark):
            idle.discard(place)
            said = False
            assert IDLE not in emitted
            continue
        (idle.add if item == IDLE else open_inputs.discard)(place)
        all_idle = bool(open_inputs) and open_inputs <= idle
        assert emitted.count(IDLE) == (all_idle and not said)
        assert not emitted or IDLE not in emitted[:-1]
        said = said or all_idle


@given(HISTORIES, st.data())
def test_a_batch_is_its_steps_one_by_one(history: tuple[int, Updates], data: st.DataObject) -> None:
    count, updates = history
    cut = data.draw(st.integers(0, len(updates)))
    first, found = Keyed.start(count).run(updates[:cut])
    second, more = first.run(updates[cut:])
    assert (second, found + more) == play(count, updates, DESIGN)


def outcomes(chosen: list[Stream], deviations: Deviations) -> set[object]:
    """What is left of the streams in every order they can come: merged watermarks and idleness, or a failure."""
    found: set[object] = set()
    for order in interleavings(chosen):
        try:
            state, emitted = play(len(chosen), order, deviations)
        except JobFailedError as error:
            found.add(error.reason)
        else:
            all_done = len(state.done) == state.inputs
            told = not all_done and any(IDLE in step for step in emitted)
            found.add((tuple((key, merged.coalesced) for key, merged in state.keys), told))
    return found


@settings(max_examples=60)
@given(SMALL)
def test_the_order_does_not_matter_while_idleness_lasts(chosen: list[Stream]) -> None:
    assert len(outcomes(chosen, DESIGN)) == 1


def test_the_generator_finds_that_the_order_matters_in_hz() -> None:
    chosen = find(
        SMALL, lambda chosen: len({o for o in outcomes(chosen, SHIPPED) if isinstance(o, tuple)}) > 1, settings=SEARCH
    )
    assert len(outcomes(chosen, DESIGN)) == 1


def test_the_generator_finds_that_jobs_fail_for_nothing_in_hz() -> None:
    chosen = find(
        SMALL, lambda chosen: any(not isinstance(o, tuple) for o in outcomes(chosen, SHIPPED)), settings=SEARCH
    )
    assert len(outcomes(chosen, DESIGN)) == 1
    only = Deviations(late_key_replays_idle=True)
    assert outcomes(chosen, only) != outcomes(chosen, DESIGN)


@pytest.mark.parametrize(
    "option", ["watermark_wakes_one_key", "idle_repeated", "done_hides_idle", "late_key_replays_idle"]
)
def test_the_generator_finds_a_history_for_each_defect(option: str) -> None:
    def differs(history: tuple[int, Updates]) -> bool:
        try:
            return play(*history, Deviations(**{option: True}))[1] != play(*history, DESIGN)[1]
        except JobFailedError:
            return True

    assert find(HISTORIES, differs, settings=SEARCH)


def test_a_key_that_never_came_is_unknown() -> None:
    state, _ = play(3, [(0, Watermark(1, 5)), (2, DONE)], DESIGN)
    assert (state.of(7), state.coalesced(7)) == (None, None)
    assert (state.coalesced(1), dict(state.keys)[1].top_observed) == (None, 5)
    assert state.active == {0, 1}
