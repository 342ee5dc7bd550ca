"""Durations as text: "10s", "5 min", "1 h 30 min" wherever milliseconds are taken, and shown as they were given."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from typing import Any, Final, TypeAlias

from wmlab.core.times import moment_ms
from wmlab.core.words import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, exactly, shown

UNITS: Final = {"ms": 1, "s": SECOND_MS, "min": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
"""What a unit is in milliseconds; "m" is none, since it is a month to some and a minute to others."""
FORM: Final = 'give whole milliseconds or a text such as "250ms", "10s", "5 min", "1 h 30 min" or "2 d"'
Duration: TypeAlias = int | Any
"""What type checkers know of a field of milliseconds: a number is read, and a text such as "60 s" may be given."""
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)(?![a-z])\s*")
_MOST_DIGITS: Final = 40


class GivenDuration(int):
    """Whole milliseconds, a duration or a date, that were given as text: a file and a repr show `given` again.

    In all else it is the number: it equals it, and sums and differences are plain numbers.
    """

    given: str

    def __new__(cls, ms: int, given: str) -> GivenDuration:
        """The number with its text; they are not compared."""
        made = super().__new__(cls, ms)
        made.given = given
        return made

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]  # what `__new__` takes
        return int(self), self.given

    def __repr__(self) -> str:
        return repr(self.given)

    def __str__(self) -> str:
        return int.__repr__(self)


def duration_text(ms: int) -> str:
    """A duration as it was given, if that was a text; else in words."""
    return ms.given if isinstance(ms, GivenDuration) else exactly(ms)


def ms_of_text(text: str) -> int | Fraction:
    """The milliseconds of a text; a fraction where they are not whole. Raises `ValueError` for another text."""
    body = text.strip().replace("\N{MINUS SIGN}", "-")
    sign, body = (-1, body[1:].lstrip()) if body.startswith("-") else (1, body)
    parts = list(_PART.finditer(body)) if len(body) <= _MOST_DIGITS else []
    units = [part[2] for part in parts]
    is_whole_text = "".join(part[0] for part in parts) == body != ""
    # From the largest unit to the smallest, each at most once, so that one text has one reading.
    if not is_whole_text or units != sorted(set(units), key=list(UNITS).index, reverse=True):
        raise ValueError(FORM)
    exact = sign * sum((Fraction(part[1]) * UNITS[part[2]] for part in parts), Fraction(0))
    return int(exact) if exact.denominator == 1 else exact


def duration_ms(offered: object) -> object:
    """A text or a `timedelta` as whole milliseconds; anything else as it is, for the code that checks numbers.

    Raises `ValueError` with the form to give for a text that is not a duration, or one that is not of whole
    milliseconds.
    """
    if isinstance(offered, timedelta):
        ms: int | Fraction = Fraction(offered // timedelta(microseconds=1), 1_000)
        ms = int(ms) if ms.denominator == 1 else ms
    elif isinstance(offered, str):
        ms = ms_of_text(offered)
    else:
        return offered
    if isinstance(ms, Fraction):
        raise ValueError(f"{shown(str(offered))} is not a whole number of milliseconds; {FORM}")
    return GivenDuration(ms, offered.strip()) if isinstance(offered, str) else ms


def date_or_duration_ms(offered: object) -> object:
    """A date, as text or as a `date`, in ms since 1970; in UTC if it names no zone. Anything else as `duration_ms`.

    Raises `ValueError` with the form to give for a text that is neither a date nor a duration.
    """
    if isinstance(offered, date):
        offered = offered.isoformat()
    if not isinstance(offered, str):
        return duration_ms(offered)
    try:
        return GivenDuration(moment_ms(offered), offered.strip())
    except ValueError:
        try:
            return duration_ms(offered)
        except ValueError:
            raise ValueError('give milliseconds since 1970 or a date such as "2013-07-15 09:00"') from None


def from_text(offered: object, check: Callable[[object], Any]) -> Any:
    """What a field of milliseconds holds, which `check` has checked: a text is kept with the number that it says."""
    return _keeping_text(duration_ms(offered), check)


def from_date(offered: object, check: Callable[[object], Any]) -> Any:
    """As `from_text`, of a field of milliseconds since 1970, which a date may say."""
    return _keeping_text(date_or_duration_ms(offered), check)


def _keeping_text(number: object, check: Callable[[object], Any]) -> Any:
    checked = check(int(number) if isinstance(number, GivenDuration) else number)
    return number if isinstance(number, GivenDuration) else checked
