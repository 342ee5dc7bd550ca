"""Merging: one key against its definition; all keys, that do not touch each other while idleness is that of the input
and order does not matter in `design`; and the queues of an edge, of which no item is lost or reordered.

The generator finds histories where order matters, and where jobs fail for nothing, in `implementation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings, strategies as st

from tests.dataflow.model.driving import SHIPPED, Edge
from tests.dataflow.model.histories import (
    EVENT,
    Stream,
    Updates,
    inputs,
    interleaved,
    interleavings,
    lasting,
    play,
    rising,
    streams,
    watermarks,
)
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.coalescer import Coalescer, KeyedCoalescer
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, MAX, MIN, Barrier, Item, Watermark
from wmlab.dataflow.model.processor import SOUND, Deviations, JobFailedError, Reason
from wmlab.dataflow.sim.instance import Guarantee

HISTORIES = interleaved(streams())
SMALL = inputs(lasting(length=2), most=3).filter(lambda chosen: sum(map(len, chosen)) <= 7)
SEARCH = settings(
    max_examples=3_000, phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck), database=None
)
OF_BOTH = pytest.mark.parametrize("deviations", [SOUND, SHIPPED], ids=["sound", "implementation"])


def by_definition(count: int, updates: Updates) -> list[int | None]:
    """The highest of: the lowest last watermark over active inputs, or of any input once none is active."""
    mark = [MIN] * count
    status = ["active"] * count
    highest, merged = MIN, []
    for index, item in updates:
        status[index] = "idle" if item == IDLE_MESSAGE else "done" if item == DONE else "active"
        mark[index] = item.value if isinstance(item, Watermark) else mark[index]
        active = [m for m, s in zip(mark, status, strict=True) if s == "active"]
        now = MIN if isinstance(item, tuple) else min(active) if active else max(mark)
        merged.append(now if now > highest else None)
        highest = max(highest, now)
    return merged


@given(interleaved(streams(keys=1)))
def test_one_key_is_merged_as_the_definition_says(history: tuple[int, Updates]) -> None:
    count, updates = history
    coalescer = Coalescer(count)
    coalesced = [coalescer.step(index, item) for index, item in updates]
    assert coalesced == by_definition(count, updates)
    assert coalescer.last == max((value for value in coalesced if value is not None), default=MIN)
    assert coalescer.highest == max((item.value for _, item in updates if isinstance(item, Watermark)), default=MIN)


def failure(updates: Updates) -> JobFailedError:
    with pytest.raises(JobFailedError) as caught:
        play(2, updates, SOUND)
    return caught.value


@OF_BOTH
def test_the_five_items_of_the_document(deviations: Deviations) -> None:
    """Hazelcast, "Example": wm(0, 10), wm(1, 12), wm(0, 11), wm(1, 13), wm(0, 14) gives 10, 11, nothing, and 13."""
    items = [(0, 10), (1, 12), (0, 11), (1, 13), (0, 14)]
    _, found = play(2, [(place, Watermark(0, value)) for place, value in items], deviations)
    assert [[item.value for item in emitted] for emitted in found] == [[], [10], [11], [], [13]]


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
        (IDLE_MESSAGE, Reason.NON_MONOTONIC, "Idle(key=None) came on input 0 after its end"),
        (DONE, Reason.DUPLICATE_DONE, "Done() came on input 0 after its end"),
    ],
)
def test_nothing_but_events_comes_after_the_end(item: Item, reason: Reason, says: str) -> None:
    error = failure([(0, Watermark(3, 10)), (0, DONE), (0, EVENT), (0, item)])
    assert (error.reason, error.problem) == (reason, says)


@pytest.mark.parametrize(
    ("count", "index", "says"), [(2, -1, "no input -1, only 2"), (2, 2, "no input 2, only 2"), (0, 0, "no input 0")]
)
def test_what_comes_on_no_input_is_refused(count: int, index: int, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        play(count, [(index, IDLE_MESSAGE)], SOUND)


def test_the_ends_of_time_are_kept_apart_from_what_watermarks_say() -> None:
    coalescer = Coalescer(2)
    updates: Updates = [(0, Watermark(0, MIN + 1)), (1, Watermark(0, MAX - 1)), (0, IDLE_MESSAGE)]
    assert [coalescer.step(*update) for update in updates] == [None, MIN + 1, MAX - 1]


@OF_BOTH
@given(history=HISTORIES)
def test_no_key_ever_goes_back(history: tuple[int, Updates], deviations: Deviations) -> None:
    count, updates = history
    coalescer, out = KeyedCoalescer(count, deviations), []
    for index, item in updates:
        try:
            out += coalescer.step(index, item)
        except JobFailedError:
            assert deviations == SHIPPED
            return
    for key, of_key in coalescer.keys.items():
        assert rising(watermarks(out, key))
        assert of_key.last == max(watermarks(out, key), default=MIN)


@given(HISTORIES)
def test_each_key_is_merged_as_if_it_were_alone(history: tuple[int, Updates]) -> None:
    count, updates = history
    _, steps = play(count, updates, SOUND)
    for key in (0, 1):
        # To any other key a watermark is what an event is: a sign of life.
        alone = [(index, EVENT if isinstance(item, Watermark) and item.key != key else item) for index, item in updates]
        coalescer = Coalescer(count)
        coalesced = [coalescer.step(index, item) for index, item in alone]
        expected = [[] if value is None else [value] for value in coalesced]
        assert [watermarks(emitted, key) for emitted in steps] == expected


@given(HISTORIES)
def test_one_idle_message_leaves_per_episode(history: tuple[int, Updates]) -> None:
    count, updates = history
    _, steps = play(count, updates, SOUND)
    idle: set[int] = set()
    open_inputs = set(range(count))
    announced = False
    for (index, item), emitted in zip(updates, steps, strict=True):
        if isinstance(item, tuple | Watermark):
            idle.discard(index)
            announced = False
            assert IDLE_MESSAGE not in emitted
            continue
        (idle.add if item == IDLE_MESSAGE else open_inputs.discard)(index)
        all_idle = bool(open_inputs) and open_inputs <= idle
        assert emitted.count(IDLE_MESSAGE) == (all_idle and not announced)
        assert not emitted or IDLE_MESSAGE not in emitted[:-1]
        announced = announced or all_idle


@given(HISTORIES, st.data())
def test_a_copy_goes_on_alike_and_on_its_own(history: tuple[int, Updates], data: st.DataObject) -> None:
    count, updates = history
    cut = data.draw(st.integers(0, len(updates)))
    first, emitted = play(count, updates[:cut], SOUND)
    second, before = first.copy(), first.state
    assert second.state == before
    more = [second.step(index, item) for index, item in updates[cut:]]
    assert first.state == before
    assert emitted + more == play(count, updates, SOUND)[1]
    assert [first.step(index, item) for index, item in updates[cut:]] == more
    assert first.state == second.state


def outcomes(chosen: list[Stream], deviations: Deviations) -> set[object]:
    """What is left of the streams in every order they can come: merged watermarks and idleness, or a failure."""
    ends: set[object] = set()
    for order in interleavings(chosen):
        try:
            coalescer, steps = play(len(chosen), order, deviations)
        except JobFailedError as error:
            ends.add(error.reason)
        else:
            idle = len(coalescer.done) < coalescer.inputs and any(IDLE_MESSAGE in emitted for emitted in steps)
            ends.add((tuple((key, coalescer.keys[key].last) for key in sorted(coalescer.keys)), idle))
    return ends


@settings(max_examples=60)
@given(SMALL)
def test_the_order_does_not_matter_while_idleness_lasts(chosen: list[Stream]) -> None:
    assert len(outcomes(chosen, SOUND)) == 1


def test_the_generator_finds_that_the_order_matters_and_that_jobs_fail_for_nothing_as_shipped() -> None:
    def is_end(chosen: list[Stream]) -> list[bool]:
        """Of each outcome in `implementation`, whether it is not a failure."""
        return [isinstance(outcome, tuple) for outcome in outcomes(chosen, SHIPPED)]

    differing = find(SMALL, lambda chosen: sum(is_end(chosen)) > 1, settings=SEARCH)
    failing = find(SMALL, lambda chosen: not all(is_end(chosen)), settings=SEARCH)
    assert len(outcomes(differing, SOUND)) == len(outcomes(failing, SOUND)) == 1
    assert outcomes(failing, Deviations(late_key_replays_idle=True)) != outcomes(failing, SOUND)


@pytest.mark.parametrize(
    "option", ["watermark_wakes_one_key", "idle_repeated", "done_hides_idle", "late_key_replays_idle"]
)
def test_the_generator_finds_a_history_for_each_defect(option: str) -> None:
    def differs(history: tuple[int, Updates]) -> bool:
        try:
            return play(*history, Deviations(**{option: True}))[1] != play(*history, SOUND)[1]
        except JobFailedError:
            return True

    assert find(HISTORIES, differs, settings=SEARCH)


def numbered(stream: Stream, queue: int) -> Stream:
    """The stream with distinct events."""
    return tuple((queue, n) if isinstance(item, tuple) else item for n, item in enumerate(stream))


Run = tuple[list[Stream], list[tuple[int, Stream]]]
"""Streams, and the batches in which they are pushed."""


@st.composite
def runs(draw: st.DrawFn) -> Run:
    chosen = [numbered(stream, queue) for queue, stream in enumerate(draw(inputs(streams())))]
    order = draw(st.permutations([queue for queue, stream in enumerate(chosen) for _ in stream]))
    iterators = [iter(stream) for stream in chosen]
    return chosen, [(queue, tuple(next(iterators[queue]) for _ in batch)) for queue, batch in groupby(order)]


Drains = list[tuple[str, Sequence[Item]]]
"""What each drain achieved, and what it gave."""


def all_drains(run: Run, deviations: Deviations = SOUND) -> tuple[Edge, Drains]:
    """A drain after every push, and drains until nothing comes any more; the edge behind them."""
    chosen, batches = run
    edge = Edge(len(chosen), deviations=deviations)
    drains = [edge.push(queue, *items).drain() for queue, items in batches]
    while drains and drains[-1][0] == "MADE_PROGRESS":
        drains.append(edge.drain())
    return edge, drains


@OF_BOTH
@given(run=runs())
def test_events_and_specials_are_never_mixed_and_no_event_is_lost(run: Run, deviations: Deviations) -> None:
    try:
        _, drains = all_drains(run, deviations)
    except JobFailedError:
        assert deviations == SHIPPED
        return
    assert all(len({isinstance(item, tuple) for item in out}) <= 1 for _, out in drains)
    events = [item for _, out in drains for item in out if isinstance(item, tuple)]
    for stream in run[0]:
        own = [item for item in stream if isinstance(item, tuple)]
        assert [item for item in events if item in own] == own


@given(runs())
def test_what_was_taken_is_what_was_pushed_and_merged_watermarks_rise_as_the_steps_say(run: Run) -> None:
    edge, drains = all_drains(run)
    assert len(edge.instance.model.taken_rows) == sum(map(len, run[0]))
    assert not any(edge.sizes)
    if drains and all(stream and stream[-1] == DONE for stream in run[0]):
        assert [progress for progress, _ in drains].count("DONE") == 1
        assert drains[-1][0] == "DONE"
        assert edge.edge.ended
    out = [item for _, drained in drains for item in drained]
    merged = [item for _, emitted, *_ in edge.instance.model.steps for item in emitted]
    is_recorded = len(run[0]) > 1
    assert merged == [item for item in out if is_recorded and not isinstance(item, tuple)]
    assert all(rising(watermarks(out, key)) for key in (0, 1))


@pytest.mark.parametrize(
    ("terminal", "guarantee", "overtaken"),
    [
        (False, "exactly_once", False),
        (True, "at_least_once", False),
        (True, "none", False),
        (False, "at_least_once", True),
    ],
)
def test_only_at_least_once_do_items_overtake_a_barrier(terminal: bool, guarantee: Guarantee, overtaken: bool) -> None:
    barrier = Barrier(1, terminal)
    edge = Edge(2, guarantee=guarantee)
    edge.push(0, ("before", 0), barrier, ("behind", 0), Watermark(0, 9))
    edge.push(1, ("before", 1), Watermark(0, 3))
    items = edge.drain_all()
    items += edge.push(1, ("before", 1), barrier, ("behind", 1)).drain_all()
    assert sum(isinstance(item, tuple) for item in items) == 5
    at = items.index(barrier)
    sides = [{item[0] for item in part if isinstance(item, tuple)} for part in (items[:at], items[at:])]
    assert sides == [{"before", "behind"} if overtaken else {"before"}, {"behind"}]


def test_an_ended_queue_needs_no_barrier() -> None:
    edge = Edge(2, guarantee="exactly_once").push(0, Barrier(1)).push(1, DONE)
    assert edge.drain() == ("MADE_PROGRESS", [Barrier(1)])
