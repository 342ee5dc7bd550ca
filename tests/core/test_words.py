"""Times and durations are written so that a person reads them at once."""

import pytest

from wmlab.core.words import counted, exactly, listed, moment, rounded, span, with_moments


@pytest.mark.parametrize(
    ("length_ms", "words"),
    [
        (0, "0 ms"),
        (29_400, "29 400 ms"),
        (599_999, "599 999 ms"),
        (600_000, "10 min"),
        (6_240_000, "1 h 44 min"),
        (-1_504_000, "−25 min 4 s"),
        (28_440_000, "7 h 54 min"),
        (3_600_000, "1 h"),
        (104_580_000, "1 d 5 h"),
        (86_400_000, "1 d"),
        (86_399_999, "23 h 59 min"),
    ],
)
def test_long_durations_have_two_units(length_ms: int, words: str) -> None:
    assert span(length_ms) == words


@pytest.mark.parametrize(
    ("value_ms", "words"),
    [
        (0, "0 s"),
        (400, "400 ms"),
        (999, "999 ms"),
        (24_000, "24.0 s"),
        (23_949, "23.9 s"),
        (23_950, "24.0 s"),
        (599_949, "599.9 s"),
        (750_000, "12 min 30 s"),
        (12_000_000, "3 h 20 min"),
        (190_800_000, "2 d 5 h"),
        (-1_400, "−1.4 s"),
    ],
)
def test_a_duration_is_written_in_the_unit_that_suits_it(value_ms: int, words: str) -> None:
    assert rounded(value_ms) == words


def test_durations_of_one_sentence_have_one_form() -> None:
    written = [span(length_ms, beside_ms=5_329_000) for length_ms in (56_354, 60_000, 317_812, 5_329_000)]
    assert written == ["56.4 s", "1 min", "5 min 17 s", "1 h 28 min"]
    assert span(317_812, beside_ms=400_000) == "317 812 ms"


def test_a_time_is_a_number_or_an_instant() -> None:
    assert [moment(None), moment(-5), moment(1_357_407_120_250)] == ["unknown", "-5 ms", "2013-01-05 17:32:00.250 UTC"]
    assert [moment(time_ms) for time_ms in (599_999, 600_005, 86_399_999, 86_400_999, -190_812_049)] == [
        "599 999 ms",
        "10 min 0.005 s",
        "23 h 59 min 59 s",
        "1 d",
        "−2 d 5 h 12 s",
    ]


def test_times_beside_a_long_one_have_its_form() -> None:
    assert [moment(time_ms, beside_ms=7_200_000) for time_ms in (0, 30_731, 7_200_000)] == ["0 s", "30.731 s", "2 h"]
    assert span(220_838, beside_ms=45_000_005) == "3 min 40 s"
    assert span(220_838, beside_ms=1_357_407_120_250) == "220 838 ms"


def test_a_duration_that_is_a_label_is_exact() -> None:
    assert [exactly(length_ms) for length_ms in (1_000, 2_700_000, 2_592_000_500)] == [
        "1 000 ms",
        "45 min",
        "30 d 0.5 s",
    ]


def test_times_that_spark_wrote_have_the_same_form() -> None:
    assert with_moments("w notes -5 ms at 72 000 005 ms, twice in 29 400 ms of 3 items") == (
        "w notes -5 ms at 20 h, twice in 29 400 ms of 3 items"
    )


def test_a_list_names_the_first_and_counts_the_rest() -> None:
    assert [listed([], most=3), listed(["a", "b", "c"], most=3)] == ["", "a, b and c"]
    assert listed(["a", "b", "c", "d"], most=3, rest="others") == "a, b and 2 others"


def test_lists_and_counts() -> None:
    assert [listed(["a"]), listed(["a", "b", "c"]), counted(1, "cycle"), counted(1_200, "cycle")] == [
        "a",
        "a, b and c",
        "1 cycle",
        "1 200 cycles",
    ]
