from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from wmlab.core.charts import axis as ticks
from wmlab.core.words import is_instant

JAN_3_2014 = 1_388_707_200_000
DAY_MS = ticks.DAY_MS


def labels(axis: list[ticks.Tick]) -> list[str]:
    return [tick.label for tick in axis]


@pytest.mark.parametrize(
    ("span_ms", "words"),
    [
        (5_000, "Jan 3, 14:20:05.250"),
        (60_000, "Jan 3, 14:20:05"),
        (DAY_MS, "Jan 3, 14:20"),
        (400 * DAY_MS, "Jan 3 2014"),
    ],
)
def test_an_instant_is_as_fine_as_the_chart(span_ms: int, words: str) -> None:
    at_ms = JAN_3_2014 + 14 * ticks.HOUR_MS + 20 * ticks.MINUTE_MS + 5_250
    assert ticks.format_instant(at_ms, span_ms=span_ms) == words


@pytest.mark.parametrize(
    ("span_ms", "symbol"), [(900, "ms"), (60_000, "s"), (3_600_000, "min"), (86_400_000, "h"), (10**10, "d")]
)
def test_a_duration_axis_chooses_its_unit(span_ms: int, symbol: str) -> None:
    assert ticks.duration_unit(span_ms).symbol == symbol


def test_durations_have_ticks_at_tens_of_seconds_and_hours_of_a_clock() -> None:
    for high_ms, count, step_ms, step in ((60_000, 6, 10_000, 10), (DAY_MS, 8, DAY_MS // 8, 3)):
        shown = ticks.duration_ticks(0, high_ms, count=count, unit=ticks.duration_unit(high_ms))
        assert shown == [ticks.Tick(n * step_ms, str(n * step)) for n in range(high_ms // step_ms + 1)]


def test_instants_name_the_day_once() -> None:
    shown = ticks.instant_ticks(JAN_3_2014 + 14 * ticks.HOUR_MS, JAN_3_2014 + 44 * ticks.HOUR_MS, count=6)
    assert labels(shown) == ["Jan 3, 18:00", "Jan 4, 00:00", "06:00", "12:00", "18:00"]


def test_years_of_instants_have_ticks_at_months() -> None:
    shown = ticks.instant_ticks(JAN_3_2014, JAN_3_2014 + 700 * DAY_MS, count=4)
    assert labels(shown) == ["Jul 2014", "Jan 2015", "Jul 2015"]
    assert shown[1].value == 1_420_070_400_000


def test_numbers_are_short() -> None:
    assert labels(ticks.Numbers("events", 0, 30_000).ticks(3)) == ["0", "10k", "20k", "30k"]
    numbers = (-5, 950, -12_500, 3_000_000, 4_000_000_000)
    assert [ticks.format_number(value) for value in numbers] == ["−5", "950", "−12.5k", "3M", "4G"]


@pytest.mark.parametrize(
    ("values", "clock", "instant"),
    [
        ([0, 60_000], [], False),
        ([JAN_3_2014, None], [], True),
        ([0, JAN_3_2014], [], False),
        ([None], [], False),
        ([2**63 - 1], [], False),
        ([0, 60_000], [JAN_3_2014], True),
        ([-2_082_844_800_000, None], [JAN_3_2014, JAN_3_2014 + 60_000], True),
        ([0, 60_000], [0, 60_000], False),
        ([0, 60_000], [None], False),
        ([-(2**63)], [JAN_3_2014], False),
        ([2**63 - 1], [JAN_3_2014], False),
    ],
)
def test_times_since_1973_read_as_instants_and_next_to_a_clock_of_instants_any_time_of_the_calendar(
    values: list[int | None], clock: list[int | None], instant: bool
) -> None:
    assert is_instant(values, clock=clock) is instant
    assert ticks.time_axis("event time", values, clock=clock).instants is instant


def test_a_unit_scales_to_short_numbers() -> None:
    assert repr(ticks.duration_unit(60_000).scale(31_000)) == "31"
    assert ticks.duration_unit(60_000).scale(31_050) == 31.05
    assert ticks.duration_unit(DAY_MS).scale(13_980_360) == 3.883433


times = st.integers(-(10**12), 10**12)


@given(low=times, since=st.integers(-62_000_000_000_000, 10**13), span=st.integers(1, 10**12), count=st.integers(3, 10))
def test_ticks_are_few_ascending_and_inside(low: int, since: int, span: int, count: int) -> None:
    for begin, instants in ((low, False), (since, True)):
        axis = ticks.Axis("clock", begin, begin + span, instants, ticks.duration_unit(span))
        values = [tick.value for tick in axis.ticks(count)]
        assert values == sorted(set(values))
        assert len(values) <= count + 1
        assert all(begin <= value <= begin + span for value in values)


held = ticks.held
values_of = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=60)


@given(values_of, st.lists(st.integers(10**12, 2 * 10**12), max_size=5))
def test_an_axis_leaves_out_a_quarter_of_the_values_at_most_at_either_end(values: list[int], far: list[int]) -> None:
    known = sorted([*values, *far])
    low, high = ticks.shown_range([ticks.single(known)])
    inside = [value for value in known if low <= value <= high]
    assert (low, high) == (inside[0], inside[-1])
    assert known.index(low) <= len(known) // 4
    assert known[::-1].index(high) <= len(known) // 4
    if len(known) < 4:
        assert inside == known


def test_an_axis_leaves_out_only_what_would_squeeze_the_others() -> None:
    steady = list(range(0, 60_000, 1_000))

    def shown(*values: int | None) -> tuple[int, int]:
        return ticks.shown_range([ticks.single(values)])

    assert shown(*steady, 160_000) == (0, 160_000)
    assert shown(*steady, 10**12) == (0, 59_000)
    assert shown(-(10**12), None, *steady, 10**12) == (0, 59_000)
    # A third is not an exception.
    assert shown(*steady[:40], *[10**12] * 20) == (0, 10**12)
    # One value is as long as a second.
    assert shown(*[7] * 80, 4_000, 10**12) == (7, 4_000)
    assert shown() == (0, 1)


def test_a_turned_axis_has_the_same_ticks() -> None:
    axis = ticks.time_axis("lag", [0, 100_000])
    turned = axis.turned()
    assert (turned.low, turned.high, turned.title) == (100_000, 0, axis.title)
    assert turned.ticks(5) == axis.ticks(5)
    instants = ticks.time_axis("event time", [JAN_3_2014, JAN_3_2014 + 5_000])
    assert [instants.written(value) for value in (0, 2**60)] == ["Jan 1 1970", "13 343 998 895 d 21 h 54 min"]


def test_a_curve_counts_by_its_time_and_not_by_its_rows() -> None:
    begin = 1_704_067_200_000
    xs = list(range(0, 100_000, 1_000))
    steady = [begin + x for x in xs]
    away = [5 if 40 <= n < 63 else y for n, y in enumerate(steady)]
    assert ticks.shown_range([held(xs, away)]) == (steady[0], steady[-1])
    longer = [5 if 40 <= n < 67 else y for n, y in enumerate(steady)]
    assert ticks.shown_range([held(xs, longer)]) == (5, steady[-1])
    # Few rows, of which one holds for most of the time, and many rows that hold for no time.
    assert ticks.shown_range([held([0, 10, 12, 100_000], [begin, 5, begin + 7, begin + 9])]) == (begin, begin + 9)
    rows = [(x, y) for x, y in zip(xs, steady, strict=True)] + [(99_000, 5)] * 300
    assert ticks.shown_range([held(*zip(*rows, strict=True))]) == (steady[0], steady[-1])
    assert ticks.shown_range([held([0, 1], [None, None])]) == (0, 1)
    assert ticks.shown_range([held([5, 5], [3, 10**12])]) == (3, 10**12)


def test_a_line_that_grows_is_no_jump() -> None:
    stall = ticks.sloping([0, 95_000, 100_000], [1_000, 1_000, 6_000])
    assert ticks.shown_range([stall]) == (1_000, 1_000)
    assert ticks.shown_range([stall], least_ms=100_000) == (1_000, 6_000), "no stall is longer than the clock"
    jump = ticks.sloping([0, 90_000, 90_000, 99_000], [0, 1_000, 10**12, 10**12 + 10_000])
    assert ticks.shown_range([jump]) == (0, 1_000)


def test_the_other_curves_are_shown_where_they_leave_room() -> None:
    curve = held([0, 10_000, 20_000], [0, 10_000, 20_000])
    near, far = held([0, 10_000], [1_000, 30_000]), held([0, 10_000, 20_000], [5_000, 10**12, 10**12])
    assert ticks.shown_range([curve], [near, far]) == (0, 30_000)
    assert ticks.shown_range([curve, far]) == (0, 10**12)
    assert ticks.shown_range([[]], [near]) == (1_000, 1_000)
    assert ticks.shown_range([[]], [near], least_ms=10_000) == (1_000, 30_000)
    assert ticks.shown_range([]) == (0, 1)


@pytest.mark.parametrize(
    ("low", "high", "title", "labels"),
    [
        (0, 60_000, "lag (s)", ["0", "20", "40", "60"]),
        (19_723 * DAY_MS, 19_723 * DAY_MS + 3_600_000, "lag", ["19 723 d", "19 723 d 15 min", "19 723 d 30 min"]),
        (-19_723 * DAY_MS, -19_723 * DAY_MS + 60_000, "lag", ["−19 723 d", "−19 722 d 23 h 59 min 40 s"]),
        (19_723 * DAY_MS, 19_743 * DAY_MS, "lag (d)", ["19725", "19730", "19735", "19740"]),
    ],
)
def test_a_long_duration_has_its_units(low: int, high: int, title: str, labels: list[str]) -> None:
    axis = ticks.Axis("lag", low, high, False, ticks.duration_unit(high - low))
    assert axis.title == title
    assert [tick.label for tick in axis.ticks(4)][: len(labels)] == labels


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([53, 59_500], (0, 60_000)),
        ([0, 14_800], (0, 15_000)),
        ([2_000, 79_000], (0, 80_000)),
        ([0, 60_005], (0, 61_000)),
        ([5_788, 5_794], (5_788, 5_794)),
        ([-19_900, -100], (-20_000, 0)),
    ],
)
def test_a_clock_begins_and_ends_at_round_numbers_that_are_near(values: list[int], ends: tuple[int, int]) -> None:
    axis = ticks.time_axis("clock", values)
    assert (axis.low, axis.high) == ends
    assert axis.low <= min(values) <= max(values) <= axis.high


def test_ticks_are_rather_at_both_ends() -> None:
    for end_ms, step_ms in ((15_000, 5_000), (12_000, 2_000), (60_000, 10_000), (80_000, 10_000)):
        axis = ticks.time_axis("clock", [0, end_ms])
        assert [tick.value for tick in axis.ticks(8)] == [*range(0, end_ms + 1, step_ms)]
        assert axis.parts(8) == end_ms // step_ms
