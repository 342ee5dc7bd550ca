"""Durations as text: "10s", "5 min", "1 h 30 min" wherever milliseconds are taken, and shown as they were given."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final

from wmlab.core.words import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, exactly, shown

UNITS: Final = {"ms": 1, "s": SECOND_MS, "min": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
"""What a unit is in milliseconds; "m" is none, since it is a month to some and a minute to others."""
FORM: Final = 'give whole milliseconds or a text such as "250ms", "10s", "5 min", "1 h 30 min" or "2 d"'
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)(?![a-z])\s*")
_MOST_DIGITS: Final = 40


class GivenDuration(int):
    """Whole milliseconds that were given as text, which `given` keeps: a file and a repr show it again.

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

    Raises `ValueError` with the form to give for a text that is no duration, or one that is not of whole milliseconds.
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
