"""Tumbling and sliding windows: edge cases 24 to 26 and 28 to 31, and equality with a batch query."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataflow.model.driving import MODES, Driven, rows
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.aggregate import Aggregate
from wmlab.dataflow.model.deviations import DESIGN, deviations
from wmlab.dataflow.model.frames import WindowShape
from wmlab.dataflow.model.items import MAX, MIN, Event
from wmlab.dataflow.model.processor import Drop, JobFailedError, Reason
from wmlab.dataflow.model.window import Window

MODE = pytest.mark.parametrize("mode", MODES)
COUNT = (Aggregate("count"),)


def window(size: int, slide: int, mode: str = "design", **options: object) -> Driven:
    """Counts of rows (time, group)."""
    given_options = {"group": (1,), "aggregates": COUNT, "deviations": deviations(mode), **options}
    return Driven(Window(shape=WindowShape(size, slide), time=0, **given_options))


@MODE
def test_edge_case_24_lateness_goes_by_frames(mode: str) -> None:
    driven = window(4, 4, mode)
    assert driven.wm(5) == [("wm", 0, 5)]
    driven.row(4, "a")
    assert driven.drops == []
    driven.row(3, "a")
    assert driven.drops == [Drop(0, Event((3, "a")), "window", 0, 3, 4)]
    assert driven.wm(8) == [(4, 8, "a", 1), ("wm", 0, 8)]


@MODE
def test_edge_case_25_a_partly_late_row_is_dropped_for_all_windows(mode: str) -> None:
    strict, lenient = window(4, 2, mode), window(4, 2, mode, partly_late="count")
    for driven in (strict, lenient):
        driven.row(3, "a")
        driven.wm(4)
        driven.row(2, "a")
        driven.row(1, "a")
    assert [drop.time for drop in strict.drops] == [2, 1]
    assert [drop.time for drop in lenient.drops] == [1]
    assert {drop.limit for drop in strict.drops} == {4}
    assert {drop.limit for drop in lenient.drops} == {2}
    assert strict.complete() == [(2, 6, "a", 1)]
    assert lenient.complete() == [(2, 6, "a", 2)]


@MODE
def test_edge_case_26_a_window_closes_exactly_at_its_end(mode: str) -> None:
    driven = window(10, 10, mode)
    driven.row(0, "a")
    assert driven.wm(9) == [("wm", 0, 9)]
    assert driven.wm(10) == [(0, 10, "a", 1), ("wm", 0, 10)]


@MODE
def test_edge_case_28_a_gap_changes_no_row(mode: str) -> None:
    driven = window(4, 2, mode)
    driven.row(0, "a")
    driven.row(100_000, "a")
    assert rows(driven.wm(100_100)) == [
        (-2, 2, "a", 1),
        (0, 4, "a", 1),
        (99_998, 100_002, "a", 1),
        (100_000, 100_004, "a", 1),
    ]


def test_edge_case_28_a_gap_of_a_million_frames_is_skipped_or_visited() -> None:
    driven = window(1, 1)
    driven.row(0, "a")
    driven.row(1_000_000, "a")
    state, shape = driven.state, driven.processor.shape
    skipping = list(state.ends(shape, 1_000_001))
    visiting = state.ends(shape, 1_000_001, every=True)
    assert skipping == [1, 1_000_001]
    assert sum(1 for _ in visiting) == 1_000_001


@MODE
def test_edge_case_29_only_one_key_drives_the_windows(mode: str) -> None:
    driven = window(4, 4, mode, key=1)
    driven.row(0, "a")
    assert driven.wm(100, key=0) == []
    assert driven.wm(4, key=1) == [(0, 4, "a", 1), ("wm", 1, 4)]


@MODE
def test_edge_case_30_the_state_limit_fails_when_the_count_would_reach_it(mode: str) -> None:
    driven = window(4, 2, mode, limit=3)
    driven.row(0, "a")
    driven.row(0, "b")
    driven.row(1, "b")
    assert driven.size == 2
    with pytest.raises(JobFailedError, match="3 accumulators at a limit of 3") as failure:
        driven.row(2, "a")
    assert failure.value.reason == Reason.LIMIT_EXCEEDED


def test_edge_case_30_the_state_limit_fails_when_exceeded_with_the_option() -> None:
    driven = window(4, 2, limit=3, deviations=replace(DESIGN, limit_when_exceeded=True))
    for group in "abc":
        driven.row(0, group)
    with pytest.raises(JobFailedError, match="4 accumulators at a limit of 3"):
        driven.row(0, "d")


@MODE
def test_edge_case_31_a_lower_watermark_after_a_restart_opens_windows_again(mode: str) -> None:
    driven = window(4, 4, mode)
    driven.row(1, "a")
    before = driven.state
    assert driven.wm(4) == [(0, 4, "a", 1), ("wm", 0, 4)]
    again = driven.restarted(others=[before])
    assert again.wm(2) == [("wm", 0, 2)]
    again.row(3, "a")
    assert again.drops == []
    assert again.wm(4) == [(0, 4, "a", 1), ("wm", 0, 4)]


@MODE
def test_windows_after_a_watermark_that_goes_back_without_a_restart(mode: str) -> None:
    driven = window(4, 4, mode)
    driven.wm(9)
    driven.wm(3)
    driven.row(3, "a")
    assert driven.wm(4) == [(0, 4, "a", 1), ("wm", 0, 4)]


def test_a_restart_with_another_slide_moves_frames_up_and_forgets_old_ones() -> None:
    driven = window(4, 2)
    for time in (0, 2, 4):
        driven.row(time, "a")
    wider = replace(driven.processor, shape=WindowShape(6, 3))
    assert driven.restarted(wider).complete() == [(-3, 3, "a", 1), (0, 6, "a", 3), (3, 9, "a", 2)]
    driven.wm(5)
    shorter = replace(driven.processor, shape=WindowShape(2, 2))
    assert driven.restarted(shorter).complete() == [(4, 6, "a", 1)]


def test_several_aggregations_without_a_group() -> None:
    aggregates = (Aggregate("sum", 1), Aggregate("max", 1), Aggregate("list", 1))
    driven = window(2, 2, group=(), aggregates=aggregates)
    driven.row(0, 3)
    driven.row(1, 4)
    assert driven.complete() == [(0, 2, 7, 4, (3, 4))]
    assert driven.size == 0


def test_an_instance_without_snapshots_starts_anew() -> None:
    driven = window(2, 2)
    assert driven.processor.restore([]) == driven.processor.start()
    assert driven.processor.may_snapshot(driven.state)


@pytest.mark.parametrize(("size", "slide"), [(4, 0), (2, 4), (5, 2), (-4, -2)])
def test_a_window_is_a_number_of_frames(size: int, slide: int) -> None:
    with pytest.raises(ModelError, match="No window has size"):
        WindowShape(size, slide)


@pytest.mark.parametrize("time", [MIN, MIN + 1, MAX, MAX - 1])
def test_times_at_the_ends_are_counted_somewhere(time: int) -> None:
    driven = window(4, 2)
    driven.row(time, "a")
    assert Counter(row[2] for row in driven.complete()) == {"a": 2}


SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(lambda pair: WindowShape(pair[0] * pair[1], pair[0]))
HISTORIES = st.lists(
    st.one_of(
        st.tuples(st.just("row"), st.integers(-12, 30), st.sampled_from("ab")),
        st.tuples(st.just("wm"), st.integers(1, 12)),
    ),
    max_size=30,
)


def batch(taken: list[tuple[int, str]], shape: WindowShape) -> Counter:
    """Rows (start, end, group, count) as a group-by over all windows of every row."""
    counts = Counter((span, group) for time, group in taken for span in shape.windows_of(time))
    return Counter((*span, group, count) for (span, group), count in counts.items())


def play(driven: Driven, history: list) -> list[tuple[int, str]]:
    """Plays a history and ends it; the rows that were not dropped. Rows on time must not be."""
    watermark, taken = -15, []
    for stimulus in history:
        if stimulus[0] == "wm":
            watermark += stimulus[1]
            driven.wm(watermark)
            continue
        dropped = len(driven.drops)
        driven.row(*stimulus[1:])
        if len(driven.drops) == dropped:
            taken.append(stimulus[1:])
        else:
            assert stimulus[1] < watermark
            assert driven.drops[-1].margin > 0
    driven.complete()
    return taken


@given(HISTORIES, SHAPES, st.sampled_from(MODES))
def test_windows_equal_a_batch_group_by_over_the_rows_taken(history: list, shape: WindowShape, mode: str) -> None:
    driven = window(shape.size, shape.slide, mode)
    taken = play(driven, history)
    assert Counter(rows(driven.out)) == batch(taken, shape)
    assert driven.size == 0


@given(HISTORIES, SHAPES)
def test_skipping_gaps_gives_what_visiting_every_boundary_gives(history: list, shape: WindowShape) -> None:
    skipping = window(shape.size, shape.slide)
    visiting = window(shape.size, shape.slide, deviations=replace(DESIGN, every_boundary=True))
    play(skipping, history)
    play(visiting, history)
    assert skipping.out == visiting.out
    assert skipping.state == visiting.state


@given(HISTORIES, SHAPES)
def test_no_result_is_below_the_watermark_before_it(history: list, shape: WindowShape) -> None:
    driven = window(shape.size, shape.slide)
    play(driven, history)
    watermark = MIN
    for item in driven.out:
        if item[0] == "wm":
            watermark = item[2]
        else:
            assert item[1] >= watermark


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab")), max_size=5), SHAPES)
def test_the_order_of_rows_does_not_matter(taken: list, shape: WindowShape) -> None:
    outs = set()
    for order in itertools.permutations(taken):
        driven = window(shape.size, shape.slide)
        outs.add(tuple(itertools.chain(*(driven.row(*row) for row in order), driven.wm(5), driven.complete())))
    assert len(outs) == 1
