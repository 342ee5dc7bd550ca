"""The forms of time: what each text means, and that a column is read as its texts are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core import times
from wmlab.core.times import DATE_FORMS, MS_PER_TICK, BadTimeError, all_ms, is_format, kind_of, ms_of

AT_MS = 1_437_364_164_000
"""2015-07-20 03:49:24 UTC."""
TWO_HOURS_MS = 7_200_000

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
    "2015-07-19 08:49:24 -19:00",
    "2015-07-20T05:49:24+02:00[Europe/Paris]",
    "2015-7-20 3:49:24",
    " 2015-07-20 03:49:24\t",
    "20150720T034924Z",
    "20150720T054924+0200",
    "Mon, 20 Jul 2015 05:49:24 +0200 (CEST)",
    "Mon, 20 Jul 2015 03:49:24 GMT",
    "20 Jul 2015 03:49:24 -0000",
    "Sun, 19 Jul 2015 22:49:24 EST",
    "20 July 15 03:49:24",
    "Mon, 20 Jul 115 03:49:24 UT",
]
OTHERS = {
    "2015-07-20T03:49:24.5": AT_MS + 500,
    "2015-07-20 03:49:24,515 UTC": AT_MS + 515,
    "2015-07-20T03:49:24.123456789123+00:00": AT_MS + 123,
    "20150720T034924.25": AT_MS + 250,
    "2015-07-20 03:49": AT_MS - 24_000,
    "2015-07-20": AT_MS - 13_764_000,
    "2015-7-2": AT_MS - 13_764_000 - 18 * 86_400_000,
    "2015-07-19T24:00:00": AT_MS - 13_764_000,
    "2016-12-31T23:59:60Z": 1_483_228_800_000,
    "2017-01-01T01:59:60+02:00": 1_483_228_800_000,
    "1969-12-31T23:59:59.9999": -1,
    "0000-02-29": -62_162_121_600_000,
}
REFUSED = {
    None: times.NO_VALUE,
    " ": times.NO_VALUE,
    "soon": times.UNKNOWN_FORM,
    "03:49:24": times.UNKNOWN_FORM,
    "2015-07": times.UNKNOWN_FORM,
    "20/07/2015": times.UNKNOWN_FORM,
    "2015-07-20T03:49:24Z.515": times.UNKNOWN_FORM,
    "2015-02-30 01:00:00": times.NO_MOMENT,
    "1900-02-29": times.NO_MOMENT,
    "2015-13-01": times.NO_MOMENT,
    "2015-07-20 25:00:00": times.NO_MOMENT,
    "2015-07-20 24:00:01": times.NO_MOMENT,
    "2015-07-20 03:60:00": times.NO_MOMENT,
    "2015-07-20 03:49:60": times.NO_MOMENT,
    "32 Jul 2015 03:49:24": times.NO_MOMENT,
    "20 Foo 2015 03:49:24": times.NO_MOMENT,
    "2015-07-20 05:49:24 CEST": times.UNKNOWN_ZONE,
    "2015-07-20 05:49:24 +02:61": times.UNKNOWN_ZONE,
    "2015": times.NUMBER_AMONG_DATES,
    "20150720": times.NUMBER_AMONG_DATES,
    "-1.5e3": times.NUMBER_AMONG_DATES,
}


def meant(text, kind="dates", unit="ms", time_format=None):
    """What the rule for one text says: milliseconds, or a fault."""
    try:
        return ms_of(text, kind, unit, time_format)
    except BadTimeError as wrong:
        return wrong.args[0]


def read(texts, kind="dates", unit="ms", time_format=None):
    """What the rule for a column says, in the same way."""
    found = all_ms(pa.array(texts, pa.string()), kind, unit, time_format)
    return [times.FAULTS[code] if code else int(ms) for ms, code in zip(found.ms, found.fault, strict=True)]


@pytest.mark.parametrize("text", SAME_MOMENT)
def test_one_moment_has_many_forms(text):
    assert meant(text) == AT_MS


@pytest.mark.parametrize(("text", "meaning"), [*OTHERS.items(), *REFUSED.items()], ids=repr)
def test_other_texts_mean_this(text, meaning):
    assert meant(text) == meaning


def test_a_column_is_read_as_its_texts_are():
    texts = [*SAME_MOMENT, *OTHERS, *REFUSED]
    assert read(texts) == [*map(meant, texts)]
    assert read([]) == []


def test_every_form_has_an_example_that_no_other_form_fits():
    fits = [[pattern.fullmatch(form.example) is not None for pattern in times._COMPILED] for form in DATE_FORMS]
    assert fits == [[row == column for column in range(len(DATE_FORMS))] for row in range(len(DATE_FORMS))]


NUMBERS = ["7", "-7", "+7", "7.5", ".5", "-0.5", "1e3", "9223372036854775807", "9223372036854775808", "1e300", "1e400"]
NUMBERS += ["-9223372036854775808", "922337203685477581", "99999999999999999999", "nan", "-Infinity", "0x7", "7 8", ""]


@pytest.mark.parametrize("unit", MS_PER_TICK)
def test_a_column_of_numbers_is_read_as_its_texts_are(unit):
    texts = [*NUMBERS, "2015-07-20", None]
    assert read(texts, "numbers", unit) == [meant(text, "numbers", unit) for text in texts]
    assert meant("2015-07-20", "numbers") == times.DATE_AMONG_NUMBERS
    assert meant("-7", "numbers", "us") == -1
    assert meant("nan", "numbers") == times.NOT_FINITE


def test_a_format_of_ones_own():
    by_format = "%d/%m/%Y %H:%M:%S%z"
    texts = ["20/07/2015 05:49:24+0200", "20/07/2015 05:49:24+0200", "2015-07-20", "31/02/2015 05:49:24+0200", None]
    assert read(texts, "format", time_format=by_format) == [meant(text, "format", "ms", by_format) for text in texts]
    assert read(texts, "format", time_format=by_format) == [
        AT_MS,
        AT_MS,
        times.OTHER_FORMAT,
        times.OTHER_FORMAT,
        times.NO_VALUE,
    ]
    assert meant("2015-07-20T03:49:24Z.515", "format", time_format="%Y-%m-%dT%H:%M:%SZ.%f") == AT_MS + 515


@pytest.mark.parametrize(
    ("time_format", "whether"), [("%d.%m.%y", True), ("%A %c", True), ("%H:%M", False), ("%m/%d", False), ("%", False)]
)
def test_a_format_has_to_give_a_day(time_format, whether):
    assert is_format(time_format) is whether


@pytest.mark.parametrize(
    ("sample", "time_format", "kind"),
    [
        (["2015-07-20", "2015", None, "2015-07-21"], None, "dates"),
        (["2015", "2016", "2015-07-20"], None, "numbers"),
        (["2015", "2015-07-20"], None, "dates"),
        (["soon"], None, "dates"),
        ([], None, "dates"),
        (["20/07/2015", "21/07/2015"], "%d/%m/%Y", "format"),
        (["1437364164000", "1437364164001"], "%d/%m/%Y", "numbers"),
        (["soon"], "%d/%m/%Y", "format"),
    ],
)
def test_most_of_the_first_texts_say_what_a_column_holds(sample, time_format, kind):
    assert kind_of(sample, time_format) == kind


MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))
OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(MOMENTS, OFFSETS)
def test_iso_and_mail_texts_mean_what_python_means(moment, zone):
    local = moment.replace(tzinfo=zone)
    ms = (local - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    texts = [local.isoformat(), str(local), local.isoformat().replace(".", ",")]
    assert read(texts) == [meant(text) for text in texts] == [ms] * 3
    if moment.year >= 1000:
        seconds = (local.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        mail = [format_datetime(local), local.strftime("%Y%m%dT%H%M%S%z")]
        assert read(mail) == [meant(text) for text in mail] == [seconds] * 2


PIECES = st.lists(
    st.sampled_from(
        [*"0123456789", "2015", "07", "-", ":", "T", " ", ".", ",", "+", "Z", "UTC", "24", "60", "Jul", "Mon", "(x)"]
    ),
    max_size=14,
).map("".join)


@given(st.lists(PIECES, max_size=8), st.sampled_from(["dates", "numbers"]), st.sampled_from(list(MS_PER_TICK)))
def test_of_any_text_a_column_says_what_the_rule_says(texts, kind, unit):
    assert read(texts, kind, unit) == [meant(text, kind, unit) for text in texts]


@given(
    st.tuples(*(st.integers(0, top) for top in (9999, 13, 32, 25, 61, 61, 99, 61))),
    st.sampled_from(["{:04}-{:02}-{:02}T{:02}:{:02}:{:02}-{:02}:{:02}", "{}-{}-{} {}:{}:{} +{:02}{:02}"]),
)
def test_of_any_parts_a_column_says_what_the_rule_says(parts, form):
    text = form.format(*parts)
    assert read([text]) == [meant(text)]
