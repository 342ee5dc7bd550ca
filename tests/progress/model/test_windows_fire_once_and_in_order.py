"""Slices, and windows that fire once, in order, and never before their time."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from wmlab.progress.model.windows import Fired, Firing, FiringRules, Late, SlidingWindows

SHAPES = st.builds(SlidingWindows, st.integers(1, 12), st.integers(1, 12))
TIMES = st.lists(st.integers(0, 60), max_size=12)


@given(SHAPES, st.integers(0, 80))
def test_a_slice_lies_in_the_same_windows_from_end_to_end(windows: SlidingWindows, time: int) -> None:
    start, end = windows.slice_of(time)
    assert start <= time < end
    for within in range(start, end):
        assert windows.slice_of(within) == (start, end)
        assert windows.windows_of(within) == windows.windows_of(time)
    assert windows.slice_of(end)[0] == end
    assert start == 0 or windows.slice_of(start - 1)[1] == start


@given(SHAPES, st.integers(0, 80))
def test_a_record_is_in_exactly_the_windows_that_hold_it(windows: SlidingWindows, time: int) -> None:
    held = [k for k in range(100) if windows.span(k)[0] <= time < windows.span(k)[1]]
    assert list(windows.windows_of(time)) == held


@given(SHAPES, st.integers(-3, 80))
def test_windows_that_end_before_a_time_are_counted(windows: SlidingWindows, time: int) -> None:
    assert windows.ended_before(time) == sum(windows.span(k)[1] < time for k in range(100))


@st.composite
def arrivals(draw) -> list[tuple[list[int], int]]:
    """Buffers of records and the watermark after each, which never falls and promises nothing it does not keep."""
    buffers = draw(st.lists(TIMES, max_size=6))
    found, low = [], 0
    for place, times in enumerate(buffers):
        still = [time for later in buffers[place + 1 :] for time in later]
        low = max(low, draw(st.integers(0, min(still, default=90))))
        found.append((times, low))
    return found


def play(rules: FiringRules, steps) -> tuple[list[Fired], list[Late], list[int]]:
    """All that fires up to the end, all late records, and the watermark at which each window fired."""
    state, fired, late, at = Firing(rules), [], [], []
    for times, watermark in steps:
        missed, now = state.fill(times), state.advance(watermark)
        fired, late, at = [*fired, *now], [*late, *missed], [*at, *[watermark] * len(now)]
    return [*fired, *state.end()], late, at


@given(SHAPES, arrivals(), st.sampled_from(["strict", "exact"]), st.integers(0, 30))
@example(SlidingWindows(10, 10), [([5], 10)], "exact", 0)
@example(SlidingWindows(10, 10), [([5], 10)], "strict", 0)
def test_each_window_with_a_record_fires_once_in_order_of_end(windows, steps, trigger, lag) -> None:
    fired, late, at = play(FiringRules(windows=windows, trigger=trigger, emit_lag=lag), steps)
    times = [time for buffer, _ in steps for time in buffer]
    wanted, marks = [], []
    for number, k in enumerate(sorted({k for time in times for k in windows.windows_of(time)}), 1):
        start, end = windows.span(k)
        passed = [mark for _, mark in steps if end < mark - lag or (trigger == "exact" and end == mark - lag)]
        cause = "watermark" if passed else "end of stream"
        wanted.append(Fired(number, start, end, sum(start <= time < end for time in times), cause))
        marks += passed[:1]
    assert (fired, late, at) == (wanted, [], marks)


def test_a_late_record_still_counts_in_windows_that_are_open() -> None:
    state = Firing(FiringRules(windows=SlidingWindows(10, 5)))
    state.fill([6])
    state.advance(11)
    assert state.fill([7]) == (Late(7, 0, 10, 1),)
    assert [(f.start, f.records) for f in state.end()] == [(5, 2)]
    assert state.slices == {}


def test_a_record_after_the_end_is_late() -> None:
    state = Firing(FiringRules(windows=SlidingWindows(10, 10)))
    state.end()
    assert state.fill([100]) == (Late(100, 100, 110, 1),)


@given(SHAPES, st.lists(st.tuples(TIMES, st.integers(0, 70)), max_size=5))
def test_no_window_ever_fires_twice(windows, steps) -> None:
    fired, _, _ = play(FiringRules(windows=windows), steps)
    assert len({f.start for f in fired}) == len(fired)
