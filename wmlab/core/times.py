"""The forms in which logs write times, and what each means: the one place that decides it for every reader of a log.

A column of texts holds dates, numbers, or texts in a `format` of the caller. `kind_of` decides which by the first texts
of the column, so that `2015` among dates is no number of milliseconds. `ms_of` is the rule for one text; `all_ms` is
the same rule for a column, and `tests/core/test_times.py` compares the two. A date is one of `DATE_FORMS`. A time
without a zone is UTC. What is finer than a millisecond is dropped, of a number with a point rounded.

`24:00:00` is the midnight that ends the day, and second 60 of the last minute of a UTC day the first second of the next
day, as ISO 8601 and POSIX have them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wmlab.core.words import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

TimeUnit = Literal["d", "s", "ms", "us", "ns"]
"""What one tick of a numeric time column is."""
TextKind = Literal["dates", "numbers", "format"]
"""What a column of texts holds."""
Int64Array = NDArray[np.int64]
Bools = NDArray[np.bool_]

MS_PER_TICK: Final = {"d": (DAY_MS, 1), "s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
"""How many milliseconds so many ticks of each unit are."""
SAMPLE_ROWS: Final = 1_000
"""How many rows of a column decide what it holds."""

GOOD: Final = ""
NO_VALUE: Final = "has no value"
UNKNOWN_FORM: Final = "is no time of a known form"
NO_MOMENT: Final = "is a date or a time of day that does not exist"
UNKNOWN_ZONE: Final = "names a time zone that is not known"
NUMBER_AMONG_DATES: Final = "is a number in a column of dates"
DATE_AMONG_NUMBERS: Final = "is a date in a column of numbers"
OTHER_FORMAT: Final = "does not fit the format"
TOO_LARGE: Final = "is beyond 64 bits of milliseconds"
NOT_FINITE: Final = "is not a finite number"
FAULTS: Final = (
    GOOD,
    NO_VALUE,
    UNKNOWN_FORM,
    NO_MOMENT,
    UNKNOWN_ZONE,
    NUMBER_AMONG_DATES,
    DATE_AMONG_NUMBERS,
    OTHER_FORMAT,
    TOO_LARGE,
    NOT_FINITE,
)
"""Why a value is no time, after "column 'name' ...". The fault of a row is an index into this."""

BLANKS: Final = " \t\r\n"
"""What may stand before and after a time."""
_DIGITS_2: Final = "[0-9]{1,2}"
_ZONE: Final = (
    r"(?P<zone>[A-Za-z]{0,5}[ \t]?[+-][0-9]{1,2}(?::?[0-9]{2})?(?::?[0-9]{2})?|[A-Za-z]{1,5})?"
    r"(?:[ \t]*(?:\([^()]*\)|\[[^\[\]]*\]))?"
)
"""A zone, and the remark that may follow it: `+0200 (CEST)`, `+02:00[Europe/Paris]`."""


class DateForm(NamedTuple):
    """A way to write a moment. `pattern` names its parts, in the syntax that Python and Arrow share."""

    name: str
    example: str
    pattern: str


DATE_FORMS: Final = (
    DateForm(
        "ISO 8601, also with a blank for the T and with single digits",
        "2015-07-20T03:49:24.515+02:00",
        rf"^(?P<year>[0-9]{{4}})-(?P<month>{_DIGITS_2})-(?P<day>{_DIGITS_2})"
        rf"(?:(?:[Tt]|[ \t]+)(?P<hour>{_DIGITS_2})"
        rf"(?::(?P<minute>{_DIGITS_2})(?::(?P<second>{_DIGITS_2})(?:[.,](?P<fraction>[0-9]+))?)?)?[ \t]*{_ZONE})?$",
    ),
    DateForm(
        "ISO 8601 without separators",
        "20150720T034924Z",
        "^(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})[Tt](?P<hour>[0-9]{2})(?P<minute>[0-9]{2})"
        rf"(?:(?P<second>[0-9]{{2}})(?:[.,](?P<fraction>[0-9]+))?)?[ \t]*{_ZONE}$",
    ),
    DateForm(
        "RFC 2822, the date of a mail; the day of the week is not checked",
        "Mon, 20 Jul 2015 03:49:24 +0200 (CEST)",
        rf"^(?:[A-Za-z]{{3,9}},?[ \t]+)?(?P<day>{_DIGITS_2})[ \t]+(?P<month>[A-Za-z]{{3,9}})[ \t]+"
        rf"(?P<year>[0-9]{{2,4}})[ \t]+(?P<hour>{_DIGITS_2}):(?P<minute>[0-9]{{2}})"
        rf"(?::(?P<second>[0-9]{{2}}))?[ \t]*{_ZONE}$",
    ),
)
"""Every form of a date. The first that fits counts; no text fits two."""

_INTEGER: Final = r"^[+-]?[0-9]+$"
_NUMBER: Final = r"^[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?$"
_NOT_FINITE: Final = r"^[+-]?(?i:nan|inf|infinity)$"
_COMPILED: Final = tuple(re.compile(form.pattern) for form in DATE_FORMS)
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_UTC_NAMES: Final = ("", "z", "utc", "gmt", "ut")
_HOURS_OF_ZONE: Final = {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
"""The zones that RFC 2822 names; no other abbreviation has one meaning."""
_ZONE_PARTS: Final = re.compile(r"([a-z]*)[ \t]?(?:([+-])([0-9]{1,2}):?([0-9]{2})?:?([0-9]{2})?)?")
_PARTS: Final = ("year", "month", "day", "hour", "minute", "second")
_YEARS_OF_CALENDAR: Final = 400
_DAYS_OF_CALENDAR: Final = 146_097
"""The Gregorian calendar repeats itself after 400 years."""


class BadTimeError(ValueError):
    """A text that is no time; its argument is one of `FAULTS`."""


def ms_of(text: str | None, kind: TextKind, unit: TimeUnit = "ms", time_format: str | None = None) -> int:
    """The milliseconds since 1970 that `text` means in a column of that kind; raises `BadTimeError`."""
    stripped = (text or "").strip(BLANKS)
    if not stripped:
        raise BadTimeError(NO_VALUE)
    if kind == "format":
        ms = _ms_by_format(stripped, time_format or "")
        if ms is None:
            raise BadTimeError(OTHER_FORMAT)
        return ms
    parts = next((match for pattern in _COMPILED if (match := pattern.fullmatch(stripped))), None)
    if kind == "numbers":
        return _ms_of_number(stripped, unit, UNKNOWN_FORM if parts is None else DATE_AMONG_NUMBERS)
    if parts is None:
        raise BadTimeError(NUMBER_AMONG_DATES if re.match(_NUMBER, stripped) else UNKNOWN_FORM)
    return _ms_of_date({name: text_of_part or "" for name, text_of_part in parts.groupdict().items()})


def _ms_of_number(text: str, unit: TimeUnit, otherwise: str) -> int:
    ms, ticks = MS_PER_TICK[unit]
    if re.match(_INTEGER, text):
        whole_ms = int(text) * ms // ticks
        # The ticks themselves have to fit as well, as they do where the column holds numbers.
        if not (-(2**63) <= int(text) < 2**63 and -(2**63) <= whole_ms < 2**63):
            raise BadTimeError(TOO_LARGE)
        return whole_ms
    if re.match(_NUMBER, text):
        in_ms = float(text) * float(ms) / float(ticks)
        if not abs(in_ms) < 2.0**63:
            raise BadTimeError(TOO_LARGE)
        return round(in_ms)
    raise BadTimeError(NOT_FINITE if re.match(_NOT_FINITE, text) else otherwise)


def _ms_of_date(parts: Mapping[str, str]) -> int:
    year, day, hour, minute, second = (int(parts[name] or 0) for name in ("year", "day", "hour", "minute", "second"))
    month = month_of(parts["month"])
    fraction_ms = int(f"{parts.get('fraction', '')[:3]:0<3}")
    if len(parts["year"]) < 4:
        year += year_added(len(parts["year"]), year)
    offset = offset_ms(parts["zone"])
    if offset is None:
        raise BadTimeError(UNKNOWN_ZONE)
    # The calendar of Python has no year 0, nor years after 9999 where an offset would need one.
    cycles, within = divmod(year, _YEARS_OF_CALENDAR)
    try:
        day_of_cycle = date(_YEARS_OF_CALENDAR + within, month, day).toordinal()
    except ValueError:
        raise BadTimeError(NO_MOMENT) from None
    days = day_of_cycle + (cycles - 1) * _DAYS_OF_CALENDAR - date(1970, 1, 1).toordinal()
    of_minute = days * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS - offset
    ends_day = hour == 24 and not (minute or second or fraction_ms)
    is_leap = second == 60 and of_minute % DAY_MS == DAY_MS - MINUTE_MS
    if not ((hour < 24 or ends_day) and minute < 60 and (second < 60 or is_leap)):
        raise BadTimeError(NO_MOMENT)
    return of_minute + second * SECOND_MS + fraction_ms


def _ms_by_format(text: str, time_format: str) -> int | None:
    """The milliseconds of a text in a format of `datetime.strptime`; None if it does not fit."""
    try:
        moment = datetime.strptime(text, time_format)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def is_format(time_format: str) -> bool:
    """Whether `datetime.strptime` takes the format, and a text in it says which day it is."""
    days = [datetime(*day, 3, 49, 24) for day in ((2015, 7, 20), (2016, 7, 20), (2015, 8, 20), (2015, 7, 21))]
    texts = [day.replace(tzinfo=UTC).strftime(time_format) for day in days]
    moments = [_ms_by_format(text, time_format) for text in texts]
    return None not in moments and len(set(moments)) == len(days)


def month_of(text: str) -> int:
    """The number of a month, from its digits or its English name, whole or its first three letters; 0: none."""
    if not text.isalpha():
        return int(text)
    return next((number for number, name in enumerate(_MONTHS, 1) if text.lower() in (name, name[:3])), 0)


def year_added(digits: int, year: int) -> int:
    """What RFC 2822 adds to a year of fewer than four digits: 15 is 2015, 95 is 1995, and 115 is 2015."""
    return 2_000 if digits == 2 and year < 50 else 1_900


def offset_ms(zone: str) -> int | None:
    """How far the clocks of a zone are ahead of UTC; None: nobody knows.

    `Z`, `UTC`, `GMT`, an offset of up to 99 hours with or without one of them before it, and the zones of RFC 2822.
    """
    parts = _ZONE_PARTS.fullmatch(zone.lower())
    if parts is None:
        return None
    name, sign, hours, minutes, seconds = parts.groups()
    if sign is None:
        return 0 if name in _UTC_NAMES else HOUR_MS * _HOURS_OF_ZONE[name] if name in _HOURS_OF_ZONE else None
    if name not in _UTC_NAMES or int(minutes or 0) >= 60 or int(seconds or 0) >= 60:
        return None
    ahead = int(hours) * HOUR_MS + int(minutes or 0) * MINUTE_MS + int(seconds or 0) * SECOND_MS
    return -ahead if sign == "-" else ahead


def kind_of(sample: Iterable[str | None], time_format: str | None = None) -> TextKind:
    """What a column of texts holds, by its first `SAMPLE_ROWS` rows: what most of them are.

    Of equally many the format counts before dates, and dates before numbers. Where no text is any of these, it is the
    format if there is one, and else dates.
    """
    texts = [text.strip(BLANKS) for text in sample if text]
    counts: dict[TextKind, int] = {}
    if time_format is not None:
        counts["format"] = sum(_ms_by_format(text, time_format) is not None for text in texts)
    counts["dates"] = sum(any(pattern.fullmatch(text) for pattern in _COMPILED) for text in texts)
    counts["numbers"] = sum(re.match(_NUMBER, text) is not None for text in texts)
    return max(counts, key=lambda kind: counts[kind])


class Times(NamedTuple):
    """A column of times: the milliseconds since 1970, and of each row an index into `FAULTS`, 0 if it is good."""

    ms: Int64Array
    fault: NDArray[np.int8]

    @property
    def bad(self) -> Bools:
        """Which rows are no times; their `ms` says nothing."""
        return np.not_equal(self.fault, 0)


def all_ms(
    texts: pa.Array | pa.ChunkedArray, kind: TextKind, unit: TimeUnit = "ms", time_format: str | None = None
) -> Times:
    """`ms_of` for a whole column of texts, with nulls where there is none."""
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    texts = pc.utf8_trim(texts, characters=BLANKS)
    times = Times(np.zeros(len(texts), np.int64), np.full(len(texts), FAULTS.index(UNKNOWN_FORM), np.int8))
    if kind == "format":
        _put_each(times, texts, lambda text: _ms_by_format(text, time_format or ""))
    elif kind == "numbers":
        _put_numbers(times, texts, unit)
    else:
        _put_dates(times, texts)
    times.fault[_mask(pc.fill_null(pc.equal(texts, ""), True))] = FAULTS.index(NO_VALUE)
    return times


def of_ticks(ticks: pa.Array, unit: TimeUnit) -> Times:
    """A column of numbers as times: whole ones rounded down, others to the nearest millisecond."""
    times = Times(np.zeros(len(ticks), np.int64), np.full(len(ticks), FAULTS.index(NO_VALUE), np.int8))
    known = np.asarray(ticks.is_valid().to_numpy(zero_copy_only=False))
    rows, values = np.flatnonzero(known), ticks.filter(pa.array(known)).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(ticks.type):
        finite = np.isfinite(values)
        _put_floats(times, rows, np.where(finite, values, 0).astype(np.float64), unit)
        times.fault[rows[~finite]] = FAULTS.index(NOT_FINITE)
        return times
    # Only numbers without a sign can be too large already.
    fits = values < 2**63
    _put_integers(times, rows, np.where(fits, values, 0).astype(np.int64), unit)
    times.fault[rows[~fits]] = FAULTS.index(TOO_LARGE)
    return times


def _put_each(times: Times, texts: Any, rule: Callable[[str], int | None]) -> None:
    """Times by a rule for one text, which is called once for each different text."""
    encoded = pc.fill_null(texts, "").dictionary_encode()
    moments = [rule(text) for text in encoded.dictionary.to_pylist()]
    which = encoded.indices.to_numpy(zero_copy_only=False)
    times.ms[:] = np.array([ms or 0 for ms in moments], np.int64)[which]
    times.fault[:] = np.array([FAULTS.index(OTHER_FORMAT) if ms is None else 0 for ms in moments], np.int8)[which]


def _put_numbers(times: Times, texts: Any, unit: TimeUnit) -> None:
    whole = _mask(pc.match_substring_regex(texts, _INTEGER))
    # Nineteen digits may be too many for 64 bits; such texts are rare, and exact.
    short = whole & _mask(pc.less(pc.utf8_length(texts), 19))
    _put_integers(times, np.flatnonzero(short), _longs(_unsigned(texts.filter(pa.array(short)))), unit)
    broken = _mask(pc.match_substring_regex(texts, _NUMBER)) & ~whole
    floats = _unsigned(texts.filter(pa.array(broken))).cast(pa.float64()).to_numpy()
    _put_floats(times, np.flatnonzero(broken), floats, unit)
    for row in np.flatnonzero(~(short | broken)):
        try:
            times.ms[row], times.fault[row] = ms_of(texts[int(row)].as_py(), "numbers", unit), 0
        except BadTimeError as wrong:
            times.fault[row] = FAULTS.index(wrong.args[0])


def _unsigned(texts: Any) -> Any:
    """Numbers without a plus, which Arrow does not read."""
    return pc.utf8_ltrim(texts, characters="+")


def _put_integers(times: Times, rows: Int64Array, ticks: Int64Array, unit: TimeUnit) -> None:
    ms, per_ms = MS_PER_TICK[unit]
    too_large = np.abs(ticks) > (2**63 - 1) // ms
    times.ms[rows] = np.where(too_large, 0, ticks) * ms // per_ms
    times.fault[rows] = np.where(too_large, FAULTS.index(TOO_LARGE), 0)


def _put_floats(times: Times, rows: Int64Array, ticks: NDArray[np.float64], unit: TimeUnit) -> None:
    ms, per_ms = MS_PER_TICK[unit]
    with np.errstate(over="ignore"):
        in_ms = np.rint(ticks * float(ms) / float(per_ms))
    fits = np.abs(in_ms) < 2.0**63
    times.ms[rows] = np.where(fits, in_ms, 0)
    times.fault[rows] = np.where(fits, 0, FAULTS.index(TOO_LARGE))


def _put_dates(times: Times, texts: Any) -> None:
    left: Int64Array = np.arange(len(texts))
    for form in DATE_FORMS:
        parts = pc.extract_regex(texts, form.pattern)
        fits = _mask(parts.is_valid())
        _put_parts(times, left[fits], parts.filter(pa.array(fits)))
        if fits.all():
            return
        left, texts = left[~fits], texts.filter(pa.array(~fits))
    numbers = _mask(pc.fill_null(pc.match_substring_regex(texts, _NUMBER), False))
    times.fault[left[numbers]] = FAULTS.index(NUMBER_AMONG_DATES)


def _put_parts(times: Times, rows: Int64Array, parts: pa.StructArray) -> None:
    """Times of rows by the parts that a pattern has named."""
    if not len(rows):
        return
    names = [field.name for field in parts.type]
    year, day, hour, minute, second = (
        _longs(parts.field(name)) for name in ("year", "day", "hour", "minute", "second")
    )
    month = _by_text(parts.field("month"), month_of)
    fraction_ms: Int64Array = np.zeros(len(rows), np.int64)
    if "fraction" in names:
        fraction_ms = _longs(pc.utf8_rpad(pc.utf8_slice_codeunits(parts.field("fraction"), 0, 3), 3, "0"))
    digits = pc.utf8_length(parts.field("year")).to_numpy(zero_copy_only=False)
    year = year + np.where(digits < 4, np.where((digits == 2) & (year < 50), 2_000, 1_900), 0)
    offset = _by_text(parts.field("zone"), lambda zone: _NO_OFFSET if (ms := offset_ms(zone)) is None else ms)
    of_minute = _days(year, month, day) * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS - offset
    ends_day = (hour == 24) & (minute == 0) & (second == 0) & (fraction_ms == 0)
    is_leap = (second == 60) & (of_minute % DAY_MS == DAY_MS - MINUTE_MS)
    exists = (month >= 1) & (month <= 12) & (day >= 1) & (day <= _days_of_month(year, month))
    exists &= ((hour < 24) | ends_day) & (minute < 60) & ((second < 60) | is_leap)
    times.ms[rows] = of_minute + second * SECOND_MS + fraction_ms
    known = offset != _NO_OFFSET
    times.fault[rows] = np.where(known, np.where(exists, 0, FAULTS.index(NO_MOMENT)), FAULTS.index(UNKNOWN_ZONE))


_NO_OFFSET: Final = 1_000 * HOUR_MS
"""Stands for an unknown zone among the offsets of a column."""


def _days(year: Int64Array, month: Int64Array, day: Int64Array) -> Int64Array:
    """Days since 1970, by the Gregorian calendar; a year begins in March here, so that its last day may vary."""
    year = year - (month <= 2)
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - 719_468


def _days_of_month(year: Int64Array, month: Int64Array) -> Int64Array:
    is_leap_year = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    short = np.isin(month, (4, 6, 9, 11))
    return np.where(month == 2, 28 + is_leap_year, np.where(short, 30, 31))


def _longs(texts: pa.Array) -> Int64Array:
    """Digits as numbers; no digits are 0."""
    numbers: Int64Array = pc.if_else(pc.equal(texts, ""), "0", texts).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _by_text(texts: pa.Array, rule: Callable[[str], int]) -> Int64Array:
    encoded = texts.dictionary_encode()
    numbers: Int64Array = np.array([rule(text) for text in encoded.dictionary.to_pylist()], np.int64)
    by_row: Int64Array = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return by_row


def _mask(flags: pa.Array | pa.ChunkedArray) -> Bools:
    """Which entries are true; nulls are not."""
    return np.asarray(pc.fill_null(flags, False).to_numpy(zero_copy_only=False))
