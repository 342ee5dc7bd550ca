"""What a writer knows about its load without looking at it again: the earliest open, the last, the highest time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmlab.streams.model.segment import KeyRange, Segment
from wmlab.streams.scenario.parts import Clock
from wmlab.streams.sim.load import Backlog, Load, LocalClock, Routes

MANY = 10_000


def backlog(happens):
    load = Load.of(np.array(happens, np.int64), np.array(happens, np.int64), np.zeros(len(happens), np.uint64))
    # At 500 ms the clock is set back, so that later events have smaller times.
    return Backlog(load, LocalClock(0, Clock(), ((500, -400),)), start_ms=0, batch_ms=1)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=30), st.data())
def test_the_times_are_those_of_the_events_however_often_they_are_asked_for(happens, data):
    found = backlog(happens)
    sizes = sorted(data.draw(st.sets(st.integers(1, len(happens)))) | {0})
    taken = found.take(2_000)
    for begin, end in pairwise(sizes):
        found.acknowledge(taken[begin:end])
        if data.draw(st.booleans()):
            known = found.event_time[taken[:end]]
            assert (found.last_event_time, found.max_event_time) == (known[-1], known.max())
            open_events = found.event_time[end:]
            assert found.earliest_open(1_000) == (open_events[0] if len(open_events) else None)


def test_the_times_of_many_acknowledgements_are_kept_though_nobody_asks():
    found = backlog(np.arange(MANY))
    for event in found.take(MANY):
        found.acknowledge(np.array([event]))
    assert (found.last_event_time, found.max_event_time) == (MANY - 401, MANY - 401)
    assert found.earliest_open(MANY) is None


def test_without_events_nothing_is_known():
    empty = backlog([])
    assert (empty.clock.read(70), empty.earliest_open(70)) == (70, None)
    assert (empty.last_event_time, empty.max_event_time) == (None, None)


@pytest.mark.parametrize("segments", [1, 2, 3, 300])
def test_a_batch_is_split_by_key_and_keeps_its_order(segments):
    parts = [Segment(n, 0, KeyRange.parse(f"{n}/{segments}..{n + 1}/{segments}")) for n in range(segments)]
    keys = np.random.default_rng(1).integers(0, 2**64, 1_000, dtype=np.uint64)
    events = np.arange(5_000, 6_000)
    split = dict(Routes.of(parts).split(keys, events))
    assert list(split) == sorted(split)
    expected = [int(key) * segments >> 64 for key in keys]
    for segment_id, part in split.items():
        assert part.tolist() == [
            event for event, place in zip(events.tolist(), expected, strict=True) if place == segment_id
        ]
    assert sum(map(len, split.values())) == len(events)


def test_a_segment_that_is_reached_by_several_routes_gets_one_batch_in_order():
    left, right = (Segment(n, 0, KeyRange.parse(keys)) for n, keys in enumerate(("0..1/2", "1/2..1")))
    merged = Segment(2, 1, KeyRange.parse("0..1"))
    routes = Routes.of([left, right]).replace(0, [merged]).replace(1, [merged])
    keys = np.array([2**63 + 1, 5, 2**63 + 2, 7], np.uint64)
    ((segment_id, events),) = routes.split(keys, np.arange(4))
    assert (segment_id, events.tolist()) == (merged.id, [0, 1, 2, 3])
