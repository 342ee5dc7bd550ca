"""Two stages give the results of one, however the first stage is flushed in between."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataflow.model.driving import MODES, Driven, plain, rows
from tests.dataflow.model.test_window import HISTORIES, SHAPES
from wmlab.dataflow.model.aggregate import Aggregate
from wmlab.dataflow.model.deviations import deviations
from wmlab.dataflow.model.frames import WindowShape
from wmlab.dataflow.model.items import IDLE
from wmlab.dataflow.model.processor import InputIdle, JobFailedError
from wmlab.dataflow.model.window import CombineStage, FrameStage, Window, in_two_stages

AGGREGATES = (Aggregate("count"), Aggregate("avg", 0), Aggregate("min", 0), Aggregate("count", 0, distinct=True))


def a_window(shape: WindowShape, mode: str = "design", **options: object) -> Window:
    return Window(shape=shape, time=0, group=(1,), aggregates=AGGREGATES, deviations=deviations(mode), **options)


def send(second: Driven, items: list) -> list:
    found = []
    for item in items:
        found += second.wm(item[2], item[1]) if item[0] == "wm" else second.row(*item)
    return found


def test_partial_results_travel_as_rows() -> None:
    first, second = in_two_stages(a_window(WindowShape(4, 2)))
    frames = Driven(first)
    frames.row(1, "a")
    frames.row(2, "a")
    assert frames.size == 2
    assert frames.wm(2, key=1) == []
    assert frames.wm(2) == [(2, "a", 1, (1, 1), 1, (1,)), ("wm", 0, 2)]
    flushed = first.flush(frames.state)
    assert plain(flushed.out) == [(4, "a", 1, (2, 1), 2, (2,))]
    assert (first.size(flushed.state), first.flush(first.start()).out) == (0, ())
    combined = Driven(second)
    assert send(combined, frames.out + plain(flushed.out)) == [(-2, 2, "a", 1, 1.0, 1, 1), ("wm", 0, 2)]
    assert combined.size == 2
    assert combined.wm(9, key=1) == []
    assert combined.complete() == [(0, 4, "a", 2, 1.5, 1, 2), (2, 6, "a", 1, 2.0, 2, 1)]
    assert combined.complete() == []


def test_a_partial_result_belongs_to_the_frame_that_ends_at_or_after_it() -> None:
    second = Driven(CombineStage(shape=WindowShape(8, 4), aggregates=(Aggregate("list", 0, distinct=True),), groups=1))
    for frame, value in ((2, "a"), (4, "b"), (6, "c")):
        second.row(frame, "k", (value,))
    assert second.complete() == [(-4, 4, "k", ("a", "b")), (0, 8, "k", ("a", "b", "c")), (4, 12, "k", ("c",))]


def test_a_partial_result_for_a_closed_frame_is_dropped() -> None:
    second = Driven(CombineStage(shape=WindowShape(4, 4), aggregates=(Aggregate("count"),)))
    second.wm(8)
    second.row(8, 1)
    second.row(9, 1)
    assert [(drop.time, drop.limit) for drop in second.drops] == [(8, 9)]


def test_both_stages_keep_the_limit_and_restart() -> None:
    offered = ((1, "a"), (2, "a", 1, (1, 1), 1, (1,)))
    for stage, row in zip(in_two_stages(a_window(WindowShape(4, 2), limit=2)), offered, strict=True):
        driven = Driven(stage)
        driven.row(*row)
        with pytest.raises(JobFailedError, match="2 accumulators at a limit of 2"):
            driven.row(*(5, "a"), *row[2:])
        assert driven.restarted().state == driven.state
        assert stage.may_snapshot(driven.state)
        assert stage.restore([]) == stage.start()


@given(HISTORIES, SHAPES, st.sampled_from(MODES), st.sets(st.integers(0, 30)))
def test_two_stages_give_what_one_stage_gives(history: list, shape: WindowShape, mode: str, flushes: set[int]) -> None:
    window = a_window(shape, mode)
    one = Driven(window)
    stages = in_two_stages(window)
    first: Driven = Driven(stages[0])
    second: Driven = Driven(stages[1])
    assert (type(stages[0]), type(stages[1])) == (FrameStage, CombineStage)
    watermark = -15
    for place, stimulus in enumerate(history):
        if place in flushes:
            reply = stages[0].flush(first.state)
            first.state = reply.state
            send(second, plain(reply.out))
        if stimulus[0] == "wm":
            watermark += stimulus[1]
            one.wm(watermark)
            send(second, first.wm(watermark))
        else:
            one.row(*stimulus[1:])
            first.row(*stimulus[1:])
    one.complete()
    send(second, first.complete())
    second.complete()
    assert Counter(rows(second.out)) == Counter(rows(one.out))
    assert len(first.drops) == len(one.drops)
    assert second.drops == []


@pytest.mark.parametrize("mode", MODES)
def test_an_idle_first_stage_sends_what_it_holds_before_it_says_so(mode: str) -> None:
    first, _ = in_two_stages(a_window(WindowShape(4, 2), mode))
    frames = Driven(first)
    frames.row(3, "a")
    reply = first.step(frames.state, InputIdle())
    held = [(4, "a", 1, (3, 1), 3, (3,))] if mode == "design" else []
    assert plain(reply.out[:-1]) == held
    assert reply.out[-1] == IDLE
    assert first.size(reply.state) == (0 if mode == "design" else 1)
