"""Tumbling, sliding and session windows: edge cases that no vector has, and equality with a batch query; two stages
give the results of one, however the first stage is emptied in between."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from tests.dataflow.model.driving import RULES, Driven, rows
from wmlab.dataflow.model.aggregate import Aggregation
from wmlab.dataflow.model.items import MAX, MIN
from wmlab.dataflow.model.processor import JobFailedError, Reason
from wmlab.dataflow.model.window import (
    SessionProcessor,
    WindowProcessor,
    WindowShape,
)

COUNT = (Aggregation("count"),)
SEVERAL = (*COUNT, Aggregation("avg", 0), Aggregation("min", 0), Aggregation("count", 0, distinct=True))
SETS = st.sampled_from(["sound", "implementation"])
SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(lambda pair: WindowShape(pair[0] * pair[1], pair[0]))
ROWS = st.tuples(st.just("row"), st.integers(-12, 30), st.sampled_from("ab"))
HISTORIES = st.lists(st.one_of(ROWS, st.tuples(st.just("wm"), st.integers(1, 12))), max_size=30)


def rule(size: int, slide: int, rules: str = "sound", **options: object) -> WindowProcessor:
    """Aggregates of rows (time, group)."""
    given_options = {"group": (1,), "aggregates": COUNT, "deviations": RULES[rules], **options}
    return WindowProcessor(shape=WindowShape(size, slide), time=0, **given_options)


def window(size: int, slide: int, rules: str = "sound", **options: object) -> Driven:
    return Driven(rule(size, slide, rules, **options))


def sessions(timeout: int = 10, **options: object) -> Driven:
    """Counts of rows (time, group)."""
    given_options = {"group": (1,), "aggregates": COUNT, **options}
    return Driven(SessionProcessor(timeout=timeout, time=0, **given_options))


def test_edge_case_28_a_gap_of_a_thousand_frames_is_skipped() -> None:
    driven = window(1, 1)
    driven.rows((0, "a"), (1_000, "a"))
    state, shape = driven.state, driven.processor.shape
    assert list(state.ends(shape, 1_001)) == [1, 1_001]


def test_edge_case_29_only_one_key_drives_windows_and_sessions(rules: str) -> None:
    for driven, end in ((window(4, 4, rules, key=1), 4), (sessions(key=1), 10)):
        driven.row(0, "a")
        assert driven.wm(100, key=0) == []
        assert driven.wm(50, key=1) == [(0, end, "a", 1), ("wm", 1, 50)]


def test_edge_case_30_the_state_limit_fails_when_the_count_would_reach_it(rules: str) -> None:
    driven = window(4, 2, rules, limit=3)
    driven.rows((0, "a"), (0, "b"), (1, "b"))
    assert driven.size == 2
    with pytest.raises(JobFailedError, match="3 accumulators at a limit of 3") as failure:
        driven.row(2, "a")
    assert failure.value.reason == Reason.LIMIT_EXCEEDED


def test_edge_case_31_a_lower_watermark_after_a_restart_opens_windows_again(rules: str) -> None:
    driven = window(4, 4, rules)
    driven.row(1, "a")
    before = driven.processor.snapshot()
    assert driven.wm(4) == [(0, 4, "a", 1), ("wm", 0, 4)]
    again = driven.restarted(rule(4, 4, rules), others=[before])
    assert again.wm(2) == [("wm", 0, 2)]
    again.row(3, "a")
    assert again.drops == []
    assert again.wm(4) == [(0, 4, "a", 1), ("wm", 0, 4)]


def test_windows_after_a_watermark_that_goes_back_without_a_restart(rules: str) -> None:
    driven = window(4, 4, rules)
    driven.wm(9)
    driven.wm(3)
    driven.row(3, "a")
    assert driven.wm(4) == [(0, 4, "a", 1), ("wm", 0, 4)]


def test_a_frame_that_a_restart_moves_beyond_64_bits_is_refused_as_a_row_there(rules: str) -> None:
    driven = window(1, 1, rules)
    driven.row(MAX - 1, "a")
    assert driven.restarted(rule(1, 1, rules)).complete() == [(MAX - 1, MAX, "a", 1)]
    with pytest.raises(JobFailedError, match=rf"into the window \[{MAX - 7}, {MAX + 3}\)") as failure:
        driven.restarted(rule(10, 10, rules))
    assert failure.value.reason == Reason.BEYOND_64_BITS


def test_after_a_last_watermark_no_window_is_open_on_another_grid(rules: str) -> None:
    driven = window(1, 1, rules)
    driven.wm(MAX)
    again = driven.restarted(rule(10, 10, rules))
    again.row(MAX - 8, "a")
    assert [drop.time for drop in again.drops] == [MAX - 8]


def test_a_restart_of_sessions_takes_its_own_and_the_lowest_watermark() -> None:
    driven, other = sessions(), sessions()
    driven.row(20, "a")
    driven.wm(12)
    other.row(3, "b")
    other.wm(2)
    again = driven.restarted(sessions().processor, others=[other.state])
    again.row(2, "a")
    assert again.drops == []
    assert again.complete() == [(2, 12, "a", 1), (20, 30, "a", 1)]


@pytest.mark.parametrize(
    ("time", "last"), [(MIN + 2, MIN + 6), (MIN + 3, MIN + 6), (MAX - 4, MAX - 1), (MAX - 5, MAX - 1)]
)
def test_windows_that_just_fit_between_the_ends_are_counted(time: int, last: int) -> None:
    driven = window(4, 2)
    driven.row(time, "a")
    assert driven.complete() == [(last - 6, last - 2, "a", 1), (last - 4, last, "a", 1)]


@pytest.mark.parametrize(
    ("driven", "time", "span"),
    [
        (window(4, 2), MIN + 1, (MIN - 2, MIN + 2)),
        (window(4, 2), MAX - 3, (MAX - 3, MAX + 1)),
        (window(5, 5), MIN, (MIN - 2, MIN + 3)),
        (window(5, 5), MAX, (MAX - 2, MAX + 3)),
        (sessions(10), MAX - 9, (MAX - 9, MAX + 1)),
    ],
)
def test_a_row_whose_window_reaches_beyond_64_bits_is_refused(driven: Driven, time: int, span: tuple[int, int]) -> None:
    with pytest.raises(JobFailedError) as refused:
        driven.row(time, "a")
    assert refused.value.reason is Reason.BEYOND_64_BITS
    start, end = span
    window_text = f"[{start}, {end})"
    assert refused.value.problem == (
        f"The row ({time}, 'a') at the time {time} belongs to the window {window_text}, which reaches beyond 64 bits."
    )
    assert "less than" in refused.value.remedy


def test_sessions_at_the_ends_keep_their_bounds() -> None:
    driven = sessions(10)
    driven.rows((MIN, "a"), (MAX - 10, "a"))
    assert driven.complete() == [(MIN, MIN + 10, "a", 1), (MAX - 10, MAX, "a", 1)]


def test_a_late_row_is_dropped_whatever_its_windows() -> None:
    driven = window(4, 2)
    driven.wm(MAX - 4)
    driven.rows((MIN, "a"), (MAX - 6, "a"))
    assert [(drop.time, drop.limit) for drop in driven.drops] == [(MIN, MAX - 5), (MAX - 6, MAX - 5)]


def batch(taken: list[tuple[int, str]], shape: WindowShape) -> Counter:
    """Rows (start, end, group, count) as a group-by over all windows of every row."""
    counts = Counter((span, group) for time, group in taken for span in shape.windows_of(time))
    return Counter((*span, group, count) for (span, group), count in counts.items())


def batch_of_sessions(taken: list[tuple[int, str]], timeout: int) -> Counter:
    """Sessions as a scan over the sorted times of every group finds them."""
    spans: Counter = Counter()
    for group in "ab":
        times = sorted(time for time, other in taken if other == group)
        gaps = [0, *(n for n in range(1, len(times)) if times[n] - times[n - 1] >= timeout), len(times)]
        for low, high in itertools.pairwise(gaps):
            if high > low:
                spans[times[low], times[high - 1] + timeout, group, high - low] += 1
    return spans


def play(driven: Driven, history: list) -> list[tuple[int, str]]:
    """Plays a history and ends it; the rows that were not dropped. Rows on time must not be."""
    watermark, taken = -15, []
    for kind, *stimulus in history:
        if kind == "wm":
            watermark += stimulus[0]
            driven.wm(watermark)
            continue
        dropped = len(driven.drops)
        driven.row(*stimulus)
        if len(driven.drops) == dropped:
            taken.append(tuple(stimulus))
        else:
            assert stimulus[0] < watermark
            assert driven.drops[-1].time < driven.drops[-1].limit
    driven.complete()
    return taken


@given(HISTORIES, SHAPES, SETS)
def test_windows_equal_a_batch_group_by_over_the_rows_taken(history: list, shape: WindowShape, rules: str) -> None:
    driven = window(shape.size, shape.slide, rules)
    assert batch(play(driven, history), shape) == Counter(rows(driven.out))
    assert driven.size == 0


@given(HISTORIES, st.integers(1, 8))
def test_sessions_equal_a_batch_query_and_are_not_touched_after_they_left(history: list, timeout: int) -> None:
    driven = sessions(timeout)
    assert batch_of_sessions(play(driven, history), timeout) == Counter(rows(driven.out))


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
        outs.add((*driven.rows(*order), *driven.wm(5), *driven.complete()))
    assert len(outs) == 1
