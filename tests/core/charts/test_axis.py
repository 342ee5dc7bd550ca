from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


values_of = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=60)


@given(values_of, st.lists(st.integers(10**12, 2 * 10**12), max_size=5))
def test_a_bulk_is_a_range_of_the_values_that_has_their_middle_half(values: list[int], far: list[int]) -> None:
    known = sorted([*values, *far])
    low, high = ticks.bulk(known)
    inside = [value for value in known if low <= value <= high]
    assert low == inside[0]
    assert high == inside[-1]
    assert len(inside) >= len(known) - 2 * (-(-(len(known) - 1) // 4))
    beyond = [value for value in known if not low <= value <= high]
    last = len(known) - 1
    middle = known[-(-last // 4) : 3 * last // 4 + 1] or [0]
    assert all(max(high, value) - min(low, value) > 10 * (middle[-1] - middle[0]) for value in beyond)


def test_an_axis_is_over_the_bulk_only_where_far_values_would_squeeze_it() -> None:
    steady = list(range(0, 60_000, 1_000))
    assert ticks.bulk([*steady, 300_000]) == (0, 300_000)
    assert ticks.bulk([*steady, 10**12]) == (0, 59_000)
    assert ticks.bulk([-(10**12), None, *steady, 10**12]) == (0, 59_000)
    # A tail without a gap is not far, however long it is.
    assert ticks.bulk([*steady, *range(60_000, 2_000_000, 50_000)]) == (0, 1_960_000)
    # A third is no exception, and neither is a quarter on one side.
    assert ticks.bulk([*steady[:20], *[10**12] * 10]) == (0, 10**12)
    assert ticks.bulk([*steady[:30], *[10**12 + n for n in range(9)]]) == (0, 29_000)
    # One value is a line on any axis: only a few others leave it.
    assert ticks.bulk([7] * 80 + list(range(0, 3_600_000, 180_000))) == (0, 3_420_000)
    assert ticks.bulk([7] * 80 + [10**12, 10**12 + 5]) == (7, 7)
    assert ticks.bulk([]) == (0, 1)


def test_what_lies_beyond_an_axis_stands_at_its_rim_and_is_said() -> None:
    axis = ticks.time_axis("lag", [0, 100_000])
    assert [axis.at_rim(value) for value in (None, 5, 10**9, -(10**9))] == [None, 5, 98_000, 2_000]
    turned = axis.turned()
    assert (turned.low, turned.high, turned.at_rim(10**9)) == (100_000, 0, 98_000)
    assert turned.ticks(5) == axis.ticks(5)
    assert axis.said_beyond({"record": [5, None, -(10**7), 10**9], "lag": [10**6]}) == (
        "Beyond the axis: 2 records, down to −2 h 46 min and up to 11 d 13 h; 1 lag, up to 16 min 40 s."
    )
    instants = ticks.time_axis("event time", [JAN_3_2014, JAN_3_2014 + 5_000])
    said = instants.said_beyond({"event": [0, JAN_3_2014, 2**60]})
    assert said == "Beyond the axis: 2 events, down to Jan 1 1970 and up to 13 343 998 895 d 21 h."
    assert instants.turned().title == instants.title


OverTime = ticks.OverTime


def test_a_curve_counts_by_its_time_and_not_by_its_rows() -> None:
    begin = 1_704_067_200_000
    xs = list(range(0, 100_000, 1_000))
    steady = [begin + x for x in xs]
    away = [5 if 40 <= n < 60 else y for n, y in enumerate(steady)]
    assert ticks.bulk(OverTime.steps(xs, away)) == (steady[0], steady[-1])
    half = [5 if 20 <= n < 70 else y for n, y in enumerate(steady)]
    assert ticks.bulk(OverTime.steps(xs, half)) == (5, steady[-1])
    # Few rows, of which one holds for most of the time, and many rows that hold for no time.
    assert ticks.bulk(OverTime.steps([0, 10, 70_000, 100_000], [begin, 5, begin + 7, begin + 9])) == (5, begin + 9)
    assert ticks.bulk(OverTime.steps([0, 10, 12, 100_000], [begin, 5, begin + 7, begin + 9])) == (begin, begin + 9)
    rows = [(x, y) for x, y in zip(xs, steady, strict=True)] + [(99_000, 5)] * 300
    assert ticks.bulk(OverTime.steps(*zip(*rows, strict=True))) == (steady[0], steady[-1])
    assert ticks.bulk(OverTime.steps([0, 1], [None, None])) == (0, 1)
    assert ticks.bulk(OverTime.steps([5, 5], [3, 10**12])) == (3, 10**12)


def test_a_line_that_grows_is_no_jump() -> None:
    stall = OverTime.line([0, 90_000, 90_000, 100_000], [0, 1_000, 1_000, 600_000])
    assert ticks.bulk(stall) == (0, 600_000)
    jump = OverTime.line([0, 90_000, 90_000, 100_000], [0, 1_000, 10**12, 10**12 + 10_000])
    assert ticks.bulk(jump) == (0, 1_000)
    assert jump.outside(0, 1_000) == (10_000, [10**12, 10**12 + 10_000])
    assert stall.outside(0, 300_500)[0] == pytest.approx(5_000)


def test_the_other_curves_are_shown_where_they_leave_room() -> None:
    curve = OverTime.steps([0, 10_000, 20_000], [0, 10_000, 20_000])
    near, far = (
        OverTime.steps([0, 10_000], [1_000, 30_000]),
        OverTime.steps([0, 10_000, 20_000], [5_000, 10**12, 10**12]),
    )
    assert ticks.bulk_of_curves([curve], [near, far]) == (0, 30_000)
    assert ticks.bulk_of_curves([curve, far]) == (0, 10**12)
    assert ticks.bulk_of_curves([OverTime(())], [near]) == (1_000, 30_000)
    assert ticks.bulk_of_curves([]) == (0, 1)


def test_time_beyond_an_axis_is_said_for_a_curve() -> None:
    axis = ticks.time_axis("lag", [0, 10_000])
    curve = OverTime.steps([0, 4_000, 6_000, 6_000, 9_000], [1, 90_000, None, 5, -4_000])
    assert axis.said_beyond({"the lag": curve, "record": [7]}) == (
        "Beyond the axis: the lag for 2.0 s, down to −4.0 s and up to 90.0 s."
    )
    assert axis.said_beyond({"the lag": OverTime.steps([0, 1_000], [1, 90_000])}) == (
        "Beyond the axis: the lag for a moment, up to 90.0 s."
    )


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
