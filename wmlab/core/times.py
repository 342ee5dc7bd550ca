"""Columns of times as milliseconds since 1970: timestamps, numbers, and texts of every form that logs write.

A column of texts holds dates, numbers, or texts in a `format` of the caller. `kind_of` decides which by the first texts
of the column, so that `2015` among dates is not a number of milliseconds. pandas reads what it reads well, ISO 8601 and
formats; every other date has one of `_FORMS`, by which `moment_of` reads one text. What names no zone is local to
the `timezone` of its column, or UTC. What is finer than a millisecond is dropped, of a number with a fraction rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wmlab.core.errors import TraceError
from wmlab.core.words import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, shown

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
UNKNOWN_FORM: Final = "is not a time of a known form"
NO_MOMENT: Final = "is a date or a time of day that does not exist"
UNKNOWN_ZONE: Final = "names a time zone that is not known"
CLOCK_CHANGE: Final = "is in an hour that the clocks of its time zone skip or repeat"
NUMBER_AMONG_DATES: Final = "is a number in a column of dates"
DATE_AMONG_NUMBERS: Final = "is a date in a column of numbers"
OTHER_FORMAT: Final = "does not fit the format"
TOO_LARGE: Final = "is beyond 64 bits of milliseconds"
NOT_FINITE: Final = "is not a finite number"
NO_DURATION: Final = "is not a duration of a known form"
FAULTS: Final = (
    *(GOOD, NO_VALUE, UNKNOWN_FORM, NO_MOMENT, UNKNOWN_ZONE, CLOCK_CHANGE, NUMBER_AMONG_DATES, DATE_AMONG_NUMBERS),
    *(OTHER_FORMAT, TOO_LARGE, NOT_FINITE, NO_DURATION),
)
"""Why a value is not a time, after "column 'name' ...". The fault of a row is an index into this."""

_EPOCH: Final = datetime(1970, 1, 1)
_BLANKS: Final = " \t\r\n\N{NO-BREAK SPACE}"
"""What may stand before and after a time."""


class BadTimeError(ValueError):
    """A text that is not a time; its argument is one of `FAULTS`."""


@dataclass(frozen=True, slots=True)
class TimeForm:
    """How a column of a log writes its times.

    `unit` is that of numbers, which count from `origin`, a date (None: 1970). `format` is that of texts, as of
    `datetime.strptime`, or several; of those that read a text the first counts. `timezone` is the IANA name of the zone
    of what names none (None: UTC): texts, timestamps without a zone, and numbers that count from an origin. Raises
    `TraceError` for anything else.
    """

    unit: TimeUnit = "ms"
    format: str | Sequence[str] | None = None
    timezone: str | None = None
    origin: str | None = None

    def __post_init__(self) -> None:
        if self.unit not in get_args(TimeUnit):
            raise TraceError(f"unit is {shown(self.unit)}.", remedy="give one of 'd', 's', 'ms', 'us', 'ns'.")
        for name in ("timezone", "origin"):
            if not isinstance(getattr(self, name), str | None):
                raise TraceError(f"{name} is {shown(getattr(self, name))}.", remedy="give a text.")
        given = self.format if isinstance(self.format, list | tuple) else self.formats
        if (self.format is not None and not given) or not all(isinstance(each, str) for each in given):
            raise TraceError(f"format is {shown(self.format)}.", remedy="give a text, or a list of texts.")
        object.__setattr__(self, "format", tuple(given) if isinstance(self.format, list) else self.format)
        if wrong := [each for each in given if not _gives_a_day(each)]:
            raise TraceError(
                f"format is {wrong[0]!r}, which does not give a day.",
                remedy="give directives of Python's strptime, with year, month and day: '%d/%m/%Y %H:%M:%S'.",
            )
        if self.timezone is not None and _zone_of(self.timezone) is None:
            raise TraceError(
                f"timezone is {self.timezone!r}, which is not known.",
                remedy="give the name of a place in the IANA database, such as 'Europe/Berlin', or 'UTC'.",
            )
        if self.origin is not None:
            try:
                moment_of(self.origin)
            except BadTimeError as wrong:
                raise TraceError(
                    f"origin is {self.origin!r}, which {wrong}.",
                    remedy="give the date that has the number 0; that of spreadsheets is '1899-12-30'.",
                ) from None

    @property
    def formats(self) -> tuple[Any, ...]:
        """The formats of texts, none or some."""
        if isinstance(self.format, list | tuple):
            return tuple(self.format)
        return () if self.format is None else (self.format,)

    @property
    def origin_ms(self) -> int:
        """What the number 0 is, in ms since 1970."""
        return 0 if self.origin is None else moment_of(self.origin)[0]


_WEEKDAYS: Final = frozenset("aAuw")
_DAY_DIRECTIVES: Final = (
    *((frozenset("c"),), (frozenset("x"),)),
    *((frozenset("Yy"), frozenset("bBm"), frozenset("d")), (frozenset("Yy"), frozenset("j"))),
    *((frozenset("Yy"), frozenset("UW"), _WEEKDAYS), (frozenset("G"), frozenset("V"), _WEEKDAYS)),
)
"""The directives that give a day together: of each set one."""


def _names_a_day(time_format: str) -> bool:
    """Whether the directives of a format give a year and a day of it.

    Python is not asked: of a day of the month without a year it warns, and from 3.15 on it refuses that.
    """
    directives = set(re.findall("%(.)", time_format, re.DOTALL))
    if "d" in directives and not directives & set("GYy"):
        return False
    return any(all(directives & one_of for one_of in together) for together in _DAY_DIRECTIVES)


def _gives_a_day(time_format: str) -> bool:
    """Whether the format is one, and a text in it says which day it is."""
    if not _names_a_day(time_format):
        return False
    days = [datetime(*day, 3, 49, 24) for day in ((2015, 7, 20), (2016, 7, 20), (2015, 8, 20), (2015, 7, 21))]
    moments = [_by_format(day.replace(tzinfo=UTC).strftime(time_format), time_format) for day in days]
    return None not in moments and len(set(moments)) == len(days)


@lru_cache(maxsize=256)
def _zone_of(name: str) -> ZoneInfo | None:
    """A zone of the IANA database."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


class Times(NamedTuple):
    """A column of times: ms since 1970; of each row an index into `FAULTS`, 0 if it is good; and whether it was local,
    in the clock of a zone that it does not name."""

    ms: Int64Array
    fault: NDArray[np.int8]
    local: Bools

    @classmethod
    def nothing(cls, rows: int, fault: str) -> Times:
        """So many rows that are not times."""
        return cls(np.zeros(rows, np.int64), np.full(rows, FAULTS.index(fault), np.int8), np.zeros(rows, np.bool_))

    @property
    def bad(self) -> Bools:
        """Which rows are not times; their `ms` says nothing."""
        return np.not_equal(self.fault, 0)

    def put(self, rows: Any, ms: Any, *, local: Any = False) -> None:
        """Write good times into some rows, by a mask or by numbers."""
        self.ms[rows], self.fault[rows], self.local[rows] = ms, 0, local

    def refuse(self, rows: Any, fault: str) -> None:
        """Write a fault into some rows."""
        self.fault[rows] = FAULTS.index(fault)


def of_column(column: Any, name: str, form: TimeForm, kind: TextKind) -> Times:
    """A column of Arrow as times; `kind` says what one of texts holds. Raises `TraceError` for any other type."""
    column = _plain(column)
    arrow = column.type
    if pa.types.is_decimal(arrow) or (pa.types.is_integer(arrow) and kind == "format"):
        column, arrow = column.cast(pa.string()), pa.string()
    if pa.types.is_string(arrow):
        times = _of_texts(pc.utf8_trim(column, characters=_BLANKS), form, kind)
    elif pa.types.is_date(arrow):
        times = _of_ticks(column.cast(pa.timestamp("ms")).cast(pa.int64()), "ms", local=True)
    elif pa.types.is_timestamp(arrow):
        times = _of_ticks(column.cast(pa.int64()), arrow.unit, local=arrow.tz is None)
    elif pa.types.is_integer(arrow) or pa.types.is_floating(arrow):
        times = _from_origin(_of_ticks(column, form.unit), form)
    elif pa.types.is_null(arrow):
        times = Times.nothing(len(column), NO_VALUE)
    else:
        raise TraceError(
            f"column {name!r} holds {arrow}, not times.",
            remedy="give numbers since 1970 with their unit, or dates and times, as texts or timestamps.",
        )
    return times if form.timezone is None else _in_utc(times, form.timezone)


def of_durations(column: Any, name: str, unit: TimeUnit) -> Times:
    """A column of durations in ms: numbers of `unit`, durations of Arrow, or texts as `pandas.to_timedelta` reads them.

    Raises `TraceError` for any other type.
    """
    column = _plain(column)
    arrow = column.type
    if pa.types.is_time(arrow):
        column, arrow = column.cast(pa.int64() if pa.types.is_time64(arrow) else pa.int32()), pa.duration(arrow.unit)
    if pa.types.is_duration(arrow):
        return _of_ticks(column.cast(pa.int64()), arrow.unit)
    if pa.types.is_string(arrow):
        texts = pc.utf8_trim(column, characters=_BLANKS)
        times = _of_numbers(texts, unit)
        rest = np.flatnonzero(times.bad & (times.fault != FAULTS.index(NO_VALUE)))
        lengths = pd.to_timedelta(texts.take(pa.array(rest)).to_pandas(), errors="coerce")
        known = lengths.notna().to_numpy()
        times.refuse(rest, NO_DURATION)
        times.put(rest[known], lengths[known].to_numpy().astype("timedelta64[ms]").astype(np.int64))
        return times
    if any(pa.types.is_temporal(arrow) or test(arrow) for test in (pa.types.is_boolean, pa.types.is_nested)):
        raise TraceError(f"column {name!r} holds {arrow}, not durations.", remedy="give numbers, with their unit.")
    return of_column(column, name, TimeForm(unit), "numbers")


def _plain(column: Any) -> Any:
    """A column in one piece, texts of every type as the one that all functions take."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return column.cast(pa.string() if text else kind)


def _of_texts(texts: Any, form: TimeForm, kind: TextKind) -> Times:
    if kind == "numbers":
        times = _from_origin(_of_numbers(texts, form.unit), form)
        among = np.flatnonzero(times.fault == FAULTS.index(UNKNOWN_FORM))
        dates = _of_dates(texts.take(pa.array(among)))
        times.refuse(among[dates.fault != FAULTS.index(UNKNOWN_FORM)], DATE_AMONG_NUMBERS)
    elif kind == "format":
        times = _of_format(texts, form.formats[0])
        for each in form.formats[1:]:
            rest = np.flatnonzero(times.bad)
            more = _of_format(texts.take(pa.array(rest)), each)
            _put(times, times.bad, more)
    else:
        times = _of_dates(texts)
        is_number = _mask(pc.match_substring_regex(texts, _NUMBER))
        times.refuse(is_number & (times.fault == FAULTS.index(UNKNOWN_FORM)), NUMBER_AMONG_DATES)
    times.refuse(_is_missing(texts), NO_VALUE)
    return times


_NONE: Final = ("", "na", "n/a", "nan", "nat", "none", "null", r"\n", "<na>")
"""What exports write, in any case, where there is no value."""


def _is_missing(texts: Any) -> Bools:
    short = pc.fill_null(pc.less_equal(pc.utf8_length(texts), max(map(len, _NONE))), True)
    missing = _mask(short)
    few = pc.utf8_lower(pc.fill_null(texts.filter(short), ""))
    missing[missing] = _mask(pc.is_in(few, pa.array(_NONE)))
    return missing


# Numbers.

_NUMBER: Final = r"^[+-]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?$"
_THOUSANDS: Final = r"^[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+$"
"""A comma that may part thousands as well as a fraction."""
_WHOLE: Final = r"^[+-]?(?:[0-9]{1,18}|[1-8][0-9]{18})$"
"""A whole number that 64 bits have for certain."""
_NOT_FINITE: Final = r"^[+-]?(?i:nan|inf|infinity)$"


def _of_numbers(texts: Any, unit: TimeUnit) -> Times:
    """Texts of numbers: whole ones exact, whatever their size."""
    times = Times.nothing(len(texts), UNKNOWN_FORM)
    ambiguous = _mask(pc.match_substring_regex(texts, _THOUSANDS))
    points = pc.replace_substring_regex(pc.replace_substring(texts, ",", "."), r"[.]0*$", "")
    unsigned = pc.utf8_ltrim(points, characters="+")
    whole = _mask(pc.match_substring_regex(points, _WHOLE)) & ~ambiguous
    _put(times, whole, _of_ticks(unsigned.filter(pa.array(whole)).cast(pa.int64()), unit))
    rest = _mask(pc.match_substring_regex(points, _NUMBER)) & ~whole & ~ambiguous
    long = rest & _mask(pc.match_substring_regex(points, "^[+-]?[0-9]+$"))
    broken = rest & ~long
    _put(times, broken, _of_ticks(unsigned.filter(pa.array(broken)).cast(pa.float64()), unit))
    times.refuse(broken & times.bad, TOO_LARGE)
    for row in np.flatnonzero(long).tolist():
        ms, per_ms = MS_PER_TICK[unit]
        ticks = int(points[row].as_py())
        if -(2**63) <= ticks < 2**63 and -(2**63) <= ticks * ms // per_ms < 2**63:
            times.put(row, ticks * ms // per_ms)
        else:
            times.refuse(row, TOO_LARGE)
    times.refuse(_mask(pc.match_substring_regex(texts, _NOT_FINITE)), NOT_FINITE)
    times.refuse(_is_missing(texts), NO_VALUE)
    return times


def _of_ticks(ticks: Any, unit: str, *, local: bool = False) -> Times:
    """A column of numbers: whole ones rounded down, others to the nearest millisecond."""
    times = Times.nothing(len(ticks), NO_VALUE)
    known = np.asarray(ticks.is_valid().to_numpy(zero_copy_only=False))
    values = ticks.filter(pa.array(known)).to_numpy(zero_copy_only=False)
    ms, per_ms = MS_PER_TICK[unit]
    fault: NDArray[np.int8] = np.zeros(len(values), np.int8)
    if pa.types.is_floating(ticks.type):
        with np.errstate(over="ignore", invalid="ignore"):
            in_ms = np.rint(values.astype(np.float64) * float(ms) / float(per_ms))
            fault[~(np.abs(in_ms) < 2.0**63)] = FAULTS.index(TOO_LARGE)
        fault[~np.isfinite(values)] = FAULTS.index(NOT_FINITE)
        whole = np.where(fault != 0, 0, in_ms).astype(np.int64)
    else:
        most = (2**63 - 1) // ms
        # Only numbers without a sign can be too large already.
        fault[(values > most) | (values < -most)] = FAULTS.index(TOO_LARGE)
        whole = np.where(fault != 0, 0, values).astype(np.int64) * ms // per_ms
    times.ms[known], times.fault[known], times.local[known] = whole, fault, local
    return times


def _put(times: Times, rows: Bools, some: Times) -> None:
    times.ms[rows], times.fault[rows], times.local[rows] = some.ms, some.fault, some.local


def _from_origin(times: Times, form: TimeForm) -> Times:
    """Numbers that count from an origin, which are local, as times."""
    if form.origin is None:
        return times
    far = np.abs(times.ms.astype(np.float64) + form.origin_ms) >= 2.0**63
    times.refuse(far & ~times.bad, TOO_LARGE)
    return Times(np.where(far, 0, times.ms + form.origin_ms), times.fault, ~times.bad)


# Dates.

_ISO: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]+)?)?"
_ISO_LOCAL: Final = _ISO + ")?$"
_ISO_ZONED: Final = _ISO + "(?:Z| ?[+-][0-9]{2}:?[0-9]{2}))$"


def _of_dates(texts: Any) -> Times:
    """Texts of dates: those of ISO 8601 by pandas, each other different text by `moment_of`."""
    times = Times.nothing(len(texts), UNKNOWN_FORM)
    zulu = texts
    if pc.any(pc.or_(pc.ends_with(texts, "UTC"), pc.ends_with(texts, "GMT"))).as_py():
        zulu = pc.replace_substring_regex(texts, "[ ]?(?:UTC|GMT)$", "Z")
    # Apart, because pandas reads a text without a zone in the zone of the row before it.
    for pattern, local in ((_ISO_ZONED, False), (_ISO_LOCAL, True)):
        rows = np.flatnonzero(_mask(pc.match_substring_regex(zulu, pattern)))
        some = zulu if len(rows) == len(zulu) else zulu.take(pa.array(rows))
        _put_pandas(times, rows, pd.to_datetime(some.to_pandas(), format="ISO8601", utc=True, errors="coerce"), local)
    _put_each(times, texts, moment_of)
    return times


def _of_format(texts: Any, time_format: str) -> Times:
    """Texts in a format: by pandas, and beyond the years that it has by `datetime.strptime`."""
    times = Times.nothing(len(texts), UNKNOWN_FORM)
    local = "%z" not in time_format and "%Z" not in time_format
    try:
        # Times of day that pandas admits, such as %H:%M of a text without minutes, are judged below.
        dates = pd.to_datetime(texts.to_pandas(), format=time_format, utc=True, errors="coerce")
        _put_pandas(times, np.arange(len(texts)), dates, local)
    except ValueError:
        pass  # a directive of strptime that pandas does not know

    def moment(text: str) -> tuple[int, bool]:
        ms = _by_format(text, time_format)
        if ms is None:
            raise BadTimeError(OTHER_FORMAT)
        return ms, local

    _put_each(times, texts, moment)
    return times


def _by_format(text: str, time_format: str) -> int | None:
    """The milliseconds of a text in a format of `datetime.strptime`; None if it does not fit."""
    try:
        moment = datetime.strptime(text, time_format)
        return (moment.replace(tzinfo=None) - _EPOCH - (moment.utcoffset() or timedelta())) // timedelta(milliseconds=1)
    except (ValueError, OverflowError, re.error):  # the last of a directive that stands twice
        return None


def _put_pandas(times: Times, rows: Int64Array, dates: Any, local: bool) -> None:
    known = dates.notna().to_numpy()
    moments = dates.dt.tz_localize(None).to_numpy()[known].astype("datetime64[ms]").astype(np.int64)
    times.put(rows[known], moments, local=local)


def _put_each(times: Times, texts: Any, rule: Callable[[str], tuple[int, bool]]) -> None:
    """Write into the rows that are not times yet what a rule makes of each different text."""
    rows = np.flatnonzero(times.bad)
    encoded = pc.fill_null(texts.take(pa.array(rows)), "").dictionary_encode()
    moments, faults, locals_ = [], [], []
    for text in encoded.dictionary.to_pylist():
        try:
            (ms, local), fault = rule(text), GOOD
        except BadTimeError as wrong:
            ms, local, fault = 0, False, wrong.args[0]
        moments.append(ms)
        locals_.append(local)
        faults.append(FAULTS.index(fault))
    which = encoded.indices.to_numpy(zero_copy_only=False)
    times.ms[rows] = np.array(moments, np.int64)[which]
    times.fault[rows] = np.array(faults, np.int8)[which]
    times.local[rows] = np.array(locals_, np.bool_)[which]


def _in_utc(times: Times, timezone: str) -> Times:
    """Local times of a zone as times; those that its clocks skip or repeat are none."""
    rows = np.flatnonzero(times.local & ~times.bad)
    clocks = pd.DatetimeIndex(times.ms[rows].astype("datetime64[ms]"))
    zoned = clocks.tz_localize(timezone, ambiguous="NaT", nonexistent="NaT").tz_convert("UTC").tz_localize(None)
    known: Bools = np.asarray(zoned.notna())
    times.put(rows[known], zoned[known].to_numpy().astype("datetime64[ms]").astype(np.int64), local=True)
    times.refuse(rows[~known], CLOCK_CHANGE)
    return times


def _mask(flags: Any) -> Bools:
    """Which entries are true; nulls are not. The array may be written to."""
    return np.array(pc.fill_null(flags, False).to_numpy(zero_copy_only=False))


# One text.

_WEEKDAY: Final = r"(?:[A-Za-z]{3,9}\.?,?[ \t]*)?"
_MONTH: Final = r"(?P<month>[A-Za-z]{3,9})\.?"
_CLOCK: Final = (
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:[.,](?P<fraction>[0-9]+))?)?)?"
    r"(?:[ \t]*(?P<half>[AaPp])\.?[Mm]\.?)?"
)
_NAME: Final = r"[A-Za-z][A-Za-z./_-]*(?: [A-Za-z./_-]+)*"
_ZONE: Final = (
    rf"[ \t]*(?P<zone>{_NAME})?[ \t]?(?P<offset>[+-]{{1,2}}[0-9]{{1,2}}(?::?[0-9]{{2}}){{0,2}}(?:[ \t]+[A-Z]{{1,5}})?)?"
    r"(?P<remark>[ \t]*(?:\(.*\)|\[[^\[\]]*\]))?"
)
"""A zone by name, by offset or both, and remarks behind it: `+0200 (CEST)`, `+02:00[Europe/Paris]`, `EST`."""


_FORMS: Final = tuple(
    map(
        re.compile,
        (
            # ISO 8601, also with slashes or points, a blank for the T, and single digits:
            # "2015-07-20T03:49:24.515+02:00".
            r"(?P<year>[0-9]{4})(?P<sep>[-/.])(?P<month>[0-9]{1,2}|[A-Za-z]{3,9})(?P=sep)(?P<day>[0-9]{1,2})"
            rf"(?:(?:[Tt_]|,?[ \t]+){_CLOCK}{_ZONE})?",
            # ISO 8601 without separators: "20150720T034924Z".
            r"(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})(?:[Tt_]|[ \t]+)(?P<hour>[0-9]{2})"
            rf":?(?P<minute>[0-9]{{2}})(?::?(?P<second>[0-9]{{2}})(?:[.,](?P<fraction>[0-9]+))?)?{_ZONE}",
            # RFC 2822, the date of a mail, and that of web servers; the day of the week is not checked:
            # "Mon, 20 Jul 2015 03:49:24 +0200 (CEST)".
            rf"{_WEEKDAY}(?P<day>[0-9]{{1,2}})[ \t/-]+{_MONTH},?[ \t/-]+(?P<year>[0-9]{{2,4}})"
            rf"(?:(?:,|:|T|[ \t])[ \t]*{_CLOCK}{_ZONE})?",
            # asctime, also with a zone: "Mon Jul 20 03:49:24 CEST 2015".
            rf"{_WEEKDAY}{_MONTH}[ \t]+(?P<day>[0-9]{{1,2}}),?[ \t]+{_CLOCK}"
            rf"(?:[ \t]+(?P<zone_inside>{_NAME}))?[ \t]+(?P<year>[0-9]{{4}}){_ZONE}",
            # The month first, by name: "July 20, 2015 03:49:24 PM".
            rf"{_WEEKDAY}{_MONTH}[ \t]+(?P<day>[0-9]{{1,2}}),?[ \t]+(?P<year>[0-9]{{4}})(?:,?[ \t]+{_CLOCK}{_ZONE})?",
        ),
    )
)
"""Every form of a date, with names of its parts. The first that fits counts; no text fits two."""
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_HOURS_OF_PLACE: Final = {"eastern": -5, "central": -6, "mountain": -7, "pacific": -8, "gmt": 0} | dict.fromkeys(
    ("w. europe", "central europe", "romance"), 1
)
"""Hours ahead of UTC in winter, by the places of "Eastern Standard Time" and the like."""
_HOURS_OF_ZONE: Final[dict[str, float]] = (
    dict.fromkeys(("z", "utc", "gmt", "ut", "wet", "greenwich mean time", "coordinated universal time"), 0)
    | {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
    | {"akst": -9, "akdt": -8, "hst": -10, "west": 1, "cet": 1, "cest": 2, "met": 1, "mest": 2, "met dst": 2}
    | {"mez": 1, "mesz": 2, "eet": 2, "eest": 3, "msk": 3, "sast": 2, "hkt": 8, "sgt": 8, "awst": 8, "jst": 9, "kst": 9}
    | {"acst": 9.5, "acdt": 10.5, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13}
    | {"central european time": 1, "central european summer time": 2}
    | {
        f"{place} {season} time": hours + summer
        for place, hours in _HOURS_OF_PLACE.items()
        for season, summer in (("standard", 0), ("daylight", 1))
    }
)
"""Hours ahead of UTC by what mails and programs call a zone. A name that has two meanings, as BST or IST, has none."""
_OFFSET: Final = re.compile(r"\+?([+-])([0-9]{1,2}):?([0-9]{2})?:?([0-9]{2})?(?![0-9])")


def moment_of(text: str) -> tuple[int, bool]:
    """What one text of a date means: ms since 1970, and whether it is local, because it names no zone.

    Raises `BadTimeError`.
    """
    match = next((match for pattern in _FORMS if (match := pattern.fullmatch(text.strip(_BLANKS)))), None)
    if match is None:
        raise BadTimeError(UNKNOWN_FORM)
    parts = {name: part or "" for name, part in match.groupdict().items()}
    clock = _clock_of(parts)
    ms = (clock - _EPOCH) // timedelta(milliseconds=1)
    zone = parts.get("zone_inside") or parts.get("zone", "")
    if parts.get("offset"):
        if zone and _HOURS_OF_ZONE.get(zone.lower()) != 0:
            raise BadTimeError(UNKNOWN_ZONE)
        return ms - _offset_ms(parts["offset"]), False
    if zone:
        ahead_ms = _ahead_ms(zone, clock)
        if ahead_ms is None:
            raise BadTimeError(UNKNOWN_ZONE)
        return ms - ahead_ms, False
    # Behind a time without a zone, a remark may name it.
    remark = re.split(r"[()\[\]]", parts.get("remark", "") + "()")[1]
    ahead_ms = _ahead_ms(remark, clock) if remark else None
    return (ms, True) if ahead_ms is None else (ms - ahead_ms, False)


def _clock_of(parts: Mapping[str, str]) -> datetime:
    """The day and the time of day that the parts of a text name; 24:00 is the midnight that ends the day."""
    day, year, hour, minute, second = (
        int(parts.get(name) or 0) for name in ("day", "year", "hour", "minute", "second")
    )
    if len(parts["year"]) < 4:
        year += year_added(len(parts["year"]), year)
    if parts.get("half"):
        hour = hour % 12 + 12 * (parts["half"] in "Pp") if 1 <= hour <= 12 else 99
    fraction_ms = int(f"{parts.get('fraction', '')[:3]:0<3}")
    ends_day = hour == 24 and not (minute or second or fraction_ms)
    try:
        clock = datetime(year, month_of(parts["month"]), day, 0 if ends_day else hour, minute, second)
        return clock + timedelta(days=ends_day, milliseconds=fraction_ms)
    except (ValueError, OverflowError):
        raise BadTimeError(NO_MOMENT) from None


def month_of(text: str) -> int:
    """The number of a month, from its digits or the first letters of its English name, three or more; 0: none."""
    if not text.isalpha():
        return int(text)
    return next((number for number, name in enumerate(_MONTHS, 1) if name.startswith(text.lower())), 0)


def year_added(digits: int, year: int) -> int:
    """What RFC 2822 adds to a year of fewer than four digits: 15 is 2015, 95 is 1995, and 115 is 2015."""
    return 2_000 if digits == 2 and year < 50 else 1_900


def _offset_ms(text: str) -> int:
    """How far an offset is ahead of UTC: "+02:00", "-0500", or "+-0500", as some mailers write it."""
    parts = _OFFSET.match(text)
    if parts is None:
        raise BadTimeError(UNKNOWN_ZONE)
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()[1:])
    if minutes >= 60 or seconds >= 60:
        raise BadTimeError(UNKNOWN_ZONE)
    ahead = hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS
    return -ahead if parts[1] == "-" else ahead


def _ahead_ms(name: str, clock: datetime) -> int | None:
    """How far the clocks of a zone are ahead of UTC when they show that; None: no such zone is known."""
    hours = _HOURS_OF_ZONE.get(name.lower())
    if hours is not None:
        return round(hours * HOUR_MS)
    zone = _zone_of(name) if "/" in name else None
    if zone is None:
        return None
    first, second = (clock.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    if first is None or first != second:
        raise BadTimeError(CLOCK_CHANGE)
    return first // timedelta(milliseconds=1)


def kind_of(sample: Iterable[str | None], formats: Sequence[str] = ()) -> TextKind:
    """What a column of texts holds, by its first `SAMPLE_ROWS` rows: what most of them are.

    Of equally many the format counts before dates, and dates before numbers. Where no text is any of these, it is the
    format if there is one, and else dates.
    """
    texts = [text.strip(_BLANKS) for text in sample if text]
    counts: dict[TextKind, int] = {}
    if formats:
        # A date of digits alone is a number as well, but counts once.
        others = [text for text in texts if all(_by_format(text, each) is None for each in formats)]
        counts["format"], texts = len(texts) - len(others), others
    counts["dates"] = sum(any(pattern.fullmatch(text) for pattern in _FORMS) for text in texts)
    counts["numbers"] = sum(re.match(_NUMBER, text) is not None for text in texts)
    return max(counts, key=lambda kind: counts[kind])


def text_form(texts: Any, good: Bools) -> str:
    """What engines need to know of the good texts: "text" of ISO 8601 in UTC or a local time, "minutes" if some have no
    seconds, "offset" with one, or "other"."""
    texts = pc.utf8_trim(_plain(texts), characters=_BLANKS)
    is_local, is_zoned = (_mask(pc.match_substring_regex(texts, pattern)) for pattern in (_ISO_LOCAL, _ISO_ZONED))
    if (is_local | (is_zoned & _mask(pc.ends_with(texts, "Z"))) | ~good).all():
        is_short = _mask(pc.match_substring_regex(texts, "[T ][0-9]{2}:[0-9]{2}Z?$")) & good
        return "minutes" if is_short.any() else "text"
    return "offset" if (is_local | is_zoned | ~good).all() else "other"


def is_time(text: str) -> bool:
    """Whether a text is a number or a date, and so hardly a name."""
    return bool(re.match(_NUMBER, text)) or any(pattern.fullmatch(text) for pattern in _FORMS)


def moment_ms(text: str) -> int:
    """The ms since 1970 of one date, UTC if it names no zone; raises `BadTimeError`, which is a `ValueError`."""
    return moment_of(text)[0]


# Formats that a log may have.

_DAYS: Final = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%b-%y"),
)
_CLOCKS: Final = (
    *("", " %H:%M:%S", " %H:%M:%S.%f", " %H:%M", "T%H:%M:%S", "T%H:%M:%S.%f"),
    *(" %I:%M:%S %p", " %I:%M %p"),
)
_FORMATS_MOST: Final = 4


class FormatSeen(NamedTuple):
    """A format that reads some texts of a column, how many of them, and one of the other order that reads as many."""

    format: str
    rows: int
    twin: str | None


def formats_seen(texts: Iterable[str | None]) -> list[FormatSeen]:
    """The usual formats that read the texts, each with how many of those it reads that none before it does.

    The one that reads most comes first, or nothing if no usual format reads any.
    """
    rest = pd.Series([text.strip(_BLANKS) for text in texts if text and text.strip(_BLANKS)], dtype="object")
    seen: list[FormatSeen] = []
    while len(rest) and len(seen) < _FORMATS_MOST:
        few = rest.drop_duplicates().head(SAMPLE_ROWS)
        likely = [each for day in _DAYS for each in (day + clock for clock in _CLOCKS) if _reads(few, each).any()]
        counts = {each: int(_reads(rest, each).sum()) for each in likely}
        if not counts:
            break
        best = max(counts, key=lambda each: counts[each])
        reads = _reads(rest, best)
        twins = (each for each in likely if each != best and (_reads(rest, each) == reads).all())
        seen.append(FormatSeen(best, counts[best], next(twins, None)))
        rest = rest[~reads]
    return seen


def _reads(texts: Any, time_format: str) -> Any:
    return pd.to_datetime(texts, format=time_format, errors="coerce").notna()
