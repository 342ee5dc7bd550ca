"""Times and durations are written so that a person reads them at once."""

from collections.abc import Callable
from functools import partial

import pytest

from wmlab.core.words import (
    TIME_MARK,
    counted,
    exactly,
    grouped,
    joined,
    listed,
    moment,
    rounded,
    with_moments,
    zone_once,
)


@pytest.mark.parametrize(
    ("write", "time_ms", "words"),
    [
        (rounded, 599_999, "10 min"),
        (rounded, 599_940, "9 min 59.9 s"),
        (rounded, 3_599_940, "59 min 59.9 s"),
        (rounded, 5_025_300, "1 h 23 min 45 s"),
        (rounded, 600_000, "10 min"),
        (rounded, 6_240_000, "1 h 44 min"),
        (rounded, -1_504_000, "−25 min 4 s"),
        (rounded, 28_440_000, "7 h 54 min"),
        (rounded, 3_600_000, "1 h"),
        (rounded, 104_580_000, "1 d 5 h 3 min"),
        (rounded, 86_400_000, "1 d"),
        (rounded, 89_399_995, "1 d 50 min"),
        (rounded, 86_399_999, "1 d"),
        (rounded, 86_399_400, "23 h 59 min 59 s"),
        (rounded, 0, "0 s"),
        (rounded, 400, "400 ms"),
        (rounded, 999, "999 ms"),
        (rounded, 24_000, "24.0 s"),
        (rounded, 23_949, "23.9 s"),
        (rounded, 23_950, "24.0 s"),
        (rounded, 99_949, "99.9 s"),
        (rounded, 99_950, "1 min 40 s"),
        (rounded, 168_200, "2 min 48.2 s"),
        (rounded, 180_000, "3 min"),
        (rounded, 1_400.4, "1.4 s"),
        (rounded, 750_000, "12 min 30 s"),
        (rounded, 12_000_000, "3 h 20 min"),
        (rounded, 190_800_000, "2 d 5 h"),
        (rounded, -1_400, "−1.4 s"),
        (moment, None, "unknown"),
        (moment, -5, "−5 ms"),
        (moment, 29_400, "29.4 s"),
        (moment, 99_999, "99.999 s"),
        (moment, 100_000, "1 min 40 s"),
        (moment, 1_357_407_120_250, "2013-01-05 17:32:00.250 UTC"),
        (moment, 599_999, "9 min 59.999 s"),
        (moment, 600_005, "10 min 0.005 s"),
        (moment, 86_399_999, "23 h 59 min 59 s"),
        (moment, 86_400_999, "1 d"),
        (moment, -190_812_049, "−2 d 5 h 12 s"),
        (exactly, 0, "0 ms"),
        (exactly, 1_000, "1 s"),
        (exactly, -24_037, "−24.037 s"),
        (exactly, 2_700_000, "45 min"),
        (exactly, 2_592_000_500, "30 d 0.5 s"),
    ],
)
def test_a_time_or_duration_has_the_unit_that_suits_it(
    write: Callable[[int | None], str], time_ms: int | None, words: str
) -> None:
    assert write(time_ms) == words


def test_marked_times_have_the_same_form_and_names_stay_as_they_are() -> None:
    early, late, soon = (f"{TIME_MARK}{ms} ms{TIME_MARK}" for ms in ("-5", "72 000 005", "29 400"))
    assert with_moments(f"w 900 000 ms notes {early} at {late}, twice in {soon} of 3 items") == (
        "w 900 000 ms notes −5 ms at 20 h, twice in 29.4 s of 3 items"
    )


def test_a_time_beside_an_instant_is_one_however_early() -> None:
    now_ms = 1_388_757_605_000
    written = {0: "1970-01-01 00:00:00 UTC", -2_082_844_800_000: "1904-01-01 00:00:00 UTC"}
    written |= {-58_910_000_000_123: "0103-03-21 07:06:39.877 UTC", -(2**63): "−106 751 991 167 d 7 h 12 min 55 s"}
    assert {time_ms: moment(time_ms, clock_ms=now_ms) for time_ms in written} == written
    assert moment(900_000, clock_ms=30_000) == moment(900_000) == "15 min"
    early, late = (f"{TIME_MARK}{grouped(ms)} ms{TIME_MARK}" for ms in (0, now_ms))
    assert with_moments(f"{early}, {late}") == "1970-01-01 00:00:00 UTC, 2014-01-03 14:00:05"
    assert with_moments(early, clock_ms=now_ms) == "1970-01-01 00:00:00 UTC"
    assert with_moments(early, clock_ms=5) == with_moments(early) == "0 s"


def test_times_that_would_look_the_same_keep_their_digits() -> None:
    first, second, third = (f"{TIME_MARK}{ms} ms{TIME_MARK}" for ms in ("31 005", "31 010", "32 005"))
    assert with_moments(f"{first} to {third}") == "31.0 s to 32.0 s"
    assert with_moments(f"{first} to {second}") == "31.005 s to 31.01 s"
    assert with_moments(f"{first} and {first}") == "31.0 s and 31.0 s"


def test_a_text_names_its_zone_once_and_each_day_once_in_a_row() -> None:
    first, second, other = "2013-07-15 06:00:25 UTC", "2013-07-15 06:00:30.250 UTC", "2013-07-16 00:00:00 UTC"
    text = joined(f"It is {first} since {second}.", "", f"It ends at {other}, or at {first}.")
    assert text == (
        "It is 2013-07-15 06:00:25 UTC since 06:00:30.250. It ends at 2013-07-16 00:00:00, or at 2013-07-15 06:00:25."
    )
    assert zone_once(text) == text
    assert joined(text, f"Again {first}.").endswith("Again 06:00:25.")
    assert zone_once("row 2013-07-15 06:00:25, 2013-07-15 06:00:26") == "row 2013-07-15 06:00:25, 2013-07-15 06:00:26"


def test_a_list_names_the_first_and_counts_the_rest() -> None:
    assert [listed(list(names)) for names in ("", "a", "abc")] == ["", "a", "a, b and c"]
    few = partial(listed, most=3, rest="others")
    assert [few(list(names)) for names in ("", "abc", "abcd")] == ["", "a, b and c", "a, b and 2 others"]
    assert [grouped(-1_094), grouped(-2.5)] == ["−1 094", "−2.5"]
    assert [counted(1, "cycle"), counted(1_200, "cycle")] == ["1 cycle", "1 200 cycles"]


def test_more_than_one_is_plural_for_any_column():
    nouns = ["cycle", "city", "key", "box", "bus", "branch"]
    assert [counted(2, noun) for noun in nouns] == [
        "2 cycles",
        "2 cities",
        "2 keys",
        "2 boxes",
        "2 buses",
        "2 branches",
    ]
    assert counted(1, "city") == "1 city"
