"""Times and durations are written so that a person reads them at once."""

from collections.abc import Callable
from functools import partial

import pytest

from wmlab.core.words import TIME_MARK, counted, exactly, grouped, listed, moment, rounded, span, with_moments


@pytest.mark.parametrize(
    ("write", "time_ms", "words"),
    [
        (span, 0, "0 ms"),
        (span, 29_400, "29.4 s"),
        (span, 599_999, "599.999 s"),
        (span, 600_000, "10 min"),
        (span, 6_240_000, "1 h 44 min"),
        (span, -1_504_000, "−25 min 4 s"),
        (span, 28_440_000, "7 h 54 min"),
        (span, 3_600_000, "1 h"),
        (span, 104_580_000, "1 d 5 h"),
        (span, 86_400_000, "1 d"),
        (span, 86_399_999, "23 h 59 min"),
        (rounded, 0, "0 s"),
        (rounded, 400, "400 ms"),
        (rounded, 999, "999 ms"),
        (rounded, 24_000, "24.0 s"),
        (rounded, 23_949, "23.9 s"),
        (rounded, 23_950, "24.0 s"),
        (rounded, 599_949, "599.9 s"),
        (rounded, 750_000, "12 min 30 s"),
        (rounded, 12_000_000, "3 h 20 min"),
        (rounded, 190_800_000, "2 d 5 h"),
        (rounded, -1_400, "−1.4 s"),
        (moment, None, "unknown"),
        (moment, -5, "-5 ms"),
        (moment, 1_357_407_120_250, "2013-01-05 17:32:00.250 UTC"),
        (moment, 599_999, "599 999 ms"),
        (moment, 600_005, "10 min 0.005 s"),
        (moment, 86_399_999, "23 h 59 min 59 s"),
        (moment, 86_400_999, "1 d"),
        (moment, -190_812_049, "−2 d 5 h 12 s"),
        (exactly, 1_000, "1 000 ms"),
        (exactly, 2_700_000, "45 min"),
        (exactly, 2_592_000_500, "30 d 0.5 s"),
    ],
)
def test_a_time_or_duration_has_the_unit_that_suits_it(
    write: Callable[[int | None], str], time_ms: int | None, words: str
) -> None:
    assert write(time_ms) == words


@pytest.mark.parametrize(
    ("write", "beside_ms", "written"),
    [
        (span, 5_329_000, {56_354: "56.4 s", 60_000: "1 min", 317_812: "5 min 17 s", 5_329_000: "1 h 28 min"}),
        (span, 400_000, {317_812: "317.812 s"}),
        (span, 45_000_005, {220_838: "3 min 40 s"}),
        (span, 1_357_407_120_250, {220_838: "220.838 s"}),
        (moment, 7_200_000, {0: "0 s", 30_731: "30.731 s", 7_200_000: "2 h"}),
    ],
)
def test_times_and_durations_of_one_sentence_have_one_form(
    write: Callable[..., str], beside_ms: int, written: dict[int, str]
) -> None:
    assert {time_ms: write(time_ms, beside_ms=beside_ms) for time_ms in written} == written


def test_times_that_spark_wrote_have_the_same_form_and_names_stay_as_they_are() -> None:
    early, late, soon = (f"{TIME_MARK}{ms} ms{TIME_MARK}" for ms in ("-5", "72 000 005", "29 400"))
    assert with_moments(f"w 900 000 ms notes {early} at {late}, twice in {soon} of 3 items") == (
        "w 900 000 ms notes -5 ms at 20 h, twice in 29 400 ms of 3 items"
    )


def test_a_time_beside_an_instant_is_one_however_early() -> None:
    now_ms = 1_388_757_605_000
    written = {0: "1970-01-01 00:00:00 UTC", -2_082_844_800_000: "1904-01-01 00:00:00 UTC"}
    written |= {-58_910_000_000_123: "0103-03-21 07:06:39.877 UTC", -(2**63): "−106 751 991 167 d 7 h 12 min 55 s"}
    assert {time_ms: moment(time_ms, clock_ms=now_ms) for time_ms in written} == written
    assert moment(900_000, clock_ms=30_000) == moment(900_000) == "15 min"
    early, late = (f"{TIME_MARK}{grouped(ms)} ms{TIME_MARK}" for ms in (0, now_ms))
    assert with_moments(f"{early}, {late}") == "1970-01-01 00:00:00 UTC, 2014-01-03 14:00:05 UTC"
    assert with_moments(early, clock_ms=now_ms) == "1970-01-01 00:00:00 UTC"
    assert with_moments(early, clock_ms=5) == with_moments(early) == "0 ms"


def test_a_list_names_the_first_and_counts_the_rest() -> None:
    assert [listed(list(names)) for names in ("", "a", "abc")] == ["", "a", "a, b and c"]
    few = partial(listed, most=3, rest="others")
    assert [few(list(names)) for names in ("", "abc", "abcd")] == ["", "a, b and c", "a, b and 2 others"]
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
