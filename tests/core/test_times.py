"""The forms of time: what each text means, that a column is read as its texts are, and in which unit it is."""

from __future__ import annotations

import re
import warnings
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from email.utils import format_datetime
from itertools import combinations
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from wmlab.core import times
from wmlab.core.errors import TraceError
from wmlab.core.times import (
    MS_PER_TICK,
    BadTimeError,
    TimeForm,
    kind_of,
    moment_of,
    of_column,
    of_durations,
)

AT_MS = 1_437_364_164_000
"""2015-07-20 03:49:24 UTC."""
HOUR_MS = 3_600_000

SAME_MOMENT = [
    "2015-07-20T03:49:24Z",
    "2015-07-20t03:49:24z",
    "2015-07-20 03:49:24",
    "2015-07-20  03:49:24 UTC",
    "2015-07-20 03:49:24 GMT",
    "2015-07-20 05:49:24+02:00",
    "2015-07-20 05:49:24 +0200",
    "2015-07-20T05:49:24+02",
    "2015-07-20 05:49:24 UTC+2",
    "2015-07-20 05:49:24 GMT+02:00",
    "2015-07-20 05:49:24 +0200 CEST",
    "2015-07-20 05:49:24 CEST",
    "2015-07-20 05:49:24 Europe/Paris",
    "2015-07-19 08:49:24 -19:00",
    "2015-07-20T05:49:24+02:00[Europe/Paris]",
    "2015-07-20T05:49:24[Europe/Paris]",
    "2015-7-20 3:49:24",
    "2015/07/20 03:49:24",
    "2015.07.20, 03:49:24 AM",
    "2015-Jul-20 03:49:24",
    " 2015-07-20 03:49:24\t",
    "20150720T034924Z",
    "20150720T054924+0200",
    "20150720 034924",
    "Mon, 20 Jul 2015 05:49:24 +0200 (CEST)",
    "Mon, 20 Jul 2015 05:49:24 +0200 (CEST) (envelope-from <x@y>)",
    "Mon, 20 Jul 2015 05:49:24 +0200 (a (nested) comment)",
    "Mon, 20 Jul 2015 05:49:24 (CEST)",
    "Mon,20 Jul 2015 03:49:24 GMT",
    "20 Jul 2015 03:49:24 -0000",
    "Sun, 19 Jul 2015 22:49:24 EST",
    "Sun, 19 Jul 2015 22:49:24 -0500 (EST)",
    "Sun, 19 Jul 2015 22:49:24 +-0500",
    "Sun, 19 Jul 2015 23:49:24 Eastern Daylight Time",
    "20 July 15 03:49:24",
    "Mon, 20 Jul 115 03:49:24 UT",
    "20/Jul/2015:05:49:24 +0200",
    "20-JUL-2015 03:49:24",
    "Mon Jul 20 03:49:24 2015",
    "Mon Jul 20 05:49:24 CEST 2015",
    "Mon Jul 20 05:49:24 2015 +0200",
    "Mon Jul 20 2015 05:49:24 GMT+0200 (Central European Summer Time)",
    "July 20, 2015 3:49:24 a.m.",
]
OTHERS = {
    "2015-07-20T03:49:24.5": AT_MS + 500,
    "2015-07-20 03:49:24,515 UTC": AT_MS + 515,
    "2015-07-20T03:49:24.123456789123+00:00": AT_MS + 123,
    "20150720T034924.25": AT_MS + 250,
    "2015-07-20 03:49": AT_MS - 24_000,
    "2015-07-20 03:49:24 PM": AT_MS + 12 * HOUR_MS,
    "2015-07-20": AT_MS - 13_764_000,
    "20 Jul 2015": AT_MS - 13_764_000,
    "2015-7-2": AT_MS - 13_764_000 - 18 * 24 * HOUR_MS,
    "2015-07-19T24:00:00": AT_MS - 13_764_000,
    "2015-01-20 03:49:24 Europe/Paris": AT_MS - 181 * 24 * HOUR_MS - HOUR_MS,
    "1969-12-31T23:59:59.9999": -1,
    "1066-10-14": -28_502_755_200_000,
    "3000-01-01T00:00:00.5Z": 32_503_680_000_500,
}
REFUSED = {
    None: times.NO_VALUE,
    " ": times.NO_VALUE,
    "NaT": times.NO_VALUE,
    "N/A": times.NO_VALUE,
    "soon": times.UNKNOWN_FORM,
    "03:49:24": times.UNKNOWN_FORM,
    "2015-07": times.UNKNOWN_FORM,
    "20/07/2015": times.UNKNOWN_FORM,
    "07.20.2015 03:49": times.UNKNOWN_FORM,
    "2015-07/20": times.UNKNOWN_FORM,
    "Jul 20 03:49:24": times.UNKNOWN_FORM,
    "2015-07-20T03:49:24Z.515": times.UNKNOWN_FORM,
    "2015-02-30 01:00:00": times.NO_MOMENT,
    "1900-02-29": times.NO_MOMENT,
    "2015-13-01": times.NO_MOMENT,
    "2015-07-20 25:00:00": times.NO_MOMENT,
    "2015-07-20 24:00:01": times.NO_MOMENT,
    "2015-07-20 03:60:00": times.NO_MOMENT,
    "2015-07-20 03:49:60": times.NO_MOMENT,
    "2015-07-20 13:49:24 PM": times.NO_MOMENT,
    "32 Jul 2015 03:49:24": times.NO_MOMENT,
    "20 Foo 2015 03:49:24": times.NO_MOMENT,
    "2015-07-20 05:49:24 IST": times.UNKNOWN_ZONE,
    "2015-07-20 05:49:24 China Standard Time": times.UNKNOWN_ZONE,
    "2015-07-20 05:49:24 +02:61": times.UNKNOWN_ZONE,
    "2015-07-20 05:49:24 EST+02:00": times.UNKNOWN_ZONE,
    "2015-03-29 02:30 Europe/Paris": times.CLOCK_CHANGE,
    "2015": times.NUMBER_AMONG_DATES,
    "20150720": times.NUMBER_AMONG_DATES,
    "-1.5e3": times.NUMBER_AMONG_DATES,
}


def read(values: Any, kind: Any = "dates", **form: Any) -> list[int | str]:
    """What a column means: of each value the milliseconds, or a fault."""
    column = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    found = of_column(column, "t", TimeForm(**form), kind)
    return [times.FAULTS[code] if code else int(ms) for ms, code in zip(found.ms, found.fault, strict=True)]


def meant(text: str) -> int | str:
    """What the rule for one date says."""
    try:
        return moment_of(text)[0]
    except BadTimeError as wrong:
        return str(wrong.args[0])


@pytest.mark.parametrize("text", SAME_MOMENT)
def test_one_moment_has_many_forms(text: str) -> None:
    assert meant(text) == AT_MS


@pytest.mark.parametrize(("text", "meaning"), [*OTHERS.items(), *REFUSED.items()], ids=repr)
def test_other_texts_mean_this(text: str, meaning: int | str) -> None:
    assert read([text]) == [meaning]


def test_a_column_is_read_as_its_texts_are() -> None:
    texts = [*SAME_MOMENT, *OTHERS, *REFUSED]
    assert read(texts) == [AT_MS] * len(SAME_MOMENT) + [*OTHERS.values(), *REFUSED.values()]
    assert read([]) == []


def test_a_text_without_a_zone_is_not_read_in_the_zone_of_the_row_before() -> None:
    """As pandas does with `format="ISO8601"` and `utc=True`: an error of hours, without a word."""
    texts = ["2015-07-20T05:49:24+02:00", "2015-07-20T03:49:24"]
    assert read(texts) == [AT_MS, AT_MS]
    assert read(texts[::-1] * 2) == [AT_MS] * 4
    by_pandas = pd.to_datetime(pd.Series(texts), format="ISO8601", utc=True)
    assert by_pandas[0] != by_pandas[1], "pandas is mended: both kinds of text can be read in one call"


def test_every_form_has_an_example_that_no_other_form_fits() -> None:
    examples = [
        "2015-07-20T03:49:24.515+02:00",
        "20150720T034924Z",
        "Mon, 20 Jul 2015 03:49:24 +0200 (CEST)",
        "Mon Jul 20 03:49:24 CEST 2015",
        "July 20, 2015 03:49:24 PM",
    ]
    fits = [[pattern.fullmatch(example) is not None for pattern in times._FORMS] for example in examples]
    assert fits == [[row == column for column in range(len(times._FORMS))] for row in range(len(times._FORMS))]


NUMBERS = {
    "7": 7_000,
    "-7": -7_000,
    "+7": 7_000,
    "7.5": 7_500,
    "7,5": 7_500,
    ".5": 500,
    "1e3": 1_000_000,
    "1517966773.84": 1_517_966_773_840,
    "1517966773,840": 1_517_966_773_840,
    "1517966773.000": 1_517_966_773_000,
    "9223372036854775": 9_223_372_036_854_775_000,
    "9223372036854776": times.TOO_LARGE,
    "99999999999999999999": times.TOO_LARGE,
    "1e300": times.TOO_LARGE,
    "1e400": times.TOO_LARGE,
    "Infinity": times.NOT_FINITE,
    "nan": times.NO_VALUE,
    r"\N": times.NO_VALUE,
    "0x7": times.UNKNOWN_FORM,
    "7 8": times.UNKNOWN_FORM,
    "1,700,000": times.UNKNOWN_FORM,
    "1,700": times.UNKNOWN_FORM,
    "2015-07-20": times.DATE_AMONG_NUMBERS,
    "2015-02-30": times.DATE_AMONG_NUMBERS,
}


def test_texts_of_numbers_are_exact_and_a_comma_may_be_a_point() -> None:
    assert read([*NUMBERS, None], "numbers", unit="s") == [*NUMBERS.values(), times.NO_VALUE]


@pytest.mark.parametrize("unit", MS_PER_TICK)
def test_whole_numbers_of_any_unit_are_rounded_down_as_python_does(unit: str) -> None:
    ms, ticks = MS_PER_TICK[unit]
    numbers = [1, -1, 999_999, -1_001, 2**53 + 1, 9_223_372_036_854_775_807, -(2**63) + 1]
    wanted = [whole if abs(whole := n * ms // ticks) < 2**63 else times.TOO_LARGE for n in numbers]
    assert read([*map(str, numbers)], "numbers", unit=unit) == wanted
    assert read(pa.array(numbers), unit=unit) == wanted
    assert read(pa.array([*map(Decimal, numbers)]), "numbers", unit=unit) == wanted


def test_a_format_of_ones_own() -> None:
    texts = ["20/07/2015 05:49:24+0200", "20/07/2015 03:49:24+0000", "2015-07-20", "31/02/2015 05:49:24+0200", None]
    other = times.OTHER_FORMAT
    assert read(texts, "format", format="%d/%m/%Y %H:%M:%S%z") == [AT_MS, AT_MS, other, other, times.NO_VALUE]
    assert read(["2015-07-20T03:49:24Z.515"], "format", format="%Y-%m-%dT%H:%M:%SZ.%f") == [AT_MS + 515]
    assert read(["14.10.1066"], "format", format="%d.%m.%Y") == [OTHERS["1066-10-14"]]
    assert read(["Mon Jul 20 03:49:24 2015"], "format", format="%c") == [AT_MS]
    assert read(pa.array([20150720034924]), "format", format="%Y%m%d%H%M%S") == [AT_MS]


@pytest.mark.parametrize(
    ("time_format", "whether"),
    [
        *(
            ("%d.%m.%y", True),
            ("%A %c", True),
            ("%x %H", True),
            ("%G-W%V-%u", True),
            ("%Y %j", True),
            ("%Y %W %a", True),
        ),
        *(("%H:%M", False), ("%m/%d", False), ("%d %B", False), ("%", False), ("%%d/%m/%Y", False)),
        *(("%W %u", False), ("%G %j", False), ("%d/%m/%Y %d", False), ("%c %d", False), ("%Q %c", False)),
    ],
)
def test_a_format_has_to_give_a_day(time_format: str, whether: bool) -> None:
    if whether:
        assert TimeForm(format=time_format).format == time_format
    else:
        with pytest.raises(TraceError, match="which does not give a day"):
            TimeForm(format=time_format)


DAYS = [datetime(*day, 3, 49, 24, tzinfo=UTC) for day in ((2015, 7, 20), (2016, 7, 20), (2015, 8, 20), (2015, 7, 21))]


def comes_back(day: datetime, time_format: str) -> bool:
    """Whether Python reads the day that it has written; a directive that stands twice is an error of its pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return datetime.strptime(day.strftime(time_format), time_format).date() == day.date()
        except (ValueError, re.error):
            return False


def test_a_format_is_taken_if_python_reads_the_day_that_it_has_written() -> None:
    """Of all formats of at most three directives; that no warning is raised is a setting of pytest."""
    formats = [" ".join(f"%{one}" for one in some) for n in range(4) for some in combinations("YyGmbdjUWVuaAcxHz", n)]
    wanted = {time_format: all(comes_back(day, time_format) for day in DAYS) for time_format in formats}
    assert {time_format: times._gives_a_day(time_format) for time_format in formats} == wanted
    assert 20 < sum(wanted.values()) < len(wanted)


BERLIN = {
    "2015-07-20 05:49:24": AT_MS,
    "2015-07-20 03:49:24Z": AT_MS,
    "2015-01-20 04:49:24": AT_MS - 181 * 24 * HOUR_MS,
    "20 Jul 2015 05:49:24": AT_MS,
    "2015-03-29 02:30:00": times.CLOCK_CHANGE,
    "2015-10-25 02:30:00": times.CLOCK_CHANGE,
    "2015-10-25 03:30:00": 1_445_740_200_000,
}


def test_local_times_of_a_zone_have_its_summer_time() -> None:
    assert read([*BERLIN], timezone="Europe/Berlin") == [*BERLIN.values()]
    naive = pa.array([datetime(2015, 7, 20, 5, 49, 24)], pa.timestamp("us"))
    assert read(naive, timezone="Europe/Berlin") == [AT_MS]
    assert read(naive.cast(pa.timestamp("us", "UTC")), timezone="Europe/Berlin") == [AT_MS + 2 * HOUR_MS]
    assert read(["20.07.2015 05:49"], "format", format="%d.%m.%Y %H:%M", timezone="Europe/Berlin") == [AT_MS - 24_000]
    assert read(pa.array([AT_MS]), timezone="Europe/Berlin") == [AT_MS], "numbers since 1970 are UTC"


def test_numbers_count_from_an_origin() -> None:
    assert read(["45000,5", "0"], "numbers", unit="d", origin="1899-12-30") == [1_678_881_600_000, -2_209_161_600_000]
    assert read(pa.array([0.25]), unit="d", origin="1904-01-01") == [-2_082_823_200_000]
    local = {"unit": "d", "origin": "1899-12-30", "timezone": "Europe/Berlin"}
    assert read(pa.array([45000.5]), **local) == [1_678_881_600_000 - HOUR_MS]
    assert read(pa.array([2**62]), origin="3000-01-01") == [2**62 + 32_503_680_000_000]
    assert read(pa.array([2**63 - 1]), origin="3000-01-01") == [times.TOO_LARGE]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"unit": "min"}, "unit is 'min'"),
        ({"timezone": "Mars/Olympus"}, "timezone is 'Mars/Olympus', which is not known"),
        ({"origin": "soon"}, "origin is 'soon', which is not a time of a known form"),
        ({"origin": 5}, "origin is 5"),
    ],
)
def test_what_is_no_unit_zone_or_origin_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(TraceError, match=said):
        TimeForm(**wrong)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array([date(2015, 7, 20)]), AT_MS - 13_764_000),
        (pa.array([date(2015, 7, 20)], pa.date64()), AT_MS - 13_764_000),
        (pa.array([AT_MS * 1_000_000 + 999_999], pa.timestamp("ns")), AT_MS),
        (pa.array([-1], pa.timestamp("us")), -1),
        (pa.array(["2015-07-20"]).dictionary_encode(), AT_MS - 13_764_000),
        (pa.array(["2015-07-20"], pa.large_string()), AT_MS - 13_764_000),
        (pa.array([2**63], pa.uint64()), times.TOO_LARGE),
        (pa.array([float("nan")]), times.NOT_FINITE),
        (pa.array([float("-inf")]), times.NOT_FINITE),
        (pa.array([-1e300]), times.TOO_LARGE),
        (pa.array([AT_MS + 0.4]), AT_MS),
        (pa.array([-0.6]), -1),
        (pa.array([2], pa.uint8()), 2),
        (pa.nulls(1), times.NO_VALUE),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_columns_of_every_type_are_times(column: pa.Array, wanted: int | str) -> None:
    assert read(column) == [wanted]


@pytest.mark.parametrize("column", [pa.array([True]), pa.array([time(3)]), pa.array([[1]])], ids=lambda c: str(c.type))
def test_columns_of_other_types_are_refused(column: pa.Array) -> None:
    with pytest.raises(TraceError, match=r"column 't' holds .*, not times"):
        read(column)


def test_durations_are_numbers_or_texts() -> None:
    texts = ["1.5", "1,5", "00:01:30", "1 day 00:00:01", "PT5M", "-2", None, "soon"]
    found = of_durations(pa.array(texts), "d", "s")
    assert found.ms[:6].tolist() == [1_500, 1_500, 90_000, 86_401_000, 300_000, -2_000]
    assert [times.FAULTS[code] for code in found.fault[6:]] == [times.NO_VALUE, times.NO_DURATION]
    for column in (pa.array([timedelta(seconds=90)]), pa.array([time(0, 1, 30)]), pa.array([90])):
        assert of_durations(column, "d", "s").ms.tolist() == [90_000]
    with pytest.raises(TraceError, match=r"column 'd' holds .*, not durations"):
        of_durations(pa.array([date(2015, 7, 20)]), "d", "s")


@pytest.mark.parametrize(
    ("sample", "time_format", "kind"),
    [
        (["2015-07-20", "2015", None, "2015-07-21"], None, "dates"),
        (["2015", "2016", "2015-07-20"], None, "numbers"),
        (["2015", "2015-07-20"], None, "dates"),
        (["soon"], None, "dates"),
        ([], None, "dates"),
        (["20/07/2015", "21/07/2015"], "%d/%m/%Y", "format"),
        (["20150720", "20150721"], "%Y%m%d", "format"),
        (["20150720", "2015", "20150721"], "%Y%m%d", "format"),
        (["20150720", "2015", "2016"], "%Y%m%d", "numbers"),
        (["1437364164000", "1437364164001"], "%d/%m/%Y", "numbers"),
        (["soon"], "%d/%m/%Y", "format"),
    ],
)
def test_most_of_the_first_texts_say_what_a_column_holds(sample: list[str], time_format: str | None, kind: str) -> None:
    assert kind_of(sample, [time_format] if time_format else []) == kind


MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))
OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.lists(st.tuples(MOMENTS, OFFSETS), min_size=1, max_size=4))
def test_iso_and_mail_texts_mean_what_python_means(moments: list[tuple[datetime, timezone]]) -> None:
    texts, wanted = [], []
    for moment, zone in moments:
        local = moment.replace(tzinfo=zone)
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        ms = (local - epoch) // timedelta(milliseconds=1)
        naive_ms = (moment.replace(tzinfo=UTC) - epoch) // timedelta(milliseconds=1)
        texts += [local.isoformat(), moment.isoformat(), str(local), local.isoformat().replace(".", ",")]
        wanted += [ms, naive_ms, ms, ms]
        if moment.year >= 1000:
            seconds = (local.replace(microsecond=0) - epoch) // timedelta(milliseconds=1)
            texts += [format_datetime(local), local.strftime("%Y%m%dT%H%M%S%z"), local.strftime("%a %b %d %X %Y %z")]
            wanted += [seconds] * 3
    assert read(texts) == wanted


PIECES = st.lists(
    st.sampled_from(
        [*"0123456789", "2015", "07", "-", ":", "T", " ", ".", ",", "+", "Z", "UTC", "24", "60", "Jul", "Mon", "(x)"]
    ),
    max_size=14,
).map("".join)
PARTS = st.tuples(*(st.integers(0, top) for top in (9999, 13, 32, 25, 61, 61, 99, 61)))
FORMS = [
    "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}-{:02}:{:02}",
    "{}-{}-{} {}:{}:{} +{:02}{:02}",
    "{:04}-{:02}-{:02} {:02}:{:02}",
]


@given(
    st.lists(PIECES | st.tuples(PARTS, st.sampled_from(FORMS)).map(lambda pair: pair[1].format(*pair[0])), max_size=8)
)
def test_of_any_text_pandas_says_what_the_rule_for_one_text_says(texts: list[str]) -> None:
    for text, found in zip(texts, read(texts), strict=True):
        wanted = meant(text.strip(" "))
        assert found == wanted or (wanted == times.UNKNOWN_FORM and found in (times.NO_VALUE, times.NUMBER_AMONG_DATES))
