"""Edge cases of sources that no vector of `tests/conformance` has, each in both modes, and what always holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.dataflow.model.driving import RULES
from tests.dataflow.model.histories import rising, watermarks
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import IDLE_MESSAGE, MAX, MIN, FrameGrid, Item, Watermark
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag, RealTimeLag


class Source:
    """A source and what left it."""

    def __init__(self, rules: str, partitions: int = 1, *, lag: int = 0, policy: Any = None, **options: Any) -> None:
        self.mapper = EventTimeMapper(policy=policy or FixedLag(lag), deviations=RULES[rules], **options)
        self.state = self.mapper.start(partitions)

    def event(self, time: int, partition: int = 0, now_ms: int = 0) -> list[Item]:
        """What leaves by a row of this time, with the row."""
        return [*self.mapper.report(self.state, partition=partition, time=time, now_ms=now_ms), (time,)]

    def tick(self, now_ms: int) -> list[Item]:
        return [*self.mapper.tick(self.state, now_ms=now_ms)]


def wm(value: int) -> Watermark:
    return Watermark(0, value)


def test_edge_case_16_a_partition_without_data_blocks_until_the_timeout(rules: str) -> None:
    source = Source(rules, 2, lag=3, idle_timeout_ms=10)
    assert source.event(10) == [(10,)]
    assert source.state.next_deadline_ms(now_ms=0) == 10
    assert source.tick(9) == []
    assert source.tick(10) == [wm(7), IDLE_MESSAGE]
    assert source.state.next_deadline_ms(now_ms=10) is None


def test_edge_case_16_without_a_timeout_it_blocks_for_ever_and_the_shortest_is_a_millisecond(rules: str) -> None:
    source = Source(rules, 2, lag=3, idle_timeout_ms=None)
    assert source.event(10) == [(10,)]
    assert source.tick(10**12) == []
    assert source.state.next_deadline_ms(now_ms=0) is None
    shortest = Source(rules, idle_timeout_ms=1)
    assert (shortest.tick(0), shortest.tick(1)) == ([], [IDLE_MESSAGE])


def test_edge_case_19_a_policy_ahead_of_the_event_is_capped_at_its_time(rules: str) -> None:
    source = Source(rules, policy=RealTimeLag(5))
    assert source.event(990, now_ms=1_000) == [wm(990), (990,)]
    assert source.event(980, now_ms=1_001) == [(980,)]
    assert source.tick(1_002) == [wm(997)]


def test_edge_case_20_a_throttle_sends_only_what_lies_on_its_grid(rules: str) -> None:
    for frames, sent in (
        (FrameGrid(1), list(range(7, 37))),
        (FrameGrid(10), [0, 10, 20, 30]),
        (FrameGrid(10, offset=3), [3, 13, 23, 33]),
        (None, []),
    ):
        source = Source(rules, lag=3, frames=frames)
        assert watermarks([item for time in range(10, 40) for item in source.event(time)], 0) == sent
    silent = Source(rules, frames=None, idle_timeout_ms=5)
    assert silent.event(10) + silent.tick(5) == [(10,), IDLE_MESSAGE]


@pytest.mark.parametrize("time", [MIN, MIN + 1, -5, 0, MAX - 1, MAX])
@pytest.mark.parametrize("lag", [0, 7, 2**62, 2**63])
def test_edge_case_22_the_ends_of_time_do_not_wrap_around(rules: str, time: int, lag: int) -> None:
    source = Source(rules, lag=lag, frames=FrameGrid(4, 3))
    items = source.event(time)
    floor = FrameGrid(4, 3).floor(time - lag) if time - lag > MIN else MIN
    assert watermarks(items, 0) == ([floor] if MIN < floor < MAX else [])
    assert items[-1] == (time,)


def test_edge_case_23_the_first_watermark_exceeds_the_lowest_restored_one(rules: str) -> None:
    source = Source(rules, 2)
    source.mapper.restore(source.state, {0: 10, 1: 14})
    assert source.state.marks() == [10, 14]
    assert source.event(9) == [(9,)]
    assert source.event(10) == [(10,)]
    assert source.event(11) == [wm(11), (11,)]
    assert source.event(20) == [wm(14), (20,)]


def test_edge_case_23_a_partition_that_had_none_begins_again(rules: str) -> None:
    source = Source(rules, 2)
    source.mapper.restore(source.state, {0: 10, 1: None})
    assert source.state.last == MIN
    assert source.event(3, partition=1) == [wm(3), (3,)]


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 50), st.integers(0, 8)), max_size=30)


@pytest.mark.parametrize("policy", [FixedLag(4), RealTimeLag(2)])
@given(steps=STEPS, size=st.integers(1, 6), idle_ms=st.sampled_from([3, 20]))
def test_watermarks_rise_on_the_grid_and_make_no_event_late_that_was_on_time_on_its_partition(
    policy: Any, steps: list[tuple[int, int, int]], size: int, idle_ms: int
) -> None:
    source = Source("sound", 3, policy=policy, frames=FrameGrid(size), idle_timeout_ms=idle_ms)
    now, left, idle = -40, [], False
    for partition, time, pause in steps:
        now += pause
        if partition == 3:
            items = source.tick(now)
            assert not (idle and IDLE_MESSAGE in items), "an idle message leaves once until an event comes"
        else:
            own = source.state.partitions[partition].mark
            items = source.event(time, partition, now)
            assert all(mark <= max(time, own) for mark in watermarks(items, 0))
            assert items[-1] == (time,)
        idle = IDLE_MESSAGE in items or (idle and partition == 3)
        left += items
    assert rising(watermarks(left, 0))
    assert all(mark % size == 0 for mark in watermarks(left, 0))


@given(st.integers(MIN, MAX), st.integers(1, 2**40), st.data())
def test_a_grid_is_exact(time: int, size: int, data: st.DataObject) -> None:
    frames = FrameGrid(size, data.draw(st.integers(0, size - 1)))
    below, above = frames.floor(time), frames.higher(time)
    assert below == MIN or (below - frames.offset) % size == 0
    assert above == MAX or (above - frames.offset) % size == 0
    assert below <= time < above or time == above == MAX
    assert time - below < size
    assert above - time <= size


@pytest.mark.parametrize(
    ("size", "offset", "says"),
    [(0, 0, "frame size 0 is not positive"), (4, 4, "frame offset 4 is not within a frame of 4")],
)
def test_a_grid_that_cannot_be_is_refused(size: int, offset: int, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        FrameGrid(size, offset)
