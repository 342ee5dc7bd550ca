"""The queues of one edge: what a drain may give, that nothing is lost or reordered, and where barriers stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataflow.model.histories import EVENT, Stream, inputs, rising, streams, watermarks
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.coalescer import Drained, EdgeStream, Guarantee, Progress, drain
from wmlab.dataflow.model.deviations import DESIGN, SHIPPED, Deviations
from wmlab.dataflow.model.items import DONE, IDLE, Barrier, Event, Item, Watermark
from wmlab.dataflow.model.processor import JobFailedError

BARRIER = Barrier(1)


def numbered(stream: Stream, place: int) -> Stream:
    """The stream with events that can be told apart."""
    return tuple(Event((place, n)) if isinstance(item, Event) else item for n, item in enumerate(stream))


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Stream], list[tuple[int, Stream]]]:
    """Streams, and the batches in which they are pushed."""
    chosen = [numbered(stream, place) for place, stream in enumerate(draw(inputs(streams())))]
    left = {place: stream for place, stream in enumerate(chosen) if stream}
    batches = []
    while left:
        place = draw(st.sampled_from(sorted(left)))
        size = draw(st.integers(1, len(left[place])))
        batches.append((place, left[place][:size]))
        left = {n: stream[size:] if n == place else stream for n, stream in left.items()}
        left = {n: stream for n, stream in left.items() if stream}
    return chosen, batches


def all_drains(
    count: int, batches: list[tuple[int, Stream]], deviations: Deviations, guarantee: Guarantee = "at_least_once"
) -> list[Drained]:
    """A drain after every push, and drains until nothing comes any more."""
    edge, found = EdgeStream.start(count, guarantee), []
    for place, items in batches:
        found.append(drain(edge.push(place, items), deviations))
        edge = found[-1].edge
    while found and found[-1].progress is Progress.MADE_PROGRESS:
        found.append(drain(edge, deviations))
        edge = found[-1].edge
    return found


@pytest.mark.parametrize("deviations", [DESIGN, SHIPPED], ids=["design", "hz"])
@given(run=runs())
def test_events_and_specials_are_never_mixed_and_no_event_is_lost(
    run: tuple[list[Stream], list[tuple[int, Stream]]], deviations: Deviations
) -> None:
    chosen, batches = run
    try:
        found = all_drains(len(chosen), batches, deviations)
    except JobFailedError:
        assert deviations == SHIPPED
        return
    assert all(len({isinstance(item, Event) for item in one.out}) <= 1 for one in found)
    events = [item for one in found for item in one.out if isinstance(item, Event)]
    for stream in chosen:
        own = [item for item in stream if isinstance(item, Event)]
        assert [item for item in events if item in own] == own
    assert all(
        sum(count for n, count in one.taken if n == place) <= len(chosen[place]) for one in found for place in [0]
    )


@given(runs())
def test_what_was_taken_is_what_was_pushed(run: tuple[list[Stream], list[tuple[int, Stream]]]) -> None:
    chosen, batches = run
    found = all_drains(len(chosen), batches, DESIGN)
    for place, stream in enumerate(chosen):
        assert sum(count for one in found for queue, count in one.taken if queue == place) == len(stream)
    if found and all(stream and stream[-1] == DONE for stream in chosen):
        assert [one.progress for one in found].count(Progress.DONE) == 1
        assert found[-1].progress is Progress.DONE
        assert found[-1].edge.ended


@given(runs())
def test_the_merged_watermarks_rise_and_are_those_of_the_merges(
    run: tuple[list[Stream], list[tuple[int, Stream]]],
) -> None:
    chosen, batches = run
    found = all_drains(len(chosen), batches, DESIGN)
    out = [item for one in found for item in one.out]
    merged = [item for one in found for merge in one.merges for item in merge.emitted]
    assert [item for item in out if not isinstance(item, Event)] == merged
    assert all(rising(watermarks(out, key)) for key in (0, 1))


@given(runs())
def test_an_event_on_time_on_its_queue_is_on_time_behind_the_edge(
    run: tuple[list[Stream], list[tuple[int, Stream]]],
) -> None:
    chosen, batches = run
    # Times that are on time: at the last watermark of the queue. Idleness is left out, which gives up this promise.
    active = [(place, timed(items, chosen[place])) for place, items in batches]
    passed = 0
    for one in all_drains(len(chosen), active, DESIGN):
        for item in one.out:
            if isinstance(item, Event):
                assert item.values[2] >= passed
            elif isinstance(item, Watermark) and item.key == 0:
                passed = item.value


def timed(items: Stream, stream: Stream) -> Stream:
    """The items without idle messages, events with the last watermark of key 0 before them on their stream."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, Event):
            before = watermarks(stream[: item.values[1]], 0)
            found.append(Event((*item.values, max(before, default=0))))
        elif item != IDLE:
            found.append(item)
    return tuple(found)


def drained_out(edge: EdgeStream) -> tuple[EdgeStream, list[list[Item]]]:
    """What each drain gives until none makes progress."""
    found: list[list[Item]] = []
    while (one := drain(edge)).progress in (Progress.MADE_PROGRESS, Progress.DONE):
        edge = one.edge
        found.append(list(one.out))
    return edge, found


def before_and_behind(terminal: bool, guarantee: Guarantee) -> list[Item]:
    barrier = Barrier(1, terminal)
    edge = EdgeStream.start(2, guarantee)
    edge = edge.push(0, [Event(("before", 0)), barrier, Event(("behind", 0)), Watermark(0, 9)])
    edge = edge.push(1, [Event(("before", 1)), Watermark(0, 3)])
    edge, first = drained_out(edge)
    _, second = drained_out(edge.push(1, [Event(("before", 1)), barrier, Event(("behind", 1))]))
    return [item for batch in (*first, *second) for item in batch]


@pytest.mark.parametrize(("terminal", "guarantee"), [(False, "exactly_once"), (True, "at_least_once"), (True, "none")])
def test_nothing_overtakes_a_barrier_that_queues_wait_for(terminal: bool, guarantee: Guarantee) -> None:
    items = before_and_behind(terminal, guarantee)
    barrier = items.index(Barrier(1, terminal))
    assert {item.values[0] for item in items[:barrier] if isinstance(item, Event)} == {"before"}
    assert {item.values[0] for item in items[barrier:] if isinstance(item, Event)} == {"behind"}


def test_at_least_once_lets_items_overtake_the_barrier_and_none_is_lost() -> None:
    items = before_and_behind(terminal=False, guarantee="at_least_once")
    assert items.index(Event(("behind", 0))) < items.index(BARRIER)
    assert sum(isinstance(item, Event) for item in items) == 5


def test_an_ended_queue_needs_no_barrier() -> None:
    edge = EdgeStream.start(2, "exactly_once").push(0, [BARRIER]).push(1, [DONE])
    assert drain(edge).out == (BARRIER,)


def test_another_barrier_while_one_is_under_way_is_refused() -> None:
    edge = drain(EdgeStream.start(2).push(0, [BARRIER])).edge
    with pytest.raises(ModelError, match="brings barrier 2 while 1 is under way"):
        drain(edge.push(1, [Barrier(2)]))


def test_nothing_can_be_pushed_where_there_is_no_queue() -> None:
    edge = drain(EdgeStream.start(2).push(0, [DONE])).edge
    with pytest.raises(ModelError, match="queue 0 has ended"):
        edge.push(0, [EVENT])
    with pytest.raises(ModelError, match="no queue 2, only 2"):
        edge.push(2, [EVENT])
    assert edge.sizes == (0, 0)
